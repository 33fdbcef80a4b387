/* What the programs of bench/dynamic share. Plain MPI-2, so that they run under any launcher and MPI, those of 2003
 * too. */
#ifndef DYNAMIC_H
#define DYNAMIC_H
#define _POSIX_C_SOURCE 200112L

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A rank that has nothing to do must not take a CPU from those that have: it looks this often. */
enum { LOOK_EVERY_US = 2000 };

static inline void rest(long us)
{
    struct timespec t;
    t.tv_sec = us / 1000000;
    t.tv_nsec = us % 1000000 * 1000;
    nanosleep(&t, NULL);
}

/* Waits for a message without spinning. */
static inline void sleep_until_told(MPI_Comm comm, int from, int tag)
{
    int is_there = 0;
    char nothing;
    MPI_Status status;
    while (!is_there) {
        MPI_Iprobe(from, tag, comm, &is_there, &status);
        if (!is_there)
            rest(LOOK_EVERY_US);
    }
    MPI_Recv(&nothing, 1, MPI_CHAR, from, tag, comm, &status);
}

static inline void tell(MPI_Comm comm, int to, int tag)
{
    char nothing = 0;
    MPI_Send(&nothing, 1, MPI_CHAR, to, tag, comm);
}

#endif
