/*
 * All-reduce and reduce of several hosts: each host sums its ranks' parts, one part a rail; the rails sum those of the hosts; the hosts put the
 * parts together again.
 */
#include "core/cluster/cluster_call.h"

static void shape_reduce(struct gpucoll_cluster_call *call)
{
    gpucoll_stage_shape_parts(call);
    call->temp_bytes = call->part_bytes; /* only the root has a buffer for results */
}

static bool has_root(const struct gpucoll_cluster_call *call)
{
    return call->cluster->host_of[call->root] == call->cluster->host;
}

/* Where this rank keeps the sum of its part. */
static char *sum_place(const struct gpucoll_cluster_call *call, uint64_t unit)
{
    if (call->family == &gpucoll_cluster_reduce) {
        return gpucoll_stage_temp(call, unit);
    }
    return call->recv + gpucoll_stage_part(call, unit, call->index).at;
}

static uint32_t allreduce_ops(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_side side)
{
    (void)unit;
    (void)side;
    return call->size > 1;
}

static uint32_t reduce_ops(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_side side)
{
    (void)unit;
    return call->size > 1 && (side == GPUCOLL_BEFORE || has_root(call));
}

/* The ranks of the host sum the parts of a unit. */
static void sum_parts(const struct gpucoll_cluster_call *call, uint64_t unit, struct gpucoll_stage_op *op)
{
    op->args.coll = GPUCOLL_REDUCE_SCATTER;
    op->args.send = call->send;
    op->args.recv = sum_place(call, unit);
    op->args.send_blocks = op->send;
    op->args.recv_blocks = op->recv;
    for (uint32_t i = 0; i < call->size; i++) {
        const struct gpucoll_stage_part part = gpucoll_stage_part(call, unit, i);
        op->send[i] = (struct gpucoll_block){.offset = (ptrdiff_t)part.at, .bytes = part.bytes};
    }
    op->recv[0].bytes = op->send[call->index].bytes;
}

static void allreduce_op(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_side side,
                         uint32_t index, struct gpucoll_stage_op *op)
{
    (void)index;
    if (side == GPUCOLL_BEFORE) {
        sum_parts(call, unit, op);
        return;
    }
    op->args.coll = GPUCOLL_ALLGATHERV;
    op->args.send = call->recv;
    op->args.recv = call->recv;
    op->args.send_blocks = &op->recv[call->index];
    op->args.recv_blocks = op->recv;
    for (uint32_t i = 0; i < call->size; i++) {
        const struct gpucoll_stage_part part = gpucoll_stage_part(call, unit, i);
        op->recv[i] = (struct gpucoll_block){.offset = (ptrdiff_t)part.at, .bytes = part.bytes};
    }
}

static void reduce_op(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_side side,
                      uint32_t index, struct gpucoll_stage_op *op)
{
    (void)index;
    if (side == GPUCOLL_BEFORE) {
        sum_parts(call, unit, op);
        return;
    }
    op->args.coll = GPUCOLL_GATHERV;
    op->args.root = call->cluster->index_of[call->root];
    op->args.send = sum_place(call, unit);
    op->args.send_blocks = op->send;
    op->send[0].bytes = gpucoll_stage_part(call, unit, call->index).bytes;
    if (op->args.root == call->index) {
        op->args.recv = call->recv;
        op->args.recv_blocks = op->recv;
        for (uint32_t i = 0; i < call->size; i++) {
            const struct gpucoll_stage_part part = gpucoll_stage_part(call, unit, i);
            op->recv[i] = (struct gpucoll_block){.offset = (ptrdiff_t)part.at, .bytes = part.bytes};
        }
    }
}

static bool copy(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_side side,
                 uint32_t index, struct gpucoll_stage_copy *copy)
{
    const struct gpucoll_stage_part part = gpucoll_stage_part(call, unit, call->index);
    const bool reduces = call->family == &gpucoll_cluster_reduce;
    if (index > 0 || (side == GPUCOLL_AFTER && reduces && !has_root(call))) {
        return false;
    }
    copy->bytes = part.bytes;
    copy->at = 0;
    if (call->size > 1) {
        copy->device = sum_place(call, unit);
    } else { /* nobody to sum with: between the rail and the buffers */
        copy->device = side == GPUCOLL_BEFORE ? (char *)call->send + part.at : call->recv + part.at;
    }
    return true;
}

static bool rail(const struct gpucoll_cluster_call *call, uint64_t unit, uint64_t *blocks,
                 struct gpucoll_rail_args *args)
{
    (void)blocks;
    const bool reduces = call->family == &gpucoll_cluster_reduce;
    args->coll = reduces ? GPUCOLL_RAIL_REDUCE : GPUCOLL_RAIL_ALLREDUCE;
    args->functor = call->functor;
    args->root = reduces ? call->cluster->host_of[call->root] : 0;
    args->bytes = gpucoll_stage_part(call, unit, call->index).bytes;
    return args->bytes > 0;
}

const struct gpucoll_cluster_family gpucoll_cluster_allreduce = {
    .local = {GPUCOLL_REDUCE_SCATTER, GPUCOLL_ALLGATHERV},
    .shape = gpucoll_stage_shape_parts,
    .ops = allreduce_ops,
    .op = allreduce_op,
    .copy = copy,
    .rail = rail,
};

const struct gpucoll_cluster_family gpucoll_cluster_reduce = {
    .local = {GPUCOLL_REDUCE_SCATTER, GPUCOLL_GATHERV},
    .shape = shape_reduce,
    .ops = reduce_ops,
    .op = reduce_op,
    .copy = copy,
    .rail = rail,
};
