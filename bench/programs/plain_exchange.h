/* What MPI alone makes of the redistribution that pcm-moving has just been through: the same parts over the same ranks
 * by one blocking MPI_Alltoallv, with what a rank keeps among the parts or copied beside it, into fresh memory or into
 * pages that were there before, and messages one way. Calls PMPI, so nothing of ours waits for it. Must never touch
 * registered data. */
#ifndef PLAIN_EXCHANGE_H
#define PLAIN_EXCHANGE_H

#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { EXCHANGES = 5, IN_FLIGHT = 4 };

/* What becomes of the part that a rank keeps, and whether all goes into pages that are there before the clock
 * starts. */
enum manner { SENT_TO_ITSELF, COPIED_BESIDE, COPIED_BESIDE_INTO_MADE, MANNERS };

struct span {
    size_t from, until;
};

static struct span block(size_t elements, int nth, int of)
{
    size_t parts = (size_t)of, part = (size_t)nth;
    return (struct span){elements * part / parts, elements * (part + 1) / parts};
}

/* The part of one of the `few` ranks; of the others, nothing. They sit where their blocks begin among `many`. */
static struct span few_part(size_t elements, int rank, int few, int many)
{
    for (int i = 0; i < few; i++)
        if (i * many / few == rank)
            return block(elements, i, few);
    return (struct span){0, 0};
}

static int overlap(struct span one, struct span other)
{
    size_t from = one.from > other.from ? one.from : other.from;
    size_t until = one.until < other.until ? one.until : other.until;
    return from < until ? (int)(until - from) : 0;
}

static double middle(double *of, int count)
{
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && of[j - 1] > of[j]; j--) {
            double swap = of[j];
            of[j] = of[j - 1];
            of[j - 1] = swap;
        }
    return of[count / 2];
}

/* One exchange between `few` and all ranks of `comm`, either way. Its seconds at this rank, or below 0 if data is
 * wrong. */
static double exchange_once(MPI_Comm comm, int few, size_t elements, int is_growth, enum manner manner)
{
    int rank, many;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &many);
    int *counts = calloc(4 * (size_t)many, sizeof *counts);
    int *sent = counts, *sent_at = counts + many, *taken = counts + 2 * many, *taken_at = counts + 3 * many;
    struct span of_few = few_part(elements, rank, few, many), of_many = block(elements, rank, many);
    struct span have = is_growth ? of_few : of_many, want = is_growth ? of_many : of_few;
    int sum_sent = 0, sum_taken = 0;
    for (int q = 0; q < many; q++) {
        struct span its_few = few_part(elements, q, few, many), its_many = block(elements, q, many);
        sent[q] = overlap(have, is_growth ? its_many : its_few);
        taken[q] = overlap(is_growth ? its_few : its_many, want);
        sent_at[q] = sum_sent;
        taken_at[q] = sum_taken;
        sum_sent += sent[q];
        sum_taken += taken[q];
    }
    size_t kept = (size_t)sent[rank] * (manner != SENT_TO_ITSELF), kept_from = (size_t)sent_at[rank];
    size_t kept_to = (size_t)taken_at[rank];
    if (kept > 0)
        sent[rank] = taken[rank] = 0;
    uint64_t *old = malloc(((size_t)sum_sent + 1) * sizeof *old);
    for (size_t i = 0; i < (size_t)sum_sent; i++)
        old[i] = have.from + i;
    size_t fresh_bytes = ((size_t)sum_taken + 1) * sizeof(uint64_t);
    uint64_t *fresh = manner == COPIED_BESIDE_INTO_MADE ? memset(malloc(fresh_bytes), 1, fresh_bytes) : NULL;
    PMPI_Barrier(comm);
    double start = PMPI_Wtime();
    if (fresh == NULL)
        fresh = malloc(fresh_bytes);
    int code = PMPI_Alltoallv(old, sent, sent_at, MPI_UINT64_T, fresh, taken, taken_at, MPI_UINT64_T, comm);
    int failed = code != MPI_SUCCESS;
    memcpy(fresh + kept_to, old + kept_from, kept * sizeof *fresh);
    PMPI_Barrier(comm);
    double seconds = PMPI_Wtime() - start;
    for (size_t i = 0; i < (size_t)sum_taken; i++)
        failed |= fresh[i] != want.from + i;
    int any = 0;
    PMPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_LOR, comm);
    free(old);
    free(fresh);
    free(counts);
    return any ? -1 : seconds;
}

/* Seconds of such an exchange: the median of a few. */
static double exchange(MPI_Comm comm, int few, size_t elements, int is_growth, enum manner manner)
{
    double seconds[EXCHANGES];
    for (int i = 0; i < EXCHANGES; i++)
        seconds[i] = exchange_once(comm, few, elements, is_growth, manner);
    return middle(seconds, EXCHANGES);
}

/* Bytes a second from the first rank to the last, several messages in flight: the median of a few rounds. */
static double one_way(MPI_Comm comm, size_t bytes)
{
    int rank, size;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &size);
    double speed[EXCHANGES];
    char *buffer = calloc(1, bytes + 1), ack = 0;
    size_t part = bytes / IN_FLIGHT;
    for (int round = 0; round < EXCHANGES; round++) {
        MPI_Request requests[IN_FLIGHT];
        PMPI_Barrier(comm);
        double start = PMPI_Wtime();
        for (int i = 0; i < IN_FLIGHT; i++) {
            requests[i] = MPI_REQUEST_NULL;
            if (rank == 0)
                PMPI_Isend(buffer + (size_t)i * part, (int)part, MPI_BYTE, size - 1, i, comm, &requests[i]);
            else if (rank == size - 1)
                PMPI_Irecv(buffer + (size_t)i * part, (int)part, MPI_BYTE, 0, i, comm, &requests[i]);
        }
        PMPI_Waitall(IN_FLIGHT, requests, MPI_STATUSES_IGNORE);
        if (rank == 0)
            PMPI_Recv(&ack, 1, MPI_BYTE, size - 1, IN_FLIGHT, comm, MPI_STATUS_IGNORE);
        else if (rank == size - 1)
            PMPI_Send(&ack, 1, MPI_BYTE, 0, IN_FLIGHT, comm);
        speed[round] = (double)(part * IN_FLIGHT) / (PMPI_Wtime() - start);
    }
    free(buffer);
    return middle(speed, EXCHANGES);
}

#endif
