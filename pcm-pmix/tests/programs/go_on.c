/* Adds without end, until an error comes back, and says which: go_on. */
#include <mpi.h>
#include <mpi-ext.h>
#include <stdio.h>

int main(int count, char **arguments)
{
    int rank, sum, class, error = MPI_SUCCESS;

    MPI_Init(&count, &arguments);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (long round = 0; error == MPI_SUCCESS; round++) {
        error = MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (round == 10) {
            printf("going on\n");
            fflush(stdout);
        }
    }
    MPI_Error_class(error, &class);
    printf("%s\n", class == MPIX_ERR_PROC_FAILED ? "process failed" : "another error");
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 3);
}
