/*
 * Giving up, as other hosts are told of it. A rank that ends a call with an error sends one message to each rank that it talks to, of which
 * at least one is on each other host if it is on a rail; whoever gets it gives up in turn, which the ranks of its own host see on
 * its board. Nobody waits for it, and nothing depends on it: where a message is lost, time is what tells.
 *
 * For that message every rank has a receive waiting, with a tag that names the receiver alone.
 */
#include "core/cluster.h"

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
                          sizeof cluster->incoming, &cluster->listener);
}

/* Of several alarms the first says who and why; each may tell of an earlier call. */
static void note(struct gpucoll_cluster *cluster, const struct gpucoll_alarm *alarm)
{
    if (!cluster->alarmed) {
        cluster->alarm = *alarm;
        cluster->alarmed = true;
    } else if (alarm->call < cluster->alarm.call) {
        cluster->alarm.call = alarm->call;
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

/* Those of its rail, and those that it tells what its host has decided (core/cluster_agree.c): it is connected to them since the
 * greeting. All others would be connections made for this. */
static bool talks_to(const struct gpucoll_cluster *cluster, uint32_t rank)
{
    const uint32_t host = cluster->host_of[rank];
    const uint32_t index = cluster->index_of[rank];
    const uint32_t own = cluster->index_of[cluster->rank];
    const uint32_t distance = (host + cluster->hosts - cluster->host) % cluster->hosts;
    if (distance == 0) {
        return false;
    }
    return index == own ||
           ((distance & (distance - 1)) == 0 && index % gpucoll_host_size(cluster, cluster->host) == own);
}

void gpucoll_cluster_alarm(struct gpucoll_cluster *cluster, uint64_t call,
                           const struct gpucoll_missing *missing)
{
    /* Who tells what it has been told would only repeat it. */
    if (cluster->alarmed || cluster->alarms != NULL) {
        return;
    }
    cluster->alarms = calloc(cluster->size, sizeof *cluster->alarms);
    if (cluster->alarms == NULL) {
        return;
    }
    cluster->outgoing = (struct gpucoll_alarm){.call = call, .rank = cluster->rank, .missing = *missing};
    for (uint32_t i = 0; i < cluster->size; i++) {
        if (talks_to(cluster, i) && !cluster->ops->lost(cluster->net, cluster->peers[i])) {
            cluster->ops->send(cluster->net, cluster->peers[i], tag_to(cluster, i), &cluster->outgoing,
                               sizeof cluster->outgoing, &cluster->alarms[i]);
        }
    }
    cluster->ops->progress(cluster->net);
}

bool gpucoll_cluster_alarm_is_out(struct gpucoll_cluster *cluster)
{
    for (uint32_t i = 0; cluster->alarms != NULL && i < cluster->size; i++) {
        if (cluster->ops->test(cluster->net, &cluster->alarms[i]) == GPUCOLL_IN_PROGRESS) {
            return false;
        }
    }
    return true;
}

void gpucoll_cluster_close_alarm(struct gpucoll_cluster *cluster)
{
    if (cluster->listens) {
        cluster->ops->cancel(cluster->net, &cluster->listener);
    }
    for (uint32_t i = 0; cluster->alarms != NULL && i < cluster->size; i++) {
        cluster->ops->cancel(cluster->net, &cluster->alarms[i]);
    }
    free(cluster->alarms);
}
