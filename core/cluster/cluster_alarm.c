/*
 * Giving up, as other hosts are told of it. A rank that ends a call with an error sends one message to each rank that it tells of its spans
 * (core/cluster/cluster_span.c): those connections are there, and proved, since the greeting. Whoever hears its first alarm passes it on the same way, so
 * that after log2 h hops it has come to all hosts; it gives up in turn, which the ranks of its own host see on its board. Nobody waits for it,
 * and nothing depends on it: where a message is lost, time is what tells.
 *
 * That way is one through ranks that may be through with the call, and then for long in no call of this communicator. So a rank that ends a call
 * also tells those that may wait for it in the call's stages, which end it in turn: the word goes back along the way on which ranks wait for each
 * other. It does so, too, where the connection has failed: that may have been closed for the sake of another communicator, and the peer live.
 *
 * For that message every rank has a receive waiting, with a tag that names the receiver alone.
 */
#include "core/cluster/cluster_pairs.h"

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

static struct gpucoll_telling *new_telling(struct gpucoll_cluster *cluster, uint32_t most)
{
    struct gpucoll_telling *telling = calloc(1, sizeof *telling + most * sizeof telling->sent[0]);
    if (telling != NULL) {
        telling->next = cluster->tellings;
        cluster->tellings = telling;
    }
    return telling;
}

bool gpucoll_cluster_reserve_alarm(struct gpucoll_cluster *cluster)
{
    return new_telling(cluster, cluster->span_sends) != NULL;
}

/* A peer whose connection has failed is not told, unless it may live: `lost_too`. */
static void tell_one(const struct gpucoll_cluster *cluster, struct gpucoll_telling *telling, uint32_t to,
                     bool lost_too)
{
    struct gpucoll_net_peer *peer = cluster->peers[to];
    if (peer != NULL && (lost_too || !cluster->ops->lost(cluster->net, peer))) {
        cluster->ops->send(cluster->net, peer, tag_to(cluster, to), &telling->alarm, sizeof telling->alarm,
                           NULL, &telling->sent[telling->count++]);
    }
}

/* By the one telling that there is. */
static void tell(struct gpucoll_cluster *cluster, const struct gpucoll_alarm *alarm, bool lost_too)
{
    struct gpucoll_telling *telling = cluster->tellings;
    __atomic_store_n(&cluster->told, true, __ATOMIC_RELAXED); /* this thread alone writes it */
    telling->alarm = *alarm;
    for (uint32_t round = 0; round < cluster->rounds; round++) {
        for (uint32_t nth = 0, to; gpucoll_span_told(cluster, round, nth, &to); nth++) {
            tell_one(cluster, telling, to, lost_too);
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

/* A rail has met those that its runs are with: with what is to be run yet, too. The last unit may be shorter, and go by another algorithm. */
static void foresee(const struct gpucoll_cluster_call *call, struct gpucoll_rail *rail)
{
    const uint64_t units[] = {call->next_rail, call->units - 1};
    if (call->next_rail >= call->units) {
        return;
    }
    uint64_t *blocks = call->blocks != NULL ? calloc(rail->size, sizeof *blocks) : NULL;
    const bool able = blocks != NULL || call->blocks == NULL;
    for (int i = 0; i < 2 && able; i++) {
        struct gpucoll_rail_args args;
        if (gpucoll_stage_rail_args(call, units[i], blocks, &args)) {
            gpucoll_rail_foresee(rail, &args);
        }
    }
    free(blocks);
}

/* May another host be in the stages of the call, which this rank gives up? */
static bool has_stages(const struct gpucoll_cluster *cluster, const struct gpucoll_cluster_call *call)
{
    const bool alone = !cluster->context->config->agree_hosts; /* hosts enter them without this one */
    return call != NULL && call->family != NULL && !call->carried && (call->turn != 0 || alone);
}

/* May a rank wait for this one in the call's stages? */
static bool is_awaited(const struct gpucoll_cluster_call *call, const struct gpucoll_rail *rail,
                       uint32_t rank)
{
    const struct gpucoll_cluster *cluster = call->cluster;
    if (cluster->host_of[rank] == cluster->host) {
        return false;
    }
    if (call->pairs != NULL) {
        return gpucoll_pairs_are_left(call, rank);
    }
    const bool all = call->family->between == GPUCOLL_BETWEEN_RANKS;
    return rail != NULL && (all || cluster->index_of[rank] == cluster->index_of[cluster->rank]) &&
           gpucoll_rail_has_met(rail, all ? rank : cluster->host_of[rank]);
}

/* Is it one of those that are told in any case? */
static bool is_told(const struct gpucoll_cluster *cluster, uint32_t rank)
{
    for (uint32_t round = 0; round < cluster->rounds; round++) {
        for (uint32_t nth = 0, to; gpucoll_span_told(cluster, round, nth, &to); nth++) {
            if (to == rank) { /* unless tell_one left it out */
                const struct gpucoll_net_peer *peer = cluster->peers[rank];
                return peer == NULL || !cluster->ops->lost(cluster->net, peer);
            }
        }
    }
    return false;
}

void gpucoll_cluster_desert(const struct gpucoll_request *request, uint64_t first,
                            const struct gpucoll_missing *missing)
{
    struct gpucoll_cluster *cluster = request->team->cluster;
    const struct gpucoll_cluster_call *call = request->stages;
    if (!has_stages(cluster, call)) {
        return;
    }
    struct gpucoll_rail *rail = gpucoll_stage_rail(call, cluster);
    if (rail != NULL) {
        foresee(call, rail);
    }
    uint32_t most = 0;
    for (uint32_t rank = 0; rank < cluster->size; rank++) {
        most += is_awaited(call, rail, rank);
    }
    /* With room for those that are told: whether a connection is lost may change meanwhile. */
    struct gpucoll_telling *telling = most > 0 ? new_telling(cluster, most) : NULL;
    if (telling == NULL) {
        return; /* without memory time is what tells */
    }
    telling->alarm = (struct gpucoll_alarm){.call = first, .rank = cluster->rank, .missing = *missing};
    for (uint32_t rank = 0; rank < cluster->size; rank++) {
        if (is_awaited(call, rail, rank) && !is_told(cluster, rank)) {
            tell_one(cluster, telling, rank, true);
        }
    }
    cluster->ops->progress(cluster->net);
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

static bool is_on_its_way(const struct gpucoll_cluster *cluster, struct gpucoll_telling *telling)
{
    for (uint32_t i = 0; i < telling->count; i++) {
        if (cluster->ops->test(cluster->net, &telling->sent[i]) == GPUCOLL_IN_PROGRESS) {
            return true;
        }
    }
    return false;
}

bool gpucoll_cluster_alarm_is_out(struct gpucoll_cluster *cluster)
{
    if (has_unreached(cluster)) {
        return false;
    }
    for (struct gpucoll_telling *telling = cluster->tellings; telling != NULL; telling = telling->next) {
        if (is_on_its_way(cluster, telling)) {
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
    for (struct gpucoll_telling *telling = cluster->tellings; telling != NULL; telling = telling->next) {
        for (uint32_t i = 0; i < telling->count; i++) {
            cluster->ops->begin_cancel(cluster->net, &telling->sent[i]);
        }
    }
}

void gpucoll_cluster_close_alarm(struct gpucoll_cluster *cluster)
{
    while (cluster->tellings != NULL) {
        struct gpucoll_telling *telling = cluster->tellings;
        cluster->tellings = telling->next;
        for (uint32_t i = 0; i < telling->count; i++) {
            cluster->ops->cancel(cluster->net, &telling->sent[i]);
        }
        free(telling);
    }
}
