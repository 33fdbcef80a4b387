/* Latency and bandwidth over message sizes between two processes: ranks of one world, a parent and its child over their
 * inter-communicator, and the same two over the merged intra-communicator. Start two ranks. Latency is half a round
 * trip; bandwidth has WINDOW messages in flight, then an answer. Buffers are touched before. Who has no part in it
 * sleeps. */
#include "dynamic.h"

enum { WINDOW = 32, LARGEST = 1 << 22, SIZES = 4, TRIPS_MIN = 4, TRIPS_MAX = 2000, WINDOWS_MIN = 1, WINDOWS_MAX = 50 };

static const int BYTES[SIZES] = {1, 1 << 10, 1 << 16, LARGEST};
/* Seconds that each figure is to take. */
static const double ENOUGH = 0.04;
static char *buffers;

static void bounce(MPI_Comm comm, int other, int is_first, int bytes)
{
    MPI_Status status;
    if (is_first) {
        MPI_Send(buffers, bytes, MPI_CHAR, other, 1, comm);
        MPI_Recv(buffers, bytes, MPI_CHAR, other, 1, comm, &status);
    } else {
        MPI_Recv(buffers, bytes, MPI_CHAR, other, 1, comm, &status);
        MPI_Send(buffers, bytes, MPI_CHAR, other, 1, comm);
    }
}

static void stream(MPI_Comm comm, int other, int is_first, int bytes)
{
    MPI_Request requests[WINDOW];
    MPI_Status statuses[WINDOW];
    char answer = 0;
    int i;
    for (i = 0; i < WINDOW; i++)
        if (is_first)
            MPI_Isend(buffers, bytes, MPI_CHAR, other, 2, comm, &requests[i]);
        else
            MPI_Irecv(buffers, bytes, MPI_CHAR, other, 2, comm, &requests[i]);
    MPI_Waitall(WINDOW, requests, statuses);
    if (is_first)
        MPI_Recv(&answer, 1, MPI_CHAR, other, 3, comm, &statuses[0]);
    else
        MPI_Send(&answer, 1, MPI_CHAR, other, 3, comm);
}

typedef void exchange(MPI_Comm comm, int other, int is_first, int bytes);

/* Seconds of one exchange at whom it counts; as many are made as one before them promises to be enough. */
static double timed(exchange *once, MPI_Comm comm, int other, int is_first, int bytes, int least, int most)
{
    MPI_Status status;
    double start, one;
    int i, times = least;
    once(comm, other, is_first, bytes);
    start = MPI_Wtime();
    once(comm, other, is_first, bytes);
    one = MPI_Wtime() - start;
    if (is_first) {
        times = one * most < ENOUGH ? most : (int)(ENOUGH / one);
        times = times < least ? least : times;
        MPI_Send(&times, 1, MPI_INT, other, 5, comm);
    } else
        MPI_Recv(&times, 1, MPI_INT, other, 5, comm, &status);
    start = MPI_Wtime();
    for (i = 0; i < times; i++)
        once(comm, other, is_first, bytes);
    return (MPI_Wtime() - start) / times;
}

static void measure(const char *kind, MPI_Comm comm, int other, int is_first)
{
    int s;
    for (s = 0; s < SIZES; s++) {
        int bytes = BYTES[s];
        double trip = timed(bounce, comm, other, is_first, bytes, TRIPS_MIN, TRIPS_MAX);
        double window = timed(stream, comm, other, is_first, bytes, WINDOWS_MIN, WINDOWS_MAX);
        if (is_first)
            printf("%s-%d latency %.9f bandwidth %.1f\n", kind, bytes, trip / 2, (double)bytes * WINDOW / window);
    }
    fflush(stdout);
}

static void over_both(MPI_Comm between, int is_first)
{
    MPI_Comm merged;
    int rank;
    measure("inter", between, 0, is_first);
    MPI_Intercomm_merge(between, !is_first, &merged);
    MPI_Comm_rank(merged, &rank);
    measure("merged", merged, !rank, is_first);
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&between);
}

int main(int argc, char **argv)
{
    MPI_Comm between;
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    buffers = calloc(1, LARGEST);
    if (buffers == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(buffers, 1, LARGEST);
    MPI_Comm_get_parent(&between);
    if (between != MPI_COMM_NULL)
        over_both(between, 0);
    else if (size != 2) {
        fprintf(stderr, "use: pair, on two ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    } else {
        measure("world", MPI_COMM_WORLD, !rank, rank == 0);
        if (rank == 0) {
            MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &between, MPI_ERRCODES_IGNORE);
            over_both(between, 1);
            tell(MPI_COMM_WORLD, 1, 4);
        } else
            sleep_until_told(MPI_COMM_WORLD, 0, 4);
    }
    free(buffers);
    MPI_Finalize();
    return 0;
}
