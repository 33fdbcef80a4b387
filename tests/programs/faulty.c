/* A program with a fault of its own: its last rank reads from nowhere whenever it comes to iteration CRASH. With TIMES
 * it does so as often only, counted in the file COUNT, and then runs to its end. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pcm.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Whether the fault is still there; counts. */
static int is_faulty(const char *name, long times)
{
    long count = 0;
    FILE *file = fopen(name, "r");
    if (file != NULL) {
        if (fscanf(file, "%ld", &count) != 1)
            count = 0;
        fclose(file);
    }
    file = fopen(name, "w");
    if (file == NULL)
        return 1;
    fprintf(file, "%ld\n", count + 1);
    fclose(file);
    return count < times;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fputs("use: pcm-faulty ITERATIONS CRASH TIMES COUNT\n", stderr);
        return 2;
    }
    long iterations = atol(argv[1]), crash = atol(argv[2]), times = atol(argv[3]), iteration = 0;
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (pcm_value("iteration", &iteration, sizeof iteration) != PCM_OK || pcm_start() != PCM_OK)
        MPI_Abort(MPI_COMM_WORLD, 3);
    struct timespec pause = {.tv_sec = 0, .tv_nsec = 3000000};
    for (; iteration < iterations; iteration++) {
        pcm_iterate();
        if (iteration == crash && rank == size - 1 && is_faulty(argv[4], times))
            raise(SIGSEGV);
        nanosleep(&pause, NULL);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("faulty: %ld iterations\n", iteration);
    MPI_Finalize();
    return 0;
}
