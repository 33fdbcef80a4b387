/* Connections: the first of two ranks opens a port and accepts, the second connects to it, CYCLES times. The name of
 * the port travels between them as a message. Each cycle says how long connecting and disconnecting took at the first;
 * the first cycle is not told. */
#include "dynamic.h"

static void cycle(int rank, const char *port, int is_told)
{
    MPI_Comm between;
    double start, connected, gone;
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    if (rank == 0)
        MPI_Comm_accept((char *)port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &between);
    else
        MPI_Comm_connect((char *)port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &between);
    connected = MPI_Wtime();
    MPI_Comm_disconnect(&between);
    gone = MPI_Wtime();
    if (rank == 0 && is_told) {
        printf("connect %.9f disconnect %.9f\n", connected - start, gone - connected);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME + 1] = {0};
    int rank, size, i;
    MPI_Status status;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 2 || size != 2) {
        fprintf(stderr, "use: connect CYCLES, on two ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
    } else
        MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &status);
    for (i = 0; i <= atoi(argv[1]); i++)
        cycle(rank, port, i > 0);
    if (rank == 0)
        MPI_Close_port(port);
    MPI_Finalize();
    return 0;
}
