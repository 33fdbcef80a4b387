/* pcm.h: the C API of libpcm, malleability for MPI programs.
 *
 * Link with -lpcm before MPI (pcmcc does it). Under pcmctl the program then works with the daemon of its node, and
 * MPI_COMM_WORLD is the communicator of the whole job. Under mpiexec it is a plain MPI program.
 *
 * Call these functions from the thread that initialised MPI. They return a pcm_result unless their description says
 * otherwise, and write outputs only as described. None prints, installs a signal handler, or ends the program unless
 * its description says so.
 *
 * Generated from the Rust source; do not edit.
 */

#ifndef PCM_H
#define PCM_H

#include <stddef.h>
/* ---- arrays ---------------------------------------------------------------------------------------------------
 *
 * void *pcm_array(const char *name, int element, int ndims, const size_t extents[], options...)
 *
 * Registers an array of ndims axes (1 to 3, the slowest first, row-major) that is divided among the ranks, allocates
 * this rank's part, zeroed, and returns its address; NULL on failure (see pcm_last_error). libpcm owns the memory: when
 * ranks join or leave it is resized and its contents move, so call pcm_data for the address and pcm_bounds for the
 * indices again when pcm_iterate has returned PCM_CHANGED. Every rank must register the same regions in the same order,
 * before pcm_start. Example: rows divided in blocks, with one row of each neighbour as halo:
 *
 *     double *t = pcm_array("t", PCM_DOUBLE, 2, (size_t[]){rows, cols}, PCM_BLOCK(0), PCM_HALO(0, 1));
 *
 * A part is stored with its halo, also at the ends of the array: element (i, j) of the example's part, counted from the
 * first row of the halo, is t[i * cols + j].
 *
 * (In C++ the macro does not work: use pcm.hpp.)
 */
#define pcm_array(name, element, ndims, ...)                                                                          \
    pcm_array_create((name), (element), (ndims), (const void *const[]){__VA_ARGS__, (const void *)0})

/* An element of n bytes, such as a structure without pointers. */
#define PCM_BYTES(n) (PCM_BYTES_BASE + (int)(n))

#define PCM_OPTION(kind, axis, number, list) ((const void *)&(const pcm_option){(kind), (axis), (number), (list)})

/* How an axis is divided; at least one axis must be. Axes without such an option are not divided. Several divided axes
 * form a grid of ranks, row-major, as even as possible.
 *   PCM_BLOCK    equal blocks, one per rank; the first ones are one element longer if the length is not a multiple
 *   PCM_CYCLIC   blocks of `length` elements, assigned to the ranks in turn
 *   PCM_WEIGHTED one block per rank, in proportion to its weight: `count` weights, const double *
 *   PCM_COUNTS   one block per rank of exactly this many elements: `count` numbers, const size_t *
 *   PCM_COSTS    one block per rank, whose costs are about even: `count` costs, const double *, one
 *                for each element of the axis, the same list on every rank (one that joins may give PCM_BLOCK instead)
 * Costs hold for any number of ranks; weights and counts apply to the number of ranks they name. When it changes, their
 * blocks become equal, or get the sizes that the change plans. */
#define PCM_BLOCK(axis) PCM_OPTION(PCM_OPTION_BLOCK, (axis), 0, (const void *)0)
#define PCM_CYCLIC(axis, length) PCM_OPTION(PCM_OPTION_CYCLIC, (axis), (length), (const void *)0)
#define PCM_WEIGHTED(axis, count, weights) PCM_OPTION(PCM_OPTION_WEIGHTED, (axis), (count), (weights))
#define PCM_COUNTS(axis, count, counts) PCM_OPTION(PCM_OPTION_COUNTS, (axis), (count), (counts))
#define PCM_COSTS(axis, count, costs) PCM_OPTION(PCM_OPTION_COSTS, (axis), (count), (costs))

/* PCM_HALO: room for `width` elements of the neighbours on both sides of each part. Beyond the ends of the array it
 * holds values of the program (boundary values), which move with the nearest element; with PCM_PERIODIC it holds the
 * elements of the other end. Halos are updated when parts move; with PCM_STALE_HALO the program must do it. The halo of
 * a part without elements of its own is not filled. */
#define PCM_HALO(axis, width) PCM_OPTION(PCM_OPTION_HALO, (axis), (width), (const void *)0)
#define PCM_PERIODIC(axis) PCM_OPTION(PCM_OPTION_PERIODIC, (axis), 0, (const void *)0)
#define PCM_STALE_HALO PCM_OPTION(PCM_OPTION_STALE_HALO, 0, 0, (const void *)0)

/* PCM_SCRATCH: the contents are not needed when an iteration begins; the array is resized, but its data does not move.
 * PCM_CONSTANT: the contents do not change after pcm_start. They travel while the ranks still iterate. Writes to it
 * after pcm_start may be lost when the ranks change. */
#define PCM_SCRATCH PCM_OPTION(PCM_OPTION_SCRATCH, 0, 0, (const void *)0)
#define PCM_CONSTANT PCM_OPTION(PCM_OPTION_CONSTANT, 0, 0, (const void *)0)


/**
 * From pcm_iterate: ranks joined, left or moved. Not an error, and so not a pcm_result.
 */
#define PCM_CHANGED -1

/**
 * Result of a function of libpcm. The numbers never change their meaning.
 */
typedef enum pcm_result {
    PCM_OK = 0,
    /**
     * A defect in libpcm; please report it.
     */
    PCM_ERROR_INTERNAL = 1,
    /**
     * A required pointer is NULL.
     */
    PCM_ERROR_NULL = 2,
    /**
     * The environment set by the daemon was changed or is incomplete.
     */
    PCM_ERROR_ENVIRONMENT = 10,
    /**
     * The memory shared with the daemon cannot be used.
     */
    PCM_ERROR_PAGE = 11,
    /**
     * The channel to the daemon does not work.
     */
    PCM_ERROR_CHANNEL = 12,
    /**
     * libpcm and the daemon are of different versions.
     */
    PCM_ERROR_VERSION = 13,
    /**
     * An MPI function failed.
     */
    PCM_ERROR_MPI = 14,
    /**
     * MPI is not initialised yet, or finalised already.
     */
    PCM_ERROR_NO_MPI = 20,
    /**
     * The calling thread is not the one that called MPI_Init.
     */
    PCM_ERROR_THREAD = 21,
    /**
     * A hook called a function of libpcm that hooks must not call.
     */
    PCM_ERROR_IN_HOOK = 22,
    /**
     * The call must come before pcm_start.
     */
    PCM_ERROR_STARTED = 23,
    /**
     * The call must come after pcm_start.
     */
    PCM_ERROR_NOT_STARTED = 24,
    /**
     * An argument has an invalid value.
     */
    PCM_ERROR_ARGUMENT = 30,
    /**
     * The name of a region is empty, too long or not printable.
     */
    PCM_ERROR_NAME = 31,
    /**
     * A region of this name is registered already.
     */
    PCM_ERROR_TWICE = 32,
    /**
     * There is no region of this name.
     */
    PCM_ERROR_UNKNOWN = 33,
    /**
     * The call needs a region of another kind or type.
     */
    PCM_ERROR_KIND = 34,
    /**
     * Too many regions are registered.
     */
    PCM_ERROR_TOO_MANY = 35,
    /**
     * There is not enough memory for the array.
     */
    PCM_ERROR_MEMORY = 36,
    /**
     * A hook of the program failed after the ranks had changed.
     */
    PCM_ERROR_HOOK = 40,
    /**
     * The data of this rank was lost or damaged when the ranks changed; end the program.
     */
    PCM_ERROR_MOVE = 41,
    /**
     * From pcm_checkpoint: no checkpoint was written, everything else is unchanged. From pcm_start: the checkpoint
     * was not restored, or a variable PCM_CHECKPOINT_* is invalid; end the program.
     */
    PCM_ERROR_CHECKPOINT = 42,
} pcm_result;

/**
 * Types of array elements. For structures without pointers: PCM_BYTES(sizeof(struct ...)).
 */
typedef enum pcm_element {
    /**
     * Elements are int8_t.
     */
    PCM_INT8 = 1,
    /**
     * Elements are int16_t.
     */
    PCM_INT16 = 2,
    /**
     * Elements are int32_t, or int.
     */
    PCM_INT32 = 3,
    /**
     * Elements are int64_t.
     */
    PCM_INT64 = 4,
    /**
     * Elements are uint8_t.
     */
    PCM_UINT8 = 5,
    /**
     * Elements are uint16_t.
     */
    PCM_UINT16 = 6,
    /**
     * Elements are uint32_t.
     */
    PCM_UINT32 = 7,
    /**
     * Elements are uint64_t.
     */
    PCM_UINT64 = 8,
    /**
     * Elements are float.
     */
    PCM_FLOAT = 9,
    /**
     * Elements are double.
     */
    PCM_DOUBLE = 10,
    /**
     * Elements are float complex.
     */
    PCM_COMPLEX_FLOAT = 11,
    /**
     * Elements are double complex.
     */
    PCM_COMPLEX_DOUBLE = 12,
    /**
     * Added to the size by PCM_BYTES.
     */
    PCM_BYTES_BASE = 4096,
} pcm_element;

/**
 * Kinds of options; the macros PCM_BLOCK and so on use them.
 */
typedef enum pcm_option_kind {
    PCM_OPTION_BLOCK = 1885564161,
    PCM_OPTION_CYCLIC = 1885564162,
    PCM_OPTION_WEIGHTED = 1885564163,
    PCM_OPTION_COUNTS = 1885564164,
    PCM_OPTION_HALO = 1885564165,
    PCM_OPTION_PERIODIC = 1885564166,
    PCM_OPTION_STALE_HALO = 1885564167,
    PCM_OPTION_SCRATCH = 1885564168,
    PCM_OPTION_CONSTANT = 1885564169,
    PCM_OPTION_COSTS = 1885564170,
} pcm_option_kind;

/**
 * How an axis is divided; the words of the macros PCM_BLOCK and so on apply.
 */
typedef enum pcm_split {
    /**
     * Not divided: every rank has all of it.
     */
    PCM_SPLIT_NONE = 0,
    /**
     * Equal blocks, one per rank (PCM_BLOCK).
     */
    PCM_SPLIT_BLOCK = 1,
    /**
     * Blocks in turn (PCM_CYCLIC): `number` is the length of one.
     */
    PCM_SPLIT_CYCLIC = 2,
    /**
     * One block per rank (PCM_WEIGHTED): `list` has `number` weights (double).
     */
    PCM_SPLIT_WEIGHTED = 3,
    /**
     * One block per rank (PCM_COUNTS): `list` has `number` counts (size_t).
     */
    PCM_SPLIT_COUNTS = 4,
    /**
     * One block per rank, of about the same cost (PCM_COSTS): `list` has `number` costs (double), as many as `extent`.
     */
    PCM_SPLIT_COSTS = 5,
} pcm_split;

/**
 * Properties of an array, to be combined by `|`.
 */
typedef enum pcm_flag {
    PCM_FLAG_NONE = 0,
    /**
     * Its contents do not move (PCM_SCRATCH).
     */
    PCM_FLAG_SCRATCH = 1,
    /**
     * Its contents do not change after pcm_start (PCM_CONSTANT).
     */
    PCM_FLAG_CONSTANT = 2,
    /**
     * The program updates halos after a change (PCM_STALE_HALO).
     */
    PCM_FLAG_STALE_HALO = 4,
} pcm_flag;

/**
 * Output of a pack hook, filled with pcm_pack.
 */
typedef struct pcm_packer pcm_packer;

/**
 * One axis of an array. Fields that are not set are 0: an axis of that extent, not divided, without a halo.
 */
typedef struct pcm_axis {
    /**
     * Number of elements along this axis, of the whole array.
     */
    size_t extent;
    /**
     * One of pcm_split.
     */
    int split;
    /**
     * Elements of each neighbour that a part has room for, on both sides (PCM_HALO).
     */
    size_t halo;
    /**
     * Not 0: the halo beyond an end is the other end (PCM_PERIODIC).
     */
    int periodic;
    /**
     * Length of a block, or of the list.
     */
    size_t number;
    /**
     * Weights or costs (double), or counts (size_t).
     */
    const void *list;
} pcm_axis;

/**
 * Memory that the program makes for an array, such as that of a std::vector. The hooks must not call libpcm;
 * but make may ask pcm_bounds and pcm_local_extents of its array: they tell of the part that it makes.
 */
typedef struct pcm_memory_hooks {
    /**
     * Passed to each hook.
     */
    void *context;
    /**
     * Returns `bytes` bytes for a new part, beside the present one, which must stay as it is: the change may still be
     * aborted. NULL if there are none: the change is then refused. Called in pcm_adopt, and in pcm_iterate or
     * pcm_start before a change.
     */
    void *(*make)(void *context, size_t bytes);
    /**
     * The array is in `memory`, returned by make, from now on; `bytes` is what make was asked for. The program lets
     * go of the memory before.
     */
    void (*take_up)(void *context, void *memory, size_t bytes);
    /**
     * `memory`, returned by make, is not needed: the change was aborted.
     */
    void (*give_back)(void *context, void *memory);
} pcm_memory_hooks;

/**
 * Writes the owners of the rows among `ranks` ranks over those that there were, in owners[0] to owners[rows - 1].
 * Returns 0, or another number for a failure.
 */
typedef int (*pcm_divide_hook)(void *context, int ranks, int *owners, size_t rows);

/**
 * The rank, of so many ranks, that a record belongs to.
 */
typedef int (*pcm_owner_hook)(void *context, const void *record, int ranks);

/**
 * Called on every rank after the ranks have changed, with the new layout in force, to rebuild what depends on the
 * ranks, such as communicators. Every rank calls it at the same iteration, so it may use MPI_COMM_WORLD. Returns 0,
 * or another number for a failure.
 */
typedef int (*pcm_change_hook)(void *context);

/**
 * Called on a rank that leaves, before it ends. It must not communicate: the other ranks do not wait for it.
 */
typedef void (*pcm_exit_hook)(void *context);

/**
 * Whether the program can run on so many ranks: 0 for no.
 */
typedef int (*pcm_possible_hook)(void *context, int ranks);

/**
 * Merges the value of a rank that ends (*other) into that of the rank that takes its place (*mine), both of the
 * registered size. Returns 0, or another number to abort the change.
 */
typedef int (*pcm_merge_hook)(void *context, void *mine, const void *other);

/**
 * Splits a share for a new rank (*share, zeroed) off a value (*mine). `left` new ranks still get one, this one
 * included: an equal share is the value divided by left + 1. Returns 0, or another number to abort the change.
 */
typedef int (*pcm_split_hook)(void *context, void *mine, void *share, int left);

/**
 * What one old rank packed for this one.
 */
typedef struct pcm_part {
    /**
     * The rank it comes from, as numbered before the change.
     */
    int from;
    /**
     * The packed bytes. Valid until the hook returns.
     */
    const void *data;
    /**
     * Its length in bytes.
     */
    size_t size;
} pcm_part;

/**
 * The hooks of a custom region: data that only the program can interpret. Each returns 0, or another number for a
 * failure. They must not call libpcm, except pcm_pack.
 */
typedef struct pcm_custom_hooks {
    /**
     * Passed to each hook.
     */
    void *context;
    /**
     * Packs this rank's data for new rank `to` of `ranks` with pcm_pack; it may pack nothing. Called once for each of
     * the targets; a rank that stays packs for itself too. The data must stay unchanged: the change may still be
     * aborted.
     */
    int (*pack)(void *context, int to, int ranks, struct pcm_packer *packer);
    /**
     * Replaces the data by what was packed for this rank, in the order of the old ranks. The change is committed by
     * then: a failure ends this rank's part in the job.
     */
    int (*unpack)(void *context, const struct pcm_part *parts, size_t count);
    /**
     * Writes the new ranks that get a part of old rank `from`'s data to `targets`, which has room for ranks_after
     * numbers, and returns their count, or a negative number. Every rank calls it for every old rank; all must get
     * the same answers. NULL: the ranks whose blocks overlap if both numbers of ranks divide the same range evenly.
     */
    int (*targets)(void *context, int from, int ranks_before, int ranks_after, int *targets);
} pcm_custom_hooks;

/**
 * An option of an array, made by the macros PCM_BLOCK and so on.
 */
typedef struct pcm_option {
    /**
     * One of pcm_option_kind.
     */
    int kind;
    /**
     * The axis it is for, from 0.
     */
    int axis;
    /**
     * A length, a width, or the length of the list.
     */
    size_t number;
    /**
     * Weights or costs (double), or counts (size_t).
     */
    const void *list;
} pcm_option;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The function behind the macro pcm_array. form[0] is the address of the extents (size_t, one per axis, slowest
 * first); then come addresses of pcm_option, the last one NULL.
 */
void *pcm_array_create(const char *name,
                       int element,
                       int ndims,
                       const void *const *form);

/**
 * Registers an array as pcm_array does, its axes being values: for example rows divided in blocks with a halo of one
 * row are `(pcm_axis[]){{.extent = rows, .split = PCM_SPLIT_BLOCK, .halo = 1}, {.extent = cols}}`. `flags` combines
 * those of pcm_flag. Returns the address of this rank's part, zeroed; NULL on failure (see pcm_last_error).
 */
void *pcm_array_axes(const char *name,
                     int element,
                     int ndims,
                     const struct pcm_axis *axes,
                     int flags);

/**
 * Returns the address of this rank's part of an array: its halo and its own elements, row-major. The address is valid
 * until pcm_iterate returns PCM_CHANGED or pcm_swap is called. NULL if there is no such array (see pcm_last_error).
 */
void *pcm_data(const char *name);

/**
 * Exchanges two arrays of the same type, extents and options (PCM_SCRATCH may differ), as at the end of an iteration
 * that computed "next" from "t". Copies nothing; call pcm_data for both afterwards.
 */
enum pcm_result pcm_swap(const char *one,
                         const char *other);

/**
 * Writes the interval of global indices of an axis that this rank owns: from *start to *end, *end and the halo
 * excluded. Fails if they are not one interval (PCM_CYCLIC: see pcm_box).
 */
enum pcm_result pcm_bounds(const char *name,
                           int axis,
                           size_t *start,
                           size_t *end);

/**
 * Writes the number of elements of this rank's part along each axis, halo included, to extents (one number per axis).
 * Index (i, j) of the part is data[i * extents[1] + j].
 */
enum pcm_result pcm_local_extents(const char *name,
                                  size_t *extents);

/**
 * Writes the number of boxes of global indices that this rank owns to *count: 1, or 0 for an empty part; more only
 * with PCM_CYCLIC.
 */
enum pcm_result pcm_box_count(const char *name,
                              size_t *count);

/**
 * Writes the first global index and the number of indices along each axis of this rank's box n, counted from 0.
 */
enum pcm_result pcm_box(const char *name,
                        size_t n,
                        size_t *start,
                        size_t *length);

/**
 * Writes the rank that owns a global index (one number per axis) to *rank. The name may be that of a list of owners,
 * the index a row.
 */
enum pcm_result pcm_owner(const char *name,
                          const size_t *index,
                          int *rank);

/**
 * Gives the elements along an axis, which is divided in blocks, new costs: one for each, the same on every rank. The
 * array is divided by them from the next change of the ranks on.
 */
enum pcm_result pcm_set_costs(const char *name,
                              int axis,
                              const double *costs);

/**
 * Writes the position at which this rank stores a global index that it owns to *offset, in elements from pcm_data.
 */
enum pcm_result pcm_local_offset(const char *name,
                                 const size_t *index,
                                 size_t *offset);

/**
 * Registers an array as pcm_array_axes does, in memory of the program: the hooks make it, in this call for the first
 * part. The program must not resize or move it by itself. When ranks join, leave or move, parts are copied from the
 * old memory to the new one, where an array of pcm_array keeps most elements in place. The hooks are copied.
 */
enum pcm_result pcm_adopt(const char *name,
                          int element,
                          int ndims,
                          const struct pcm_axis *axes,
                          int flags,
                          const struct pcm_memory_hooks *hooks);

/**
 * Registers a list of owners, to divide rows of pcm_rows: row i belongs to rank owners[i]. Every rank gives the same
 * list; a rank that joins gets it from the others, whatever it gives. NULL: equal blocks. When the number of ranks
 * changes, `divide` says the next owners. Every rank calls it, and must get the same answer; after a restart from
 * files or a relaunch it is called in pcm_start. It must not call libpcm; `context` is passed on. NULL: each rank's
 * rows stay side by side, and all ranks get equally many.
 */
enum pcm_result pcm_owner_list(const char *name,
                               size_t rows,
                               const int *owners,
                               pcm_divide_hook divide,
                               void *context);

/**
 * Returns the numbers of the rows that this rank owns, rising, and writes how many they are to *count; `name` is a
 * list of owners. Valid until pcm_iterate returns PCM_CHANGED. NULL on failure (see pcm_last_error).
 */
const size_t *pcm_row_numbers(const char *name,
                              size_t *count);

/**
 * Registers rows of different lengths, such as those of a sparse matrix. `like` is registered already: an array whose
 * first axis is the only divided one, and row i belongs to the rank that owns index i of it, or a list of owners. A
 * row has entries in each of `columns` columns, for example column numbers and values; an entry of column c has
 * entry_sizes[c] bytes. At first all rows are empty: see pcm_rows_resize. The library keeps the entries, and moves
 * them with their rows; a checkpoint can be restored on any number of ranks.
 */
enum pcm_result pcm_rows(const char *name,
                         const char *like,
                         int columns,
                         const size_t *entry_sizes);

/**
 * Gives this rank's rows these lengths, in entries, one for each index of pcm_bounds of the array, or for each number
 * of pcm_row_numbers of the list of owners. All entries are
 * zero then, whatever was in them. Call pcm_row_offsets and pcm_row_entries afterwards.
 */
enum pcm_result pcm_rows_resize(const char *name,
                                const size_t *lengths);

/**
 * Returns where each of this rank's rows begins, in entries, and, last, where the last one ends: one number more than
 * there are rows. Valid until pcm_iterate returns PCM_CHANGED or pcm_rows_resize is called. NULL on failure (see
 * pcm_last_error).
 */
const size_t *pcm_row_offsets(const char *name);

/**
 * Returns the entries of a column, counted from 0, of all rows of this rank, one row after the other. Valid until
 * pcm_iterate returns PCM_CHANGED or pcm_rows_resize is called. NULL on failure (see pcm_last_error).
 */
void *pcm_row_entries(const char *name,
                      int column);

/**
 * Registers records of `size` bytes, such as particles. Each rank has any number of them, none at first: see
 * pcm_records_resize. When the number of ranks changes, each record goes to the rank that `owner` returns for it; at
 * all other times a record stays with its rank. The library keeps the records; a checkpoint can be restored on any
 * number of ranks. `owner` must not call libpcm; `context` is passed on.
 */
enum pcm_result pcm_records(const char *name,
                            size_t size,
                            pcm_owner_hook owner,
                            void *context);

/**
 * Makes room for `count` records on this rank. Those that there are stay, the first ones; new ones are zero. Returns
 * the address of the first record, valid until pcm_iterate returns PCM_CHANGED or the next call; NULL on failure (see
 * pcm_last_error).
 */
void *pcm_records_resize(const char *name,
                         size_t count);

/**
 * Returns the address of this rank's first record, and writes their number to *count. Valid until pcm_iterate returns
 * PCM_CHANGED or pcm_records_resize is called. NULL on failure (see pcm_last_error).
 */
void *pcm_record_data(const char *name,
                      size_t *count);

/**
 * Ends the registration of data. Every rank calls it once, after it has registered all regions and before the loop.
 * At the first start of a job, and under mpiexec, it returns immediately. In a process that joins a running job it
 * blocks until the process has its rank: when it returns, MPI_COMM_WORLD is the job's, and the registered data and
 * values are in place.
 *
 * Before pcm_start a joining process sees its future rank and size, but cannot communicate on MPI_COMM_WORLD (see
 * pcm_joining).
 */
enum pcm_result pcm_start(void);

/**
 * Marks the top of an iteration: every rank calls it at the beginning of each iteration of the program's loop. Costs
 * nanoseconds while nothing changes.
 *
 * Returns PCM_OK, or PCM_CHANGED if ranks joined, left or moved. After PCM_CHANGED call MPI_Comm_rank, MPI_Comm_size,
 * pcm_data and pcm_bounds again, and create communicators again, before the iteration continues. A process that
 * joined gets PCM_CHANGED from its first call. It does not return on a rank that leaves: the exit hooks run, MPI is
 * finalised, and the process exits with code 0.
 *
 * Any other number is an error, one of pcm_result. PCM_ERROR_HOOK and PCM_ERROR_MOVE follow a change; after all others
 * nothing has changed.
 */
int pcm_iterate(void);

/**
 * Makes a checkpoint of all registered data in files. Every rank calls it at the same iteration, right after
 * pcm_iterate, before the iteration changes data. It returns when the data is copied and the previous checkpoint is
 * on disk. The files are written while the program continues; MPI_Finalize waits for them. They are in the directory
 * that PCM_CHECKPOINT_DIR names (default: pcm-checkpoints), which all ranks must share. To restore, start the program
 * with PCM_RESTORE set to the checkpoint's directory, by mpiexec or pcmctl, on any number of ranks: the data is in
 * place when pcm_start returns. With PCM_CHECKPOINT_EVERY, a number of seconds or auto, pcm_iterate makes checkpoints
 * by itself.
 *
 * Returns PCM_OK, or PCM_ERROR_CHECKPOINT if no checkpoint was begun; the program can continue. Call
 * pcm_checkpoint_wait to learn whether it reached the disk.
 */
enum pcm_result pcm_checkpoint(void);

/**
 * Waits until the last checkpoint is on disk. Every rank calls it. Returns PCM_OK, also if no checkpoint was made, or
 * PCM_ERROR_CHECKPOINT on every rank if the checkpoint failed; the program can continue.
 */
enum pcm_result pcm_checkpoint_wait(void);

/**
 * Returns 1 in a process that joined a running job, before and after pcm_start; 0 in any other process. Use it to
 * guard what only the first ranks do: reading input, setting initial values, communicating before pcm_start.
 */
int pcm_joining(void);

/**
 * Asks for this number of ranks, as pcmctl expand and shrink do. One rank calls it, after pcm_start. A later
 * pcm_iterate makes the change, or none if it is refused. Does nothing under mpiexec.
 */
enum pcm_result pcm_request(int ranks);

/**
 * Declares how many iterations remain, beginning with the next pcm_iterate. Every rank calls it after pcm_start,
 * including a process that joins. A change that would come too late is then refused, and agents make none that would
 * no longer pay. It may be declared again at any time; running more iterations is not an error. Does nothing under
 * mpiexec.
 */
enum pcm_result pcm_remaining(long long iterations);

/**
 * Registers `hook`, called with `context` on every rank after the ranks have changed, at the end of pcm_iterate, in
 * the order of registration. If one fails, pcm_iterate returns PCM_ERROR_HOOK.
 */
enum pcm_result pcm_on_change(pcm_change_hook hook,
                              void *context);

/**
 * Registers `hook`, called with `context` on a rank that leaves, inside its last pcm_iterate.
 */
enum pcm_result pcm_on_exit(pcm_exit_hook hook, void *context);

/**
 * The version of libpcm, such as "0.1.0". The string is statically allocated; do not free it.
 */
const char *pcm_version(void);

/**
 * Writes 1 to *active if a daemon started this program and libpcm works with that daemon, else 0: then the program is
 * plain MPI. Call it after MPI_Init.
 *
 * Returns PCM_OK in both cases. If a daemon started the program and libpcm cannot work with it, returns the reason as
 * a code (and pcm_last_error as a text); *active is written in this case too.
 */
enum pcm_result pcm_active(int *active);

/**
 * Describes the last failed call of this thread: what failed, with which region, what to do. If no call failed, says
 * why libpcm does not work with the daemon; "" otherwise. The string is valid until this thread calls the function
 * again; do not free it.
 */
const char *pcm_last_error(void);

/**
 * Registers a variable that has the same value on every rank, such as the number of the iteration. A joining rank
 * gets the value in pcm_start; a rank that stays keeps its own. Up to 1 KiB long, it has the value with which the job
 * began as soon as it is registered in a joining rank: register what your arrays' extents depend on before them.
 */
enum pcm_result pcm_value(const char *name,
                          void *value,
                          size_t size);

/**
 * Says on which numbers of ranks the program can run, from 1 to 4096: `is_possible` returns 0 for those on which it
 * cannot. Every rank calls it, before pcm_start, which fails on a number of ranks that is not possible. Agents and
 * pcmctl change the job to possible numbers only. `context` is passed on.
 */
enum pcm_result pcm_possible_ranks(pcm_possible_hook is_possible,
                                   void *context);

/**
 * Registers a variable that has a separate value on each rank. The value moves with its rank. When the job shrinks,
 * `merge` merges the values of ranks that end into others; NULL: the job cannot shrink. When it grows, `split` makes
 * a value for each new rank; NULL: a new rank keeps the value it registered. `context` is passed to both.
 */
enum pcm_result pcm_value_per_rank(const char *name,
                                   void *value,
                                   size_t size,
                                   pcm_merge_hook merge,
                                   pcm_split_hook split,
                                   void *context);

/**
 * Registers data that only the program can interpret. The hooks are copied.
 */
enum pcm_result pcm_custom(const char *name, const struct pcm_custom_hooks *hooks);

/**
 * Appends bytes to the output of a pack hook. Call it in a pack hook only.
 */
enum pcm_result pcm_pack(struct pcm_packer *packer, const void *data, size_t size);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PCM_H */
