/* Spawn rate: one parent spawns one child after the other, SPAWNS of them. Children sleep until the end, so all are there at
 * once. Said is how many a second; ending is not counted. */
#include "dynamic.h"

enum { SPAWNS_MAX = 1000 };

static int spawn_all(const char *self, int spawns)
{
    static MPI_Comm children[SPAWNS_MAX];
    double start;
    int i;
    if (spawns < 1 || spawns > SPAWNS_MAX)
        return 2;
    start = MPI_Wtime();
    for (i = 0; i < spawns; i++)
        MPI_Comm_spawn((char *)self, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children[i], MPI_ERRCODES_IGNORE);
    printf("rate %.6f\n", spawns / (MPI_Wtime() - start));
    fflush(stdout);
    for (i = 0; i < spawns; i++)
        tell(children[i], 0, 1);
    for (i = 0; i < spawns; i++)
        MPI_Comm_disconnect(&children[i]);
    return 0;
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    int code = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        sleep_until_told(parent, 0, 1);
        MPI_Comm_disconnect(&parent);
    } else
        code = argc > 1 ? spawn_all(argv[0], atoi(argv[1])) : 2;
    if (code == 2)
        fprintf(stderr, "use: rate SPAWNS, at most %d\n", SPAWNS_MAX);
    MPI_Finalize();
    return code;
}
