/* Every collective operation that has a plan over sites, with many counts, types, operators and roots, against what it
 * must give: wide [ROUNDS [FORM]]. The form "nonblocking" begins each and waits in all the ways that MPI has; "mixed"
 * does that with every second one; "persistent" makes a request of each and starts it. Prints the bits of some sums of
 * floating-point numbers, and "all right". Must never know about pcm. */
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;
static MPI_Comm comm;

/* 0: every operation blocks. 1: none. 2: every second one, the same ones on all ranks. 3: each is started. */
static int form, operations;
enum { PERSISTENT = 3 };

/* Waits for a request, in another way each time. */
static int finish(MPI_Request *request)
{
    static int calls;
    MPI_Request both[2] = {MPI_REQUEST_NULL, *request};
    MPI_Status status, statuses[2];
    int flag = 0, which = -1, number = 0, all[2];
    /* Those that never give the CPU away come seldom. */
    switch (calls++ % 41) {
    case 1:
        MPI_Waitany(2, both, &which, &status);
        break;
    case 2:
        MPI_Waitsome(2, both, &number, all, statuses);
        break;
    case 3:
    case 23:
        while (!flag) {
            MPI_Test(&both[1], &flag, MPI_STATUS_IGNORE);
            sched_yield();
        }
        break;
    case 4:
    case 24:
        for (; !flag; sched_yield())
            MPI_Request_get_status(both[1], &flag, &status);
        MPI_Wait(&both[1], MPI_STATUS_IGNORE);
        break;
    default:
        if (calls % 2 == 0)
            MPI_Waitall(2, both, statuses);
        else
            MPI_Wait(&both[1], &status);
    }
    if (both[1] != (form == PERSISTENT ? *request : MPI_REQUEST_NULL)) {
        printf("a request is another one than it should be after it was waited for\n");
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
    if (form == PERSISTENT)
        MPI_Request_free(&both[1]);
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

static int started(MPI_Request *request)
{
    MPI_Start(request);
    return finish(request);
}

static MPI_Request pending;
static int is_nonblocking(void)
{
    return form == 1 || (form == 2 && operations++ % 2 == 1);
}
#define EITHER(name, small, ...) \
    (form == PERSISTENT ? (MPI_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &pending), started(&pending)) \
     : is_nonblocking() ? (MPI_I##small(__VA_ARGS__, &pending), finish(&pending)) \
                        : MPI_##name(__VA_ARGS__))
#define MPI_Barrier(...) EITHER(Barrier, barrier, __VA_ARGS__)
#define MPI_Bcast(...) EITHER(Bcast, bcast, __VA_ARGS__)
#define MPI_Reduce(...) EITHER(Reduce, reduce, __VA_ARGS__)
#define MPI_Allreduce(...) EITHER(Allreduce, allreduce, __VA_ARGS__)
#define MPI_Reduce_scatter(...) EITHER(Reduce_scatter, reduce_scatter, __VA_ARGS__)
#define MPI_Reduce_scatter_block(...) EITHER(Reduce_scatter_block, reduce_scatter_block, __VA_ARGS__)
#define MPI_Scan(...) EITHER(Scan, scan, __VA_ARGS__)
#define MPI_Exscan(...) EITHER(Exscan, exscan, __VA_ARGS__)
#define MPI_Gather(...) EITHER(Gather, gather, __VA_ARGS__)
#define MPI_Gatherv(...) EITHER(Gatherv, gatherv, __VA_ARGS__)
#define MPI_Scatter(...) EITHER(Scatter, scatter, __VA_ARGS__)
#define MPI_Scatterv(...) EITHER(Scatterv, scatterv, __VA_ARGS__)
#define MPI_Allgather(...) EITHER(Allgather, allgather, __VA_ARGS__)
#define MPI_Allgatherv(...) EITHER(Allgatherv, allgatherv, __VA_ARGS__)
#define MPI_Alltoall(...) EITHER(Alltoall, alltoall, __VA_ARGS__)
#define MPI_Alltoallv(...) EITHER(Alltoallv, alltoallv, __VA_ARGS__)

static void expect(int is_so, const char *what, int count, int root)
{
    if (is_so)
        return;
    printf("rank %d of %d: %s with %d elements and root %d is wrong\n", rank, size, what, count, root);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static long value(int of, int i)
{
    return (long)of * 1000003 + i * 17L + 5;
}

static long sum_to(int last, int i)
{
    long sum = 0;
    for (int r = 0; r <= last; r++)
        sum += value(r, i);
    return sum;
}

/* Pairs (a, b) that stand for x -> a * x + b: applied one after the other, in no other order. */
static void apply(void *in, void *inout, int *count, MPI_Datatype *type)
{
    unsigned *first = in, *second = inout;
    (void)type;
    for (int i = 0; i < *count; i++, first += 2, second += 2) {
        unsigned a = first[0] * second[0], b = first[1] * second[0] + second[1];
        second[0] = a;
        second[1] = b;
    }
}

static void fill_pairs(unsigned *pairs, int of, int count)
{
    for (int i = 0; i < count; i++) {
        pairs[2 * i] = (unsigned)(2 * of + 3 + i);
        pairs[2 * i + 1] = (unsigned)(of * 7 + i);
    }
}

static void expected_pairs(unsigned *all, int last, int count)
{
    unsigned *next = malloc((size_t)count * 8 + 8);
    int two = count;
    fill_pairs(all, 0, count);
    for (int r = 1; r <= last; r++) {
        fill_pairs(next, r, count);
        apply(all, next, &two, NULL);
        memcpy(all, next, (size_t)count * 8);
    }
    free(next);
}

static void sums(int count, int root)
{
    size_t bytes = (size_t)count * sizeof(long) + 8;
    long *own = malloc(bytes), *all = malloc(bytes);
    for (int i = 0; i < count; i++)
        own[i] = value(rank, i);
    int is_right = 1;
#define EACH(condition) \
    is_right = 1; \
    for (int i = 0; i < count; i++) \
        is_right &= (condition)
    MPI_Reduce(own, all, count, MPI_LONG, MPI_SUM, root, comm);
    if (rank == root) {
        EACH(all[i] == sum_to(size - 1, i));
        expect(is_right, "Reduce", count, root);
    }
    memcpy(all, own, bytes);
    MPI_Reduce(rank == root ? MPI_IN_PLACE : own, all, count, MPI_LONG, MPI_SUM, root, comm);
    EACH(all[i] == (rank == root ? sum_to(size - 1, i) : own[i]));
    expect(is_right, "Reduce in place", count, root);
    MPI_Allreduce(own, all, count, MPI_LONG, MPI_SUM, comm);
    EACH(all[i] == sum_to(size - 1, i));
    expect(is_right, "Allreduce", count, root);
    memcpy(all, own, bytes);
    MPI_Allreduce(MPI_IN_PLACE, all, count, MPI_LONG, MPI_MAX, comm);
    EACH(all[i] == value(size - 1, i));
    expect(is_right, "Allreduce in place", count, root);
    MPI_Scan(own, all, count, MPI_LONG, MPI_SUM, comm);
    EACH(all[i] == sum_to(rank, i));
    expect(is_right, "Scan", count, root);
    memset(all, 7, bytes);
    MPI_Exscan(own, all, count, MPI_LONG, MPI_SUM, comm);
    EACH(rank == 0 || all[i] == sum_to(rank - 1, i));
    expect(is_right, "Exscan", count, root);
    free(own);
    free(all);

    long *whole = malloc((size_t)size * (size_t)count * sizeof(long) + 8), *part = malloc(bytes);
    for (int i = 0; i < size * count; i++)
        whole[i] = value(rank, i);
    MPI_Reduce_scatter_block(whole, part, count, MPI_LONG, MPI_SUM, comm);
    EACH(part[i] == sum_to(size - 1, rank * count + i));
    expect(is_right, "Reduce_scatter_block", count, root);
    int *counts = malloc((size_t)size * sizeof *counts), first = 0;
    for (int r = 0; r < size; r++) {
        counts[r] = r % 2 == 0 ? count : 0;
        first += r < rank ? counts[r] : 0;
    }
    MPI_Reduce_scatter(whole, part, counts, MPI_LONG, MPI_SUM, comm);
    for (int i = 0; i < counts[rank]; i++)
        is_right &= part[i] == sum_to(size - 1, first + i);
    expect(is_right, "Reduce_scatter", count, root);
    free(counts);
    free(whole);
    free(part);
}

static void in_order(int count, int root, MPI_Datatype pair, MPI_Op op)
{
    unsigned *own = malloc((size_t)count * 8 + 8), *all = malloc((size_t)count * 8 + 8);
    unsigned *wanted = malloc((size_t)count * 8 + 8);
    fill_pairs(own, rank, count);
    expected_pairs(wanted, size - 1, count);
    MPI_Reduce(own, all, count, pair, op, root, comm);
    if (rank == root)
        expect(memcmp(all, wanted, (size_t)count * 8) == 0, "Reduce in order", count, root);
    MPI_Allreduce(own, all, count, pair, op, comm);
    expect(memcmp(all, wanted, (size_t)count * 8) == 0, "Allreduce in order", count, root);
    expected_pairs(wanted, rank, count);
    MPI_Scan(own, all, count, pair, op, comm);
    expect(memcmp(all, wanted, (size_t)count * 8) == 0, "Scan in order", count, root);
    if (rank > 0)
        expected_pairs(wanted, rank - 1, count);
    MPI_Exscan(own, all, count, pair, op, comm);
    expect(rank == 0 || memcmp(all, wanted, (size_t)count * 8) == 0, "Exscan in order", count, root);
    free(own);
    free(all);
    free(wanted);
}

/* One side has numbers, the other a type with holes. */
static void blocks(int count, int root, MPI_Datatype holes)
{
    int is_right;
    long *own = malloc((size_t)count * sizeof(long) + 8), *back = malloc((size_t)count * 2 * sizeof(long) + 8);
    long *all = calloc((size_t)size * (size_t)count * 2 + 1, sizeof(long));
    long *other = malloc((size_t)size * (size_t)count * sizeof(long) + 8);
    for (int i = 0; i < count; i++)
        own[i] = value(rank, i);
    MPI_Gather(own, count, MPI_LONG, all, count, holes, root, comm);
    is_right = 1;
    for (int r = 0; r < size && rank == root; r++)
        for (int i = 0; i < count; i++)
            is_right &= all[2 * (r * count + i)] == value(r, i) && all[2 * (r * count + i) + 1] == 0;
    expect(is_right, "Gather", count, root);
    MPI_Scatter(all, count, holes, back, count, MPI_LONG, root, comm);
    expect(memcmp(own, back, (size_t)count * sizeof(long)) == 0, "Scatter", count, root);
    MPI_Allgather(own, count, MPI_LONG, other, count, MPI_LONG, comm);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < count; i++)
            is_right &= other[r * count + i] == value(r, i);
    expect(is_right, "Allgather", count, root);
    memset(other, 0, (size_t)size * (size_t)count * sizeof(long));
    memcpy(other + rank * count, own, (size_t)count * sizeof(long));
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, other, count, MPI_LONG, comm);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < count; i++)
            is_right &= other[r * count + i] == value(r, i);
    expect(is_right, "Allgather in place", count, root);
    MPI_Gather(rank == root ? MPI_IN_PLACE : own, count, MPI_LONG, other, count, MPI_LONG, root, comm);
    for (int r = 0; r < size && rank == root; r++)
        for (int i = 0; i < count; i++)
            is_right &= other[r * count + i] == value(r, i);
    expect(is_right, "Gather in place", count, root);
    MPI_Scatter(other, count, MPI_LONG, rank == root ? MPI_IN_PLACE : back, count, MPI_LONG, root, comm);
    expect(rank == root || memcmp(own, back, (size_t)count * sizeof(long)) == 0, "Scatter in place", count, root);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < count; i++)
            other[r * count + i] = value(rank * size + r, i);
    MPI_Alltoall(other, count, MPI_LONG, all, count, MPI_LONG, comm);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < count; i++)
            is_right &= all[r * count + i] == value(r * size + rank, i);
    expect(is_right, "Alltoall", count, root);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, other, count, MPI_LONG, comm);
    expect(memcmp(all, other, (size_t)size * (size_t)count * sizeof(long)) == 0, "Alltoall in place", count, root);
    memset(back, 0, (size_t)count * 2 * sizeof(long));
    for (int i = 0; i < count && rank == root; i++)
        back[2 * i] = value(root, i);
    if (rank == root)
        MPI_Bcast(back, count, holes, root, comm);
    else
        MPI_Bcast(back, count, MPI_LONG, root, comm);
    for (int i = 0; i < count; i++)
        is_right &= back[rank == root ? 2 * i : i] == value(root, i);
    expect(is_right, "Bcast", count, root);
    free(own);
    free(back);
    free(all);
    free(other);
}

/* Blocks of different lengths, some empty, with gaps, not in the order of ranks; in one place a type with holes. */
static void uneven(int count, int root, MPI_Datatype holes)
{
    int *counts = malloc((size_t)size * sizeof(int)), *firsts = malloc((size_t)size * sizeof(int));
    int end = 1, is_right = 1;
    for (int r = size - 1; r >= 0; r--) {
        counts[r] = r % 3 == 1 ? 0 : count + r;
        firsts[r] = end;
        end += counts[r] + (r % 2);
    }
    size_t whole = (size_t)end * 2 + 1;
    long *own = malloc((size_t)(count + size) * sizeof(long)), *back = malloc((size_t)(count + size) * sizeof(long));
    long *all = calloc(whole, sizeof(long)), *other = calloc(whole, sizeof(long));
    for (int i = 0; i < counts[rank]; i++)
        own[i] = value(rank, i);
#define HOLDS(memory, step) \
    is_right = 1; \
    for (int r = 0; r < size; r++) \
        for (int i = 0; i < counts[r]; i++) \
            is_right &= (memory)[(step) * (firsts[r] + i)] == value(r, i) && (memory)[0] == 0
    int is_root = rank == root;
    MPI_Gatherv(own, counts[rank], MPI_LONG, all, is_root ? counts : NULL, is_root ? firsts : NULL, holes, root, comm);
    if (is_root) {
        HOLDS(all, 2);
        expect(is_right, "Gatherv", count, root);
    }
    MPI_Scatterv(all, is_root ? counts : NULL, is_root ? firsts : NULL, holes, back, counts[rank], MPI_LONG, root,
                 comm);
    expect(memcmp(own, back, (size_t)counts[rank] * sizeof(long)) == 0, "Scatterv", count, root);
    MPI_Allgatherv(own, counts[rank], MPI_LONG, other, counts, firsts, MPI_LONG, comm);
    HOLDS(other, 1);
    expect(is_right, "Allgatherv", count, root);
    memset(other, 0, whole * sizeof(long));
    memcpy(other + firsts[rank], own, (size_t)counts[rank] * sizeof(long));
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, other, counts, firsts, MPI_LONG, comm);
    HOLDS(other, 1);
    expect(is_right, "Allgatherv in place", count, root);
    memset(other, 0, whole * sizeof(long));
    memcpy(other + firsts[rank], own, (size_t)counts[rank] * sizeof(long));
    MPI_Gatherv(is_root ? MPI_IN_PLACE : own, counts[rank], MPI_LONG, other, counts, firsts, MPI_LONG, root, comm);
    if (is_root) {
        HOLDS(other, 1);
        expect(is_right, "Gatherv in place", count, root);
    }
    /* Rank r gives rank s as many elements as both say. */
    int *sends = malloc((size_t)size * sizeof(int)), *from = malloc((size_t)size * sizeof(int)), first = 0;
    for (int r = 0; r < size; r++) {
        sends[r] = (r + rank) % 4 == 0 ? 0 : (count + r + rank) % 100;
        from[r] = first;
        first += sends[r];
    }
    long *given = malloc((size_t)first * sizeof(long) + 8), *got = malloc((size_t)first * 2 * sizeof(long) + 8);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < sends[r]; i++)
            given[from[r] + i] = value(rank * size + r, i);
    MPI_Alltoallv(given, sends, from, MPI_LONG, got, sends, from, holes, comm);
    is_right = 1;
    for (int r = 0; r < size; r++)
        for (int i = 0; i < sends[r]; i++)
            is_right &= got[2 * (from[r] + i)] == value(r * size + rank, i);
    expect(is_right, "Alltoallv", count, root);
    MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, given, sends, from, MPI_LONG, comm);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < sends[r]; i++)
            is_right &= given[from[r] + i] == value(r * size + rank, i);
    expect(is_right, "Alltoallv in place", count, root);
    free(counts);
    free(firsts);
    free(own);
    free(back);
    free(all);
    free(other);
    free(sends);
    free(from);
    free(given);
    free(got);
}

/* Numbers whose sum depends on the order. */
static void bits(void)
{
    double own[3], all[3];
    for (int i = 0; i < 3; i++)
        own[i] = 1.0 / (3 + 7 * rank + i) * (rank % 3 == 0 ? 1e9 : 1e-3);
    MPI_Allreduce(own, all, 3, MPI_DOUBLE, MPI_SUM, comm);
    if (rank == 0)
        printf("bits %a %a %a\n", all[0], all[1], all[2]);
    MPI_Scan(own, all, 3, MPI_DOUBLE, MPI_SUM, comm);
    if (rank == size - 1)
        printf("bits of a prefix %a %a %a\n", all[0], all[1], all[2]);
}

static void try_all(int rounds)
{
    static const int COUNTS[] = {1, 0, 3, 1000, 40000};
    MPI_Datatype pair, holes;
    MPI_Op op;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Type_contiguous(2, MPI_UNSIGNED, &pair);
    MPI_Type_commit(&pair);
    MPI_Type_create_resized(MPI_LONG, 0, 2 * sizeof(long), &holes);
    MPI_Type_commit(&holes);
    MPI_Op_create(apply, 0, &op);
    for (int round = 0; round < rounds; round++)
        for (size_t c = 0; c < sizeof COUNTS / sizeof COUNTS[0]; c++) {
            int root = (round + (int)c) % size;
            MPI_Barrier(comm);
            sums(COUNTS[c], root);
            in_order(COUNTS[c], root, pair, op);
            blocks(COUNTS[c], root, holes);
            uneven(COUNTS[c], root, holes);
        }
    bits();
    MPI_Op_free(&op);
    MPI_Type_free(&pair);
    MPI_Type_free(&holes);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 2, all, number;
    MPI_Comm halves, turned;
    if (argc > 2)
        form = strcmp(argv[2], "nonblocking") == 0 ? 1
             : strcmp(argv[2], "mixed") == 0       ? 2
             : strcmp(argv[2], "persistent") == 0  ? PERSISTENT
                                                   : 0;
    MPI_Init(&argc, &argv);
    comm = MPI_COMM_WORLD;
    try_all(rounds);
    /* Others: half of the ranks, the ranks in opposite order, one alone. */
    MPI_Comm_rank(MPI_COMM_WORLD, &number);
    MPI_Comm_size(MPI_COMM_WORLD, &all);
    MPI_Comm_split(MPI_COMM_WORLD, number % 2, number, &halves);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -number, &turned);
    comm = halves;
    try_all(1);
    comm = turned;
    try_all(1);
    comm = MPI_COMM_SELF;
    try_all(1);
    MPI_Comm_free(&halves);
    MPI_Comm_free(&turned);
    if (number == 0)
        printf("all right with %d ranks\n", all);
    MPI_Finalize();
    return 0;
}
