/* Derived types, their extents, decoding, attributes and names; packing. Data goes to the next rank by one type and
 * comes from the previous one as plain integers, or the other way round. */
#include "conformance.h"
#include <stddef.h>

enum { CELLS = 64 };

/* Sends one element of the type from 0, 1, 2... and returns how many integers came; they are in `in`. */
static int flattened(MPI_Datatype type, int *in)
{
    int out[CELLS], count = -1;
    MPI_Status status;
    for (int i = 0; i < CELLS; i++) {
        out[i] = i;
        in[i] = -1;
    }
    call(MPI_Type_commit(&type));
    call(MPI_Sendrecv(out, 1, type, next, 1, in, CELLS, MPI_INT, previous, 1, MPI_COMM_WORLD, &status));
    call(MPI_Get_count(&status, MPI_INT, &count));
    call(MPI_Type_free(&type));
    return count;
}

static void expect_list(MPI_Datatype type, int count, const int *wanted)
{
    int in[CELLS], right = 1;
    if (!expect(flattened(type, in) == count))
        return;
    for (int i = 0; i < count; i++)
        right &= in[i] == wanted[i];
    expect(right);
}

static void contiguous(void)
{
    MPI_Datatype type;
    call(MPI_Type_contiguous(3, MPI_INT, &type));
    expect_list(type, 3, (int[]){0, 1, 2});
}

static void vector(void)
{
    MPI_Datatype type;
    call(MPI_Type_vector(3, 2, 4, MPI_INT, &type));
    expect_list(type, 6, (int[]){0, 1, 4, 5, 8, 9});
}

static void vector_in_bytes(void)
{
    MPI_Datatype type;
    call(MPI_Type_create_hvector(2, 1, 5 * sizeof(int), MPI_INT, &type));
    expect_list(type, 2, (int[]){0, 5});
}

static void indexed(void)
{
    MPI_Datatype type;
    call(MPI_Type_indexed(3, (int[]){1, 0, 2}, (int[]){7, 5, 2}, MPI_INT, &type));
    expect_list(type, 3, (int[]){7, 2, 3});
}

static void indexed_in_bytes(void)
{
    MPI_Datatype type;
    MPI_Aint places[2] = {6 * sizeof(int), 1 * sizeof(int)};
    call(MPI_Type_create_hindexed(2, (int[]){1, 2}, places, MPI_INT, &type));
    expect_list(type, 3, (int[]){6, 1, 2});
}

static void indexed_blocks(void)
{
    MPI_Datatype type;
    call(MPI_Type_create_indexed_block(2, 2, (int[]){8, 3}, MPI_INT, &type));
    expect_list(type, 4, (int[]){8, 9, 3, 4});
}

static void indexed_blocks_in_bytes(void)
{
    MPI_Datatype type;
    MPI_Aint places[2] = {9 * sizeof(int), 0};
    call(MPI_Type_create_hindexed_block(2, 1, places, MPI_INT, &type));
    expect_list(type, 2, (int[]){9, 0});
}

static void subarray(void)
{
    MPI_Datatype type;
    call(MPI_Type_create_subarray(2, (int[]){4, 5}, (int[]){2, 2}, (int[]){1, 3}, MPI_ORDER_C, MPI_INT, &type));
    expect_list(type, 4, (int[]){8, 9, 13, 14});
}

static void subarray_in_fortran_order(void)
{
    MPI_Datatype type;
    call(MPI_Type_create_subarray(2, (int[]){4, 5}, (int[]){2, 2}, (int[]){1, 3}, MPI_ORDER_FORTRAN, MPI_INT, &type));
    expect_list(type, 4, (int[]){13, 14, 17, 18});
}

static void distributed_array_in_blocks(void)
{
    MPI_Datatype type;
    call(MPI_Type_create_darray(2, 1, 1, (int[]){8}, (int[]){MPI_DISTRIBUTE_BLOCK}, (int[]){MPI_DISTRIBUTE_DFLT_DARG},
                                (int[]){2}, MPI_ORDER_C, MPI_INT, &type));
    expect_list(type, 4, (int[]){4, 5, 6, 7});
}

static void distributed_array_cyclic(void)
{
    MPI_Datatype type;
    call(MPI_Type_create_darray(2, 1, 1, (int[]){8}, (int[]){MPI_DISTRIBUTE_CYCLIC}, (int[]){1}, (int[]){2},
                                MPI_ORDER_C, MPI_INT, &type));
    expect_list(type, 4, (int[]){1, 3, 5, 7});
}

static void type_of_types(void)
{
    MPI_Datatype pair, type;
    call(MPI_Type_vector(2, 1, 3, MPI_INT, &pair));
    call(MPI_Type_contiguous(2, pair, &type));
    call(MPI_Type_free(&pair));
    expect_list(type, 4, (int[]){0, 3, 4, 7});
}

static void resized(void)
{
    MPI_Datatype cell, type;
    MPI_Aint lower, extent;
    call(MPI_Type_create_resized(MPI_INT, 0, 3 * sizeof(int), &cell));
    call(MPI_Type_get_extent(cell, &lower, &extent));
    expect(lower == 0 && extent == 3 * sizeof(int));
    call(MPI_Type_contiguous(3, cell, &type));
    call(MPI_Type_free(&cell));
    expect_list(type, 3, (int[]){0, 3, 6});
}

struct particle {
    char kind;
    double place[3];
    int number;
};

static MPI_Datatype type_of_particles(void)
{
    MPI_Datatype bare, type;
    MPI_Aint places[3] = {offsetof(struct particle, kind), offsetof(struct particle, place),
                          offsetof(struct particle, number)};
    call(MPI_Type_create_struct(3, (int[]){1, 3, 1}, places, (MPI_Datatype[]){MPI_CHAR, MPI_DOUBLE, MPI_INT}, &bare));
    call(MPI_Type_create_resized(bare, 0, sizeof(struct particle), &type));
    call(MPI_Type_free(&bare));
    call(MPI_Type_commit(&type));
    return type;
}

static void structure(void)
{
    struct particle out[2] = {{'a', {1, 2, rank}, rank}, {'b', {4, 5, 6}, 2 * rank}}, in[2] = {{0}};
    MPI_Datatype type = type_of_particles();
    call(MPI_Sendrecv(out, 2, type, next, 2, in, 2, type, previous, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    expect(in[0].kind == 'a' && in[0].place[2] == previous && in[1].number == 2 * previous && in[1].place[0] == 4);
    call(MPI_Type_free(&type));
}

static void elements_of_a_part(void)
{
    struct particle out = {'c', {1, 2, 3}, 4}, in[2];
    int whole = 0, elements = 0;
    MPI_Status status;
    MPI_Datatype type = type_of_particles(), pair;
    call(MPI_Type_contiguous(2, type, &pair));
    call(MPI_Type_commit(&pair));
    call(MPI_Sendrecv(&out, 1, type, next, 2, in, 1, pair, previous, 2, MPI_COMM_WORLD, &status));
    call(MPI_Get_count(&status, pair, &whole));
    call(MPI_Get_elements(&status, pair, &elements));
    expect(whole == MPI_UNDEFINED && elements == 5);
    call(MPI_Type_free(&pair));
    call(MPI_Type_free(&type));
}

static void duplicate(void)
{
    MPI_Datatype type, copy;
    call(MPI_Type_vector(2, 1, 2, MPI_INT, &type));
    call(MPI_Type_dup(type, &copy));
    call(MPI_Type_free(&type));
    expect_list(copy, 2, (int[]){0, 2});
}

static void absolute_addresses(void)
{
    int first[2] = {rank, 1}, second = 2, in[3] = {0};
    MPI_Aint places[2];
    MPI_Datatype type;
    call(MPI_Get_address(first, &places[0]));
    call(MPI_Get_address(&second, &places[1]));
    expect(MPI_Aint_diff(places[1], places[0]) == (char *)&second - (char *)first);
    expect(MPI_Aint_add(places[0], sizeof(int)) == places[0] + (MPI_Aint)sizeof(int));
    call(MPI_Type_create_hindexed(2, (int[]){2, 1}, places, MPI_INT, &type));
    call(MPI_Type_commit(&type));
    call(MPI_Sendrecv(MPI_BOTTOM, 1, type, next, 3, in, 3, MPI_INT, previous, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    expect(in[0] == previous && in[1] == 1 && in[2] == 2);
    call(MPI_Type_free(&type));
}

static void sizes_and_extents(void)
{
    MPI_Datatype type;
    MPI_Aint lower = 0, extent = 0;
    int bytes = 0;
    call(MPI_Type_create_hindexed(2, (int[]){1, 1}, (MPI_Aint[]){8, 24}, MPI_INT, &type));
    call(MPI_Type_size(type, &bytes));
    call(MPI_Type_get_extent(type, &lower, &extent));
    expect(bytes == 2 * sizeof(int) && lower == 8 && extent == 16 + sizeof(int));
    call(MPI_Type_get_true_extent(type, &lower, &extent));
    expect(lower == 8 && extent == 16 + sizeof(int));
    call(MPI_Type_free(&type));
}

static void true_extent_under_a_resize(void)
{
    MPI_Datatype type;
    MPI_Aint lower, extent;
    call(MPI_Type_create_resized(MPI_INT, -4, 100, &type));
    call(MPI_Type_get_extent(type, &lower, &extent));
    expect(lower == -4 && extent == 100);
    call(MPI_Type_get_true_extent(type, &lower, &extent));
    expect(lower == 0 && extent == sizeof(int));
    call(MPI_Type_free(&type));
}

static void size_of_many(void)
{
    MPI_Datatype type, huge;
    MPI_Count bytes = 0;
    int small = 0;
    call(MPI_Type_contiguous(1 << 30, MPI_INT, &type));
    call(MPI_Type_contiguous(4, type, &huge));
    call(MPI_Type_size_x(huge, &bytes));
    expect(bytes == (MPI_Count)16 << 30);
    call(MPI_Type_size(huge, &small));
    expect(small == MPI_UNDEFINED);
    call(MPI_Type_free(&type));
    call(MPI_Type_free(&huge));
}

#if MPI_VERSION >= 4
static void long_counts_of_types(void)
{
    MPI_Datatype type;
    MPI_Count lower = -1, extent = -1;
    call(MPI_Type_vector_c(2, 1, 3, MPI_INT, &type));
    call(MPI_Type_get_extent_c(type, &lower, &extent));
    expect(lower == 0 && extent == 4 * sizeof(int));
    expect_list(type, 2, (int[]){0, 3});
}
#endif

static void decoding(void)
{
    MPI_Datatype type, inner[1];
    MPI_Aint none[1];
    int integers = 0, addresses = 0, types = 0, combiner = 0, list[3] = {0};
    call(MPI_Type_vector(3, 2, 4, MPI_INT, &type));
    call(MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner));
    expect(integers == 3 && addresses == 0 && types == 1 && combiner == MPI_COMBINER_VECTOR);
    call(MPI_Type_get_contents(type, 3, 0, 1, list, none, inner));
    expect(list[0] == 3 && list[1] == 2 && list[2] == 4 && inner[0] == MPI_INT);
    call(MPI_Type_free(&type));
}

static void decoding_of_a_named_type(void)
{
    int integers, addresses, types, combiner = 0;
    call(MPI_Type_get_envelope(MPI_DOUBLE, &integers, &addresses, &types, &combiner));
    expect(combiner == MPI_COMBINER_NAMED && integers == 0 && types == 0);
}

static void names_of_types(void)
{
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    MPI_Datatype type;
    call(MPI_Type_get_name(MPI_INT, name, &length));
    expect(strcmp(name, "MPI_INT") == 0 && length == 7);
    call(MPI_Type_contiguous(2, MPI_INT, &type));
    call(MPI_Type_get_name(type, name, &length));
    expect(length == 0);
    call(MPI_Type_set_name(type, "two"));
    call(MPI_Type_get_name(type, name, &length));
    expect(strcmp(name, "two") == 0);
    call(MPI_Type_free(&type));
}

static int ended;

static int on_end(MPI_Datatype type, int key, void *value, void *extra)
{
    (void)type, (void)key, (void)extra;
    ended += *(int *)value;
    return MPI_SUCCESS;
}

static void attributes_of_types(void)
{
    static int value = 1;
    int key, there = 0, *found = NULL;
    MPI_Datatype type, copy;
    ended = 0;
    call(MPI_Type_create_keyval(MPI_TYPE_DUP_FN, on_end, &key, NULL));
    call(MPI_Type_contiguous(2, MPI_INT, &type));
    call(MPI_Type_set_attr(type, key, &value));
    call(MPI_Type_dup(type, &copy));
    call(MPI_Type_get_attr(copy, key, &found, &there));
    expect(there && found == &value);
    call(MPI_Type_delete_attr(copy, key));
    call(MPI_Type_get_attr(copy, key, &found, &there));
    expect(!there && ended == 1);
    call(MPI_Type_free(&type));
    call(MPI_Type_free(&copy));
    expect(ended == 2);
    call(MPI_Type_free_keyval(&key));
    expect(key == MPI_KEYVAL_INVALID);
}

static void type_by_size(void)
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    int bytes = 0;
    call(MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 8, &type));
    call(MPI_Type_size(type, &bytes));
    expect(bytes == 8);
    call(MPI_Type_match_size(MPI_TYPECLASS_REAL, 4, &type));
    call(MPI_Type_size(type, &bytes));
    expect(bytes == 4);
}

static void pairs_of_value_and_index(void)
{
    int bytes = 0;
    struct {
        double value;
        int index;
    } out = {rank + 0.5, rank}, in = {0};
    call(MPI_Type_size(MPI_DOUBLE_INT, &bytes));
    expect(bytes == 12);
    call(MPI_Sendrecv(&out, 1, MPI_DOUBLE_INT, next, 4, &in, 1, MPI_DOUBLE_INT, previous, 4, MPI_COMM_WORLD,
                      MPI_STATUS_IGNORE));
    expect(in.value == previous + 0.5 && in.index == previous);
}

static void packing(void)
{
    char buffer[200];
    int position = 0, number = 40 + rank, in = 0, least = 0;
    double real = 0.25, real_in = 0;
    MPI_Status status;
    call(MPI_Pack_size(1, MPI_INT, MPI_COMM_WORLD, &least));
    expect(least >= (int)sizeof(int));
    call(MPI_Pack(&number, 1, MPI_INT, buffer, sizeof buffer, &position, MPI_COMM_WORLD));
    call(MPI_Pack(&real, 1, MPI_DOUBLE, buffer, sizeof buffer, &position, MPI_COMM_WORLD));
    call(MPI_Sendrecv_replace(buffer, position, MPI_PACKED, next, 5, previous, 5, MPI_COMM_WORLD, &status));
    position = 0;
    call(MPI_Unpack(buffer, sizeof buffer, &position, &in, 1, MPI_INT, MPI_COMM_WORLD));
    call(MPI_Unpack(buffer, sizeof buffer, &position, &real_in, 1, MPI_DOUBLE, MPI_COMM_WORLD));
    expect(in == 40 + previous && real_in == 0.25);
}

static void packed_data_as_its_type(void)
{
    char buffer[100];
    int position = 0, out[2] = {rank, 9}, in[2] = {0};
    call(MPI_Pack(out, 2, MPI_INT, buffer, sizeof buffer, &position, MPI_COMM_WORLD));
    call(MPI_Sendrecv(buffer, position, MPI_PACKED, next, 6, in, 2, MPI_INT, previous, 6, MPI_COMM_WORLD,
                      MPI_STATUS_IGNORE));
    expect(in[0] == previous && in[1] == 9);
}

static void packing_for_other_machines(void)
{
    char buffer[64];
    MPI_Aint position = 0, bytes = 0;
    int out[2] = {0x01020304, 5}, in[2] = {0};
    call(MPI_Pack_external_size("external32", 2, MPI_INT, &bytes));
    expect(bytes == 8);
    call(MPI_Pack_external("external32", out, 2, MPI_INT, buffer, sizeof buffer, &position));
    expect(position == 8 && buffer[0] == 1 && buffer[3] == 4);
    position = 0;
    call(MPI_Unpack_external("external32", buffer, 8, &position, in, 2, MPI_INT));
    expect(in[0] == out[0] && in[1] == 5);
}

#if MPI_VERSION >= 4
static void values_of_a_type_index(void)
{
    MPI_Datatype type;
    int bytes = 0;
    call(MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &type));
    expect(type == MPI_DOUBLE_INT);
    call(MPI_Type_size(MPI_2INT, &bytes));
    expect(bytes == 8);
}
#endif

static void scatter_to_other_types(void)
{
    int out[6] = {0, 1, 2, 3, 4, 5}, in[2][3] = {{0}};
    MPI_Datatype column, type;
    call(MPI_Type_vector(2, 1, 3, MPI_INT, &column));
    call(MPI_Type_create_resized(column, 0, sizeof(int), &type));
    call(MPI_Type_commit(&type));
    call(MPI_Sendrecv(out, 6, MPI_INT, next, 7, in, 3, type, previous, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    expect(in[0][0] == 0 && in[1][0] == 1 && in[0][1] == 2 && in[1][2] == 5);
    call(MPI_Type_free(&column));
    call(MPI_Type_free(&type));
}

const struct check datatypes[] = {
    CHECK(contiguous),
    CHECK(vector),
    CHECK(vector_in_bytes),
    CHECK(indexed),
    CHECK(indexed_in_bytes),
    CHECK(indexed_blocks),
    CHECK(indexed_blocks_in_bytes),
    CHECK(subarray),
    CHECK(subarray_in_fortran_order),
    CHECK(distributed_array_in_blocks),
    CHECK(distributed_array_cyclic),
    CHECK(type_of_types),
    CHECK(resized),
    CHECK(structure),
    CHECK(elements_of_a_part),
    CHECK(duplicate),
    CHECK(absolute_addresses),
    CHECK(sizes_and_extents),
    CHECK(true_extent_under_a_resize),
    CHECK(size_of_many),
#if MPI_VERSION >= 4
    CHECK(long_counts_of_types),
#endif
    CHECK(decoding),
    CHECK(decoding_of_a_named_type),
    CHECK(names_of_types),
    CHECK(attributes_of_types),
    CHECK(type_by_size),
    CHECK(pairs_of_value_and_index),
    CHECK(packing),
    CHECK(packed_data_as_its_type),
    CHECK(packing_for_other_machines),
#if MPI_VERSION >= 4
    CHECK(values_of_a_type_index),
#endif
    CHECK(scatter_to_other_types),
    {0},
};
