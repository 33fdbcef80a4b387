/* A malleable program whose data a seed chooses (VARIOUS_SEED): arrays of one to three axes, values, a value per rank,
 * a custom region, rows, records, owners of rows, costs, communicators and a window of its own, children. Every element
 * follows from its index and the number of iterations, so each rank checks all that it holds, in every iteration and
 * right after each change, halos too: various ITERATIONS SLEEP_US. Its last line has a checksum that does not depend on
 * the ranks. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <inttypes.h>
#include <mpi.h>
#include <pcm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { AXES = 3, ARRAYS = 4, FORM = 2 + 3 * AXES + 2, TOKENS = 6000, SPAWN_EVERY = 60, RECORDS_MAX = 400 };
enum { ROWS = 41, ROWS_EVERY = 17, LISTED = 57, COSTS_EVERY = 31 };
enum split { WHOLE, BLOCK, CYCLIC };
enum kind { INTEGERS, NUMBERS, TRIPLES };

struct array {
    char name[8], other[8]; /* `other`: where the next iteration is computed, if not in place */
    enum kind kind;
    int axes, is_constant, is_swapped, has_cycles, is_adopted;
    int costed; /* an axis that is divided by costs, or -1 */
    size_t extents[AXES], cycle, halo[AXES];
    enum split split[AXES];
    int is_periodic[AXES];
};

/* A place in an array, or before or beyond its ends. */
struct place {
    long global[AXES];
};

struct record {
    int64_t id, value;
};

/* Of an array in memory of this program: the part, and what a change may need beside it. */
struct memory {
    char *part;
    int pieces;
};

static uint64_t seed, state;
static struct array arrays[ARRAYS];
static struct memory memories[ARRAYS][2]; /* of the array and of the other that it is swapped with */
static int array_count, has_custom, has_tokens, has_window, has_children, has_rows, has_owned;
static int has_listed, has_divide;
static size_t row_max;
static int64_t owned;
static int64_t iteration, tokens;
static struct record records[RECORDS_MAX];
static size_t record_count, records_in_all;
static MPI_Comm halves = MPI_COMM_NULL;
static MPI_Win window = MPI_WIN_NULL;
static int64_t *cell;

/* ---- choices ------------------------------------------------------------------------------------------------- */

static uint64_t mixed(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static size_t one_of(size_t count)
{
    state += 0x9e3779b97f4a7c15u;
    return (size_t)(mixed(state) % count);
}

static void choose_axis(struct array *a, int axis, int is_divided)
{
    a->extents[axis] = a->axes == 1 ? 1 + one_of(500) : 1 + one_of(18);
    if (!is_divided)
        return;
    a->split[axis] = one_of(3) == 0 ? CYCLIC : BLOCK;
    a->has_cycles |= a->split[axis] == CYCLIC;
    if (a->split[axis] != CYCLIC && one_of(2) == 0) {
        a->is_periodic[axis] = one_of(2) == 0;
        a->halo[axis] = a->is_periodic[axis] && a->extents[axis] < 2 ? 1 : 1 + one_of(2);
    }
}

static void choose_array(struct array *a, int number)
{
    snprintf(a->name, sizeof a->name, "a%d", number);
    snprintf(a->other, sizeof a->other, "b%d", number);
    a->kind = (enum kind)one_of(3);
    a->axes = 1 + (int)one_of(AXES);
    int divided = (int)one_of((size_t)a->axes);
    a->cycle = 1 + one_of(3);
    for (int axis = 0; axis < a->axes; axis++)
        choose_axis(a, axis, axis == divided || one_of(3) == 0);
    a->is_constant = number > 0 && one_of(4) == 0;
    a->is_swapped = !a->is_constant && one_of(3) == 0;
    a->is_adopted = mixed(seed + (uint64_t)number) % 3 == 0;
    a->costed = mixed(seed + 50 + (uint64_t)number) % 3 != 0 && a->split[divided] == BLOCK ? divided : -1;
}

static void choose(void)
{
    const char *text = getenv("VARIOUS_SEED");
    seed = text == NULL ? 1 : strtoull(text, NULL, 10);
    state = mixed(seed);
    array_count = 1 + (int)one_of(ARRAYS);
    for (int i = 0; i < array_count; i++)
        choose_array(&arrays[i], i);
    has_custom = one_of(2) == 0;
    has_tokens = one_of(2) == 0;
    has_window = one_of(2) == 0;
    has_children = one_of(4) == 0;
    records_in_all = 1 + one_of(RECORDS_MAX);
    has_rows = mixed(seed + 1001) % 2 == 0;
    has_owned = mixed(seed + 2002) % 2 == 0;
    has_listed = mixed(seed + 3003) % 3 != 0;
    has_divide = mixed(seed + 4004) % 2 == 0;
    /* Some programs have so much that its memory can grow in its place. */
    row_max = mixed(seed + 5005) % 3 == 0 ? 30000 : 5;
    owned = mixed(seed + 6006) % 3 == 0 ? 400000 : 150;
}

/* ---- failing -------------------------------------------------------------------------------------------------- */

static void fail(const char *what)
{
    int rank = -1, size = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("various: WRONG: seed %" PRIu64 ", rank %d of %d, iteration %" PRId64 ": %s: %s\n", seed, rank, size,
           iteration, what, pcm_last_error());
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 9);
}

static void check(int is_right, const char *what)
{
    if (!is_right)
        fail(what);
}

static void done(enum pcm_result result, const char *what)
{
    check(result == PCM_OK, what);
}

/* ---- arrays --------------------------------------------------------------------------------------------------- */

static size_t element_size(const struct array *a)
{
    return a->kind == TRIPLES ? 3 * sizeof(int64_t) : sizeof(int64_t);
}

/* What stands at a place after so many iterations; beyond an end that is not periodic it never changes. */
static int64_t expected(const struct array *a, const struct place *at, int64_t iterations)
{
    uint64_t index = (uint64_t)(a - arrays) + 1;
    int changes = !a->is_constant;
    for (int axis = 0; axis < a->axes; axis++) {
        long global = at->global[axis], extent = (long)a->extents[axis];
        if (a->is_periodic[axis])
            global = (global + 2 * extent) % extent;
        changes &= global >= 0 && global < extent;
        index = mixed(index * 1009 + (uint64_t)(global + 8));
    }
    index = mixed(index + seed) % 1000000;
    return (int64_t)index + (changes ? iterations * (int64_t)(1 + index % 13) : 0);
}

static void put(const struct array *a, char *data, size_t offset, int64_t value)
{
    int64_t triple[3] = {value, -value, value ^ 0x55};
    double number = (double)value;
    const void *from = a->kind == NUMBERS ? (const void *)&number : triple;
    memcpy(data + offset * element_size(a), from, element_size(a));
}

static int holds(const struct array *a, const char *data, size_t offset, int64_t value)
{
    char wanted[3 * sizeof(int64_t)];
    put(a, wanted, 0, value);
    return memcmp(data + offset * element_size(a), wanted, element_size(a)) == 0;
}

typedef void (*visitor)(const struct array *a, char *data, size_t offset, const struct place *at, void *own);

/* Visits every element of one box of global indices. */
static void visit_box(const struct array *a, char *data, const size_t *start, const size_t *length, visitor visit,
                      void *own)
{
    size_t count = 1, index[AXES] = {0}, offset = 0;
    for (int axis = 0; axis < a->axes; axis++)
        count *= length[axis];
    for (size_t n = 0; n < count; n++) {
        struct place at = {{0}};
        size_t rest = n;
        for (int axis = a->axes - 1; axis >= 0; axis--) {
            index[axis] = start[axis] + rest % length[axis];
            at.global[axis] = (long)index[axis];
            rest /= length[axis];
        }
        done(pcm_local_offset(a->name, index, &offset), "an offset");
        visit(a, data, offset, &at, own);
    }
}

static void visit_own(const struct array *a, char *data, visitor visit, void *own)
{
    size_t boxes = 0;
    done(pcm_box_count(a->name, &boxes), "the boxes");
    for (size_t n = 0; n < boxes; n++) {
        size_t start[AXES], length[AXES];
        done(pcm_box(a->name, n, start, length), "a box");
        visit_box(a, data, start, length, visit, own);
    }
}

/* Visits every element of the part with its halo; one without elements of its own has none that counts. */
static void visit_all(const struct array *a, char *data, visitor visit, void *own)
{
    size_t extents[AXES], count = 1, start[AXES], end[AXES];
    if (a->has_cycles) {
        visit_own(a, data, visit, own);
        return;
    }
    done(pcm_local_extents(a->name, extents), "the extents");
    for (int axis = 0; axis < a->axes; axis++) {
        done(pcm_bounds(a->name, axis, &start[axis], &end[axis]), "the bounds");
        if (end[axis] == start[axis])
            return;
        count *= extents[axis];
    }
    for (size_t n = 0; n < count; n++) {
        struct place at = {{0}};
        size_t rest = n;
        for (int axis = a->axes - 1; axis >= 0; axis--) {
            at.global[axis] = (long)start[axis] - (long)a->halo[axis] + (long)(rest % extents[axis]);
            rest /= extents[axis];
        }
        visit(a, data, n, &at, own);
    }
}

static void check_one(const struct array *a, char *data, size_t offset, const struct place *at, void *own)
{
    char text[160];
    (void)own;
    int64_t wanted = expected(a, at, iteration);
    if (holds(a, data, offset, wanted))
        return;
    int64_t found;
    memcpy(&found, data + offset * sizeof found, sizeof found);
    snprintf(text, sizeof text, "%s (%ld, %ld, %ld) is not %" PRId64 " (as an integer it is %" PRId64 ")", a->name,
             at->global[0], at->global[1], at->global[2], wanted, found);
    fail(text);
}

static void put_next(const struct array *a, char *data, size_t offset, const struct place *at, void *own)
{
    (void)own;
    put(a, data, offset, expected(a, at, iteration + 1));
}

static void put_first(const struct array *a, char *data, size_t offset, const struct place *at, void *own)
{
    (void)own;
    put(a, data, offset, expected(a, at, 0));
}

struct sum {
    int64_t count;
    uint64_t checksum;
};

static void add_up(const struct array *a, char *data, size_t offset, const struct place *at, void *own)
{
    struct sum *sum = own;
    sum->count++;
    uint64_t mark = (uint64_t)(a - arrays) + 1;
    for (int axis = 0; axis < a->axes; axis++)
        mark = mixed(mark * 31 + (uint64_t)at->global[axis]);
    uint64_t bits[3] = {0};
    memcpy(bits, data + offset * element_size(a), element_size(a));
    sum->checksum += mixed(mark ^ bits[0]);
}

static char *data_of(const struct array *a)
{
    char *data = pcm_data(a->name);
    check(data != NULL && (!a->is_adopted || data == memories[a - arrays][0].part), a->name);
    return data;
}

/* Costs of the elements along the costed axis: other ones from time to time, and some of them 0. */
static const double *costs_of(const struct array *a, int64_t iterations)
{
    static double costs[500];
    for (size_t i = 0; i < a->extents[a->costed]; i++)
        costs[i] = (double)(mixed(seed + i + 97 * (uint64_t)(iterations / COSTS_EVERY)) % 20);
    return costs;
}

static void *make_memory(void *own, size_t bytes)
{
    struct memory *memory = own;
    memory->pieces++;
    return malloc(bytes == 0 ? 1 : bytes);
}

static void give_back_memory(void *own, void *part)
{
    struct memory *memory = own;
    memory->pieces--;
    free(part);
}

static void take_up_memory(void *own, void *part, size_t bytes)
{
    struct memory *memory = own;
    (void)bytes;
    if (memory->part != NULL)
        give_back_memory(own, memory->part);
    memory->part = part;
}

static void adopt(const struct array *a, const char *name, int element)
{
    pcm_axis axes[AXES] = {{0}};
    struct memory *memory = &memories[a - arrays][strcmp(name, a->name) != 0];
    pcm_memory_hooks hooks = {memory, make_memory, take_up_memory, give_back_memory};
    for (int axis = 0; axis < a->axes; axis++) {
        static const int splits[] = {[WHOLE] = PCM_SPLIT_NONE, [BLOCK] = PCM_SPLIT_BLOCK, [CYCLIC] = PCM_SPLIT_CYCLIC};
        axes[axis] = (pcm_axis){.extent = a->extents[axis],
                                .split = splits[a->split[axis]],
                                .halo = a->halo[axis],
                                .periodic = a->is_periodic[axis],
                                .number = a->split[axis] == CYCLIC ? a->cycle : 0};
    }
    if (a->costed >= 0 && !pcm_joining()) { /* one that joins need not know the costs */
        axes[a->costed].split = PCM_SPLIT_COSTS;
        axes[a->costed].number = a->extents[a->costed];
        axes[a->costed].list = costs_of(a, 0);
    }
    done(pcm_adopt(name, element, a->axes, axes, a->is_constant ? PCM_FLAG_CONSTANT : PCM_FLAG_NONE, &hooks), name);
}

static void register_array(const struct array *a, const char *name)
{
    static const int elements[] = {[INTEGERS] = PCM_INT64, [NUMBERS] = PCM_DOUBLE};
    int element = a->kind == TRIPLES ? PCM_BYTES(3 * sizeof(int64_t)) : elements[a->kind];
    pcm_option options[FORM];
    const void *form[FORM] = {a->extents};
    size_t count = 0;
    if (a->is_adopted) {
        adopt(a, name, element);
        return;
    }
    for (int axis = 0; axis < a->axes; axis++) {
        enum split split = a->split[axis];
        int way = split == CYCLIC ? PCM_OPTION_CYCLIC : PCM_OPTION_BLOCK;
        if (axis == a->costed && !pcm_joining())
            options[count++] = (pcm_option){PCM_OPTION_COSTS, axis, a->extents[axis], costs_of(a, 0)};
        else if (split != WHOLE)
            options[count++] = (pcm_option){way, axis, split == CYCLIC ? a->cycle : 0, NULL};
        if (a->halo[axis] > 0)
            options[count++] = (pcm_option){PCM_OPTION_HALO, axis, a->halo[axis], NULL};
        if (a->is_periodic[axis])
            options[count++] = (pcm_option){PCM_OPTION_PERIODIC, axis, 0, NULL};
    }
    if (a->is_constant)
        options[count++] = (pcm_option){PCM_OPTION_CONSTANT, 0, 0, NULL};
    for (size_t i = 0; i < count; i++)
        form[1 + i] = &options[i];
    check(pcm_array_create(name, element, a->axes, form) != NULL, name);
}

/* ---- what is no array ----------------------------------------------------------------------------------------- */

static int pack(void *own, int to, int ranks, pcm_packer *packer)
{
    (void)own;
    (void)to;
    (void)ranks;
    return pcm_pack(packer, records, record_count * sizeof *records);
}

static int unpack(void *own, const pcm_part *parts, size_t count)
{
    (void)own;
    record_count = 0;
    for (size_t i = 0; i < count; i++) {
        size_t more = parts[i].size / sizeof *records;
        if (record_count + more > RECORDS_MAX)
            return 1;
        memcpy(records + record_count, parts[i].data, parts[i].size);
        record_count += more;
    }
    return 0;
}

static int new_rank(void *own, int from, int before, int after, int *targets)
{
    (void)own;
    targets[0] = (int)((long)from * after / before);
    return 1;
}

static int merge(void *own, void *mine, const void *other)
{
    (void)own;
    *(int64_t *)mine += *(const int64_t *)other;
    return 0;
}

static int split(void *own, void *mine, void *share, int left)
{
    (void)own;
    *(int64_t *)share = *(int64_t *)mine / (left + 1);
    *(int64_t *)mine -= *(int64_t *)share;
    return 0;
}

static int64_t total(int64_t own)
{
    int64_t sum = 0;
    MPI_Allreduce(&own, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

/* ---- rows of different lengths, and records with owners -------------------------------------------------------- */

/* Rows get other lengths every some iterations. */
static size_t row_length(size_t row, int64_t iterations)
{
    return (size_t)(mixed(seed + row * 7 + (uint64_t)(iterations / ROWS_EVERY)) % row_max);
}

struct part_of_rows {
    size_t start, end;
    const size_t *offsets;
    int32_t *columns;
    int64_t *values;
};

static struct part_of_rows rows_here(void)
{
    struct part_of_rows part;
    done(pcm_bounds("row ends", 0, &part.start, &part.end), "the rows");
    part.offsets = pcm_row_offsets("matrix");
    part.columns = pcm_row_entries("matrix", 0);
    part.values = pcm_row_entries("matrix", 1);
    check(part.offsets != NULL && part.columns != NULL && part.values != NULL, "the matrix");
    return part;
}

static void fill_rows(int64_t iterations)
{
    size_t lengths[ROWS], start, end;
    done(pcm_bounds("row ends", 0, &start, &end), "the rows");
    for (size_t row = start; row < end; row++)
        lengths[row - start] = row_length(row, iterations);
    done(pcm_rows_resize("matrix", lengths), "lengths of rows");
    struct part_of_rows part = rows_here();
    for (size_t row = start; row < end; row++)
        for (size_t n = part.offsets[row - start]; n < part.offsets[row - start + 1]; n++) {
            part.columns[n] = (int32_t)(row * row_max + n - part.offsets[row - start]);
            part.values[n] = part.columns[n] + iterations;
        }
}

static void check_rows(void)
{
    struct part_of_rows part = rows_here();
    check(total((int64_t)(part.end - part.start)) == ROWS, "rows are lost or doubled");
    for (size_t row = part.start; row < part.end; row++) {
        size_t first = part.offsets[row - part.start], length = part.offsets[row - part.start + 1] - first;
        check(length == row_length(row, iteration), "a row of another length");
        for (size_t n = 0; n < length; n++) {
            int32_t column = (int32_t)(row * row_max + n);
            check(part.columns[first + n] == column, "another column");
            check(part.values[first + n] == column + iteration, "a value of a row of another time");
        }
    }
}

static void next_rows(void)
{
    struct part_of_rows part = rows_here();
    if ((iteration + 1) % ROWS_EVERY == 0)
        fill_rows(iteration + 1);
    else
        for (size_t n = 0; n < part.offsets[part.end - part.start]; n++)
            part.values[n]++;
}

static int owner_of_record(void *own, const void *record, int ranks)
{
    (void)own;
    int64_t id = ((const struct record *)record)->id;
    return (int)(ranks % 2 == 0 ? id * ranks / owned : id % ranks);
}

static struct record *owned_here(size_t *count)
{
    struct record *first = pcm_record_data("owned", count);
    check(first != NULL, "the records");
    return first;
}

static void fill_owned(void)
{
    int rank = 0, size = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    size_t count = 0;
    for (struct record next = {0, 0}; next.id < owned; next.value = ++next.id) {
        if (owner_of_record(NULL, &next, size) != rank)
            continue;
        struct record *first = pcm_records_resize("owned", count + 1);
        check(first != NULL, "room for a record");
        first[count++] = next;
    }
}

static void check_owned(void)
{
    int rank = 0, size = 1;
    size_t count = 0;
    int64_t ids = 0;
    struct record *first = owned_here(&count);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (size_t n = 0; n < count; n++) {
        ids += first[n].id;
        check(owner_of_record(NULL, &first[n], size) == rank, "a record of another rank");
        check(first[n].value == first[n].id + iteration, "a record with an owner, of another time");
    }
    check(total((int64_t)count) == owned, "records with owners are lost or doubled");
    check(total(ids) == owned * (owned - 1) / 2, "other records with owners");
}

static void next_owned(void)
{
    size_t count = 0;
    struct record *first = owned_here(&count);
    for (size_t n = 0; n < count; n++)
        first[n].value++;
}

/* ---- rows whose owners are in a list --------------------------------------------------------------------------- */

static int listed_owner(size_t row, int ranks)
{
    return (int)(mixed(seed + row * 13 + (uint64_t)ranks) % (uint64_t)ranks);
}

static int divide(void *own, int ranks, int *owners, size_t rows)
{
    (void)own;
    for (size_t row = 0; row < rows; row++)
        owners[row] = listed_owner(row, ranks);
    return 0;
}

static void register_listed(void)
{
    int owners[LISTED], size = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    divide(NULL, size, owners, LISTED);
    done(pcm_owner_list("owners", LISTED, has_divide ? owners : NULL, has_divide ? divide : NULL, NULL), "owners");
    done(pcm_rows("listed", "owners", 2, (size_t[]){sizeof(int64_t), 3}), "the listed rows");
}

static void fill_listed(void)
{
    size_t lengths[LISTED], count = 0;
    const size_t *numbers = pcm_row_numbers("owners", &count);
    for (size_t i = 0; i < count; i++)
        lengths[i] = row_length(numbers[i], 0);
    done(pcm_rows_resize("listed", lengths), "lengths of listed rows");
    const size_t *offsets = pcm_row_offsets("listed");
    int64_t *values = pcm_row_entries("listed", 0);
    char *marks = pcm_row_entries("listed", 1);
    for (size_t i = 0; i < count; i++)
        for (size_t n = offsets[i]; n < offsets[i + 1]; n++) {
            values[n] = (int64_t)(numbers[i] * row_max + n - offsets[i]);
            memset(marks + 3 * n, (int)numbers[i] + 1, 3);
        }
}

static void check_listed_row(size_t row, const int64_t *values, const char *marks, size_t length)
{
    check(length == row_length(row, 0), "a listed row of another length");
    for (size_t n = 0; n < length; n++) {
        check(values[n] == (int64_t)(row * row_max + n) + iteration, "a value of a listed row");
        for (size_t byte = 0; byte < 3; byte++)
            check(marks[3 * n + byte] == (char)(row + 1), "a mark of a listed row");
    }
}

static void check_listed(void)
{
    int rank = 0, size = 1;
    size_t count = 0;
    int64_t sum = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const size_t *numbers = pcm_row_numbers("owners", &count), *offsets = pcm_row_offsets("listed");
    const int64_t *values = pcm_row_entries("listed", 0);
    const char *marks = pcm_row_entries("listed", 1);
    check(numbers != NULL && offsets != NULL && values != NULL && marks != NULL, "the listed rows");
    for (size_t i = 0; i < count; i++) {
        int owner = -1;
        sum += (int64_t)numbers[i];
        done(pcm_owner("owners", &numbers[i], &owner), "an owner");
        check(owner == rank && (!has_divide || owner == listed_owner(numbers[i], size)), "a row of another owner");
        check_listed_row(numbers[i], values + offsets[i], marks + 3 * offsets[i], offsets[i + 1] - offsets[i]);
    }
    check(total((int64_t)count) == LISTED && total(sum) == LISTED * (LISTED - 1) / 2, "listed rows are lost");
}

static void next_listed(void)
{
    size_t count = 0;
    pcm_row_numbers("owners", &count);
    int64_t *values = pcm_row_entries("listed", 0);
    for (size_t n = 0; n < pcm_row_offsets("listed")[count]; n++)
        values[n]++;
}

/* What all ranks hold together, which no change may alter. */
static void check_totals(void)
{
    for (int i = 0; i < array_count; i++) {
        const struct array *a = &arrays[i];
        struct sum sum = {0, 0};
        int64_t wanted = 1;
        for (int axis = 0; axis < a->axes; axis++)
            wanted *= (int64_t)a->extents[axis];
        visit_own(a, data_of(a), add_up, &sum);
        check(total(sum.count) == wanted, "elements are lost or doubled");
    }
    if (has_tokens)
        check(total(tokens) == TOKENS, "tokens are lost or doubled");
    int64_t ids = 0, in_all = (int64_t)records_in_all;
    for (size_t i = 0; i < record_count; i++) {
        ids += records[i].id;
        check(records[i].value == records[i].id + iteration, "a record of another time");
    }
    if (has_custom) {
        check(total((int64_t)record_count) == in_all, "records are lost or doubled");
        check(total(ids) == in_all * (in_all - 1) / 2, "other records");
    }
    if (has_rows)
        check_rows();
    if (has_owned)
        check_owned();
    if (has_listed)
        check_listed();
}

static int set_up(void *own)
{
    int rank = 0;
    (void)own;
    if (halves != MPI_COMM_NULL)
        MPI_Comm_free(&halves);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &halves);
    if (has_window) /* the old one has members that have left */
        MPI_Win_allocate(sizeof *cell, sizeof *cell, MPI_INFO_NULL, MPI_COMM_WORLD, &cell, &window);
    return 0;
}

static void talk(void)
{
    int rank = 0, size = 0, in_half = 0, one = 1, sum = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, halves);
    MPI_Comm_size(halves, &in_half);
    check(sum == in_half && sum == (size + 1 - rank % 2) / 2, "a sum over half of the ranks");
    if (!has_window)
        return;
    int64_t mine = iteration * 100 + rank;
    MPI_Win_fence(0, window);
    MPI_Put(&mine, 1, MPI_INT64_T, (rank + 1) % size, 0, 1, MPI_INT64_T, window);
    MPI_Win_fence(0, window);
    check(*cell == iteration * 100 + (rank + size - 1) % size, "a put");
}

static void ask_a_child(char *program)
{
    int rank = 0, code = 0;
    int64_t answer = 0, question = iteration;
    char *words[] = {"child", NULL};
    MPI_Comm child;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank != 0)
        return;
    MPI_Comm_spawn(program, words, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &child, &code);
    MPI_Send(&question, 1, MPI_INT64_T, 0, 1, child);
    MPI_Recv(&answer, 1, MPI_INT64_T, 0, 1, child, MPI_STATUS_IGNORE);
    check(answer == 2 * question, "a child's answer");
    MPI_Comm_disconnect(&child);
}

static int be_a_child(void)
{
    int64_t question = 0;
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    MPI_Recv(&question, 1, MPI_INT64_T, 0, 1, parent, MPI_STATUS_IGNORE);
    question *= 2;
    MPI_Send(&question, 1, MPI_INT64_T, 0, 1, parent);
    MPI_Comm_disconnect(&parent);
    return MPI_Finalize();
}

/* ---- the loop ------------------------------------------------------------------------------------------------- */

static void set_initial(void)
{
    int rank = 0, size = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < array_count; i++)
        visit_all(&arrays[i], data_of(&arrays[i]), put_first, NULL);
    tokens = TOKENS / size + (rank == 0 ? TOKENS % size : 0);
    for (size_t id = (size_t)rank; has_custom && id < records_in_all; id += (size_t)size)
        records[record_count++] = (struct record){(int64_t)id, (int64_t)id};
    if (has_rows)
        fill_rows(0);
    if (has_owned)
        fill_owned();
    if (has_listed)
        fill_listed();
}

static void register_all(void)
{
    pcm_value("iteration", &iteration, sizeof iteration);
    for (int i = 0; i < array_count; i++) {
        register_array(&arrays[i], arrays[i].name);
        if (arrays[i].is_swapped)
            register_array(&arrays[i], arrays[i].other);
    }
    if (has_tokens)
        done(pcm_value_per_rank("tokens", &tokens, sizeof tokens, merge, split, NULL), "tokens");
    pcm_custom_hooks hooks = {.pack = pack, .unpack = unpack, .targets = new_rank};
    if (has_custom)
        done(pcm_custom("records", &hooks), "records");
    if (has_rows) {
        const void *form[] = {(size_t[]){ROWS}, &(pcm_option){PCM_OPTION_BLOCK, 0, 0, NULL}, NULL};
        check(pcm_array_create("row ends", PCM_DOUBLE, 1, form) != NULL, "the array of rows");
        done(pcm_rows("matrix", "row ends", 2, (size_t[]){sizeof(int32_t), sizeof(int64_t)}), "the rows");
    }
    if (has_owned)
        done(pcm_records("owned", sizeof(struct record), owner_of_record, NULL), "the records");
    if (has_listed)
        register_listed();
    done(pcm_on_change(set_up, NULL), "a hook");
}

static void swap(const struct array *a)
{
    struct memory *both = memories[a - arrays];
    char *part = both[0].part;
    done(pcm_swap(a->name, a->other), "a swap");
    both[0].part = both[1].part;
    both[1].part = part;
}

static void check_memory(void)
{
    for (int i = 0; i < array_count; i++)
        for (int other = 0; other < 2; other++)
            check(memories[i][other].pieces <= 1, "memory of an array was not given back");
}

static void set_costs(const struct array *a)
{
    if (a->costed < 0 || iteration % COSTS_EVERY != 0)
        return;
    done(pcm_set_costs(a->name, a->costed, costs_of(a, iteration)), "new costs");
    if (a->is_swapped)
        done(pcm_set_costs(a->other, a->costed, costs_of(a, iteration)), "new costs of the other");
}

static void compute(void)
{
    for (int i = 0; i < array_count; i++) {
        const struct array *a = &arrays[i];
        visit_all(a, data_of(a), check_one, NULL);
        set_costs(a);
        if (a->is_constant)
            continue;
        char *to = a->is_swapped ? pcm_data(a->other) : data_of(a);
        visit_all(a, to, put_next, NULL);
        if (a->is_swapped)
            swap(a);
    }
    for (size_t i = 0; i < record_count; i++)
        records[i].value++;
    if (has_rows)
        next_rows();
    if (has_owned)
        next_owned();
    if (has_listed)
        next_listed();
}

static void close_with_a_line(void)
{
    int rank = 0, size = 0;
    struct sum sum = {0, 0};
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check_totals();
    for (int i = 0; i < array_count; i++) {
        visit_all(&arrays[i], data_of(&arrays[i]), check_one, NULL);
        visit_own(&arrays[i], data_of(&arrays[i]), add_up, &sum);
    }
    uint64_t checksum = (uint64_t)total((int64_t)sum.checksum);
    if (rank == 0)
        printf("various: iterations %" PRId64 " ranks %d checksum %016" PRIx64 "\n", iteration, size, checksum);
}

int main(int argc, char **argv)
{
    if (argc != 3 && argc != 2)
        return 2;
    MPI_Init(&argc, &argv);
    if (strcmp(argv[1], "child") == 0)
        return be_a_child();
    int64_t iterations = atoll(argv[1]), sleep_us = atoll(argv[2]);
    choose();
    register_all();
    if (!pcm_joining())
        set_initial();
    done(pcm_start(), "the start");
    if (!pcm_joining()) {
        set_up(NULL);
        check_totals();
    }
    for (; iteration < iterations; iteration++) {
        int result = pcm_iterate();
        check(result == PCM_OK || result == PCM_CHANGED, "an iteration");
        if (result == PCM_CHANGED)
            check_totals();
        talk();
        if (has_children && iteration % SPAWN_EVERY == SPAWN_EVERY / 2)
            ask_a_child(argv[0]);
        struct timespec time = {.tv_sec = sleep_us / 1000000, .tv_nsec = sleep_us % 1000000 * 1000};
        nanosleep(&time, NULL);
        compute();
    }
    close_with_a_line();
    check_memory();
    if (window != MPI_WIN_NULL)
        MPI_Win_free(&window);
    return MPI_Finalize();
}
