/* Groups of processes. All of it is local. */
#include "conformance.h"

static MPI_Group world(void)
{
    MPI_Group group = MPI_GROUP_NULL;
    call(MPI_Comm_group(MPI_COMM_WORLD, &group));
    return group;
}

/* The ranks in MPI_COMM_WORLD of a group's members must be these; frees the group. */
static void expect_members(MPI_Group group, int count, const int *members)
{
    int of_group[RANKS_MAX], of_world[RANKS_MAX], found = -1, right = 1;
    MPI_Group all = world();
    for (int i = 0; i < RANKS_MAX; i++)
        of_group[i] = i;
    call(MPI_Group_size(group, &found));
    if (expect(found == count)) {
        call(MPI_Group_translate_ranks(group, count, of_group, all, of_world));
        for (int i = 0; i < count; i++)
            right &= of_world[i] == members[i];
        expect(right);
    }
    call(MPI_Group_free(&all));
    if (group != MPI_GROUP_EMPTY)
        call(MPI_Group_free(&group));
}

static void group_of_the_world(void)
{
    int own = -1, members[RANKS_MAX];
    MPI_Group all = world();
    for (int i = 0; i < size; i++)
        members[i] = i;
    call(MPI_Group_rank(all, &own));
    expect(own == rank);
    expect_members(all, size, members);
}

static void group_of_self(void)
{
    MPI_Group self;
    call(MPI_Comm_group(MPI_COMM_SELF, &self));
    expect_members(self, 1, (int[]){rank});
}

static void group_without_members(void)
{
    int count = -1, own = 0;
    call(MPI_Group_size(MPI_GROUP_EMPTY, &count));
    call(MPI_Group_rank(MPI_GROUP_EMPTY, &own));
    expect(count == 0 && own == MPI_UNDEFINED);
}

static void chosen(void)
{
    MPI_Group all = world(), some;
    call(MPI_Group_incl(all, 2, (int[]){size - 1, 0}, &some));
    expect_members(some, 2, (int[]){size - 1, 0});
    call(MPI_Group_free(&all));
}

static void nobody_chosen(void)
{
    MPI_Group all = world(), none;
    call(MPI_Group_incl(all, 0, NULL, &none));
    expect(none == MPI_GROUP_EMPTY);
    call(MPI_Group_free(&all));
}

static void left_out(void)
{
    int members[RANKS_MAX];
    MPI_Group all = world(), rest;
    for (int i = 1; i < size; i++)
        members[i - 1] = i;
    call(MPI_Group_excl(all, 1, (int[]){0}, &rest));
    expect_members(rest, size - 1, members);
    call(MPI_Group_free(&all));
}

static void chosen_by_ranges(void)
{
    int ranges[1][3] = {{size - 1, 0, -1}}, members[RANKS_MAX];
    MPI_Group all = world(), reversed;
    for (int i = 0; i < size; i++)
        members[i] = size - 1 - i;
    call(MPI_Group_range_incl(all, 1, ranges, &reversed));
    expect_members(reversed, size, members);
    call(MPI_Group_free(&all));
}

static void left_out_by_ranges(void)
{
    int ranges[1][3] = {{0, size - 1, 2}}, members[RANKS_MAX], count = 0;
    MPI_Group all = world(), odd;
    for (int i = 1; i < size; i += 2)
        members[count++] = i;
    call(MPI_Group_range_excl(all, 1, ranges, &odd));
    expect_members(odd, count, members);
    call(MPI_Group_free(&all));
}

static void with_both(int (*combine)(MPI_Group, MPI_Group, MPI_Group *), int count, const int *members)
{
    MPI_Group all = world(), first, second, both;
    call(MPI_Group_incl(all, 2, (int[]){0, 1}, &first));
    call(MPI_Group_incl(all, 2, (int[]){2, 1}, &second));
    call(combine(first, second, &both));
    expect_members(both, count, members);
    call(MPI_Group_free(&first));
    call(MPI_Group_free(&second));
    call(MPI_Group_free(&all));
}

static void united(void)
{
    with_both(MPI_Group_union, 3, (int[]){0, 1, 2});
}

static void intersected(void)
{
    with_both(MPI_Group_intersection, 1, (int[]){1});
}

static void subtracted(void)
{
    with_both(MPI_Group_difference, 1, (int[]){0});
}

static void compared(void)
{
    int same = -1, similar = -1, different = -1;
    MPI_Group all = world(), again = world(), turned, self;
    call(MPI_Group_incl(all, 2, (int[]){1, 0}, &turned));
    call(MPI_Group_incl(all, 2, (int[]){0, 1}, &self));
    call(MPI_Group_compare(all, again, &same));
    call(MPI_Group_compare(turned, self, &similar));
    call(MPI_Group_compare(all, self, &different));
    expect(same == MPI_IDENT && similar == MPI_SIMILAR && different == (size == 2 ? MPI_IDENT : MPI_UNEQUAL));
    call(MPI_Group_free(&all));
    call(MPI_Group_free(&again));
    call(MPI_Group_free(&turned));
    call(MPI_Group_free(&self));
}

static void ranks_that_are_not_there(void)
{
    int found[2] = {0, 0};
    MPI_Group all = world(), one;
    call(MPI_Group_incl(all, 1, (int[]){1}, &one));
    call(MPI_Group_translate_ranks(all, 2, (int[]){0, 1}, one, found));
    expect(found[0] == MPI_UNDEFINED && found[1] == 0);
    call(MPI_Group_translate_ranks(all, 1, (int[]){MPI_PROC_NULL}, one, found));
    expect(found[0] == MPI_PROC_NULL);
    call(MPI_Group_free(&one));
    call(MPI_Group_free(&all));
}

static void outlives_its_communicator(void)
{
    MPI_Comm half;
    MPI_Group group;
    int members[RANKS_MAX], count = 0;
    for (int i = rank % 2; i < size; i += 2)
        members[count++] = i;
    call(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half));
    call(MPI_Comm_group(half, &group));
    call(MPI_Comm_free(&half));
    expect_members(group, count, members);
}

static void wrong_ranks(void)
{
    MPI_Group all = world(), some = MPI_GROUP_NULL;
    expect_class(MPI_Group_incl(all, 1, (int[]){size}, &some), MPI_ERR_RANK);
    expect_class(MPI_Group_incl(all, 1, (int[]){-1}, &some), MPI_ERR_RANK);
    call(MPI_Group_free(&all));
    expect(all == MPI_GROUP_NULL);
}

const struct check groups[] = {
    CHECK(group_of_the_world),
    CHECK(group_of_self),
    CHECK(group_without_members),
    CHECK(chosen),
    CHECK(nobody_chosen),
    CHECK(left_out),
    CHECK(chosen_by_ranges),
    CHECK(left_out_by_ranges),
    CHECK(united),
    CHECK(intersected),
    CHECK(subtracted),
    CHECK(compared),
    CHECK(ranks_that_are_not_there),
    CHECK(outlives_its_communicator),
    CHECK(wrong_ranks),
    {0},
};
