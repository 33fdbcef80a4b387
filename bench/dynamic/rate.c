/* Spawn rate: one parent spawns one child after the other, SPAWNS of them. Children sleep until the end, so all are
 * there at once. Said is how many a second; ending is not counted, nor is a first child, SETTLE_MS before. */
#include "dynamic.h"

enum { SPAWNS_MAX = 1000 };

static void spawn_one(const char *self, MPI_Comm *child)
{
    MPI_Comm_spawn((char *)self, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, child, MPI_ERRCODES_IGNORE);
}

static int spawn_all(const char *self, int spawns, long settle_ms)
{
    static MPI_Comm children[SPAWNS_MAX + 1];
    double start;
    int i;
    if (spawns < 1 || spawns > SPAWNS_MAX)
        return 2;
    spawn_one(self, &children[spawns]);
    rest(1000 * settle_ms);
    start = MPI_Wtime();
    for (i = 0; i < spawns; i++)
        spawn_one(self, &children[i]);
    printf("rate %.6f\n", spawns / (MPI_Wtime() - start));
    fflush(stdout);
    for (i = 0; i <= spawns; i++)
        tell(children[i], 0, 1);
    for (i = 0; i <= spawns; i++)
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
        code = argc > 1 ? spawn_all(argv[0], atoi(argv[1]), argc > 2 ? atol(argv[2]) : 0) : 2;
    if (code == 2)
        fprintf(stderr, "use: rate SPAWNS [SETTLE_MS], at most %d\n", SPAWNS_MAX);
    MPI_Finalize();
    return code;
}
