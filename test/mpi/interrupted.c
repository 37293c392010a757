/*
 * Nonblocking and persistent calls of a thread that is interrupted again and again, so that the progress thread overtakes it at every
 * point: while it looks whether a call is decided, hands one over, or completes one. Native calls, and calls that the ranks decline
 * because one of them, each in its turn, brings host memory.
 */
#include <stdlib.h>
#include <string.h>

#include "test/mpi/interrupt.h"
#include "test/mpi/memory.h"
#include "test/mpi/support.h"

enum { MOST = 4, COUNT = 40, CALLS = 4000, QUICK_CALLS = 800, LATEST_US = 400 };

/* A sum over the ranks. */
struct sum {
    struct test_buffer send[2]; /* device and host memory */
    struct test_buffer recv;
    int salt;
    MPI_Request request;
};

static struct sum sums[MOST];

static void fill(struct sum *sum, int salt)
{
    int values[COUNT];

    for (int i = 0; i < COUNT; i++)
        values[i] = salt + test.rank * (i + 1);
    sum->salt = salt;
    for (int kind = 0; kind < 2; kind++)
        test_buffer_write(&sum->send[kind], 0, values, sizeof values);
    test_buffer_poison(&sum->recv);
}

static void check(const struct sum *sum, const char *what)
{
    int seen[COUNT];

    test_buffer_read(&sum->recv, 0, seen, sizeof seen);
    for (int i = 0; i < COUNT; i++) {
        int expected = test.size * sum->salt + test.size * (test.size - 1) / 2 * (i + 1);
        if (seen[i] == expected)
            continue;
        test_fail("%s %d: element %d is %d, not %d", what, sum->salt, i, seen[i], expected);
        return;
    }
}

/* Is this rank the one with host memory? In two calls of three there is one. */
static bool odd_one(uint64_t key)
{
    return test_mix2(test.seed, key) % 3 != 0 && (int)(key % (uint64_t)test.size) == test.rank;
}

static void open_all(void)
{
    for (int i = 0; i < MOST; i++) {
        test_buffer_make(&sums[i].send[0], TEST_DEVICE, COUNT * sizeof(int), 0, false);
        test_buffer_make(&sums[i].send[1], TEST_HOST, COUNT * sizeof(int), 0, false);
        test_buffer_make(&sums[i].recv, TEST_DEVICE, COUNT * sizeof(int), 0, false);
    }
}

static void close_all(void)
{
    for (int i = 0; i < MOST; i++) {
        test_buffer_free(&sums[i].send[0]);
        test_buffer_free(&sums[i].send[1]);
        test_buffer_free(&sums[i].recv);
    }
}

static void come_late(uint64_t *state)
{
    if (test_chance(state, 50))
        test_sleep(1e-6 * test_draw(state, LATEST_US));
}

/* Those of `count` sums that are under way, in an order of this rank's own. */
static void complete(int count, const char *what, uint64_t *state)
{
    int from = test_draw(state, count);

    for (int i = 0; i < count; i++) {
        struct sum *sum = &sums[(from + i) % count];
        test_ok(MPI_Wait(&sum->request, MPI_STATUS_IGNORE), what);
        check(sum, what);
    }
}

static void test_nonblocking(int calls)
{
    uint64_t state = test_mix3(test.seed, 1, (uint64_t)test.rank);
    uint64_t common = test_mix2(test.seed, 1);

    if (!test_begin("interrupted/nonblocking"))
        return;
    for (int call = 0; call < calls;) {
        int count = 1 + test_draw(&common, MOST);
        test_progress("nonblocking sum %d", call);
        for (int i = 0; i < count; i++, call++) {
            struct sum *sum = &sums[i];
            fill(sum, call);
            come_late(&state);
            test_ok(MPI_Iallreduce(sum->send[odd_one((uint64_t)call)].data, sum->recv.data, COUNT, MPI_INT,
                                   MPI_SUM, MPI_COMM_WORLD, &sum->request),
                    "MPI_Iallreduce");
        }
        complete(count, "nonblocking sum", &state);
    }
    test_end();
}

#ifdef TEST_PERSISTENT
/* Made, started some times, freed: teams are made all the time, too. */
static void test_persistent(int calls)
{
    enum { STARTS = 4 };
    uint64_t state = test_mix3(test.seed, 2, (uint64_t)test.rank);

    if (!test_begin("interrupted/persistent"))
        return;
    for (int call = 0; call < calls; call += STARTS) {
        const int count = 2;
        test_progress("persistent sum %d", call);
        for (int i = 0; i < count; i++) {
            struct sum *sum = &sums[i];
            bool host = odd_one((uint64_t)(call / STARTS + i));
            come_late(&state);
            test_ok(TEST_PERSISTENT(Allreduce)(sum->send[host].data, sum->recv.data, COUNT, MPI_INT, MPI_SUM,
                                               MPI_COMM_WORLD, MPI_INFO_NULL, &sum->request),
                    "MPI_Allreduce_init");
        }
        for (int start = 0; start < STARTS; start++) {
            int first = test_draw(&state, count);
            for (int i = 0; i < count; i++) {
                struct sum *sum = &sums[(first + i) % count];
                fill(sum, call + start);
                come_late(&state);
                test_ok(MPI_Start(&sum->request), "MPI_Start");
            }
            complete(count, "persistent sum", &state);
        }
        for (int i = 0; i < count; i++)
            test_ok(MPI_Request_free(&sums[i].request), "MPI_Request_free");
    }
    test_end();
}
#endif

int main(int argc, char **argv)
{
    const struct test_option own[] = {{.name = NULL}};
    int calls, able, all_able;

    test_start(&argc, &argv, MPI_THREAD_SINGLE, own);
    calls = test.quick ? QUICK_CALLS : CALLS;
    open_all();
    able = test_interrupt_start(test_mix3(test.seed, 3, (uint64_t)test.rank));
    MPI_Allreduce(&able, &all_able, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (all_able) {
        test_nonblocking(calls);
#ifdef TEST_PERSISTENT
        test_persistent(calls);
#endif
    } else if (test_begin("interrupted")) {
        test_skip("the system has no timer for a thread of some rank");
        test_end();
    }
    if (able)
        test_interrupt_stop();
    close_all();
    return test_finish();
}
