/*
 * CUDA graphs captured in the mode `global`, in which the driver refuses all threads what it takes to be unsafe, and gives the capture up when it
 * is asked for it. Collectives before, within and after captures leave them alone and have right results.
 */
#include <stdlib.h>

#include "test/mpi/memory.h"
#include "test/mpi/support.h"

enum { FILLED = 0x5a, CAPTURED_BYTES = 4096, STRIDE = 3 };

struct call {
    const char *name;
    bool vectors; /* of ints with gaps, which a kernel packs */
    bool own_op;  /* by a function of this program: through host memory */
    bool on_host; /* what rank 0 sends */
};

static const struct call calls[] = {
    {.name = "ints"},
    {.name = "vectors", .vectors = true},
    {.name = "own_op", .own_op = true},
    {.name = "mixed", .on_host = true},
};

struct job {
    const struct call *call;
    struct test_buffer send;
    struct test_buffer recv;
    struct test_buffer captured; /* what the graph fills */
    MPI_Datatype type;
    MPI_Op op;
    int count;
    int step; /* from one int to the next */
    void *stream;
};

static void add(void *in, void *inout, int *length, MPI_Datatype *type)
{
    const int *from = in;
    int *to = inout;
    (void)type;
    for (int i = 0; i < *length; i++)
        to[i] += from[i];
}

static int value(int rank, int index)
{
    return (int)(test_mix3(test.seed, (uint64_t)rank, (uint64_t)index) & 0xfffff);
}

static void fill(struct job *job)
{
    const size_t ints = (size_t)job->count * (size_t)job->step;
    int *values = calloc(ints, sizeof *values);

    for (int i = 0; i < job->count; i++)
        values[i * job->step] = value(test.rank, i);
    test_buffer_write(&job->send, 0, values, ints * sizeof *values);
    free(values);
}

static void open_job(struct job *job, const struct call *call, int count)
{
    job->call = call;
    job->count = count;
    job->step = call->vectors ? STRIDE : 1;
    const size_t bytes = (size_t)count * (size_t)job->step * sizeof(int);
    test_buffer_make(&job->send, call->on_host && test.rank == 0 ? TEST_HOST : TEST_DEVICE, bytes, 0, false);
    test_buffer_make(&job->recv, TEST_DEVICE, bytes, 0, false);
    test_buffer_make(&job->captured, TEST_DEVICE, CAPTURED_BYTES, 0, false);
    fill(job);
    job->type = MPI_INT;
    if (call->vectors) {
        test_ok(MPI_Type_create_resized(MPI_INT, 0, STRIDE * sizeof(int), &job->type),
                "MPI_Type_create_resized");
        test_ok(MPI_Type_commit(&job->type), "MPI_Type_commit");
    }
    job->op = MPI_SUM;
    if (call->own_op)
        test_ok(MPI_Op_create(add, 1, &job->op), "MPI_Op_create");
    job->stream = test_stream_open();
}

static void close_job(struct job *job)
{
    test_stream_close(job->stream);
    if (job->call->own_op)
        test_ok(MPI_Op_free(&job->op), "MPI_Op_free");
    if (job->call->vectors)
        test_ok(MPI_Type_free(&job->type), "MPI_Type_free");
    test_buffer_free(&job->captured);
    test_buffer_free(&job->recv);
    test_buffer_free(&job->send);
}

/* Vectors cannot be reduced: they are gathered by a broadcast of rank 0's. */
static void start(struct job *job, MPI_Comm comm, MPI_Request *request)
{
    if (job->call->vectors)
        test_ok(MPI_Ibcast(test.rank == 0 ? job->send.data : job->recv.data, job->count, job->type, 0, comm,
                           request),
                "MPI_Ibcast");
    else
        test_ok(MPI_Iallreduce(job->send.data, job->recv.data, job->count, job->type, job->op, comm, request),
                "MPI_Iallreduce");
}

static void call_blocking(struct job *job, MPI_Comm comm)
{
    if (job->call->vectors)
        test_ok(MPI_Bcast(test.rank == 0 ? job->send.data : job->recv.data, job->count, job->type, 0, comm),
                "MPI_Bcast");
    else
        test_ok(MPI_Allreduce(job->send.data, job->recv.data, job->count, job->type, job->op, comm),
                "MPI_Allreduce");
}

static int expected(const struct job *job, int index)
{
    int sum = value(0, index);
    for (int rank = 1; rank < test.size && !job->call->vectors; rank++)
        sum += value(rank, index);
    return sum;
}

static void check(const struct job *job, const char *what)
{
    const size_t ints = (size_t)job->count * (size_t)job->step;
    int *values = malloc(ints * sizeof *values);

    test_buffer_read(&job->recv, 0, values, ints * sizeof *values);
    for (int i = 0; i < job->count && !(job->call->vectors && test.rank == 0); i++) {
        if (values[i * job->step] != expected(job, i)) {
            test_fail("%s: element %d of %d is %d, not %d", what, i, job->count, values[i * job->step],
                      expected(job, i));
            break;
        }
    }
    test_buffer_check(&job->recv, what);
    free(values);
}

static void check_graph(const struct job *job, int error)
{
    unsigned char bytes[CAPTURED_BYTES];

    if (error != 0) {
        test_fail("the graph: CUDA error %d", error);
        return;
    }
    test_buffer_read(&job->captured, 0, bytes, sizeof bytes);
    for (int i = 0; i < CAPTURED_BYTES; i++) {
        if (bytes[i] != FILLED) {
            test_fail("byte %d that the graph writes is %#x", i, bytes[i]);
            return;
        }
    }
}

/* A call that is under way when the capture begins, and longer. */
static void test_under_way(const struct call *call, int count)
{
    struct job job;
    MPI_Request request;

    if (!test_begin("under_way/%s/%d", call->name, count))
        return;
    open_job(&job, call, count);
    start(&job, MPI_COMM_WORLD, &request);
    test_capture_begin(job.stream, &job.captured, FILLED);
    for (double end = MPI_Wtime() + 0.02; MPI_Wtime() < end;)
        ;
    const int error = test_capture_end(job.stream);
    test_ok(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    check_graph(&job, error);
    check(&job, "the call under way");
    close_job(&job);
    test_end();
}

/* Calls of the thread that captures, on a communicator and with buffers that are new. */
static void test_within(const struct call *call, int count)
{
    struct job job;
    MPI_Comm comm;
    MPI_Request request;

    if (!test_begin("within/%s/%d", call->name, count))
        return;
    open_job(&job, call, count);
    test_ok(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
    test_capture_begin(job.stream, &job.captured, FILLED);
    call_blocking(&job, comm);
    start(&job, comm, &request);
    test_ok(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    check_graph(&job, test_capture_end(job.stream));
    check(&job, "calls within");
    test_ok(MPI_Comm_free(&comm), "MPI_Comm_free");
    close_job(&job);
    test_end();
}

int main(int argc, char **argv)
{
    static const int counts[] = {100, 50000, 6000000};

    test_start(&argc, &argv, MPI_THREAD_SINGLE, NULL);
    if (!test_memory_has_gpu()) {
        if (test_begin("graphs")) {
            test_skip("no GPU");
            test_end();
        }
        return test_finish();
    }
    /* Those within first: with them gpucoll sets up. */
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        for (size_t j = 0; j < sizeof counts / sizeof counts[0]; j++)
            test_within(&calls[i], counts[j]);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        for (size_t j = 0; j < sizeof counts / sizeof counts[0]; j++)
            test_under_way(&calls[i], counts[j]);
    return test_finish();
}
