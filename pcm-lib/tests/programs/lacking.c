/* Calls what every MPI has, then what this one may lack; prints what the second call returned. */
#include <stdio.h>

int MPI_Init(int *argc, char ***argv);
int MPI_Comm_rank(int comm, int *rank);
int MPI_Barrier(int comm);
int MPI_Finalize(void);

int main(void)
{
    int rank = -1;
    if (MPI_Init(0, 0))
        return 2;
    printf("barrier %d rank %d\n", MPI_Barrier(0x44000000), MPI_Comm_rank(0x44000000, &rank) ? -1 : rank);
    return MPI_Finalize();
}
