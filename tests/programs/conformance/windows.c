/* Windows of all kinds, their synchronisations, and operations on the memory of others. */
#include "conformance.h"

enum { CELLS = 8 };

struct window {
    MPI_Win win;
    int *cells;
};

static struct window allocated(void)
{
    struct window w = {MPI_WIN_NULL, NULL};
    call(MPI_Win_allocate(CELLS * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &w.cells, &w.win));
    call(MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN));
    for (int i = 0; i < CELLS; i++)
        w.cells[i] = 100 * rank + i;
    return w;
}

/* Puts into the next rank's first cell between fences; expects the previous one's there. */
static void expect_fenced_put(MPI_Win win, const int *cell)
{
    call(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
    call(MPI_Put(&rank, 1, MPI_INT, next, 0, 1, MPI_INT, win));
    call(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    expect(*cell == previous);
}

static void of_memory_of_the_program(void)
{
    int cell = -1;
    MPI_Win win;
    call(MPI_Win_create(&cell, sizeof cell, sizeof cell, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    expect_fenced_put(win, &cell);
    call(MPI_Win_free(&win));
    expect(win == MPI_WIN_NULL);
}

/* A fence must not end before the puts have arrived, however few messages of its own it takes. */
static void many_fences(void)
{
    struct window w = allocated();
    for (int round = 0; round < 40; round++) {
        int value = 100 * round + rank, distance = 1 + round % (size > 1 ? size - 1 : 1);
        call(MPI_Win_fence(0, w.win));
        call(MPI_Put(&value, 1, MPI_INT, (rank + distance) % size, 0, 1, MPI_INT, w.win));
        call(MPI_Win_fence(0, w.win));
        expect(w.cells[0] == 100 * round + (rank + size - distance) % size);
    }
    call(MPI_Win_free(&w.win));
}

static void with_memory_of_its_own(void)
{
    struct window w = allocated();
    expect_fenced_put(w.win, w.cells);
    call(MPI_Win_free(&w.win));
}

static void in_shared_memory(void)
{
    int unit = 0, *of_next = NULL, *own = NULL, there, all;
    MPI_Aint bytes = 0;
    MPI_Comm together;
    MPI_Win win;
    call(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &together));
    call(MPI_Comm_rank(together, &there));
    call(MPI_Comm_size(together, &all));
    int after = (there + 1) % all;
    call(MPI_Win_allocate_shared(sizeof *own, sizeof *own, MPI_INFO_NULL, together, &own, &win));
    call(MPI_Win_lock_all(MPI_MODE_NOCHECK, win));
    *own = 3 * there;
    call(MPI_Win_sync(win));
    call(MPI_Barrier(together));
    call(MPI_Win_sync(win));
    call(MPI_Win_shared_query(win, after, &bytes, &unit, &of_next));
    expect(bytes == sizeof *own && unit == sizeof *own && *of_next == 3 * after);
    call(MPI_Barrier(together));
    call(MPI_Win_unlock_all(win));
    call(MPI_Win_free(&win));
    call(MPI_Comm_free(&together));
}

static void with_memory_that_comes_later(void)
{
    int cell = -1, in = -1;
    MPI_Aint address, of_next;
    MPI_Win win;
    call(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    cell = 7 * rank;
    call(MPI_Win_attach(win, &cell, sizeof cell));
    call(MPI_Get_address(&cell, &address));
    call(MPI_Sendrecv(&address, 1, MPI_AINT, previous, 1, &of_next, 1, MPI_AINT, next, 1, MPI_COMM_WORLD,
                      MPI_STATUS_IGNORE));
    call(MPI_Win_fence(0, win));
    call(MPI_Get(&in, 1, MPI_INT, next, of_next, 1, MPI_INT, win));
    call(MPI_Win_fence(0, win));
    expect(in == 7 * next);
    call(MPI_Win_detach(win, &cell));
    call(MPI_Win_free(&win));
}

static void get(void)
{
    int in[2] = {-1, -1};
    struct window w = allocated();
    call(MPI_Win_fence(0, w.win));
    call(MPI_Get(in, 2, MPI_INT, next, 3, 2, MPI_INT, w.win));
    call(MPI_Win_fence(0, w.win));
    expect(in[0] == 100 * next + 3 && in[1] == 100 * next + 4);
    call(MPI_Win_free(&w.win));
}

static void get_of_a_derived_type(void)
{
    int in[3] = {-1, -1, -1};
    MPI_Datatype type;
    struct window w = allocated();
    call(MPI_Type_vector(3, 1, 2, MPI_INT, &type));
    call(MPI_Type_commit(&type));
    call(MPI_Win_fence(0, w.win));
    call(MPI_Get(in, 3, MPI_INT, next, 1, 1, type, w.win));
    call(MPI_Win_fence(0, w.win));
    expect(in[0] == 100 * next + 1 && in[1] == 100 * next + 3 && in[2] == 100 * next + 5);
    call(MPI_Type_free(&type));
    call(MPI_Win_free(&w.win));
}

static void accumulate(void)
{
    struct window w = allocated();
    w.cells[0] = 0;
    call(MPI_Win_fence(0, w.win));
    call(MPI_Accumulate(&rank, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, w.win));
    call(MPI_Win_fence(0, w.win));
    expect(w.cells[0] == (rank == 0 ? size * (size - 1) / 2 : 0));
    call(MPI_Win_free(&w.win));
}

static void to_no_process(void)
{
    int in = 4;
    struct window w = allocated();
    call(MPI_Win_fence(0, w.win));
    call(MPI_Get(&in, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, w.win));
    call(MPI_Put(&in, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, w.win));
    call(MPI_Win_fence(0, w.win));
    expect(in == 4);
    call(MPI_Win_free(&w.win));
}

/* Each rank is a target of the previous one and an origin for the next. */
static void begin_epochs(MPI_Win win)
{
    MPI_Group all, target, origin;
    call(MPI_Comm_group(MPI_COMM_WORLD, &all));
    call(MPI_Group_incl(all, 1, &next, &target));
    call(MPI_Group_incl(all, 1, &previous, &origin));
    call(MPI_Win_post(origin, 0, win));
    call(MPI_Win_start(target, 0, win));
    call(MPI_Group_free(&all));
    call(MPI_Group_free(&target));
    call(MPI_Group_free(&origin));
}

static void post_start_complete_wait(void)
{
    struct window w = allocated();
    begin_epochs(w.win);
    call(MPI_Put(&rank, 1, MPI_INT, next, 2, 1, MPI_INT, w.win));
    call(MPI_Win_complete(w.win));
    call(MPI_Win_wait(w.win));
    expect(w.cells[2] == previous);
    call(MPI_Win_free(&w.win));
}

static void post_start_complete_test(void)
{
    struct window w = allocated();
    begin_epochs(w.win);
    call(MPI_Put(&rank, 1, MPI_INT, next, 2, 1, MPI_INT, w.win));
    call(MPI_Win_complete(w.win));
    for (int done = 0; !done;)
        if (call(MPI_Win_test(w.win, &done)) != MPI_SUCCESS)
            break;
    expect(w.cells[2] == previous);
    call(MPI_Win_free(&w.win));
}

static void with_lock(int kind)
{
    int in = -1;
    struct window w = allocated();
    call(MPI_Barrier(MPI_COMM_WORLD));
    call(MPI_Win_lock(kind, next, 0, w.win));
    call(MPI_Get(&in, 1, MPI_INT, next, 1, 1, MPI_INT, w.win));
    call(MPI_Win_unlock(next, w.win));
    expect(in == 100 * next + 1);
    call(MPI_Win_free(&w.win));
}

static void shared_lock(void)
{
    with_lock(MPI_LOCK_SHARED);
}

static void exclusive_lock(void)
{
    with_lock(MPI_LOCK_EXCLUSIVE);
}

/* Reads and writes the counter of rank 0 under a lock: no increment is lost. */
static void exclusive_lock_excludes(void)
{
    int value = 0;
    struct window w = allocated();
    w.cells[0] = 0;
    call(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 4; i++) {
        call(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win));
        call(MPI_Get(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, w.win));
        call(MPI_Win_flush(0, w.win));
        value++;
        call(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, w.win));
        call(MPI_Win_unlock(0, w.win));
    }
    call(MPI_Barrier(MPI_COMM_WORLD));
    call(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win));
    call(MPI_Get(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, w.win));
    call(MPI_Win_unlock(0, w.win));
    expect(value == 4 * size);
    call(MPI_Win_free(&w.win));
}

/* Runs `operate` between lock_all and unlock_all; afterwards all ranks have done theirs. */
static struct window under_lock_all(void (*operate)(MPI_Win))
{
    struct window w = allocated();
    w.cells[0] = 0;
    call(MPI_Barrier(MPI_COMM_WORLD));
    call(MPI_Win_lock_all(0, w.win));
    operate(w.win);
    call(MPI_Win_unlock_all(w.win));
    call(MPI_Barrier(MPI_COMM_WORLD));
    return w;
}

static void add_and_see(MPI_Win win)
{
    int before = -1, one = 1;
    call(MPI_Fetch_and_op(&one, &before, MPI_INT, 0, 0, MPI_SUM, win));
    call(MPI_Win_flush(0, win));
    expect(before >= 0 && before < size);
}

static void fetch_and_add(void)
{
    struct window w = under_lock_all(add_and_see);
    call(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, w.win));
    expect(w.cells[0] == (rank == 0 ? size : 0));
    call(MPI_Win_unlock(rank, w.win));
    call(MPI_Win_free(&w.win));
}

static void take_if_free(MPI_Win win)
{
    int mine = rank + 1, free_word = 0, before = -1;
    call(MPI_Compare_and_swap(&mine, &free_word, &before, MPI_INT, 0, 0, win));
    call(MPI_Win_flush_all(win));
    expect(before >= 0 && before <= size);
}

static void compare_and_swap(void)
{
    int taken = 0;
    struct window w = under_lock_all(take_if_free);
    call(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win));
    call(MPI_Get(&taken, 1, MPI_INT, 0, 0, 1, MPI_INT, w.win));
    call(MPI_Win_unlock(0, w.win));
    expect(taken >= 1 && taken <= size);
    call(MPI_Win_free(&w.win));
}

static void add_two(MPI_Win win)
{
    int mine[2] = {1, rank}, before[2] = {-1, -1};
    call(MPI_Get_accumulate(mine, 2, MPI_INT, before, 2, MPI_INT, next, 4, 2, MPI_INT, MPI_SUM, win));
    call(MPI_Win_flush_local(next, win));
    expect(before[0] == 100 * next + 4 && before[1] == 100 * next + 5);
}

static void get_and_accumulate(void)
{
    struct window w = under_lock_all(add_two);
    call(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, w.win));
    expect(w.cells[4] == 100 * rank + 5 && w.cells[5] == 100 * rank + 5 + previous);
    call(MPI_Win_unlock(rank, w.win));
    call(MPI_Win_free(&w.win));
}

static void only_read(MPI_Win win)
{
    int seen = -1, ignored = 0;
    call(MPI_Fetch_and_op(&ignored, &seen, MPI_INT, next, 6, MPI_NO_OP, win));
    call(MPI_Win_flush(next, win));
    expect(seen == 100 * next + 6);
}

static void atomic_read(void)
{
    struct window w = under_lock_all(only_read);
    call(MPI_Win_free(&w.win));
}

static void by_request(MPI_Win win)
{
    int in = -1, out = 9 + rank, one = 1, before = -1;
    MPI_Request requests[4];
    call(MPI_Rput(&out, 1, MPI_INT, next, 1, 1, MPI_INT, win, &requests[0]));
    call(MPI_Rget(&in, 1, MPI_INT, next, 2, 1, MPI_INT, win, &requests[1]));
    call(MPI_Raccumulate(&one, 1, MPI_INT, next, 3, 1, MPI_INT, MPI_SUM, win, &requests[2]));
    call(MPI_Rget_accumulate(&one, 1, MPI_INT, &before, 1, MPI_INT, next, 4, 1, MPI_INT, MPI_REPLACE, win,
                             &requests[3]));
    call(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
    expect(in == 100 * next + 2 && before == 100 * next + 4);
    call(MPI_Win_flush_local_all(win));
}

static void operations_with_requests(void)
{
    struct window w = under_lock_all(by_request);
    call(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, w.win));
    expect(w.cells[1] == 9 + previous && w.cells[3] == 100 * rank + 4 && w.cells[4] == 1);
    call(MPI_Win_unlock(rank, w.win));
    call(MPI_Win_free(&w.win));
}

static void attributes_of_mpi(void)
{
    int there = 0, *unit, *flavour, *model;
    MPI_Aint *bytes;
    void *base;
    struct window w = allocated();
    call(MPI_Win_get_attr(w.win, MPI_WIN_BASE, &base, &there));
    expect(there && base == w.cells);
    call(MPI_Win_get_attr(w.win, MPI_WIN_SIZE, &bytes, &there));
    expect(there && *bytes == CELLS * sizeof(int));
    call(MPI_Win_get_attr(w.win, MPI_WIN_DISP_UNIT, &unit, &there));
    expect(there && *unit == sizeof(int));
    call(MPI_Win_get_attr(w.win, MPI_WIN_CREATE_FLAVOR, &flavour, &there));
    expect(there && *flavour == MPI_WIN_FLAVOR_ALLOCATE);
    call(MPI_Win_get_attr(w.win, MPI_WIN_MODEL, &model, &there));
    expect(there && (*model == MPI_WIN_UNIFIED || *model == MPI_WIN_SEPARATE));
    call(MPI_Win_free(&w.win));
}

static void group_of_a_window(void)
{
    int result = -1;
    MPI_Group all, of_window;
    struct window w = allocated();
    call(MPI_Comm_group(MPI_COMM_WORLD, &all));
    call(MPI_Win_get_group(w.win, &of_window));
    call(MPI_Group_compare(all, of_window, &result));
    expect(result == MPI_IDENT);
    call(MPI_Group_free(&all));
    call(MPI_Group_free(&of_window));
    call(MPI_Win_free(&w.win));
}

static void names_of_windows(void)
{
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    struct window w = allocated();
    call(MPI_Win_set_name(w.win, "cells"));
    call(MPI_Win_get_name(w.win, name, &length));
    expect(strcmp(name, "cells") == 0 && length == 5);
    call(MPI_Win_free(&w.win));
}

static void hints_of_windows(void)
{
    char value[32] = "";
    int length = sizeof value, there = 0;
    MPI_Info info;
    struct window w = allocated();
    call(MPI_Info_create(&info));
    call(MPI_Info_set(info, "accumulate_ops", "same_op"));
    call(MPI_Win_set_info(w.win, info));
    call(MPI_Info_free(&info));
    call(MPI_Win_get_info(w.win, &info));
    call(MPI_Info_get_string(info, "accumulate_ops", &length, value, &there));
    expect(there && strcmp(value, "same_op") == 0);
    call(MPI_Info_free(&info));
    call(MPI_Win_free(&w.win));
}

static void memory_of_mpi(void)
{
    int *memory = NULL;
    MPI_Win win;
    call(MPI_Alloc_mem(sizeof *memory, MPI_INFO_NULL, &memory));
    *memory = -1;
    call(MPI_Win_create(memory, sizeof *memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    expect_fenced_put(win, memory);
    call(MPI_Win_free(&win));
    call(MPI_Free_mem(memory));
}

static void on_a_half(void)
{
    int cell = -1, members = 0, own = 0, value = rank;
    MPI_Comm half;
    MPI_Win win;
    call(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half));
    call(MPI_Comm_size(half, &members));
    call(MPI_Comm_rank(half, &own));
    call(MPI_Win_create(&cell, sizeof cell, 1, MPI_INFO_NULL, half, &win));
    call(MPI_Win_fence(0, win));
    call(MPI_Put(&value, 1, MPI_INT, (own + 1) % members, 0, 1, MPI_INT, win));
    call(MPI_Win_fence(0, win));
    expect(cell == (own + members - 1) % members * 2 + rank % 2);
    call(MPI_Win_free(&win));
    call(MPI_Comm_free(&half));
}

static void without_memory_here(void)
{
    int cell = -1;
    MPI_Win win;
    call(MPI_Win_create(&cell, rank == 0 ? sizeof cell : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    call(MPI_Win_fence(0, win));
    if (rank == size - 1)
        call(MPI_Put(&rank, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
    call(MPI_Win_fence(0, win));
    expect(cell == (rank == 0 ? size - 1 : -1));
    call(MPI_Win_free(&win));
}

static void operation_without_an_epoch(void)
{
    struct window w = allocated();
    expect_class(MPI_Put(&rank, 1, MPI_INT, next, 0, 1, MPI_INT, w.win), MPI_ERR_RMA_SYNC);
    expect_class(MPI_Win_unlock(next, w.win), MPI_ERR_RMA_SYNC);
    call(MPI_Barrier(MPI_COMM_WORLD));
    call(MPI_Win_free(&w.win));
}

static void lock_of_a_rank_that_is_not_there(void)
{
    struct window w = allocated();
    expect_class(MPI_Win_lock(MPI_LOCK_SHARED, size, 0, w.win), MPI_ERR_RANK);
    call(MPI_Win_free(&w.win));
}

const struct check windows[] = {
    CHECK(of_memory_of_the_program),
    CHECK(with_memory_of_its_own),
    CHECK(many_fences),
    CHECK(in_shared_memory),
    CHECK(with_memory_that_comes_later),
    CHECK(get),
    CHECK(get_of_a_derived_type),
    CHECK(accumulate),
    CHECK(to_no_process),
    CHECK(post_start_complete_wait),
    CHECK(post_start_complete_test),
    CHECK(shared_lock),
    CHECK(exclusive_lock),
    CHECK(exclusive_lock_excludes),
    CHECK(fetch_and_add),
    CHECK(compare_and_swap),
    CHECK(get_and_accumulate),
    CHECK(atomic_read),
    CHECK(operations_with_requests),
    CHECK(attributes_of_mpi),
    CHECK(group_of_a_window),
    CHECK(names_of_windows),
    CHECK(hints_of_windows),
    CHECK(memory_of_mpi),
    CHECK(on_a_half),
    CHECK(without_memory_here),
    CHECK(operation_without_an_epoch),
    CHECK(lock_of_a_rank_that_is_not_there),
    {0},
};
