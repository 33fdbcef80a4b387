/* Nonblocking and persistent collective operations that are under way together, wait for each other, or lie behind
 * other calls of MPI: wide_in_flight [SECONDS [threads]]. With SECONDS alone it computes for so long beside a sum, and
 * prints what the sum took alone and what was left of it; with "threads" all threads may call MPI. Must never know
 * about pcm. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPERATIONS 100

static int rank, size;

static void expect(int is_so, const char *what, int which)
{
    if (is_so)
        return;
    printf("rank %d of %d: %s %d is wrong\n", rank, size, what, which);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

/* The first operation on a communicator must not wait: the last rank begins it when the message of the first is there.
 */
static void begins_without_others(MPI_Comm comm)
{
    MPI_Comm fresh;
    MPI_Request request;
    int token = rank, got = 0;
    MPI_Comm_dup(comm, &fresh);
    if (rank == size - 1)
        MPI_Recv(&token, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
    MPI_Iallreduce(&rank, &got, 1, MPI_INT, MPI_SUM, fresh, &request);
    if (rank == 0)
        MPI_Send(&token, 1, MPI_INT, size - 1, 1, comm);
    /* The program may be done with the communicator before the operation is. */
    MPI_Comm_free(&fresh);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(got == size * (size - 1) / 2, "sum that the first rank began alone", 0);
}

/* All but the last rank sit in a receive until the last one has the data: they must pass it on from there. */
static void passes_on_inside_other_calls(MPI_Comm comm, int count)
{
    long *data = malloc((size_t)count * sizeof *data);
    int token = 0, is_right = 1;
    MPI_Request request;
    for (int i = 0; i < count; i++)
        data[i] = rank == 0 ? i * 3L + 1 : 0;
    MPI_Ibcast(data, count, MPI_LONG, 0, comm, &request);
    if (rank < size - 1)
        MPI_Recv(&token, 1, MPI_INT, rank + 1, 2, comm, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank > 0)
        MPI_Send(&token, 1, MPI_INT, rank - 1, 2, comm);
    for (int i = 0; i < count; i++)
        is_right &= data[i] == i * 3L + 1;
    expect(is_right, "broadcast through ranks in a receive", count);
    free(data);
}

static void first_of_two(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    memcpy(inout, in, (size_t)*count * 2 * sizeof(long));
}

/* Types and operators that the program frees at once. */
static void outlives_what_it_uses(MPI_Comm comm)
{
    MPI_Datatype pair, holes;
    MPI_Op op;
    MPI_Request requests[2];
    long own[2] = {rank + 10, rank + 20}, all[2] = {0, 0}, block[2] = {rank, -1};
    long *blocks = calloc((size_t)size * 2, sizeof *blocks);
    MPI_Type_contiguous(2, MPI_LONG, &pair);
    MPI_Type_commit(&pair);
    MPI_Type_create_resized(MPI_LONG, 0, 2 * sizeof(long), &holes);
    MPI_Type_commit(&holes);
    MPI_Op_create(first_of_two, 0, &op);
    MPI_Iallreduce(own, all, 1, pair, op, comm, &requests[0]);
    MPI_Iallgather(block, 1, holes, blocks, 1, holes, comm, &requests[1]);
    MPI_Op_free(&op);
    MPI_Type_free(&pair);
    MPI_Type_free(&holes);
    expect(op == MPI_OP_NULL && pair == MPI_DATATYPE_NULL && holes == MPI_DATATYPE_NULL, "handle that is freed", 0);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    expect(all[0] == 10 && all[1] == 20, "sum whose operator is freed", 0);
    for (int r = 0; r < size; r++)
        expect(blocks[2 * r] == r && blocks[2 * r + 1] == 0, "block whose type is freed", r);
    free(blocks);
}

/* Many operations, of all lengths, in the same order on every rank, with blocking ones and other messages between. The
 * ranks wait for them in different orders. */
static void many_at_once(MPI_Comm comm)
{
    MPI_Request requests[OPERATIONS];
    long *own[OPERATIONS], *all[OPERATIONS];
    for (int o = 0; o < OPERATIONS; o++) {
        int count = o % 10 == 0 ? 30000 : o % 7, root = o % size;
        own[o] = malloc((size_t)(count + 1) * sizeof(long));
        all[o] = calloc((size_t)(count + 1) * (size_t)size, sizeof(long));
        for (int i = 0; i < count; i++)
            own[o][i] = rank * 1000L + o + i;
        switch (o % 5) {
        case 0:
            MPI_Iallreduce(own[o], all[o], count, MPI_LONG, MPI_SUM, comm, &requests[o]);
            break;
        case 1:
            MPI_Ireduce(own[o], all[o], count, MPI_LONG, MPI_SUM, root, comm, &requests[o]);
            break;
        case 2:
            MPI_Ibcast(own[o], count, MPI_LONG, root, comm, &requests[o]);
            break;
        case 3:
            MPI_Iallgather(own[o], count, MPI_LONG, all[o], count, MPI_LONG, comm, &requests[o]);
            break;
        default:
            MPI_Ibarrier(comm, &requests[o]);
        }
        if (o % 13 == 5) {
            long one = 1, sum = 0;
            MPI_Allreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, comm);
            expect(sum == size, "blocking sum between others", o);
        }
    }
    for (int n = 0; n < OPERATIONS; n++)
        MPI_Wait(&requests[rank % 2 == 0 ? n : OPERATIONS - 1 - n], MPI_STATUS_IGNORE);
    for (int o = 0; o < OPERATIONS; o++) {
        int count = o % 10 == 0 ? 30000 : o % 7, root = o % size;
        for (int i = 0; i < count; i++) {
            long sum = size * (size - 1) / 2 * 1000L + (long)size * (o + i);
            if (o % 5 == 0 || (o % 5 == 1 && rank == root))
                expect(all[o][i] == sum, "sum", o);
            if (o % 5 == 2)
                expect(own[o][i] == root * 1000L + o + i, "broadcast", o);
            for (int r = 0; r < size && o % 5 == 3; r++)
                expect(all[o][r * count + i] == r * 1000L + o + i, "block", o);
        }
        free(own[o]);
        free(all[o]);
    }
}

/* Waits for the first requests, in a way of the round; where all three are started, a null one is among them. For
 * persistent operations MPICH's own Waitall never returns where one is not started, and its Testall fails. */
static void wait_for(MPI_Request *requests, int count, int round)
{
    int flag = 0, which, number, used = count == 3 ? 4 : count;
    MPI_Status statuses[4];
    switch (round % 5) {
    case 0:
        MPI_Waitall(used, requests, statuses);
        break;
    case 1:
        for (int n = 0; n < used; n++)
            MPI_Wait(&requests[(n + rank) % used], MPI_STATUS_IGNORE);
        break;
    case 2:
        for (int n = 0; n < count; n += flag)
            MPI_Test(&requests[n], &flag, statuses);
        break;
    case 3:
        for (; count > 0; count--) {
            MPI_Waitany(used, requests, &which, statuses);
            expect(which >= 0 && which < 3, "request that ended", which);
        }
        break;
    default:
        while (count > 0) {
            int all[4];
            MPI_Testsome(used, requests, &number, all, statuses);
            count -= number;
        }
    }
}

/* Operations that are made once and started often, two or three of them at a time. */
static void started_often(MPI_Comm comm)
{
    enum { ROUNDS = 60 };
    MPI_Request requests[4] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL}, made[4];
    MPI_Datatype pair;
    long own, sum, data[2];
    MPI_Type_contiguous(2, MPI_LONG, &pair);
    MPI_Type_commit(&pair);
    MPI_Allreduce_init(&own, &sum, 1, MPI_LONG, MPI_SUM, comm, MPI_INFO_NULL, &requests[0]);
    MPI_Bcast_init(data, 1, pair, size - 1, comm, MPI_INFO_NULL, &requests[1]);
    MPI_Barrier_init(comm, MPI_INFO_NULL, &requests[2]);
    MPI_Type_free(&pair);
    memcpy(made, requests, sizeof made);
    for (int round = 0; round < ROUNDS; round++) {
        int count = round % 3 == 0 ? 2 : 3, flag = 0;
        own = rank + round;
        data[0] = data[1] = rank == size - 1 ? round : -1;
        if (round % 2 == 0)
            MPI_Startall(count, requests);
        else
            for (int n = 0; n < count; n++)
                MPI_Start(&requests[n]);
        wait_for(requests, count, round);
        expect(memcmp(made, requests, sizeof made) == 0, "requests after they were started", round);
        expect(sum == (long)size * round + (long)size * (size - 1) / 2, "sum that is started often", round);
        expect(data[0] == round && data[1] == round, "broadcast that is started often", round);
        MPI_Test(&requests[round % 3], &flag, MPI_STATUS_IGNORE);
        expect(flag, "request that is not started", round);
    }
    for (int n = 0; n < 3; n++) {
        MPI_Request_free(&requests[n]);
        expect(requests[n] == MPI_REQUEST_NULL, "request that is freed", n);
    }
}

static volatile double sink;

static void compute(double seconds, MPI_Request *request)
{
    double begin = MPI_Wtime();
    while (MPI_Wtime() - begin < seconds) {
        int flag;
        for (int i = 0; i < 20000; i++)
            sink += 1e-9 * i;
        if (request != NULL)
            MPI_Test(request, &flag, MPI_STATUS_IGNORE);
    }
}

/* What a sum takes alone, and what is left of it beside a computation. */
static void beside(double seconds)
{
    enum { COUNT = 1000, ROUNDS = 5 };
    double own[COUNT], all[COUNT], alone = 0, left = 0;
    for (int i = 0; i < COUNT; i++)
        own[i] = rank;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int r = 0; r < ROUNDS; r++) {
        MPI_Request request;
        double begin = MPI_Wtime();
        MPI_Iallreduce(own, all, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        alone += MPI_Wtime() - begin;
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Iallreduce(own, all, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
        compute(seconds, &request);
        begin = MPI_Wtime();
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        left += MPI_Wtime() - begin;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    double mean[2] = {alone / ROUNDS, left / ROUNDS}, highest[2];
    MPI_Reduce(mean, highest, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("alone %f left %f\n", highest[0], highest[1]);
}

int main(int argc, char **argv)
{
    MPI_Comm turned;
    int level = 0, wanted = argc > 2 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    MPI_Init_thread(&argc, &argv, wanted, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc == 2) {
        beside(atof(argv[1]));
        MPI_Finalize();
        return 0;
    }
    expect(level >= wanted, "level of threads", level);
    begins_without_others(MPI_COMM_WORLD);
    /* The first operation on it is a nonblocking one. */
    passes_on_inside_other_calls(MPI_COMM_WORLD, 100000);
    outlives_what_it_uses(MPI_COMM_WORLD);
    many_at_once(MPI_COMM_WORLD);
    started_often(MPI_COMM_WORLD);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned);
    MPI_Comm_rank(turned, &rank);
    begins_without_others(turned);
    many_at_once(turned);
    passes_on_inside_other_calls(turned, 3);
    started_often(turned);
    MPI_Comm_free(&turned);
    if (rank == size - 1)
        printf("all right with %d ranks\n", size);
    MPI_Finalize();
    return 0;
}
