/*
 * All-gather of several hosts. A unit is a piece of one block for each rail of each host. The ranks of a host have each other's first; each sends
 * the one of its rail to the other hosts, and gives those that it has received to the ranks beside it, one host after the other.
 */
#include "core/cluster/cluster_call.h"

/* The host whose pieces the local call `index` is about: first the own one, then those that have come along the rails. */
static uint32_t host_of_op(const struct gpucoll_cluster_call *call, enum gpucoll_side side, uint32_t index)
{
    const uint32_t own = call->cluster->host;
    return side == GPUCOLL_BEFORE ? own : index + (index >= own);
}

static bool in_place(const struct gpucoll_cluster_call *call)
{
    return call->send == call->recv + call->blocks[call->cluster->rank].offset;
}

static uint32_t ops(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_side side)
{
    (void)unit;
    if (side == GPUCOLL_BEFORE) {
        return call->size > 1 || !in_place(call);
    }
    return call->size > 1 ? call->cluster->hosts - 1 : 0;
}

static void op(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_side side, uint32_t index,
               struct gpucoll_stage_op *op)
{
    const struct gpucoll_cluster *cluster = call->cluster;
    const uint32_t host = host_of_op(call, side, index);
    const uint32_t first = gpucoll_stage_group(call, unit) * cluster->rails;
    op->args.coll = GPUCOLL_ALLGATHERV;
    op->args.send = call->recv;
    op->args.recv = call->recv;
    op->args.send_blocks = op->send;
    op->args.recv_blocks = op->recv;
    for (uint32_t rail = 0; rail < cluster->rails; rail++) {
        const struct gpucoll_stage_part part = gpucoll_stage_block(call, unit, host, rail);
        /* The pieces of the own host are with those who brought them, the others' with those of their rail. */
        const uint32_t holder = side == GPUCOLL_BEFORE ? first + rail : rail;
        if (part.bytes > 0) {
            op->recv[holder] = (struct gpucoll_block){.offset = (ptrdiff_t)part.at, .bytes = part.bytes};
        }
    }
    op->send[0] = op->recv[call->index];
    if (side == GPUCOLL_BEFORE) {
        op->args.send = call->send;
        op->send[0].offset -= call->blocks[cluster->rank].offset;
    }
}

static char *place(const struct gpucoll_cluster_call *call, uint64_t unit, uint32_t host)
{
    return call->recv + gpucoll_stage_block(call, unit, host, call->index).at;
}

static bool copy(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_side side,
                 uint32_t index, struct gpucoll_stage_copy *copy)
{
    const uint32_t own = call->cluster->host;
    const uint32_t host = side == GPUCOLL_BEFORE ? own : index + (index >= own);
    if (side == GPUCOLL_BEFORE ? index > 0 : index + 1 >= call->cluster->hosts) {
        return false;
    }
    copy->at = gpucoll_stage_place(call, unit, host);
    copy->device = place(call, unit, host);
    copy->bytes = gpucoll_stage_block(call, unit, host, call->index).bytes;
    return true;
}

static bool rail(const struct gpucoll_cluster_call *call, uint64_t unit, uint64_t *blocks,
                 struct gpucoll_rail_args *args)
{
    args->coll = GPUCOLL_RAIL_ALLGATHER;
    return gpucoll_stage_places(call, unit, blocks);
}

const struct gpucoll_cluster_family gpucoll_cluster_allgather = {
    .local = {GPUCOLL_ALLGATHERV, GPUCOLL_ALLGATHERV},
    .shape = gpucoll_stage_shape_blocks,
    .ops = ops,
    .op = op,
    .copy = copy,
    .rail = rail,
    .place = place,
};
