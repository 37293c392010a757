/*
 * Broadcast of several hosts: the root's host has it first, its ranks send a part each along their rails, and the ranks of the other hosts gather
 * the parts.
 */
#include "core/cluster/cluster_call.h"

static bool has_root(const struct gpucoll_cluster_call *call)
{
    return call->cluster->host_of[call->root] == call->cluster->host;
}

static bool is_root(const struct gpucoll_cluster_call *call)
{
    return call->cluster->rank == call->root;
}

static uint32_t ops(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_side side)
{
    (void)unit;
    return call->size > 1 && has_root(call) == (side == GPUCOLL_BEFORE);
}

static void op(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_side side, uint32_t index,
               struct gpucoll_stage_op *op)
{
    (void)index;
    op->args.send = call->send;
    op->args.recv = call->recv;
    if (side == GPUCOLL_AFTER) {
        op->args.coll = GPUCOLL_ALLGATHERV;
        op->args.send = call->recv;
        op->args.send_blocks = &op->recv[call->index];
        op->args.recv_blocks = op->recv;
        for (uint32_t i = 0; i < call->size; i++) {
            const struct gpucoll_stage_part part = gpucoll_stage_part(call, unit, i);
            op->recv[i] = (struct gpucoll_block){.offset = (ptrdiff_t)part.at, .bytes = part.bytes};
        }
        return;
    }
    /* The whole unit. */
    const struct gpucoll_stage_part first = gpucoll_stage_part(call, unit, 0);
    struct gpucoll_block *block = is_root(call) ? op->send : op->recv;
    op->args.coll = GPUCOLL_BCAST;
    op->args.root = call->cluster->index_of[call->root];
    op->args.send_blocks = is_root(call) ? op->send : NULL;
    op->args.recv_blocks = is_root(call) ? NULL : op->recv;
    block->offset = (ptrdiff_t)first.at;
    for (uint32_t rail = 0; rail < call->cluster->rails; rail++) {
        block->bytes += gpucoll_stage_part(call, unit, rail).bytes;
    }
}

static char *place(const struct gpucoll_cluster_call *call, uint64_t unit, uint32_t host)
{
    (void)host;
    return (is_root(call) ? (char *)call->send : call->recv) + gpucoll_stage_part(call, unit, call->index).at;
}

static bool copy(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_side side,
                 uint32_t index, struct gpucoll_stage_copy *copy)
{
    const struct gpucoll_stage_part part = gpucoll_stage_part(call, unit, call->index);
    if (index > 0 || has_root(call) != (side == GPUCOLL_BEFORE)) {
        return false;
    }
    copy->device = place(call, unit, 0);
    copy->at = 0;
    copy->bytes = part.bytes;
    return true;
}

static bool rail(const struct gpucoll_cluster_call *call, uint64_t unit, uint64_t *blocks,
                 struct gpucoll_rail_args *args)
{
    (void)blocks;
    args->coll = GPUCOLL_RAIL_BCAST;
    args->root = call->cluster->host_of[call->root];
    args->bytes = gpucoll_stage_part(call, unit, call->index).bytes;
    return args->bytes > 0;
}

const struct gpucoll_cluster_family gpucoll_cluster_bcast = {
    .local = {GPUCOLL_BCAST, GPUCOLL_ALLGATHERV},
    .shape = gpucoll_stage_shape_parts,
    .ops = ops,
    .op = op,
    .copy = copy,
    .rail = rail,
    .place = place,
};
