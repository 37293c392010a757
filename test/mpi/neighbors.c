/*
 * Neighborhood collectives wait for nobody but neighbors: behind a call that one rank has not come to yet, those of the others end all
 * the same. That rank has no neighbors, and comes only when the others tell it that theirs have ended. Calls of Open MPI's own with
 * tags of their own are outstanding meanwhile, so ranks that count them differently are found out; a rank that has no data counts them,
 * too. `--alone`: without gpucoll, where Open MPI 4.1 does not see to that. `--passing`: the last rank has no accelerator, so it passes
 * the calls of the others.
 */
#include <stdlib.h>
#include <string.h>

#include "test/mpi/sums.h"
#include "test/mpi/support.h"

enum { COUNT = 100, ROUNDS = 4, TAG = 8 };

/* What the last rank has not come to. */
enum pending { BARRIER, SUM, DECLINED_SUM, FIRST_SUM, REQUEST, PENDINGS };
static const char *const pending_names[] = {"barrier", "sum", "declined_sum", "first_sum", "persistent_sum"};

enum form { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };
static const char *const form_names[] = {"blocking", "nonblocking", "persistent"};

/* What each rank sends to the next one and gets from the one before, round all ranks but the last. */
struct halo {
    struct test_buffer send;
    struct test_buffer recv;
};

static bool is_late(void)
{
    return test.rank == test.size - 1;
}

static int neighbor(int distance)
{
    const int others = test.size - 1;
    return (test.rank + others + distance) % others;
}

static MPI_Comm make_comm(void)
{
    const int degree = is_late() ? 0 : 1;
    const int source = is_late() ? 0 : neighbor(-1);
    const int target = is_late() ? 0 : neighbor(1);
    const int weight = 1;
    MPI_Comm comm;

    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, degree, &source, &weight, degree, &target, &weight,
                                   MPI_INFO_NULL, 0, &comm);
    return comm;
}

static int halo_value(uint64_t key, int rank, int i)
{
    return (int)(test_mix3(key, (uint64_t)rank, (uint64_t)i) % 100000);
}

static void halo_open(struct halo *halo, uint64_t key)
{
    const enum test_memory kind = test_memory_kind(key);
    int values[COUNT];

    for (int i = 0; i < COUNT; i++)
        values[i] = halo_value(key, test.rank, i);
    test_buffer_make(&halo->send, kind, sizeof values, 0, false);
    test_buffer_make(&halo->recv, kind, sizeof values, 0, false);
    test_buffer_write(&halo->send, 0, values, sizeof values);
}

static void halo_check(const struct halo *halo, uint64_t key, const char *what)
{
    int values[COUNT];

    test_buffer_read(&halo->recv, 0, values, sizeof values);
    for (int i = 0; i < COUNT && !is_late(); i++) {
        const int expected = halo_value(key, neighbor(-1), i);
        if (values[i] != expected) {
            test_fail("%s: element %d from rank %d is %d, not %d", what, i, neighbor(-1), values[i],
                      expected);
            break;
        }
    }
    test_buffer_check(&halo->recv, what);
}

/* From its begin to its end. */
static void exchange(struct halo *halo, enum form form, bool gather, MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    const void *from = halo->send.data;
    void *to = halo->recv.data;

    if (form == BLOCKING)
        test_ok(gather ? MPI_Neighbor_allgather(from, COUNT, MPI_INT, to, COUNT, MPI_INT, comm)
                       : MPI_Neighbor_alltoall(from, COUNT, MPI_INT, to, COUNT, MPI_INT, comm),
                "a blocking neighborhood collective");
    if (form == NONBLOCKING)
        test_ok(gather ? MPI_Ineighbor_allgather(from, COUNT, MPI_INT, to, COUNT, MPI_INT, comm, &request)
                       : MPI_Ineighbor_alltoall(from, COUNT, MPI_INT, to, COUNT, MPI_INT, comm, &request),
                "a nonblocking neighborhood collective");
#ifdef TEST_PERSISTENT
    if (form == PERSISTENT) {
        test_ok(gather ? TEST_PERSISTENT(Neighbor_allgather)(from, COUNT, MPI_INT, to, COUNT, MPI_INT, comm,
                                                             MPI_INFO_NULL, &request)
                       : TEST_PERSISTENT(Neighbor_alltoall)(from, COUNT, MPI_INT, to, COUNT, MPI_INT, comm,
                                                            MPI_INFO_NULL, &request),
                "the making of a persistent neighborhood collective");
        test_ok(MPI_Start(&request), "MPI_Start");
    }
#endif
    test_ok(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait for a neighborhood collective");
    if (form == PERSISTENT)
        MPI_Request_free(&request);
}

static void begin_pending(enum pending pending, struct sum *sum, MPI_Comm comm)
{
    if (pending == BARRIER)
        test_ok(MPI_Ibarrier(comm, &sum->request), "MPI_Ibarrier");
#ifdef TEST_PERSISTENT
    else if (pending == REQUEST)
        test_ok(TEST_PERSISTENT(Allreduce)(sum->send.data, sum->recv.data, sum->count, MPI_INT, MPI_SUM, comm,
                                           MPI_INFO_NULL, &sum->request),
                "the making of a persistent sum");
#endif
    else
        sum_post(sum, comm);
}

static void end_pending(enum pending pending, struct sum *sum)
{
    if (pending == REQUEST)
        test_ok(MPI_Start(&sum->request), "MPI_Start");
    if (pending == BARRIER)
        test_ok(MPI_Wait(&sum->request, MPI_STATUS_IGNORE), "MPI_Wait for the barrier");
    else
        sum_wait(sum);
    if (pending == REQUEST)
        MPI_Request_free(&sum->request);
}

static void user_sum(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] += ((const int *)in)[i];
}

static void run_round(enum pending pending, enum form form, uint64_t key, MPI_Op op, MPI_Comm comm)
{
    const enum test_memory other = is_late() ? TEST_HOST : TEST_DEVICE;
    struct sum sum, own;
    struct halo halo;

    sum_open(&sum, key, COUNT, pending == DECLINED_SUM ? other : test_memory_kind(key + 1));
    sum_open(&own, key + 2, COUNT, test_memory_kind(key + 2));
    halo_open(&halo, key);
    for (int rank = 0; is_late() && rank < test.size - 1; rank++)
        MPI_Recv(NULL, 0, MPI_INT, rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    begin_pending(pending, &sum, comm);
    test_ok(MPI_Iallreduce(own.send.data, own.recv.data, COUNT, MPI_INT, op, comm, &own.request),
            "MPI_Iallreduce with an operator of the application's");
    exchange(&halo, form, key % 2 == 0, comm);
    if (!is_late())
        MPI_Send(NULL, 0, MPI_INT, test.size - 1, TAG, MPI_COMM_WORLD);
    halo_check(&halo, key, "what the neighbor sent");
    sum_wait(&own);
    end_pending(pending, &sum);
    test_buffer_free(&halo.send);
    test_buffer_free(&halo.recv);
    sum_close(&own);
    sum_close(&sum);
}

/* A sum on the memory that the options say, so that the communicator has a team. */
static void make_team(MPI_Comm comm)
{
    struct sum sum;

    sum_open(&sum, 1, COUNT, test_memory_kind(0));
    test_ok(MPI_Allreduce(sum.send.data, sum.recv.data, COUNT, MPI_INT, MPI_SUM, comm), "MPI_Allreduce");
    sum_check(&sum, "sum");
    sum_close(&sum);
}

static void test_behind(enum pending pending, enum form form, MPI_Op op)
{
    MPI_Comm comm;

    if (!test_begin("%s/behind_a_%s", form_names[form], pending_names[pending]))
        return;
    comm = make_comm();
    if (pending != FIRST_SUM)
        make_team(comm);
    for (int round = 0; round < ROUNDS; round++) {
        run_round(pending, form, test_mix3(test.seed, (uint64_t)pending, (uint64_t)round), op, comm);
        if (pending == FIRST_SUM) {
            MPI_Comm_free(&comm);
            comm = make_comm();
        }
    }
    MPI_Comm_free(&comm);
    test_end();
}

/* In place, libnbc looks at a rank's own counts alone. Here the last one has none, and the others have data for each other or none. */
static void test_empty(bool all, MPI_Op op)
{
    enum { CALLS = 6 };
    MPI_Request requests[CALLS];
    struct test_buffer blocks[CALLS];
    struct sum own;
    MPI_Comm comm;
    int *counts, *displs;

    if (!test_begin("empty/%s", all ? "all_ranks" : "last_rank"))
        return;
    comm = make_comm();
    make_team(comm);
    counts = test_alloc((size_t)test.size * sizeof *counts);
    displs = test_alloc((size_t)test.size * sizeof *displs);
    for (int i = 0; i < test.size; i++) {
        counts[i] = all || is_late() || i == test.size - 1 ? 0 : COUNT;
        displs[i] = i * COUNT;
    }
    for (int i = 0; i < CALLS; i++) {
        test_buffer_make(&blocks[i], test_memory_kind((uint64_t)i), (size_t)(test.size * COUNT) * sizeof(int),
                         0, false);
        test_ok(MPI_Ialltoallv(MPI_IN_PLACE, NULL, NULL, MPI_INT, blocks[i].data, counts, displs, MPI_INT,
                               comm, &requests[i]),
                "MPI_Ialltoallv in place");
    }
    sum_open(&own, 3, COUNT, test_memory_kind(3));
    test_ok(MPI_Iallreduce(own.send.data, own.recv.data, COUNT, MPI_INT, op, comm, &own.request),
            "MPI_Iallreduce with an operator of the application's");
    sum_wait(&own);
    test_ok(MPI_Waitall(CALLS, requests, MPI_STATUSES_IGNORE), "MPI_Waitall");
    sum_close(&own);
    for (int i = 0; i < CALLS; i++)
        test_buffer_free(&blocks[i]);
    free(displs);
    free(counts);
    MPI_Comm_free(&comm);
    test_end();
}

/* Before MPI_Init, in the environment of this rank alone. */
static void take_accelerator(int argc, char **argv)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    const char *size = getenv("OMPI_COMM_WORLD_SIZE");

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--passing") == 0 && rank != NULL && size != NULL && atoi(rank) == atoi(size) - 1)
            setenv("OMPI_MCA_coll_gpucoll_accelerator", "none", 1);
}

int main(int argc, char **argv)
{
    bool alone = false, passing = false;
    const struct test_option own[] = {
        {"alone", &alone, NULL, "gpucoll does not see to it that calls without data are counted"},
        {"passing", &passing, NULL, "the last rank has no accelerator"},
        {NULL, NULL, NULL, NULL},
    };
    MPI_Op op;

    take_accelerator(argc, argv);
    test_start(&argc, &argv, MPI_THREAD_SINGLE, own);
    MPI_Op_create(user_sum, 1, &op);
    for (int form = 0; form < FORMS; form++) {
        for (int pending = 0; pending < PENDINGS; pending++) {
#ifndef TEST_PERSISTENT
            if (form == PERSISTENT || pending == REQUEST)
                continue;
#endif
            test_behind((enum pending)pending, (enum form)form, op);
        }
    }
    test_empty(true, op);
    if (!alone)
        test_empty(false, op);
    MPI_Op_free(&op);
    return test_finish();
}
