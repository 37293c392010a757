/*
 * What nonblocking and persistent collectives promise beyond their result: many outstanding at once and completed
 * in any order, kinds of calls that go different ways in one sequence, persistent requests started in different
 * orders, requests and communicators freed early, errors in the status, and progress while the application
 * computes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/memory.h"
#include "test/mpi/sums.h"
#include "test/mpi/support.h"
#include "test/mpi/ways.h"

enum { MOST = 1000, COUNT = 60 };

static void user_sum(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] += ((const int *)in)[i];
}

static uint64_t own_state(uint64_t key)
{
    return test_mix3(test.seed, key, (uint64_t)test.rank);
}

static void test_outstanding(int n)
{
    static struct sum sums[MOST];
    static int order[MOST];
    uint64_t state = own_state((uint64_t)n);

    if (!test_begin("outstanding/%d_in_any_order", n))
        return;
    test_ways_before();
    for (int i = 0; i < n; i++) {
        sum_open(&sums[i], (uint64_t)i, 1 + i % COUNT, test_memory_kind((uint64_t)i));
        sum_post(&sums[i], MPI_COMM_WORLD);
    }
    test_shuffle(order, n, &state);
    for (int i = 0; i < n; i++)
        sum_wait(&sums[order[i]]);
    test_ways_after((unsigned)n, "outstanding sums");
    for (int i = 0; i < n; i++)
        sum_close(&sums[i]);
    test_end();
}

/* One call that another component runs: of an own operator, of no data, or of memory that only some ranks have on
 * the device. */
static void post_other(struct sum *sum, int which, MPI_Op op, MPI_Comm comm)
{
    switch (which) {
    case 0:
        test_ok(MPI_Iallreduce(sum->send.data, sum->recv.data, sum->count, MPI_INT, op, comm, &sum->request),
                "MPI_Iallreduce of an own operator");
        return;
    case 1: {
        MPI_Request barrier;
        test_ok(MPI_Ibarrier(comm, &barrier), "MPI_Ibarrier");
        sum_post(sum, comm);
        test_ok(MPI_Wait(&barrier, MPI_STATUS_IGNORE), "MPI_Wait for a barrier");
        return;
    }
    case 2: {
        int zero = 0;
        MPI_Request empty;
        test_ok(MPI_Ibcast(&zero, 0, MPI_INT, 0, comm, &empty), "MPI_Ibcast of nothing");
        sum_post(sum, comm);
        test_ok(MPI_Wait(&empty, MPI_STATUS_IGNORE), "MPI_Wait for nothing");
        return;
    }
    default:
        sum_post(sum, comm);
    }
}

/* Calls that run natively, that all ranks decline, and that never could, mixed; ranks dawdle at different places. */
static void test_mixed(void)
{
    enum { CALLS = 40, ROUNDS = 5 };
    struct sum sums[CALLS];
    int order[CALLS];
    MPI_Op op;

    if (!test_begin("order/native_declined_and_others_mixed"))
        return;
    MPI_Op_create(user_sum, 1, &op);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t common = test_mix2(test.seed, (uint64_t)round);
        uint64_t own = own_state((uint64_t)round);
        for (int i = 0; i < CALLS; i++) {
            int which = test_draw(&common, 8);
            bool odd_one = which == 3 && test_draw(&common, test.size) == test.rank;
            sum_open(&sums[i], common, 1 + i, odd_one ? TEST_HOST : test_memory_kind(common));
            if (test_chance(&own, 5))
                test_sleep(0.001);
            post_other(&sums[i], which, op, MPI_COMM_WORLD);
        }
        test_shuffle(order, CALLS, &own);
        for (int i = 0; i < CALLS; i++)
            sum_wait(&sums[order[i]]);
        for (int i = 0; i < CALLS; i++)
            sum_close(&sums[i]);
    }
    MPI_Op_free(&op);
    test_end();
}

/* Long sums in buffers that are used again: peers get at these themselves. */
static void test_used_again(void)
{
    enum { CALLS = 3, ROUNDS = 4 };
    const int count = test_memory_has_gpu() ? 1 << 19 : 1 << 14; /* a GPU's memory is shared from 2 MiB on */
    struct sum sums[CALLS];

    if (!test_begin("outstanding/long_in_buffers_used_again"))
        return;
    for (int i = 0; i < CALLS; i++)
        sum_open(&sums[i], (uint64_t)i, count, test_memory_kind((uint64_t)i));
    test_ways_before();
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CALLS; i++) {
            sum_fill(&sums[i], (uint64_t)(round * CALLS + i));
            sum_post(&sums[i], MPI_COMM_WORLD);
        }
        for (int i = CALLS - 1; i >= 0; i--)
            sum_wait(&sums[i]);
    }
    test_ways_after(CALLS * ROUNDS, "long sums");
    for (int i = 0; i < CALLS; i++)
        sum_close(&sums[i]);
    test_end();
}

static void test_blocking_between(void)
{
    enum { CALLS = 12 };
    struct sum sums[CALLS];
    struct sum now;

    if (!test_begin("order/blocking_calls_between"))
        return;
    for (int i = 0; i < CALLS; i++) {
        sum_open(&sums[i], (uint64_t)i, 10 + i, test_memory_kind((uint64_t)i));
        sum_post(&sums[i], MPI_COMM_WORLD);
        if (i % 3 != 2)
            continue;
        sum_open(&now, (uint64_t)i + 100, 7, i % 2 == 0 ? TEST_DEVICE : test_memory_kind((uint64_t)i + 1));
        test_ok(MPI_Allreduce(now.send.data, now.recv.data, 7, MPI_INT, MPI_SUM, MPI_COMM_WORLD),
                "MPI_Allreduce");
        sum_check(&now, "blocking sum");
        sum_close(&now);
    }
    for (int i = CALLS - 1; i >= 0; i--)
        sum_wait(&sums[i]);
    for (int i = 0; i < CALLS; i++)
        sum_close(&sums[i]);
    test_end();
}

/* Ranks begin calls of two communicators in different orders, which needs lanes for both on all ranks. */
static void test_crossed(void)
{
    enum { COMMS = 6, ROUNDS = 8 };
    MPI_Comm comms[COMMS];
    struct sum sums[COMMS];
    int order[COMMS];

    if (!test_begin("order/communicators_in_different_orders"))
        return;
    for (int i = 0; i < COMMS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        sum_open(&sums[i], (uint64_t)i, 1000, test_memory_kind((uint64_t)i));
    }
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t own = own_state((uint64_t)round);
        test_shuffle(order, COMMS, &own);
        for (int i = 0; i < COMMS; i++) {
            sum_fill(&sums[order[i]], (uint64_t)(order[i] * ROUNDS + round));
            sum_post(&sums[order[i]], comms[order[i]]);
        }
        test_shuffle(order, COMMS, &own);
        for (int i = 0; i < COMMS; i++)
            sum_wait(&sums[order[i]]);
    }
    for (int i = 0; i < COMMS; i++) {
        sum_close(&sums[i]);
        MPI_Comm_free(&comms[i]);
    }
    test_end();
}

/* A rank waits for the call of one communicator before it begins that of the other; its peers began both. */
static void test_waits_between(void)
{
    MPI_Comm first, second;
    struct sum a, b;

    if (!test_begin("order/one_rank_waits_between_two_communicators"))
        return;
    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    MPI_Comm_dup(MPI_COMM_WORLD, &second);
    sum_open(&a, 1, 500, test_memory_kind(1));
    sum_open(&b, 2, 500, test_memory_kind(2));
    for (int round = 0; round < 6; round++) {
        sum_fill(&a, (uint64_t)(10 + round));
        sum_fill(&b, (uint64_t)(20 + round));
        if (test.rank == round % test.size) {
            sum_post(&b, second);
            sum_wait(&b);
            sum_post(&a, first);
        } else {
            sum_post(&a, first);
            sum_post(&b, second);
            sum_wait(&b);
        }
        sum_wait(&a);
    }
    sum_close(&a);
    sum_close(&b);
    MPI_Comm_free(&first);
    MPI_Comm_free(&second);
    test_end();
}

#ifdef TEST_PERSISTENT
static void make_persistent(struct sum *sum, MPI_Op op, MPI_Comm comm)
{
    test_ok(TEST_PERSISTENT(Allreduce)(sum->send.data, sum->recv.data, sum->count, MPI_INT, op, comm,
                                       MPI_INFO_NULL, &sum->request),
            "MPI_Allreduce_init");
}

/* The making of persistent requests is collective, their start is not: each rank has an order of its own. */
static void test_persistent(bool startall)
{
    enum { REQUESTS = 12, ROUNDS = 10 };
    struct sum sums[REQUESTS];
    MPI_Request requests[REQUESTS];
    int order[REQUESTS];
    MPI_Op op;

    if (!test_begin("persistent/%s", startall ? "started_all_at_once" : "started_in_different_orders"))
        return;
    MPI_Op_create(user_sum, 1, &op);
    for (int i = 0; i < REQUESTS; i++) {
        bool odd_one = i % 4 == 1 && test.rank == i % test.size;
        sum_open(&sums[i], 0, 10 + i, odd_one ? TEST_HOST : test_memory_kind((uint64_t)i));
        make_persistent(&sums[i], i % 4 == 3 ? op : MPI_SUM, MPI_COMM_WORLD);
    }
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t own = own_state((uint64_t)round);
        test_shuffle(order, REQUESTS, &own);
        for (int i = 0; i < REQUESTS; i++) {
            sum_fill(&sums[order[i]], (uint64_t)(order[i] * ROUNDS + round));
            requests[i] = sums[order[i]].request;
            if (!startall)
                test_ok(MPI_Start(&requests[i]), "MPI_Start");
        }
        if (startall)
            test_ok(MPI_Startall(REQUESTS, requests), "MPI_Startall");
        test_ok(MPI_Waitall(REQUESTS, requests, MPI_STATUSES_IGNORE), "MPI_Waitall");
        for (int i = 0; i < REQUESTS; i++)
            sum_check(&sums[i], "persistent sum");
    }
    for (int i = 0; i < REQUESTS; i++) {
        MPI_Request_free(&sums[i].request);
        sum_close(&sums[i]);
    }
    MPI_Op_free(&op);
    test_end();
}

/* Made while others are outstanding, started beside them, freed while active, on a communicator that goes first. */
static void test_persistent_freed(void)
{
    struct sum now, kept;
    MPI_Comm comm;
    double until = test_seconds() + test.timeout_s / 2.0;

    if (!test_begin("persistent/freed_while_active_on_a_freed_communicator"))
        return;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    sum_open(&now, 1, 100, test_memory_kind(1));
    sum_open(&kept, 2, 100, test_memory_kind(2));
    sum_post(&now, comm);
    make_persistent(&kept, MPI_SUM, comm);
    MPI_Comm_free(&comm);
    test_ok(MPI_Start(&kept.request), "MPI_Start");
    test_ok(MPI_Request_free(&kept.request), "MPI_Request_free");
    sum_wait(&now);
    while (!sum_is_right(&kept) && test_seconds() < until) {
        int flag;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    }
    sum_check(&kept, "sum of a freed persistent request");
    /* Other ranks may read this one's buffers until they have their results, too. */
    test_ok(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    sum_close(&now);
    sum_close(&kept);
    test_end();
}
#endif

static void test_freed(void)
{
    enum { CALLS = 10 };
    struct sum sums[CALLS];
    double until = test_seconds() + test.timeout_s / 2.0;

    if (!test_begin("freed/requests_freed_before_their_end"))
        return;
    for (int i = 0; i < CALLS; i++) {
        sum_open(&sums[i], (uint64_t)i, 50, test_memory_kind((uint64_t)i));
        sum_post(&sums[i], MPI_COMM_WORLD);
        test_ok(MPI_Request_free(&sums[i].request), "MPI_Request_free");
    }
    for (int i = 0; i < CALLS; i++) {
        while (!sum_is_right(&sums[i]) && test_seconds() < until) {
            int flag;
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
        }
        sum_check(&sums[i], "sum of a freed request");
    }
    test_ok(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    for (int i = 0; i < CALLS; i++)
        sum_close(&sums[i]);
    test_end();
}

static void test_comm_freed(void)
{
    enum { CALLS = 8, ROUNDS = 5 };
    struct sum sums[CALLS];

    if (!test_begin("freed/communicator_with_work_outstanding"))
        return;
    for (int i = 0; i < CALLS; i++)
        sum_open(&sums[i], 0, 40, test_memory_kind((uint64_t)i));
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        for (int i = 0; i < CALLS; i++) {
            sum_fill(&sums[i], (uint64_t)(round * CALLS + i));
            sum_post(&sums[i], comm);
        }
        test_ok(MPI_Comm_free(&comm), "MPI_Comm_free");
        for (int i = CALLS - 1; i >= 0; i--)
            sum_wait(&sums[i]);
    }
    for (int i = 0; i < CALLS; i++)
        sum_close(&sums[i]);
    test_end();
}

static void test_idup(void)
{
    struct sum before, after;
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Request request;

    if (!test_begin("order/idup_between"))
        return;
    sum_open(&before, 1, 30, test_memory_kind(1));
    sum_open(&after, 2, 30, test_memory_kind(2));
    sum_post(&before, MPI_COMM_WORLD);
    test_ok(MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request), "MPI_Comm_idup");
    sum_post(&after, MPI_COMM_WORLD);
    test_ok(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait for a communicator");
    sum_wait(&after);
    sum_wait(&before);
    sum_fill(&after, 3);
    sum_post(&after, comm);
    sum_wait(&after);
    MPI_Comm_free(&comm);
    sum_close(&before);
    sum_close(&after);
    test_end();
}

/* MPI: a collective cannot be cancelled; the attempt is an error, and the call goes on. */
static void test_cancel(void)
{
    struct sum sum;

    if (!test_begin("cancel/is_refused"))
        return;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    sum_open(&sum, 1, 30, TEST_DEVICE);
    if (test.rank == 0 && test.size > 1) /* rank 1's call cannot end before it has tried */
        MPI_Recv(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    sum_post(&sum, MPI_COMM_WORLD);
    if (test.rank == 1) {
        if (MPI_Cancel(&sum.request) == MPI_SUCCESS)
            test_fail("MPI_Cancel of a collective succeeded");
        MPI_Send(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
    sum_wait(&sum);
    sum_close(&sum);
    test_end();
}

/* The ranks' counts differ: an error of the call, on every rank, and the communicator can be used on. */
static void test_error(void)
{
    struct sum sum;
    MPI_Status status;
    int flag = 0;

    if (!test_begin("error/is_in_the_status"))
        return;
    if (test.size == 1) {
        test_skip("needs two ranks");
        test_end();
        return;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    sum_open(&sum, 1, 30 + test.rank, TEST_DEVICE);
    sum_post(&sum, MPI_COMM_WORLD);
    int outcome = MPI_SUCCESS;
    int index = 0;
    while (!flag) /* MPI_Testsome gives the status, where MPI_Wait would give the error only */
        outcome = MPI_Testsome(1, &sum.request, &flag, &index, &status);
    if (outcome != MPI_ERR_IN_STATUS || status.MPI_ERROR == MPI_SUCCESS)
        test_fail("calls with different counts gave no error");
    sum_close(&sum);
    sum_open(&sum, 1, 30, TEST_DEVICE);
    sum_post(&sum, MPI_COMM_WORLD);
    sum_wait(&sum);
    sum_close(&sum);
    test_end();
}

/* The last rank comes late, the others compute without a word to MPI: the sum is there all the same. */
static void test_overlap(void)
{
    struct sum sum;
    double until;

    if (!test_begin("overlap/complete_without_mpi_calls"))
        return;
    sum_open(&sum, 1, 20000, TEST_DEVICE);
    for (int round = 0; round < 5; round++) {
        sum_fill(&sum, (uint64_t)round);
        MPI_Barrier(MPI_COMM_WORLD);
        if (test.rank == test.size - 1)
            test_sleep(0.01);
        sum_post(&sum, MPI_COMM_WORLD);
        until = test_seconds() + 5;
        while (!sum_is_right(&sum) && test_seconds() < until)
            ;
        if (!sum_is_right(&sum))
            test_fail("no sum after 5 s of computation");
        sum_wait(&sum);
    }
    sum_close(&sum);
    test_end();
}

int main(int argc, char **argv)
{
    bool overlap = false;
    const struct test_option own[] = {
        {"overlap", &overlap, NULL, "calls complete while the application computes"},
        TEST_WAYS_NATIVE,
        TEST_WAYS_EXPECT,
        {NULL, NULL, NULL, NULL},
    };

    test_start(&argc, &argv, MPI_THREAD_SINGLE, own);
    test_ways_start();
    test_outstanding(8);
    test_outstanding(64);
    test_outstanding(test.quick ? 200 : MOST);
    test_used_again();
    test_mixed();
    test_blocking_between();
    test_crossed();
    test_waits_between();
    test_idup();
#ifdef TEST_PERSISTENT
    test_persistent(false);
    test_persistent(true);
    test_persistent_freed();
#endif
    test_freed();
    test_comm_freed();
    test_cancel();
    if (test_ways_native) /* arguments are compared then */
        test_error();
    if (overlap)
        test_overlap();
    test_ways_stop();
    return test_finish();
}
