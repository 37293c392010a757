/*
 * Spans: what each host brings to a call, or to a barrier, is told along log2 h rounds; after them each knows what all have brought together.
 */
#include "core/cluster/cluster.h"

#include <stdlib.h>
#include <string.h>

/* The hosts that this one sends to in a round, and receives from. */
static uint32_t host_after(const struct gpucoll_cluster *cluster, uint32_t round)
{
    return (cluster->host + (1u << round)) % cluster->hosts;
}

static uint32_t host_before(const struct gpucoll_cluster *cluster, uint32_t round)
{
    return (cluster->host + cluster->hosts - (1u << round)) % cluster->hosts;
}

bool gpucoll_span_told(const struct gpucoll_cluster *cluster, uint32_t round, uint32_t nth, uint32_t *rank)
{
    const uint32_t host = host_after(cluster, round);
    const uint32_t own_size = gpucoll_host_size(cluster, cluster->host);
    const uint32_t index = cluster->index_of[cluster->rank] + nth * own_size;
    if (index >= gpucoll_host_size(cluster, host)) {
        return false;
    }
    *rank = gpucoll_host_rank(cluster, host, index);
    return true;
}

/* The rank that tells this one in a round. */
static uint32_t teller(const struct gpucoll_cluster *cluster, uint32_t round)
{
    const uint32_t host = host_before(cluster, round);
    return gpucoll_host_rank(cluster, host,
                             cluster->index_of[cluster->rank] % gpucoll_host_size(cluster, host));
}

/* What two sets of hosts bring together. Hosts may be in both. */
static void join(struct gpucoll_verdict *known, const struct gpucoll_verdict *told)
{
    const bool differ = known->signature != told->signature;
    const bool told_is_lower = told->lowest < known->lowest;
    if (told->reason != GPUCOLL_REASON_NONE &&
        (known->reason == GPUCOLL_REASON_NONE || told->host < known->host)) {
        known->reason = told->reason;
        known->host = told->host;
    }
    known->found = told->found > known->found ? told->found : known->found;
    if (differ && known->found < GPUCOLL_FOUND_MISMATCH) {
        known->found = GPUCOLL_FOUND_MISMATCH;
        known->other = told_is_lower ? known->first_rank : told->first_rank;
    } else if (told->found == GPUCOLL_FOUND_MISMATCH) {
        known->other = told->other;
    }
    if (told_is_lower) {
        known->lowest = told->lowest;
        known->signature = told->signature;
        known->first_rank = told->first_rank;
    }
    known->bytes = told->bytes > known->bytes ? told->bytes : known->bytes;
    known->carried = told->carried == known->carried ? known->carried : 0;
}

static uint32_t tag_channel(const struct gpucoll_span *span, uint32_t round)
{
    return gpucoll_span_channel(span->kind, span->number) | round;
}

/* Other hosts of which a rank has heard before this round. */
static uint32_t heard_of(const struct gpucoll_cluster *cluster, uint32_t round)
{
    const uint32_t spoken = 1u << round;
    return (spoken < cluster->hosts ? spoken : cluster->hosts) - 1;
}

/* Hosts of which its receiver hears by a message of this round. */
static uint32_t carriers(const struct gpucoll_cluster *cluster, uint32_t round)
{
    return heard_of(cluster, round + 1) - heard_of(cluster, round);
}

static size_t message_bytes(const struct gpucoll_cluster *cluster, uint32_t round, uint32_t carried)
{
    return sizeof(struct gpucoll_verdict) + (size_t)carriers(cluster, round) * carried;
}

/* Where a round's message is: behind those of the rounds before it, each of which is as long as can be. */
static size_t message_at(const struct gpucoll_cluster *cluster, uint32_t round)
{
    return round * sizeof(struct gpucoll_verdict) + (size_t)heard_of(cluster, round) * cluster->carry;
}

/* What the host carries that is so far before this one. It has come in the round in which hosts so far away are heard of. */
static const char *carried_before(const struct gpucoll_span *span, uint32_t distance)
{
    uint32_t round = 0;
    if (distance == 0) {
        return span->carried;
    }
    while (2u << round <= distance) {
        round++;
    }
    const size_t nth = distance - (1u << round);
    return span->in + message_at(span->cluster, round) + sizeof(struct gpucoll_verdict) +
           nth * span->known.carried;
}

const char *gpucoll_span_carried(const struct gpucoll_span *span, uint32_t host)
{
    const struct gpucoll_cluster *cluster = span->cluster;
    return carried_before(span, (cluster->host + cluster->hosts - host) % cluster->hosts);
}

static void write_message(const struct gpucoll_span *span, uint32_t round, char *message)
{
    const uint32_t bytes = span->known.carried;
    memcpy(message, &span->known, sizeof span->known);
    message += sizeof span->known;
    for (uint32_t nth = 0; bytes > 0 && nth < carriers(span->cluster, round); nth++, message += bytes) {
        memcpy(message, carried_before(span, nth), bytes);
    }
}

/* What hosts carry stays in the message: while known.carried is not 0 all have carried as much as this one, and so it is found there. False: it is
 * of a span long ago, and has come twice: a message that has failed at its sender, which sends it once more, may have arrived. (One of a later span with
 * the same bits in its tag would be lost here: for that a rank has to be 8192 calls behind another that passes them all.) */
static bool read_message(struct gpucoll_span *span, const char *message)
{
    struct gpucoll_verdict told;
    memcpy(&told, message, sizeof told);
    if (told.number != span->known.number) {
        return false;
    }
    join(&span->known, &told);
    return true;
}

/* What has been written for a round, which may have been long ago: so the message itself says how long it is. */
static void send_to(const struct gpucoll_span *span, uint32_t round, uint32_t to,
                    struct gpucoll_net_message *sent)
{
    const struct gpucoll_cluster *cluster = span->cluster;
    const char *message = span->out + message_at(cluster, round);
    const uint64_t tag = gpucoll_net_tag(cluster->span_id[to], cluster->rank, tag_channel(span, round));
    struct gpucoll_verdict told;
    memcpy(&told, message, sizeof told);
    cluster->ops->send(cluster->net, cluster->peers[to], tag, message,
                       message_bytes(cluster, round, told.carried), NULL, sent);
}

static void send_round(struct gpucoll_span *span)
{
    const struct gpucoll_cluster *cluster = span->cluster;
    const uint32_t round = span->sent_rounds++;
    write_message(span, round, span->out + message_at(cluster, round));
    for (uint32_t nth = 0, to; gpucoll_span_told(cluster, round, nth, &to); nth++) {
        struct gpucoll_span_message *sent = &span->sent[span->sends++];
        sent->again = false;
        send_to(span, round, to, &sent->message);
    }
}

static void receive_round(struct gpucoll_span *span, uint32_t round)
{
    const struct gpucoll_cluster *cluster = span->cluster;
    const uint32_t from = teller(cluster, round);
    const uint64_t tag = gpucoll_net_tag(cluster->span_id[cluster->rank], from, tag_channel(span, round));
    cluster->ops->receive_up_to(cluster->net, cluster->peers[from], tag,
                                span->in + message_at(cluster, round),
                                message_bytes(cluster, round, cluster->carry), &span->received[round]);
}

static struct gpucoll_span *new_span(struct gpucoll_cluster *cluster)
{
    const size_t head =
        sizeof(struct gpucoll_span) + cluster->span_sends * sizeof(struct gpucoll_span_message);
    const size_t messages = message_at(cluster, cluster->rounds);
    struct gpucoll_span *span = calloc(1, head + 2 * messages + cluster->carry);
    if (span != NULL) {
        span->cluster = cluster;
        span->in = (char *)span + head;
        span->out = span->in + messages;
        span->carried = span->out + messages;
    }
    return span;
}

bool gpucoll_span_reserve(struct gpucoll_cluster *cluster)
{
    cluster->spare = new_span(cluster);
    return cluster->spare != NULL;
}

struct gpucoll_span *gpucoll_span_start(struct gpucoll_cluster *cluster, enum gpucoll_span_kind kind,
                                        uint64_t number, const struct gpucoll_verdict *verdict,
                                        const void *carried, bool ahead)
{
    struct gpucoll_span *span = cluster->spare;
    if (span != NULL) {
        cluster->spare = span->next;
    } else {
        span = new_span(cluster);
        if (span == NULL) {
            return NULL;
        }
    }
    span->next = NULL;
    span->kind = kind;
    span->number = number;
    span->ahead = ahead;
    span->taken_back = false;
    span->leaves = false;
    span->round = 0;
    span->sent_rounds = 0;
    span->sends = 0;
    span->lingers_since_ns = 0;
    span->drained = (struct gpucoll_patience){0};
    span->known = *verdict;
    span->known.number = (uint32_t)number;
    if (verdict->carried > 0) {
        memcpy(span->carried, carried, verdict->carried);
    }
    for (uint32_t round = 0; round < cluster->rounds; round++) {
        receive_round(span, round);
    }
    do {
        send_round(span);
    } while (ahead && span->sent_rounds < cluster->rounds);
    if (ahead && !gpucoll_span_see_off(span)) {
        gpucoll_span_leave(span, false);
    }
    return span;
}

/* Does anybody wait for what this rank tells? Who has passed the call may have gone; ahead all tell who know by themselves. */
static bool is_awaited(const struct gpucoll_span *span)
{
    return !span->ahead && span->known.found != GPUCOLL_FOUND_PASSED;
}

/* The round in which a message of this rank is told, and to whom. */
static uint32_t find_receiver(const struct gpucoll_span *span, uint32_t message, uint32_t *to)
{
    uint32_t round = 0;
    uint32_t nth = 0;
    for (uint32_t i = 0;; i++, nth++) {
        while (!gpucoll_span_told(span->cluster, round, nth, to)) {
            round++;
            nth = 0;
        }
        if (i == message) {
            return round;
        }
    }
}

/* A message of this rank that has failed: whoever should have had it waits in vain. */
static gpucoll_status find_failed(struct gpucoll_span *span, uint32_t *to)
{
    const struct gpucoll_cluster *cluster = span->cluster;
    for (uint32_t i = 0; i < span->sends && is_awaited(span); i++) {
        const gpucoll_status status = cluster->ops->test(cluster->net, &span->sent[i].message);
        if (status != GPUCOLL_OK && status != GPUCOLL_IN_PROGRESS) {
            find_receiver(span, i, to);
            return status;
        }
    }
    return GPUCOLL_OK;
}

gpucoll_status gpucoll_span_test(struct gpucoll_span *span, uint32_t *missing)
{
    struct gpucoll_cluster *cluster = span->cluster;
    gpucoll_cluster_turn(cluster);
    for (; span->round < cluster->rounds; span->round++) {
        gpucoll_status status = cluster->ops->test(cluster->net, &span->received[span->round]);
        if (status == GPUCOLL_OK && !read_message(span, span->in + message_at(cluster, span->round))) {
            receive_round(span, span->round);
            status = GPUCOLL_IN_PROGRESS;
        }
        if (status != GPUCOLL_OK) {
            const gpucoll_status failed = find_failed(span, missing);
            if (failed != GPUCOLL_OK) {
                return failed;
            }
            *missing = teller(cluster, span->round);
            return status;
        }
        if (span->sent_rounds == span->round + 1 && span->sent_rounds < cluster->rounds) {
            send_round(span);
        }
    }
    return find_failed(span, missing);
}

bool gpucoll_span_is_sent(struct gpucoll_span *span)
{
    const struct gpucoll_cluster *cluster = span->cluster;
    if (span->ahead) {
        return !gpucoll_span_leaves(span);
    }
    bool sent = true;
    for (uint32_t i = 0; i < span->sends && sent; i++) {
        sent = cluster->ops->test(cluster->net, &span->sent[i].message) == GPUCOLL_OK;
    }
    return sent;
}

/* The call may be complete here: it is not where the message should have come to. */
static void note_unreached(const struct gpucoll_span *span, uint32_t to)
{
    struct gpucoll_cluster *cluster = span->cluster;
    if (is_awaited(span) && !__atomic_load_n(&cluster->fails, __ATOMIC_RELAXED)) {
        cluster->unreached = (struct gpucoll_alarm){
            /* Calls have not the numbers of barriers: none is given up for one, but who waits for long. */
            .call = span->kind == GPUCOLL_SPAN_CALL ? span->number : UINT64_MAX,
            .rank = cluster->rank,
            .missing = {.gone = 1, .count = 1, .rank = {to}},
        };
        __atomic_store_n(&cluster->fails, true, __ATOMIC_RELEASE);
    }
}

/* Is there nothing more to do for a message? */
static bool is_off(struct gpucoll_span *span, uint32_t message)
{
    const struct gpucoll_cluster *cluster = span->cluster;
    struct gpucoll_span_message *sent = &span->sent[message];
    const gpucoll_status status = cluster->ops->test(cluster->net, &sent->message);
    /* Of a team that was given up nobody waits for anything. */
    const bool forgone = span->taken_back || __atomic_load_n(&cluster->told, __ATOMIC_RELAXED);
    uint32_t to;
    if (status == GPUCOLL_OK || status == GPUCOLL_IN_PROGRESS || forgone) {
        return status != GPUCOLL_IN_PROGRESS;
    }
    const uint32_t round = find_receiver(span, message, &to);
    if (sent->again) {
        note_unreached(span, to);
        return true;
    }
    sent->again = true;
    send_to(span, round, to, &sent->message);
    return false;
}

bool gpucoll_span_see_off(struct gpucoll_span *span)
{
    bool all = true;
    for (uint32_t i = 0; i < span->sends; i++) {
        all &= is_off(span, i);
    }
    return all;
}

static void keep(struct gpucoll_span *span)
{
    span->next = span->cluster->spare;
    span->cluster->spare = span;
}

void gpucoll_span_take_back(struct gpucoll_span *span)
{
    const struct gpucoll_cluster *cluster = span->cluster;
    span->taken_back = true;
    for (uint32_t i = 0; i < span->sends; i++) {
        cluster->ops->begin_cancel(cluster->net, &span->sent[i].message);
    }
}

void gpucoll_span_tear(struct gpucoll_span *span)
{
    const struct gpucoll_cluster *cluster = span->cluster;
    for (uint32_t i = 0; i < span->sends; i++) {
        cluster->ops->cancel(cluster->net, &span->sent[i].message);
    }
}

void gpucoll_span_begin_end(struct gpucoll_span *span)
{
    const struct gpucoll_cluster *cluster = span->cluster;
    for (uint32_t round = span->round; round < cluster->rounds; round++) {
        cluster->ops->begin_cancel(cluster->net, &span->received[round]);
    }
    if (!span->ahead) { /* else the context has it */
        gpucoll_span_take_back(span);
    }
}

void gpucoll_span_end(struct gpucoll_span *span)
{
    if (span == NULL) {
        return;
    }
    struct gpucoll_cluster *cluster = span->cluster;
    if (span->round < cluster->rounds) {
        gpucoll_span_begin_end(span);
        for (uint32_t round = span->round; round < cluster->rounds; round++) {
            cluster->ops->cancel(cluster->net, &span->received[round]);
        }
    }
    if (span->ahead) {
        if (!gpucoll_span_hand_over(span)) {
            keep(span);
        }
    } else if (gpucoll_span_is_sent(span)) {
        keep(span);
    } else {
        gpucoll_span_leave(span, true);
    }
}

void gpucoll_cluster_turn(struct gpucoll_cluster *cluster)
{
    cluster->ops->progress(cluster->net);
    gpucoll_cluster_hear(cluster);
    gpucoll_spans_settle(cluster->context);
    gpucoll_cluster_tell_unreached(cluster);
}
