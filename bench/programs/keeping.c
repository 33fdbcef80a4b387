/* A program that is checkpointed while a bench watches: an array of any size in blocks. When it begins, and then
 * whenever it has iterated for a while, it measures on all ranks together what a checkpoint is held against, and says
 * so on one line: copying its part with memcpy into memory that was touched before, writing it by hand with MPI-IO and
 * syncing it, and writing it with pcm_checkpoint. It ends when it has done so ROUNDS times. With KEEPING=hand it only
 * writes by hand, and that file stays; with KEEPING=leave it only writes checkpoints; with KEEPING=restore it says how
 * long pcm_start took and ends; with KEEPING=read it reads the file of MPI-IO instead, sees that the data is right,
 * says how long that took and ends. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pcm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char USAGE[] = "use: pcm-keeping MIB ROUNDS ITERATIONS FILE\n"
                            "  an array of MIB; ROUNDS measurements, each after ITERATIONS of 2 ms; FILE for MPI-IO, "
                            "- for no files\n";

static int rank, size;
static uint64_t *data;
static size_t first, end;

static uint64_t element(uint64_t place) { return (place + 1) * UINT64_C(0x9e3779b97f4a7c15); }

static int is_mode(const char *name)
{
    const char *mode = getenv("KEEPING");
    return mode != NULL && strcmp(mode, name) == 0;
}

/* The slowest rank's time, on rank 0. */
static double slowest(double since)
{
    double own = MPI_Wtime() - since, all = 0;
    MPI_Reduce(&own, &all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    return all;
}

static double by_memcpy(void *copy)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double since = MPI_Wtime();
    memcpy(copy, data, (end - first) * sizeof *data);
    return slowest(since);
}

static double by_mpi_io(const char *name)
{
    MPI_File file;
    MPI_Barrier(MPI_COMM_WORLD);
    double since = MPI_Wtime();
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    MPI_File_write_at_all(file, (MPI_Offset)(first * sizeof *data), data, (int)(end - first), MPI_UINT64_T,
                          MPI_STATUS_IGNORE);
    MPI_File_sync(file);
    MPI_File_close(&file);
    double took = slowest(since);
    if (rank == 0 && !is_mode("hand"))
        MPI_File_delete(name, MPI_INFO_NULL);
    return took;
}

static double read_by_mpi_io(const char *name)
{
    MPI_File file;
    MPI_Barrier(MPI_COMM_WORLD);
    double since = MPI_Wtime();
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    MPI_File_read_at_all(file, (MPI_Offset)(first * sizeof *data), data, (int)(end - first), MPI_UINT64_T,
                         MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    return slowest(since);
}

static void check(void)
{
    for (size_t place = first; place < end; place++)
        if (data[place - first] != element(place))
            MPI_Abort(MPI_COMM_WORLD, 5);
}

/* Until the files are on disk; held: until the program may go on. */
static double by_files(double *held_s)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double since = MPI_Wtime();
    if (pcm_checkpoint() != PCM_OK)
        MPI_Abort(MPI_COMM_WORLD, 3);
    *held_s = slowest(since);
    if (pcm_checkpoint_wait() != PCM_OK)
        MPI_Abort(MPI_COMM_WORLD, 3);
    return slowest(since);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 5) {
        fputs(USAGE, stderr);
        MPI_Finalize();
        return 2;
    }
    size_t elements = strtoul(argv[1], NULL, 10) * 1024 * 1024 / sizeof(uint64_t);
    long rounds = strtol(argv[2], NULL, 10), every = strtol(argv[3], NULL, 10);
    int has_files = strcmp(argv[4], "-") != 0;
    struct timespec pause = {0, 2000000};
    long iteration = 0;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    pcm_array("data", PCM_UINT64, 1, &elements, PCM_BLOCK(0));
    data = pcm_data("data");
    pcm_bounds("data", 0, &first, &end);
    int takes_up = is_mode("restore") || is_mode("read");
    for (size_t place = first; place < end; place++)
        data[place - first] = takes_up ? 0 : element(place);
    pcm_value("iteration", &iteration, sizeof iteration);
    /* Ranks that share a CPU touch their memory one after the other: waiting for that is not starting. */
    MPI_Barrier(MPI_COMM_WORLD);
    double since = MPI_Wtime();
    if (pcm_start() != PCM_OK)
        MPI_Abort(MPI_COMM_WORLD, 3);
    double restored_s = slowest(since);
    if (takes_up) {
        double read_s = is_mode("read") ? read_by_mpi_io(argv[4]) : restored_s;
        check();
        if (rank == 0)
            printf("taken up %.9f\n", read_s);
        MPI_Finalize();
        return 0;
    }
    void *copy = malloc((end - first) * sizeof *data);
    if (copy == NULL)
        MPI_Abort(MPI_COMM_WORLD, 4);
    memset(copy, 1, (end - first) * sizeof *data);
    for (; iteration < rounds * every; iteration++) {
        pcm_iterate();
        nanosleep(&pause, NULL);
        MPI_Barrier(MPI_COMM_WORLD);
        if ((iteration + 1) % every != 0)
            continue;
        double memcpy_s = by_memcpy(copy);
        double held_s = 0;
        double io_s = has_files && !is_mode("leave") ? by_mpi_io(argv[4]) : 0;
        double files_s = has_files && !is_mode("hand") ? by_files(&held_s) : 0;
        if (rank == 0) {
            printf("measured memcpy %.9f mpi_io %.9f held %.9f files %.9f\n", memcpy_s, io_s, held_s, files_s);
            fflush(stdout);
        }
    }
    free(copy);
    MPI_Finalize();
    return 0;
}
