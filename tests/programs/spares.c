/* Spawns a child, one after the other, each when a test says so by a file `go.N`; each child says what it sees of
 * itself, and prints before MPI_Init, which nobody may read of a child that nobody asked for. Must never know about
 * pcm. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WORDS_MAX = 1024 };

static void wait_for_file(int number)
{
    char name[32];
    struct timespec span = {0, 5000000};
    snprintf(name, sizeof name, "go.%d", number);
    while (access(name, F_OK) != 0)
        nanosleep(&span, NULL);
}

static int parent(const char *self, int children)
{
    char mode[] = "child", word[] = "one word";
    char *args[] = {mode, word, NULL};
    for (int i = 0; i < children; i++) {
        char said[WORDS_MAX];
        MPI_Comm between, both;
        int size;
        wait_for_file(i);
        MPI_Comm_spawn(self, args, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &between, MPI_ERRCODES_IGNORE);
        MPI_Intercomm_merge(between, 0, &both);
        MPI_Comm_size(both, &size);
        MPI_Recv(said, sizeof said, MPI_CHAR, 1, 7, both, MPI_STATUS_IGNORE);
        MPI_Comm_free(&both);
        MPI_Comm_disconnect(&between);
        printf("child %d of %d: %s\n", i, size, said);
        fflush(stdout);
    }
    wait_for_file(children);
    return 0;
}

static int child(MPI_Comm between, int argc, char **argv)
{
    char said[WORDS_MAX], directory[512] = "";
    const char *variable = getenv("SPARES_TEST");
    MPI_Comm both;
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    snprintf(said, sizeof said, "pid %d world %d argc %d argument '%s' variable '%s' directory '%s'", (int)getpid(),
             size, argc, argc > 2 ? argv[2] : "", variable ? variable : "",
             getcwd(directory, sizeof directory) ? directory : "");
    MPI_Intercomm_merge(between, 1, &both);
    MPI_Send(said, (int)strlen(said) + 1, MPI_CHAR, 0, 7, both);
    MPI_Comm_free(&both);
    MPI_Comm_disconnect(&between);
    return 0;
}

int main(int argc, char **argv)
{
    MPI_Comm between;
    int code;
    if (argc > 1 && strcmp(argv[1], "child") == 0) {
        printf("before MPI_Init\n");
        fflush(stdout);
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&between);
    code = between == MPI_COMM_NULL ? parent(argv[0], argc > 1 ? atoi(argv[1]) : 0) : child(between, argc, argv);
    MPI_Finalize();
    return code;
}
