/* Operations of reductions: those of MPI and those of the program. */
#include "conformance.h"
#include <stdint.h>

/* A check of one operation: VALUE is what a rank gives, RESULT what two of them make. */
#define OPERATION(check, operation, type, datatype, VALUE, RESULT)                                                     \
    static type value_of_##check(int of)                                                                               \
    {                                                                                                                  \
        return (type)(VALUE);                                                                                          \
    }                                                                                                                  \
    static type result_of_##check(type a, type b)                                                                      \
    {                                                                                                                  \
        return (type)(RESULT);                                                                                         \
    }                                                                                                                  \
    static void check(void)                                                                                            \
    {                                                                                                                  \
        type mine = value_of_##check(rank), wanted = value_of_##check(0), all = wanted;                                \
        for (int i = 1; i < size; i++)                                                                                 \
            wanted = result_of_##check(wanted, value_of_##check(i));                                                   \
        call(MPI_Allreduce(&mine, &all, 1, datatype, operation, MPI_COMM_WORLD));                                      \
        expect(all == wanted);                                                                                         \
    }

OPERATION(largest, MPI_MAX, int, MPI_INT, 7 * of % 5, a > b ? a : b)
OPERATION(smallest, MPI_MIN, short, MPI_SHORT, 7 * of % 5 - 3, a < b ? a : b)
OPERATION(sum, MPI_SUM, long long, MPI_LONG_LONG, of * 10000000000LL, a + b)
OPERATION(sum_of_unsigned, MPI_SUM, unsigned char, MPI_UNSIGNED_CHAR, 100 + of, a + b)
OPERATION(sum_of_reals, MPI_SUM, float, MPI_FLOAT, of * 0.25, a + b)
OPERATION(product, MPI_PROD, double, MPI_DOUBLE, 1 + of * 0.5, a *b)
OPERATION(logical_and, MPI_LAND, int, MPI_INT, of != 1, a &&b)
OPERATION(logical_or, MPI_LOR, int, MPI_INT, of == 1, a || b)
OPERATION(logical_exclusive_or, MPI_LXOR, int, MPI_INT, of < 3, !a != !b)
OPERATION(bits_and, MPI_BAND, unsigned, MPI_UNSIGNED, 0xffffU ^ (1U << of), a &b)
OPERATION(bits_or, MPI_BOR, unsigned long, MPI_UNSIGNED_LONG, 1UL << (9 * of), a | b)
OPERATION(bits_exclusive_or, MPI_BXOR, unsigned char, MPI_BYTE, 3U << of, a ^ b)
OPERATION(sum_of_fixed_sizes, MPI_SUM, int64_t, MPI_INT64_T, of - 2, a + b)

struct placed {
    int value, index;
};

static void largest_and_where(void)
{
    struct placed mine = {rank / 2, rank}, all = {-1, -1};
    call(MPI_Allreduce(&mine, &all, 1, MPI_2INT, MPI_MAXLOC, MPI_COMM_WORLD));
    /* Of equal ones the first counts. */
    expect(all.value == (size - 1) / 2 && all.index == (size - 1) / 2 * 2);
}

static void smallest_and_where(void)
{
    struct {
        double value;
        int index;
    } mine = {size - rank, rank}, all = {0};
    call(MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD));
    expect(all.value == 1 && all.index == size - 1);
}

/* Matrices of two rows: their product depends on the order. */
static void multiply(void *left, void *right, int *count, MPI_Datatype *type)
{
    const int *a = left;
    int *b = right;
    (void)type;
    for (int i = 0; i < *count; i++, a += 4, b += 4) {
        int product[4] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2],
                          a[2] * b[1] + a[3] * b[3]};
        memcpy(b, product, sizeof product);
    }
}

static void expect_product(int up_to, const int *found)
{
    int wanted[4] = {1, 0, 0, 1};
    for (int i = 0; i <= up_to; i++) {
        int by[4] = {1, i, 1, 0}, all[4];
        memcpy(all, wanted, sizeof all);
        multiply(all, by, &(int){1}, NULL);
        memcpy(wanted, by, sizeof wanted);
    }
    expect(memcmp(wanted, found, sizeof wanted) == 0);
}

static void with_matrices(int is_scan)
{
    int mine[4] = {1, rank, 1, 0}, all[4] = {0};
    MPI_Datatype matrix;
    MPI_Op operation;
    call(MPI_Type_contiguous(4, MPI_INT, &matrix));
    call(MPI_Type_commit(&matrix));
    call(MPI_Op_create(multiply, 0, &operation));
    if (is_scan)
        call(MPI_Scan(mine, all, 1, matrix, operation, MPI_COMM_WORLD));
    else
        call(MPI_Allreduce(mine, all, 1, matrix, operation, MPI_COMM_WORLD));
    expect_product(is_scan ? rank : size - 1, all);
    call(MPI_Op_free(&operation));
    expect(operation == MPI_OP_NULL);
    call(MPI_Type_free(&matrix));
}

static void own_operation_keeps_the_order(void)
{
    with_matrices(0);
}

static void own_operation_in_a_scan(void)
{
    with_matrices(1);
}

#if MPI_VERSION >= 4
static void larger_of_long(void *left, void *right, MPI_Count *count, MPI_Datatype *type)
{
    const int *a = left;
    int *b = right;
    (void)type;
    for (MPI_Count i = 0; i < *count; i++)
        b[i] = a[i] > b[i] ? a[i] : b[i];
}

static void own_operation_with_long_counts(void)
{
    int all = -1;
    MPI_Op operation;
    call(MPI_Op_create_c(larger_of_long, 1, &operation));
    call(MPI_Allreduce(&rank, &all, 1, MPI_INT, operation, MPI_COMM_WORLD));
    expect(all == size - 1);
    call(MPI_Op_free(&operation));
}
#endif

static void order_of_operations(void)
{
    int commutes = 0;
    MPI_Op operation;
    call(MPI_Op_commutative(MPI_SUM, &commutes));
    expect(commutes);
    call(MPI_Op_create(multiply, 0, &operation));
    call(MPI_Op_commutative(operation, &commutes));
    expect(!commutes);
    call(MPI_Op_free(&operation));
}

static void reduction_of_one_process(void)
{
    int a[2] = {3, 4}, b[2] = {10, 20};
    call(MPI_Reduce_local(a, b, 2, MPI_INT, MPI_SUM));
    expect(b[0] == 13 && b[1] == 24 && a[0] == 3);
}

static void operation_on_a_wrong_type(void)
{
    double mine = 1, all = 0;
    expect_class(MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD), MPI_ERR_OP);
}

static void complex_sums(void)
{
    double mine[2] = {rank, 1}, all[2] = {0};
    call(MPI_Allreduce(mine, all, 1, MPI_C_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD));
    expect(all[0] == size * (size - 1) / 2 && all[1] == size);
}

const struct check operations[] = {
    CHECK(largest),
    CHECK(smallest),
    CHECK(sum),
    CHECK(sum_of_unsigned),
    CHECK(sum_of_reals),
    CHECK(product),
    CHECK(logical_and),
    CHECK(logical_or),
    CHECK(logical_exclusive_or),
    CHECK(bits_and),
    CHECK(bits_or),
    CHECK(bits_exclusive_or),
    CHECK(sum_of_fixed_sizes),
    CHECK(largest_and_where),
    CHECK(smallest_and_where),
    CHECK(own_operation_keeps_the_order),
    CHECK(own_operation_in_a_scan),
#if MPI_VERSION >= 4
    CHECK(own_operation_with_long_counts),
#endif
    CHECK(order_of_operations),
    CHECK(reduction_of_one_process),
    CHECK(operation_on_a_wrong_type),
    CHECK(complex_sums),
    {0},
};
