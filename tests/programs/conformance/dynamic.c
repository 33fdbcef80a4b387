/* Processes that are started or met while the program runs. A child is this program with `--child` and what it is to
 * do;
 * it merges with its parents and tells what it found. */
#define _POSIX_C_SOURCE 200809L
#include "conformance.h"
#include <unistd.h>

/* What a child tells: sums over all children. */
struct told {
    int children, appnums, rights;
};

/* A process that was spawned; returns when it has told its parents. */
void be_a_child(int argc, char **argv, MPI_Comm parent)
{
    char folder[256] = "", name[MPI_MAX_OBJECT_NAME] = "";
    int *number = NULL, there = 0, length = 0, children = 0;
    struct told own = {1, 0, 0}, all;
    MPI_Comm_size(MPI_COMM_WORLD, &children);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &there);
    own.appnums = there ? *number : -100;
    if (argc > 3 && strcmp(argv[2], "words") == 0)
        own.rights = argc == 5 && strcmp(argv[3], "two words") == 0 &&
                     strcmp(argv[4], "a\"quote'$HOME") == 0;
    else if (argc > 3 && strcmp(argv[2], "folder") == 0)
        own.rights = getcwd(folder, sizeof folder) != NULL && strcmp(folder, argv[3]) == 0;
    else if (argc > 2 && strcmp(argv[2], "name") == 0) {
        MPI_Comm_get_name(parent, name, &length);
        own.rights = strcmp(name, "MPI_COMM_PARENT") == 0;
    } else
        own.rights = 1;
    MPI_Reduce(&own, &all, 3, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Comm_rank(MPI_COMM_WORLD, &there);
    MPI_Bcast(&all, 3, MPI_INT, there == 0 ? MPI_ROOT : MPI_PROC_NULL, parent);
    MPI_Comm_disconnect(&parent);
}

/* Starts so many children of a program over all ranks and expects to be told so. */
static struct told told_by(const char *program, int count, char **arguments, MPI_Info info)
{
    int codes[8], there = 0;
    struct told told = {-1, -1, -1};
    MPI_Comm children = MPI_COMM_NULL;
    for (int i = 0; i < count; i++)
        codes[i] = -1;
    if (call(MPI_Comm_spawn(program, arguments, count, info, 0, MPI_COMM_WORLD, &children, codes)) != MPI_SUCCESS)
        return told;
    call(MPI_Comm_remote_size(children, &there));
    expect(there == count);
    for (int i = 0; i < count; i++)
        expect(codes[i] == MPI_SUCCESS);
    call(MPI_Bcast(&told, 3, MPI_INT, 0, children));
    call(MPI_Comm_disconnect(&children));
    return told;
}

static struct told told_by_children(int count, char **arguments, MPI_Info info)
{
    return told_by(own_program, count, arguments, info);
}

static void spawn_of_one(void)
{
    struct told told = told_by_children(1, (char *[]){"--child", "plain", NULL}, MPI_INFO_NULL);
    expect(told.children == 1 && told.rights == 1 && told.appnums == 0);
}

static void spawn_of_three(void)
{
    struct told told = told_by_children(3, (char *[]){"--child", "plain", NULL}, MPI_INFO_NULL);
    expect(told.children == 3 && told.rights == 3);
}

static void arguments_of_a_child(void)
{
    char *arguments[] = {"--child", "words", "two words", "a\"quote'$HOME", NULL};
    expect(told_by_children(1, arguments, MPI_INFO_NULL).rights == 1);
}

static void folder_of_a_child(void)
{
    MPI_Info info;
    call(MPI_Info_create(&info));
    call(MPI_Info_set(info, "wdir", "/usr"));
    expect(told_by_children(1, (char *[]){"--child", "folder", "/usr", NULL}, info).rights == 1);
    call(MPI_Info_free(&info));
}

static void path_to_a_child(void)
{
    char folder[4096];
    const char *name = strrchr(own_program, '/');
    MPI_Info info;
    if (!expect(name != NULL && name - own_program < (long)sizeof folder))
        return;
    snprintf(folder, sizeof folder, "%.*s", (int)(name - own_program), own_program);
    call(MPI_Info_create(&info));
    call(MPI_Info_set(info, "path", folder));
    expect(told_by(name + 1, 2, (char *[]){"--child", "plain", NULL}, info).children == 2);
    call(MPI_Info_free(&info));
}

static void host_of_a_child(void)
{
    char host[MPI_MAX_PROCESSOR_NAME];
    int length = 0;
    MPI_Info info;
    call(MPI_Get_processor_name(host, &length));
    call(MPI_Info_create(&info));
    call(MPI_Info_set(info, "host", host));
    expect(told_by_children(2, (char *[]){"--child", "plain", NULL}, info).children == 2);
    call(MPI_Info_free(&info));
}

static void keys_that_mean_nothing(void)
{
    MPI_Info info;
    call(MPI_Info_create(&info));
    call(MPI_Info_set(info, "conformance_colour", "blue"));
    expect(told_by_children(1, (char *[]){"--child", "plain", NULL}, info).rights == 1);
    call(MPI_Info_free(&info));
}

static void name_of_the_parent(void)
{
    expect(told_by_children(1, (char *[]){"--child", "name", NULL}, MPI_INFO_NULL).rights == 1);
}

static void spawn_of_several_programs(void)
{
    char *commands[2], *plain[] = {"--child", "plain", NULL};
    char **arguments[2] = {plain, plain};
    char program[1024];
    int there = 0, codes[3];
    struct told told = {-1, -1, -1};
    MPI_Comm children = MPI_COMM_NULL;
    snprintf(program, sizeof program, "%s", own_program);
    commands[0] = commands[1] = program;
    if (call(MPI_Comm_spawn_multiple(2, commands, arguments, (int[]){1, 2},
                                     (MPI_Info[]){MPI_INFO_NULL, MPI_INFO_NULL}, 0, MPI_COMM_WORLD, &children,
                                     codes)) != MPI_SUCCESS)
        return;
    call(MPI_Comm_remote_size(children, &there));
    call(MPI_Bcast(&told, 3, MPI_INT, 0, children));
    call(MPI_Comm_disconnect(&children));
    expect(there == 3 && told.children == 3 && told.appnums == 2);
}

static void spawn_by_one_rank(void)
{
    struct told told = {-1, -1, -1};
    MPI_Comm children = MPI_COMM_NULL;
    if (rank == size - 1 && call(MPI_Comm_spawn(own_program, (char *[]){"--child", "plain", NULL}, 1, MPI_INFO_NULL, 0,
                                                MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE)) == MPI_SUCCESS) {
        call(MPI_Bcast(&told, 3, MPI_INT, 0, children));
        call(MPI_Comm_disconnect(&children));
        expect(told.children == 1);
    }
    call(MPI_Barrier(MPI_COMM_WORLD));
}

/* Half of the ranks accept, the others connect; the port comes by name where `by_name`, else by a message. */
static void meet(int by_name)
{
    char port[MPI_MAX_PORT_NAME] = "", service[64];
    int there = 0, in = -1, accepts = rank % 2 == 0, own = 0;
    MPI_Comm half, between = MPI_COMM_NULL;
    call(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half));
    call(MPI_Comm_rank(half, &own));
    snprintf(service, sizeof service, "conformance %d", changes_seen);
    if (rank == 0)
        call(MPI_Open_port(MPI_INFO_NULL, port));
    if (by_name && rank == 0)
        call(MPI_Publish_name(service, MPI_INFO_NULL, port));
    call(MPI_Barrier(MPI_COMM_WORLD));
    if (by_name && rank == 1)
        call(MPI_Lookup_name(service, MPI_INFO_NULL, port));
    if (!by_name)
        call(MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD));
    call(MPI_Barrier(MPI_COMM_WORLD));
    if (accepts)
        call(MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &between));
    else
        call(MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &between));
    if (expect(between != MPI_COMM_NULL)) {
        call(MPI_Comm_remote_size(between, &there));
        expect(there == (size + rank % 2) / 2);
        if (own < there && own < size / 2)
            call(MPI_Sendrecv(&rank, 1, MPI_INT, own, 1, &in, 1, MPI_INT, own, 1, between, MPI_STATUS_IGNORE));
        expect(in == -1 || in == (rank ^ 1));
        call(MPI_Comm_disconnect(&between));
    }
    if (by_name && rank == 0)
        call(MPI_Unpublish_name(service, MPI_INFO_NULL, port));
    if (rank == 0)
        call(MPI_Close_port(port));
    call(MPI_Comm_free(&half));
}

static void accept_and_connect(void)
{
    meet(0);
}

static void name_that_nobody_published(void)
{
    char port[MPI_MAX_PORT_NAME];
    expect_class(MPI_Lookup_name("nobody published this", MPI_INFO_NULL, port), MPI_ERR_NAME);
}

static void published_names(void)
{
    meet(1);
}

const struct check dynamic[] = {
    CHECK(spawn_of_one),
    CHECK(spawn_of_three),
    CHECK(arguments_of_a_child),
    CHECK(folder_of_a_child),
    CHECK(path_to_a_child),
    CHECK(host_of_a_child),
    CHECK(keys_that_mean_nothing),
    CHECK(name_of_the_parent),
    CHECK(spawn_of_several_programs),
    CHECK(spawn_by_one_rank),
    CHECK(accept_and_connect),
    CHECK(name_that_nobody_published),
    CHECK(published_names),
    {0},
};
