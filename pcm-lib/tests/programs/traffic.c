/* A known number of messages and bytes between two ranks, by every kind of communicator and call: traffic */
#include <mpi.h>

int main(int argc, char **argv)
{
    int rank, level;
    double data[100] = {0}, more[100];
    MPI_Comm turned, cross;
    MPI_Datatype column;
    MPI_Request requests[2];
    if (argc > 1)
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    else
        MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    /* 3 messages of 800 bytes from 0 to 1. */
    for (int i = 0; i < 3; i++)
        if (rank == 0)
            MPI_Send(data, 100, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD);
        else
            MPI_Recv(more, 100, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);

    /* 1 of 5 bytes in each direction, over a communicator in which the ranks are turned around. */
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned);
    MPI_Sendrecv(data, 5, MPI_BYTE, rank, 2, more, 5, MPI_BYTE, rank, 2, turned, MPI_STATUS_IGNORE);

    /* 1 of 24 bytes from 1 to 0, over an intercommunicator, of a type that was committed here. */
    MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &cross);
    MPI_Comm both;
    MPI_Intercomm_create(cross, 0, MPI_COMM_WORLD, 1 - rank, 3, &both);
    MPI_Type_vector(3, 1, 4, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    if (rank == 1)
        MPI_Send(data, 1, column, 0, 4, both);
    else
        MPI_Recv(more, 1, column, 0, 4, both, MPI_STATUS_IGNORE);
    MPI_Type_free(&column);

    /* 4 of 16 bytes in each direction, persistent. */
    MPI_Send_init(data, 2, MPI_DOUBLE, 1 - rank, 5, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(more, 2, MPI_DOUBLE, 1 - rank, 5, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 4; i++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);

    /* 1 byte to oneself, nothing to nobody. */
    MPI_Sendrecv(data, 1, MPI_BYTE, 0, 6, more, 1, MPI_BYTE, 0, 6, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    MPI_Send(data, 1, MPI_BYTE, MPI_PROC_NULL, 7, MPI_COMM_WORLD);

    /* 2 collectives of 80 bytes. */
    MPI_Allreduce(data, more, 10, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Bcast(data, 10, MPI_DOUBLE, 0, turned);
    MPI_Comm_free(&turned);
    MPI_Comm_free(&cross);
    MPI_Comm_free(&both);
    return MPI_Finalize();
}
