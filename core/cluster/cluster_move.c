/*
 * Alltoall, gather and scatter of several hosts, with their variants: ranks of different hosts exchange pair by pair (core/cluster/cluster_pairs.h), those of
 * a host by one local call beside it, which is the only unit.
 */
#include "core/cluster/cluster_pairs.h"

static void shape(struct gpucoll_cluster_call *call)
{
    call->units = 1;
    call->part_bytes = call->pairs->chunk;
    call->slot_bytes = (gpucoll_pairs_bytes(call->pairs) + GPUCOLL_STAGE_SLOTS - 1) / GPUCOLL_STAGE_SLOTS;
}

static uint32_t ops(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_side side)
{
    (void)unit;
    const struct gpucoll_kernel_run *own = &call->pairs->runs[call->cluster->rank];
    return side == GPUCOLL_BEFORE && (call->size > 1 || own->send != own->recv);
}

static struct gpucoll_block block_of(const void *base, const void *place, uint64_t bytes)
{
    /* They may be parts of no common object: with the base NULL, the offset is the address. */
    return (struct gpucoll_block){
        .offset = bytes > 0 ? (ptrdiff_t)((uintptr_t)place - (uintptr_t)base) : 0,
        .bytes = bytes,
    };
}

static void op(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_side side, uint32_t index,
               struct gpucoll_stage_op *op)
{
    (void)unit;
    (void)side;
    (void)index;
    const struct gpucoll_cluster *cluster = call->cluster;
    op->args.coll = GPUCOLL_ALLTOALLV;
    op->args.send = call->send;
    op->args.recv = call->recv;
    op->args.send_blocks = op->send;
    op->args.recv_blocks = op->recv;
    for (uint32_t i = 0; i < call->size; i++) {
        const struct gpucoll_kernel_run *run =
            &call->pairs->runs[gpucoll_host_rank(cluster, cluster->host, i)];
        op->send[i] = block_of(call->send, run->send, run->send_bytes);
        op->recv[i] = block_of(call->recv, run->recv, run->recv_bytes);
    }
}

const struct gpucoll_cluster_family gpucoll_cluster_move = {
    .between = GPUCOLL_BETWEEN_PAIRS,
    .local = {GPUCOLL_ALLTOALLV, GPUCOLL_ALLTOALLV},
    .shape = shape,
    .ops = ops,
    .op = op,
};
