/* Rank 0 starts MPI by a session alone, the others by MPI_Init alone. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    const char *rank = getenv("PMI_RANK");
    if (rank && strcmp(rank, "0") == 0) {
        MPI_Session session;
        if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) != MPI_SUCCESS) return 1;
        MPI_Session_finalize(&session);
        puts("by a session");
    } else {
        MPI_Init(&argc, &argv);
        MPI_Finalize();
        puts("by MPI_Init");
    }
    return 0;
}
