/* Collective operations that block. */
#define _POSIX_C_SOURCE 200809L
#include "conformance.h"
#include <time.h>

static int out[RANKS_MAX * RANKS_MAX], in[RANKS_MAX * RANKS_MAX], counts[RANKS_MAX], places[RANKS_MAX];

/* What a rank sends to another. */
static int sent(int from, int to)
{
    return 1000 * from + to;
}

static void fill(void)
{
    for (int i = 0; i < RANKS_MAX * RANKS_MAX; i++)
        in[i] = -1;
    for (int i = 0; i < size; i++)
        out[i] = sent(rank, i);
}

/* Rank i has i + 1 elements, one after another with a gap. */
static int lay_out(void)
{
    int end = 0;
    for (int i = 0; i < size; i++) {
        counts[i] = i + 1;
        places[i] = end;
        end += i + 2;
    }
    return end;
}

/* The machine's clock: that of MPI may begin at another moment in each rank. */
static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void barrier(void)
{
    double before = seconds(), entered, left, last_entered, first_left;
    call(MPI_Barrier(MPI_COMM_WORLD));
    entered = seconds();
    call(MPI_Barrier(MPI_COMM_WORLD));
    left = seconds();
    call(MPI_Allreduce(&entered, &last_entered, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    call(MPI_Allreduce(&left, &first_left, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD));
    expect(before <= entered && entered <= left);
    expect(last_entered <= first_left + 0.001); /* All ranks are on one machine. */
}

static void broadcast_from_each(void)
{
    for (int root = 0; root < size; root++) {
        int data[3] = {rank, rank + 1, -rank};
        call(MPI_Bcast(data, 3, MPI_INT, root, MPI_COMM_WORLD));
        expect(data[0] == root && data[1] == root + 1 && data[2] == -root);
    }
}

static void broadcast_of_much(void)
{
    enum { MUCH = 1 << 18 };
    int *data = malloc(MUCH * sizeof *data), right = 1;
    for (int i = 0; i < MUCH; i++)
        data[i] = rank == size - 1 ? i : -1;
    call(MPI_Bcast(data, MUCH, MPI_INT, size - 1, MPI_COMM_WORLD));
    for (int i = 0; i < MUCH; i++)
        right &= data[i] == i;
    expect(right);
    free(data);
}

static void broadcast_of_another_type(void)
{
    int data[4] = {rank, rank, rank, rank};
    MPI_Datatype pair;
    call(MPI_Type_contiguous(2, MPI_INT, &pair));
    call(MPI_Type_commit(&pair));
    call(rank == 0 ? MPI_Bcast(data, 2, pair, 0, MPI_COMM_WORLD) : MPI_Bcast(data, 4, MPI_INT, 0, MPI_COMM_WORLD));
    expect(data[0] == 0 && data[3] == 0);
    call(MPI_Type_free(&pair));
}

static void gather(void)
{
    int root = size - 1;
    fill();
    call(MPI_Gather(&out[root], 1, MPI_INT, in, 1, MPI_INT, root, MPI_COMM_WORLD));
    for (int i = 0; i < size; i++)
        expect(in[i] == (rank == root ? sent(i, root) : -1));
}

static void gather_in_place(void)
{
    fill();
    in[rank] = 5 * rank;
    call(MPI_Gather(rank == 0 ? MPI_IN_PLACE : &in[rank], 1, MPI_INT, in, 1, MPI_INT, 0, MPI_COMM_WORLD));
    for (int i = 0; rank == 0 && i < size; i++)
        expect(in[i] == 5 * i);
}

static void gather_of_different_counts(void)
{
    fill();
    lay_out();
    call(MPI_Gatherv(out, rank + 1, MPI_INT, in, counts, places, MPI_INT, 0, MPI_COMM_WORLD));
    for (int i = 0; rank == 0 && i < size; i++)
        expect(in[places[i]] == sent(i, 0) && in[places[i] + i] == sent(i, i) && in[places[i] + i + 1] == -1);
}

static void scatter(void)
{
    fill();
    call(MPI_Scatter(out, 1, MPI_INT, in, 1, MPI_INT, 0, MPI_COMM_WORLD));
    expect(in[0] == sent(0, rank) && in[1] == -1);
}

static void scatter_in_place(void)
{
    fill();
    call(MPI_Scatter(out, 1, MPI_INT, rank == 0 ? MPI_IN_PLACE : in, 1, MPI_INT, 0, MPI_COMM_WORLD));
    expect(rank == 0 ? out[0] == sent(0, 0) : in[0] == sent(0, rank));
}

static void scatter_of_different_counts(void)
{
    int end = lay_out();
    fill();
    for (int i = 0; i < end; i++)
        out[i] = i;
    call(MPI_Scatterv(out, counts, places, MPI_INT, in, rank + 1, MPI_INT, size - 1, MPI_COMM_WORLD));
    expect(in[0] == places[rank] && in[rank] == places[rank] + rank && in[rank + 1] == -1);
}

static void gather_to_all(void)
{
    fill();
    call(MPI_Allgather(&out[0], 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < size; i++)
        expect(in[i] == sent(i, 0));
}

static void gather_to_all_in_place(void)
{
    fill();
    in[rank] = rank * rank;
    call(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 1, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < size; i++)
        expect(in[i] == i * i);
}

static void gather_to_all_of_different_counts(void)
{
    fill();
    lay_out();
    call(MPI_Allgatherv(out, rank + 1, MPI_INT, in, counts, places, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < size; i++)
        expect(in[places[i] + i] == sent(i, i));
}

static void all_to_all(void)
{
    fill();
    call(MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < size; i++)
        expect(in[i] == sent(i, rank));
}

static void all_to_all_in_place(void)
{
    fill();
    call(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, 1, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < size; i++)
        expect(out[i] == sent(i, rank));
}

/* Rank r sends i + 1 elements to rank i. */
static void all_to_all_of_different_counts(void)
{
    int of_mine[RANKS_MAX], from[RANKS_MAX];
    int end = lay_out();
    fill();
    for (int i = 0; i < end; i++)
        out[i] = 100 * rank + i;
    for (int i = 0; i < size; i++) {
        of_mine[i] = rank + 1;
        from[i] = i * (rank + 1);
    }
    call(MPI_Alltoallv(out, counts, places, MPI_INT, in, of_mine, from, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < size; i++)
        expect(in[from[i]] == 100 * i + places[rank] && in[from[i] + rank] == 100 * i + places[rank] + rank);
}

static void all_to_all_of_different_types(void)
{
    int bytes[RANKS_MAX];
    MPI_Datatype types[RANKS_MAX];
    fill();
    for (int i = 0; i < size; i++) {
        counts[i] = 1;
        bytes[i] = i * (int)sizeof(int);
        types[i] = MPI_INT;
    }
    call(MPI_Alltoallw(out, counts, bytes, types, in, counts, bytes, types, MPI_COMM_WORLD));
    for (int i = 0; i < size; i++)
        expect(in[i] == sent(i, rank));
}

static void reduce_to_each(void)
{
    for (int root = 0; root < size; root++) {
        int mine[2] = {rank, 1}, sum[2] = {-1, -1};
        call(MPI_Reduce(mine, sum, 2, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD));
        expect(rank == root ? sum[0] == size * (size - 1) / 2 && sum[1] == size : sum[0] == -1);
    }
}

static void reduce_in_place(void)
{
    int value = rank + 1;
    call(MPI_Reduce(rank == 0 ? MPI_IN_PLACE : &value, &value, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD));
    expect(value == (rank == 0 ? size : rank + 1));
}

static void reduce_to_all(void)
{
    int sum = 0;
    call(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    expect(sum == size * (size - 1) / 2);
}

static void reduce_to_all_in_place(void)
{
    double sum = rank * 0.5;
    call(MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    expect(sum == size * (size - 1) / 4.0);
}

static void reduce_of_much(void)
{
    enum { MUCH = 50000 };
    long *mine = malloc(MUCH * sizeof *mine), *sum = calloc(MUCH, sizeof *sum);
    int right = 1;
    for (int i = 0; i < MUCH; i++)
        mine[i] = i + rank;
    call(MPI_Allreduce(mine, sum, MUCH, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < MUCH; i++)
        right &= sum[i] == (long)size * i + size * (size - 1) / 2;
    expect(right);
    free(mine);
    free(sum);
}

static void reduce_and_scatter(void)
{
    fill();
    lay_out();
    int start = rank * (rank + 1) / 2;
    for (int i = 0; i < size * (size + 1) / 2; i++)
        out[i] = i + rank;
    call(MPI_Reduce_scatter(out, in, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    expect(in[0] == size * start + size * (size - 1) / 2 && in[rank + 1] == -1);
}

static void reduce_and_scatter_blocks(void)
{
    fill();
    call(MPI_Reduce_scatter_block(out, in, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    expect(in[0] == sent(size - 1, rank));
}

static void scan(void)
{
    int value = rank + 1, sum = 0;
    call(MPI_Scan(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    expect(sum == (rank + 1) * (rank + 2) / 2);
}

static void scan_without_own(void)
{
    int value = rank + 1, sum = -1;
    call(MPI_Exscan(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    expect(rank == 0 || sum == rank * (rank + 1) / 2);
}

static void scan_in_place(void)
{
    int value = 2;
    call(MPI_Scan(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    expect(value == 2 * (rank + 1));
}

static void no_elements(void)
{
    call(MPI_Bcast(NULL, 0, MPI_INT, 0, MPI_COMM_WORLD));
    call(MPI_Allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    call(MPI_Alltoall(NULL, 0, MPI_INT, NULL, 0, MPI_INT, MPI_COMM_WORLD));
}

#if MPI_VERSION >= 4
static void long_counts_of_collectives(void)
{
    MPI_Count many[RANKS_MAX];
    MPI_Aint where[RANKS_MAX];
    int sum = 0;
    fill();
    for (int i = 0; i < size; i++) {
        many[i] = 1;
        where[i] = i;
    }
    call(MPI_Allgatherv_c(&rank, 1, MPI_INT, in, many, where, MPI_INT, MPI_COMM_WORLD));
    call(MPI_Allreduce_c(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    expect(in[size - 1] == size - 1 && sum == size * (size - 1) / 2);
}
#endif

/* On the group of the even ranks and that of the odd ones, each apart. */
static void on_a_half(void)
{
    int sum = 0, members = 0;
    MPI_Comm half;
    call(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half));
    call(MPI_Comm_size(half, &members));
    call(MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, half));
    expect(sum == members && members == (size + 1 - rank % 2) / 2);
    call(MPI_Comm_free(&half));
}

static void on_self(void)
{
    int value = rank, sum = -1;
    call(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF));
    expect(sum == rank);
}

static void many_one_after_another(void)
{
    int right = 1;
    for (int i = 0; i < 20; i++) {
        int value = rank == i % size ? i : -1, largest = 0;
        call(MPI_Bcast(&value, 1, MPI_INT, i % size, MPI_COMM_WORLD));
        call(MPI_Allreduce(&value, &largest, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
        right &= value == i && largest == i;
    }
    expect(right);
}

const struct check collectives[] = {
    CHECK(barrier),
    CHECK(broadcast_from_each),
    CHECK(broadcast_of_much),
    CHECK(broadcast_of_another_type),
    CHECK(gather),
    CHECK(gather_in_place),
    CHECK(gather_of_different_counts),
    CHECK(scatter),
    CHECK(scatter_in_place),
    CHECK(scatter_of_different_counts),
    CHECK(gather_to_all),
    CHECK(gather_to_all_in_place),
    CHECK(gather_to_all_of_different_counts),
    CHECK(all_to_all),
    CHECK(all_to_all_in_place),
    CHECK(all_to_all_of_different_counts),
    CHECK(all_to_all_of_different_types),
    CHECK(reduce_to_each),
    CHECK(reduce_in_place),
    CHECK(reduce_to_all),
    CHECK(reduce_to_all_in_place),
    CHECK(reduce_of_much),
    CHECK(reduce_and_scatter),
    CHECK(reduce_and_scatter_blocks),
    CHECK(scan),
    CHECK(scan_without_own),
    CHECK(scan_in_place),
    CHECK(no_elements),
#if MPI_VERSION >= 4
    CHECK(long_counts_of_collectives),
#endif
    CHECK(on_a_half),
    CHECK(on_self),
    CHECK(many_one_after_another),
    {0},
};
