/*
 * particles: balls that repel each other in a box whose sides are joined.
 *
 * The box is divided into cells of side 1, the range of the force; the ranks own blocks of columns of cells. In each
 * iteration a rank gets copies of the particles in the columns beside its own, computes forces, moves its particles
 * and hands those that left its columns to their new owners. Each cell counts the particles that it has seen. Forces
 * are added in the order of cells and of the particles' numbers: the result has the same bits on any number of ranks.
 */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BESIDE = 3 }; /* columns and rows from which a cell feels forces, its own among them */

static const double STEP = 0.01, STIFFNESS = 20.0;

struct particle {
    int64_t number;
    double x, y, vx, vy;
};

/* A list of particles that grows. */
struct list {
    struct particle *all;
    size_t count, room;
};

/* The cells, and which rank owns each column; this one owns those from `first` to `end`, `end` excluded. */
struct box {
    long columns, rows, first, end;
    int *owner, rank, size;
};

/* ---- memory ------------------------------------------------------------------------------------------------- */

static void *checked(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "particles: out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

static void append(struct list *list, const struct particle *more, size_t count)
{
    if (list->count + count > list->room) {
        list->room = 2 * (list->count + count);
        list->all = checked(realloc(list->all, list->room * sizeof *list->all));
    }
    if (count > 0)
        memcpy(list->all + list->count, more, count * sizeof *more);
    list->count += count;
}

/* ---- the box ------------------------------------------------------------------------------------------------ */

static void divide(struct box *box)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &box->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &box->size);
    long share = box->columns / box->size, rest = box->columns % box->size;
    box->first = box->rank * share + (box->rank < rest ? box->rank : rest);
    box->end = box->first + share + (box->rank < rest);
    for (long column = 0; column < box->columns; column++) {
        long in_longer = rest * (share + 1);
        box->owner[column] = (int)(column < in_longer ? column / (share + 1) : rest + (column - in_longer) / share);
    }
}

static long column_of(const struct particle *p)
{
    return (long)p->x;
}

static long cell_of(const struct box *box, const struct particle *p)
{
    return column_of(p) * box->rows + (long)p->y;
}

/* The neighbours of a column or row: `step` further, around the end. */
static long beside(long place, long step, long count)
{
    return (place + step + count) % count;
}

/* A bijection that spreads every bit over all others (splitmix64). */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* A number from 0 to 1, 1 excluded, that depends on `seed` alone. */
static double chance(uint64_t seed)
{
    return (double)(mix(seed) >> 12) / 4503599627370496.0;
}

/* The particles that begin in this rank's columns. */
static void set_initial(const struct box *box, struct list *own, long count)
{
    for (long number = 0; number < count; number++) {
        uint64_t seed = 4 * (uint64_t)number;
        struct particle p = {.number = number,
                             .x = chance(seed) * (double)box->columns,
                             .y = chance(seed + 1) * (double)box->rows,
                             .vx = 2 * chance(seed + 2) - 1,
                             .vy = 2 * chance(seed + 3) - 1};
        if (box->owner[column_of(&p)] == box->rank)
            append(own, &p, 1);
    }
}

/* ---- messages ----------------------------------------------------------------------------------------------- */

/* Sends each rank its list and appends what the others send to `received`. */
static void exchange(const struct box *box, const struct list *outgoing, struct list *received)
{
    int size = box->size, *numbers = checked(calloc((size_t)size, 4 * sizeof *numbers));
    int *to = numbers, *to_at = to + size, *from = to_at + size, *from_at = from + size;
    struct list packed = {0};
    for (int rank = 0; rank < size; rank++) {
        to_at[rank] = (int)(packed.count * sizeof *packed.all);
        to[rank] = (int)(outgoing[rank].count * sizeof *packed.all);
        append(&packed, outgoing[rank].all, outgoing[rank].count);
    }
    MPI_Alltoall(to, 1, MPI_INT, from, 1, MPI_INT, MPI_COMM_WORLD);
    int bytes = 0;
    for (int rank = 0; rank < size; rank++) {
        from_at[rank] = bytes;
        bytes += from[rank];
    }
    struct particle *arrived = checked(malloc((size_t)bytes + 1));
    MPI_Alltoallv(packed.all, to, to_at, MPI_BYTE, arrived, from, from_at, MPI_BYTE, MPI_COMM_WORLD);
    append(received, arrived, (size_t)bytes / sizeof *arrived);
    free(arrived);
    free(packed.all);
    free(numbers);
}

static struct list *lists(int size)
{
    return checked(calloc((size_t)size, sizeof(struct list)));
}

static void release(struct list *lists, int size)
{
    for (int rank = 0; rank < size; rank++)
        free(lists[rank].all);
    free(lists);
}

/* Gives every particle to the rank that owns its column. */
static void hand_over(const struct box *box, struct list *own)
{
    struct list *leaving = lists(box->size), staying = {0};
    for (size_t i = 0; i < own->count; i++) {
        int owner = box->owner[column_of(&own->all[i])];
        append(owner == box->rank ? &staying : &leaving[owner], &own->all[i], 1);
    }
    free(own->all);
    *own = staying;
    exchange(box, leaving, own);
    release(leaving, box->size);
}

/* Appends copies of the particles in the columns beside this rank's own to `all`. */
static void fetch_neighbours(const struct box *box, const struct list *own, struct list *all)
{
    struct list *copies = lists(box->size);
    for (size_t i = 0; i < own->count; i++) {
        long column = column_of(&own->all[i]);
        int left = box->owner[beside(column, -1, box->columns)], right = box->owner[beside(column, 1, box->columns)];
        if (left != box->rank)
            append(&copies[left], &own->all[i], 1);
        if (right != box->rank && right != left)
            append(&copies[right], &own->all[i], 1);
    }
    exchange(box, copies, all);
    release(copies, box->size);
}

/* ---- one iteration ------------------------------------------------------------------------------------------ */

static int by_cell_and_number(const void *one, const void *other)
{
    const struct particle *a = one, *b = other;
    if (column_of(a) != column_of(b))
        return column_of(a) < column_of(b) ? -1 : 1;
    if ((long)a->y != (long)b->y)
        return (long)a->y < (long)b->y ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

/* The shortest way from one place to another around the box. */
static double shortest(double way, double length)
{
    if (way > length / 2)
        return way - length;
    return way < -length / 2 ? way + length : way;
}

/* Adds the forces of a cell's particles on `p` to its velocity. */
static void push(const struct box *box, struct particle *p, const struct particle *cell, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double dx = shortest(p->x - cell[i].x, (double)box->columns);
        double dy = shortest(p->y - cell[i].y, (double)box->rows);
        double distance = sqrt(dx * dx + dy * dy);
        if (cell[i].number == p->number || distance >= 1 || distance == 0)
            continue;
        double force = STIFFNESS * (1 - distance) / distance;
        p->vx += STEP * force * dx;
        p->vy += STEP * force * dy;
    }
}

static double around(double place, double length)
{
    place = fmod(place, length);
    place += place < 0 ? length : 0;
    return place < length ? place : 0;
}

/* Moves this rank's particles by one step and counts them where they are then. */
static void move(const struct box *box, struct list *own, int64_t *seen)
{
    struct list all = {0};
    append(&all, own->all, own->count);
    fetch_neighbours(box, own, &all);
    qsort(all.all, all.count, sizeof *all.all, by_cell_and_number);
    size_t cells = (size_t)(box->columns * box->rows), *begin = checked(calloc(cells + 1, sizeof *begin));
    for (size_t i = 0; i < all.count; i++)
        begin[cell_of(box, &all.all[i]) + 1]++;
    for (size_t cell = 0; cell < cells; cell++)
        begin[cell + 1] += begin[cell];
    for (size_t i = 0; i < own->count; i++) {
        struct particle *p = &own->all[i];
        long column = column_of(p), row = (long)p->y;
        for (long j = 0; j < BESIDE * BESIDE; j++) {
            long c = beside(column, j / BESIDE - 1, box->columns), r = beside(row, j % BESIDE - 1, box->rows);
            size_t from = begin[c * box->rows + r], to = begin[c * box->rows + r + 1];
            push(box, p, all.all + from, to - from);
        }
    }
    for (size_t i = 0; i < own->count; i++) {
        struct particle *p = &own->all[i];
        p->x = around(p->x + STEP * p->vx, (double)box->columns);
        p->y = around(p->y + STEP * p->vy, (double)box->rows);
    }
    free(begin);
    free(all.all);
    hand_over(box, own);
    for (size_t i = 0; i < own->count; i++)
        seen[cell_of(box, &own->all[i]) - box->first * box->rows]++;
}

/* ---- what is printed ---------------------------------------------------------------------------------------- */

static double fastest(const struct list *own)
{
    double mine = 0, all = 0;
    for (size_t i = 0; i < own->count; i++)
        mine = fmax(mine, hypot(own->all[i].vx, own->all[i].vy));
    MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    return all;
}

static uint64_t bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Hashes of all particles and cells, added: a sum of integers is the same in any order. */
static uint64_t checksum(const struct box *box, const struct list *own, const int64_t *seen)
{
    uint64_t sum = 0, total = 0;
    for (size_t i = 0; i < own->count; i++) {
        const struct particle *p = &own->all[i];
        sum += mix(mix(mix(mix((uint64_t)p->number ^ bits(p->x)) ^ bits(p->y)) ^ bits(p->vx)) ^ bits(p->vy));
    }
    for (long cell = box->first * box->rows; cell < box->end * box->rows; cell++)
        sum += mix((uint64_t)cell ^ mix((uint64_t)seen[cell - box->first * box->rows]));
    MPI_Reduce(&sum, &total, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    return total;
}

/* Rank 0 writes the log; it begins the file in the first iteration. */
static FILE *open_log(const char *path, int rank, long iteration)
{
    if (path == NULL || rank != 0)
        return NULL;
    FILE *log = checked(fopen(path, iteration == 0 ? "w" : "a"));
    setvbuf(log, NULL, _IOLBF, BUFSIZ);
    return log;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc < 6) {
        fprintf(stderr, "usage: particles PARTICLES COLUMNS ROWS ITERATIONS SLEEP_US [LOG]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    struct box box = {.columns = atol(argv[2]), .rows = atol(argv[3])};
    long count = atol(argv[1]), iterations = atol(argv[4]), sleep_us = atol(argv[5]);
    struct timespec pause = {.tv_sec = sleep_us / 1000000, .tv_nsec = sleep_us % 1000000 * 1000};
    const char *path = argc > 6 ? argv[6] : NULL;
    if (box.columns < BESIDE || box.rows < BESIDE) {
        fprintf(stderr, "particles: COLUMNS and ROWS must be at least %d\n", BESIDE);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    box.owner = checked(calloc((size_t)box.columns, sizeof *box.owner));

    struct list own = {0};
    long iteration = 0;
    divide(&box);
    int64_t *seen = checked(calloc((size_t)((box.end - box.first) * box.rows) + 1, sizeof *seen));
    set_initial(&box, &own, count);

    FILE *log = open_log(path, box.rank, iteration);
    for (; iteration < iterations; iteration++) {
        move(&box, &own, seen);
        double speed = fastest(&own);
        if (log != NULL)
            fprintf(log, "%ld %.17g\n", iteration, speed);
        nanosleep(&pause, NULL);
    }

    uint64_t sum = checksum(&box, &own, seen);
    if (box.rank == 0)
        printf("particles: iterations %ld ranks %d checksum %016llx\n", iterations, box.size, (unsigned long long)sum);
    free(own.all);
    free(seen);
    MPI_Finalize();
    return 0;
}
