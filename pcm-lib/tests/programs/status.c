/* Prints what libpcm says about itself, then aborts if told to: status [CODE] */
#include <mpi.h>
#include <pcm.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int before = -1, active = -1;
    pcm_active(&before);
    MPI_Init(&argc, &argv);
    pcm_result result = pcm_active(&active);
    printf("version %s before %d active %d result %d null %d error %s\n", pcm_version(), before, active, result,
           pcm_active(NULL), pcm_last_error());
    fflush(stdout);
    if (argc > 1)
        MPI_Abort(MPI_COMM_WORLD, atoi(argv[1]));
    return MPI_Finalize();
}
