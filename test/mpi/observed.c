/* Some calls whose traces test/mpi/observe.sh looks for. */
#include "test/mpi/comms.h"
#include "test/mpi/memory.h"
#include "test/mpi/support.h"

enum { CALLS = 10, COUNT = 1024 };

static void first(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)in;
    (void)inout;
    (void)count;
    (void)type;
}

/* On a graph, of which no rank knows whether others have no edges. */
static void neighbors(const void *send, void *recv)
{
    MPI_Comm ring = test_comm_ring(TEST_DIST_GRAPH);

    test_ok(MPI_Neighbor_allgather(send, 8, MPI_FLOAT, recv, 8, MPI_FLOAT, ring), "MPI_Neighbor_allgather");
    MPI_Comm_free(&ring);
}

int main(int argc, char **argv)
{
    struct test_buffer send, recv;
    MPI_Request request;
    MPI_Op own;

    test_start(&argc, &argv, MPI_THREAD_SINGLE, NULL);
    test_begin("observed");
    test_buffer_make(&send, TEST_DEVICE, COUNT * sizeof(float), 0, false);
    test_buffer_make(&recv, TEST_DEVICE, COUNT * sizeof(float), 0, false);
    for (int i = 0; i < CALLS; i++)
        test_ok(MPI_Allreduce(send.data, recv.data, COUNT, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD),
                "MPI_Allreduce");
    MPI_Op_create(first, 1, &own);
    test_ok(MPI_Allreduce(send.data, recv.data, COUNT, MPI_FLOAT, own, MPI_COMM_WORLD), "MPI_Allreduce");
    test_ok(MPI_Reduce_local(send.data, recv.data, COUNT, MPI_FLOAT, MPI_MAX), "MPI_Reduce_local");
    test_ok(MPI_Reduce_local(send.data, recv.data, COUNT, MPI_FLOAT, own), "MPI_Reduce_local");
    MPI_Op_free(&own);
    neighbors(send.data, recv.data);
    test_ok(MPI_Ibcast(recv.data, COUNT, MPI_FLOAT, 0, MPI_COMM_WORLD, &request), "MPI_Ibcast");
    test_ok(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    test_buffer_free(&send);
    test_buffer_free(&recv);
    test_end();
    return test_finish();
}
