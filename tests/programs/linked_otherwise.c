/* Says what it was started with: linked with the libpcm for another MPI than its own, it begins twice. */
#include "pcm.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "unset";
}

int main(int argc, char **argv)
{
    int rank, all, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_size(MPI_COMM_WORLD, &all);
    printf("rank %d of %d, sum %d, word \"%s\", preload %s, before %s, libpcm %s\n", rank, all, sum,
           argc > 1 ? argv[1] : "", variable("LD_PRELOAD"), variable("PCM_PRELOAD_BEFORE"),
           pcm_version() ? "called" : "not called");
    MPI_Finalize();
    return 0;
}
