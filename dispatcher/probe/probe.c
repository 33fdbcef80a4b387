/* What `pcmctl doctor` runs as ranks of a job: which MPI is in use, how fast messages are inside a world and between
 * two worlds, and whether worlds can meet and part again and again. One JSON object a line. Must never hang: the
 * accepting and connecting calls have a timeout, and SIGALRM ends everything else. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SMALL_ROUNDS = 2000, WARM_ROUNDS = 200, LARGE_BYTES = 4 << 20, LARGE_ROUNDS = 20, MEET_SECONDS = 10 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void bounce(MPI_Comm comm, int peer, int first, char *buffer, int bytes, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        if (first) {
            MPI_Send(buffer, bytes, MPI_BYTE, peer, 1, comm);
            MPI_Recv(buffer, bytes, MPI_BYTE, peer, 1, comm, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buffer, bytes, MPI_BYTE, peer, 1, comm, MPI_STATUS_IGNORE);
            MPI_Send(buffer, bytes, MPI_BYTE, peer, 1, comm);
        }
    }
}

/* Half round trip of one byte and bandwidth of large messages between two ranks; the first one reports. */
static void measure(const char *what, MPI_Comm comm, int peer, int first)
{
    char *buffer = malloc(LARGE_BYTES);
    if (buffer == NULL)
        MPI_Abort(MPI_COMM_WORLD, 3);
    memset(buffer, 1, LARGE_BYTES);
    bounce(comm, peer, first, buffer, 1, WARM_ROUNDS);
    double begun = now();
    bounce(comm, peer, first, buffer, 1, SMALL_ROUNDS);
    double small = (now() - begun) / SMALL_ROUNDS / 2;
    bounce(comm, peer, first, buffer, LARGE_BYTES, 2);
    begun = now();
    bounce(comm, peer, first, buffer, LARGE_BYTES, LARGE_ROUNDS);
    double large = (now() - begun) / LARGE_ROUNDS / 2;
    if (first)
        printf("{\"%s\":{\"latency_us\":%.3f,\"bandwidth_gb_s\":%.3f}}\n", what, small * 1e6,
               LARGE_BYTES / large / 1e9);
    free(buffer);
}

static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value != NULL ? value : "";
}

/* The library that is really loaded and whether ranks share memory, by the map of this process. */
static void print_library(void)
{
    char line[4096], path[4096] = "", version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0, shared = 0;
    MPI_Get_library_version(version, &length);
    for (char *c = version; *c; c++)
        if (*c == '\n' || *c == '\t' || *c == '"' || *c == '\\')
            *c = ' ';
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        char *slash = strchr(line, '/');
        if (slash == NULL)
            continue;
        slash[strcspn(slash, "\n")] = 0;
        if (path[0] == 0 && strstr(slash, "/libmpi") != NULL)
            snprintf(path, sizeof path, "%s", slash);
        shared |= strncmp(slash, "/dev/shm/", 9) == 0;
    }
    printf("{\"library\":{\"version\":\"%s\",\"path\":\"%s\",\"shared_memory\":%s,"
           "\"netmod\":\"%s\",\"provider\":\"%s\"}}\n",
           version, path, shared ? "true" : "false", environment("MPIR_CVAR_CH4_NETMOD"), environment("FI_PROVIDER"));
    if (maps != NULL)
        fclose(maps);
}

static void inside(int rank, int size)
{
    if (size >= 2 && rank < 2)
        measure("inside", MPI_COMM_WORLD, 1 - rank, rank == 0);
    if (rank == 0)
        print_library();
}

static void write_port(const char *file, const char *port)
{
    char fresh[4096];
    snprintf(fresh, sizeof fresh, "%s.new", file);
    FILE *out = fopen(fresh, "w");
    if (out == NULL || fputs(port, out) < 0 || fclose(out) != 0 || rename(fresh, file) != 0) {
        fprintf(stderr, "pcm-probe: cannot write %s\n", file);
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
}

static void read_port(const char *file, char *port)
{
    for (double end = now() + MEET_SECONDS; now() < end; usleep(1000)) {
        FILE *in = fopen(file, "r");
        if (in == NULL)
            continue;
        size_t length = fread(port, 1, MPI_MAX_PORT_NAME - 1, in);
        fclose(in);
        port[length] = 0;
        return;
    }
    fprintf(stderr, "pcm-probe: no port appeared in %s\n", file);
    MPI_Abort(MPI_COMM_WORLD, 5);
}

/* A message from any source that comes from the other world; 1 when it arrived whole. */
static int any_source(MPI_Comm comm, int accepts)
{
    int value = 0;
    if (accepts) {
        MPI_Status status;
        MPI_Request request;
        int done = 0;
        MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 2, comm, &request);
        for (double end = now() + MEET_SECONDS; !done && now() < end;)
            MPI_Test(&request, &done, &status);
        if (!done)
            return 0;
        MPI_Send(&value, 1, MPI_INT, 0, 3, comm);
    } else {
        value = 4711;
        MPI_Send(&value, 1, MPI_INT, 0, 2, comm);
        MPI_Recv(&value, 1, MPI_INT, 0, 3, comm, MPI_STATUS_IGNORE);
    }
    return value == 4711;
}

/* Two worlds of one rank meet, measure in the first round, and part, `rounds` times. */
static int between(int accepts, const char *file, int rounds)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "timeout", "10");
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (accepts) {
        if (MPI_Open_port(MPI_INFO_NULL, port) != MPI_SUCCESS) {
            printf("{\"open_port\":false}\n");
            return 6;
        }
        write_port(file, port);
    } else {
        read_port(file, port);
    }
    double worst = 0, sum = 0;
    for (int i = 0; i < rounds; i++) {
        MPI_Comm other;
        double begun = now();
        int result = accepts ? MPI_Comm_accept(port, info, 0, MPI_COMM_SELF, &other)
                             : MPI_Comm_connect(port, info, 0, MPI_COMM_SELF, &other);
        double took = now() - begun;
        if (result != MPI_SUCCESS) {
            printf("{\"meet\":{\"rounds\":%d,\"failed_in_round\":%d}}\n", rounds, i + 1);
            return 7;
        }
        worst = took > worst ? took : worst;
        sum += took;
        if (i == 0) {
            measure("between", other, 0, accepts);
            int arrived = any_source(other, accepts);
            if (accepts)
                printf("{\"any_source\":%s}\n", arrived ? "true" : "false");
            fflush(stdout);
        }
        MPI_Comm_disconnect(&other);
    }
    if (accepts) {
        printf("{\"meet\":{\"rounds\":%d,\"mean_ms\":%.3f,\"worst_ms\":%.3f}}\n", rounds, sum / rounds * 1e3,
               worst * 1e3);
        MPI_Close_port(port);
    }
    MPI_Info_free(&info);
    return 0;
}

int main(int argc, char **argv)
{
    /* Longer than doctor waits for all of it, so that the one who ends this is doctor, which can say why. */
    alarm(120);
    MPI_Init(&argc, &argv);
    int rank, size, code = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc == 4 && (strcmp(argv[1], "accept") == 0 || strcmp(argv[1], "connect") == 0))
        code = between(argv[1][0] == 'a', argv[2], atoi(argv[3]));
    else
        inside(rank, size);
    fflush(stdout);
    MPI_Finalize();
    return code;
}
