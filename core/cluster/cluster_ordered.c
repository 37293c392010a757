/*
 * Reduce-scatter of several hosts in the order of ranks (coll_gpucoll_deterministic). As with scans (core/cluster/cluster_scan.c), ranks of a host need
 * not follow each other in that order: so there are no local calls, and a unit, a piece of every block, goes along the rail of all ranks.
 */
#include "core/cluster/cluster_call.h"

static struct gpucoll_stage_part piece_of(const struct gpucoll_cluster_call *call, uint64_t unit,
                                          uint32_t rank)
{
    const struct gpucoll_block *block = &call->blocks[rank];
    const uint64_t begin = unit * call->part_bytes;
    const uint64_t left = begin < block->bytes ? block->bytes - begin : 0;
    return (struct gpucoll_stage_part){
        .at = (uint64_t)block->offset + begin,
        .bytes = left < call->part_bytes ? left : call->part_bytes,
    };
}

/* Where the unit's slot has it. */
static uint64_t slot_place(const struct gpucoll_cluster_call *call, uint64_t unit, uint32_t rank)
{
    uint64_t at = 0;
    for (uint32_t before = 0; before < rank; before++) {
        at += piece_of(call, unit, before).bytes;
    }
    return at;
}

static bool copy_blocks(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_side side,
                        uint32_t index, struct gpucoll_stage_copy *copy)
{
    const bool out = side == GPUCOLL_BEFORE;
    const uint32_t rank = out ? index : call->cluster->rank;
    if (index >= (out ? call->cluster->size : 1)) {
        return false;
    }
    const struct gpucoll_stage_part part = piece_of(call, unit, rank);
    copy->device = out ? (char *)call->send + part.at : call->recv + unit * call->part_bytes;
    copy->at = slot_place(call, unit, rank);
    copy->bytes = part.bytes;
    return true;
}

static bool rail_blocks(const struct gpucoll_cluster_call *call, uint64_t unit, uint64_t *blocks,
                        struct gpucoll_rail_args *args)
{
    args->coll = GPUCOLL_RAIL_REDUCE_SCATTER;
    args->algorithm = GPUCOLL_RAIL_ORDERED;
    args->functor = call->functor;
    for (uint32_t rank = 0; rank < call->cluster->size; rank++) {
        blocks[rank] = piece_of(call, unit, rank).bytes;
    }
    return true;
}

const struct gpucoll_cluster_family gpucoll_cluster_reduce_scatter_ordered = {
    .between = GPUCOLL_BETWEEN_RANKS,
    .shape = gpucoll_stage_shape_pieces,
    .ops = gpucoll_stage_no_ops,
    .copy = copy_blocks,
    .rail = rail_blocks,
};
