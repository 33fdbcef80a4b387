/* Adds the numbers of all ranks, so many times with a millisecond between, and says the sum. With `early` one rank is
 * killed before it has initialised MPI; with `abort` one calls MPI_Abort. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    int rank, size, sum = 0;
    long rounds = count > 1 ? atol(arguments[1]) : 1;
    const char *how = count > 2 ? arguments[2] : "";
    const char *number = getenv("PCM_PROCESS");

    if (strcmp(how, "early") == 0 && number && strcmp(number, "1") == 0) {
        usleep(200000);
        raise(SIGKILL);
    }
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (long round = 0; round < rounds; round++) {
        int own = rank + 1;
        MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (round == 0 && rounds > 1) {
            printf("rank %d is process %d\n", rank, (int)getpid());
            fflush(stdout);
        }
        if (strcmp(how, "abort") == 0 && rank == size - 1)
            MPI_Abort(MPI_COMM_WORLD, 7);
        if (rounds > 1)
            usleep(1000);
    }
    printf("rank %d of %d sum %d\n", rank, size, sum);
    MPI_Finalize();
    return sum == size * (size + 1) / 2 ? 0 : 1;
}
