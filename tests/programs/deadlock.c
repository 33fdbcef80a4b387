/* Ranks that wait for each other, one mistake of people's programs per mode: pcm-deadlock MODE. After a healthy
 * beginning every mode but communicators, slow and busy hangs. Must never know about pcm. */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, size;

static void pause_ms(long ms)
{
    struct timespec span = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&span, NULL);
}

/* Messages and collectives that match, so that nothing stands at its beginning. */
/* Few, because ranks outnumber the CPUs of small machines, where a round takes a tenth of a second. */
#define ROUNDS 8

static void work_well(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        int right = (rank + 1) % size, left = (rank + size - 1) % size, data = i;
        MPI_Request request;
        MPI_Irecv(&data, 1, MPI_INT, left, 3, MPI_COMM_WORLD, &request);
        MPI_Send(&i, 1, MPI_INT, right, 3, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Allreduce(MPI_IN_PLACE, &data, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Bcast(&data, 1, MPI_INT, i % size, MPI_COMM_WORLD);
    }
}

/* Messages on four communicators, one of which nobody receives. */
static void send_apart(void)
{
    MPI_Comm half, all, freed;
    double value = rank;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Comm_dup(MPI_COMM_WORLD, &all);
    MPI_Comm_dup(MPI_COMM_WORLD, &freed);
    for (int i = 0; i < 3 && rank == 0; i++)
        MPI_Send(&value, 1, MPI_DOUBLE, 1, 5, half);
    for (int i = 0; i < 2 && rank == 2; i++)
        MPI_Recv(&value, 1, MPI_DOUBLE, 0, 5, half, MPI_STATUS_IGNORE);
    for (int i = 0; i < 5 && rank == 1; i++)
        MPI_Send(&value, 1, MPI_DOUBLE, 3, 5, all);
    for (int i = 0; i < 5 && rank == 3; i++)
        MPI_Recv(&value, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 5, all, MPI_STATUS_IGNORE);
    if (rank == 2)
        MPI_Send(&value, 1, MPI_DOUBLE, 0, 5, freed);
    if (rank == 0)
        MPI_Recv(&value, 1, MPI_DOUBLE, 2, 5, freed, MPI_STATUS_IGNORE);
    MPI_Comm_free(&freed);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *mode = argc > 1 ? argv[1] : "";
    double value = rank;
    const int many = 1 << 20;
    double *data = calloc((size_t)many, sizeof *data), *result = calloc((size_t)many, sizeof *result);
    if (data == NULL || result == NULL)
        MPI_Abort(MPI_COMM_WORLD, 3);
    work_well(ROUNDS);
    if (strcmp(mode, "cycle") == 0) {
        MPI_Recv(&value, 1, MPI_DOUBLE, (rank + 1) % size, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(mode, "tag") == 0) {
        if (rank == 0)
            MPI_Send(&value, 1, MPI_DOUBLE, 1, 8, MPI_COMM_WORLD);
        if (rank == 1)
            MPI_Recv(&value, 1, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(mode, "collective") == 0) {
        if (rank == 1)
            MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    } else if (strcmp(mode, "root") == 0) {
        MPI_Reduce(data, result, many, MPI_DOUBLE, MPI_SUM, rank == 1, MPI_COMM_WORLD);
    } else if (strcmp(mode, "size") == 0) {
        MPI_Reduce(data, result, rank == 1 ? 1 : many, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    } else if (strcmp(mode, "communicators") == 0) {
        send_apart();
        pause_ms(20000);
    } else if (strcmp(mode, "gone") == 0) {
        if (rank == 1)
            MPI_Recv(&value, 1, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return MPI_Finalize();
    } else if (strcmp(mode, "slow") == 0) {
        /* One computes for long, the others wait for it: directly, in a circle through it, and in a collective. */
        if (rank == 0)
            pause_ms(60000);
        if (rank == 2)
            MPI_Recv(&value, 1, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 0)
            MPI_Send(&value, 1, MPI_DOUBLE, 2, 7, MPI_COMM_WORLD);
    } else if (strcmp(mode, "busy") == 0) {
        for (int i = 0; i < 400; i++) {
            work_well(10);
            pause_ms(rank == i % size ? 50 : 0);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    free(data);
    free(result);
    return MPI_Finalize();
}
