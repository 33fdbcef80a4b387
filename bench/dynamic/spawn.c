/* Spawn latency: all parents together spawn CHILDREN, again and again, PAUSE_MS apart. Each cycle says how long the
 * spawn, the merge and the disconnection of the inter-communicator took at the first parent. The first cycle, which
 * brings the program into memory, is not told. A child is this program without arguments of its own. The merged
 * communicator is freed, never disconnected: Debian's Open MPI hangs otherwise; `merged` does it all the same, to show
 * that. */
#include "dynamic.h"

static int with_parents(MPI_Comm parents, int is_merged)
{
    MPI_Comm all;
    MPI_Intercomm_merge(parents, 1, &all);
    MPI_Barrier(all);
    if (is_merged)
        MPI_Comm_disconnect(&all);
    else
        MPI_Comm_free(&all);
    MPI_Comm_disconnect(&parents);
    return 0;
}

static void cycle(const char *self, int children, int is_merged, int is_told, long pause_ms)
{
    MPI_Comm between, all;
    char word[] = "merged";
    char *args[2];
    double start, spawned, merged, freed, gone;
    int rank, size, joined;
    args[0] = is_merged ? word : NULL;
    args[1] = NULL;
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    MPI_Comm_spawn((char *)self, args, children, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between, MPI_ERRCODES_IGNORE);
    spawned = MPI_Wtime();
    MPI_Intercomm_merge(between, 0, &all);
    merged = MPI_Wtime();
    MPI_Comm_size(all, &joined);
    MPI_Barrier(all);
    freed = MPI_Wtime();
    if (is_merged)
        MPI_Comm_disconnect(&all);
    else
        MPI_Comm_free(&all);
    MPI_Comm_disconnect(&between);
    gone = MPI_Wtime();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (joined != size + children)
        MPI_Abort(MPI_COMM_WORLD, 9);
    rest(1000 * pause_ms);
    if (rank == 0 && is_told) {
        printf("spawn %.9f merge %.9f disconnect %.9f\n", spawned - start, merged - spawned, gone - freed);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm parents;
    int code = 0, i, is_merged;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parents);
    is_merged = argc > 1 && strcmp(argv[argc - 1], "merged") == 0;
    if (parents != MPI_COMM_NULL)
        code = with_parents(parents, is_merged);
    else if (argc < 3) {
        fprintf(stderr, "use: spawn CHILDREN CYCLES [PAUSE_MS] [merged]\n");
        code = 2;
    } else
        for (i = 0; i <= atoi(argv[2]); i++)
            cycle(argv[0], atoi(argv[1]), is_merged, i > 0, argc > 3 ? atol(argv[3]) : 0);
    MPI_Finalize();
    return code;
}
