/* The data of pcm-moving, of several kinds: registered, filled, and checked element by element. Every element follows
 * from its place in the whole, so that whoever holds it can tell whether it is the right one. Must never communicate.
 * */
#ifndef MOVED_DATA_H
#define MOVED_DATA_H

#include <pcm.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Rows of the kinds sparse, packed by the program, and lengths, kept by the library, have up to so many elements, no
 * two neighbours as many. */
enum { ROW_MAX = 512, ROW_MEAN = ROW_MAX / 2, KINDS = 6 };

static const char *const KIND_NAMES[KINDS] = {"rows", "constant", "tiles", "sparse", "lengths", "records"};
enum kind { ROWS, CONSTANT, TILES, SPARSE, LENGTHS, RECORDS };

/* One of the kind records, at any place in memory. */
struct record {
    uint64_t place, value;
};

static enum kind kind;
static uint64_t *data;
static size_t first[2], end[2];
/* Elements in a row of tiles; rows of the kinds sparse and lengths, or records. */
static size_t width, row_count;

static uint64_t element(uint64_t place) { return (place + 1) * UINT64_C(0x9e3779b97f4a7c15); }

static size_t row_length(size_t row) { return 1 + (size_t)(element(row) >> 40) % (ROW_MAX - 1); }

static uint64_t sparse_element(size_t row, size_t nth) { return element((uint64_t)row * ROW_MAX + nth); }

/* Which rows a rank has of the sparse kind. */
static size_t row_of(size_t rank, size_t ranks) { return row_count * rank / ranks; }

static size_t elements_of_rows(size_t from, size_t to)
{
    size_t count = 0;
    for (size_t row = from; row < to; row++)
        count += row_length(row);
    return count;
}

static int sparse_pack(void *context, int to, int ranks, pcm_packer *packer)
{
    (void)context;
    size_t from = row_of((size_t)to, (size_t)ranks), until = row_of((size_t)to + 1, (size_t)ranks);
    from = from > first[0] ? from : first[0];
    until = until < end[0] ? until : end[0];
    if (from >= until)
        return 0;
    const uint64_t *start = data + elements_of_rows(first[0], from);
    return pcm_pack(packer, start, elements_of_rows(from, until) * sizeof *data) == PCM_OK ? 0 : 1;
}

static int sparse_unpack(void *context, const pcm_part *parts, size_t count)
{
    (void)context;
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += parts[i].size;
    char *fresh = malloc(bytes + 1), *at = fresh;
    if (fresh == NULL)
        return 1;
    for (size_t i = 0; i < count; i++) {
        memcpy(at, parts[i].data, parts[i].size);
        at += parts[i].size;
    }
    free(data);
    data = (uint64_t *)(void *)fresh;
    return 0;
}

static int record_owner(void *context, const void *record, int ranks)
{
    (void)context;
    struct record one;
    memcpy(&one, record, sizeof one);
    return (int)(one.place * (uint64_t)ranks / row_count);
}

/* Makes the records of a rank. */
static void fill_records(int rank, int ranks)
{
    size_t from = (row_count * (size_t)rank + (size_t)ranks - 1) / (size_t)ranks;
    size_t until = (row_count * ((size_t)rank + 1) + (size_t)ranks - 1) / (size_t)ranks;
    struct record *all = pcm_records_resize("data", until - from);
    for (size_t place = from; all != NULL && place < until; place++)
        all[place - from] = (struct record){place, element(place)};
}

/* How many records are not what they should be, at another rank than their owner, missing or there twice. */
static unsigned long records_wrong(int rank, int ranks)
{
    size_t from = (row_count * (size_t)rank + (size_t)ranks - 1) / (size_t)ranks;
    size_t until = (row_count * ((size_t)rank + 1) + (size_t)ranks - 1) / (size_t)ranks, count = 0;
    const struct record *all = pcm_record_data("data", &count);
    unsigned long wrong = all == NULL || count != until - from;
    uint64_t places = 0, right = 0;
    for (size_t i = 0; all != NULL && i < count; i++) {
        wrong += all[i].value != element(all[i].place) || record_owner(NULL, &all[i], ranks) != rank;
        places += element(all[i].place);
    }
    for (size_t place = from; place < until; place++)
        right += element(place);
    return wrong + (places != right);
}

/* Registers so many bytes. Returns 0, or 1 if that is not possible. */
static int data_register(size_t bytes)
{
    static const pcm_custom_hooks HOOKS = {.pack = sparse_pack, .unpack = sparse_unpack};
    size_t elements = bytes / sizeof *data;
    switch (kind) {
    case ROWS:
        pcm_array("data", PCM_UINT64, 1, &elements, PCM_BLOCK(0));
        break;
    case CONSTANT:
        pcm_array("data", PCM_UINT64, 1, &elements, PCM_BLOCK(0), PCM_CONSTANT);
        break;
    case TILES:
        for (width = 1; (width + 1) * (width + 1) <= elements; width++)
            ;
        pcm_array("data", PCM_UINT64, 2, ((size_t[]){width, width}), PCM_BLOCK(0), PCM_BLOCK(1));
        break;
    case SPARSE:
        row_count = elements / ROW_MEAN;
        return pcm_custom("data", &HOOKS) != PCM_OK;
    case LENGTHS:
        row_count = elements / ROW_MEAN;
        pcm_array("numbers", PCM_UINT8, 1, &row_count, PCM_BLOCK(0));
        return pcm_rows("data", "numbers", 1, (size_t[]){sizeof *data}) != PCM_OK;
    case RECORDS:
        row_count = bytes / sizeof(struct record);
        return pcm_records("data", sizeof(struct record), record_owner, NULL) != PCM_OK;
    }
    /* A part without elements may have no address. */
    return pcm_bounds("data", 0, &first[0], &end[0]) != PCM_OK;
}

/* Takes the place and the bounds of this rank's part anew. */
static void data_look(int rank, int ranks)
{
    first[1] = 0;
    end[1] = 1;
    if (kind == SPARSE) {
        first[0] = row_of((size_t)rank, (size_t)ranks);
        end[0] = row_of((size_t)rank + 1, (size_t)ranks);
        return;
    }
    if (kind == LENGTHS) {
        pcm_bounds("numbers", 0, &first[0], &end[0]);
        data = pcm_row_entries("data", 0);
        return;
    }
    if (kind == RECORDS)
        return;
    data = pcm_data("data");
    pcm_bounds("data", 0, &first[0], &end[0]);
    if (kind == TILES)
        pcm_bounds("data", 1, &first[1], &end[1]);
}

/* Makes room for the rows of this rank. */
static void make_rows(void)
{
    if (kind == SPARSE) {
        data = calloc(elements_of_rows(first[0], end[0]) + 1, sizeof *data);
        return;
    }
    size_t *lengths = calloc(end[0] - first[0] + 1, sizeof *lengths);
    for (size_t row = first[0]; lengths != NULL && row < end[0]; row++)
        lengths[row - first[0]] = row_length(row);
    data = lengths != NULL && pcm_rows_resize("data", lengths) == PCM_OK ? pcm_row_entries("data", 0) : NULL;
    free(lengths);
}

/* How many elements are not what they should be; with `is_fill` all are made so first. */
static unsigned long data_wrong(int is_fill, int rank, int ranks)
{
    unsigned long wrong = 0;
    int is_rows = kind == SPARSE || kind == LENGTHS;
    if (kind == RECORDS) {
        if (is_fill)
            fill_records(rank, ranks);
        return records_wrong(rank, ranks);
    }
    if (is_rows && is_fill)
        make_rows();
    uint64_t *at = data;
    for (size_t row = first[0]; data != NULL && row < end[0]; row++) {
        size_t from = is_rows ? 0 : first[1], until = is_rows ? row_length(row) : end[1];
        for (size_t nth = from; nth < until; nth++, at++) {
            uint64_t right = is_rows         ? sparse_element(row, nth)
                             : kind == TILES ? element(row * width + nth)
                                             : element(row);
            if (is_fill)
                *at = right;
            wrong += *at != right;
        }
    }
    return wrong + (data == NULL && first[0] < end[0]);
}

#endif
