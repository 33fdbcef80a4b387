/* Calls under both names, as Fortran's mpi_f08 and tools make them, and a file, over which MPI calls itself:
   names FILE [multiple] */
#include <mpi.h>

static int freed;

static int on_free(MPI_Comm comm, int key, void *value, void *extra)
{
    int size, own = 1, all;
    (void)comm, (void)key, (void)value, (void)extra;
    /* A function of the program that MPI calls: part of the call that it is in. */
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    PMPI_Allreduce(&own, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    freed = all == size;
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    int rank, level, key, given = 0;
    double data[10] = {0};
    MPI_File file;
    MPI_Comm own;
    if (argc > 2)
        PMPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    else
        PMPI_Init(&argc, &argv);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Send(data, 10, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD);
        PMPI_Send(data, 5, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD);
    } else {
        PMPI_Recv(data, 10, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(data, 5, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    PMPI_Barrier(MPI_COMM_WORLD);
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    MPI_File_write_at_all(file, rank * 80, data, 10, MPI_DOUBLE, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    PMPI_Comm_dup(MPI_COMM_WORLD, &own);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_free, &key, 0);
    MPI_Comm_set_attr(own, key, &given);
    PMPI_Comm_free(&own);
    return PMPI_Finalize() || !freed;
}
