/* Sees that the hooks of its data are called in the order of docs/guide-data.md, through whatever happens to its ranks:
 * hooks ITERATIONS SLEEP_US. What unpack delivers is the program's once it has taken it up, a step of its own; a pack
 * before that would lose it. Every call of a hook is a line; so is a call out of order, which ends the program. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <mpi.h>
#include <pcm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static long own, inbox, iteration;
static int is_delivered;

static void say(const char *text)
{
    printf("hooks: %s at %ld\n", text, iteration);
    fflush(stdout);
}

static int broken(const char *text)
{
    printf("hooks: broken: %s at %ld\n", text, iteration);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 9);
    return 1;
}

static int pack(void *unused, int to, int ranks, pcm_packer *packer)
{
    (void)unused;
    (void)to;
    (void)ranks;
    say("pack");
    if (is_delivered)
        return broken("pack between an unpack and the program's step");
    return pcm_pack(packer, &own, sizeof own) != PCM_OK;
}

static int unpack(void *unused, const pcm_part *parts, size_t count)
{
    (void)unused;
    say("unpack");
    if (is_delivered)
        return broken("a second unpack before the program's step");
    inbox = 0;
    for (size_t i = 0; i < count; i++) {
        long given;
        memcpy(&given, parts[i].data, sizeof given);
        inbox += given;
    }
    is_delivered = 1;
    return 0;
}

static int one_target(void *unused, int from, int before, int after, int *targets)
{
    (void)unused;
    targets[0] = (int)((long)from * after / before);
    return 1;
}

static int on_change(void *unused)
{
    (void)unused;
    say("change hook");
    return is_delivered ? 0 : broken("a change hook without an unpack before");
}

/* The program's own step. */
static void take_up(void)
{
    if (is_delivered)
        own = inbox;
    is_delivered = 0;
}

int main(int argc, char **argv)
{
    long sum = 0;
    int rank, size;
    if (argc != 3)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long iterations = atol(argv[1]), sleep_us = atol(argv[2]), ranks_first = size;
    own = pcm_joining() ? 0 : rank + 1;
    pcm_array("data", PCM_DOUBLE, 1, (size_t[]){1000}, PCM_BLOCK(0));
    pcm_value("iteration", &iteration, sizeof iteration);
    pcm_value("ranks", &ranks_first, sizeof ranks_first);
    pcm_custom("tokens", &(pcm_custom_hooks){.pack = pack, .unpack = unpack, .targets = one_target});
    pcm_on_change(on_change, NULL);
    if (pcm_start() != PCM_OK) {
        fprintf(stderr, "hooks: %s\n", pcm_last_error());
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    if (pcm_joining() && !is_delivered)
        return broken("a rank that joins has nothing after pcm_start");
    if (!pcm_joining())
        take_up();
    for (; iteration < iterations; iteration++) {
        int was_delivered = is_delivered;
        int result = pcm_iterate();
        if (result != PCM_OK && result != PCM_CHANGED)
            return broken(pcm_last_error());
        if ((was_delivered || is_delivered) && result != PCM_CHANGED)
            return broken("pcm_iterate did not say that the ranks changed");
        take_up();
        MPI_Allreduce(&own, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        if (sum != ranks_first * (ranks_first + 1) / 2)
            return broken("tokens were lost or doubled");
        struct timespec time = {.tv_sec = sleep_us / 1000000, .tv_nsec = sleep_us % 1000000 * 1000};
        nanosleep(&time, NULL);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("hooks: done\n");
    MPI_Finalize();
    return 0;
}
