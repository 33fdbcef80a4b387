/* A program whose ranks are moved while a bench watches: data of any size and of several kinds, and iterations that
 * sleep or work. After every change it checks each element and, with two ranks or more, measures the bandwidth between
 * its first and its last rank, and says so on one line. It ends when its time is over or it is killed. */
#define _GNU_SOURCE
#include "moved_data.h"
#include "plain_exchange.h"

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MESSAGES = 4, ROUNDS = 5, STAMPS = 4096 };

static const char USAGE[] =
    "use: pcm-moving MIB SLEEP_US WORK SECONDS [rows|constant|tiles|sparse|lengths|records [plain]]\n"
    "  data of MIB, iterations of SLEEP_US and of WORK steps, for SECONDS;\n"
    "  plain: having grown, the same growth and its reverse by MPI alone\n";

static int rank, size;
/* Ranks before the last change, and whether MPI alone is to do it again. */
static int size_before, is_plain;
/* Ends of the last iterations, in microseconds since 1970. */
static uint64_t stamps[STAMPS];
static size_t stamped;

static uint64_t wall_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void look_around(void)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    data_look(rank, size);
}

static unsigned long wrong_elements(void)
{
    unsigned long wrong = data_wrong(0, rank, size), all = 0;
    MPI_Allreduce(&wrong, &all, 1, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* Bytes a second from the first rank to the last: the median of a few rounds of several messages in flight. */
static double bandwidth(size_t bytes)
{
    double speed[ROUNDS] = {0};
    char *buffer = calloc(1, bytes);
    char ack = 0;
    for (int round = 0; buffer != NULL && round < ROUNDS; round++) {
        MPI_Request requests[MESSAGES];
        size_t part = bytes / MESSAGES;
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        for (int i = 0; i < MESSAGES; i++) {
            requests[i] = MPI_REQUEST_NULL;
            if (rank == 0)
                MPI_Isend(buffer + (size_t)i * part, (int)part, MPI_BYTE, size - 1, i, MPI_COMM_WORLD, &requests[i]);
            else if (rank == size - 1)
                MPI_Irecv(buffer + (size_t)i * part, (int)part, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i]);
        }
        MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(&ack, 1, MPI_BYTE, size - 1, MESSAGES, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else if (rank == size - 1)
            MPI_Send(&ack, 1, MPI_BYTE, 0, MESSAGES, MPI_COMM_WORLD);
        speed[round] = (double)(part * MESSAGES) / (MPI_Wtime() - start);
    }
    free(buffer);
    return middle(speed, ROUNDS);
}

/* Seconds of growing and of shrinking by MPI_Alltoallv, by its manner, and bytes a second one way. */
struct plain {
    double grown[MANNERS], shrunk[MANNERS], one_way;
};

static struct plain measure_plain(size_t bytes)
{
    struct plain plain;
    /* A communicator of MPI's own, without what stands for the world. */
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int manner = 0; manner < MANNERS; manner++) {
        plain.grown[manner] = exchange(comm, size_before, bytes / sizeof(uint64_t), 1, (enum manner)manner);
        plain.shrunk[manner] = exchange(comm, size_before, bytes / sizeof(uint64_t), 0, (enum manner)manner);
    }
    plain.one_way = one_way(comm, bytes / (size_t)size);
    MPI_Comm_free(&comm);
    return plain;
}

static void tell_of_change(size_t all_bytes)
{
    /* As large as one rank's part of an evenly divided array, to compare like with like. */
    size_t bytes = all_bytes / (size_t)size;
    struct plain plain = {0};
    unsigned long wrong = wrong_elements();
    double speed = size > 1 && bytes > 0 ? bandwidth(bytes) : 0;
    /* A newcomer takes it from the first rank. */
    MPI_Bcast(&size_before, 1, MPI_INT, 0, MPI_COMM_WORLD);
    int has_plain = is_plain && size > size_before && bytes > 0;
    if (has_plain)
        plain = measure_plain(all_bytes);
    size_before = size;
    if (rank != 0)
        return;
    printf("changed ranks %d wrong %lu bandwidth %.0f", size, wrong, speed);
    const char *endings[MANNERS] = {"", "_beside", "_made"};
    for (int manner = 0; has_plain && manner < MANNERS; manner++)
        printf(" grown%s %.6f shrunk%s %.6f", endings[manner], plain.grown[manner], endings[manner],
               plain.shrunk[manner]);
    if (has_plain)
        printf(" one_way %.1f", plain.one_way);
    printf(" stamps");
    size_t known = stamped < STAMPS ? stamped : STAMPS;
    for (size_t i = stamped - known; i < stamped; i++)
        printf(" %llu", (unsigned long long)stamps[i % STAMPS]);
    printf("\n");
    fflush(stdout);
    stamped = 0;
}

/* A chain of dependent steps: its time is the processor's. */
static uint64_t work(uint64_t steps)
{
    uint64_t x = steps;
    for (uint64_t i = 0; i < steps; i++)
        x = (x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    return x;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int is_known = argc == 5;
    is_plain = argc == 7 && strcmp(argv[6], "plain") == 0;
    for (int i = 0; (argc == 6 || is_plain) && i < KINDS; i++)
        if (strcmp(argv[5], KIND_NAMES[i]) == 0) {
            kind = (enum kind)i;
            is_known = 1;
        }
    if (!is_known) {
        fputs(USAGE, stderr);
        MPI_Finalize();
        return 2;
    }
    size_t bytes = strtoul(argv[1], NULL, 10) * 1024 * 1024;
    long sleep_us = strtol(argv[2], NULL, 10);
    uint64_t steps = strtoul(argv[3], NULL, 10), until = wall_us() + strtoul(argv[4], NULL, 10) * 1000000;
    struct timespec pause = {sleep_us / 1000000, sleep_us % 1000000 * 1000};

    if (data_register(bytes) != 0) {
        fprintf(stderr, "pcm-moving: %zu bytes cannot be registered: %s\n", bytes, pcm_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    look_around();
    if (!pcm_joining())
        data_wrong(1, rank, size);
    pcm_value("until", &until, sizeof until);
    size_before = size;
    pcm_value("size_before", &size_before, sizeof size_before);
    pcm_start();
    look_around();
    volatile uint64_t sink = 0;
    for (int goes_on = 1; goes_on;) {
        if (pcm_iterate() == PCM_CHANGED) {
            look_around();
            tell_of_change(bytes);
        }
        sink += work(steps);
        if (sleep_us > 0)
            nanosleep(&pause, NULL);
        stamps[stamped++ % STAMPS] = wall_us();
        /* Every rank waits for every other, as those of an iterative solver do: none is iterations ahead when a change
         * stops them. */
        goes_on = wall_us() < until;
        MPI_Allreduce(MPI_IN_PLACE, &goes_on, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
