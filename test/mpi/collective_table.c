/* The collectives as rows, where they may be called, and who is root. */
#include "test/mpi/collective.h"
#include "test/mpi/support.h"

#define IN_PLACE .may_be_in_place = true
#define INTER .may_be_inter = true
const struct test_collective test_collectives[] = {
    {TEST_BCAST, "bcast", .rooted = true, .root_sends = true, INTER},
    {TEST_GATHER, "gather", .rooted = true, .root_receives = true, .gets_from_each = true, IN_PLACE, INTER},
    {TEST_GATHERV, "gatherv", .rooted = true, .root_receives = true, .gets_from_each = true,
     .variant = TEST_V, IN_PLACE, INTER},
    {TEST_SCATTER, "scatter", .rooted = true, .root_sends = true, .sends_to_each = true, IN_PLACE, INTER},
    {TEST_SCATTERV, "scatterv", .rooted = true, .root_sends = true, .sends_to_each = true, .variant = TEST_V,
     IN_PLACE, INTER},
    {TEST_ALLGATHER, "allgather", .gets_from_each = true, IN_PLACE, INTER},
    {TEST_ALLGATHERV, "allgatherv", .gets_from_each = true, .variant = TEST_V, IN_PLACE, INTER},
    {TEST_ALLTOALL, "alltoall", .sends_to_each = true, .gets_from_each = true, IN_PLACE, INTER},
    {TEST_ALLTOALLV, "alltoallv", .sends_to_each = true, .gets_from_each = true, .variant = TEST_V, IN_PLACE,
     INTER},
    {TEST_ALLTOALLW, "alltoallw", .sends_to_each = true, .gets_from_each = true, .variant = TEST_W, IN_PLACE,
     INTER},
    {TEST_NEIGHBOR_ALLGATHER, "neighbor_allgather", .neighbors = true, .gets_from_each = true},
    {TEST_NEIGHBOR_ALLGATHERV, "neighbor_allgatherv", .neighbors = true, .gets_from_each = true,
     .variant = TEST_V},
    {TEST_NEIGHBOR_ALLTOALL, "neighbor_alltoall", .neighbors = true, .sends_to_each = true,
     .gets_from_each = true},
    {TEST_NEIGHBOR_ALLTOALLV, "neighbor_alltoallv", .neighbors = true, .sends_to_each = true,
     .gets_from_each = true, .variant = TEST_V},
    {TEST_NEIGHBOR_ALLTOALLW, "neighbor_alltoallw", .neighbors = true, .sends_to_each = true,
     .gets_from_each = true, .variant = TEST_W},
    {TEST_REDUCE, "reduce", .rooted = true, .root_receives = true, .reduces = true, IN_PLACE, INTER},
    {TEST_ALLREDUCE, "allreduce", .reduces = true, IN_PLACE, INTER},
    {TEST_REDUCE_SCATTER, "reduce_scatter", .reduces = true, IN_PLACE, INTER},
    {TEST_REDUCE_SCATTER_BLOCK, "reduce_scatter_block", .reduces = true, IN_PLACE, INTER},
    {TEST_SCAN, "scan", .reduces = true, IN_PLACE},
    {TEST_EXSCAN, "exscan", .reduces = true, IN_PLACE},
    {TEST_BARRIER, "barrier", .has_no_data = true, INTER},
    {TEST_REDUCE_LOCAL, "reduce_local", .reduces = true, .is_local = true},
};
const int test_collective_count = sizeof test_collectives / sizeof test_collectives[0];

int test_varied_count(uint64_t key)
{
    uint64_t state = test_mix(key + 3);
    return test_chance(&state, 10) ? 0 : 1 + test_draw(&state, 1 << test_draw(&state, 10));
}

bool test_collective_fits(const struct test_collective *row, const struct test_comm *comm)
{
    if (comm->inter)
        return row->may_be_inter;
    return !row->neighbors || comm->topology != TEST_NO_TOPOLOGY;
}

void test_choose_root(struct test_call *call, int turn)
{
    const struct test_comm *comm = call->comm;
    int first_size = comm->side == 0 ? comm->size : comm->remote_size;
    int root_side = 0;

    if (!comm->inter) {
        call->root = turn % comm->size;
        call->root_world = comm->local[call->root];
        call->is_root = call->root == comm->rank;
        call->is_leaf = true;
        return;
    }
    turn %= comm->size + comm->remote_size;
    if (turn >= first_size) {
        turn -= first_size;
        root_side = 1;
    }
    call->is_leaf = comm->side != root_side;
    call->is_root = !call->is_leaf && comm->rank == turn;
    call->root_world = call->is_leaf ? comm->remote[turn] : comm->local[turn];
    call->root = call->is_root ? MPI_ROOT : call->is_leaf ? turn : MPI_PROC_NULL;
}
