/*
 * Which families there are, and by which a call goes.
 */
#include "core/cluster/cluster_call.h"

#include <stdlib.h>
#include <string.h>
#include "core/context.h"

static const struct gpucoll_cluster_family *const families[GPUCOLL_COLL_COUNT] = {
    [GPUCOLL_ALLREDUCE] = &gpucoll_cluster_allreduce,
    [GPUCOLL_ALLGATHER] = &gpucoll_cluster_allgather,
    [GPUCOLL_ALLGATHERV] = &gpucoll_cluster_allgather,
    [GPUCOLL_ALLTOALL] = &gpucoll_cluster_move,
    [GPUCOLL_ALLTOALLV] = &gpucoll_cluster_move,
    [GPUCOLL_ALLTOALLW] = &gpucoll_cluster_move,
    [GPUCOLL_BCAST] = &gpucoll_cluster_bcast,
    [GPUCOLL_EXSCAN] = &gpucoll_cluster_exscan,
    [GPUCOLL_GATHER] = &gpucoll_cluster_move,
    [GPUCOLL_GATHERV] = &gpucoll_cluster_move,
    [GPUCOLL_NEIGHBOR_ALLGATHER] = &gpucoll_cluster_move,
    [GPUCOLL_NEIGHBOR_ALLGATHERV] = &gpucoll_cluster_move,
    [GPUCOLL_NEIGHBOR_ALLTOALL] = &gpucoll_cluster_move,
    [GPUCOLL_NEIGHBOR_ALLTOALLV] = &gpucoll_cluster_move,
    [GPUCOLL_NEIGHBOR_ALLTOALLW] = &gpucoll_cluster_move,
    [GPUCOLL_REDUCE] = &gpucoll_cluster_reduce,
    [GPUCOLL_REDUCE_SCATTER] = &gpucoll_cluster_reduce_scatter,
    [GPUCOLL_REDUCE_SCATTER_BLOCK] = &gpucoll_cluster_reduce_scatter,
    [GPUCOLL_SCAN] = &gpucoll_cluster_scan,
    [GPUCOLL_SCATTER] = &gpucoll_cluster_move,
    [GPUCOLL_SCATTERV] = &gpucoll_cluster_move,
};

/* Where reductions are to be in the order of ranks, instead of those. Scans always are. */
static const struct gpucoll_cluster_family *const ordered_families[GPUCOLL_COLL_COUNT] = {
    [GPUCOLL_ALLREDUCE] = &gpucoll_cluster_allreduce_ordered,
    [GPUCOLL_REDUCE] = &gpucoll_cluster_reduce_ordered,
    [GPUCOLL_REDUCE_SCATTER] = &gpucoll_cluster_reduce_scatter_ordered,
    [GPUCOLL_REDUCE_SCATTER_BLOCK] = &gpucoll_cluster_reduce_scatter_ordered,
};

const struct gpucoll_cluster_family *gpucoll_cluster_family_of(const struct gpucoll_cluster *cluster,
                                                               enum gpucoll_coll coll)
{
    const bool ordered = cluster->context->config->deterministic && ordered_families[coll] != NULL;
    return ordered ? ordered_families[coll] : families[coll];
}

bool gpucoll_cluster_has(enum gpucoll_coll coll)
{
    return coll == GPUCOLL_BARRIER || families[coll] != NULL;
}

bool gpucoll_cluster_local(enum gpucoll_coll coll, enum gpucoll_coll local[2])
{
    const struct gpucoll_cluster_family *family = families[coll];
    if (family == NULL || family->between == GPUCOLL_BETWEEN_RANKS) {
        return false;
    }
    local[0] = family->local[0];
    local[1] = family->local[1];
    return true;
}

enum gpucoll_cluster_way gpucoll_cluster_find_way(struct gpucoll_cluster_call *call, enum gpucoll_coll coll)
{
    const struct gpucoll_cluster_family *flat = gpucoll_cluster_flat(call->cluster, coll, call->bytes);
    if (call->family != families[coll]) {
        return GPUCOLL_CLUSTER_ORDERED;
    }
    if (flat != NULL) {
        call->family = flat;
        return GPUCOLL_CLUSTER_FLAT;
    }
    gpucoll_carry_note(call, coll);
    return call->few > 0                                    ? GPUCOLL_CLUSTER_CARRIED
           : call->family->between == GPUCOLL_BETWEEN_RANKS ? GPUCOLL_CLUSTER_ORDERED
                                                            : GPUCOLL_CLUSTER_STAGES;
}

enum gpucoll_cluster_way gpucoll_cluster_foresee(const struct gpucoll_config *config, enum gpucoll_coll coll,
                                                 uint64_t bytes, uint32_t hosts, uint32_t size)
{
    struct gpucoll_context context;
    struct gpucoll_team team;
    enum gpucoll_cluster_way way = GPUCOLL_CLUSTER_STAGES;
    uint32_t *host_of = calloc(size, sizeof *host_of);
    memset(&context, 0, sizeof context);
    memset(&team, 0, sizeof team);
    context.config = config;
    team.context = &context;
    team.size = size;
    for (uint32_t rank = 0; rank < size && host_of != NULL; rank++) {
        host_of[rank] = (uint32_t)((uint64_t)rank * hosts / size);
    }
    if (host_of != NULL && gpucoll_cluster_form(&team, hosts, host_of, false) == GPUCOLL_OK) {
        struct gpucoll_cluster_call call;
        memset(&call, 0, sizeof call);
        call.cluster = team.cluster;
        call.size = team.size;
        call.bytes = bytes;
        call.family = gpucoll_cluster_family_of(team.cluster, coll);
        way = gpucoll_cluster_find_way(&call, coll);
    }
    gpucoll_cluster_free(team.cluster);
    return way;
}
