/* Prints what libpcm says about itself; then, if told to, names the shared memory it leaves and aborts: status
 * [CODE] */
#include <mpi.h>
#include <pcm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void shared_memory_name(void)
{
    char line[4096], *path;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if ((path = strstr(line, "/dev/shm/mpich_shm_")))
            printf("shared %s", path);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int before = -1, active = -1;
    pcm_active(&before);
    MPI_Init(&argc, &argv);
    pcm_result result = pcm_active(&active);
    printf("version %s before %d active %d result %d null %d error %s\n", pcm_version(), before, active, result,
           pcm_active(NULL), pcm_last_error());
    fflush(stdout);
    if (argc > 1) {
        shared_memory_name();
        MPI_Abort(MPI_COMM_WORLD, atoi(argv[1]));
    }
    return MPI_Finalize();
}
