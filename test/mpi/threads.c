/*
 * MPI_THREAD_MULTIPLE: several threads of every rank run collectives at once, each thread on its own
 * communicator, in orders and at speeds that differ between the ranks; and communicators come and go
 * meanwhile. Then all collectives in all forms, each thread in an order of its own, many calls that pack, and
 * types that all threads use.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/collective.h"
#include "test/mpi/memory.h"
#include "test/mpi/support.h"

enum { THREADS = 4, COUNT_MAX = 20000 };

struct worker {
    pthread_t thread;
    MPI_Comm comm;
    struct test_comm described; /* `comm` */
    int number;
    int rounds;
};

static float value(uint64_t key, int rank, int i)
{
    return (float)(test_mix3(key, (uint64_t)rank, (uint64_t)i) % 512);
}

static void check_sum(const struct test_buffer *buffer, uint64_t key, int count, int number, int round)
{
    float *seen = test_alloc((size_t)count * sizeof *seen);

    test_buffer_read(buffer, 0, seen, (size_t)count * sizeof *seen);
    for (int i = 0; i < count; i++) {
        float expected = 0;
        for (int rank = 0; rank < test.size; rank++)
            expected += value(key, rank, i);
        if (seen[i] == expected)
            continue;
        test_fail("thread %d, round %d: element %d of %d is %g, not %g", number, round, i, count, seen[i],
                  expected);
        break;
    }
    test_buffer_check(buffer, "receive buffer");
    free(seen);
}

/* One sum, blocking or not. */
static void reduce_once(const struct worker *worker, MPI_Comm comm, int round)
{
    uint64_t key = test_mix3(test.seed, (uint64_t)worker->number, (uint64_t)round);
    uint64_t state = key;
    int count = 1 + test_draw(&state, test_chance(&state, 20) ? COUNT_MAX : 200);
    bool nonblocking = test_chance(&state, 30);
    struct test_buffer send, recv;
    float *mine = test_alloc((size_t)count * sizeof *mine);
    MPI_Request request = MPI_REQUEST_NULL;

    for (int i = 0; i < count; i++)
        mine[i] = value(key, test.rank, i);
    test_buffer_make(&send, test_memory_kind(key), (size_t)count * sizeof *mine, 0, false);
    test_buffer_make(&recv, test_memory_kind(key + 1), (size_t)count * sizeof *mine, 0, false);
    test_buffer_write(&send, 0, mine, (size_t)count * sizeof *mine);
    if (nonblocking) {
        test_ok(MPI_Iallreduce(send.data, recv.data, count, MPI_FLOAT, MPI_SUM, comm, &request),
                "MPI_Iallreduce");
        test_ok(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    } else {
        test_ok(MPI_Allreduce(send.data, recv.data, count, MPI_FLOAT, MPI_SUM, comm), "MPI_Allreduce");
    }
    check_sum(&recv, key, count, worker->number, round);
    test_buffer_free(&send);
    test_buffer_free(&recv);
    free(mine);
}

/* Element i of what `from` sends `to`, or to all. */
static float moved(uint64_t key, int from, int to, int i)
{
    return value(test_mix2(key, (uint64_t)to), from, i);
}

enum { BCAST, GATHER, ALLGATHER, ALLTOALL, MOVES };

static int issue_move(int which, const struct test_buffer *send, const struct test_buffer *recv, int count,
                      int root, MPI_Comm comm, MPI_Request *request)
{
    switch (which) {
    case BCAST:
        return request == NULL ? MPI_Bcast(recv->data, count, MPI_FLOAT, root, comm)
                               : MPI_Ibcast(recv->data, count, MPI_FLOAT, root, comm, request);
    case GATHER:
        return request == NULL
                   ? MPI_Gather(send->data, count, MPI_FLOAT, recv->data, count, MPI_FLOAT, root, comm)
                   : MPI_Igather(send->data, count, MPI_FLOAT, recv->data, count, MPI_FLOAT, root, comm,
                                 request);
    case ALLGATHER:
        return request == NULL
                   ? MPI_Allgather(send->data, count, MPI_FLOAT, recv->data, count, MPI_FLOAT, comm)
                   : MPI_Iallgather(send->data, count, MPI_FLOAT, recv->data, count, MPI_FLOAT, comm,
                                    request);
    default:
        return request == NULL
                   ? MPI_Alltoall(send->data, count, MPI_FLOAT, recv->data, count, MPI_FLOAT, comm)
                   : MPI_Ialltoall(send->data, count, MPI_FLOAT, recv->data, count, MPI_FLOAT, comm, request);
    }
}

/* One call that moves data, blocking or not: a block for each rank, or one for all. */
static void move_once(const struct worker *worker, int round)
{
    uint64_t key = test_mix3(test.seed + 1, (uint64_t)worker->number, (uint64_t)round);
    uint64_t state = key;
    int which = test_draw(&state, MOVES), root = test_draw(&state, test.size);
    int count = 1 + test_draw(&state, test_chance(&state, 20) ? COUNT_MAX : 200);
    int sent = which == ALLTOALL ? test.size : 1, received = which == BCAST ? 1 : test.size;
    bool receives = which != GATHER || test.rank == root;
    size_t floats = (size_t)(count * test.size);
    float *image = test_alloc(floats * sizeof *image);
    struct test_buffer send, recv;
    MPI_Request request = MPI_REQUEST_NULL;

    for (int i = 0; i < count * sent; i++)
        image[i] = moved(key, test.rank, sent > 1 ? i / count : 0, i % count);
    test_buffer_make(&send, test_memory_kind(key), floats * sizeof *image, 0, false);
    test_buffer_make(&recv, test_memory_kind(key + 1), floats * sizeof *image, 0, false);
    test_buffer_write(which == BCAST ? &recv : &send, 0, image, (size_t)(count * sent) * sizeof *image);
    if (test_chance(&state, 30)) {
        test_ok(issue_move(which, &send, &recv, count, root, worker->comm, &request), "a nonblocking call");
        test_ok(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    } else {
        test_ok(issue_move(which, &send, &recv, count, root, worker->comm, NULL), "a blocking call");
    }
    test_buffer_read(&recv, 0, image, (size_t)(count * received) * sizeof *image);
    for (int i = 0; i < count * received && receives; i++) {
        int from = which == BCAST ? root : i / count;
        if (image[i] == moved(key, from, which == ALLTOALL ? test.rank : 0, i % count))
            continue;
        test_fail("thread %d, round %d, kind %d: element %d is wrong", worker->number, round, which, i);
        break;
    }
    test_buffer_check(&recv, "receive buffer");
    test_buffer_free(&send);
    test_buffer_free(&recv);
    free(image);
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    uint64_t state = test_mix2(test.seed, (uint64_t)(test.rank * THREADS + worker->number));

    test_memory_thread();
    for (int round = 0; round < worker->rounds; round++) {
        if (test_chance(&state, 10))
            test_sleep(0.001);
        reduce_once(worker, worker->comm, round);
        move_once(worker, round);
        /* One thread alone makes communicators: Open MPI 4.1 can hang when two do. */
        if (worker->number == 0 && round % 8 == 0) {
            MPI_Comm dup = MPI_COMM_NULL;
            test_ok(MPI_Comm_dup(worker->comm, &dup), "MPI_Comm_dup");
            reduce_once(worker, dup, round + 100000);
            MPI_Comm_free(&dup);
        }
    }
    return NULL;
}

/* A collective of the table in a form, drawn otherwise in each thread; persistent ones are started twice. */
static void call_once(const struct worker *worker, int which)
{
    const struct test_collective *row = &test_collectives[which / TEST_FORMS];
    enum test_form form = (enum test_form)(which % TEST_FORMS);
    struct test_call call;
    bool right = true;

    if (!test_collective_fits(row, &worker->described) || !test_form_exists(form) ||
        (row->is_local && form != TEST_BLOCKING))
        return;
    test_call_open(&call, row, form, &worker->described, which, 0, false, false);
    if (form == TEST_PERSISTENT_FORM)
        right = test_ok(test_issue(&call), "the initialisation");
    for (int round = 0; right && round < (form == TEST_PERSISTENT_FORM ? 2 : 1); round++) {
        test_call_fill(&call, round);
        right =
            test_ok(form == TEST_PERSISTENT_FORM ? MPI_Start(&call.request) : test_issue(&call), row->name);
        right = right && test_ok(MPI_Wait(&call.request, MPI_STATUS_IGNORE), "MPI_Wait");
        right = right && test_call_check(&call);
    }
    if (form == TEST_PERSISTENT_FORM && call.request != MPI_REQUEST_NULL)
        test_ok(MPI_Request_free(&call.request), "MPI_Request_free");
    test_call_close(&call);
}

/* All of them, in an order that is the same on all ranks. */
static void *call_all(void *arg)
{
    struct worker *worker = arg;
    int count = test_collective_count * TEST_FORMS;
    int *order = test_alloc((size_t)count * sizeof *order);
    uint64_t state = test_mix2(test.seed + 2, (uint64_t)worker->number);

    test_memory_thread();
    test_shuffle(order, count, &state);
    for (int i = 0; i < count; i++)
        call_once(worker, order[i]);
    free(order);
    return NULL;
}

/* Blocks with gaps, which are packed, by all threads at once, again and again. */
static void *gather_apart(void *arg)
{
    enum { COUNT = 1000 };
    struct worker *worker = arg;
    const int count = 2 * COUNT * test.size;
    float *seen = test_alloc((size_t)count * sizeof *seen);
    float *mine = test_alloc(2 * COUNT * sizeof *mine);
    struct test_buffer send, recv;
    MPI_Datatype vector, apart;

    test_memory_thread();
    MPI_Type_vector(COUNT, 1, 2, MPI_FLOAT, &vector);
    MPI_Type_create_resized(vector, 0, 2 * COUNT * sizeof *mine, &apart);
    MPI_Type_commit(&apart);
    test_buffer_make(&send, test_memory_kind(1), 2 * COUNT * sizeof *mine, 0, false);
    test_buffer_make(&recv, test_memory_kind(2), (size_t)count * sizeof *seen, 0, false);
    for (int round = 0; round < worker->rounds; round++) {
        const uint64_t key = test_mix3(test.seed + 3, (uint64_t)worker->number, (uint64_t)round);
        for (int i = 0; i < 2 * COUNT; i++)
            mine[i] = value(key, test.rank, i);
        test_buffer_write(&send, 0, mine, 2 * COUNT * sizeof *mine);
        if (!test_ok(MPI_Allgather(send.data, 1, apart, recv.data, 1, apart, worker->comm), "MPI_Allgather"))
            break;
        test_buffer_read(&recv, 0, seen, (size_t)count * sizeof *seen);
        for (int i = 0; i < count; i += 2)
            if (seen[i] != value(key, i / (2 * COUNT), i % (2 * COUNT))) {
                test_fail("thread %d, round %d: element %d is wrong", worker->number, round, i);
                break;
            }
    }
    test_buffer_free(&send);
    test_buffer_free(&recv);
    MPI_Type_free(&apart);
    MPI_Type_free(&vector);
    free(mine);
    free(seen);
    return NULL;
}

/* More types than the component keeps, which all threads use at once. */
enum { SHARED = 80 };
static MPI_Datatype shared_types[SHARED];
static pthread_barrier_t together;

/* Elements 0 and 2 + i of type i. */
static void make_shared_types(void)
{
    pthread_barrier_init(&together, NULL, THREADS);
    for (int i = 0; i < SHARED; i++) {
        MPI_Type_vector(2, 1, 2 + i, MPI_FLOAT, &shared_types[i]);
        MPI_Type_commit(&shared_types[i]);
    }
}

static void free_shared_types(void)
{
    for (int i = 0; i < SHARED; i++)
        MPI_Type_free(&shared_types[i]);
    pthread_barrier_destroy(&together);
}

static void share_one_type(const struct worker *worker, struct test_buffer *buffer, int i, uint64_t key)
{
    const int root = i % test.size;
    float image[SHARED + 2] = {0};

    if (test.rank == root) {
        image[0] = value(key, root, 0);
        image[2 + i] = value(key, root, 1);
    }
    test_buffer_write(buffer, 0, image, sizeof image);
    pthread_barrier_wait(&together);
    test_ok(MPI_Bcast(buffer->data, 1, shared_types[i], root, worker->comm), "MPI_Bcast");
    test_buffer_read(buffer, 0, image, sizeof image);
    if (image[0] != value(key, root, 0) || image[2 + i] != value(key, root, 1) || image[1] != 0)
        test_fail("thread %d: type %d arrives as %g, %g and %g", worker->number, i, image[0], image[1],
                  image[2 + i]);
}

static void *share_types(void *arg)
{
    struct worker *worker = arg;
    struct test_buffer buffer;

    test_memory_thread();
    test_buffer_make(&buffer, test_memory_kind(3), (SHARED + 2) * sizeof(float), 0, false);
    for (int round = 0; round < worker->rounds / 20; round++)
        for (int i = 0; i < SHARED; i++)
            share_one_type(worker, &buffer, i,
                           test_mix3(test.seed + 4, (uint64_t)worker->number, (uint64_t)round));
    test_buffer_check(&buffer, "buffer");
    test_buffer_free(&buffer);
    return NULL;
}

static void test_threads(const char *name, void *(*body)(void *), const struct test_comm *world)
{
    struct worker workers[THREADS];

    if (!test_begin_threaded(name))
        return;
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.number = i, .rounds = test.quick ? 20 : 60, .described = *world};
        MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm);
        MPI_Comm_set_errhandler(workers[i].comm, MPI_ERRORS_RETURN);
        workers[i].described.comm = workers[i].comm;
        workers[i].described.slot = i; /* by which calls are drawn */
    }
    test_memory_thread(); /* finds the GPU before several threads look for it */
    for (int i = 0; i < THREADS; i++)
        pthread_create(&workers[i].thread, NULL, body, &workers[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&workers[i].comm);
    test_end();
}

int main(int argc, char **argv)
{
    struct test_comm comms[TEST_COMMS_MAX];

    test_start(&argc, &argv, MPI_THREAD_MULTIPLE, NULL);
    int comm_count = test_comms_make(comms);
    test_layouts_make();
    test_threads("threads/own_communicators", work, &comms[0]);
    test_threads("threads/all_collectives", call_all, &comms[0]);
    test_threads("threads/packed", gather_apart, &comms[0]);
    make_shared_types();
    test_threads("threads/shared_types", share_types, &comms[0]);
    free_shared_types();
    test_layouts_free();
    test_comms_free(comms, comm_count);
    return test_finish();
}
