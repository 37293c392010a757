/*
 * Blocking collectives while MPI_Comm_idup is under way on the same communicator. Open MPI makes the collectives that idup consists of by itself,
 * on some ranks before and on others after those of the application, and MPI allows that.
 */
#include <stdlib.h>
#include <string.h>

#include "test/mpi/memory.h"
#include "test/mpi/support.h"

enum { ROUNDS = 40, LOOKS = 1000, MOST = 300 };

struct buffers {
    struct test_buffer send;
    struct test_buffer recv;
};

/* What `rank` sends. One of these is more than any number of a communicator. */
static int value(int rank, int index, int round)
{
    return 100000 + (rank * 7919 + index * 104729 + round * 15485863) % 100000;
}

static void fill(struct buffers *buffers, int round)
{
    int values[MOST];

    for (int i = 0; i < MOST; i++)
        values[i] = value(test.rank, i, round);
    test_buffer_write(&buffers->send, 0, values, sizeof values);
    test_buffer_poison(&buffers->recv);
}

/* The most of the ranks from `first` on, each `step`th of them. */
static void check_most(const struct buffers *buffers, int first, int step, int count, int round,
                       const char *what)
{
    int values[MOST];

    test_buffer_read(&buffers->recv, 0, values, sizeof values);
    for (int i = 0; i < count; i++) {
        int most = 0;
        for (int rank = first; rank < test.size; rank += step)
            most = value(rank, i, round) > most ? value(rank, i, round) : most;
        if (values[i] != most) {
            test_fail("round %d: %s: element %d of %d is %d, not %d", round, what, i, count, values[i], most);
            return;
        }
    }
    test_buffer_check(&buffers->recv, what);
}

/* Some ranks let it get on before they call, others do not. */
static MPI_Request begin(MPI_Comm comm, MPI_Comm *copy, int round)
{
    MPI_Request request;
    int done = 0;

    test_ok(MPI_Comm_idup(comm, copy, &request), "MPI_Comm_idup");
    for (int i = 0; (test.rank / 2 + test.rank + round) % 2 == 0 && i < LOOKS && !done; i++)
        test_ok(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return request;
}

static void end(MPI_Request *request, MPI_Comm *copy)
{
    test_ok(MPI_Wait(request, MPI_STATUS_IGNORE), "MPI_Wait");
    test_ok(MPI_Comm_free(copy), "MPI_Comm_free");
}

static void test_allreduce(struct buffers *buffers, int count)
{
    if (!test_begin("allreduce/%d", count))
        return;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Comm copy;
        fill(buffers, round);
        MPI_Request request = begin(MPI_COMM_WORLD, &copy, round);
        test_ok(
            MPI_Allreduce(buffers->send.data, buffers->recv.data, count, MPI_INT, MPI_MAX, MPI_COMM_WORLD),
            "MPI_Allreduce");
        check_most(buffers, 0, 1, count, round, "MPI_Allreduce");
        end(&request, &copy);
    }
    test_end();
}

static void test_rooted(struct buffers *buffers, int count)
{
    if (!test_begin("rooted/%d", count))
        return;
    for (int round = 0; round < ROUNDS; round++) {
        const int root = round % test.size;
        MPI_Comm copy;
        fill(buffers, round);
        MPI_Request request = begin(MPI_COMM_WORLD, &copy, round);
        test_ok(
            MPI_Reduce(buffers->send.data, buffers->recv.data, count, MPI_INT, MPI_MAX, root, MPI_COMM_WORLD),
            "MPI_Reduce");
        test_ok(MPI_Bcast(buffers->recv.data, count, MPI_INT, root, MPI_COMM_WORLD), "MPI_Bcast");
        check_most(buffers, 0, 1, count, round, "MPI_Reduce and MPI_Bcast");
        end(&request, &copy);
    }
    test_end();
}

/* Ranks of even and of odd numbers: each gets what the other ones have. */
static void test_between(struct buffers *buffers, int count)
{
    const int odd = test.rank % 2;
    MPI_Comm half, between;

    if (!test_begin("intercommunicator/%d", count))
        return;
    if (test.size < 2) {
        test_skip("needs two ranks");
        test_end();
        return;
    }
    test_ok(MPI_Comm_split(MPI_COMM_WORLD, odd, test.rank, &half), "MPI_Comm_split");
    test_ok(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - odd, 7, &between), "MPI_Intercomm_create");
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Comm copy;
        fill(buffers, round);
        MPI_Request request = begin(between, &copy, round);
        test_ok(MPI_Allreduce(buffers->send.data, buffers->recv.data, count, MPI_INT, MPI_MAX, between),
                "MPI_Allreduce");
        check_most(buffers, 1 - odd, 2, count, round, "MPI_Allreduce");
        end(&request, &copy);
    }
    test_ok(MPI_Comm_free(&between), "MPI_Comm_free");
    test_ok(MPI_Comm_free(&half), "MPI_Comm_free");
    test_end();
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, MOST};
    struct buffers buffers;

    test_start(&argc, &argv, MPI_THREAD_SINGLE, NULL);
    test_buffer_make(&buffers.send, test_memory_kind(1), MOST * sizeof(int), 0, false);
    test_buffer_make(&buffers.recv, test_memory_kind(2), MOST * sizeof(int), 0, false);
    for (int i = 0; i < 2; i++) {
        test_allreduce(&buffers, counts[i]);
        test_rooted(&buffers, counts[i]);
        test_between(&buffers, counts[i]);
    }
    test_buffer_free(&buffers.send);
    test_buffer_free(&buffers.recv);
    return test_finish();
}
