/* Messages between two ranks: modes, wildcards, order, probes, matched probes, exchanges, long counts. */
#include "conformance.h"

enum { MANY = 1000, LARGE = 1 << 18 };

/* Sends to the next rank in a mode, and expects the same of the previous one. */
static void ring(int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm))
{
    int out[MANY], in[MANY], right = 1;
    MPI_Request receive;
    MPI_Status status;
    for (int i = 0; i < MANY; i++) {
        out[i] = rank * MANY + i;
        in[i] = -1;
    }
    call(MPI_Irecv(in, MANY, MPI_INT, previous, 3, MPI_COMM_WORLD, &receive));
    call(MPI_Barrier(MPI_COMM_WORLD)); /* A ready send needs the receive to be posted. */
    call(send(out, MANY, MPI_INT, next, 3, MPI_COMM_WORLD));
    call(MPI_Wait(&receive, &status));
    for (int i = 0; i < MANY; i++)
        right &= in[i] == previous * MANY + i;
    expect(right);
    expect(status.MPI_SOURCE == previous && status.MPI_TAG == 3);
}

/* The same with a send that does not wait. */
static void ring_begun(int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *))
{
    int out = 7 * rank, in = -1;
    MPI_Request both[2];
    call(MPI_Irecv(&in, 1, MPI_INT, previous, 4, MPI_COMM_WORLD, &both[0]));
    call(MPI_Barrier(MPI_COMM_WORLD));
    call(send(&out, 1, MPI_INT, next, 4, MPI_COMM_WORLD, &both[1]));
    call(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
    expect(in == 7 * previous);
    expect(both[0] == MPI_REQUEST_NULL && both[1] == MPI_REQUEST_NULL);
}

static void send_standard(void)
{
    ring(MPI_Send);
}

static void send_synchronous(void)
{
    ring(MPI_Ssend);
}

static void send_ready(void)
{
    ring(MPI_Rsend);
}

static void send_begun(void)
{
    ring_begun(MPI_Isend);
}

static void send_synchronous_begun(void)
{
    ring_begun(MPI_Issend);
}

static void send_ready_begun(void)
{
    ring_begun(MPI_Irsend);
}

static char room[MANY * sizeof(int) + 8 * MPI_BSEND_OVERHEAD];

static void send_buffered(void)
{
    void *back = NULL;
    int length = 0;
    call(MPI_Buffer_attach(room, sizeof room));
    ring(MPI_Bsend);
    call(MPI_Buffer_detach(&back, &length));
    expect(back == room && length == (int)sizeof room);
}

static void send_buffered_begun(void)
{
    void *back = NULL;
    int length = 0;
    call(MPI_Buffer_attach(room, sizeof room));
    ring_begun(MPI_Ibsend);
    call(MPI_Buffer_detach(&back, &length));
}

/* All ranks send before any receives. */
static void send_buffered_before_receives(void)
{
    int out[3] = {rank, rank + 1, rank + 2}, in[3] = {0};
    void *back;
    int length;
    call(MPI_Buffer_attach(room, sizeof room));
    for (int i = 0; i < 3; i++)
        call(MPI_Bsend(&out[i], 1, MPI_INT, next, i, MPI_COMM_WORLD));
    for (int i = 2; i >= 0; i--)
        call(MPI_Recv(&in[i], 1, MPI_INT, previous, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    expect(in[0] == previous && in[2] == previous + 2);
    call(MPI_Buffer_detach(&back, &length));
}

#if MPI_VERSION >= 4
static void send_buffered_on_a_communicators_buffer(void)
{
    int out = rank, in = -1, length;
    void *back;
    MPI_Comm copy;
    call(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    call(MPI_Comm_attach_buffer(copy, room, sizeof room));
    call(MPI_Bsend(&out, 1, MPI_INT, next, 0, copy));
    call(MPI_Recv(&in, 1, MPI_INT, previous, 0, copy, MPI_STATUS_IGNORE));
    expect(in == previous);
    call(MPI_Comm_detach_buffer(copy, &back, &length));
    expect(back == room);
    call(MPI_Comm_free(&copy));
}
#endif

static void buffer_that_is_full(void)
{
    static char small[MPI_BSEND_OVERHEAD + 8];
    static int large[MPI_BSEND_OVERHEAD];
    void *back;
    int length;
    call(MPI_Buffer_attach(small, sizeof small));
    expect_class(MPI_Bsend(large, MPI_BSEND_OVERHEAD, MPI_INT, rank, 1, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    call(MPI_Buffer_detach(&back, &length));
}

static void large_message(void)
{
    int *out = malloc(LARGE * sizeof *out), *in = calloc(LARGE, sizeof *in), right = 1;
    for (int i = 0; i < LARGE; i++)
        out[i] = i ^ rank;
    call(MPI_Sendrecv(out, LARGE, MPI_INT, next, 1, in, LARGE, MPI_INT, previous, 1, MPI_COMM_WORLD,
                      MPI_STATUS_IGNORE));
    for (int i = 0; i < LARGE; i++)
        right &= in[i] == (i ^ previous);
    expect(right);
    free(out);
    free(in);
}

static void message_without_elements(void)
{
    int count = -1;
    MPI_Status status;
    call(MPI_Sendrecv(NULL, 0, MPI_INT, next, 9, NULL, 0, MPI_INT, previous, 9, MPI_COMM_WORLD, &status));
    call(MPI_Get_count(&status, MPI_INT, &count));
    expect(count == 0 && status.MPI_SOURCE == previous && status.MPI_TAG == 9);
}

static void message_to_itself(void)
{
    int out = 5 + rank, in = -1;
    MPI_Request request;
    call(MPI_Isend(&out, 1, MPI_INT, rank, 2, MPI_COMM_WORLD, &request));
    call(MPI_Recv(&in, 1, MPI_INT, rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    call(MPI_Wait(&request, MPI_STATUS_IGNORE));
    expect(in == 5 + rank);
}

static void message_on_self(void)
{
    int out = rank, in = -1;
    call(MPI_Sendrecv(&out, 1, MPI_INT, 0, 2, &in, 1, MPI_INT, 0, 2, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    expect(in == rank);
}

static void no_process(void)
{
    int in = 42, count = -1;
    MPI_Status status;
    call(MPI_Send(&in, 1, MPI_INT, MPI_PROC_NULL, 2, MPI_COMM_WORLD));
    call(MPI_Recv(&in, 1, MPI_INT, MPI_PROC_NULL, 2, MPI_COMM_WORLD, &status));
    call(MPI_Get_count(&status, MPI_INT, &count));
    expect(in == 42 && count == 0 && status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
}

static void any_source(void)
{
    int sum = 0, out = rank + 1, in;
    MPI_Request request;
    MPI_Status status;
    call(MPI_Isend(&out, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, &request));
    for (int i = 0; rank == 0 && i < size; i++) {
        call(MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, &status));
        expect(in == status.MPI_SOURCE + 1);
        sum += in;
    }
    call(MPI_Wait(&request, MPI_STATUS_IGNORE));
    expect(rank != 0 || sum == size * (size + 1) / 2);
}

static void any_tag(void)
{
    int out = rank, in = -1;
    MPI_Status status;
    call(MPI_Sendrecv(&out, 1, MPI_INT, next, 50 + rank, &in, 1, MPI_INT, previous, MPI_ANY_TAG, MPI_COMM_WORLD,
                      &status));
    expect(in == previous && status.MPI_TAG == 50 + previous);
}

static void largest_tag(void)
{
    int *bound = NULL, there = 0, out = rank, in = -1;
    call(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &there));
    if (!expect(there && *bound >= 32767))
        return;
    call(MPI_Sendrecv(&out, 1, MPI_INT, next, *bound, &in, 1, MPI_INT, previous, *bound, MPI_COMM_WORLD,
                      MPI_STATUS_IGNORE));
    expect(in == previous);
}

static void messages_keep_their_order(void)
{
    int in[50], right = 1;
    MPI_Request requests[50];
    for (int i = 0; i < 50; i++)
        call(MPI_Irecv(&in[i], 1, MPI_INT, previous, 8, MPI_COMM_WORLD, &requests[i]));
    for (int i = 0; i < 50; i++)
        call(MPI_Send(&i, 1, MPI_INT, next, 8, MPI_COMM_WORLD));
    call(MPI_Waitall(50, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 50; i++)
        right &= in[i] == i;
    expect(right);
}

static void tags_choose_messages(void)
{
    int out[2] = {10 * rank, 10 * rank + 1}, in[2] = {-1, -1};
    MPI_Request requests[2];
    for (int i = 0; i < 2; i++)
        call(MPI_Isend(&out[i], 1, MPI_INT, next, i, MPI_COMM_WORLD, &requests[i]));
    for (int i = 1; i >= 0; i--)
        call(MPI_Recv(&in[i], 1, MPI_INT, previous, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    call(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    expect(in[0] == 10 * previous && in[1] == 10 * previous + 1);
}

static void communicators_choose_messages(void)
{
    int world = 1, copied = 2, in[2] = {0};
    MPI_Comm copy;
    MPI_Request requests[2];
    call(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    call(MPI_Isend(&world, 1, MPI_INT, next, 1, MPI_COMM_WORLD, &requests[0]));
    call(MPI_Isend(&copied, 1, MPI_INT, next, 1, copy, &requests[1]));
    call(MPI_Recv(&in[1], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, copy, MPI_STATUS_IGNORE));
    call(MPI_Recv(&in[0], 1, MPI_INT, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    call(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    expect(in[0] == 1 && in[1] == 2);
    call(MPI_Comm_free(&copy));
}

static void receive_of_less(void)
{
    int out[3] = {1, 2, 3}, in[10] = {0}, count = 0;
    MPI_Status status;
    call(MPI_Sendrecv(out, 3, MPI_INT, next, 1, in, 10, MPI_INT, previous, 1, MPI_COMM_WORLD, &status));
    call(MPI_Get_count(&status, MPI_INT, &count));
    expect(count == 3 && in[2] == 3 && in[3] == 0);
}

static void receive_of_too_much(void)
{
    int out[3] = {1, 2, 3}, in[2] = {0};
    MPI_Request request;
    call(MPI_Isend(out, 3, MPI_INT, next, 1, MPI_COMM_WORLD, &request));
    expect_class(MPI_Recv(in, 2, MPI_INT, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    call(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void probe(void)
{
    int out[5] = {0}, in[5], count = 0;
    MPI_Request request;
    MPI_Status status;
    call(MPI_Isend(out, 1 + rank % 4, MPI_INT, next, 12, MPI_COMM_WORLD, &request));
    call(MPI_Probe(MPI_ANY_SOURCE, 12, MPI_COMM_WORLD, &status));
    call(MPI_Get_count(&status, MPI_INT, &count));
    expect(count == 1 + previous % 4 && status.MPI_SOURCE == previous);
    call(MPI_Recv(in, count, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    call(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void probe_begun(void)
{
    int out = rank, in, there = 1;
    MPI_Request request;
    MPI_Status status;
    call(MPI_Iprobe(previous, 77, MPI_COMM_WORLD, &there, &status));
    expect(!there);
    call(MPI_Barrier(MPI_COMM_WORLD));
    call(MPI_Isend(&out, 1, MPI_INT, next, 77, MPI_COMM_WORLD, &request));
    for (there = 0; !there;)
        if (call(MPI_Iprobe(previous, 77, MPI_COMM_WORLD, &there, &status)) != MPI_SUCCESS)
            break;
    expect(status.MPI_SOURCE == previous && status.MPI_TAG == 77);
    call(MPI_Recv(&in, 1, MPI_INT, previous, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    call(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void probe_of_no_process(void)
{
    int there = 0;
    MPI_Status status;
    call(MPI_Iprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &there, &status));
    expect(there && status.MPI_SOURCE == MPI_PROC_NULL);
}

static void matched_probe(void)
{
    int out = rank, in = -1;
    MPI_Request request;
    MPI_Message message;
    MPI_Status status;
    call(MPI_Isend(&out, 1, MPI_INT, next, 13, MPI_COMM_WORLD, &request));
    call(MPI_Mprobe(MPI_ANY_SOURCE, 13, MPI_COMM_WORLD, &message, &status));
    expect(status.MPI_SOURCE == previous);
    call(MPI_Mrecv(&in, 1, MPI_INT, &message, &status));
    expect(in == previous && message == MPI_MESSAGE_NULL);
    call(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void matched_probe_begun(void)
{
    int out = rank, in = -1, there = 0;
    MPI_Request requests[2];
    MPI_Message message;
    call(MPI_Isend(&out, 1, MPI_INT, next, 14, MPI_COMM_WORLD, &requests[0]));
    while (!there)
        if (call(MPI_Improbe(previous, 14, MPI_COMM_WORLD, &there, &message, MPI_STATUS_IGNORE)) != MPI_SUCCESS)
            return;
    call(MPI_Imrecv(&in, 1, MPI_INT, &message, &requests[1]));
    call(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    expect(in == previous);
}

/* A message that was matched is no longer there for others. */
static void matched_message_is_taken(void)
{
    int out[2] = {1, 2}, first = 0, second = 0;
    MPI_Request requests[2];
    MPI_Message message;
    for (int i = 0; i < 2; i++)
        call(MPI_Isend(&out[i], 1, MPI_INT, next, 15, MPI_COMM_WORLD, &requests[i]));
    call(MPI_Mprobe(previous, 15, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
    call(MPI_Recv(&second, 1, MPI_INT, previous, 15, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    call(MPI_Mrecv(&first, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
    call(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    expect(first == 1 && second == 2);
}

static void matched_probe_of_no_process(void)
{
    int in = 3;
    MPI_Message message;
    call(MPI_Mprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
    expect(message == MPI_MESSAGE_NO_PROC);
    call(MPI_Mrecv(&in, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
    expect(in == 3 && message == MPI_MESSAGE_NULL);
}

static void exchange(void)
{
    int out = rank, in = -1;
    MPI_Status status;
    call(MPI_Sendrecv(&out, 1, MPI_INT, previous, 21, &in, 1, MPI_INT, next, 21, MPI_COMM_WORLD, &status));
    expect(in == next && status.MPI_SOURCE == next);
}

static void exchange_in_place(void)
{
    int data[2] = {rank, rank * rank};
    call(MPI_Sendrecv_replace(data, 2, MPI_INT, next, 22, previous, 22, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    expect(data[0] == previous && data[1] == previous * previous);
}

static void exchange_begun(void)
{
    int out = rank, in = -1;
    MPI_Request request;
    call(MPI_Isendrecv(&out, 1, MPI_INT, next, 23, &in, 1, MPI_INT, previous, 23, MPI_COMM_WORLD, &request));
    call(MPI_Wait(&request, MPI_STATUS_IGNORE));
    expect(in == previous);
}

static void exchange_in_place_begun(void)
{
    int data = rank;
    MPI_Request request;
    call(MPI_Isendrecv_replace(&data, 1, MPI_INT, next, 24, previous, 24, MPI_COMM_WORLD, &request));
    call(MPI_Wait(&request, MPI_STATUS_IGNORE));
    expect(data == previous);
}

#if MPI_VERSION >= 4
static void long_counts(void)
{
    int out = rank, in = -1;
    MPI_Count count = 0;
    MPI_Request request;
    MPI_Status status;
    call(MPI_Isend_c(&out, 1, MPI_INT, next, 25, MPI_COMM_WORLD, &request));
    call(MPI_Recv_c(&in, 1, MPI_INT, previous, 25, MPI_COMM_WORLD, &status));
    call(MPI_Wait(&request, MPI_STATUS_IGNORE));
    call(MPI_Get_count_c(&status, MPI_INT, &count));
    expect(in == previous && count == 1);
}
#endif

static void status_of_ones_own(void)
{
    MPI_Status status;
    int count = 0, cancelled = 0;
    memset(&status, 0, sizeof status);
    call(MPI_Status_set_elements(&status, MPI_INT, 17));
    call(MPI_Status_set_cancelled(&status, 1));
    call(MPI_Get_elements(&status, MPI_INT, &count));
    call(MPI_Test_cancelled(&status, &cancelled));
    expect(count == 17 && cancelled);
}

static void everybody_to_everybody(void)
{
    int in[RANKS_MAX], right = 1;
    MPI_Request requests[2 * RANKS_MAX];
    for (int i = 0; i < size; i++)
        call(MPI_Irecv(&in[i], 1, MPI_INT, i, 26, MPI_COMM_WORLD, &requests[i]));
    for (int i = 0; i < size; i++)
        call(MPI_Isend(&rank, 1, MPI_INT, i, 26, MPI_COMM_WORLD, &requests[size + i]));
    call(MPI_Waitall(2 * size, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < size; i++)
        right &= in[i] == i;
    expect(right);
}

const struct check point_to_point[] = {
    CHECK(send_standard),
    CHECK(send_synchronous),
    CHECK(send_ready),
    CHECK(send_buffered),
    CHECK(send_begun),
    CHECK(send_synchronous_begun),
    CHECK(send_ready_begun),
    CHECK(send_buffered_begun),
    CHECK(send_buffered_before_receives),
#if MPI_VERSION >= 4
    CHECK(send_buffered_on_a_communicators_buffer),
#endif
    CHECK(buffer_that_is_full),
    CHECK(large_message),
    CHECK(message_without_elements),
    CHECK(message_to_itself),
    CHECK(message_on_self),
    CHECK(no_process),
    CHECK(any_source),
    CHECK(any_tag),
    CHECK(largest_tag),
    CHECK(messages_keep_their_order),
    CHECK(tags_choose_messages),
    CHECK(communicators_choose_messages),
    CHECK(receive_of_less),
    CHECK(receive_of_too_much),
    CHECK(probe),
    CHECK(probe_begun),
    CHECK(probe_of_no_process),
    CHECK(matched_probe),
    CHECK(matched_probe_begun),
    CHECK(matched_message_is_taken),
    CHECK(matched_probe_of_no_process),
    CHECK(exchange),
    CHECK(exchange_in_place),
    CHECK(exchange_begun),
    CHECK(exchange_in_place_begun),
#if MPI_VERSION >= 4
    CHECK(long_counts),
#endif
    CHECK(status_of_ones_own),
    CHECK(everybody_to_everybody),
    {0},
};
