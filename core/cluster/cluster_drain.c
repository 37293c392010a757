/*
 * The end of a call of several hosts, or of a barrier: what this rank has sent in it leaves the process first. What other calls have under way is not
 * waited for: they may be large.
 */
#include "core/cluster/cluster_call.h"

#include "core/base/clock.h"

/* To those whom this rank tells, in messages of few bytes, which go by the network's first tie. */
static bool told_has_left(const struct gpucoll_cluster *cluster)
{
    bool all = true;
    for (uint32_t round = 0; round < cluster->rounds; round++) {
        for (uint32_t nth = 0, to; gpucoll_span_told(cluster, round, nth, &to); nth++) {
            all &= cluster->ops->drained(cluster->net, cluster->peers[to], 1);
        }
    }
    return all;
}

/* By the rails, on which no other call is until this one has ended. */
static bool data_has_left(const struct gpucoll_request *request)
{
    struct gpucoll_cluster *cluster = request->team->cluster;
    if (request->stages == NULL || request->stages->turn == 0) {
        return true;
    }
    const bool rail = gpucoll_rail_drained(&cluster->rail);
    return gpucoll_rail_drained(&cluster->all) && rail;
}

/* For as long as a socket needs, which takes more when a third of it is free: some MiB at the speed of a slow link. */
static gpucoll_status wait_on(struct gpucoll_patience *waited)
{
    static const uint64_t most_ns = 10000000;
    static const uint64_t longest_look_ns = 1000000;
    return gpucoll_patience_look(waited, gpucoll_now_ns(), longest_look_ns) < most_ns ? GPUCOLL_IN_PROGRESS
                                                                                      : GPUCOLL_OK;
}

gpucoll_status gpucoll_span_drain(struct gpucoll_span *span)
{
    const bool told = gpucoll_span_is_sent(span) && told_has_left(span->cluster);
    return told ? GPUCOLL_OK : wait_on(&span->drained);
}

gpucoll_status gpucoll_cluster_drain(struct gpucoll_request *request)
{
    const bool told = told_has_left(request->team->cluster);
    if (data_has_left(request) && told) {
        return GPUCOLL_OK;
    }
    request->state = GPUCOLL_DRAINING;
    return wait_on(&request->drained);
}
