/* Several threads that call MPI at once, with MPI_THREAD_MULTIPLE: this chapter is only run with --threads. */
#define _POSIX_C_SOURCE 200809L
#include "conformance.h"
#include <pthread.h>

enum { THREADS = 2, MESSAGES = 10 };

/* Runs a function in this many other threads at once, each with its number, until all have returned. */
static void in_threads(int count, void *(*run)(void *))
{
    static int numbers[THREADS] = {0, 1};
    pthread_t threads[THREADS];
    int begun = 0;
    while (begun < count && expect(pthread_create(&threads[begun], NULL, run, &numbers[begun]) == 0))
        begun++;
    for (int i = 0; i < begun; i++)
        expect(pthread_join(threads[i], NULL) == 0);
}

static int number_of(const void *argument)
{
    return *(const int *)argument;
}

static MPI_Comm copies[THREADS];

/* Each thread has a communicator of its own. */
static void in_threads_with_copies(void *(*run)(void *))
{
    for (int i = 0; i < THREADS; i++)
        call(MPI_Comm_dup(MPI_COMM_WORLD, &copies[i]));
    in_threads(THREADS, run);
    for (int i = 0; i < THREADS; i++)
        call(MPI_Comm_free(&copies[i]));
}

static void *ask_for_the_level(void *argument)
{
    int level = -1;
    (void)argument;
    call(MPI_Query_thread(&level));
    expect(level == MPI_THREAD_MULTIPLE);
    return NULL;
}

static void level(void)
{
    ask_for_the_level(NULL);
    in_threads(1, ask_for_the_level);
}

static void *ask_as_another_thread(void *argument)
{
    int is_main = -1, is_begun = 0;
    (void)argument;
    call(MPI_Is_thread_main(&is_main));
    call(MPI_Initialized(&is_begun));
    expect(is_main == 0 && is_begun);
    return NULL;
}

static void main_thread(void)
{
    int is_main = 0;
    call(MPI_Is_thread_main(&is_main));
    expect(is_main);
    in_threads(1, ask_as_another_thread);
}

/* To the next rank, from the previous one, with the thread's number as tag. */
static void *exchange(void *argument)
{
    const int number = number_of(argument);
    for (int i = 0; i < MESSAGES; i++) {
        int out = 1000 * rank + 100 * number + i, in = -1;
        call(MPI_Sendrecv(&out, 1, MPI_INT, next, number, &in, 1, MPI_INT, previous, number, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE));
        expect(in == 1000 * previous + 100 * number + i);
    }
    return NULL;
}

static void sends_from_two_threads(void)
{
    in_threads(THREADS, exchange);
}

static void *send_and_receive_much(void *argument)
{
    enum { MUCH = 200000 };
    const int number = number_of(argument);
    int *out = malloc(MUCH * sizeof *out), *in = malloc(MUCH * sizeof *in), right = 1;
    MPI_Request request;
    for (int i = 0; i < MUCH; i++) {
        out[i] = rank + number + i;
        in[i] = -1;
    }
    call(MPI_Isend(out, MUCH, MPI_INT, next, number, MPI_COMM_WORLD, &request));
    call(MPI_Recv(in, MUCH, MPI_INT, previous, number, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    call(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < MUCH; i++)
        right &= in[i] == previous + number + i;
    expect(right);
    free(out);
    free(in);
    return NULL;
}

static void long_messages_of_two_threads(void)
{
    in_threads(THREADS, send_and_receive_much);
}

static int sums[THREADS];

/* The message that is found is the message that is received, whatever the other thread takes. */
static void *take_matched(void *argument)
{
    for (int i = 0; i < MESSAGES; i++) {
        int in = -1;
        MPI_Message message;
        MPI_Status status;
        call(MPI_Mprobe(previous, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status));
        call(MPI_Mrecv(&in, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
        expect(in == status.MPI_TAG && message == MPI_MESSAGE_NULL);
        sums[number_of(argument)] += in;
    }
    return NULL;
}

static void matched_probes_of_two_threads(void)
{
    static int out[THREADS * MESSAGES];
    MPI_Request requests[THREADS * MESSAGES];
    sums[0] = sums[1] = 0;
    for (int i = 0; i < THREADS * MESSAGES; i++) {
        out[i] = i;
        call(MPI_Isend(&out[i], 1, MPI_INT, next, i, MPI_COMM_WORLD, &requests[i]));
    }
    in_threads(THREADS, take_matched);
    call(MPI_Waitall(THREADS * MESSAGES, requests, MPI_STATUSES_IGNORE));
    expect(sums[0] + sums[1] == THREADS * MESSAGES * (THREADS * MESSAGES - 1) / 2);
}

static void *collect(void *argument)
{
    const int number = number_of(argument);
    for (int i = 0; i < MESSAGES; i++) {
        int sum = -1, word = rank == i % size ? i + number : -1;
        call(MPI_Allreduce(&(int){number + i}, &sum, 1, MPI_INT, MPI_SUM, copies[number]));
        call(MPI_Bcast(&word, 1, MPI_INT, i % size, copies[number]));
        call(MPI_Barrier(copies[number]));
        expect(sum == size * (number + i) && word == i + number);
    }
    return NULL;
}

static void collectives_of_two_threads(void)
{
    in_threads_with_copies(collect);
}

static void *split_and_free(void *argument)
{
    const int number = number_of(argument);
    for (int i = 0; i < 3; i++) {
        int own = -1, members = 0;
        MPI_Comm copy, part;
        call(MPI_Comm_dup(copies[number], &copy));
        call(MPI_Comm_split(copy, rank % 2, -rank, &part));
        call(MPI_Comm_size(copy, &members));
        call(MPI_Comm_rank(part, &own));
        expect(members == size && own == (size - 1 - rank) / 2);
        call(MPI_Comm_free(&part));
        call(MPI_Comm_free(&copy));
    }
    return NULL;
}

static void communicators_made_by_two_threads(void)
{
    in_threads_with_copies(split_and_free);
}

static MPI_Request shared[2];

static void *wait_for_the_shared(void *argument)
{
    (void)argument;
    call(MPI_Waitall(2, shared, MPI_STATUSES_IGNORE));
    return NULL;
}

static void requests_completed_by_another_thread(void)
{
    int out = rank, in = -1, sum = -1;
    call(MPI_Irecv(&in, 1, MPI_INT, previous, 5, MPI_COMM_WORLD, &shared[0]));
    call(MPI_Isend(&out, 1, MPI_INT, next, 5, MPI_COMM_WORLD, &shared[1]));
    in_threads(1, wait_for_the_shared);
    expect(in == previous && shared[0] == MPI_REQUEST_NULL && shared[1] == MPI_REQUEST_NULL);
    call(MPI_Iallreduce(&out, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &shared[0]));
    call(MPI_Ibarrier(MPI_COMM_WORLD, &shared[1]));
    in_threads(1, wait_for_the_shared);
    expect(sum == size * (size - 1) / 2);
}

static void *send_what_is_waited_for(void *argument)
{
    (void)argument;
    call(MPI_Send(&rank, 1, MPI_INT, rank, 6, MPI_COMM_WORLD));
    return NULL;
}

/* One thread waits inside MPI; that keeps no other thread from sending what it waits for. */
static void one_thread_waits_for_another(void)
{
    int in = -1;
    pthread_t thread;
    if (!expect(pthread_create(&thread, NULL, send_what_is_waited_for, NULL) == 0))
        return;
    call(MPI_Recv(&in, 1, MPI_INT, rank, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    expect(pthread_join(thread, NULL) == 0);
    expect(in == rank);
}

enum { PARTS = 8 };
static MPI_Request parts;

static void *make_ready(void *argument)
{
    for (int i = number_of(argument); i < PARTS; i += THREADS)
        call(MPI_Pready(i, parts));
    return NULL;
}

static void parts_made_ready_by_two_threads(void)
{
    int out[PARTS], in[PARTS];
    MPI_Request request;
    for (int i = 0; i < PARTS; i++) {
        out[i] = 10 * rank + i;
        in[i] = -1;
    }
    call(MPI_Psend_init(out, PARTS, 1, MPI_INT, next, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &parts));
    call(MPI_Precv_init(in, PARTS, 1, MPI_INT, previous, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    call(MPI_Start(&request));
    call(MPI_Start(&parts));
    in_threads(THREADS, make_ready);
    call(MPI_Wait(&parts, MPI_STATUS_IGNORE));
    call(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < PARTS; i++)
        expect(in[i] == 10 * previous + i);
    call(MPI_Request_free(&parts));
    call(MPI_Request_free(&request));
}

static MPI_Request general;

static int say_little(void *extra, MPI_Status *status)
{
    (void)extra;
    MPI_Status_set_elements(status, MPI_INT, 3);
    MPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}

static int free_nothing(void *extra)
{
    (void)extra;
    return MPI_SUCCESS;
}

static int cancel_nothing(void *extra, int complete)
{
    (void)extra;
    (void)complete;
    return MPI_SUCCESS;
}

static void *complete(void *argument)
{
    (void)argument;
    call(MPI_Grequest_complete(general));
    return NULL;
}

static void generalised_completed_by_another_thread(void)
{
    int count = 0;
    pthread_t thread;
    MPI_Status status;
    call(MPI_Grequest_start(say_little, free_nothing, cancel_nothing, NULL, &general));
    MPI_Request request = general;
    if (!expect(pthread_create(&thread, NULL, complete, NULL) == 0))
        return;
    call(MPI_Wait(&request, &status));
    expect(pthread_join(thread, NULL) == 0);
    call(MPI_Get_count(&status, MPI_INT, &count));
    expect(count == 3);
}

static MPI_Win window;

static void *add_to_all(void *argument)
{
    (void)argument;
    for (int i = 0; i < MESSAGES; i++) {
        int one = 1, before = -1;
        call(MPI_Fetch_and_op(&one, &before, MPI_INT, i % size, 0, MPI_SUM, window));
        call(MPI_Win_flush(i % size, window));
        expect(before >= 0 && before < THREADS * MESSAGES * size);
    }
    return NULL;
}

static void window_of_two_threads(void)
{
    int *count, sum = 0;
    call(MPI_Win_allocate(sizeof *count, sizeof *count, MPI_INFO_NULL, MPI_COMM_WORLD, &count, &window));
    *count = 0;
    call(MPI_Barrier(MPI_COMM_WORLD));
    call(MPI_Win_lock_all(0, window));
    in_threads(THREADS, add_to_all);
    call(MPI_Win_unlock_all(window));
    call(MPI_Barrier(MPI_COMM_WORLD));
    call(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window));
    call(MPI_Allreduce(count, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    call(MPI_Win_unlock(rank, window));
    expect(sum == THREADS * MESSAGES * size);
    call(MPI_Win_free(&window));
}

static MPI_File file;

static void *write_and_read(void *argument)
{
    const int number = number_of(argument), out = 10 * rank + number;
    const MPI_Offset place = (MPI_Offset)sizeof out * (THREADS * rank + number);
    int in = -1;
    call(MPI_File_write_at(file, place, &out, 1, MPI_INT, MPI_STATUS_IGNORE));
    call(MPI_File_read_at(file, place, &in, 1, MPI_INT, MPI_STATUS_IGNORE));
    expect(in == out);
    return NULL;
}

static void file_of_two_threads(void)
{
    call(MPI_File_open(MPI_COMM_WORLD, shared_file(), MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                       MPI_INFO_NULL, &file));
    in_threads(THREADS, write_and_read);
    call(MPI_File_close(&file));
}

static pthread_t handled_in;
static MPI_Comm handled_for;
static int handled;

static void on_error(MPI_Comm *comm, int *code, ...)
{
    handled += class_of(*code) == MPI_ERR_RANK;
    handled_in = pthread_self();
    handled_for = *comm;
}

static void *make_an_error(void *argument)
{
    (void)argument;
    MPI_Send(&rank, 1, MPI_INT, 100000, 1, MPI_COMM_WORLD);
    expect(handled == 1 && pthread_equal(handled_in, pthread_self()) && handled_for == MPI_COMM_WORLD);
    return NULL;
}

static void handler_in_the_thread_of_the_error(void)
{
    MPI_Errhandler handler;
    handled = 0;
    call(MPI_Comm_create_errhandler(on_error, &handler));
    call(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
    in_threads(1, make_an_error);
    call(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    call(MPI_Errhandler_free(&handler));
}

static void *keep_attributes(void *argument)
{
    const int number = number_of(argument);
    for (int i = 0; i < MESSAGES; i++) {
        int key = MPI_KEYVAL_INVALID, there = 0, value = i, *found = NULL;
        call(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL));
        call(MPI_Comm_set_attr(copies[number], key, &value));
        call(MPI_Comm_get_attr(copies[number], key, &found, &there));
        expect(there && found == &value);
        call(MPI_Comm_delete_attr(copies[number], key));
        call(MPI_Comm_free_keyval(&key));
    }
    return NULL;
}

static void attributes_of_two_threads(void)
{
    in_threads_with_copies(keep_attributes);
}

static void *use_a_session(void *argument)
{
    int members = 0, sum = 0;
    char tag[16];
    MPI_Session session;
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    snprintf(tag, sizeof tag, "thread %d", number_of(argument));
    call(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    call(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    call(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    call(MPI_Group_size(group, &members));
    call(MPI_Group_free(&group));
    if (expect(comm != MPI_COMM_NULL)) {
        call(MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, comm));
        expect(members == size && sum == size);
        call(MPI_Comm_free(&comm));
    }
    call(MPI_Session_finalize(&session));
    return NULL;
}

static void session_in_a_thread(void)
{
    in_threads(1, use_a_session);
}

/* The child tells three numbers, of which the first is the number of children. */
static void *start_a_child(void *argument)
{
    int told[3] = {-1, -1, -1}, code = -1;
    MPI_Comm child = MPI_COMM_NULL;
    (void)argument;
    if (call(MPI_Comm_spawn(own_program, (char *[]){"--child", "plain", NULL}, 1, MPI_INFO_NULL, 0, copies[0],
                            &child, &code)) != MPI_SUCCESS)
        return NULL;
    call(MPI_Bcast(told, 3, MPI_INT, 0, child));
    call(MPI_Comm_disconnect(&child));
    expect(code == MPI_SUCCESS && told[0] == 1);
    return NULL;
}

static void spawn_in_a_thread(void)
{
    call(MPI_Comm_dup(MPI_COMM_WORLD, &copies[0]));
    in_threads(1, start_a_child);
    call(MPI_Comm_free(&copies[0]));
}

/* The first thread starts a child while the second one talks with its neighbours. */
static void *start_or_exchange(void *argument)
{
    return number_of(argument) == 0 ? start_a_child(argument) : exchange(argument);
}

static void spawn_beside_messages(void)
{
    in_threads_with_copies(start_or_exchange);
}

const struct check threads[] = {
    CHECK(level),
    CHECK(main_thread),
    CHECK(sends_from_two_threads),
    CHECK(long_messages_of_two_threads),
    CHECK(matched_probes_of_two_threads),
    CHECK(collectives_of_two_threads),
    CHECK(communicators_made_by_two_threads),
    CHECK(requests_completed_by_another_thread),
    CHECK(one_thread_waits_for_another),
    CHECK(parts_made_ready_by_two_threads),
    CHECK(generalised_completed_by_another_thread),
    CHECK(window_of_two_threads),
    CHECK(file_of_two_threads),
    CHECK(handler_in_the_thread_of_the_error),
    CHECK(attributes_of_two_threads),
    CHECK(session_in_a_thread),
    CHECK(spawn_in_a_thread),
    CHECK(spawn_beside_messages),
    {0},
};
