/* Uses MPI_COMM_WORLD in every family of functions that takes a communicator and prints what comes out. The same text
 * must come out whether libpcm is there or not: results FILE */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, next, previous;

static void report(const char *what, long value)
{
    long weighted = value * (rank + 1), sum = 0;
    MPI_Reduce(&weighted, &sum, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s %ld\n", what, sum);
}

static void messages(void)
{
    int out = 100 + rank, in = -1, pair[2] = {rank, rank * rank};
    MPI_Status status;
    MPI_Request requests[2];
    MPI_Sendrecv(&out, 1, MPI_INT, next, 1, &in, 1, MPI_INT, previous, 1, MPI_COMM_WORLD, &status);
    report("sendrecv", in * 10L + status.MPI_TAG);
    MPI_Sendrecv_replace(pair, 2, MPI_INT, next, 2, previous, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    report("sendrecv_replace", pair[0] + pair[1] * 1000L);
    MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Issend(&out, 1, MPI_INT, next, 3, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    report("irecv_any", in);
    MPI_Isend(&out, 1, MPI_INT, next, 4, MPI_COMM_WORLD, &requests[0]);
    MPI_Probe(previous, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    MPI_Recv(&in, 1, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    report("probe", in);
    MPI_Message message;
    MPI_Isend(&out, 1, MPI_INT, next, 5, MPI_COMM_WORLD, &requests[0]);
    MPI_Mprobe(previous, 5, MPI_COMM_WORLD, &message, &status);
    MPI_Mrecv(&in, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    report("mprobe", in);
    MPI_Send_init(&out, 1, MPI_INT, next, 6, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(&in, 1, MPI_INT, previous, 6, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 3; i++) {
        out = 10 * i + rank;
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        report("persistent", in);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Recv(&in, 1, MPI_INT, MPI_PROC_NULL, 7, MPI_COMM_WORLD, &status);
    report("proc_null", status.MPI_SOURCE == MPI_PROC_NULL);
}

static void collectives(void)
{
    int mine = rank + 1, sum = 0, all[64] = {0}, root = size - 1;
    MPI_Request request;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    report("allreduce", sum);
    sum = mine;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_PROD, MPI_COMM_WORLD);
    report("allreduce_in_place", sum);
    MPI_Gather(&mine, 1, MPI_INT, all, 1, MPI_INT, root, MPI_COMM_WORLD);
    MPI_Bcast(all, size, MPI_INT, root, MPI_COMM_WORLD);
    report("gather_bcast", all[size - 1] * 100L + all[0]);
    /* What only the root must give is nonsense elsewhere. */
    MPI_Scatter(all, rank == root ? 1 : -7, rank == root ? MPI_INT : MPI_DATATYPE_NULL, &sum, 1, MPI_INT, root,
                MPI_COMM_WORLD);
    report("scatter", sum);
    all[rank] = 7 * mine;
    MPI_Allgather(MPI_IN_PLACE, -3, MPI_DATATYPE_NULL, all, 1, MPI_INT, MPI_COMM_WORLD);
    report("allgather_in_place", all[next]);
    int counts[64], places[64], send[64];
    for (int i = 0; i < size; i++) {
        counts[i] = 1;
        places[i] = i;
        send[i] = 100 * rank + i;
    }
    MPI_Alltoallv(send, counts, places, MPI_INT, all, counts, places, MPI_INT, MPI_COMM_WORLD);
    report("alltoallv", all[previous]);
    MPI_Reduce_scatter_block(send, &sum, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    report("reduce_scatter_block", sum);
    MPI_Iscan(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    for (int done = 0; !done;)
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    report("iscan", sum);
    MPI_Barrier(MPI_COMM_WORLD);
#if MPI_VERSION >= 4
    MPI_Allreduce_c(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce_init(&mine, &sum, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
    report("allreduce_init", sum);
#endif
}

static void communicators(void)
{
    MPI_Comm copy, half, two, joined;
    MPI_Group all, some;
    int value = rank, other = -1, where, compared, range[1][3] = {{0, (size - 1) / 2, 1}};
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_compare(MPI_COMM_WORLD, copy, &compared);
    report("dup", compared == MPI_CONGRUENT);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Comm_rank(half, &where);
    MPI_Bcast(&value, 1, MPI_INT, 0, half);
    report("split", where * 100L + value);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_range_incl(all, 1, range, &some);
    if (rank <= (size - 1) / 2) {
        MPI_Comm_create_group(MPI_COMM_WORLD, some, 9, &two);
        MPI_Comm_size(two, &other);
        MPI_Comm_free(&two);
    }
    report("create_group", other);
    MPI_Group_free(&all);
    MPI_Group_free(&some);
    if (size > 1) {
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 ? (size - 1) / 2 * 2 : (size - 2) / 2 * 2 + 1, 10, &two);
        MPI_Intercomm_merge(two, rank % 2, &joined);
        MPI_Comm_rank(joined, &where);
        MPI_Comm_free(&joined);
        MPI_Comm_disconnect(&two);
    }
    report("intercomm_merge", where);
    MPI_Comm_free(&half);
    MPI_Comm_free(&copy);
}

static void topologies(void)
{
    MPI_Comm ring, row, graph;
    int wrap = 1, keep = 1, from, to, neighbours[2] = {-1, -1}, mine = rank * rank;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &wrap, 0, &ring);
    MPI_Cart_shift(ring, 0, 1, &from, &to);
    report("cart_shift", from * 100L + to);
    MPI_Neighbor_allgather(&mine, 1, MPI_INT, neighbours, 1, MPI_INT, ring);
    report("neighbor_allgather", neighbours[0] * 1000L + neighbours[1]);
    MPI_Cart_sub(ring, &keep, &row);
    MPI_Comm_free(&row);
    MPI_Comm_free(&ring);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &previous, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &graph);
    MPI_Neighbor_alltoall(&mine, 1, MPI_INT, neighbours, 1, MPI_INT, graph);
    report("dist_graph", neighbours[0]);
    MPI_Comm_free(&graph);
}

static void windows_and_files(const char *path)
{
    MPI_Win window;
    MPI_File file;
    int *base, value = rank + 50, back = -1;
    MPI_Win_allocate(sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    *base = 0;
    MPI_Win_fence(0, window);
    MPI_Put(&value, 1, MPI_INT, next, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    report("put", *base);
    MPI_Win_free(&window);
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_write_at_all(file, (MPI_Offset)(rank * sizeof value), &value, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_read_at(file, (MPI_Offset)(next * sizeof value), &back, 1, MPI_INT, MPI_STATUS_IGNORE);
    report("file", back);
    MPI_File_close(&file);
}

static int copies, deletes;

static int on_copy(MPI_Comm c, int key, void *extra, void *in, void *out, int *flag)
{
    (void)key, (void)extra;
    int me;
    MPI_Comm_rank(c, &me);
    copies += me + 1;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static int on_delete(MPI_Comm c, int key, void *value, void *extra)
{
    (void)c, (void)key, (void)value, (void)extra;
    deletes++;
    return MPI_SUCCESS;
}

static void attributes_and_errors(void)
{
    MPI_Comm copy, parent;
    MPI_Datatype column;
    int key, flag, *bound, class, length, value[6] = {0, 1, 2, 3, 4, 5}, got[3] = {0};
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Comm_create_keyval(on_copy, on_delete, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, &copies);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_free(&copy);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    report("attributes", copies * 10L + deletes);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &flag);
    report("tag_ub", flag && *bound >= 32767);
    MPI_Comm_set_name(MPI_COMM_WORLD, "the world");
    MPI_Comm_get_name(MPI_COMM_WORLD, name, &length);
    report("name", length + (strcmp(name, "the world") == 0));
    MPI_Comm_get_parent(&parent);
    report("parent", parent == MPI_COMM_NULL);
    /* A communicator with a handler of its own, and arguments that are wrong. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Send(value, 1, MPI_INT, size + 5, 0, MPI_COMM_WORLD), &class);
    report("bad_rank", class == MPI_ERR_RANK);
    MPI_Error_class(MPI_Send(value, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD), &class);
    report("bad_type", class == MPI_ERR_TYPE);
    MPI_Error_class(MPI_Send(value, 1, MPI_INT, 0, 0, MPI_COMM_NULL), &class);
    report("bad_communicator", class == MPI_ERR_COMM);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Type_vector(3, 1, 2, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Sendrecv(value, 1, column, next, 11, got, 3, MPI_INT, previous, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Type_free(&column);
    report("vector", got[0] + got[1] * 10L + got[2] * 100L);
}

int main(int argc, char **argv)
{
    int level;
    const char *path = argc > 1 ? argv[1] : "results.bin";
    if (argc > 2 && strcmp(argv[2], "multiple") == 0)
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    else
        MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + 1) % size;
    previous = (rank + size - 1) % size;
    messages();
    collectives();
    communicators();
    topologies();
    windows_and_files(path);
    attributes_and_errors();
    return MPI_Finalize();
}
