/* pcm.h: the C API of libpcm, malleability for MPI programs.
 *
 * Link with -lpcm before MPI (pcmcc does it). A program that pcmctl starts then works with the daemon of its node:
 * MPI_COMM_WORLD means the communicator of the whole job. Started by mpiexec it is a plain MPI program.
 *
 * Every function belongs to the thread that initialised MPI, returns a pcm_result unless it says otherwise, and writes
 * its outputs only as its description says. None prints, ends the program or installs a signal handler.
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
 * this rank's part, zeroed, and returns its address; NULL on failure (see pcm_last_error). The memory is libpcm's: when
 * ranks come and go it is resized and its contents move, so after pcm_iterate has returned PCM_CHANGED ask pcm_data for
 * the address and pcm_bounds for the indices anew. Every rank must register the same regions in the same order, before
 * pcm_start. Example: rows dealt out in blocks, with one row of the neighbours' on each side:
 *
 *     double *t = pcm_array("t", PCM_DOUBLE, 2, (size_t[]){rows, cols}, PCM_BLOCK(0), PCM_HALO(0, 1));
 *
 * A part is stored with its halo, at the ends of the array too: index (i, j) of the example's part, counted from the
 * first row of the halo, is t[i * cols + j].
 *
 * (C++ has no such macro: call pcm_array_create.)
 */
#define pcm_array(name, element, ndims, ...)                                                                          \
    pcm_array_create((name), (element), (ndims), (const void *const[]){__VA_ARGS__, (const void *)0})

/* An element of n bytes, such as a structure without pointers. */
#define PCM_BYTES(n) (PCM_BYTES_BASE + (int)(n))

#define PCM_OPTION(kind, axis, number, list) ((const void *)&(const pcm_option){(kind), (axis), (number), (list)})

/* How an axis is divided; at least one axis must be. Axes without such an option are not divided. Several divided axes
 * make a grid of ranks, row-major, as even as possible.
 *   PCM_BLOCK    equal blocks, one per rank; the first ones one element longer where it does not come out even
 *   PCM_CYCLIC   blocks of so many elements, dealt out in turn
 *   PCM_WEIGHTED one block per rank, as long as its weight says: count weights, const double *
 *   PCM_COUNTS   one block per rank of exactly so many elements: count numbers, const size_t *
 * Weights and counts hold for as many ranks as they name; when the number of ranks changes, blocks become equal, or as
 * large as the plan of the change says. */
#define PCM_BLOCK(axis) PCM_OPTION(PCM_OPTION_BLOCK, (axis), 0, (const void *)0)
#define PCM_CYCLIC(axis, length) PCM_OPTION(PCM_OPTION_CYCLIC, (axis), (length), (const void *)0)
#define PCM_WEIGHTED(axis, count, weights) PCM_OPTION(PCM_OPTION_WEIGHTED, (axis), (count), (weights))
#define PCM_COUNTS(axis, count, counts) PCM_OPTION(PCM_OPTION_COUNTS, (axis), (count), (counts))

/* Room for so many elements of the neighbours' on both sides of each part. Beyond the ends of the array it holds what
 * the program puts there (boundary values), which moves with the nearest element; with PCM_PERIODIC it holds the
 * elements of the other end. When parts move, halos are brought up to date; PCM_STALE_HALO leaves that to the program.
 * The halo of a part that has no elements of its own repeats nothing. */
#define PCM_HALO(axis, width) PCM_OPTION(PCM_OPTION_HALO, (axis), (width), (const void *)0)
#define PCM_PERIODIC(axis) PCM_OPTION(PCM_OPTION_PERIODIC, (axis), 0, (const void *)0)
#define PCM_STALE_HALO PCM_OPTION(PCM_OPTION_STALE_HALO, 0, 0, (const void *)0)

/* PCM_SCRATCH: the contents mean nothing when an iteration begins; the array is resized, but nothing moves.
 * PCM_CONSTANT: the contents do not change after pcm_start. They travel before the ranks stop, while they iterate; what
 * the program writes to it after pcm_start may be lost when the ranks change. */
#define PCM_SCRATCH PCM_OPTION(PCM_OPTION_SCRATCH, 0, 0, (const void *)0)
#define PCM_CONSTANT PCM_OPTION(PCM_OPTION_CONSTANT, 0, 0, (const void *)0)


/**
 * What a function of libpcm returns. The numbers never change their meaning.
 */
typedef enum pcm_result {
    /**
     * No error: ranks came, went or moved (see pcm_iterate).
     */
    PCM_CHANGED = -1,
    PCM_OK = 0,
    /**
     * A defect of libpcm itself; please report it.
     */
    PCM_ERROR_INTERNAL = 1,
    /**
     * A pointer that must not be NULL is.
     */
    PCM_ERROR_NULL = 2,
    /**
     * The environment that the daemon made was changed or is incomplete.
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
     * A hook that libpcm has called calls libpcm.
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
     * An argument has a value that makes no sense.
     */
    PCM_ERROR_ARGUMENT = 30,
    /**
     * The name of a region is empty, too long, or no printable text.
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
     * The region is of another kind or type than the call needs.
     */
    PCM_ERROR_KIND = 34,
    /**
     * More regions than can be registered.
     */
    PCM_ERROR_TOO_MANY = 35,
    /**
     * The array is larger than the memory there is.
     */
    PCM_ERROR_MEMORY = 36,
    /**
     * A hook of the program failed after the ranks had changed.
     */
    PCM_ERROR_HOOK = 40,
    /**
     * The data of this rank is not what it should be after the ranks changed; end the program.
     */
    PCM_ERROR_MOVE = 41,
    /**
     * From pcm_checkpoint: it was not written, all else is as before. From pcm_start: it was not restored, or a
     * variable PCM_CHECKPOINT_* makes no sense; end the program.
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
     * Where the sizes of PCM_BYTES begin.
     */
    PCM_BYTES_BASE = 4096,
} pcm_element;

/**
 * Kinds of options, each named like the macro (PCM_BLOCK and so on) that makes an option of it.
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
} pcm_option_kind;

/**
 * What a pack hook writes to, with pcm_pack.
 */
typedef struct pcm_packer pcm_packer;

/**
 * Called on every rank when the ranks have changed, with the new layout in force: makes anew what depends on the
 * ranks, such as communicators. Every rank calls it at the same iteration, so it may use MPI_COMM_WORLD. Returns 0, or
 * another number for a failure.
 */
typedef int (*pcm_change_hook)(void *context);

/**
 * Called on a rank that leaves, before it ends. The others do not wait for it: it must not communicate.
 */
typedef void (*pcm_exit_hook)(void *context);

/**
 * Adds the value of a rank that ends (*other) to that of the rank that takes its place (*mine), both as large as
 * registered. Returns 0, or another number to call the change off.
 */
typedef int (*pcm_merge_hook)(void *context, void *mine, const void *other);

/**
 * Cuts a share for a new rank (*share, zeroed) off a value (*mine). `left` ranks are still to get a share of it, this
 * one included. Returns 0, or another number to call the change off.
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
     * What it packed. Good until the hook returns.
     */
    const void *data;
    /**
     * Its length in bytes.
     */
    size_t size;
} pcm_part;

/**
 * The hooks of a custom region: data that only the program understands. Each returns 0, or another number for a
 * failure. They must not call libpcm, but for pcm_pack.
 */
typedef struct pcm_custom_hooks {
    /**
     * Handed to each hook.
     */
    void *context;
    /**
     * Writes what new rank `to` of `ranks` gets of this rank's data, with pcm_pack; that may be nothing. Called once
     * for each of the targets; a rank that stays packs for itself too. The data must stay as it is: the change may
     * still be called off.
     */
    int (*pack)(void *context, int to, int ranks, struct pcm_packer *packer);
    /**
     * Replaces the data by what was packed for this rank, in the order of the old ranks. The change is decided by
     * then: a failure ends this rank's part in the job.
     */
    int (*unpack)(void *context, const struct pcm_part *parts, size_t count);
    /**
     * Writes which new ranks get a part of old rank `from`'s data to `targets`, which has room for ranks_after
     * numbers, and returns how many, or a negative number. All ranks ask it about every old rank and must get the
     * same answers. NULL: the ranks whose blocks overlap, where both numbers of ranks divide the same range evenly.
     */
    int (*targets)(void *context, int from, int ranks_before, int ranks_after, int *targets);
} pcm_custom_hooks;

/**
 * An option of an array, as the macros PCM_BLOCK and so on make it.
 */
typedef struct pcm_option {
    /**
     * One of pcm_option_kind.
     */
    int kind;
    /**
     * The axis it is about, from 0.
     */
    int axis;
    /**
     * A length, a width, or the length of the list.
     */
    size_t number;
    /**
     * Weights (double) or counts (size_t).
     */
    const void *list;
} pcm_option;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * What pcm_array makes of its arguments: form[0] is the address of the extents (size_t, one per axis, the slowest
 * first), then come addresses of pcm_option up to a NULL.
 */
void *pcm_array_create(const char *name,
                       int element,
                       int ndims,
                       const void *const *form);

/**
 * Where this rank's part of an array begins: its halo and its own elements, row-major. The address is good until
 * pcm_iterate returns PCM_CHANGED or pcm_swap is called. NULL if there is no such array (see pcm_last_error).
 */
void *pcm_data(const char *name);

/**
 * Lets two arrays of the same type, extents and options (but for PCM_SCRATCH) change places, as at the end of an
 * iteration that has computed "next" from "t". Nothing is copied; call pcm_data for both afterwards.
 */
enum pcm_result pcm_swap(const char *one,
                         const char *other);

/**
 * Writes which global indices of an axis are this rank's: *start up to, not including, *end. Halo not included. An
 * error where they are not one interval (PCM_CYCLIC: see pcm_box).
 */
enum pcm_result pcm_bounds(const char *name,
                           int axis,
                           size_t *start,
                           size_t *end);

/**
 * Writes the number of elements of this rank's part along each axis, halo included, to extents (one per axis). Index
 * (i, j) of the part is at data[i * extents[1] + j].
 */
enum pcm_result pcm_local_extents(const char *name,
                                  size_t *extents);

/**
 * Writes the number of boxes of global indices that are this rank's to *count: 1, or 0 for an empty part, unless an
 * axis is PCM_CYCLIC.
 */
enum pcm_result pcm_box_count(const char *name,
                              size_t *count);

/**
 * Writes the first global index and the number of indices along each axis of this rank's box number n, from 0.
 */
enum pcm_result pcm_box(const char *name,
                        size_t n,
                        size_t *start,
                        size_t *length);

/**
 * Writes the rank that owns a global index (one number per axis) to *rank.
 */
enum pcm_result pcm_owner(const char *name, const size_t *index, int *rank);

/**
 * Writes where this rank stores a global index it owns to *offset, in elements from pcm_data.
 */
enum pcm_result pcm_local_offset(const char *name, const size_t *index, size_t *offset);

/**
 * Ends the registrations and begins. To be called once by every rank, after all regions are registered and before the
 * loop. At the first start of a job, and under mpiexec, it returns at once. In a process that joins a running job it
 * waits for its place: when it returns, MPI_COMM_WORLD is the job's, and the registered data and values are in place.
 *
 * Before it, a process that joins sees the rank and size it will have, but has no MPI_COMM_WORLD to communicate on
 * (see pcm_joining).
 */
enum pcm_result pcm_start(void);

/**
 * The top of an iteration: to be called by every rank at the beginning of each iteration of the program's loop. Costs
 * nanoseconds as long as nothing is to change.
 *
 * Returns PCM_OK, or PCM_CHANGED when ranks came, went or moved: then ask MPI_Comm_rank and MPI_Comm_size,
 * pcm_data and pcm_bounds anew, and make communicators anew, before the iteration goes on. A process that joined gets
 * PCM_CHANGED from its first call. To a rank that is to leave it does not return: its exit hooks run, MPI is
 * finalised, the process exits with code 0.
 *
 * Any other result is an error: PCM_ERROR_HOOK and PCM_ERROR_MOVE come after a change, all others leave everything as
 * it was.
 */
enum pcm_result pcm_iterate(void);

/**
 * Makes a checkpoint of all registered data in files. To be called by every rank at the same iteration, right after
 * pcm_iterate, before the iteration changes data. Returns when the data is copied (and the checkpoint before is on
 * disk); the files are written while the program goes on, and MPI_Finalize waits for them. They go below the directory
 * that PCM_CHECKPOINT_DIR names (default: pcm-checkpoints), which all ranks must share, and survive the program:
 * started again with PCM_RESTORE set to the checkpoint's directory, on any number of ranks, by mpiexec or pcmctl, the
 * program has the data back when pcm_start returns. PCM_CHECKPOINT_EVERY, a number of seconds or auto, has pcm_iterate
 * make one that often, without a call of this function.
 *
 * Returns PCM_OK, or PCM_ERROR_CHECKPOINT: then none was begun, and the program can go on. Whether it got onto the
 * disk pcm_checkpoint_wait says.
 */
enum pcm_result pcm_checkpoint(void);

/**
 * Waits until the checkpoint that was made last is on disk. To be called by every rank. Returns PCM_OK, also where
 * none was made; or PCM_ERROR_CHECKPOINT on every rank: it came to nothing, and the program can go on.
 */
enum pcm_result pcm_checkpoint_wait(void);

/**
 * 1 in a process that joins a job that was running already, also after it has joined; 0 in any other process. Guards
 * what only the first ranks do: reading input, setting initial values, communicating before pcm_start.
 */
int pcm_joining(void);

/**
 * Asks that the job have so many ranks, as pcmctl expand and shrink do. To be called on one rank, after pcm_start. The
 * change comes with a later pcm_iterate, or never: what cannot be done is refused. Does nothing under mpiexec.
 */
enum pcm_result pcm_request(int ranks);

/**
 * Declares how many iterations are left, beginning with the next pcm_iterate. To be called after pcm_start, by every
 * rank (a process that joins included). Whoever changes the ranks goes by it: a change that comes too late, or would
 * not be worth it any more, is not made. May be declared anew at any time; more iterations than declared are no error.
 * Does nothing under mpiexec.
 */
enum pcm_result pcm_remaining(long long iterations);

/**
 * Has `hook` called with `context` on every rank whenever the ranks have changed, at the end of pcm_iterate, in the
 * order in which hooks were given. If one fails, pcm_iterate returns PCM_ERROR_HOOK.
 */
enum pcm_result pcm_on_change(pcm_change_hook hook,
                              void *context);

/**
 * Has `hook` called with `context` on a rank that leaves, inside its last pcm_iterate.
 */
enum pcm_result pcm_on_exit(pcm_exit_hook hook, void *context);

/**
 * The version of libpcm, such as "0.1.0". The text lives for ever.
 */
const char *pcm_version(void);

/**
 * Writes 1 to *active if a daemon started this program and libpcm works with it, else 0: then the program is plain
 * MPI. To be called after MPI_Init.
 *
 * Returns PCM_OK in both cases, but the reason as a code (and pcm_last_error as a text) if a daemon started the
 * program and libpcm cannot work with it; *active is written in this case too.
 */
enum pcm_result pcm_active(int *active);

/**
 * What went wrong in the last call of this thread that failed, for a person: what, with which region, what to do. If
 * none failed, why libpcm does not work with the daemon; "" when there is nothing to say. The text lives until this
 * thread calls the function again.
 */
const char *pcm_last_error(void);

/**
 * Registers a variable that has the same value on every rank, such as the number of the iteration. A rank that joins
 * gets the value in pcm_start, one that stays keeps its own.
 */
enum pcm_result pcm_value(const char *name,
                          void *value,
                          size_t size);

/**
 * Registers a variable of which each rank has its own value. It moves with its rank. When the job shrinks, `merge`
 * adds the values of ranks that end to others; NULL: the job cannot shrink. When it grows, `split` makes a value for
 * each new rank; NULL: a new rank keeps the value it had when it registered it. `context` is handed to both.
 */
enum pcm_result pcm_value_per_rank(const char *name,
                                   void *value,
                                   size_t size,
                                   pcm_merge_hook merge,
                                   pcm_split_hook split,
                                   void *context);

/**
 * Registers data that only the program understands. The hooks are copied.
 */
enum pcm_result pcm_custom(const char *name, const struct pcm_custom_hooks *hooks);

/**
 * Appends bytes to what a pack hook gives. To be called in a pack hook only.
 */
enum pcm_result pcm_pack(struct pcm_packer *packer, const void *data, size_t size);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PCM_H */
