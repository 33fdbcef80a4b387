/* A malleable program that has its ranks spawn two children at every hundredth iteration: all add with them, and the
 * children end. usage: spawning_and_changing ITERATIONS SLEEP_US */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <mpi.h>
#include <pcm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EVERY = 100, CHILDREN = 2 };

static long iteration;

/* The sum over both sides, which is right when all of both are there. */
static int add(MPI_Comm between, int is_child, int *all)
{
    MPI_Comm merged;
    int sum = 0, one = 1;
    MPI_Intercomm_merge(between, is_child, &merged);
    MPI_Comm_size(merged, all);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, merged);
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&between);
    return sum == *all;
}

static void spawn(char *program)
{
    MPI_Comm between;
    char *words[] = {"child", NULL};
    int rank, size, all;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_spawn(program, words, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between, MPI_ERRCODES_IGNORE);
    int is_right = add(between, 0, &all) && all == size + CHILDREN;
    if (rank == 0) {
        printf("%d ranks %s with their children\n", size, is_right ? "added" : "FAILED");
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    int all;
    if (argc > 1 && strcmp(argv[1], "child") == 0) {
        MPI_Init(&argc, &argv);
        MPI_Comm_get_parent(&parent);
        int is_right = add(parent, 1, &all);
        MPI_Finalize();
        return is_right ? 0 : 1;
    }
    if (argc != 3)
        return 2;
    long iterations = atol(argv[1]), sleep_us = atol(argv[2]);
    MPI_Init(&argc, &argv);
    pcm_value("iteration", &iteration, sizeof iteration);
    if (pcm_start() != PCM_OK)
        return 5;
    for (; iteration < iterations; iteration++) {
        pcm_iterate();
        if (iteration % EVERY == 0)
            spawn(argv[0]);
        struct timespec time = {.tv_sec = 0, .tv_nsec = sleep_us * 1000};
        nanosleep(&time, NULL);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
