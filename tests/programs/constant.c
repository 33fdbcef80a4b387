/* A malleable program whose large array never changes: constant WHAT ROWS COLS ITERATIONS SLEEP_US.
 * In each iteration x[i] grows by an element of row i of the constant array. Whenever the ranks have changed every rank
 * looks at all it has of it, halos included; a wrong element ends the job with code 5. WHAT is "keep", or "swap" for a
 * program that lets two constant arrays change places in each iteration. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <mpi.h>
#include <pcm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static size_t rows, cols, first, end;
static long iteration;
static int swaps;

static double element(size_t row, size_t col, int array)
{
    return (double)((row * 31 + col * 7 + (size_t)array * 13) % 1009);
}

/* Which array stands under the name "k" now. */
static int present(void)
{
    return swaps ? (int)(iteration % 2) : 0;
}

static void fill(const char *name, int array)
{
    double *k = pcm_data(name);
    for (size_t row = first; row < end; row++)
        for (size_t col = 0; col < cols; col++)
            k[(row - first + 1) * cols + col] = element(row, col, array);
}

static void look(const char *name, int array)
{
    const double *k = pcm_data(name);
    size_t from = first > 0 && pcm_joining() ? first - 1 : first;
    for (size_t row = from; row < end; row++)
        for (size_t col = 0; col < cols; col++)
            if (k[(row + 1 - first) * cols + col] != element(row, col, array)) {
                fprintf(stderr, "constant: %s[%zu][%zu] is wrong at iteration %ld\n", name, row, col, iteration);
                MPI_Abort(MPI_COMM_WORLD, 5);
            }
}

static void look_at_all(void)
{
    pcm_bounds("k", 0, &first, &end);
    look("k", present());
    if (swaps)
        look("l", 1 - present());
}

static void compute(void)
{
    double *x = pcm_data("x");
    const double *k = pcm_data("k");
    for (size_t row = first; row < end; row++) {
        size_t col = (row + (size_t)iteration) % cols;
        x[row - first] += k[(row - first + 1) * cols + col];
    }
}

static void check_sums(long iterations)
{
    const double *x = pcm_data("x");
    for (size_t row = first; row < end; row++) {
        double expected = 0;
        for (long i = 0; i < iterations; i++)
            expected += element(row, (row + (size_t)i) % cols, swaps ? (int)(i % 2) : 0);
        if (x[row - first] != expected) {
            fprintf(stderr, "constant: x[%zu] is wrong\n", row);
            MPI_Abort(MPI_COMM_WORLD, 6);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    swaps = strcmp(argv[1], "swap") == 0;
    rows = (size_t)atol(argv[2]);
    cols = (size_t)atol(argv[3]);
    long iterations = atol(argv[4]), sleep_us = atol(argv[5]);
    MPI_Init(&argc, &argv);
    size_t extents[] = {rows, cols};
    if (pcm_array("k", PCM_DOUBLE, 2, extents, PCM_BLOCK(0), PCM_HALO(0, 1), PCM_CONSTANT) == NULL)
        return 3;
    if (swaps && pcm_array("l", PCM_DOUBLE, 2, extents, PCM_BLOCK(0), PCM_HALO(0, 1), PCM_CONSTANT) == NULL)
        return 3;
    if (pcm_array("x", PCM_DOUBLE, 1, extents, PCM_BLOCK(0)) == NULL)
        return 3;
    pcm_value("iteration", &iteration, sizeof iteration);
    pcm_bounds("k", 0, &first, &end);
    if (!pcm_joining()) {
        fill("k", 0);
        if (swaps)
            fill("l", 1);
    }
    pcm_start();
    for (; iteration < iterations; iteration++) {
        if (pcm_iterate() == PCM_CHANGED)
            look_at_all();
        compute();
        struct timespec time = {.tv_sec = 0, .tv_nsec = sleep_us * 1000};
        nanosleep(&time, NULL);
        int one = 1, sum = 0, size = 0;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        if (sum != size)
            MPI_Abort(MPI_COMM_WORLD, 4);
        if (swaps)
            pcm_swap("k", "l");
    }
    look_at_all();
    check_sums(iterations);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("constant: done\n");
    MPI_Finalize();
    return 0;
}
