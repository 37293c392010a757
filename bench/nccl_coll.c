#include "bench/nccl_coll.h"

#include <string.h>

struct nccl_call {
    const struct bench_nccl_api *api;
    const struct bench_case *measured;
    const void *send; /* in place: where in recv the contribution is */
    char *recv;
    size_t count; /* of a block where the collective has blocks, else of the vector */
    size_t block_bytes;
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

/* Sends block i (`scatters`: of all; else the only one) to, and receives block i from, each rank i for which that is wanted. */
static int group(const struct nccl_call *c, bool send, bool recv, bool scatters)
{
    int error = c->api->ncclGroupStart();
    int ranks = c->measured->group->size;
    bool rooted_send = bench_coll_has(c->measured->coll, BENCH_TO_ROOT);
    bool rooted_recv = bench_coll_has(c->measured->coll, BENCH_FROM_ROOT);
    for (int i = 0; i < ranks; i++) {
        const char *from = (const char *)c->send + (scatters ? (size_t)i * c->block_bytes : 0);
        char *to = c->recv + (rooted_recv ? 0 : (size_t)i * c->block_bytes);
        if (error == 0 && send && (!rooted_send || i == BENCH_ROOT))
            error = c->api->ncclSend(from, c->count, c->type, i, c->comm, c->stream);
        if (error == 0 && recv && (!rooted_recv || i == BENCH_ROOT))
            error = c->api->ncclRecv(to, c->count, c->type, i, c->comm, c->stream);
    }
    int end = c->api->ncclGroupEnd();
    return error != 0 ? error : end;
}

static int alltoall(const struct nccl_call *c)
{
    if (c->api->ncclAlltoAll)
        return c->api->ncclAlltoAll(c->send, c->recv, c->count, c->type, c->comm, c->stream);
    return group(c, true, true, true);
}

static int gather(const struct nccl_call *c)
{
    if (c->api->ncclGather)
        return c->api->ncclGather(c->send, c->recv, c->count, c->type, BENCH_ROOT, c->comm, c->stream);
    return group(c, true, c->root, false);
}

static int scatter(const struct nccl_call *c)
{
    /* In place, the root's own block goes to where it stands. */
    char *recv = c->root && c->measured->in_place ? c->measured->send : c->recv;
    if (c->api->ncclScatter)
        return c->api->ncclScatter(c->send, recv, c->count, c->type, BENCH_ROOT, c->comm, c->stream);
    struct nccl_call call = *c;
    call.recv = recv;
    return group(&call, c->root, true, true);
}

static int barrier(const struct nccl_call *c)
{
    return c->api->ncclAllReduce(c->recv, c->recv, 1, c->type, c->op, c->comm, c->stream);
}

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
};

int bench_nccl_call(const struct bench_nccl_api *api, const struct bench_case *measured, bench_nccl_comm comm,
                    void *stream)
{
    bool blocks = bench_coll_has(measured->coll, BENCH_GATHERS | BENCH_SCATTERS);
    bool in_place = bench_case_is_in_place(measured) && !bench_coll_has(measured->coll, BENCH_FROM_ROOT);
    size_t at = bench_case_contribution_at(measured) * measured->type->size;
    struct nccl_call call = {.api = api,
                             .measured = measured,
                             .send = in_place ? (char *)measured->recv + at : measured->send,
                             .recv = measured->recv,
                             .count = blocks ? measured->block : measured->count,
                             .block_bytes = measured->block * measured->type->size,
                             .type = measured->type->nccl,
                             .op = measured->op->nccl,
                             .root = measured->group->rank == BENCH_ROOT,
                             .comm = comm,
                             .stream = stream};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].coll, measured->coll->name) == 0)
            return rows[i].call(&call);
    bench_fail("%s has no row among NCCL's calls", measured->coll->name);
}

bool bench_nccl_can(const struct bench_case *measured)
{
    unsigned alltoall = BENCH_GATHERS | BENCH_SCATTERS;
    return !measured->in_place || (measured->coll->flow & alltoall) != alltoall;
}

size_t bench_nccl_result_at(const struct bench_case *measured)
{
    unsigned reduce_scatter = BENCH_REDUCES | BENCH_SCATTERS;
    bool own_block = measured->in_place && measured->coll->flow == reduce_scatter;
    return own_block ? (size_t)measured->group->rank * measured->block : 0;
}
