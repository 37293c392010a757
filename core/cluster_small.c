/*
 * Ranks of one machine that are too many to run a call together count as several hosts (core/team_hosts.h). The steps of a call of several hosts take
 * such ranks, which mostly have to share cores and a GPU as well, longer than to copy a small message to host memory for the next component; for
 * ranks of several machines the network takes long either way.
 */
#include "core/cluster.h"

/* From which size on the native way is the faster one, 36 ranks on one H200 under MPS (bench/results/mps-36on1xH200.json): of a message, or of all blocks
 * together; and of what goes from each rank to each other one, of which every pair has a message. */
static const uint64_t least_bytes = 64 << 10;
static const uint64_t least_pairs_bytes = 4 << 20;

static bool goes_by_pairs(enum gpucoll_coll coll)
{
    return coll == GPUCOLL_ALLTOALL || coll == GPUCOLL_ALLTOALLV || coll == GPUCOLL_ALLTOALLW;
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
    return cluster->crowded && bytes < (goes_by_pairs(coll) ? least_pairs_bytes : least_bytes) / blocks;
}
