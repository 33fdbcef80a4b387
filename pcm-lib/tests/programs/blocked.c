/* Rank 0 waits in MPI_Recv for rank 1, which waits outside MPI until a file is there: blocked FILE */
#include <mpi.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank;
    double data[10] = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        MPI_Recv(data, 10, MPI_DOUBLE, 1, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; rank == 1 && access(argv[1], F_OK) != 0 && i < 60000; i++)
        usleep(1000);
    if (rank == 1)
        MPI_Send(data, 10, MPI_DOUBLE, 0, 77, MPI_COMM_WORLD);
    return MPI_Finalize();
}
