/* Communicators made from others, intercommunicators, names and hints. */
#include "conformance.h"

/* The sum of ones over a communicator's processes must be this. */
static void expect_works(MPI_Comm comm, int processes)
{
    int sum = -1, one = 1;
    call(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    expect(sum == processes);
}

static void the_worlds_size_and_rank(void)
{
    int members = 0, own = -1, sum = 0;
    call(MPI_Comm_size(MPI_COMM_WORLD, &members));
    call(MPI_Comm_rank(MPI_COMM_WORLD, &own));
    call(MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    expect(members >= 2 && own >= 0 && own < members && sum == members * (members - 1) / 2);
}

static void self(void)
{
    int members = 0, own = -1;
    call(MPI_Comm_size(MPI_COMM_SELF, &members));
    call(MPI_Comm_rank(MPI_COMM_SELF, &own));
    expect(members == 1 && own == 0);
}

static void compared(void)
{
    int result = -1;
    MPI_Comm copy, turned, half;
    call(MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_WORLD, &result));
    expect(result == MPI_IDENT);
    call(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    call(MPI_Comm_compare(copy, MPI_COMM_WORLD, &result));
    expect(result == MPI_CONGRUENT);
    call(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned));
    call(MPI_Comm_compare(MPI_COMM_WORLD, turned, &result));
    expect(result == MPI_SIMILAR);
    call(MPI_Comm_split(MPI_COMM_WORLD, rank == 0, 0, &half));
    call(MPI_Comm_compare(MPI_COMM_WORLD, half, &result));
    expect(result == MPI_UNEQUAL);
    call(MPI_Comm_free(&copy));
    call(MPI_Comm_free(&turned));
    call(MPI_Comm_free(&half));
    expect(copy == MPI_COMM_NULL);
}

static void duplicate(void)
{
    MPI_Comm copy, second;
    call(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    call(MPI_Comm_dup(copy, &second));
    call(MPI_Comm_free(&copy));
    expect_works(second, size);
    call(MPI_Comm_free(&second));
}

static void duplicate_begun(void)
{
    MPI_Comm copy;
    MPI_Request request;
    call(MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request));
    call(MPI_Wait(&request, MPI_STATUS_IGNORE));
    expect_works(copy, size);
    call(MPI_Comm_free(&copy));
}

/* The value of a hint of a communicator. */
static int has_hint(MPI_Comm comm, const char *key, const char *wanted)
{
    char value[64] = "";
    int length = sizeof value, there = 0;
    MPI_Info info;
    call(MPI_Comm_get_info(comm, &info));
    call(MPI_Info_get_string(info, key, &length, value, &there));
    call(MPI_Info_free(&info));
    return there && strcmp(value, wanted) == 0;
}

static void duplicate_with_hints(void)
{
    MPI_Comm copy;
    MPI_Info info;
    call(MPI_Info_create(&info));
    call(MPI_Info_set(info, "mpi_assert_no_any_tag", "true"));
    call(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &copy));
    call(MPI_Info_free(&info));
    expect(has_hint(copy, "mpi_assert_no_any_tag", "true"));
    expect_works(copy, size);
    call(MPI_Comm_free(&copy));
}

static void duplicate_with_hints_begun(void)
{
    MPI_Comm copy;
    MPI_Info info;
    MPI_Request request;
    call(MPI_Info_create(&info));
    call(MPI_Info_set(info, "mpi_assert_exact_length", "true"));
    call(MPI_Comm_idup_with_info(MPI_COMM_WORLD, info, &copy, &request));
    call(MPI_Wait(&request, MPI_STATUS_IGNORE));
    call(MPI_Info_free(&info));
    expect(has_hint(copy, "mpi_assert_exact_length", "true"));
    call(MPI_Comm_free(&copy));
}

static void hints(void)
{
    MPI_Comm copy;
    MPI_Info info;
    call(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    call(MPI_Info_create(&info));
    call(MPI_Info_set(info, "mpi_assert_allow_overtaking", "true"));
    call(MPI_Comm_set_info(copy, info));
    call(MPI_Info_free(&info));
    expect(has_hint(copy, "mpi_assert_allow_overtaking", "true"));
    call(MPI_Comm_free(&copy));
}

static void split(void)
{
    int own = -1, members = -1;
    MPI_Comm half;
    call(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half));
    call(MPI_Comm_rank(half, &own));
    call(MPI_Comm_size(half, &members));
    expect(members == (size + 1 - rank % 2) / 2);
    expect(own == members - 1 - rank / 2);
    call(MPI_Comm_free(&half));
}

static void split_without_a_color(void)
{
    MPI_Comm rest;
    call(MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 5, 0, &rest));
    expect((rest == MPI_COMM_NULL) == (rank == 0));
    if (rest != MPI_COMM_NULL) {
        expect_works(rest, size - 1);
        call(MPI_Comm_free(&rest));
    }
}

static void split_by_shared_memory(void)
{
    int members = 0;
    MPI_Comm together;
    call(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &together));
    call(MPI_Comm_size(together, &members));
    expect_works(together, members);
    expect(members == size); /* The checks run on one machine. */
    call(MPI_Comm_free(&together));
}

static void split_by_hardware(void)
{
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Info info;
    call(MPI_Info_create(&info));
    call(MPI_Info_set(info, "mpi_hw_resource_type", "mpi_shared_memory"));
    call(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, rank, info, &part));
    call(MPI_Info_free(&info));
    if (part != MPI_COMM_NULL) {
        int members = 0;
        call(MPI_Comm_size(part, &members));
        expect_works(part, members);
        call(MPI_Comm_free(&part));
    }
}

static void split_by_no_type(void)
{
    MPI_Comm none = MPI_COMM_WORLD;
    call(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_UNDEFINED, 0, MPI_INFO_NULL, &none));
    expect(none == MPI_COMM_NULL);
}

static MPI_Group all_but_the_last(void)
{
    MPI_Group all, group;
    call(MPI_Comm_group(MPI_COMM_WORLD, &all));
    call(MPI_Group_excl(all, 1, (int[]){size - 1}, &group));
    call(MPI_Group_free(&all));
    return group;
}

static void of_a_group(void)
{
    MPI_Comm comm;
    MPI_Group group = all_but_the_last();
    call(MPI_Comm_create(MPI_COMM_WORLD, group, &comm));
    call(MPI_Group_free(&group));
    expect((comm == MPI_COMM_NULL) == (rank == size - 1));
    if (comm != MPI_COMM_NULL) {
        expect_works(comm, size - 1);
        call(MPI_Comm_free(&comm));
    }
}

/* The last rank takes no part. */
static void of_a_group_by_its_members(void)
{
    MPI_Comm comm;
    MPI_Group group = all_but_the_last();
    if (rank != size - 1) {
        call(MPI_Comm_create_group(MPI_COMM_WORLD, group, 3, &comm));
        expect_works(comm, size - 1);
        call(MPI_Comm_free(&comm));
    }
    call(MPI_Group_free(&group));
}

static void of_a_group_alone(void)
{
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Group group = all_but_the_last();
    if (rank != size - 1) {
        call(MPI_Comm_create_from_group(group, "conformance", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
        if (expect(comm != MPI_COMM_NULL)) {
            expect_works(comm, size - 1);
            call(MPI_Comm_free(&comm));
        }
    }
    call(MPI_Group_free(&group));
}

static void of_the_worlds_group_alone(void)
{
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Group group;
    call(MPI_Comm_group(MPI_COMM_WORLD, &group));
    call(MPI_Comm_create_from_group(group, "everybody", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    if (expect(comm != MPI_COMM_NULL)) {
        expect_works(comm, size);
        call(MPI_Comm_free(&comm));
    }
    call(MPI_Group_free(&group));
}

static void of_no_group(void)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    call(MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_EMPTY, &comm));
    expect(comm == MPI_COMM_NULL);
}

static void names(void)
{
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    MPI_Comm copy;
    call(MPI_Comm_get_name(MPI_COMM_WORLD, name, &length));
    expect(strcmp(name, "MPI_COMM_WORLD") == 0 && length == 14);
    call(MPI_Comm_get_name(MPI_COMM_SELF, name, &length));
    expect(strcmp(name, "MPI_COMM_SELF") == 0);
    call(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    call(MPI_Comm_get_name(copy, name, &length));
    expect(length == 0);
    call(MPI_Comm_set_name(copy, "ours"));
    call(MPI_Comm_get_name(copy, name, &length));
    expect(strcmp(name, "ours") == 0 && length == 4);
    call(MPI_Comm_free(&copy));
}

static void another_name_of_the_world(void)
{
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    call(MPI_Comm_set_name(MPI_COMM_WORLD, "everything"));
    call(MPI_Comm_get_name(MPI_COMM_WORLD, name, &length));
    expect(strcmp(name, "everything") == 0);
    call(MPI_Comm_set_name(MPI_COMM_WORLD, "MPI_COMM_WORLD"));
}

/* The even ranks on one side, the odd ones on the other. */
static MPI_Comm between_even_and_odd(void)
{
    MPI_Comm half, between = MPI_COMM_NULL;
    call(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half));
    call(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 8, &between));
    call(MPI_Comm_free(&half));
    return between;
}

static int on_this_side(void)
{
    return (size + 1 - rank % 2) / 2;
}

static void between_two_groups(void)
{
    int is_between = 0, here = 0, there = 0, first = -1;
    MPI_Group remote, all;
    MPI_Comm between = between_even_and_odd();
    call(MPI_Comm_test_inter(between, &is_between));
    call(MPI_Comm_size(between, &here));
    call(MPI_Comm_remote_size(between, &there));
    expect(is_between && here == on_this_side() && there == size - here);
    call(MPI_Comm_remote_group(between, &remote));
    call(MPI_Comm_group(MPI_COMM_WORLD, &all));
    call(MPI_Group_translate_ranks(remote, 1, (int[]){0}, all, &first));
    expect(first == 1 - rank % 2);
    call(MPI_Group_free(&remote));
    call(MPI_Group_free(&all));
    call(MPI_Comm_test_inter(MPI_COMM_WORLD, &is_between));
    expect(!is_between);
    call(MPI_Comm_free(&between));
}

static void messages_between_groups(void)
{
    int in = -1, there = size - on_this_side(), own = rank / 2;
    MPI_Comm between = between_even_and_odd();
    if (own < there) {
        call(MPI_Sendrecv(&rank, 1, MPI_INT, own, 1, &in, 1, MPI_INT, own, 1, between, MPI_STATUS_IGNORE));
        expect(in == (rank ^ 1));
    }
    call(MPI_Comm_free(&between));
}

static void collectives_between_groups(void)
{
    int sum = -1, value = rank % 2 == 0 ? 7 : -1, there = size - on_this_side();
    MPI_Comm between = between_even_and_odd();
    call(MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, between));
    expect(sum == there);
    call(MPI_Bcast(&value, 1, MPI_INT, rank % 2 ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL, between));
    expect(value == 7);
    call(MPI_Barrier(between));
    call(MPI_Comm_free(&between));
}

static void begun_collectives_between_groups(void)
{
    int all[RANKS_MAX], right = 1, there = size - on_this_side();
    MPI_Request request;
    MPI_Comm between = between_even_and_odd();
    call(MPI_Iallgather(&rank, 1, MPI_INT, all, 1, MPI_INT, between, &request));
    call(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < there; i++)
        right &= all[i] == 2 * i + 1 - rank % 2;
    expect(right);
    call(MPI_Comm_free(&between));
}

static void merged(void)
{
    int own = -1;
    MPI_Comm between = between_even_and_odd(), all;
    call(MPI_Intercomm_merge(between, rank % 2 == 0, &all));
    call(MPI_Comm_rank(all, &own));
    expect(own == (rank % 2 ? rank / 2 : size / 2 + rank / 2));
    expect_works(all, size);
    call(MPI_Comm_free(&all));
    call(MPI_Comm_free(&between));
}

static void split_between_groups(void)
{
    int members = 0;
    MPI_Comm between = between_even_and_odd(), part;
    call(MPI_Comm_split(between, rank / 2 == 0, 0, &part));
    if (rank < 2) {
        call(MPI_Comm_remote_size(part, &members));
        expect(members == 1);
    }
    if (part != MPI_COMM_NULL)
        call(MPI_Comm_free(&part));
    call(MPI_Comm_free(&between));
}

static void duplicate_between_groups(void)
{
    int result = -1;
    MPI_Comm between = between_even_and_odd(), copy;
    call(MPI_Comm_dup(between, &copy));
    call(MPI_Comm_compare(between, copy, &result));
    expect(result == MPI_CONGRUENT);
    call(MPI_Comm_free(&copy));
    call(MPI_Comm_free(&between));
}

static void between_groups_alone(void)
{
    int there = 0;
    MPI_Group all, own, other;
    MPI_Comm between = MPI_COMM_NULL;
    int even[1][3] = {{0, size - 1, 2}}, odd[1][3] = {{1, size - 1, 2}};
    call(MPI_Comm_group(MPI_COMM_WORLD, &all));
    call(MPI_Group_range_incl(all, 1, rank % 2 ? odd : even, &own));
    call(MPI_Group_range_incl(all, 1, rank % 2 ? even : odd, &other));
    call(MPI_Intercomm_create_from_groups(own, 0, other, 0, "both", MPI_INFO_NULL, MPI_ERRORS_RETURN, &between));
    if (expect(between != MPI_COMM_NULL)) {
        call(MPI_Comm_remote_size(between, &there));
        expect(there == size - on_this_side());
        call(MPI_Comm_free(&between));
    }
    call(MPI_Group_free(&all));
    call(MPI_Group_free(&own));
    call(MPI_Group_free(&other));
}

static void many_at_once(void)
{
    enum { MANY = 16 };
    MPI_Comm copies[MANY];
    for (int i = 0; i < MANY; i++)
        call(MPI_Comm_dup(MPI_COMM_WORLD, &copies[i]));
    expect_works(copies[MANY - 1], size);
    for (int i = 0; i < MANY; i++)
        call(MPI_Comm_free(&copies[i]));
}

static void disconnected(void)
{
    MPI_Comm copy;
    call(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    expect_works(copy, size);
    call(MPI_Comm_disconnect(&copy));
    expect(copy == MPI_COMM_NULL);
}

static void world_is_not_freed(void)
{
    MPI_Comm world = MPI_COMM_WORLD;
    expect(MPI_Comm_free(&world) != MPI_SUCCESS);
    expect(world == MPI_COMM_WORLD);
    expect_works(MPI_COMM_WORLD, size);
}

const struct check communicators[] = {
    CHECK(the_worlds_size_and_rank),
    CHECK(self),
    CHECK(compared),
    CHECK(duplicate),
    CHECK(duplicate_begun),
    CHECK(duplicate_with_hints),
    CHECK(duplicate_with_hints_begun),
    CHECK(hints),
    CHECK(split),
    CHECK(split_without_a_color),
    CHECK(split_by_shared_memory),
    CHECK(split_by_hardware),
    CHECK(split_by_no_type),
    CHECK(of_a_group),
    CHECK(of_a_group_by_its_members),
    CHECK(of_a_group_alone),
    CHECK(of_the_worlds_group_alone),
    CHECK(of_no_group),
    CHECK(names),
    CHECK(another_name_of_the_world),
    CHECK(between_two_groups),
    CHECK(messages_between_groups),
    CHECK(collectives_between_groups),
    CHECK(begun_collectives_between_groups),
    CHECK(merged),
    CHECK(split_between_groups),
    CHECK(duplicate_between_groups),
    CHECK(between_groups_alone),
    CHECK(many_at_once),
    CHECK(disconnected),
    CHECK(world_is_not_freed),
    {0},
};
