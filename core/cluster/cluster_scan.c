/*
 * Scan and exscan of several hosts. Operands are to come in the order of ranks, and ranks of a host need not follow each other in it. So there
 * are no local calls: a unit is a piece of every rank's data, and goes along the rail of all ranks.
 */
#include "core/cluster/cluster_call.h"

static bool is_exclusive(const struct gpucoll_cluster_call *call)
{
    return call->family == &gpucoll_cluster_exscan;
}

static void shape(struct gpucoll_cluster_call *call)
{
    gpucoll_stage_shape_whole(call);
    if (is_exclusive(call)) { /* operand and result */
        call->slot_bytes = gpucoll_rail_second(call->part_bytes) + call->part_bytes;
    }
}

static bool copy(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_side side,
                 uint32_t index, struct gpucoll_stage_copy *copy)
{
    const struct gpucoll_stage_part part = gpucoll_stage_whole(call, unit);
    const bool out = side == GPUCOLL_BEFORE;
    if (index > 0 || (!out && is_exclusive(call) && call->cluster->rank == 0)) {
        return false;
    }
    copy->device = (out ? (char *)call->send : call->recv) + part.at;
    copy->at = !out && is_exclusive(call) ? gpucoll_rail_second(part.bytes) : 0;
    copy->bytes = part.bytes;
    return true;
}

static bool rail(const struct gpucoll_cluster_call *call, uint64_t unit, uint64_t *blocks,
                 struct gpucoll_rail_args *args)
{
    (void)blocks;
    args->coll = is_exclusive(call) ? GPUCOLL_RAIL_EXSCAN : GPUCOLL_RAIL_SCAN;
    if (call->cluster->context->config->deterministic) {
        args->algorithm = GPUCOLL_RAIL_RING; /* the chain sums from left to right */
    }
    args->functor = call->functor;
    args->bytes = gpucoll_stage_whole(call, unit).bytes;
    return true;
}

const struct gpucoll_cluster_family gpucoll_cluster_scan = {
    .between = GPUCOLL_BETWEEN_RANKS,
    .shape = shape,
    .ops = gpucoll_stage_no_ops,
    .copy = copy,
    .rail = rail,
};

const struct gpucoll_cluster_family gpucoll_cluster_exscan = {
    .between = GPUCOLL_BETWEEN_RANKS,
    .shape = shape,
    .ops = gpucoll_stage_no_ops,
    .copy = copy,
    .rail = rail,
};
