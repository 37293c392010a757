/*
 * Giving up, as other hosts are told of it. A rank that ends a call with an error sends one message to each rank that it tells of its spans
 * (core/cluster/cluster_span.c): those connections are there, and proved, since the greeting. Whoever hears its first alarm passes it on the same way, so
 * that after log2 h hops it has come to all hosts; it gives up in turn, which the ranks of its own host see on its board. Nobody waits for it,
 * and nothing depends on it: where a message is lost, time is what tells.
 *
 * For that message every rank has a receive waiting, with a tag that names the receiver alone.
 */
#include "core/cluster/cluster.h"

#include <stdlib.h>

static uint64_t tag_to(const struct gpucoll_cluster *cluster, uint32_t rank)
{
    return gpucoll_net_tag(cluster->span_id[rank], rank,
                           gpucoll_span_channel(GPUCOLL_SPAN_ONCE, GPUCOLL_ONCE_ALARM));
}

void gpucoll_cluster_listen(struct gpucoll_cluster *cluster)
{
    cluster->listens = true;
    cluster->ops->receive(cluster->net, tag_to(cluster, cluster->rank), &cluster->incoming,
                          sizeof cluster->incoming, NULL, &cluster->listener);
}

/* A peer whose connection has failed is not told, unless it may live: `lost_too`. */
static void tell(struct gpucoll_cluster *cluster, const struct gpucoll_alarm *alarm, bool lost_too)
{
    __atomic_store_n(&cluster->told, true, __ATOMIC_RELAXED); /* this thread alone writes it */
    cluster->outgoing = *alarm;
    for (uint32_t round = 0; round < cluster->rounds; round++) {
        for (uint32_t nth = 0, to; gpucoll_span_told(cluster, round, nth, &to); nth++) {
            if (cluster->peers[to] != NULL &&
                (lost_too || !cluster->ops->lost(cluster->net, cluster->peers[to]))) {
                cluster->ops->send(cluster->net, cluster->peers[to], tag_to(cluster, to), &cluster->outgoing,
                                   sizeof cluster->outgoing, NULL, &cluster->alarms[cluster->alarms_sent++]);
            }
        }
    }
}

/* Of several alarms the first says who and why, and is passed on; each may tell of an earlier call. */
static void note(struct gpucoll_cluster *cluster, const struct gpucoll_alarm *alarm)
{
    if (alarm->rank == cluster->rank) {
        return; /* its own has come round */
    }
    if (!cluster->alarmed) {
        cluster->alarm = *alarm;
        cluster->alarmed = true;
    } else if (alarm->call < cluster->alarm.call) {
        cluster->alarm.call = alarm->call;
    }
    if (!cluster->told) {
        tell(cluster, alarm, false);
    }
}

void gpucoll_cluster_hear(struct gpucoll_cluster *cluster)
{
    while (cluster->listens) {
        const gpucoll_status status = cluster->ops->test(cluster->net, &cluster->listener);
        if (status == GPUCOLL_IN_PROGRESS) {
            return;
        }
        cluster->listens = false;
        if (status == GPUCOLL_OK) {
            note(cluster, &cluster->incoming);
            gpucoll_cluster_listen(cluster);
        }
    }
}

void gpucoll_cluster_alarm(struct gpucoll_cluster *cluster, uint64_t call,
                           const struct gpucoll_missing *missing)
{
    const struct gpucoll_alarm alarm = {.call = call, .rank = cluster->rank, .missing = *missing};
    if (!cluster->told) { /* else it would only repeat what it has told */
        tell(cluster, &alarm, false);
        cluster->ops->progress(cluster->net);
    }
}

static bool has_unreached(const struct gpucoll_cluster *cluster)
{
    return __atomic_load_n(&cluster->fails, __ATOMIC_ACQUIRE) && !cluster->told;
}

/* The connection on which two messages have failed may be made once more: nobody else may be there to pass it on. */
void gpucoll_cluster_tell_unreached(struct gpucoll_cluster *cluster)
{
    if (has_unreached(cluster)) {
        cluster->alarm = cluster->unreached;
        cluster->alarmed = true;
        tell(cluster, &cluster->unreached, true);
    }
}

bool gpucoll_cluster_alarm_is_out(struct gpucoll_cluster *cluster)
{
    if (has_unreached(cluster)) {
        return false;
    }
    for (uint32_t i = 0; i < cluster->alarms_sent; i++) {
        if (cluster->ops->test(cluster->net, &cluster->alarms[i]) == GPUCOLL_IN_PROGRESS) {
            return false;
        }
    }
    return true;
}

void gpucoll_cluster_close_ear(struct gpucoll_cluster *cluster)
{
    if (cluster->listens) {
        cluster->ops->cancel(cluster->net, &cluster->listener);
    }
    cluster->listens = false;
}

void gpucoll_cluster_begin_close_alarm(struct gpucoll_cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->alarms_sent; i++) {
        cluster->ops->begin_cancel(cluster->net, &cluster->alarms[i]);
    }
}

void gpucoll_cluster_close_alarm(struct gpucoll_cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->alarms_sent; i++) {
        cluster->ops->cancel(cluster->net, &cluster->alarms[i]);
    }
    cluster->alarms_sent = 0;
    free(cluster->alarms);
    cluster->alarms = NULL;
}
