/* A malleable program whose ranks do not have equally much to do: uneven ITERATIONS SLEEP_US.
 * In each iteration rank R sleeps R + 1 times as long, and all ranks meet. Each adds one to its rows; at the end every
 * row has to hold the number of iterations, else the code is 6. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <mpi.h>
#include <pcm.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    long iterations = atol(argv[1]), sleep_us = atol(argv[2]), iteration = 0;
    MPI_Init(&argc, &argv);
    size_t extents[] = {64}, first, end;
    if (pcm_array("x", PCM_DOUBLE, 1, extents, PCM_BLOCK(0)) == NULL)
        return 3;
    pcm_value("iteration", &iteration, sizeof iteration);
    pcm_start();
    for (; iteration < iterations; iteration++) {
        pcm_iterate();
        int rank = 0;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        long us = sleep_us * (rank + 1);
        nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
        pcm_bounds("x", 0, &first, &end);
        double *x = pcm_data("x");
        for (size_t row = first; row < end; row++)
            x[row - first] += 1;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    pcm_bounds("x", 0, &first, &end);
    const double *x = pcm_data("x");
    for (size_t row = first; row < end; row++)
        if (x[row - first] != (double)iterations) {
            fprintf(stderr, "uneven: x[%zu] is wrong\n", row);
            MPI_Abort(MPI_COMM_WORLD, 6);
        }
    MPI_Finalize();
    return 0;
}
