/* Collective operations that do not block, and persistent ones. Each check runs one operation both ways: begun once,
 * and made once and started three times. */
#include "conformance.h"

static int out[RANKS_MAX], in[RANKS_MAX], ones[RANKS_MAX], places[RANKS_MAX], bytes[RANKS_MAX];
static MPI_Datatype types[RANKS_MAX];

static void fill(int round)
{
    for (int i = 0; i < size; i++) {
        out[i] = 1000 * rank + i + round;
        in[i] = -1;
        ones[i] = 1;
        places[i] = i;
        bytes[i] = i * (int)sizeof(int);
        types[i] = MPI_INT;
    }
}

/* The two forms of an operation with the same arguments, and what must come of it in `round`. */
#define OPERATION(check, lower, Upper, WANTED, ...)                                                                    \
    static int is_right_##check(int round)                                                                             \
    {                                                                                                                  \
        (void)round;                                                                                                   \
        return WANTED;                                                                                                 \
    }                                                                                                                  \
    static void check(void)                                                                                            \
    {                                                                                                                  \
        MPI_Request request = MPI_REQUEST_NULL;                                                                        \
        fill(0);                                                                                                       \
        call(MPI_I##lower(__VA_ARGS__, MPI_COMM_WORLD, &request));                                                     \
        call(MPI_Wait(&request, MPI_STATUS_IGNORE));                                                                   \
        expect(is_right_##check(0));                                                                                   \
    }                                                                                                                  \
    static void check##_persistent(void)                                                                               \
    {                                                                                                                  \
        MPI_Request request = MPI_REQUEST_NULL;                                                                        \
        if (call(MPI_##Upper##_init(__VA_ARGS__, MPI_COMM_WORLD, MPI_INFO_NULL, &request)) != MPI_SUCCESS)             \
            return;                                                                                                    \
        for (int round = 0; round < 3; round++) {                                                                      \
            fill(round);                                                                                               \
            call(MPI_Start(&request));                                                                                 \
            call(MPI_Wait(&request, MPI_STATUS_IGNORE));                                                               \
            expect(is_right_##check(round));                                                                           \
        }                                                                                                              \
        call(MPI_Request_free(&request));                                                                              \
    }

static int from_all(int column, int round)
{
    for (int i = 0; i < size; i++)
        if (in[i] != 1000 * i + column + round)
            return 0;
    return 1;
}

#define SUM_OF_RANKS (size * (size - 1) / 2)

OPERATION(broadcast, bcast, Bcast, out[0] == 1000 + round, out, 1, MPI_INT, 1)
OPERATION(gather, gather, Gather, rank != 0 || from_all(0, round), out, 1, MPI_INT, in, 1, MPI_INT, 0)
OPERATION(gather_counts, gatherv, Gatherv, rank != 0 || from_all(0, round), out, 1, MPI_INT, in, ones, places,
          MPI_INT, 0)
OPERATION(scatter, scatter, Scatter, in[0] == 1000 + rank + round, out, 1, MPI_INT, in, 1, MPI_INT, 1)
OPERATION(scatter_counts, scatterv, Scatterv, in[0] == 1000 + rank + round, out, ones, places, MPI_INT, in, 1,
          MPI_INT, 1)
OPERATION(gather_to_all, allgather, Allgather, from_all(0, round), out, 1, MPI_INT, in, 1, MPI_INT)
OPERATION(gather_to_all_counts, allgatherv, Allgatherv, from_all(0, round), out, 1, MPI_INT, in, ones, places, MPI_INT)
OPERATION(all_to_all, alltoall, Alltoall, from_all(rank, round), out, 1, MPI_INT, in, 1, MPI_INT)
OPERATION(all_to_all_counts, alltoallv, Alltoallv, from_all(rank, round), out, ones, places, MPI_INT, in, ones,
          places, MPI_INT)
OPERATION(all_to_all_types, alltoallw, Alltoallw, from_all(rank, round), out, ones, bytes, types, in, ones, bytes,
          types)
OPERATION(reduce, reduce, Reduce, rank != 1 || in[0] == 1000 * SUM_OF_RANKS + size * round, out, in, 1, MPI_INT,
          MPI_SUM, 1)
OPERATION(reduce_to_all, allreduce, Allreduce, in[1] == 1000 * SUM_OF_RANKS + size * (1 + round), out, in, 2,
          MPI_INT, MPI_SUM)
OPERATION(reduce_and_scatter, reduce_scatter, Reduce_scatter, in[0] == 1000 * SUM_OF_RANKS + size * (rank + round),
          out, in, ones,
          MPI_INT, MPI_SUM)
OPERATION(reduce_and_scatter_blocks, reduce_scatter_block, Reduce_scatter_block,
          in[0] == 1000 * (size - 1) + rank + round, out, in, 1,
          MPI_INT, MPI_MAX)
OPERATION(scan, scan, Scan, in[0] == 1000 * (rank * (rank + 1) / 2) + (rank + 1) * round, out, in, 1, MPI_INT, MPI_SUM)
OPERATION(scan_without_own, exscan, Exscan, rank == 0 || in[0] == 1000 * (rank * (rank - 1) / 2) + rank * round, out,
          in, 1,
          MPI_INT, MPI_SUM)

static void barrier(void)
{
    MPI_Request request;
    call(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    for (int done = 0; !done;)
        if (call(MPI_Test(&request, &done, MPI_STATUS_IGNORE)) != MPI_SUCCESS)
            return;
    expect(request == MPI_REQUEST_NULL);
}

static void barrier_persistent(void)
{
    MPI_Request request;
    call(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int i = 0; i < 3; i++) {
        call(MPI_Start(&request));
        call(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    call(MPI_Request_free(&request));
}

/* Begun one after another, ended in the opposite order. */
static void several_at_once(void)
{
    int first = rank, second = 2 * rank, sums[2] = {0};
    MPI_Request requests[3];
    call(MPI_Iallreduce(&first, &sums[0], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]));
    call(MPI_Iallreduce(&second, &sums[1], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]));
    call(MPI_Ibarrier(MPI_COMM_WORLD, &requests[2]));
    for (int i = 2; i >= 0; i--)
        call(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
    expect(sums[0] == SUM_OF_RANKS && sums[1] == 2 * SUM_OF_RANKS);
}

static void beside_messages(void)
{
    int sum = 0, got = -1;
    MPI_Request requests[3];
    call(MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]));
    call(MPI_Irecv(&got, 1, MPI_INT, previous, 1, MPI_COMM_WORLD, &requests[1]));
    call(MPI_Isend(&rank, 1, MPI_INT, next, 1, MPI_COMM_WORLD, &requests[2]));
    call(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    expect(sum == SUM_OF_RANKS && got == previous);
}

static void started_together(void)
{
    int sum = 0, most = 0;
    MPI_Request requests[2];
    call(MPI_Allreduce_init(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    call(MPI_Allreduce_init(&rank, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    call(MPI_Startall(2, requests));
    call(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    expect(sum == SUM_OF_RANKS && most == size - 1);
    call(MPI_Request_free(&requests[0]));
    call(MPI_Request_free(&requests[1]));
}

#define BOTH(check) CHECK(check), CHECK(check##_persistent)

const struct check begun_collectives[] = {
    BOTH(barrier),
    BOTH(broadcast),
    BOTH(gather),
    BOTH(gather_counts),
    BOTH(scatter),
    BOTH(scatter_counts),
    BOTH(gather_to_all),
    BOTH(gather_to_all_counts),
    BOTH(all_to_all),
    BOTH(all_to_all_counts),
    BOTH(all_to_all_types),
    BOTH(reduce),
    BOTH(reduce_to_all),
    BOTH(reduce_and_scatter),
    BOTH(reduce_and_scatter_blocks),
    BOTH(scan),
    BOTH(scan_without_own),
    CHECK(several_at_once),
    CHECK(beside_messages),
    CHECK(started_together),
    {0},
};
