/*
 * Reduce-scatter of several hosts. A unit is a piece of one result for each rail of each host. The ranks of a host sum what they bring to each, one
 * host's after the other; the rails sum those of the hosts, and bring each sum to its host. With more ranks than rails, the rank of the
 * rail then gives the sum to the rank that it belongs to.
 */
#include "core/cluster/cluster_call.h"

static void shape(struct gpucoll_cluster_call *call)
{
    gpucoll_stage_shape_blocks(call);
    call->temp_bytes = call->slot_bytes;
}

static char *sum_place(const struct gpucoll_cluster_call *call, uint64_t unit, uint32_t host)
{
    return gpucoll_stage_temp(call, unit) + gpucoll_stage_place(call, unit, host);
}

/* Where the own result's piece of this unit goes. */
static char *result_place(const struct gpucoll_cluster_call *call, uint64_t unit)
{
    return call->recv + unit / call->cluster->groups * call->part_bytes;
}

/* Have other ranks than those of the rails results in this unit? */
static bool hands_on(const struct gpucoll_cluster_call *call, uint64_t unit)
{
    return gpucoll_stage_group(call, unit) > 0;
}

static uint32_t ops(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_side side)
{
    if (side == GPUCOLL_BEFORE) {
        return call->size > 1 ? call->cluster->hosts : 0;
    }
    return hands_on(call, unit) && gpucoll_stage_group(call, unit) * call->cluster->rails < call->size;
}

static void hand_on(const struct gpucoll_cluster_call *call, uint64_t unit, struct gpucoll_stage_op *op)
{
    const struct gpucoll_cluster *cluster = call->cluster;
    const uint32_t first = gpucoll_stage_group(call, unit) * cluster->rails;
    op->args.coll = GPUCOLL_ALLTOALLV;
    op->args.send = call->temp != NULL ? sum_place(call, unit, cluster->host) : NULL;
    op->args.recv = result_place(call, unit);
    op->args.send_blocks = op->send;
    op->args.recv_blocks = op->recv;
    if (call->index < cluster->rails && first + call->index < call->size) {
        op->send[first + call->index].bytes =
            gpucoll_stage_block(call, unit, cluster->host, call->index).bytes;
    }
    if (call->index >= first && call->index < first + cluster->rails) {
        op->recv[call->index - first].bytes =
            gpucoll_stage_block(call, unit, cluster->host, call->index - first).bytes;
    }
}

static void op(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_side side, uint32_t index,
               struct gpucoll_stage_op *op)
{
    if (side == GPUCOLL_AFTER) {
        hand_on(call, unit, op);
        return;
    }
    op->args.coll = GPUCOLL_REDUCE_SCATTER;
    op->args.send = call->send;
    op->args.recv = call->temp != NULL ? sum_place(call, unit, index) : NULL;
    op->args.send_blocks = op->send;
    op->args.recv_blocks = op->recv;
    for (uint32_t rail = 0; rail < call->cluster->rails; rail++) {
        const struct gpucoll_stage_part part = gpucoll_stage_block(call, unit, index, rail);
        op->send[rail] = (struct gpucoll_block){.offset = (ptrdiff_t)part.at, .bytes = part.bytes};
    }
    op->recv[0].bytes = op->send[call->index].bytes;
}

static bool copy(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_side side,
                 uint32_t index, struct gpucoll_stage_copy *copy)
{
    const uint32_t host = side == GPUCOLL_BEFORE ? index : call->cluster->host;
    if (index >= (side == GPUCOLL_BEFORE ? call->cluster->hosts : 1)) {
        return false;
    }
    const struct gpucoll_stage_part part = gpucoll_stage_block(call, unit, host, call->index);
    copy->at = gpucoll_stage_place(call, unit, host);
    copy->bytes = part.bytes;
    copy->device = sum_place(call, unit, host);
    if (side == GPUCOLL_BEFORE && call->size == 1) {
        copy->device = (char *)call->send + part.at;
    } else if (side == GPUCOLL_AFTER && !hands_on(call, unit)) {
        copy->device = result_place(call, unit);
    }
    return true;
}

static bool rail(const struct gpucoll_cluster_call *call, uint64_t unit, uint64_t *blocks,
                 struct gpucoll_rail_args *args)
{
    args->coll = GPUCOLL_RAIL_REDUCE_SCATTER;
    args->functor = call->functor;
    return gpucoll_stage_places(call, unit, blocks);
}

const struct gpucoll_cluster_family gpucoll_cluster_reduce_scatter = {
    .local = {GPUCOLL_REDUCE_SCATTER, GPUCOLL_ALLTOALLV},
    .shape = shape,
    .ops = ops,
    .op = op,
    .copy = copy,
    .rail = rail,
};
