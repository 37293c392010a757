#include "bench/nccl_coll.h"

#include <string.h>

struct nccl_call {
    const struct bench_nccl_api *api;
    const struct bench_case *measured;
    const void *send; /* in place: where in recv the contribution is */
    char *recv;
    size_t count; /* of this rank's block where the collective has blocks, else of the vector */
    int type;
    int op;
    bool root;
    bench_nccl_comm comm;
    void *stream;
};

static int allreduce(const struct nccl_call *c)
{
    return c->api->ncclAllReduce(c->send, c->recv, c->count, c->type, c->op, c->comm, c->stream);
}

static int reduce(const struct nccl_call *c)
{
    return c->api->ncclReduce(c->send, c->recv, c->count, c->type, c->op, BENCH_ROOT, c->comm, c->stream);
}

/* In place, as MPI's. */
static int bcast(const struct nccl_call *c)
{
    return c->api->ncclBroadcast(c->recv, c->recv, c->count, c->type, BENCH_ROOT, c->comm, c->stream);
}

static int allgather(const struct nccl_call *c)
{
    return c->api->ncclAllGather(c->send, c->recv, c->count, c->type, c->comm, c->stream);
}

/* In place NCCL wants the result where this rank's block of the contribution is: see bench_nccl_result_at. */
static int reduce_scatter(const struct nccl_call *c)
{
    char *recv = c->recv + bench_nccl_result_at(c->measured) * c->measured->type->size;
    return c->api->ncclReduceScatter(c->send, recv, c->count, c->type, c->op, c->comm, c->stream);
}

static const char *place_of(const void *buffer, const struct bench_case *measured, int block)
{
    size_t at = bench_case_offset(measured, measured->group->rank, block);
    return (const char *)buffer + at * measured->type->size;
}

/* Sends block i (`scatters`: of all; else the only one) to whom that is for, and receives what others send as block i, if it is wanted: between two
 * ranks what is sent first is received first. */
static int group(const struct nccl_call *c, bool send, bool recv, bool scatters)
{
    const struct bench_case *measured = c->measured;
    int error = c->api->ncclGroupStart();
    int rank = measured->group->rank;
    bool rooted_send = bench_coll_has(measured->coll, BENCH_TO_ROOT);
    bool rooted_recv = bench_coll_has(measured->coll, BENCH_FROM_ROOT);
    for (int i = 0; i < bench_coll_blocks(measured->coll, measured->group->size); i++) {
        int received = bench_coll_opposite(measured->coll, i);
        int source = bench_coll_peer(measured->coll, measured->group->size, rank, received);
        int target = bench_coll_peer(measured->coll, measured->group->size, rank, i);
        size_t sent = bench_case_length(measured, rank, i);
        const char *from = place_of(c->send, measured, scatters ? i : 0);
        char *to = (char *)place_of(c->recv, measured, rooted_recv ? 0 : received);
        if (error == 0 && send && (!rooted_send || target == BENCH_ROOT))
            error = c->api->ncclSend(from, scatters ? sent : c->count, c->type, target, c->comm, c->stream);
        if (error == 0 && recv && (!rooted_recv || source == BENCH_ROOT))
            error = c->api->ncclRecv(to, rooted_recv ? c->count : bench_case_length(measured, rank, received),
                                     c->type, source, c->comm, c->stream);
    }
    int end = c->api->ncclGroupEnd();
    return error != 0 ? error : end;
}

static int alltoallv(const struct nccl_call *c)
{
    return group(c, true, true, true);
}

static int allgatherv(const struct nccl_call *c)
{
    return group(c, true, true, false);
}

static int gatherv(const struct nccl_call *c)
{
    return group(c, true, c->root, false);
}

/* In place, the root's own block goes to where it stands. */
static int scatterv(const struct nccl_call *c)
{
    struct nccl_call call = *c;
    if (c->root && c->measured->in_place)
        call.recv = c->measured->send;
    return group(&call, c->root, true, true);
}

static int alltoall(const struct nccl_call *c)
{
    if (c->api->ncclAlltoAll)
        return c->api->ncclAlltoAll(c->send, c->recv, c->count, c->type, c->comm, c->stream);
    return alltoallv(c);
}

static int gather(const struct nccl_call *c)
{
    if (c->api->ncclGather)
        return c->api->ncclGather(c->send, c->recv, c->count, c->type, BENCH_ROOT, c->comm, c->stream);
    return gatherv(c);
}

static int scatter(const struct nccl_call *c)
{
    char *recv = c->root && c->measured->in_place ? c->measured->send : c->recv;
    if (c->api->ncclScatter)
        return c->api->ncclScatter(c->send, recv, c->count, c->type, BENCH_ROOT, c->comm, c->stream);
    return scatterv(c);
}

static int barrier(const struct nccl_call *c)
{
    return c->api->ncclAllReduce(c->recv, c->recv, 1, c->type, c->op, c->comm, c->stream);
}

/* What has no row here, such as a scan, NCCL has not. */
static const struct {
    const char *coll;
    int (*call)(const struct nccl_call *call);
} rows[] = {
    {"allreduce", allreduce},
    {"reduce", reduce},
    {"bcast", bcast},
    {"allgather", allgather},
    {"reduce_scatter", reduce_scatter},
    {"reduce_scatter_block", reduce_scatter},
    {"alltoall", alltoall},
    {"gather", gather},
    {"scatter", scatter},
    {"barrier", barrier},
    {"allgatherv", allgatherv},
    {"allgatherv_uneven", allgatherv},
    {"gatherv", gatherv},
    {"gatherv_uneven", gatherv},
    {"scatterv", scatterv},
    {"scatterv_uneven", scatterv},
    {"alltoallv", alltoallv},
    {"alltoallv_uneven", alltoallv},
    {"alltoallw", alltoallv},
    {"alltoallw_uneven", alltoallv},
    {"neighbor_allgather", allgatherv},
    {"neighbor_allgatherv", allgatherv},
    {"neighbor_alltoall", alltoallv},
    {"neighbor_alltoallv", alltoallv},
    {"neighbor_alltoallw", alltoallv},
};
enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

/* ROW_COUNT: there is none. */
static int row_of(const struct bench_case *measured)
{
    int row = 0;
    while (row < ROW_COUNT && strcmp(rows[row].coll, measured->coll->name) != 0)
        row++;
    return row;
}

int bench_nccl_call(const struct bench_nccl_api *api, const struct bench_case *measured, bench_nccl_comm comm,
                    void *stream)
{
    int row = row_of(measured);
    int rank = measured->group->rank;
    bool blocks = bench_coll_has(measured->coll, BENCH_GATHERS | BENCH_SCATTERS);
    bool in_place = bench_case_is_in_place(measured) && !bench_coll_has(measured->coll, BENCH_FROM_ROOT);
    size_t at = bench_case_contribution_at(measured) * measured->type->size;
    struct nccl_call call = {.api = api,
                             .measured = measured,
                             .send = in_place ? (char *)measured->recv + at : measured->send,
                             .recv = measured->recv,
                             .count = blocks ? bench_case_length(measured, rank, rank) : measured->count,
                             .type = measured->type->nccl,
                             .op = measured->op->nccl,
                             .root = rank == BENCH_ROOT,
                             .comm = comm,
                             .stream = stream};
    if (row == ROW_COUNT)
        bench_fail("%s has no row among NCCL's calls", measured->coll->name);
    return rows[row].call(&call);
}

bool bench_nccl_can(const struct bench_case *measured)
{
    return row_of(measured) != ROW_COUNT && (!measured->in_place || !bench_coll_is_alltoall(measured->coll));
}

size_t bench_nccl_result_at(const struct bench_case *measured)
{
    unsigned reduce_scatter = BENCH_REDUCES | BENCH_SCATTERS;
    bool own_block = measured->in_place && measured->coll->flow == reduce_scatter;
    return own_block ? (size_t)measured->group->rank * measured->block : 0;
}
