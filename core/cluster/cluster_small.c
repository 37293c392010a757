/*
 * Ranks of one machine that are too many to run a call together count as several hosts (core/team_hosts.h). The steps of a call of several hosts take
 * such ranks, which mostly have to share cores and a GPU as well, longer than to copy a small message to host memory for the next component; for
 * ranks of several machines the network takes long either way.
 */
#include "core/cluster/cluster.h"
#include "core/exchange.h"

/* From which size on the native way is the faster one, 36 ranks on one H200 under MPS (bench/results/mps-36on1xH200.json): of a message, or of all blocks
 * together. */
static uint64_t least_bytes(enum gpucoll_coll coll)
{
    switch (coll) {
    case GPUCOLL_ALLTOALL:
    case GPUCOLL_ALLTOALLV:
    case GPUCOLL_ALLTOALLW: /* a message for every pair of ranks */
        return 4 << 20;
    case GPUCOLL_SCATTER:
    case GPUCOLL_SCATTERV:
        return 1 << 20;
    default: /* and of neighbours, which have few messages; not measured */
        return 128 << 10;
    }
}

/* Is `bytes` what one rank has for one other, or all ranks for one? */
static bool has_blocks(enum gpucoll_coll coll)
{
    switch (coll) {
    case GPUCOLL_ALLREDUCE:
    case GPUCOLL_REDUCE:
    case GPUCOLL_BCAST:
    case GPUCOLL_SCAN:
    case GPUCOLL_EXSCAN:
        return false;
    default:
        return true;
    }
}

bool gpucoll_cluster_is_small(const struct gpucoll_cluster *cluster, enum gpucoll_coll coll, uint64_t bytes)
{
    const uint64_t blocks = has_blocks(coll) ? cluster->size : 1;
    return cluster->crowded && bytes < least_bytes(coll) / blocks;
}

bool gpucoll_cluster_skips(const struct gpucoll_cluster *cluster, const struct gpucoll_coll_args *args)
{
    if (!cluster->crowded || !cluster->context->config->agree_hosts ||
        !gpucoll_coll_has_buffers(args->coll)) {
        return false;
    }
    const uint64_t bytes = args->coll == GPUCOLL_ALLREDUCE ? args->count * gpucoll_type_size(args->type)
                                                           : gpucoll_exchange_even_bytes(args);
    return bytes > 0 && gpucoll_cluster_is_small(cluster, args->coll, bytes);
}
