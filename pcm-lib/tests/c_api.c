/*
 * What a C program sees of regions. Run on 2 ranks. Each check that fails says so; exit code 0 only if none did.
 */
#include <mpi.h>
#include <pcm.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            failures++;                                                                                                \
            fprintf(stderr, "line %d: %s; last error: %s\n", __LINE__, #condition, pcm_last_error());                  \
        }                                                                                                              \
    } while (0)

/* A failure has this code and a text that holds `words`. */
#define FAILS(call, code, words)                                                                                       \
    do {                                                                                                               \
        CHECK((call) == (code));                                                                                       \
        CHECK(strstr(pcm_last_error(), (words)) != NULL);                                                              \
    } while (0)

#define FAILS_NULL(call, words) FAILS((call), NULL, (words))

static int merge(void *context, void *mine, const void *other)
{
    (void)context;
    *(double *)mine += *(const double *)other;
    return 0;
}

static int pack(void *context, int to, int ranks, pcm_packer *packer)
{
    (void)ranks;
    return pcm_pack(packer, context, sizeof(int)) == PCM_OK && to >= 0 ? 0 : 1;
}

static int unpack(void *context, const pcm_part *parts, size_t count)
{
    (void)context;
    return count > 0 && parts[0].size == sizeof(int) ? 0 : 1;
}

static void *on_other_thread(void *result)
{
    int value = 0;
    *(enum pcm_result *)result = pcm_value("late", &value, sizeof value);
    CHECK(pcm_iterate() == PCM_ERROR_THREAD);
    CHECK(strstr(pcm_last_error(), "MPI_Init") != NULL);
    return NULL;
}

static void arrays(int rank)
{
    size_t rows = 7, cols = 5, start = 0, end = 0, extents[2], count = 0, offset = 0, from[2], length[2];
    int owner = -1;
    double *t = pcm_array("t", PCM_DOUBLE, 2, (size_t[]){rows, cols}, PCM_BLOCK(0), PCM_HALO(0, 1));
    double *next = pcm_array("next", PCM_DOUBLE, 2, (size_t[]){rows, cols}, PCM_BLOCK(0), PCM_HALO(0, 1), PCM_SCRATCH);
    CHECK(t != NULL && next != NULL && pcm_data("t") == t);
    CHECK(pcm_bounds("t", 0, &start, &end) == PCM_OK);
    CHECK(start == (rank == 0 ? 0u : 4u) && end == (rank == 0 ? 4u : 7u));
    CHECK(pcm_bounds("t", 1, &start, &end) == PCM_OK && start == 0 && end == cols);
    CHECK(pcm_local_extents("t", extents) == PCM_OK);
    CHECK(extents[0] == (rank == 0 ? 6u : 5u) && extents[1] == cols);
    for (size_t i = 0; i < extents[0] * extents[1]; i++)
        CHECK(t[i] == 0.0);
    t[0] = 1.5;
    CHECK(pcm_owner("t", (size_t[]){4, 0}, &owner) == PCM_OK && owner == 1);
    if (rank == 1)
        CHECK(pcm_local_offset("t", (size_t[]){4, 2}, &offset) == PCM_OK && offset == cols + 2);
    CHECK(pcm_swap("t", "next") == PCM_OK && pcm_data("t") == next && pcm_data("next") == t);

    double weights[] = {1, 3};
    size_t counts[] = {2, 8};
    CHECK(pcm_array("weighted", PCM_FLOAT, 1, (size_t[]){8}, PCM_WEIGHTED(0, 2, weights)) != NULL);
    CHECK(pcm_bounds("weighted", 0, &start, &end) == PCM_OK && end - start == (rank == 0 ? 2u : 6u));
    CHECK(pcm_array("counted", PCM_BYTES(24), 1, (size_t[]){10}, PCM_COUNTS(0, 2, counts), PCM_CONSTANT) != NULL);
    CHECK(pcm_bounds("counted", 0, &start, &end) == PCM_OK && end - start == counts[rank]);
    CHECK(pcm_array("ring", PCM_INT32, 1, (size_t[]){6}, PCM_BLOCK(0), PCM_HALO(0, 2), PCM_PERIODIC(0),
                    PCM_STALE_HALO));
    CHECK(pcm_array("dealt", PCM_INT32, 1, (size_t[]){11}, PCM_CYCLIC(0, 2)) != NULL);
    CHECK(pcm_box_count("dealt", &count) == PCM_OK && count == 3);
    CHECK(pcm_box("dealt", 1, from, length) == PCM_OK && from[0] == (rank == 0 ? 4u : 6u) && length[0] == 2);
    FAILS(pcm_box("dealt", 3, from, length), PCM_ERROR_ARGUMENT, "3 boxes");
    FAILS(pcm_bounds("dealt", 0, &start, &end), PCM_ERROR_ARGUMENT, "pcm_box");
    FAILS(pcm_swap("t", "dealt"), PCM_ERROR_KIND, "\"dealt\"");
}

static int made, given_back;
static void *taken_up;

static void *make(void *context, size_t bytes)
{
    size_t extents[2], start = 0, end = 0;
    (void)context;
    if (bytes > 4096)
        return NULL;
    made++;
    CHECK(pcm_local_extents("adopted", extents) == PCM_OK && extents[0] * extents[1] * sizeof(double) == bytes);
    CHECK(pcm_bounds("adopted", 0, &start, &end) == PCM_OK && end - start == 2);
    CHECK(pcm_data("adopted") == NULL);
    char *memory = malloc(bytes + 1);
    if (memory != NULL)
        memset(memory, 7, bytes);
    return memory;
}

static void take_up(void *context, void *memory, size_t bytes)
{
    CHECK(context == &made && bytes == 4 * 5 * sizeof(double));
    free(taken_up);
    taken_up = memory;
}

static void give_back(void *context, void *memory)
{
    (void)context;
    given_back++;
    free(memory);
}

static void axes_and_memory(int rank)
{
    pcm_axis axes[] = {{.extent = 4, .split = PCM_SPLIT_BLOCK, .halo = 1, .periodic = 1}, {.extent = 5}};
    pcm_memory_hooks hooks = {&made, make, take_up, give_back};
    size_t extents[2], start, end, counts[] = {3, 1};
    CHECK(pcm_array_axes("axes", PCM_DOUBLE, 2, axes, PCM_FLAG_CONSTANT | PCM_FLAG_STALE_HALO) != NULL);
    CHECK(pcm_local_extents("axes", extents) == PCM_OK && extents[0] == 4 && extents[1] == 5);
    CHECK(pcm_adopt("adopted", PCM_DOUBLE, 2, axes, PCM_FLAG_NONE, &hooks) == PCM_OK);
    CHECK(made == 1 && given_back == 0 && taken_up != NULL && pcm_data("adopted") == taken_up);
    for (size_t i = 0; i < extents[0] * extents[1]; i++)
        CHECK(((double *)taken_up)[i] == 0.0);
    FAILS(pcm_swap("adopted", "axes"), PCM_ERROR_KIND, "\"axes\"");
    axes[0] = (pcm_axis){.extent = 4, .split = PCM_SPLIT_COUNTS, .number = 2, .list = counts};
    CHECK(pcm_array_axes("by counts", PCM_INT32, 1, axes, PCM_FLAG_SCRATCH) != NULL);
    CHECK(pcm_bounds("by counts", 0, &start, &end) == PCM_OK && end - start == counts[rank]);

    axes[0] = (pcm_axis){.extent = 4000, .split = PCM_SPLIT_BLOCK};
    FAILS(pcm_adopt("large", PCM_DOUBLE, 1, axes, 0, &hooks), PCM_ERROR_MEMORY, "hook");
    FAILS(pcm_adopt("a", PCM_DOUBLE, 1, axes, 0, NULL), PCM_ERROR_NULL, "hooks");
    FAILS(pcm_adopt("a", PCM_DOUBLE, 1, NULL, 0, &hooks), PCM_ERROR_NULL, "axes");
    FAILS(pcm_adopt("a", PCM_DOUBLE, 4, axes, 0, &hooks), PCM_ERROR_ARGUMENT, "1 to 3 axes");
    FAILS_NULL(pcm_array_axes("a", PCM_DOUBLE, 1, axes, 8), "PCM_FLAG");
    axes[0].split = 9;
    FAILS_NULL(pcm_array_axes("a", PCM_DOUBLE, 1, axes, 0), "divide");
    hooks.give_back = NULL;
    FAILS(pcm_adopt("a", PCM_DOUBLE, 1, axes, 0, &hooks), PCM_ERROR_NULL, "give_back");
    CHECK(made == 1 && given_back == 0);
}

static int owner_of_byte(void *context, const void *record, int ranks)
{
    (void)context;
    return *(const unsigned char *)record % ranks;
}

static void rows_and_records(void)
{
    size_t sizes[] = {4, 8}, start, end, count = 9;
    CHECK(pcm_rows("sparse", "t", 2, sizes) == PCM_OK);
    CHECK(pcm_bounds("t", 0, &start, &end) == PCM_OK && end > start);
    const size_t *offsets = pcm_row_offsets("sparse");
    CHECK(offsets != NULL && offsets[0] == 0 && offsets[end - start] == 0);
    size_t *lengths = calloc(end - start, sizeof *lengths);
    lengths[0] = 3;
    lengths[end - start - 1] += 2;
    CHECK(pcm_rows_resize("sparse", lengths) == PCM_OK);
    offsets = pcm_row_offsets("sparse");
    CHECK(offsets != NULL && offsets[0] == 0 && offsets[end - start] == 5);
    double *values = pcm_row_entries("sparse", 1);
    CHECK(values != NULL && values[0] == 0.0 && values[4] == 0.0);
    lengths[0] = (size_t)-1 / 2;
    FAILS(pcm_rows_resize("sparse", lengths), PCM_ERROR_MEMORY, "\"sparse\"");
    free(lengths);
    FAILS(pcm_rows_resize("sparse", NULL), PCM_ERROR_NULL, "lengths");
    FAILS_NULL(pcm_row_entries("sparse", 2), "columns 0 to 1");
    FAILS_NULL(pcm_row_entries("t", 0), "rows of different lengths");
    FAILS(pcm_rows("a", "t", 0, sizes), PCM_ERROR_ARGUMENT, "0 bytes");
    FAILS(pcm_rows("a", "none", 2, sizes), PCM_ERROR_UNKNOWN, "\"none\"");

    CHECK(pcm_records("owned", 3, owner_of_byte, NULL) == PCM_OK);
    CHECK(pcm_record_data("owned", &count) != NULL && count == 0);
    unsigned char *records = pcm_records_resize("owned", 2);
    CHECK(records != NULL && records[5] == 0);
    records[5] = 7;
    records = pcm_records_resize("owned", 4);
    CHECK(records != NULL && records[5] == 7 && records[11] == 0);
    CHECK(pcm_record_data("owned", &count) == records && count == 4);
    FAILS_NULL(pcm_records_resize("owned", (size_t)-1), "owned");
    FAILS_NULL(pcm_record_data("owned", NULL), "count");
    FAILS_NULL(pcm_record_data("sparse", &count), "records");
    FAILS(pcm_records("a", 0, owner_of_byte, NULL), PCM_ERROR_ARGUMENT, "0 bytes");
    FAILS(pcm_records("a", 8, NULL, NULL), PCM_ERROR_NULL, "owner");
}

static void misuse(void)
{
    size_t extents[] = {10, 10}, start, end;
    int owner;
    FAILS_NULL(pcm_array("t", PCM_DOUBLE, 1, extents, PCM_BLOCK(0)), "registered already");
    FAILS_NULL(pcm_array("", PCM_DOUBLE, 1, extents, PCM_BLOCK(0)), "name");
    FAILS_NULL(pcm_array(NULL, PCM_DOUBLE, 1, extents, PCM_BLOCK(0)), "NULL");
    FAILS_NULL(pcm_array("a", 77, 1, extents, PCM_BLOCK(0)), "is not an element type");
    FAILS_NULL(pcm_array("a", PCM_DOUBLE, 4, extents, PCM_BLOCK(0)), "1 to 3 axes");
    FAILS_NULL(pcm_array("a", PCM_DOUBLE, -1, extents, PCM_BLOCK(0)), "1 to 3 axes");
    FAILS_NULL(pcm_array("a", PCM_DOUBLE, 2, extents, PCM_BLOCK(2)), "axis 2");
    FAILS_NULL(pcm_array("a", PCM_DOUBLE, 2, extents), "no axis is divided");
    FAILS_NULL(pcm_array("a", PCM_DOUBLE, 2, extents, extents), "one of the options is invalid");
    FAILS_NULL(pcm_array("a", PCM_DOUBLE, 2, extents, PCM_BLOCK(0), PCM_CYCLIC(0, 1)), "two options");
    FAILS_NULL(pcm_array("a", PCM_DOUBLE, 1, extents, PCM_BLOCK(0), PCM_SCRATCH, PCM_CONSTANT), "contradict");
    FAILS_NULL(pcm_array("a", PCM_DOUBLE, 1, ((size_t[]){(size_t)1 << 44}), PCM_BLOCK(0)), "bytes");
    FAILS_NULL(pcm_array("a", PCM_DOUBLE, 2, ((size_t[]){(size_t)1 << 40, (size_t)1 << 40}), PCM_BLOCK(0)), "address");
    FAILS_NULL(pcm_data("nobody"), "there is no region");
    FAILS(pcm_bounds("t", 0, NULL, &end), PCM_ERROR_NULL, "start");
    FAILS(pcm_bounds("t", 5, &start, &end), PCM_ERROR_ARGUMENT, "axis 5");
    FAILS(pcm_owner("t", (size_t[]){70, 0}, &owner), PCM_ERROR_ARGUMENT, "index");
    FAILS(pcm_swap("t", "nobody"), PCM_ERROR_UNKNOWN, "\"nobody\"");
}

static void values(void)
{
    static int iteration, objects;
    static double sum;
    CHECK(pcm_value("iteration", &iteration, sizeof iteration) == PCM_OK);
    CHECK(pcm_value_per_rank("sum", &sum, sizeof sum, merge, NULL, NULL) == PCM_OK);
    pcm_custom_hooks hooks = {.context = &objects, .pack = pack, .unpack = unpack};
    CHECK(pcm_custom("objects", &hooks) == PCM_OK);
    FAILS(pcm_value("iteration", &objects, sizeof objects), PCM_ERROR_TWICE, "\"iteration\"");
    FAILS(pcm_value("other", &iteration, sizeof iteration), PCM_ERROR_ARGUMENT, "\"iteration\"");
    FAILS(pcm_value("other", &objects, 0), PCM_ERROR_ARGUMENT, "0 bytes");
    FAILS(pcm_value("other", NULL, 4), PCM_ERROR_NULL, "value");
    hooks.pack = NULL;
    FAILS(pcm_custom("other", &hooks), PCM_ERROR_NULL, "hook");
    FAILS(pcm_custom("other", NULL), PCM_ERROR_NULL, "hooks");
    FAILS_NULL(pcm_data("iteration"), "is a value");
}

int main(int argc, char **argv)
{
    int rank, value = 0, all = 0;
    FAILS(pcm_value("early", &value, sizeof value), PCM_ERROR_NO_MPI, "MPI_Init");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    arrays(rank);
    axes_and_memory(rank);
    rows_and_records();
    misuse();
    values();
    FAILS(pcm_iterate(), PCM_ERROR_NOT_STARTED, "pcm_start");
    FAILS(pcm_on_change(NULL, NULL), PCM_ERROR_NULL, "hook");
    FAILS(pcm_remaining(10), PCM_ERROR_NOT_STARTED, "pcm_start");
    CHECK(pcm_joining() == 0);
    CHECK(pcm_start() == PCM_OK);
    FAILS(pcm_start(), PCM_ERROR_STARTED, "before");
    FAILS(pcm_value("late", &value, sizeof value), PCM_ERROR_STARTED, "\"late\"");
    FAILS(pcm_request(0), PCM_ERROR_ARGUMENT, "0 ranks");
    CHECK(pcm_request(3) == PCM_OK);
    FAILS(pcm_remaining(-1), PCM_ERROR_ARGUMENT, "-1 iterations");
    CHECK(pcm_remaining(10) == PCM_OK);
    for (int i = 0; i < 1000; i++)
        CHECK(pcm_iterate() == PCM_OK);
    pthread_t thread;
    enum pcm_result result = PCM_OK;
    CHECK(pthread_create(&thread, NULL, on_other_thread, &result) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(result == PCM_ERROR_THREAD);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    FAILS(pcm_on_exit(NULL, NULL), PCM_ERROR_NULL, "hook");
    FAILS(pcm_value("late", &value, sizeof value), PCM_ERROR_NO_MPI, "MPI_Finalize");
    return all + failures == 0 ? 0 : 1;
}
