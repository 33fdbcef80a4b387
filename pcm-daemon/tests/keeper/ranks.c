/* What the tests of the keeper run as ranks: one MPI program, told what to do by its first argument. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int sum(int rank)
{
    int result = 0;
    MPI_Allreduce(&rank, &result, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return result;
}

/* Starts `count` children of this program, adds up ranks with them, and leaves. */
static void spawn(char *program, int count)
{
    char *commands[2] = { program, program };
    char *first[] = { "child", "a", NULL }, *second[] = { "child", "b", NULL };
    char **arguments[2] = { first, second };
    int numbers[2] = { count, 1 }, codes[64], remote, rank = 1, result = 0;
    MPI_Info infos[2] = { MPI_INFO_NULL, MPI_INFO_NULL };
    MPI_Comm children, all;
    MPI_Comm_spawn_multiple(2, commands, arguments, numbers, infos, 0, MPI_COMM_WORLD, &children, codes);
    MPI_Comm_remote_size(children, &remote);
    MPI_Intercomm_merge(children, 0, &all);
    MPI_Allreduce(&rank, &result, 1, MPI_INT, MPI_SUM, all);
    printf("spawned %d together %d\n", remote, result);
    MPI_Comm_disconnect(&all);
    MPI_Comm_disconnect(&children);
}

static void child(char *name)
{
    int rank = 1, result = 0;
    MPI_Comm parent, all;
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        printf("no parent\n");
        return;
    }
    MPI_Intercomm_merge(parent, 1, &all);
    MPI_Allreduce(&rank, &result, 1, MPI_INT, MPI_SUM, all);
    int *number = NULL, found = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &found);
    printf("child %s of command %d together %d\n", name, found ? *number : -1, result);
    MPI_Comm_disconnect(&all);
    MPI_Comm_disconnect(&parent);
}

int main(int argc, char **argv)
{
    int rank, size;
    const char *what = argc > 1 ? argv[1] : "sum";
    if (!strcmp(what, "leave-before"))
        return 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(what, "spawn")) {
        spawn(argv[0], atoi(argv[2]));
    } else if (!strcmp(what, "child")) {
        child(argv[2]);
    } else {
        printf("rank %d of %d sum %d\n", rank, size, sum(rank));
        fflush(stdout);
    }
    if (!strcmp(what, "hang"))
        for (;;)
            pause();
    if (!strcmp(what, "abort") && rank == size - 1)
        MPI_Abort(MPI_COMM_WORLD, 42);
    if (!strcmp(what, "input")) {
        char line[64] = "";
        if (rank == 0 && !fgets(line, sizeof line, stdin))
            strcpy(line, "nothing\n");
        MPI_Bcast(line, sizeof line, MPI_CHAR, 0, MPI_COMM_WORLD);
        printf("rank %d heard %s", rank, line);
    }
    MPI_Finalize();
    return 0;
}
