/* Files: opening, positions, views, shared positions, collective and split operations. Every check has a file of its
 * own, which goes when it is closed. */
#include "conformance.h"

enum { MODE = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, CELL = sizeof(int) };

static MPI_File opened(void)
{
    MPI_File file = MPI_FILE_NULL;
    call(MPI_File_open(MPI_COMM_WORLD, shared_file(), MODE, MPI_INFO_NULL, &file));
    return file;
}

/* What was written by each rank before is visible to all afterwards. */
static void settle(MPI_File file)
{
    call(MPI_File_sync(file));
    call(MPI_Barrier(MPI_COMM_WORLD));
    call(MPI_File_sync(file));
}

/* An integer of the file, by its number. */
static int cell(MPI_File file, int number)
{
    int value = -1;
    call(MPI_File_read_at(file, number * CELL, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    return value;
}

static void at_a_position(void)
{
    int count = 0, out = 10 * rank;
    MPI_Status status;
    MPI_File file = opened();
    call(MPI_File_write_at(file, rank * CELL, &out, 1, MPI_INT, &status));
    call(MPI_Get_count(&status, MPI_INT, &count));
    settle(file);
    expect(count == 1 && cell(file, next) == 10 * next);
    call(MPI_File_close(&file));
    expect(file == MPI_FILE_NULL);
}

static void at_a_position_by_all(void)
{
    int in = -1, out = 11 * rank;
    MPI_File file = opened();
    call(MPI_File_write_at_all(file, rank * CELL, &out, 1, MPI_INT, MPI_STATUS_IGNORE));
    settle(file);
    call(MPI_File_read_at_all(file, previous * CELL, &in, 1, MPI_INT, MPI_STATUS_IGNORE));
    expect(in == 11 * previous);
    call(MPI_File_close(&file));
}

static void with_own_positions(void)
{
    int in[2] = {-1, -1}, out[2] = {rank, rank + 1};
    MPI_Offset position = -1;
    MPI_File file = opened();
    call(MPI_File_seek(file, 2 * rank * CELL, MPI_SEEK_SET));
    call(MPI_File_write(file, out, 2, MPI_INT, MPI_STATUS_IGNORE));
    call(MPI_File_get_position(file, &position));
    expect(position == (2 * rank + 2) * CELL);
    settle(file);
    call(MPI_File_seek(file, -2 * CELL, MPI_SEEK_CUR));
    call(MPI_File_read(file, in, 2, MPI_INT, MPI_STATUS_IGNORE));
    expect(in[0] == rank && in[1] == rank + 1);
    call(MPI_File_seek(file, -CELL, MPI_SEEK_END));
    call(MPI_File_read(file, in, 1, MPI_INT, MPI_STATUS_IGNORE));
    expect(in[0] == size);
    call(MPI_File_close(&file));
}

static void with_own_positions_by_all(void)
{
    int in = -1;
    MPI_File file = opened();
    call(MPI_File_seek(file, rank * CELL, MPI_SEEK_SET));
    call(MPI_File_write_all(file, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    settle(file);
    call(MPI_File_seek(file, next * CELL, MPI_SEEK_SET));
    call(MPI_File_read_all(file, &in, 1, MPI_INT, MPI_STATUS_IGNORE));
    expect(in == next);
    call(MPI_File_close(&file));
}

static void begun(void)
{
    int in = -1;
    MPI_Request request;
    MPI_File file = opened();
    call(MPI_File_iwrite_at(file, rank * CELL, &rank, 1, MPI_INT, &request));
    call(MPI_Wait(&request, MPI_STATUS_IGNORE));
    settle(file);
    call(MPI_File_iread_at(file, next * CELL, &in, 1, MPI_INT, &request));
    call(MPI_Wait(&request, MPI_STATUS_IGNORE));
    expect(in == next);
    call(MPI_File_close(&file));
}

static void begun_by_all(void)
{
    int in = -1;
    MPI_Request request;
    MPI_File file = opened();
    call(MPI_File_iwrite_at_all(file, rank * CELL, &rank, 1, MPI_INT, &request));
    call(MPI_Wait(&request, MPI_STATUS_IGNORE));
    settle(file);
    call(MPI_File_iread_at_all(file, next * CELL, &in, 1, MPI_INT, &request));
    call(MPI_Wait(&request, MPI_STATUS_IGNORE));
    expect(in == next);
    call(MPI_File_close(&file));
}

static void in_two_steps(void)
{
    int in = -1;
    MPI_File file = opened();
    call(MPI_File_write_at_all_begin(file, rank * CELL, &rank, 1, MPI_INT));
    call(MPI_File_write_at_all_end(file, &rank, MPI_STATUS_IGNORE));
    settle(file);
    call(MPI_File_read_at_all_begin(file, next * CELL, &in, 1, MPI_INT));
    call(MPI_File_read_at_all_end(file, &in, MPI_STATUS_IGNORE));
    expect(in == next);
    call(MPI_File_close(&file));
}

/* Each rank sees every size-th integer, beginning with its own. */
static MPI_File viewed(void)
{
    MPI_Datatype one, type;
    MPI_File file = opened();
    call(MPI_Type_contiguous(1, MPI_INT, &one));
    call(MPI_Type_create_resized(one, 0, size * CELL, &type));
    call(MPI_Type_commit(&type));
    call(MPI_File_set_view(file, rank * CELL, MPI_INT, type, "native", MPI_INFO_NULL));
    call(MPI_Type_free(&one));
    call(MPI_Type_free(&type));
    return file;
}

static void through_a_view(void)
{
    int out[3] = {rank, 100 + rank, 200 + rank}, right = 1;
    MPI_Offset byte = -1;
    MPI_File file = viewed();
    call(MPI_File_write_all(file, out, 3, MPI_INT, MPI_STATUS_IGNORE));
    call(MPI_File_get_byte_offset(file, 2, &byte));
    expect(byte == (2 * size + rank) * CELL);
    settle(file);
    call(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int i = 0; i < 3 * size; i++) {
        int value = -1;
        call(MPI_File_read_at(file, i, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
        right &= value == i / size * 100 + i % size;
    }
    expect(right);
    call(MPI_File_close(&file));
}

static void view_is_told(void)
{
    char representation[MPI_MAX_DATAREP_STRING] = "";
    int combiner = 0, integers, addresses, types;
    MPI_Offset start = -1;
    MPI_Datatype element, type;
    MPI_File file = viewed();
    call(MPI_File_get_view(file, &start, &element, &type, representation));
    expect(start == rank * CELL && element == MPI_INT && strcmp(representation, "native") == 0);
    call(MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner));
    expect(combiner != MPI_COMBINER_NAMED);
    call(MPI_Type_free(&type));
    call(MPI_File_close(&file));
}

static void view_of_an_array(void)
{
    int in[2] = {-1, -1}, out[2] = {2 * rank, 2 * rank + 1};
    MPI_Datatype type;
    MPI_File file = opened();
    call(MPI_Type_create_subarray(1, (int[]){2 * size}, (int[]){2}, (int[]){2 * rank}, MPI_ORDER_C, MPI_INT, &type));
    call(MPI_Type_commit(&type));
    call(MPI_File_set_view(file, 0, MPI_INT, type, "native", MPI_INFO_NULL));
    call(MPI_File_write_all(file, out, 2, MPI_INT, MPI_STATUS_IGNORE));
    call(MPI_File_seek(file, 0, MPI_SEEK_SET));
    call(MPI_File_read_all(file, in, 2, MPI_INT, MPI_STATUS_IGNORE));
    expect(in[0] == 2 * rank && in[1] == 2 * rank + 1);
    call(MPI_Type_free(&type));
    call(MPI_File_close(&file));
}

/* Every rank finds its number once in what all wrote at the shared position. */
static void expect_each_once(MPI_File file)
{
    int found = 0;
    settle(file);
    for (int i = 0; i < size; i++)
        found += cell(file, i) == rank;
    expect(found == 1);
}

static void with_a_shared_position(void)
{
    MPI_Offset position = -1;
    MPI_File file = opened();
    call(MPI_File_write_shared(file, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    expect_each_once(file);
    call(MPI_File_get_position_shared(file, &position));
    expect(position == size * CELL);
    call(MPI_File_close(&file));
}

static void with_a_shared_position_begun(void)
{
    MPI_Request request;
    MPI_File file = opened();
    call(MPI_File_iwrite_shared(file, &rank, 1, MPI_INT, &request));
    call(MPI_Wait(&request, MPI_STATUS_IGNORE));
    expect_each_once(file);
    call(MPI_File_close(&file));
}

static void read_at_a_shared_position(void)
{
    int in = -1, sum = 0;
    MPI_File file = opened();
    call(MPI_File_write_at(file, rank * CELL, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    settle(file);
    call(MPI_File_read_shared(file, &in, 1, MPI_INT, MPI_STATUS_IGNORE));
    call(MPI_Allreduce(&in, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    expect(sum == size * (size - 1) / 2);
    call(MPI_File_close(&file));
}

static void in_the_order_of_ranks(void)
{
    int in = -1, out = 5 * rank;
    MPI_File file = opened();
    call(MPI_File_write_ordered(file, &out, 1, MPI_INT, MPI_STATUS_IGNORE));
    settle(file);
    expect(cell(file, next) == 5 * next);
    call(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    call(MPI_File_read_ordered(file, &in, 1, MPI_INT, MPI_STATUS_IGNORE));
    expect(in == 5 * rank);
    call(MPI_File_close(&file));
}

static void in_the_order_of_ranks_in_two_steps(void)
{
    MPI_File file = opened();
    call(MPI_File_write_ordered_begin(file, &rank, 1, MPI_INT));
    call(MPI_File_write_ordered_end(file, &rank, MPI_STATUS_IGNORE));
    settle(file);
    expect(cell(file, next) == next);
    call(MPI_File_close(&file));
}

static void sizes(void)
{
    MPI_Offset bytes = -1;
    MPI_File file = opened();
    call(MPI_File_get_size(file, &bytes));
    expect(bytes == 0);
    call(MPI_Barrier(MPI_COMM_WORLD));
    call(MPI_File_set_size(file, 1000));
    call(MPI_File_get_size(file, &bytes));
    expect(bytes == 1000);
    call(MPI_Barrier(MPI_COMM_WORLD));
    call(MPI_File_preallocate(file, 3000));
    call(MPI_File_get_size(file, &bytes));
    expect(bytes == 3000);
    call(MPI_File_close(&file));
}

static void group_and_mode(void)
{
    int mode = 0, members = 0;
    MPI_Group group;
    MPI_File file = opened();
    call(MPI_File_get_amode(file, &mode));
    call(MPI_File_get_group(file, &group));
    call(MPI_Group_size(group, &members));
    expect(mode == MODE && members == size);
    call(MPI_Group_free(&group));
    call(MPI_File_close(&file));
}

static void atomicity(void)
{
    int is_atomic = 1;
    MPI_File file = opened();
    call(MPI_File_get_atomicity(file, &is_atomic));
    expect(!is_atomic);
    call(MPI_File_set_atomicity(file, 1));
    call(MPI_File_get_atomicity(file, &is_atomic));
    expect(is_atomic);
    call(MPI_File_write_at(file, rank * CELL, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    call(MPI_Barrier(MPI_COMM_WORLD));
    expect(cell(file, next) == next);
    call(MPI_File_close(&file));
}

static void hints_of_files(void)
{
    char value[32] = "";
    int length = sizeof value, there = 0;
    MPI_Info info;
    MPI_File file;
    call(MPI_Info_create(&info));
    call(MPI_Info_set(info, "cb_buffer_size", "65536"));
    call(MPI_File_open(MPI_COMM_WORLD, shared_file(), MODE, info, &file));
    call(MPI_Info_free(&info));
    call(MPI_File_get_info(file, &info));
    call(MPI_Info_get_string(info, "cb_buffer_size", &length, value, &there));
    expect(there && strcmp(value, "65536") == 0);
    call(MPI_Info_free(&info));
    call(MPI_File_close(&file));
}

static void beyond_the_end(void)
{
    int in[4] = {0}, count = -1;
    MPI_Status status;
    MPI_File file = opened();
    call(MPI_File_write_at_all(file, 0, &rank, rank == 0, MPI_INT, MPI_STATUS_IGNORE));
    settle(file);
    call(MPI_File_read_at(file, 0, in, 4, MPI_INT, &status));
    call(MPI_Get_count(&status, MPI_INT, &count));
    expect(count == 1);
    call(MPI_File_close(&file));
}

static void of_one_process(void)
{
    char name[80];
    int in = -1;
    MPI_File file;
    snprintf(name, sizeof name, "%s-%d", shared_file(), rank);
    call(MPI_File_open(MPI_COMM_SELF, name, MODE, MPI_INFO_NULL, &file));
    call(MPI_File_write(file, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    call(MPI_File_read_at(file, 0, &in, 1, MPI_INT, MPI_STATUS_IGNORE));
    expect(in == rank);
    call(MPI_File_close(&file));
}

static void removed(void)
{
    MPI_File file = MPI_FILE_NULL;
    const char *name = shared_file();
    call(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    call(MPI_File_close(&file));
    call(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0)
        call(MPI_File_delete(name, MPI_INFO_NULL));
    call(MPI_Barrier(MPI_COMM_WORLD));
    expect_class(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);
}

static void appended(void)
{
    MPI_Offset position = -1;
    MPI_File file;
    const char *name = shared_file();
    call(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    call(MPI_File_set_size(file, 3 * CELL));
    call(MPI_File_close(&file));
    call(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_APPEND | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                       &file));
    call(MPI_File_get_position(file, &position));
    expect(position == 3 * CELL);
    call(MPI_File_close(&file));
}

/* Each rank for itself: opened by all, MPICH gives the ranks but one an error without a class. */
static void only_where_it_is_not_yet(void)
{
    char name[80];
    MPI_File file, second = MPI_FILE_NULL;
    snprintf(name, sizeof name, "%s-%d", shared_file(), rank);
    call(MPI_File_open(MPI_COMM_SELF, name, MODE | MPI_MODE_EXCL, MPI_INFO_NULL, &file));
    expect_class(MPI_File_open(MPI_COMM_SELF, name, MODE | MPI_MODE_EXCL, MPI_INFO_NULL, &second),
                 MPI_ERR_FILE_EXISTS);
    call(MPI_File_close(&file));
}

static void wrong_modes(void)
{
    MPI_File file = MPI_FILE_NULL;
    expect_class(MPI_File_open(MPI_COMM_WORLD, shared_file(), MPI_MODE_RDONLY | MPI_MODE_WRONLY, MPI_INFO_NULL, &file),
                 MPI_ERR_AMODE);
}

const struct check files[] = {
    CHECK(at_a_position),
    CHECK(at_a_position_by_all),
    CHECK(with_own_positions),
    CHECK(with_own_positions_by_all),
    CHECK(begun),
    CHECK(begun_by_all),
    CHECK(in_two_steps),
    CHECK(through_a_view),
    CHECK(view_is_told),
    CHECK(view_of_an_array),
    CHECK(with_a_shared_position),
    CHECK(with_a_shared_position_begun),
    CHECK(read_at_a_shared_position),
    CHECK(in_the_order_of_ranks),
    CHECK(in_the_order_of_ranks_in_two_steps),
    CHECK(sizes),
    CHECK(group_and_mode),
    CHECK(atomicity),
    CHECK(hints_of_files),
    CHECK(beyond_the_end),
    CHECK(of_one_process),
    CHECK(removed),
    CHECK(appended),
    CHECK(only_where_it_is_not_yet),
    CHECK(wrong_modes),
    {0},
};
