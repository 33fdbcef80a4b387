/* Checks that MPI does what its standard says, chapter by chapter, in whatever surroundings the program runs:
 * conformance [--threads] [--changes N] [CHAPTER | CHAPTER.CHECK]... One line for each check:
 * `name ok`, `name FAIL reason` or `name REFUSED reason`. With --changes all of them run again after each of the
 * first N changes of the job's ranks. The chapter about threads needs --threads. */
#define _POSIX_C_SOURCE 200809L
#include "conformance.h"
#include <pcm.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

/* Where the program is not linked with libpcm these are not there, and it is a program of MPI alone. */
#pragma weak pcm_array_create
#pragma weak pcm_value
#pragma weak pcm_start
#pragma weak pcm_iterate
#pragma weak pcm_joining

/* Longer than any check takes on a machine that does much else. */
enum { CHECK_SECONDS = 25, CHANGE_SECONDS = 40, REASON_MAX = 240 };

enum state { OK, FAILED, REFUSED };

struct outcome {
    int state;
    char reason[REASON_MAX];
};

struct chapter {
    const char *name;
    const struct check *checks;
};

static const struct chapter chapters[] = {
    {"point_to_point", point_to_point},
    {"requests", requests},
    {"datatypes", datatypes},
    {"collectives", collectives},
    {"operations", operations},
    {"begun_collectives", begun_collectives},
    {"groups", groups},
    {"communicators", communicators},
    {"caching", caching},
    {"errors", errors},
    {"topologies", topologies},
    {"windows", windows},
    {"files", files},
    {"sessions", sessions},
    {"environment", environment},
    {"dynamic", dynamic},
    {"threads", threads},
};

int rank, size, next, previous, changes_seen;
const char *own_program;
static int has_threads;
static struct outcome own;
static pthread_mutex_t own_lock = PTHREAD_MUTEX_INITIALIZER;
static char running[128];

static void note_as(enum state state, const char *text, const char *more, int line)
{
    pthread_mutex_lock(&own_lock);
    if (own.state == OK) {
        own.state = state;
        snprintf(own.reason, sizeof own.reason, "rank %d, line %d: %.100s%.100s", rank, line, text, more);
        for (char *c = own.reason; *c != '\0'; c++)
            if (*c == '\n')
                *c = ' ';
    }
    pthread_mutex_unlock(&own_lock);
}

int note(int holds, const char *text, int line)
{
    if (!holds)
        note_as(FAILED, text, "", line);
    return holds;
}

int class_of(int code)
{
    int class = -1;
    return MPI_Error_class(code, &class) == MPI_SUCCESS ? class : -1;
}

int note_code(int code, const char *text, int line)
{
    char said[MPI_MAX_ERROR_STRING + 2] = ": ";
    int length = 0;
    if (code == MPI_SUCCESS)
        return code;
    MPI_Error_string(code, said + 2, &length);
    /* libpcm's own errors are of a class that it has added. */
    if (class_of(code) > MPI_ERR_LASTCODE)
        note_as(REFUSED, said + 2, "", line);
    else
        note_as(FAILED, text, said, line);
    return code;
}

const char *shared_file(void)
{
    static char name[64];
    static int number;
    if (rank == 0)
        snprintf(name, sizeof name, "conformance-%ld-%d.bin", (long)getpid(), number++);
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    return name;
}

static void take_too_long(int number)
{
    static const char said[] = " FAIL it did not end\n";
    (void)number;
    if (write(STDOUT_FILENO, running, strlen(running)) < 0 || write(STDOUT_FILENO, said, sizeof said - 1) < 0)
        _exit(4);
    _exit(3);
}

static void report(void)
{
    static struct outcome all[RANKS_MAX];
    const struct outcome *worst = &all[0];
    MPI_Gather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank != 0)
        return;
    for (int i = 0; i < size; i++)
        if (all[i].state == REFUSED || (all[i].state == FAILED && worst->state == OK))
            worst = &all[i];
    static const char *const words[] = {"ok", "FAIL", "REFUSED"};
    printf("%s %s%s%s\n", running, words[worst->state], worst->state == OK ? "" : " ", worst->reason);
    fflush(stdout);
}

static int is_wanted(int count, char **wanted, const char *chapter, const char *full)
{
    for (int i = 0; i < count; i++)
        if (strcmp(wanted[i], chapter) == 0 || strcmp(wanted[i], full) == 0)
            return 1;
    return count == 0;
}

static void run_all(int count, char **wanted)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + 1) % size;
    previous = (rank + size - 1) % size;
    if (size > RANKS_MAX)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (size_t c = 0; c < sizeof chapters / sizeof *chapters; c++) {
        if (chapters[c].checks == threads && !has_threads)
            continue;
        for (const struct check *check = chapters[c].checks; check->run != NULL; check++) {
            snprintf(running, sizeof running, "%s.%s", chapters[c].name, check->name);
            if (!is_wanted(count, wanted, chapters[c].name, running))
                continue;
            memset(&own, 0, sizeof own);
            alarm(CHECK_SECONDS);
            check->run();
            report();
            alarm(0);
        }
    }
}

static void announce(void)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        printf("== %d\n", changes_seen);
        fflush(stdout);
    }
}

/* Iterates until the ranks have changed so often, and runs the checks after each change. */
static void run_changing(int changes, int count, char **wanted)
{
    struct timespec pause = {.tv_nsec = 1000000}, begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    while (changes_seen < changes) {
        int result = pcm_iterate(), is_late, is_late_anywhere;
        if (result == PCM_CHANGED) {
            changes_seen++;
            announce();
            run_all(count, wanted);
            clock_gettime(CLOCK_MONOTONIC, &begun);
        }
        nanosleep(&pause, NULL);
        clock_gettime(CLOCK_MONOTONIC, &now);
        is_late = now.tv_sec - begun.tv_sec > CHANGE_SECONDS;
        MPI_Allreduce(&is_late, &is_late_anywhere, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        if (is_late_anywhere)
            MPI_Abort(MPI_COMM_WORLD, 5);
    }
}

int main(int argc, char **argv)
{
    int changes = 0, level, first = 1;
    own_program = argv[0];
    signal(SIGALRM, take_too_long);
    for (; first < argc; first++)
        if (strcmp(argv[first], "--threads") == 0)
            has_threads = 1;
        else if (first + 1 < argc && strcmp(argv[first], "--changes") == 0)
            changes = atoi(argv[++first]);
        else
            break;
    if (has_threads)
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    else
        MPI_Init(&argc, &argv);
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        be_a_child(argc, argv, parent);
        return MPI_Finalize() != MPI_SUCCESS;
    }
    if (changes > 0) {
        if (pcm_array_create == NULL || pcm_array("data", PCM_DOUBLE, 1, (size_t[]){1000}, PCM_BLOCK(0)) == NULL)
            MPI_Abort(MPI_COMM_WORLD, 2);
        pcm_value("changes", &changes_seen, sizeof changes_seen);
        int joins = pcm_joining();
        pcm_start();
        if (!joins) {
            announce();
            run_all(argc - first, argv + first);
        }
        run_changing(changes, argc - first, argv + first);
    } else {
        announce();
        run_all(argc - first, argv + first);
    }
    return MPI_Finalize() != MPI_SUCCESS;
}
