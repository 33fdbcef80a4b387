/* Sessions beside MPI_Init: process sets, groups and communicators made of them. */
#include "conformance.h"

static MPI_Session begun(void)
{
    MPI_Session session = MPI_SESSION_NULL;
    call(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    return session;
}

static void begin_and_end(void)
{
    MPI_Session session = begun();
    expect(session != MPI_SESSION_NULL);
    call(MPI_Session_finalize(&session));
    expect(session == MPI_SESSION_NULL);
}

static void several_at_once(void)
{
    MPI_Session first = begun(), second = begun();
    expect(first != second);
    call(MPI_Session_finalize(&first));
    call(MPI_Session_finalize(&second));
}

static void names_of_process_sets(void)
{
    int count = 0, has_world = 0, has_self = 0;
    MPI_Session session = begun();
    call(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count));
    for (int i = 0; i < count; i++) {
        char name[MPI_MAX_PSET_NAME_LEN] = "";
        int length = sizeof name;
        call(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, name));
        has_world |= strcmp(name, "mpi://WORLD") == 0;
        has_self |= strcmp(name, "mpi://SELF") == 0;
    }
    expect(has_world && has_self);
    call(MPI_Session_finalize(&session));
}

/* The size that is told of a process set. */
static int told_size(MPI_Session session, const char *set)
{
    char value[32] = "";
    int length = sizeof value, there = 0;
    MPI_Info info;
    if (call(MPI_Session_get_pset_info(session, set, &info)) != MPI_SUCCESS)
        return -1;
    call(MPI_Info_get_string(info, "mpi_size", &length, value, &there));
    call(MPI_Info_free(&info));
    return there ? atoi(value) : -1;
}

static void sizes_of_process_sets(void)
{
    MPI_Session session = begun();
    expect(told_size(session, "mpi://WORLD") == size);
    expect(told_size(session, "mpi://SELF") == 1);
    call(MPI_Session_finalize(&session));
}

static void group_of_the_world(void)
{
    int result = -1;
    MPI_Group of_session = MPI_GROUP_NULL, of_world;
    MPI_Session session = begun();
    call(MPI_Group_from_session_pset(session, "mpi://WORLD", &of_session));
    call(MPI_Comm_group(MPI_COMM_WORLD, &of_world));
    call(MPI_Group_compare(of_session, of_world, &result));
    expect(result == MPI_IDENT);
    call(MPI_Group_free(&of_session));
    call(MPI_Group_free(&of_world));
    call(MPI_Session_finalize(&session));
}

static void group_of_self(void)
{
    int members = 0;
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Session session = begun();
    call(MPI_Group_from_session_pset(session, "mpi://SELF", &group));
    call(MPI_Group_size(group, &members));
    expect(members == 1);
    call(MPI_Group_free(&group));
    call(MPI_Session_finalize(&session));
}

/* A communicator of all processes of a set. */
static MPI_Comm of_set(MPI_Session session, const char *set, const char *tag)
{
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    call(MPI_Group_from_session_pset(session, set, &group));
    call(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    call(MPI_Group_free(&group));
    return comm;
}

static void communicator_of_the_world(void)
{
    int sum = 0, own = -1;
    MPI_Session session = begun();
    MPI_Comm comm = of_set(session, "mpi://WORLD", "whole");
    if (expect(comm != MPI_COMM_NULL)) {
        call(MPI_Comm_rank(comm, &own));
        call(MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, comm));
        expect(own == rank && sum == size);
        call(MPI_Comm_free(&comm));
    }
    call(MPI_Session_finalize(&session));
}

static void communicator_of_self(void)
{
    int members = 0;
    MPI_Session session = begun();
    MPI_Comm comm = of_set(session, "mpi://SELF", "alone");
    if (expect(comm != MPI_COMM_NULL)) {
        call(MPI_Comm_size(comm, &members));
        expect(members == 1);
        call(MPI_Comm_free(&comm));
    }
    call(MPI_Session_finalize(&session));
}

static void two_communicators_by_their_tags(void)
{
    int in[2] = {-1, -1};
    MPI_Session session = begun();
    MPI_Comm first = of_set(session, "mpi://WORLD", "first"), second = of_set(session, "mpi://WORLD", "second");
    MPI_Request request;
    call(MPI_Isend(&rank, 1, MPI_INT, next, 1, first, &request));
    call(MPI_Sendrecv(&size, 1, MPI_INT, next, 1, &in[1], 1, MPI_INT, previous, 1, second, MPI_STATUS_IGNORE));
    call(MPI_Recv(&in[0], 1, MPI_INT, previous, 1, first, MPI_STATUS_IGNORE));
    call(MPI_Wait(&request, MPI_STATUS_IGNORE));
    expect(in[0] == previous && in[1] == size);
    call(MPI_Comm_free(&first));
    call(MPI_Comm_free(&second));
    call(MPI_Session_finalize(&session));
}

static void handler_and_hints_of_a_new_communicator(void)
{
    char value[16] = "";
    int length = sizeof value, there = 0;
    MPI_Group group;
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Errhandler found;
    MPI_Info info;
    call(MPI_Comm_group(MPI_COMM_WORLD, &group));
    call(MPI_Info_create(&info));
    call(MPI_Info_set(info, "mpi_assert_no_any_source", "true"));
    call(MPI_Comm_create_from_group(group, "hints", info, MPI_ERRORS_ABORT, &comm));
    call(MPI_Info_free(&info));
    call(MPI_Group_free(&group));
    if (!expect(comm != MPI_COMM_NULL))
        return;
    call(MPI_Comm_get_errhandler(comm, &found));
    expect(found == MPI_ERRORS_ABORT);
    call(MPI_Errhandler_free(&found));
    call(MPI_Comm_get_info(comm, &info));
    call(MPI_Info_get_string(info, "mpi_assert_no_any_source", &length, value, &there));
    expect(there && strcmp(value, "true") == 0);
    call(MPI_Info_free(&info));
    call(MPI_Comm_free(&comm));
}

static void hints_of_a_session(void)
{
    char value[64] = "";
    int length = sizeof value, there = 0;
    MPI_Info info;
    MPI_Session session;
    call(MPI_Info_create(&info));
    call(MPI_Info_set(info, "thread_level", "MPI_THREAD_SINGLE"));
    call(MPI_Session_init(info, MPI_ERRORS_RETURN, &session));
    call(MPI_Info_free(&info));
    call(MPI_Session_get_info(session, &info));
    call(MPI_Info_get_string(info, "thread_level", &length, value, &there));
    expect(there && strncmp(value, "MPI_THREAD_", 11) == 0);
    call(MPI_Info_free(&info));
    call(MPI_Session_finalize(&session));
}

const struct check sessions[] = {
    CHECK(begin_and_end),
    CHECK(several_at_once),
    CHECK(names_of_process_sets),
    CHECK(sizes_of_process_sets),
    CHECK(group_of_the_world),
    CHECK(group_of_self),
    CHECK(communicator_of_the_world),
    CHECK(communicator_of_self),
    CHECK(two_communicators_by_their_tags),
    CHECK(handler_and_hints_of_a_new_communicator),
    CHECK(hints_of_a_session),
    {0},
};
