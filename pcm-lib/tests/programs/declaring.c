/* Registers 100 doubles, as many of scratch, and a value; declares after 3 iterations that 7 are left, and makes 20. */
#include <mpi.h>
#include <pcm.h>

int main(int argc, char **argv)
{
    static long iteration;
    MPI_Init(&argc, &argv);
    pcm_array("t", PCM_DOUBLE, 1, (size_t[]){100}, PCM_BLOCK(0));
    pcm_array("next", PCM_DOUBLE, 1, (size_t[]){100}, PCM_BLOCK(0), PCM_SCRATCH);
    pcm_value("iteration", &iteration, sizeof iteration);
    int wrong = pcm_start() != PCM_OK;
    for (; iteration < 23; iteration++) {
        if (iteration == 3)
            wrong += pcm_remaining(7) != PCM_OK;
        wrong += pcm_iterate() != PCM_OK;
    }
    MPI_Finalize();
    return wrong;
}
