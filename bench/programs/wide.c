/* How long collective operations take over sites: wide ORDER MARGIN_S REPEATS BYTES..., or wide inside CALLS, where a
 * rank calls the operations on a communicator of its own. ORDER is `turn`, where ranks
 * belong to the sites in turn, or `runs`, where the ranks of a site are neighbours. BYTES is the whole of what one rank
 * gives or gets. All ranks begin at one time of the machine's clock; a line `OPERATION BYTES SECONDS` says when the
 * last one was done. Must never know about pcm. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAME_MAX 64

static MPI_Comm comm;
static int rank, size;
static double margin;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Sleeps until the same time as all others, and gives it. */
static double begin(void)
{
    MPI_Barrier(comm);
    double at = now() + margin;
    MPI_Bcast(&at, 1, MPI_DOUBLE, 0, comm);
    struct timespec time = {.tv_sec = (time_t)at, .tv_nsec = (long)((at - (double)(time_t)at) * 1e9)};
    if (now() > at) {
        fprintf(stderr, "rank %d heard of the beginning %.3f s too late\n", rank, now() - at);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) != 0)
        ;
    return at;
}

/* Ranks sorted by site, or one of each site after the other. */
static void arrange(int is_in_turn)
{
    char own[NAME_MAX] = "";
    int all, me, sites = 0, site = 0, before = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &all);
    strncpy(own, getenv("PCM_SITE") ? getenv("PCM_SITE") : "", NAME_MAX - 1);
    char(*names)[NAME_MAX] = malloc((size_t)all * NAME_MAX);
    MPI_Allgather(own, NAME_MAX, MPI_CHAR, names, NAME_MAX, MPI_CHAR, MPI_COMM_WORLD);
    for (int r = 0; r < all; r++) {
        int first = 0;
        while (strcmp(names[first], names[r]) != 0)
            first++;
        if (strcmp(names[r], own) == 0) {
            before += r < me;
            site = first == r ? sites : site;
        }
        sites += first == r;
    }
    if (me == 0)
        printf("sites %d\n", sites);
    free(names);
    MPI_Comm_split(MPI_COMM_WORLD, 0, is_in_turn ? before * all + site : site * all + before, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
}

static char *given, *got;
static int *counts, *firsts;

static void operate(int operation, int bytes)
{
    int block = bytes / size, words = bytes / 8;
    switch (operation) {
    case 0: MPI_Barrier(comm); return;
    case 1: MPI_Bcast(got, bytes, MPI_CHAR, 0, comm); return;
    case 2: MPI_Reduce(given, got, words, MPI_DOUBLE, MPI_SUM, 0, comm); return;
    case 3: MPI_Allreduce(given, got, words, MPI_DOUBLE, MPI_SUM, comm); return;
    case 4: MPI_Reduce_scatter(given, got, counts, MPI_DOUBLE, MPI_SUM, comm); return;
    case 5: MPI_Scan(given, got, words, MPI_DOUBLE, MPI_SUM, comm); return;
    case 6: MPI_Gather(given, block, MPI_CHAR, got, block, MPI_CHAR, 0, comm); return;
    case 7: MPI_Gatherv(given, counts[rank] * 8, MPI_CHAR, got, counts, firsts, MPI_DOUBLE, 0, comm); return;
    case 8: MPI_Scatter(given, block, MPI_CHAR, got, block, MPI_CHAR, 0, comm); return;
    case 9: MPI_Scatterv(given, counts, firsts, MPI_DOUBLE, got, counts[rank], MPI_DOUBLE, 0, comm); return;
    case 10: MPI_Allgather(given, block, MPI_CHAR, got, block, MPI_CHAR, comm); return;
    case 11: MPI_Allgatherv(given, counts[rank], MPI_DOUBLE, got, counts, firsts, MPI_DOUBLE, comm); return;
    case 12: MPI_Alltoall(given, block, MPI_CHAR, got, block, MPI_CHAR, comm); return;
    case 13: MPI_Alltoallv(given, counts, firsts, MPI_DOUBLE, got, counts, firsts, MPI_DOUBLE, comm); return;
    }
}

static const char *const NAMES[] = {"Barrier", "Bcast", "Reduce", "Allreduce", "Reduce_scatter", "Scan", "Gather",
                                    "Gatherv", "Scatter", "Scatterv", "Allgather", "Allgatherv", "Alltoall",
                                    "Alltoallv"};

enum { OPERATIONS = sizeof NAMES / sizeof NAMES[0] };

static void measure(int operation, int bytes)
{
    /* Every rank has as many, for every other rank sends and receives so many. */
    for (int r = 0; r < size; r++) {
        counts[r] = bytes / 8 / size;
        firsts[r] = r * counts[r];
    }
    double began = begin(), end, last;
    operate(operation, bytes);
    end = now() - began;
    MPI_Reduce(&end, &last, 1, MPI_DOUBLE, MPI_MAX, 0, comm);
    if (rank == 0)
        printf("%s %d %.6f\n", NAMES[operation], bytes, last);
}

/* Rank 0 calls each operation so often; the others sleep until it is done. */
static void call_inside(int calls)
{
    static char buffers[2][8];
    static int one = 1, none;
    comm = MPI_COMM_SELF, size = 1, counts = &one, firsts = &none, given = buffers[0], got = buffers[1];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int me = rank, is_done = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    rank = 0;
    for (int operation = 0; me == 0 && operation < OPERATIONS; operation++) {
        operate(operation, 8);
        double began = now();
        for (int call = 0; call < calls; call++)
            operate(operation, 8);
        printf("%s 8 %.12f\n", NAMES[operation], (now() - began) / calls);
    }
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (; !is_done; MPI_Test(&request, &is_done, MPI_STATUS_IGNORE))
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

int main(int count, char **arguments)
{
    MPI_Init(&count, &arguments);
    if (count == 3 && strcmp(arguments[1], "inside") == 0) {
        call_inside(atoi(arguments[2]));
        MPI_Finalize();
        return 0;
    }
    if (count < 5) {
        fprintf(stderr, "usage: wide turn|runs MARGIN_S REPEATS BYTES[:OPERATIONS]..., or wide inside CALLS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    arrange(strcmp(arguments[1], "turn") == 0);
    margin = atof(arguments[2]);
    int repeats = atoi(arguments[3]);
    counts = calloc((size_t)size, sizeof(int));
    firsts = calloc((size_t)size, sizeof(int));
    for (int a = 4; a < count; a++) {
        const char *first_ones = strchr(arguments[a], ':');
        int bytes = atoi(arguments[a]), operations = first_ones ? atoi(first_ones + 1) : OPERATIONS;
        bytes += (8 * size - bytes % (8 * size)) % (8 * size);
        given = calloc(1, (size_t)bytes);
        got = calloc(1, (size_t)bytes);
        for (int operation = 0; operation < operations && operation < OPERATIONS; operation++) {
            operate(operation, 8 * size); /* connections are made, and both sides know the communicator */
            for (int repeat = 0; repeat < repeats && (operation > 0 || a == 4); repeat++)
                measure(operation, bytes);
        }
        free(given);
        free(got);
    }
    free(counts);
    free(firsts);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
