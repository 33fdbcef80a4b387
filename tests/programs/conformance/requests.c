/* Requests: ways to wait and to test, cancelling, freeing, persistent, partitioned and generalised ones. */
#include "conformance.h"

enum { FEW = 4 };

/* FEW receives from the previous rank, and FEW sends to the next one after them. */
struct traffic {
    int out[FEW], in[FEW];
    MPI_Request requests[2 * FEW];
};

static void begin(struct traffic *t)
{
    for (int i = 0; i < FEW; i++) {
        t->out[i] = 100 * rank + i;
        t->in[i] = -1;
        call(MPI_Irecv(&t->in[i], 1, MPI_INT, previous, i, MPI_COMM_WORLD, &t->requests[i]));
    }
    for (int i = 0; i < FEW; i++)
        call(MPI_Isend(&t->out[i], 1, MPI_INT, next, i, MPI_COMM_WORLD, &t->requests[FEW + i]));
}

static void expect_all(const struct traffic *t)
{
    for (int i = 0; i < FEW; i++)
        expect(t->in[i] == 100 * previous + i);
    for (int i = 0; i < 2 * FEW; i++)
        expect(t->requests[i] == MPI_REQUEST_NULL);
}

static void wait_for_one_after_another(void)
{
    struct traffic t;
    begin(&t);
    for (int i = 2 * FEW - 1; i >= 0; i--)
        call(MPI_Wait(&t.requests[i], MPI_STATUS_IGNORE));
    expect_all(&t);
}

static void wait_for_all(void)
{
    struct traffic t;
    MPI_Status statuses[2 * FEW];
    begin(&t);
    call(MPI_Waitall(2 * FEW, t.requests, statuses));
    for (int i = 0; i < FEW; i++)
        expect(statuses[i].MPI_TAG == i && statuses[i].MPI_SOURCE == previous);
    expect_all(&t);
}

static void wait_for_any(void)
{
    struct traffic t;
    int which, seen = 0;
    begin(&t);
    for (int i = 0; i < 2 * FEW; i++) {
        call(MPI_Waitany(2 * FEW, t.requests, &which, MPI_STATUS_IGNORE));
        if (expect(which >= 0 && which < 2 * FEW))
            seen |= 1 << which;
    }
    expect(seen == (1 << 2 * FEW) - 1);
    call(MPI_Waitany(2 * FEW, t.requests, &which, MPI_STATUS_IGNORE));
    expect(which == MPI_UNDEFINED);
    expect_all(&t);
}

static void wait_for_some(void)
{
    struct traffic t;
    int count, which[2 * FEW], done = 0;
    begin(&t);
    while (done < 2 * FEW) {
        call(MPI_Waitsome(2 * FEW, t.requests, &count, which, MPI_STATUSES_IGNORE));
        if (!expect(count > 0))
            return;
        done += count;
    }
    expect_all(&t);
}

static void test_until_done(void)
{
    struct traffic t;
    begin(&t);
    for (int i = 0; i < 2 * FEW; i++)
        for (int done = 0; !done;)
            if (call(MPI_Test(&t.requests[i], &done, MPI_STATUS_IGNORE)) != MPI_SUCCESS)
                return;
    expect_all(&t);
}

static void test_all(void)
{
    struct traffic t;
    begin(&t);
    for (int done = 0; !done;)
        if (call(MPI_Testall(2 * FEW, t.requests, &done, MPI_STATUSES_IGNORE)) != MPI_SUCCESS)
            return;
    expect_all(&t);
}

static void test_any(void)
{
    struct traffic t;
    int which, is_done, done = 0;
    begin(&t);
    while (done < 2 * FEW) {
        if (call(MPI_Testany(2 * FEW, t.requests, &which, &is_done, MPI_STATUS_IGNORE)) != MPI_SUCCESS)
            return;
        done += is_done;
    }
    expect_all(&t);
}

static void test_some(void)
{
    struct traffic t;
    int which[2 * FEW], count, done = 0;
    begin(&t);
    while (done < 2 * FEW) {
        if (call(MPI_Testsome(2 * FEW, t.requests, &count, which, MPI_STATUSES_IGNORE)) != MPI_SUCCESS)
            return;
        done += count;
    }
    expect_all(&t);
}

static void look_without_end(void)
{
    struct traffic t;
    begin(&t);
    for (int done = 0; !done;)
        if (call(MPI_Request_get_status(t.requests[0], &done, MPI_STATUS_IGNORE)) != MPI_SUCCESS)
            return;
    expect(t.requests[0] != MPI_REQUEST_NULL && t.in[0] == 100 * previous);
    call(MPI_Waitall(2 * FEW, t.requests, MPI_STATUSES_IGNORE));
    expect_all(&t);
}

static void no_request(void)
{
    int done = 0, count = 0;
    MPI_Request none = MPI_REQUEST_NULL;
    MPI_Status status;
    call(MPI_Test(&none, &done, &status));
    expect(done && status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG);
    call(MPI_Get_count(&status, MPI_INT, &count));
    expect(count == 0);
}

static void free_of_a_send(void)
{
    int out = rank, in = -1;
    MPI_Request request;
    call(MPI_Isend(&out, 1, MPI_INT, next, 31, MPI_COMM_WORLD, &request));
    call(MPI_Request_free(&request));
    expect(request == MPI_REQUEST_NULL);
    call(MPI_Recv(&in, 1, MPI_INT, previous, 31, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    expect(in == previous);
    call(MPI_Barrier(MPI_COMM_WORLD));
}

static void cancelled_receive(void)
{
    int in = -1, cancelled = 0;
    MPI_Request request;
    MPI_Status status;
    call(MPI_Irecv(&in, 1, MPI_INT, previous, 32, MPI_COMM_WORLD, &request));
    call(MPI_Cancel(&request));
    call(MPI_Wait(&request, &status));
    call(MPI_Test_cancelled(&status, &cancelled));
    expect(cancelled && in == -1);
}

/* Three rounds of a persistent send of this mode. */
static void persistent_ring(int (*init)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *))
{
    int out = -1, in = -1;
    MPI_Request both[2];
    call(MPI_Recv_init(&in, 1, MPI_INT, previous, 33, MPI_COMM_WORLD, &both[0]));
    call(init(&out, 1, MPI_INT, next, 33, MPI_COMM_WORLD, &both[1]));
    for (int round = 0; round < 3; round++) {
        out = 10 * rank + round;
        in = -1;
        call(MPI_Start(&both[0]));
        call(MPI_Barrier(MPI_COMM_WORLD));
        call(MPI_Start(&both[1]));
        call(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
        expect(in == 10 * previous + round);
        expect(both[0] != MPI_REQUEST_NULL && both[1] != MPI_REQUEST_NULL);
    }
    call(MPI_Request_free(&both[0]));
    call(MPI_Request_free(&both[1]));
}

static void persistent_standard(void)
{
    persistent_ring(MPI_Send_init);
}

static void persistent_synchronous(void)
{
    persistent_ring(MPI_Ssend_init);
}

static void persistent_ready(void)
{
    persistent_ring(MPI_Rsend_init);
}

static void persistent_buffered(void)
{
    static char room[16 * MPI_BSEND_OVERHEAD];
    void *back;
    int length;
    call(MPI_Buffer_attach(room, sizeof room));
    persistent_ring(MPI_Bsend_init);
    call(MPI_Buffer_detach(&back, &length));
}

static void persistent_started_together(void)
{
    int out = rank, in = -1;
    MPI_Request both[2];
    call(MPI_Send_init(&out, 1, MPI_INT, next, 34, MPI_COMM_WORLD, &both[0]));
    call(MPI_Recv_init(&in, 1, MPI_INT, previous, 34, MPI_COMM_WORLD, &both[1]));
    call(MPI_Startall(2, both));
    call(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
    expect(in == previous);
    call(MPI_Request_free(&both[0]));
    call(MPI_Request_free(&both[1]));
}

/* One that is not started is complete and empty. */
static void persistent_not_started(void)
{
    int in = 5, done = 0;
    MPI_Request request;
    call(MPI_Recv_init(&in, 1, MPI_INT, previous, 35, MPI_COMM_WORLD, &request));
    call(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    expect(done && in == 5);
    call(MPI_Request_free(&request));
}

static void partitioned_with(int (*ready)(MPI_Request))
{
    enum { PARTS = 4, EACH = 100 };
    int out[PARTS * EACH] = {0}, in[PARTS * EACH] = {0}, right = 1;
    MPI_Request both[2];
    call(MPI_Psend_init(out, PARTS, EACH, MPI_INT, next, 36, MPI_COMM_WORLD, MPI_INFO_NULL, &both[0]));
    call(MPI_Precv_init(in, PARTS, EACH, MPI_INT, previous, 36, MPI_COMM_WORLD, MPI_INFO_NULL, &both[1]));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < PARTS * EACH; i++) {
            out[i] = rank + i + round;
            in[i] = -1;
        }
        call(MPI_Startall(2, both));
        call(ready(both[0]));
        for (int arrived = 0; !arrived;)
            if (call(MPI_Parrived(both[1], PARTS - 1, &arrived)) != MPI_SUCCESS)
                break;
        call(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
        for (int i = 0; i < PARTS * EACH; i++)
            right &= in[i] == previous + i + round;
    }
    expect(right);
    call(MPI_Request_free(&both[0]));
    call(MPI_Request_free(&both[1]));
}

static int one_by_one(MPI_Request request)
{
    int code = MPI_SUCCESS;
    for (int i = 3; i >= 0 && code == MPI_SUCCESS; i--)
        code = MPI_Pready(i, request);
    return code;
}

static int by_range(MPI_Request request)
{
    return MPI_Pready_range(0, 3, request);
}

static int by_list(MPI_Request request)
{
    return MPI_Pready_list(4, (int[]){2, 0, 3, 1}, request);
}

static void partitioned(void)
{
    partitioned_with(one_by_one);
}

static void partitioned_by_range(void)
{
    partitioned_with(by_range);
}

static void partitioned_by_list(void)
{
    partitioned_with(by_list);
}

static int queried, freed, cancelled_with;

static int on_query(void *extra, MPI_Status *status)
{
    queried += *(int *)extra;
    MPI_Status_set_elements(status, MPI_INT, 6);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = status->MPI_TAG = 0;
    return MPI_SUCCESS;
}

static int on_free(void *extra)
{
    freed += *(int *)extra;
    return MPI_SUCCESS;
}

static int on_cancel(void *extra, int complete)
{
    (void)extra;
    cancelled_with = complete;
    return MPI_SUCCESS;
}

static void generalised(void)
{
    static int one = 1;
    int count = 0, done = 1;
    MPI_Request request;
    MPI_Status status;
    queried = freed = 0;
    cancelled_with = -1;
    call(MPI_Grequest_start(on_query, on_free, on_cancel, &one, &request));
    call(MPI_Test(&request, &done, &status));
    expect(!done);
    call(MPI_Cancel(&request));
    expect(cancelled_with == 0);
    call(MPI_Grequest_complete(request));
    call(MPI_Wait(&request, &status));
    call(MPI_Get_count(&status, MPI_INT, &count));
    expect(queried >= 1 && freed == 1 && count == 6);
}

const struct check requests[] = {
    CHECK(wait_for_one_after_another),
    CHECK(wait_for_all),
    CHECK(wait_for_any),
    CHECK(wait_for_some),
    CHECK(test_until_done),
    CHECK(test_all),
    CHECK(test_any),
    CHECK(test_some),
    CHECK(look_without_end),
    CHECK(no_request),
    CHECK(free_of_a_send),
    CHECK(cancelled_receive),
    CHECK(persistent_standard),
    CHECK(persistent_synchronous),
    CHECK(persistent_ready),
    CHECK(persistent_buffered),
    CHECK(persistent_started_together),
    CHECK(persistent_not_started),
    CHECK(partitioned),
    CHECK(partitioned_by_range),
    CHECK(partitioned_by_list),
    CHECK(generalised),
    {0},
};
