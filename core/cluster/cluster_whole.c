/*
 * All-reduce, reduce and broadcast of several hosts along the rail of all ranks, each of which has the whole unit: without local calls, so no
 * kernels. Of two kinds:
 *   ordered   sums in the order of ranks (coll_gpucoll_deterministic), in which those of a host need not follow each other
 *   flat      of few bytes (coll_gpucoll_flat): messages within a host take less than the kernels and copies of local calls do. But each rank
 *             sends all, so the more ranks a host has, the fewer bytes
 */
#include "core/cluster/cluster_call.h"

enum { FLAT_RANKS = 4 }; /* of a host, as measured */

static bool brings(const struct gpucoll_cluster_call *call)
{
    return call->family != &gpucoll_cluster_bcast_flat || call->cluster->rank == call->root;
}

static bool gets(const struct gpucoll_cluster_call *call)
{
    const bool is_root = call->cluster->rank == call->root;
    if (call->family == &gpucoll_cluster_bcast_flat) {
        return !is_root;
    }
    return call->family == &gpucoll_cluster_allreduce_ordered ||
           call->family == &gpucoll_cluster_allreduce_flat || is_root;
}

static bool copy(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_side side,
                 uint32_t index, struct gpucoll_stage_copy *copy)
{
    const struct gpucoll_stage_part part = gpucoll_stage_whole(call, unit);
    const bool out = side == GPUCOLL_BEFORE;
    if (index > 0 || !(out ? brings(call) : gets(call))) {
        return false;
    }
    copy->device = (out ? (char *)call->send : call->recv) + part.at;
    copy->at = 0;
    copy->bytes = part.bytes;
    return true;
}

static bool along(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_rail_coll coll,
                  struct gpucoll_rail_args *args)
{
    args->coll = coll;
    args->functor = call->functor;
    args->root = call->root;
    args->bytes = gpucoll_stage_whole(call, unit).bytes;
    return true;
}

static bool allreduce(const struct gpucoll_cluster_call *call, uint64_t unit, uint64_t *blocks,
                      struct gpucoll_rail_args *args)
{
    (void)blocks;
    return along(call, unit, GPUCOLL_RAIL_ALLREDUCE, args);
}

static bool reduce(const struct gpucoll_cluster_call *call, uint64_t unit, uint64_t *blocks,
                   struct gpucoll_rail_args *args)
{
    (void)blocks;
    return along(call, unit, GPUCOLL_RAIL_REDUCE, args);
}

static bool bcast(const struct gpucoll_cluster_call *call, uint64_t unit, uint64_t *blocks,
                  struct gpucoll_rail_args *args)
{
    (void)blocks;
    return along(call, unit, GPUCOLL_RAIL_BCAST, args);
}

static bool allreduce_ordered(const struct gpucoll_cluster_call *call, uint64_t unit, uint64_t *blocks,
                              struct gpucoll_rail_args *args)
{
    args->algorithm = GPUCOLL_RAIL_ORDERED;
    return allreduce(call, unit, blocks, args);
}

static bool reduce_ordered(const struct gpucoll_cluster_call *call, uint64_t unit, uint64_t *blocks,
                           struct gpucoll_rail_args *args)
{
    args->algorithm = GPUCOLL_RAIL_ORDERED;
    return reduce(call, unit, blocks, args);
}

#define WHOLE(run)                                                                                           \
    {                                                                                                        \
        .between = GPUCOLL_BETWEEN_RANKS, .shape = gpucoll_stage_shape_whole, .ops = gpucoll_stage_no_ops,   \
        .copy = copy, .rail = run,                                                                           \
    }

const struct gpucoll_cluster_family gpucoll_cluster_allreduce_ordered = WHOLE(allreduce_ordered);
const struct gpucoll_cluster_family gpucoll_cluster_reduce_ordered = WHOLE(reduce_ordered);
const struct gpucoll_cluster_family gpucoll_cluster_allreduce_flat = WHOLE(allreduce);
const struct gpucoll_cluster_family gpucoll_cluster_reduce_flat = WHOLE(reduce);
const struct gpucoll_cluster_family gpucoll_cluster_bcast_flat = WHOLE(bcast);

const struct gpucoll_cluster_family *gpucoll_cluster_flat(const struct gpucoll_cluster *cluster,
                                                          enum gpucoll_coll coll, uint64_t bytes)
{
    const uint64_t most = (uint64_t)cluster->context->config->flat;
    if (cluster->most_ranks < 2 || cluster->most_ranks > FLAT_RANKS || bytes <= cluster->carry ||
        bytes > most / cluster->most_ranks) {
        return NULL;
    }
    switch (coll) {
    case GPUCOLL_ALLREDUCE:
        return &gpucoll_cluster_allreduce_flat;
    case GPUCOLL_REDUCE:
        return &gpucoll_cluster_reduce_flat;
    case GPUCOLL_BCAST:
        return &gpucoll_cluster_bcast_flat;
    default:
        return NULL;
    }
}
