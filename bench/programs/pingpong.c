/* What libpcm adds to one MPI call, on a ping-pong of one byte between two ranks: pingpong [BLOCKS]
 *
 * Blocks of rounds through MPI_Send and MPI_Recv alternate with blocks through PMPI_Send and PMPI_Recv, which libpcm
 * does not see, so both are measured in the same processes at the same places. In one round the four calls of the two
 * ranks follow each other. Rank 0 prints one line:
 * "pingpong: blocks B interposed_ns X plain_ns Y difference_ns D", medians of ns per call, D of the paired differences.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 100, CALLS = 4 };

static double block_time(int rank, int is_interposed)
{
    char byte = 0;
    int peer = 1 - rank;
    double start = MPI_Wtime();
    for (int i = 0; i < 2 * ROUNDS; i++) {
        int is_my_turn = i % 2 == rank;
        if (is_interposed && is_my_turn)
            MPI_Send(&byte, 1, MPI_BYTE, peer, 7, MPI_COMM_WORLD);
        else if (is_interposed)
            MPI_Recv(&byte, 1, MPI_BYTE, peer, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else if (is_my_turn)
            PMPI_Send(&byte, 1, MPI_BYTE, peer, 7, MPI_COMM_WORLD);
        else
            PMPI_Recv(&byte, 1, MPI_BYTE, peer, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return (MPI_Wtime() - start) * 1e9 / (CALLS * (double)ROUNDS);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_size);
    return values[count / 2];
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int blocks = argc > 1 ? atoi(argv[1]) : 10000;
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double *times = blocks > 0 ? malloc(3 * (size_t)blocks * sizeof *times) : NULL;
    if (size != 2 || !times) {
        fprintf(stderr, "pingpong: needs exactly 2 ranks and at least 1 block\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    double *interposed = times, *plain = times + blocks, *difference = times + 2 * blocks;
    block_time(rank, 1);
    for (int i = 0; i < blocks; i++) {
        /* Which kind goes first alternates too. */
        int first = i % 2;
        double a = block_time(rank, first), b = block_time(rank, !first);
        interposed[i] = first ? a : b;
        plain[i] = first ? b : a;
        difference[i] = interposed[i] - plain[i];
    }
    if (rank == 0)
        printf("pingpong: blocks %d interposed_ns %.2f plain_ns %.2f difference_ns %.2f\n", blocks,
               median(interposed, blocks), median(plain, blocks), median(difference, blocks));
    free(times);
    return MPI_Finalize();
}
