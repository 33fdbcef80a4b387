/* What libpcm adds to one MPI call that talks to no other process: calls [BLOCKS]
 *
 * The same calls by the names MPI_X and PMPI_X, which are libpcm's where it is loaded, and at the addresses that the
 * MPI itself has under these names. Blocks of the three take turns in one process, and another one begins each time.
 * One line for each kind:
 * "calls: KIND blocks B mpi_ns X pmpi_ns Y plain_ns Z mpi_adds_ns D pmpi_adds_ns E", medians of ns per call, D and E of
 * the differences within a turn.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 200, WAYS = 3, PLAIN = 2 };

/* One way to call MPI. */
struct functions {
    int (*comm_rank)(MPI_Comm, int *);
    int (*iprobe)(int, int, MPI_Comm, int *, MPI_Status *);
    int (*irecv)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    int (*isend)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    int (*wait)(MPI_Request *, MPI_Status *);
    int (*allreduce)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
};

static void comm_rank(const struct functions *by)
{
    int rank;
    by->comm_rank(MPI_COMM_WORLD, &rank);
}

static void iprobe(const struct functions *by)
{
    int is_there;
    by->iprobe(0, 7, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
}

static void message(const struct functions *by)
{
    MPI_Request got, sent;
    by->irecv(NULL, 0, MPI_BYTE, 0, 8, MPI_COMM_SELF, &got);
    by->isend(NULL, 0, MPI_BYTE, 0, 8, MPI_COMM_SELF, &sent);
    by->wait(&sent, MPI_STATUS_IGNORE);
    by->wait(&got, MPI_STATUS_IGNORE);
}

static void allreduce(const struct functions *by)
{
    int mine = 1, sum;
    by->allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
}

static const struct {
    const char *name;
    void (*once)(const struct functions *);
    int calls;
} kinds[] = {{"Comm_rank", comm_rank, 1},
             {"Iprobe", iprobe, 1},
             {"Irecv, Isend, Wait", message, 4},
             {"Allreduce", allreduce, 1}};

/* A function of the MPI itself: what it is linked with comes after it in this search. */
static void *of_mpi(const char *name)
{
    static const char *const libraries[] = {"libmpi.so.12", "libmpich.so.12", "libmpi_abi.so.1"};
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
        void *function = library ? dlsym(library, name) : NULL;
        if (function)
            return function;
    }
    fprintf(stderr, "calls: no %s in an MPI that is loaded\n", name);
    exit(2);
}

static double block(void (*once)(const struct functions *), const struct functions *by, int calls)
{
    double start = MPI_Wtime();
    for (int i = 0; i < ROUNDS; i++)
        once(by);
    return (MPI_Wtime() - start) * 1e9 / (calls * (double)ROUNDS);
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
    int blocks = argc > 1 ? atoi(argv[1]) : 5000;
    double *times = blocks > 0 ? malloc((WAYS + 2) * (size_t)blocks * sizeof *times) : NULL;
    if (!times) {
        fprintf(stderr, "calls: needs at least 1 block\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    struct functions plain;
    *(void **)&plain.comm_rank = of_mpi("PMPI_Comm_rank");
    *(void **)&plain.iprobe = of_mpi("PMPI_Iprobe");
    *(void **)&plain.irecv = of_mpi("PMPI_Irecv");
    *(void **)&plain.isend = of_mpi("PMPI_Isend");
    *(void **)&plain.wait = of_mpi("PMPI_Wait");
    *(void **)&plain.allreduce = of_mpi("PMPI_Allreduce");
    const struct functions by[WAYS] = {
        {MPI_Comm_rank, MPI_Iprobe, MPI_Irecv, MPI_Isend, MPI_Wait, MPI_Allreduce},
        {PMPI_Comm_rank, PMPI_Iprobe, PMPI_Irecv, PMPI_Isend, PMPI_Wait, PMPI_Allreduce},
        plain};
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        double *way[WAYS], *adds[WAYS - 1];
        for (size_t i = 0; i < WAYS; i++) {
            way[i] = times + i * (size_t)blocks;
            block(kinds[kind].once, &by[i], kinds[kind].calls);
        }
        for (size_t i = 0; i < WAYS - 1; i++)
            adds[i] = times + (WAYS + i) * (size_t)blocks;
        for (int turn = 0; turn < blocks; turn++) {
            for (int i = 0; i < WAYS; i++) {
                int now = (turn + i) % WAYS;
                way[now][turn] = block(kinds[kind].once, &by[now], kinds[kind].calls);
            }
            for (int i = 0; i < WAYS - 1; i++)
                adds[i][turn] = way[i][turn] - way[PLAIN][turn];
        }
        printf("calls: %s blocks %d mpi_ns %.2f pmpi_ns %.2f plain_ns %.2f mpi_adds_ns %.2f pmpi_adds_ns %.2f\n",
               kinds[kind].name, blocks, median(way[0], blocks), median(way[1], blocks), median(way[PLAIN], blocks),
               median(adds[0], blocks), median(adds[1], blocks));
    }
    free(times);
    return MPI_Finalize();
}
