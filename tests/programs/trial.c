/* A rank that does what a test asks of it: one mode per behaviour of a job that must be seen or survived.
 * Must never know about pcm. */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int rank, size;

/* MPICH takes the buffer off stdout, and setvbuf without one of ours would leave it a single byte: each line in
 * pieces. */
static char output[1 << 16];
static volatile sig_atomic_t got_signal;

static void on_signal(int number) { got_signal = number; }

static void sleep_ms(long ms)
{
    struct timespec span = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&span, NULL);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Lines in pieces and of many lengths, so that a careless forwarder mixes them. */
static int lines(int count)
{
    for (int i = 0; i < count; i++) {
        char line[512];
        int length = snprintf(line, sizeof line, "line %d of rank %d ", i, rank);
        int fill = (i * 37 + rank * 11) % 300;
        memset(line + length, 'a' + rank % 26, (size_t)fill);
        length += fill;
        line[length++] = '\n';
        int half = length / 2;
        if (write(1, line, (size_t)half) < 0 || write(1, line + half, (size_t)(length - half)) < 0)
            return 1;
        if (i % 10 == 0 && write(2, "note\n", 5) < 0)
            return 1;
    }
    return 0;
}

/* Rank 0 copies its input; the others find theirs empty. */
static int copy_input(void)
{
    static char buffer[65536];
    size_t total = 0, count;
    while ((count = fread(buffer, 1, sizeof buffer, stdin)) > 0) {
        total += count;
        if (fwrite(buffer, 1, count, stdout) != count)
            return 1;
    }
    fflush(stdout);
    fprintf(stderr, "rank %d read %zu bytes\n", rank, total);
    return 0;
}

/* Answers USR1 and USR2 with a line; INT and TERM end it with 40 + number. */
static int wait_for_signal(double seconds)
{
    signal(SIGUSR1, on_signal);
    signal(SIGUSR2, on_signal);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("ready\n");
        fflush(stdout);
    }
    for (double end = now() + seconds; now() < end; sleep_ms(2)) {
        if (got_signal == 0)
            continue;
        printf("rank %d got signal %d\n", rank, (int)got_signal);
        fflush(stdout);
        if (got_signal == SIGINT || got_signal == SIGTERM)
            _exit(40 + got_signal);
        got_signal = 0;
    }
    return 0;
}

/* Goes round until its time is over; the ring shows that all ranks still hear each other. */
static int ring(double seconds)
{
    double end = now() + seconds;
    long rounds = 0;
    int go_on = 1;
    while (go_on) {
        int token = (int)rounds, from = (rank + size - 1) % size, to = (rank + 1) % size;
        MPI_Sendrecv_replace(&token, 1, MPI_INT, to, 1, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (token != (int)rounds)
            return 9;
        if (rounds % 50 == 0 && rank == 0) {
            printf("round %ld\n", rounds);
            fflush(stdout);
        }
        rounds++;
        go_on = now() < end;
        MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
        sleep_ms(2);
    }
    if (rank == 0)
        printf("ring done\n");
    return 0;
}

/* Spawns children again and again and times each cycle: spawn, merge, a sum over all, disconnect. */
static int spawn(const char *self, int children, int cycles)
{
    for (int i = 0; i < cycles; i++) {
        char child_mode[] = "child";
        char *args[] = {child_mode, NULL};
        MPI_Comm between, all;
        double begun = now();
        MPI_Comm_spawn(self, args, children, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between, MPI_ERRCODES_IGNORE);
        double spawned = now();
        MPI_Intercomm_merge(between, 0, &all);
        int one = 1, sum = 0;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
        MPI_Comm_free(&all);
        MPI_Comm_disconnect(&between);
        if (sum != size + children)
            return 9;
        if (rank == 0) {
            printf("spawn %.6f cycle %.6f\n", spawned - begun, now() - begun);
            fflush(stdout);
        }
    }
    return 0;
}

static int child(void)
{
    MPI_Comm parent, all;
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL)
        return 8;
    MPI_Intercomm_merge(parent, 1, &all);
    int one = 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&parent);
    return 0;
}

/* What MPI and libc call the host. */
static int where(void)
{
    char of_mpi[MPI_MAX_PROCESSOR_NAME], of_libc[256];
    int length = 0;
    if (MPI_Get_processor_name(of_mpi, &length) != MPI_SUCCESS || (size_t)length != strlen(of_mpi))
        return 9;
    if (gethostname(of_libc, sizeof of_libc) != 0)
        return 10;
    printf("%s %s\n", of_mpi, of_libc);
    return 0;
}

static double cpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* In each iteration one rank computes for so many microseconds of CPU time while the others wait for its part of a sum:
 * rank 0 always, or each in turn; or all compute so long. */
static int uneven(int microseconds, int iterations, const char *who)
{
    int are_all = strcmp(who, "all") == 0, is_in_turns = strcmp(who, "turns") == 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = now();
    for (int i = 0; i < iterations; i++) {
        if (are_all || rank == (is_in_turns ? i % size : 0))
            for (double end = cpu_now() + 1e-6 * microseconds; cpu_now() < end;)
                ;
        int one = 1, sum = 0;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (sum != size)
            return 9;
    }
    if (rank == 0)
        printf("uneven: iterations %d seconds %.6f\n", iterations, now() - begun);
    return 0;
}

enum { HALO = 256, BLOCK = 50 };

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Short iterations, of 0.1 microseconds a row: a sweep over a field and an exchange of its edge with both neighbours.
 * What others do on the machine makes blocks of iterations slower, never faster: beside the time of all the one is told
 * that one block in twenty undercuts. */
static int sweeps(int blocks, int rows)
{
    if (blocks < 1 || rows < 1)
        return 64;
    int cells = rows * HALO;
    double *field = calloc((size_t)cells + 2 * HALO, sizeof *field);
    double *times = malloc((size_t)blocks * sizeof *times);
    if (field == NULL || times == NULL)
        return 1;
    int up = (rank + size - 1) % size, down = (rank + 1) % size;
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = now(), last = begun;
    for (int block = 0; block < blocks; block++) {
        for (int i = 0; i < BLOCK; i++) {
            MPI_Sendrecv(field + HALO, HALO, MPI_DOUBLE, up, 1, field + HALO + cells, HALO, MPI_DOUBLE, down, 1,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Sendrecv(field + cells, HALO, MPI_DOUBLE, down, 2, field, HALO, MPI_DOUBLE, up, 2, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
            for (int at = HALO; at < HALO + cells; at++)
                field[at] = 0.25 * (field[at - HALO] + 2 * field[at] + field[at + HALO]) + 1;
        }
        double ended = now();
        times[block] = ended - last;
        last = ended;
    }
    qsort(times, (size_t)blocks, sizeof *times, by_size);
    if (rank == 0)
        printf("sweeps: iterations %d seconds %.6f undisturbed %.9f\n", blocks * BLOCK, last - begun,
               times[blocks / 20] / BLOCK);
    int code = field[HALO] > 0 ? 0 : 9;
    free(times);
    free(field);
    return code;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int number = argc > 2 ? atoi(argv[2]) : 0, who = argc > 3 ? atoi(argv[3]) : 0;
    if (strcmp(mode, "late") == 0)
        sleep_ms(number);
    MPI_Init(&argc, &argv);
    double initialised = now();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    setvbuf(stdout, output, _IOFBF, sizeof output);
    int code = 0;
    if (strcmp(mode, "init") == 0)
        printf("initialised %.9f rank %d size %d\n", initialised, rank, size);
    else if (strcmp(mode, "lines") == 0)
        code = lines(number);
    else if (strcmp(mode, "input") == 0)
        code = copy_input();
    else if (strcmp(mode, "exit") == 0)
        code = rank == who ? number : 0;
    else if (strcmp(mode, "abort") == 0) {
        if (rank == who)
            MPI_Abort(MPI_COMM_WORLD, number);
        sleep_ms(60000);
    } else if (strcmp(mode, "die") == 0) {
        if (rank == who)
            raise(number);
        sleep_ms(60000);
    } else if (strcmp(mode, "leave") == 0) {
        if (rank == who)
            _exit(0);
        sleep_ms(60000);
    } else if (strcmp(mode, "signal") == 0)
        code = wait_for_signal(number);
    else if (strcmp(mode, "ring") == 0)
        code = ring(number);
    else if (strcmp(mode, "spawn") == 0)
        code = spawn(argv[0], number, who);
    else if (strcmp(mode, "where") == 0)
        code = where();
    else if (strcmp(mode, "uneven") == 0)
        code = uneven(number, who, argc > 4 ? argv[4] : "first");
    else if (strcmp(mode, "sweeps") == 0)
        code = sweeps(number, argc > 3 ? who : 64);
    else if (strcmp(mode, "child") == 0)
        code = child();
    else if (strcmp(mode, "recv") == 0) {
        if (rank == 0) {
            MPI_Recv(&number, 1, MPI_INT, size - 1, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == size - 1) {
            sleep_ms(number);
            MPI_Send(&number, 1, MPI_INT, 0, 77, MPI_COMM_WORLD);
        }
    } else if (strcmp(mode, "late") != 0)
        code = 64;
    fflush(stdout);
    MPI_Finalize();
    return code;
}
