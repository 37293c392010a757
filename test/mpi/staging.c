/*
 * Host copies must not lie so that Open MPI takes them for something else: it takes a nonblocking call whose two pointers are the
 * same for one in place. Where data begin some way behind a buffer's pointer, the pointer to the host copy is as much in front of
 * it, so such a call comes about by chance. Here the data begin at one distance after another.
 */
#include <stdlib.h>

#include "test/mpi/memory.h"
#include "test/mpi/support.h"

enum { COUNT = 5, STEP = 64, FAR = 16384 }; /* ints a rank, bytes, bytes */

struct gathering {
    struct test_buffer send;
    struct test_buffer recv;
    int *seen;
    int *counts;
    int *displs;
};

static int value(int rank, int i, int distance)
{
    return (int)(test_mix3(test.seed, (uint64_t)(rank * COUNT + i), (uint64_t)distance) & 0x7fffffff);
}

static void gathering_open(struct gathering *gathering)
{
    size_t block = COUNT * sizeof(int);

    test_buffer_make(&gathering->send, TEST_DEVICE, FAR + block, 0, false);
    test_buffer_make(&gathering->recv, TEST_DEVICE, FAR + (size_t)test.size * block, 0, false);
    gathering->seen = test_alloc((size_t)test.size * block);
    gathering->counts = test_alloc((size_t)test.size * sizeof(int));
    gathering->displs = test_alloc((size_t)test.size * sizeof(int));
}

static void gathering_close(struct gathering *gathering)
{
    test_buffer_free(&gathering->send);
    test_buffer_free(&gathering->recv);
    free(gathering->seen);
    free(gathering->counts);
    free(gathering->displs);
}

/* Sends from `from` bytes behind the one pointer, and receives at `to` bytes behind the other. */
static void gather(struct gathering *gathering, int from, int to)
{
    int mine[COUNT];
    MPI_Aint displacement = from;
    MPI_Datatype type;
    MPI_Request request;
    int distance = from - to;

    for (int i = 0; i < COUNT; i++)
        mine[i] = value(test.rank, i, distance);
    test_buffer_write(&gathering->send, (size_t)from, mine, sizeof mine);
    test_buffer_poison(&gathering->recv);
    for (int rank = 0; rank < test.size; rank++) {
        gathering->counts[rank] = COUNT;
        gathering->displs[rank] = to / (int)sizeof(int) + rank * COUNT;
    }
    MPI_Type_create_hindexed_block(1, COUNT, &displacement, MPI_INT, &type);
    MPI_Type_commit(&type);
    test_ok(MPI_Iallgatherv(gathering->send.data, 1, type, gathering->recv.data, gathering->counts,
                            gathering->displs, MPI_INT, MPI_COMM_WORLD, &request),
            "MPI_Iallgatherv");
    test_ok(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    MPI_Type_free(&type);
    test_buffer_read(&gathering->recv, (size_t)to, gathering->seen, (size_t)test.size * sizeof mine);
    for (int i = 0; i < test.size * COUNT; i++)
        if (gathering->seen[i] != value(i / COUNT, i % COUNT, distance))
            test_fail("sent from %d bytes behind the pointer, received %d behind: element %d is wrong", from,
                      to, i);
}

int main(int argc, char **argv)
{
    struct gathering gathering;

    test_start(&argc, &argv, MPI_THREAD_SINGLE, NULL);
    if (test_begin("distances")) {
        gathering_open(&gathering);
        /* Twice each: host copies change places from call to call. */
        for (int distance = 0; distance < FAR; distance += STEP) {
            gather(&gathering, distance, 0);
            gather(&gathering, distance, 0);
            gather(&gathering, 0, distance);
            gather(&gathering, 0, distance);
        }
        gathering_close(&gathering);
        test_end();
    }
    return test_finish();
}
