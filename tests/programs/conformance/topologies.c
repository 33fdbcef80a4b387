/* Process topologies, and collective operations among neighbours in them. */
#include "conformance.h"

/* A ring of all ranks, closed. */
static MPI_Comm ring(void)
{
    MPI_Comm comm = MPI_COMM_NULL;
    call(MPI_Cart_create(MPI_COMM_WORLD, 1, &size, (int[]){1}, 0, &comm));
    return comm;
}

/* From the previous rank, to the next one, with weights. */
static MPI_Comm chain(void)
{
    MPI_Comm comm = MPI_COMM_NULL;
    call(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &previous, (int[]){5}, 1, &next, (int[]){6}, MPI_INFO_NULL,
                                        0, &comm));
    return comm;
}

static void dimensions(void)
{
    int dims[3] = {0, 2, 0};
    call(MPI_Dims_create(12, 3, dims));
    expect(dims[1] == 2 && dims[0] * dims[2] == 6 && dims[0] >= dims[2]);
}

static void grid(void)
{
    int dims[2] = {0, 0}, kinds = 0, found[2], periods[2], coords[2], own = -1, axes = 0;
    MPI_Comm comm;
    call(MPI_Dims_create(size, 2, dims));
    call(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, (int[]){1, 0}, 0, &comm));
    call(MPI_Topo_test(comm, &kinds));
    call(MPI_Cartdim_get(comm, &axes));
    call(MPI_Cart_get(comm, 2, found, periods, coords));
    call(MPI_Cart_rank(comm, coords, &own));
    expect(kinds == MPI_CART && axes == 2 && found[0] == dims[0] && periods[0] && !periods[1] && own == rank);
    expect(coords[0] == rank / dims[1] && coords[1] == rank % dims[1]);
    call(MPI_Cart_coords(comm, size - 1, 2, coords));
    expect(coords[0] == dims[0] - 1 && coords[1] == dims[1] - 1);
    call(MPI_Comm_free(&comm));
}

static void grid_of_less_than_all(void)
{
    MPI_Comm comm;
    call(MPI_Cart_create(MPI_COMM_WORLD, 1, (int[]){size - 1}, (int[]){0}, 0, &comm));
    expect((comm == MPI_COMM_NULL) == (rank == size - 1));
    if (comm != MPI_COMM_NULL)
        call(MPI_Comm_free(&comm));
}

static void grid_in_another_order(void)
{
    int own = -1, sum = 0;
    MPI_Comm comm;
    call(MPI_Cart_create(MPI_COMM_WORLD, 1, &size, (int[]){0}, 1, &comm));
    call(MPI_Comm_rank(comm, &own));
    call(MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, comm));
    expect(sum == size * (size - 1) / 2);
    call(MPI_Comm_free(&comm));
}

static void shift_in_a_ring(void)
{
    int from = -5, to = -5, in = -1;
    MPI_Comm comm = ring();
    call(MPI_Cart_shift(comm, 0, 1, &from, &to));
    expect(from == previous && to == next);
    call(MPI_Sendrecv(&rank, 1, MPI_INT, to, 1, &in, 1, MPI_INT, from, 1, comm, MPI_STATUS_IGNORE));
    expect(in == previous);
    call(MPI_Comm_free(&comm));
}

static void shift_beyond_the_edge(void)
{
    int from = -5, to = -5;
    MPI_Comm comm;
    call(MPI_Cart_create(MPI_COMM_WORLD, 1, &size, (int[]){0}, 0, &comm));
    call(MPI_Cart_shift(comm, 0, 1, &from, &to));
    expect(from == (rank == 0 ? MPI_PROC_NULL : rank - 1));
    expect(to == (rank == size - 1 ? MPI_PROC_NULL : rank + 1));
    call(MPI_Comm_free(&comm));
}

static void rows_of_a_grid(void)
{
    int members = 0, own = -1;
    MPI_Comm comm, row;
    call(MPI_Cart_create(MPI_COMM_WORLD, 2, (int[]){1, size}, (int[]){0, 0}, 0, &comm));
    call(MPI_Cart_sub(comm, (int[]){0, 1}, &row));
    call(MPI_Comm_size(row, &members));
    call(MPI_Comm_rank(row, &own));
    expect(members == size && own == rank);
    call(MPI_Comm_free(&row));
    call(MPI_Comm_free(&comm));
}

static void map_of_a_grid(void)
{
    int own = -5;
    call(MPI_Cart_map(MPI_COMM_WORLD, 1, &size, (int[]){0}, &own));
    expect(own >= 0 && own < size);
}

/* A star: rank 0 is the neighbour of all others. */
static MPI_Comm star(void)
{
    int index[RANKS_MAX], edges[2 * RANKS_MAX];
    MPI_Comm comm = MPI_COMM_NULL;
    index[0] = size - 1;
    for (int i = 1; i < size; i++) {
        index[i] = size - 1 + i;
        edges[i - 1] = i;
        edges[size - 2 + i] = 0;
    }
    call(MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &comm));
    return comm;
}

static void graph(void)
{
    int kinds = 0, nodes = 0, edges = 0, count = 0, neighbours[RANKS_MAX], index[RANKS_MAX], list[2 * RANKS_MAX];
    MPI_Comm comm = star();
    call(MPI_Topo_test(comm, &kinds));
    call(MPI_Graphdims_get(comm, &nodes, &edges));
    expect(kinds == MPI_GRAPH && nodes == size && edges == 2 * (size - 1));
    call(MPI_Graph_neighbors_count(comm, rank, &count));
    call(MPI_Graph_neighbors(comm, rank, RANKS_MAX, neighbours));
    expect(count == (rank == 0 ? size - 1 : 1) && neighbours[0] == (rank == 0 ? 1 : 0));
    call(MPI_Graph_get(comm, RANKS_MAX, 2 * RANKS_MAX, index, list));
    expect(index[0] == size - 1 && list[size - 1] == 0);
    call(MPI_Comm_free(&comm));
}

static void map_of_a_graph(void)
{
    int own = -5;
    call(MPI_Graph_map(MPI_COMM_WORLD, 2, (int[]){1, 2}, (int[]){1, 0}, &own));
    expect(own == MPI_UNDEFINED || (own >= 0 && own < size));
}

static void distributed_graph(void)
{
    int kinds = 0, in = 0, out = 0, weighted = 0, from = -1, to = -1, weight_in = 0, weight_out = 0;
    MPI_Comm comm = chain();
    call(MPI_Topo_test(comm, &kinds));
    call(MPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted));
    expect(kinds == MPI_DIST_GRAPH && in == 1 && out == 1 && weighted);
    call(MPI_Dist_graph_neighbors(comm, 1, &from, &weight_in, 1, &to, &weight_out));
    expect(from == previous && to == next && weight_in == 5 && weight_out == 6);
    call(MPI_Comm_free(&comm));
}

/* Rank 0 alone says which edges there are. */
static void distributed_graph_told_by_one(void)
{
    int sources[RANKS_MAX], degrees[RANKS_MAX], targets[RANKS_MAX], in = 0, out = 0, weighted = 1, from = -1, to = -1;
    MPI_Comm comm;
    for (int i = 0; i < size; i++) {
        sources[i] = i;
        degrees[i] = 1;
        targets[i] = (i + 1) % size;
    }
    call(MPI_Dist_graph_create(MPI_COMM_WORLD, rank == 0 ? size : 0, sources, degrees, targets, MPI_UNWEIGHTED,
                               MPI_INFO_NULL, 0, &comm));
    call(MPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted));
    expect(in == 1 && out == 1 && !weighted);
    call(MPI_Dist_graph_neighbors(comm, 1, &from, MPI_UNWEIGHTED, 1, &to, MPI_UNWEIGHTED));
    expect(from == previous && to == next);
    call(MPI_Comm_free(&comm));
}

static void topology_is_copied(void)
{
    int kinds = 0;
    MPI_Comm comm = ring(), copy;
    call(MPI_Comm_dup(comm, &copy));
    call(MPI_Topo_test(copy, &kinds));
    expect(kinds == MPI_CART);
    call(MPI_Topo_test(MPI_COMM_WORLD, &kinds));
    expect(kinds == MPI_UNDEFINED);
    call(MPI_Comm_free(&copy));
    call(MPI_Comm_free(&comm));
}

static void wrong_grid(void)
{
    int axes = 0;
    MPI_Comm comm = MPI_COMM_NULL;
    expect(MPI_Cart_create(MPI_COMM_WORLD, 1, (int[]){size + 1}, (int[]){0}, 0, &comm) != MPI_SUCCESS);
    expect_class(MPI_Cartdim_get(MPI_COMM_WORLD, &axes), MPI_ERR_TOPOLOGY);
}

static void neighbours_gather(void)
{
    int in[2] = {-1, -1};
    MPI_Comm comm = ring();
    call(MPI_Neighbor_allgather(&rank, 1, MPI_INT, in, 1, MPI_INT, comm));
    expect(in[0] == previous && in[1] == next);
    call(MPI_Comm_free(&comm));
}

static void neighbours_gather_different_counts(void)
{
    int out[RANKS_MAX], in[RANKS_MAX] = {0};
    MPI_Comm comm = chain();
    for (int i = 0; i <= rank; i++)
        out[i] = 10 * rank + i;
    call(MPI_Neighbor_allgatherv(out, rank + 1, MPI_INT, in, (int[]){previous + 1}, (int[]){0}, MPI_INT, comm));
    expect(in[0] == 10 * previous && in[previous] == 11 * previous);
    call(MPI_Comm_free(&comm));
}

static void neighbours_exchange(void)
{
    int out[2] = {10 * rank, 10 * rank + 1}, in[2] = {-1, -1};
    MPI_Comm comm = ring();
    call(MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, comm));
    if (size > 2)
        expect(in[0] == 10 * previous + 1 && in[1] == 10 * next);
    call(MPI_Comm_free(&comm));
}

static void neighbours_exchange_different_counts(void)
{
    int out[2] = {rank, -rank}, in[2] = {-1, -1}, two = 2, zero = 0;
    MPI_Comm comm = chain();
    call(MPI_Neighbor_alltoallv(out, &two, &zero, MPI_INT, in, &two, &zero, MPI_INT, comm));
    expect(in[0] == previous && in[1] == -previous);
    call(MPI_Comm_free(&comm));
}

static void neighbours_exchange_different_types(void)
{
    int in = -1, one = 1;
    MPI_Aint zero = 0;
    MPI_Datatype type = MPI_INT;
    MPI_Comm comm = chain();
    call(MPI_Neighbor_alltoallw(&rank, &one, &zero, &type, &in, &one, &zero, &type, comm));
    expect(in == previous);
    call(MPI_Comm_free(&comm));
}

static void neighbours_gather_begun(void)
{
    int in = -1;
    MPI_Request request;
    MPI_Comm comm = chain();
    call(MPI_Ineighbor_allgather(&rank, 1, MPI_INT, &in, 1, MPI_INT, comm, &request));
    call(MPI_Wait(&request, MPI_STATUS_IGNORE));
    expect(in == previous);
    call(MPI_Comm_free(&comm));
}

static void neighbours_exchange_begun(void)
{
    int in = -1, one = 1, zero = 0;
    MPI_Request request;
    MPI_Comm comm = chain();
    call(MPI_Ineighbor_alltoallv(&rank, &one, &zero, MPI_INT, &in, &one, &zero, MPI_INT, comm, &request));
    call(MPI_Wait(&request, MPI_STATUS_IGNORE));
    expect(in == previous);
    call(MPI_Comm_free(&comm));
}

static void neighbours_gather_persistent(void)
{
    int out = -1, in = -1;
    MPI_Request request;
    MPI_Comm comm = chain();
    call(MPI_Neighbor_allgather_init(&out, 1, MPI_INT, &in, 1, MPI_INT, comm, MPI_INFO_NULL, &request));
    for (int round = 0; round < 3; round++) {
        out = 10 * rank + round;
        call(MPI_Start(&request));
        call(MPI_Wait(&request, MPI_STATUS_IGNORE));
        expect(in == 10 * previous + round);
    }
    call(MPI_Request_free(&request));
    call(MPI_Comm_free(&comm));
}

static void neighbours_exchange_persistent(void)
{
    int in = -1;
    MPI_Request request;
    MPI_Comm comm = chain();
    call(MPI_Neighbor_alltoall_init(&rank, 1, MPI_INT, &in, 1, MPI_INT, comm, MPI_INFO_NULL, &request));
    for (int round = 0; round < 2; round++) {
        in = -1;
        call(MPI_Start(&request));
        call(MPI_Wait(&request, MPI_STATUS_IGNORE));
        expect(in == previous);
    }
    call(MPI_Request_free(&request));
    call(MPI_Comm_free(&comm));
}

const struct check topologies[] = {
    CHECK(dimensions),
    CHECK(grid),
    CHECK(grid_of_less_than_all),
    CHECK(grid_in_another_order),
    CHECK(shift_in_a_ring),
    CHECK(shift_beyond_the_edge),
    CHECK(rows_of_a_grid),
    CHECK(map_of_a_grid),
    CHECK(graph),
    CHECK(map_of_a_graph),
    CHECK(distributed_graph),
    CHECK(distributed_graph_told_by_one),
    CHECK(topology_is_copied),
    CHECK(wrong_grid),
    CHECK(neighbours_gather),
    CHECK(neighbours_gather_different_counts),
    CHECK(neighbours_exchange),
    CHECK(neighbours_exchange_different_counts),
    CHECK(neighbours_exchange_different_types),
    CHECK(neighbours_gather_begun),
    CHECK(neighbours_exchange_begun),
    CHECK(neighbours_gather_persistent),
    CHECK(neighbours_exchange_persistent),
    {0},
};
