/* Programs that hang, one mistake per mode, each at a line that a comment names: hangs MODE [FILE]. Built with -O2 and
 * without frame pointers. Must never know about pcm. */
#define _GNU_SOURCE
#include <mpi.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

static int rank, size;
static const char *path;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static volatile int flag;
static volatile double sink;

static APART void exchange(int peer, int tag, MPI_Comm comm)
{
    int data = 0;
    MPI_Recv(&data, 1, MPI_INT, peer, tag, comm, MPI_STATUS_IGNORE); /* at: exchange */
    sink += data;
}

static APART void meet(MPI_Comm comm)
{
    MPI_Barrier(comm); /* at: meet */
    sink += 1;
}

static APART void add_up(void)
{
    double own = 1, all = 0;
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); /* at: add_up */
    sink += all;
}

static APART void collect(int root)
{
    double own = 1, all = 0;
    MPI_Reduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD); /* at: collect */
    sink += all;
}

static APART void read_fifo(void)
{
    char byte = 0;
    int file = open(path, O_RDWR);
    if (read(file, &byte, 1) < 0) /* at: read_fifo */
        abort();
    sink += byte;
}

static APART void write_file(void)
{
    int ends[2];
    char block[4096] = {0};
    if (pipe(ends) != 0)
        abort();
    for (;;) {
        if (write(ends[1], block, sizeof block) < 0) /* at: write_file */
            abort();
        sink += 1;
    }
}

static APART void lock_file(void)
{
    int first = open(path, O_RDWR | O_CREAT, 0600), second = open(path, O_RDWR);
    flock(first, LOCK_EX);
    if (flock(second, LOCK_EX) != 0) /* at: lock_file */
        abort();
    sink += 1;
}

static APART void take_lock(void)
{
    pthread_mutex_lock(&lock);
    if (pthread_mutex_lock(&lock) != 0) /* at: take_lock */
        abort();
    sink += 1;
}

static APART void wait_signal(void)
{
    pthread_mutex_lock(&lock);
    pthread_cond_wait(&wake, &lock); /* at: wait_signal */
    sink += 1;
}

static APART void *hold(void *unused)
{
    for (;;)
        pause(); /* at: hold */
    return unused;
}

static APART void join_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, hold, NULL);
    pthread_join(thread, NULL); /* at: join_thread */
    sink += 1;
}

static APART void spin(void)
{
    while (!flag) /* at: spin */
        ;
}

static APART void poll_nothing(void)
{
    poll(NULL, 0, -1); /* at: poll_nothing */
    sink += 1;
}

static APART void wait_child(void)
{
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    waitpid(child, NULL, 0); /* at: wait_child */
    sink += 1;
}

static APART void stop_here(void)
{
    raise(SIGSTOP); /* at: stop_here */
    sink += 1;
}

static APART void wait_semaphore(void)
{
    sem_t free_places;
    sem_init(&free_places, 0, 0);
    sem_wait(&free_places); /* at: wait_semaphore */
    sink += 1;
}

static APART void wait_file(void)
{
    struct stat data;
    struct timespec span = {2, 0};
    while (stat("/nonexistent/signal of another program", &data) != 0)
        nanosleep(&span, NULL); /* at: wait_file */
    sink += 1;
}

/* Stopped by a debugger, a child, which attaches and goes to sleep. */
static APART void be_debugged(void)
{
    int ends[2];
    char byte;
    if (pipe(ends) != 0)
        abort();
    pid_t child = fork();
    if (child == 0) {
        if (read(ends[0], &byte, 1) == 1)
            ptrace(PTRACE_ATTACH, getppid(), NULL, NULL);
        for (;;)
            pause();
    }
    prctl(PR_SET_PTRACER, child);
    if (write(ends[1], "x", 1) != 1)
        abort();
    for (;;)
        pause(); /* at: be_debugged */
}

/* Sends of two ranks to each other that return only once they are received. */
static APART void send_first(void)
{
    int peer = rank ^ 1, data = rank;
    MPI_Ssend(&data, 1, MPI_INT, peer, 7, MPI_COMM_WORLD); /* at: send_first */
    MPI_Recv(&data, 1, MPI_INT, peer, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    sink += data;
}

/* One message fewer than are waited for. */
static APART void wait_for_all(void)
{
    int data[3];
    MPI_Request requests[3];
    for (int i = 0; i < 3; i++)
        MPI_Irecv(&data[i], 1, MPI_INT, 0, 7, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE); /* at: wait_for_all */
    sink += data[0];
}

static APART void look_first(void)
{
    MPI_Status status;
    MPI_Probe(0, 7, MPI_COMM_WORLD, &status); /* at: look_first */
    sink += status.MPI_TAG;
}

static APART void meet_later(void)
{
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE); /* at: meet_later */
    sink += 1;
}

static APART void divide(void)
{
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half); /* at: divide */
    MPI_Comm_free(&half);
}

/* A word in memory that both sides share, which the other side never writes. */
static APART void spin_shared(void)
{
    volatile int *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    while (*word == 0) /* at: spin_shared */
        ;
}

static APART void close_epoch(MPI_Win window)
{
    MPI_Win_fence(0, window); /* at: close_epoch */
    sink += 1;
}

static void forget_an_epoch(void)
{
    int *memory;
    MPI_Win window;
    MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    if (rank == 1)
        poll_nothing();
    close_epoch(window);
}

static APART void work_slowly(void)
{
    struct timespec span = {0, 300000000};
    nanosleep(&span, NULL);
    sink += 1;
}

/* Rank 1 does something else while the others wait for it. */
static void one_is_away(void (*away)(void))
{
    if (rank == 1)
        away();
    meet(MPI_COMM_WORLD);
}

static APART void over_communicators(void)
{
    MPI_Comm pair, all;
    MPI_Comm_dup(MPI_COMM_WORLD, &all);
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pair);
    if (rank == 0)
        exchange(1, 5, pair);
    else if (rank == 1)
        exchange(2, 5, all);
    else
        exchange(rank == 2 ? 3 : 0, 5, all);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *mode = argc > 1 ? argv[1] : "";
    path = argc > 2 ? argv[2] : "";
    static const struct { const char *name; void (*away)(void); } ALONE[] = {
        {"fifo", read_fifo}, {"pipe", write_file}, {"flock", lock_file}, {"mutex", take_lock},
        {"condition", wait_signal}, {"join", join_thread}, {"spin", spin}, {"poll", poll_nothing},
        {"child", wait_child}, {"stop", stop_here}, {"semaphore", wait_semaphore}, {"file", wait_file},
        {"debugger", be_debugged}, {"all", wait_for_all}, {"probe", look_first}, {"shared", spin_shared},
    };
    MPI_Barrier(MPI_COMM_WORLD);
    for (size_t i = 0; i < sizeof ALONE / sizeof ALONE[0]; i++)
        if (strcmp(mode, ALONE[i].name) == 0)
            one_is_away(ALONE[i].away);
    if (strcmp(mode, "kinds") == 0) {
        if (rank == 1)
            add_up();
        else
            meet(MPI_COMM_WORLD);
    } else if (strcmp(mode, "root") == 0) {
        collect(rank == 1);
        meet(MPI_COMM_WORLD);
    } else if (strcmp(mode, "tag") == 0) {
        if (rank == 0)
            MPI_Send(&size, 1, MPI_INT, 1, 8, MPI_COMM_WORLD);
        if (rank == 1)
            exchange(0, 7, MPI_COMM_WORLD);
        meet(MPI_COMM_WORLD);
    } else if (strcmp(mode, "cycle") == 0) {
        exchange((rank + 1) % size, 7, MPI_COMM_WORLD);
    } else if (strcmp(mode, "communicators") == 0) {
        over_communicators();
    } else if (strcmp(mode, "gone") == 0) {
        if (rank != 0)
            exchange(0, 7, MPI_COMM_WORLD);
    } else if (strcmp(mode, "unmet") == 0) {
        if (rank == 1)
            exchange(2, 7, MPI_COMM_WORLD);
        meet(MPI_COMM_WORLD);
    } else if (strcmp(mode, "sends") == 0) {
        send_first();
    } else if (strcmp(mode, "later") == 0) {
        if (rank == 1)
            poll_nothing();
        meet_later();
    } else if (strcmp(mode, "split") == 0) {
        if (rank == 1)
            exchange(0, 7, MPI_COMM_WORLD);
        divide();
    } else if (strcmp(mode, "epoch") == 0) {
        forget_an_epoch();
    } else if (strcmp(mode, "slow") == 0) {
        for (;;) {
            work_slowly();
            meet(MPI_COMM_WORLD);
        }
    }
    MPI_Finalize();
    return 0;
}
