/*
 * Giving up, as other hosts are told of it. A rank that ends a call with an error sends one message to each rank that it tells of its spans
 * (core/cluster/cluster_span.c): those connections are there, and proved, since the greeting. Whoever hears its first alarm passes it on the same way, so
 * that after log2 h hops it has come to all hosts; it gives up in turn, which the ranks of its own host see on its board. Nobody waits for it,
 * and nothing depends on it: where a message is lost, time is what tells.
 *
 * That way is one through ranks that may be through with the call, and then for long in no call of this communicator. So a rank that ends a call
 * also tells those that may wait for it in the call's stages, which end it in turn: the word goes back along the way on which ranks wait for each
 * other.
 *
 * A message is sent also where the connection has failed: that may have been closed for the sake of another communicator, and the peer live.
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
    cluster->ops->receive(cluster->net, NULL, tag_to(cluster, cluster->rank), &cluster->incoming,
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

static void tell_one(const struct gpucoll_cluster *cluster, struct gpucoll_telling *telling, uint32_t to)
{
    struct gpucoll_net_peer *peer = cluster->peers[to];
    if (peer != NULL) {
        cluster->ops->send(cluster->net, peer, tag_to(cluster, to), &telling->alarm, sizeof telling->alarm,
                           NULL, &telling->sent[telling->count++]);
    }
}

/* By the one telling that there is. */
static void tell(struct gpucoll_cluster *cluster, const struct gpucoll_alarm *alarm)
{
    struct gpucoll_telling *telling = cluster->tellings;
    __atomic_store_n(&cluster->told, true, __ATOMIC_RELAXED); /* this thread alone writes it */
    telling->alarm = *alarm;
    for (uint32_t round = 0; round < cluster->rounds; round++) {
        for (uint32_t nth = 0, to; gpucoll_span_told(cluster, round, nth, &to); nth++) {
            tell_one(cluster, telling, to);
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
        tell(cluster, alarm);
    }
}

void gpucoll_cluster_hear(struct gpucoll_cluster *cluster)
{
    while (cluster->listens) {
        const gpucoll_status status = cluster->ops->test(cluster->net, &cluster->listener);
        if (status == GPUCOLL_IN_PROGRESS) {
            return;
        }
        if (status == GPUCOLL_OK) {
            note(cluster, &cluster->incoming);
        }
        gpucoll_cluster_listen(cluster);
        if (status != GPUCOLL_OK) {
            return; /* it lacks memory, perhaps: there may be some the next time */
        }
    }
}

void gpucoll_cluster_alarm(struct gpucoll_cluster *cluster, uint64_t call,
                           const struct gpucoll_missing *missing)
{
    const struct gpucoll_alarm alarm = {.call = call, .rank = cluster->rank, .missing = *missing};
    if (!cluster->told) { /* else it would only repeat what it has told */
        tell(cluster, &alarm);
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

/* May another host be in the stages of the call, which this rank gives up? This one itself may not have heard of all hosts, others may. */
static bool has_stages(const struct gpucoll_request *request)
{
    const struct gpucoll_cluster_call *call = request->stages;
    if (call == NULL || call->family == NULL || call->carried) {
        return false;
    }
    const bool alone = !request->team->context->config->agree_hosts; /* hosts enter them without this one */
    const bool posted = request->state > GPUCOLL_QUEUED && request->gpu != NULL && !request->passed;
    const bool declined = request->span != NULL && request->span->known.found != GPUCOLL_FOUND_ABLE;
    return call->turn != 0 || alone || (posted && !declined && call->few == 0);
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
            if (to == rank) {
                return true;
            }
        }
    }
    return false;
}

void gpucoll_cluster_desert(const struct gpucoll_request *request, uint64_t first,
                            const struct gpucoll_missing *missing)
{
    /* Before the stages there are no connections to those that wait in them, if there are any: to make so many is all that is spent on it. */
    static const uint32_t most_strangers = 64;
    struct gpucoll_cluster *cluster = request->team->cluster;
    const struct gpucoll_cluster_call *call = request->stages;
    if (!has_stages(request)) {
        return;
    }
    struct gpucoll_rail *rail = gpucoll_stage_rail(call, cluster);
    if (rail != NULL) {
        foresee(call, rail);
    }
    uint32_t most = 0;
    for (uint32_t rank = 0; rank < cluster->size; rank++) {
        most += is_awaited(call, rail, rank) && !is_told(cluster, rank);
    }
    const bool strangers = call->turn == 0 && cluster->context->config->agree_hosts;
    const bool too_many = strangers && most > most_strangers;
    struct gpucoll_telling *telling = most > 0 && !too_many ? new_telling(cluster, most) : NULL;
    if (telling == NULL) {
        return; /* time is what tells */
    }
    telling->alarm = (struct gpucoll_alarm){.call = first, .rank = cluster->rank, .missing = *missing};
    for (uint32_t rank = 0; rank < cluster->size; rank++) {
        if (is_awaited(call, rail, rank) && !is_told(cluster, rank)) {
            tell_one(cluster, telling, rank);
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
        tell(cluster, &cluster->unreached);
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
