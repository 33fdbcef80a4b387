/*
 * heat2d: how heat spreads over a plate whose border is held at fixed temperatures.
 *
 * Jacobi's method on a grid of R x C cells. The outermost cells are the border; every other cell becomes the mean of
 * its four neighbours. The ranks own blocks of rows; before each iteration a rank exchanges its first and last
 * row with the ranks above and below. The result has the same bits on any number of ranks.
 */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <errno.h>
#include <mpi.h>
#include <pcm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FROM_ABOVE = 1, FROM_BELOW = 2 };

/* Exit codes. */
enum { SUCCESS = 0, OUT_OF_MEMORY = 1, WRONG_USE = 2 };

static const double PROGRESS_EVERY = 0.2; /* seconds */

struct options {
    long rows, cols, iterations, sleep_us;
    int progress, help;
};

/* The rows this rank owns, `count` of them from row `first` of the plate, and the ranks that own the rows beside. */
struct block {
    long first, count;
    int rank, above, below;
};

/* ---- command line ------------------------------------------------------------------------------------------- */

static const char USAGE[] =
    "usage: heat2d --rows R --cols C --iterations K [--progress] [--sleep-us U]\n"
    "\n"
    "  --rows R --cols C   size of the plate with its border, 3 or more each\n"
    "  --iterations K      number of steps\n"
    "  --progress          report progress on stderr\n"
    "  --sleep-us U        every rank sleeps U microseconds in each iteration\n"
    "\n"
    "Example: mpiexec -n 4 heat2d --rows 1000 --cols 1000 --iterations 500\n"
    "Exit codes: 0 done, 1 out of memory, 2 wrong command line.\n";

/* Reads a whole number of at least `least`; -1 if `text` is not one. */
static long number(const char *text, long least)
{
    char *end;
    errno = 0;
    long value = text ? strtol(text, &end, 10) : -1;
    return text && end != text && *end == '\0' && errno == 0 && value >= least ? value : -1;
}

/* Returns the mistake in the command line, or NULL. */
static const char *read_options(int argc, char **argv, struct options *options)
{
    *options = (struct options){.rows = -1, .cols = -1, .iterations = -1};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            options->help = 1;
            return NULL;
        }
        if (strcmp(argv[i], "--progress") == 0) {
            options->progress = 1;
            continue;
        }
        const char *value = argv[i + 1]; /* argv ends with a null pointer */
        if (strcmp(argv[i], "--rows") == 0)
            options->rows = number(value, 3);
        else if (strcmp(argv[i], "--cols") == 0)
            options->cols = number(value, 3);
        else if (strcmp(argv[i], "--iterations") == 0)
            options->iterations = number(value, 0);
        else if (strcmp(argv[i], "--sleep-us") == 0)
            options->sleep_us = number(value, 0);
        else
            return "unknown option";
        if (value != NULL)
            i++;
    }
    if (options->rows < 0 || options->cols < 0)
        return "--rows and --cols must be whole numbers of 3 or more";
    if (options->cols > INT32_MAX)
        return "--cols must fit one MPI message";
    if (options->iterations < 0 || options->sleep_us < 0)
        return "--iterations and --sleep-us must be whole numbers of 0 or more";
    return NULL;
}

/* ---- the plate ---------------------------------------------------------------------------------------------- */

/* The rows of this rank: the first rows % size ranks get one more. A rank without rows has no neighbours. */
static struct block my_rows(long rows)
{
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    size_t first = 0, end = 0;
    pcm_bounds("t", 0, &first, &end);
    struct block b = {.first = (long)first, .count = (long)(end - first), .rank = rank};
    b.above = b.count > 0 && b.first > 0 ? rank - 1 : MPI_PROC_NULL;
    b.below = b.count > 0 && b.first + b.count < rows ? rank + 1 : MPI_PROC_NULL;
    return b;
}

enum { CACHE_LINE = 64 }; /* bytes */

/* Aligned to a cache line: copies to other addresses are slower, and the heap of a rank that joined later differs. */
static void *allocate(size_t cells)
{
    size_t bytes = (cells * sizeof(double) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    void *memory = aligned_alloc(CACHE_LINE, bytes);
    if (memory == NULL) {
        fprintf(stderr, "heat2d: no memory for %zu cells on one rank; use more ranks or a smaller plate\n", cells);
        MPI_Abort(MPI_COMM_WORLD, OUT_OF_MEMORY);
    }
    return memset(memory, 0, bytes);
}

/* The plate before the first iteration: hot along the top, cooling off along the sides, cold elsewhere. */
static double initial(long row, long col, long rows, long cols)
{
    if (row == 0)
        return 100.0;
    if (col == 0 || col == cols - 1)
        return 100.0 * (double)(rows - 1 - row) / (double)(rows - 1);
    return 0.0;
}

/* `t` holds the halo row above, the rank's own rows, the halo row below. */
static void set_initial(double *t, struct block b, long rows, long cols)
{
    for (long i = 0; i < b.count; i++)
        for (long j = 0; j < cols; j++)
            t[(i + 1) * cols + j] = initial(b.first + i, j, rows, cols);
}

static void exchange_halo(double *t, struct block b, long cols)
{
    double *halo_above = t, *first = t + cols, *last = t + b.count * cols, *halo_below = last + cols;
    MPI_Sendrecv(first, (int)cols, MPI_DOUBLE, b.above, FROM_BELOW, halo_below, (int)cols, MPI_DOUBLE, b.below,
                 FROM_BELOW, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(last, (int)cols, MPI_DOUBLE, b.below, FROM_ABOVE, halo_above, (int)cols, MPI_DOUBLE, b.above,
                 FROM_ABOVE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/*
 * One step of Jacobi's method in place. A row is overwritten while it and the row below it still need its old
 * values, so `old`, which has room for two rows, holds those.
 */
static void relax(double *t, struct block b, long rows, long cols, double *old)
{
    double *above = old, *here = old + cols;
    size_t row_bytes = (size_t)cols * sizeof(double);
    memcpy(above, t, row_bytes);
    for (long i = 1; i <= b.count; i++) {
        double *restrict row = t + i * cols;
        const double *below = row + cols;
        long global = b.first + i - 1;
        memcpy(here, row, row_bytes);
        if (global > 0 && global < rows - 1)
            for (long j = 1; j < cols - 1; j++)
                row[j] = 0.25 * ((above[j] + below[j]) + (here[j - 1] + here[j + 1]));
        double *swap = above;
        above = here;
        here = swap;
    }
}

/* ---- checksum ----------------------------------------------------------------------------------------------- */

/* A bijection that spreads every bit over all others (splitmix64). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/*
 * Each cell's bits are hashed with its position in the whole plate, and the hashes are added modulo 2^64. The sum of
 * integers is the same in any order: no rank needs the whole plate, and the sum does not depend on the partition.
 */
static uint64_t checksum(const double *t, struct block b, long cols)
{
    uint64_t sum = 0, total = 0;
    for (long i = 0; i < b.count; i++)
        for (long j = 0; j < cols; j++) {
            uint64_t bits, place = (uint64_t)(b.first + i) * (uint64_t)cols + (uint64_t)j;
            memcpy(&bits, &t[(i + 1) * cols + j], sizeof bits);
            sum += mix(bits ^ mix(place + UINT64_C(0x9e3779b97f4a7c15)));
        }
    MPI_Reduce(&sum, &total, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    return total;
}

/* ---- the run ------------------------------------------------------------------------------------------------ */

static void sleep_for(long microseconds)
{
    struct timespec time = {.tv_sec = microseconds / 1000000, .tv_nsec = microseconds % 1000000 * 1000};
    while (nanosleep(&time, &time) != 0 && errno == EINTR)
        ;
}

static void show_progress(long iteration, long iterations, double *shown)
{
    double now = MPI_Wtime();
    if (now - *shown < PROGRESS_EVERY && iteration < iterations)
        return;
    *shown = now;
    fprintf(stderr, "heat2d: iteration %ld of %ld\n", iteration, iterations);
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    struct options o;
    const char *mistake = read_options(argc, argv, &o);
    if (mistake != NULL || o.help) {
        if (rank == 0 && o.help)
            fputs(USAGE, stdout);
        else if (rank == 0)
            fprintf(stderr, "heat2d: %s\n%s", mistake, USAGE);
        MPI_Finalize();
        return o.help ? SUCCESS : WRONG_USE;
    }

    double *t = pcm_array("t", PCM_DOUBLE, 2, (size_t[]){(size_t)o.rows, (size_t)o.cols}, PCM_BLOCK(0), PCM_HALO(0, 1));
    double *old = allocate(2 * (size_t)o.cols);
    struct block b = my_rows(o.rows);
    set_initial(t, b, o.rows, o.cols);

    long iteration = 0;
    pcm_value("iteration", &iteration, sizeof iteration);
    if (pcm_start() != PCM_OK) { fprintf(stderr, "heat2d: %s\n", pcm_last_error()); MPI_Abort(MPI_COMM_WORLD, 1); }
    double start = MPI_Wtime(), shown = start;
    while (iteration < o.iterations) {
        if (pcm_iterate() == PCM_CHANGED) { t = pcm_data("t"); b = my_rows(o.rows); }
        exchange_halo(t, b, o.cols);
        relax(t, b, o.rows, o.cols, old);
        if (o.sleep_us > 0)
            sleep_for(o.sleep_us);
        iteration++;
        if (o.progress && b.rank == 0)
            show_progress(iteration, o.iterations, &shown);
    }
    double seconds = MPI_Wtime() - start;

    uint64_t sum = checksum(t, b, o.cols);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (b.rank == 0)
        printf("heat2d: iterations %ld ranks %d seconds %.6f checksum %016llx\n", o.iterations, size, seconds,
               (unsigned long long)sum);
    free(old);
    MPI_Finalize();
    return SUCCESS;
}
