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

/**
 * What a function of libpcm returns. The numbers never change their meaning.
 */
typedef enum pcm_result {
    /**
     * Done.
     */
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
} pcm_result;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

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
 * Why libpcm does not do what the program may expect, for a person; "" when there is nothing to say. The text lives
 * until this thread calls the function again.
 */
const char *pcm_last_error(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PCM_H */
