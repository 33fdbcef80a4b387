/* A malleable program that does, by its first argument, what a program can do right and wrong around a change of its
 * ranks, and says what comes of it: changing WHAT ITERATIONS SLEEP_US. Every line it prints begins with WHAT. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <mpi.h>
#include <pcm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Longer than any test waits. */
enum { NEWCOMER_SLEEPS = 300 };

static const char *what;
static MPI_Comm derived = MPI_COMM_NULL;
static long iteration;

static int is(const char *name)
{
    return strcmp(what, name) == 0;
}

static void say(const char *text, int code)
{
    printf("%s: %s, code %d: %s\n", what, text, code, pcm_last_error());
    fflush(stdout);
}

static void say_mpi(const char *text, int code)
{
    char said[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (code != MPI_SUCCESS)
        MPI_Error_string(code, said, &length);
    printf("%s: %s, mpi code %s: %s\n", what, text, code == MPI_SUCCESS ? "0" : "not 0", said);
    fflush(stdout);
}

static void derive(void)
{
    MPI_Comm_dup(MPI_COMM_WORLD, &derived);
    MPI_Comm_set_name(derived, "neighbours");
    MPI_Comm_set_errhandler(derived, MPI_ERRORS_RETURN);
}

/* Much goes between each rank and the one half of the ranks further on, in both directions. */
static void talk_in_pairs(void)
{
    enum { BYTES = 1 << 20 };
    static char out[BYTES], in[BYTES];
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int other = (rank + size / 2) % size;
    MPI_Sendrecv(out, BYTES, MPI_CHAR, other, 5, in, BYTES, MPI_CHAR, other, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static int on_change(void *context)
{
    if (is("hook"))
        return *(int *)context;
    if (is("derived")) {
        int size = 0, sum = 0, one = 1;
        if (derived != MPI_COMM_NULL)
            MPI_Comm_free(&derived);
        derive();
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, derived);
        return sum == size ? 0 : 1;
    }
    return 0;
}

static int is_even(void *context, int ranks)
{
    (void)context;
    return ranks % 2 == 0;
}

static int pack(void *context, int to, int ranks, pcm_packer *packer)
{
    (void)context;
    (void)to;
    (void)ranks;
    return is("packs") ? 9 : pcm_pack(packer, &iteration, sizeof iteration) != PCM_OK;
}

static int unpack(void *context, const pcm_part *parts, size_t count)
{
    (void)context;
    (void)parts;
    (void)count;
    return 0;
}

/* Only a running program can pack one rank's part for several others: no checkpoint can be restored so. */
static int to_all(void *context, int from, int before, int after, int *targets)
{
    (void)context;
    targets[0] = from;
    if (before == after)
        return 1;
    for (int rank = 0; rank < after; rank++)
        targets[rank] = rank;
    return after;
}

static void on_exit_say(void *context)
{
    (void)context;
    say("leaves", 0);
}

static void prelude(void)
{
    int rank = -1, size = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("%s: joins as rank %d of %d\n", what, rank, size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (is("prelude"))
        say_mpi("barrier before pcm_start", MPI_Barrier(MPI_COMM_WORLD));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    fflush(stdout);
    if (is("exits"))
        _exit(3);
    if (is("slow"))
        sleep(NEWCOMER_SLEEPS);
}

static void changed(void)
{
    int rank, sum = 0, one = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (is("stale") && !pcm_joining()) {
        say_mpi("stale communicator", MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, derived));
        MPI_Comm_free(&derived);
        derived = MPI_COMM_NULL;
    }
    printf("%s: changed at %ld, rank %d\n", what, iteration, rank);
    fflush(stdout);
}

static size_t rows;

/* Rank 0 reads it and tells all; a rank that joins knows it as soon as it has registered it. */
static void know_rows(void)
{
    if (!pcm_joining()) {
        int rank;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        if (rank == 0)
            rows = 1000;
        MPI_Bcast(&rows, sizeof rows, MPI_BYTE, 0, MPI_COMM_WORLD);
    }
    pcm_value("rows", &rows, sizeof rows);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    what = argv[1];
    long iterations = atol(argv[2]), sleep_us = atol(argv[3]);
    int failure = 7, rank = 0;
    MPI_Init(&argc, &argv);
    if (pcm_joining())
        prelude();
    else
        derive();
    const char *name = is("differ") && pcm_joining() ? "other" : "data";
    if (!is("unknown"))
        know_rows();
    else if (!pcm_joining())
        rows = 1000;
    double *data = pcm_array(name, PCM_DOUBLE, 1, (size_t[]){rows}, PCM_BLOCK(0));
    if (data == NULL)
        return 3;
    pcm_value("iteration", &iteration, sizeof iteration);
    if (is("even") || is("impossible"))
        pcm_possible_ranks(is_even, NULL);
    if (is("packs") || is("shares"))
        pcm_custom("shared", &(pcm_custom_hooks){.pack = pack, .unpack = unpack, .targets = to_all});
    pcm_on_change(on_change, &failure);
    pcm_on_exit(on_exit_say, NULL);
    if (pcm_start() != PCM_OK) {
        say("start", 1);
        return 5;
    }
    if (is("ends"))
        pcm_remaining(iterations - iteration);
    for (; iteration < iterations; iteration++) {
        int result = pcm_iterate();
        if (result == PCM_CHANGED)
            changed();
        else if (result != PCM_OK)
            say("iterate", result);
        if (is("request") && iteration == 20) {
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            if (rank == 0 && pcm_request(4) != PCM_OK)
                say("request", 1);
        }
        if (is("impossible") && iteration == 20) {
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            for (int i = 0; rank == 0 && i < 4; i++)
                say("request", pcm_request((int[]){-1, 0, 3, 5000}[i]));
        }
        if (is("pairs"))
            talk_in_pairs();
        struct timespec time = {.tv_sec = sleep_us / 1000000, .tv_nsec = sleep_us % 1000000 * 1000};
        nanosleep(&time, NULL);
        int one = 1, sum = 0, size = 0;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        if (sum != size)
            MPI_Abort(MPI_COMM_WORLD, 4);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("%s: done\n", what);
    MPI_Finalize();
    int is_over = 0;
    MPI_Finalized(&is_over);
    return is_over ? 0 : 6;
}
