/* Two worlds meet and become one: meet accept|connect FILE. The one that accepts writes its port to FILE. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int file_read(const char *path, char *text, int length)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    int is_read = fgets(text, length, file) != NULL;
    fclose(file);
    return is_read;
}

static void file_write(const char *path, const char *text)
{
    char fresh[4096];
    snprintf(fresh, sizeof fresh, "%s.fresh", path);
    FILE *file = fopen(fresh, "w");
    fputs(text, file);
    fclose(file);
    rename(fresh, path);
}

int main(int count, char **arguments)
{
    char port[MPI_MAX_PORT_NAME] = "";
    int rank, all, merged_rank, sum = 0;
    MPI_Comm between, merged;

    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int accepts = !strcmp(arguments[1], "accept");
    if (rank == 0 && accepts) {
        MPI_Open_port(MPI_INFO_NULL, port);
        file_write(arguments[2], port);
    }
    if (rank == 0 && !accepts)
        while (!file_read(arguments[2], port, sizeof port))
            usleep(1000);
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    if (accepts)
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between);
    else
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between);
    MPI_Intercomm_merge(between, !accepts, &merged);
    double met = MPI_Wtime();
    MPI_Comm_size(merged, &all);
    MPI_Comm_rank(merged, &merged_rank);
    int own = merged_rank + 1;
    MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, merged);
    printf("rank %d of %d sum %d met in %.1f ms\n", merged_rank, all, sum, 1e3 * (met - begun));
    MPI_Comm_free(&merged);
    MPI_Comm_free(&between);
    MPI_Finalize();
    return sum == all * (all + 1) / 2 ? 0 : 1;
}
