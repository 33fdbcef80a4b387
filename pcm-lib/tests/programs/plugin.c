/* An MPI program's body as a library that was linked with MPI, which its loader keeps apart: plugin.so */
#include <mpi.h>

int run(void);

int run(void)
{
    int rank, size;
    double data[3] = {0};
    MPI_Init(0, 0);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0)
        MPI_Send(data, 3, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD);
    else
        MPI_Recv(data, 3, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return MPI_Finalize();
}
