/* Spawns once, by the words of its command line, with errors returned, and says what came of it. The children say what
   they see. Afterwards the ranks show that they still work together.
   usage: spawning PROGRAM[,PROGRAM] PROCESSES ARGUMENT [KEY VALUE]; so many processes of each; an ARGUMENT of the form
   *N stands for N letters, one of the form %XX for a byte */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *argument(char *word)
{
    if (word[0] == '%') {
        word[0] = (char)strtol(word + 1, NULL, 16);
        word[1] = '\0';
    } else if (word[0] == '*') {
        size_t length = strtoul(word + 1, NULL, 10);
        word = malloc(length + 1);
        memset(word, 'x', length);
        word[length] = '\0';
    }
    return word;
}

static void be_child(int argc, char **argv, MPI_Comm parent)
{
    char line[4096];
    const char *node = getenv("PCM_NODE");
    int length = snprintf(line, sizeof line, "child on %s with ", node ? node : "?");
    for (const char *c = argc > 1 ? argv[1] : ""; *c && length < 4000; c++)
        length += snprintf(line + length, sizeof line - length, *c == '\n' ? "\\n" : "%c", *c);
    puts(line);
    fflush(stdout);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
}

static int spawn(char *programs, char **arguments, int processes, MPI_Info info, MPI_Comm *between)
{
    char *second = strchr(programs, ',');
    if (second == NULL)
        return MPI_Comm_spawn(programs, arguments, processes, info, 0, MPI_COMM_WORLD, between, MPI_ERRCODES_IGNORE);
    char *first = strndup(programs, (size_t)(second - programs));
    int code = MPI_Comm_spawn_multiple(2, (char *[]){first, second + 1}, (char **[]){arguments, arguments},
                                       (int[]){processes, processes}, (MPI_Info[]){info, info}, 0, MPI_COMM_WORLD,
                                       between, MPI_ERRCODES_IGNORE);
    free(first);
    return code;
}

int main(int argc, char **argv)
{
    MPI_Comm parent, between;
    int rank, class = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        be_child(argc, argv, parent);
        return 0;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    char *arguments[] = {argument(argv[3]), NULL};
    MPI_Info info;
    MPI_Info_create(&info);
    if (argc > 5)
        MPI_Info_set(info, argv[4], argv[5]);
    for (int round = 0; round < 2; round++) {
        int code = spawn(argv[1], arguments, atoi(argv[2]), info, &between);
        if (code)
            MPI_Error_class(code, &class);
        else
            MPI_Comm_disconnect(&between);
        int one = 1, all = 0;
        MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("%s by %d ranks%s\n", code ? "refused" : "spawned", all,
                   code && class != MPI_ERR_SPAWN ? ", not as a spawn" : "");
            fflush(stdout);
        }
    }
    MPI_Info_free(&info);
    MPI_Finalize();
    return 0;
}
