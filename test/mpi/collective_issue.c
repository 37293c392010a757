/* Hands a planned call to MPI, in its three forms. */
#include "test/mpi/collective.h"
#include "test/mpi/support.h"

#define ISSUE(Name, IName, ...) TEST_ISSUE(call->form, &call->request, Name, IName, __VA_ARGS__)

/* What stands for each side's buffer in the call. */
static const void *send_buffer(const struct test_call *call)
{
    bool in_place = call->in_place && (!call->row->root_receives || call->is_root) && !call->row->root_sends;
    return in_place ? MPI_IN_PLACE : call->send.side.origin;
}

static void *recv_buffer(const struct test_call *call)
{
    return call->in_place && call->row->root_sends && call->is_root ? MPI_IN_PLACE : call->recv.side.origin;
}

static int issue_rooted(struct test_call *call)
{
    const struct test_args *s = &call->send;
    const struct test_args *r = &call->recv;
    const void *sb = send_buffer(call);
    void *rb = recv_buffer(call);
    const struct test_args *only = call->is_root ? s : r;
    MPI_Comm comm = call->comm->comm;

    switch (call->row->coll) {
    case TEST_BCAST:
        return ISSUE(Bcast, Ibcast, only->side.origin, only->count, only->type, call->root, comm);
    case TEST_GATHER:
        return ISSUE(Gather, Igather, sb, s->count, s->type, rb, r->count, r->type, call->root, comm);
    case TEST_GATHERV:
        return ISSUE(Gatherv, Igatherv, sb, s->count, s->type, rb, r->counts, r->places, r->type, call->root,
                     comm);
    case TEST_SCATTER:
        return ISSUE(Scatter, Iscatter, sb, s->count, s->type, rb, r->count, r->type, call->root, comm);
    case TEST_SCATTERV:
        return ISSUE(Scatterv, Iscatterv, sb, s->counts, s->places, s->type, rb, r->count, r->type,
                     call->root, comm);
    default:
        return ISSUE(Reduce, Ireduce, sb, rb, s->count, s->type, call->op, call->root, comm);
    }
}

static int issue_all(struct test_call *call)
{
    const struct test_args *s = &call->send;
    const struct test_args *r = &call->recv;
    const void *sb = send_buffer(call);
    void *rb = call->recv.side.origin;
    MPI_Comm comm = call->comm->comm;

    switch (call->row->coll) {
    case TEST_ALLGATHER:
        return ISSUE(Allgather, Iallgather, sb, s->count, s->type, rb, r->count, r->type, comm);
    case TEST_ALLGATHERV:
        return ISSUE(Allgatherv, Iallgatherv, sb, s->count, s->type, rb, r->counts, r->places, r->type, comm);
    case TEST_ALLTOALL:
        return ISSUE(Alltoall, Ialltoall, sb, s->count, s->type, rb, r->count, r->type, comm);
    case TEST_ALLTOALLV:
        return ISSUE(Alltoallv, Ialltoallv, sb, s->counts, s->places, s->type, rb, r->counts, r->places,
                     r->type, comm);
    case TEST_ALLTOALLW:
        return ISSUE(Alltoallw, Ialltoallw, sb, s->counts, s->places, s->types, rb, r->counts, r->places,
                     r->types, comm);
    case TEST_ALLREDUCE:
        return ISSUE(Allreduce, Iallreduce, sb, rb, s->count, s->type, call->op, comm);
    case TEST_REDUCE_SCATTER:
        return ISSUE(Reduce_scatter, Ireduce_scatter, sb, rb, r->counts, s->type, call->op, comm);
    case TEST_REDUCE_SCATTER_BLOCK:
        return ISSUE(Reduce_scatter_block, Ireduce_scatter_block, sb, rb, r->count, s->type, call->op, comm);
    case TEST_BARRIER:
        return ISSUE(Barrier, Ibarrier, comm);
    case TEST_SCAN:
        return ISSUE(Scan, Iscan, sb, rb, s->count, s->type, call->op, comm);
    default:
        return ISSUE(Exscan, Iexscan, sb, rb, s->count, s->type, call->op, comm);
    }
}

static int issue_neighbors(struct test_call *call)
{
    const struct test_args *s = &call->send;
    const struct test_args *r = &call->recv;
    const void *sb = s->side.origin;
    void *rb = r->side.origin;
    MPI_Comm comm = call->comm->comm;

    switch (call->row->coll) {
    case TEST_NEIGHBOR_ALLGATHER:
        return ISSUE(Neighbor_allgather, Ineighbor_allgather, sb, s->count, s->type, rb, r->count, r->type,
                     comm);
    case TEST_NEIGHBOR_ALLGATHERV:
        return ISSUE(Neighbor_allgatherv, Ineighbor_allgatherv, sb, s->count, s->type, rb, r->counts,
                     r->places, r->type, comm);
    case TEST_NEIGHBOR_ALLTOALL:
        return ISSUE(Neighbor_alltoall, Ineighbor_alltoall, sb, s->count, s->type, rb, r->count, r->type,
                     comm);
    case TEST_NEIGHBOR_ALLTOALLV:
        return ISSUE(Neighbor_alltoallv, Ineighbor_alltoallv, sb, s->counts, s->places, s->type, rb,
                     r->counts, r->places, r->type, comm);
    default:
        return ISSUE(Neighbor_alltoallw, Ineighbor_alltoallw, sb, s->counts, s->byte_places, s->types, rb,
                     r->counts, r->byte_places, r->types, comm);
    }
}

int test_issue(struct test_call *call)
{
    if (call->row->is_local)
        return MPI_Reduce_local(call->send.side.origin, call->recv.side.origin, call->send.count,
                                call->send.type, call->op);
    if (call->row->neighbors)
        return issue_neighbors(call);
    return call->row->rooted ? issue_rooted(call) : issue_all(call);
}
