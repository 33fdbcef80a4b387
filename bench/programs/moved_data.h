/* The data of pcm-moving, of several kinds: registered, filled, and checked element by element. Every element follows
 * from its place in the whole, so that whoever holds it can tell whether it is the right one. Must never communicate.
 * */
#ifndef MOVED_DATA_H
#define MOVED_DATA_H

#include <pcm.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Rows of the sparse kind have up to so many elements, no two neighbours as many. */
enum { ROW_MAX = 512, ROW_MEAN = ROW_MAX / 2, KINDS = 4 };

static const char *const KIND_NAMES[KINDS] = {"rows", "constant", "tiles", "sparse"};
enum kind { ROWS, CONSTANT, TILES, SPARSE };

static enum kind kind;
static uint64_t *data;
static size_t first[2], end[2];
/* Elements in a row of tiles; rows of the sparse kind. */
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
    data = pcm_data("data");
    pcm_bounds("data", 0, &first[0], &end[0]);
    if (kind == TILES)
        pcm_bounds("data", 1, &first[1], &end[1]);
}

/* How many elements are not what they should be; with `is_fill` all are made so first. */
static unsigned long data_wrong(int is_fill)
{
    unsigned long wrong = 0;
    if (kind == SPARSE && is_fill)
        data = calloc(elements_of_rows(first[0], end[0]) + 1, sizeof *data);
    uint64_t *at = data;
    for (size_t row = first[0]; data != NULL && row < end[0]; row++) {
        size_t from = kind == SPARSE ? 0 : first[1], until = kind == SPARSE ? row_length(row) : end[1];
        for (size_t nth = from; nth < until; nth++, at++) {
            uint64_t right = kind == SPARSE  ? sparse_element(row, nth)
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
