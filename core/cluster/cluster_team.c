/*
 * How a team of several hosts is made: the table of its hosts, the back team, the connections.
 */
#include "core/cluster/cluster.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/clock.h"

/* Fills first, ranks and index_of from host_of. */
static void sort_ranks(struct gpucoll_cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->size; i++) {
        cluster->index_of[i] = cluster->first[cluster->host_of[i] + 1]++;
    }
    for (uint32_t host = 0; host < cluster->hosts; host++) {
        cluster->first[host + 1] += cluster->first[host];
    }
    for (uint32_t i = 0; i < cluster->size; i++) {
        cluster->ranks[cluster->first[cluster->host_of[i]] + cluster->index_of[i]] = i;
    }
}

/* Messages that this rank sends in a span. */
static uint32_t count_sends(const struct gpucoll_cluster *cluster)
{
    const uint32_t own = gpucoll_host_size(cluster, cluster->host);
    uint32_t sends = 0;
    for (uint32_t round = 0; round < cluster->rounds; round++) {
        const uint32_t host = (cluster->host + (1u << round)) % cluster->hosts;
        sends += (gpucoll_host_size(cluster, host) + own - 1) / own;
    }
    return sends;
}

static void measure(struct gpucoll_cluster *cluster)
{
    cluster->rails = UINT32_MAX;
    for (uint32_t host = 0; host < cluster->hosts; host++) {
        const uint32_t size = gpucoll_host_size(cluster, host);
        cluster->rails = size < cluster->rails ? size : cluster->rails;
        cluster->most_ranks = size > cluster->most_ranks ? size : cluster->most_ranks;
    }
    cluster->groups = (cluster->most_ranks + cluster->rails - 1) / cluster->rails;
    while (1u << cluster->rounds < cluster->hosts) {
        cluster->rounds++;
    }
    cluster->on_rail = cluster->index_of[cluster->rank] < cluster->rails;
    cluster->span_sends = count_sends(cluster);
    const uint32_t most = GPUCOLL_CARRY_TOTAL / cluster->hosts;
    const uint32_t wanted =
        cluster->context->config->agree_hosts ? (uint32_t)cluster->context->config->carry : 0;
    cluster->carry = (wanted < most ? wanted : most) / 8 * 8;
}

gpucoll_status gpucoll_cluster_form(struct gpucoll_team *team, uint32_t hosts, uint32_t *host_of,
                                    bool crowded)
{
    struct gpucoll_cluster *cluster = calloc(1, sizeof *cluster);
    if (cluster == NULL) {
        free(host_of);
        return GPUCOLL_ERR_NO_MEMORY;
    }
    team->cluster = cluster;
    cluster->context = team->context;
    cluster->rank = team->rank;
    cluster->size = team->size;
    cluster->host_of = host_of;
    cluster->host = host_of[team->rank];
    cluster->hosts = hosts;
    cluster->crowded = crowded;
    cluster->index_of = calloc(team->size, sizeof *cluster->index_of);
    cluster->first = calloc(hosts + 1, sizeof *cluster->first);
    cluster->ranks = calloc(team->size, sizeof *cluster->ranks);
    cluster->span_id = calloc(team->size, sizeof *cluster->span_id);
    cluster->all_id = calloc(team->size, sizeof *cluster->all_id);
    cluster->peers = calloc(team->size, sizeof *cluster->peers);
    cluster->rail.peer = calloc(hosts, sizeof *cluster->rail.peer);
    cluster->rail.peer_id = calloc(hosts, sizeof *cluster->rail.peer_id);
    if (cluster->index_of == NULL || cluster->first == NULL || cluster->ranks == NULL ||
        cluster->span_id == NULL || cluster->all_id == NULL || cluster->peers == NULL ||
        cluster->rail.peer == NULL || cluster->rail.peer_id == NULL) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    sort_ranks(cluster);
    measure(cluster);
    if (!gpucoll_cluster_reserve_alarm(cluster) || !gpucoll_span_reserve(cluster)) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    team->rank = cluster->index_of[cluster->rank];
    team->size = gpucoll_host_size(cluster, cluster->host);
    return GPUCOLL_OK;
}

/* The back team is the front team's ranks once more, on a region of its own. */
static struct gpucoll_team *make_back(const struct gpucoll_team *team)
{
    struct gpucoll_team *back = calloc(1, sizeof *back);
    if (back == NULL) {
        return NULL;
    }
    back->context = team->context;
    back->rank = team->rank;
    back->size = team->size;
    back->inner = true;
    snprintf(back->name, sizeof back->name, "%.48s (one host)", team->name);
    memcpy(back->members, team->members, team->size * sizeof team->members[0]);
    return back;
}

/* What ranks of one host bring to a call has room in their regions, or on shelves if all have one. */
static void take_shelf(struct gpucoll_team *team, struct gpucoll_cluster_end *end)
{
    struct gpucoll_cluster *cluster = team->cluster;
    uint32_t index;
    if (cluster->carry > GPUCOLL_CARRY_BYTES && team->size > 1 &&
        gpucoll_board_take_shelf(&team->context->board, &index)) {
        cluster->shelf = index + 1;
    }
    end->shelf = cluster->shelf;
}

/* All ranks of all hosts decide alike what goes along: if one has no shelf that needs one, what regions have room for. */
static void find_shelves(struct gpucoll_team *team, const struct gpucoll_cluster_end *ends)
{
    struct gpucoll_cluster *cluster = team->cluster;
    for (uint32_t i = 0; i < cluster->size; i++) {
        const bool needed = gpucoll_host_size(cluster, cluster->host_of[i]) > 1;
        if (needed && ends[i].shelf == 0 && cluster->carry > GPUCOLL_CARRY_BYTES) {
            cluster->carry = GPUCOLL_CARRY_BYTES;
        }
    }
    for (uint32_t i = 0; i < team->size && team->size > 1 && cluster->carry > GPUCOLL_CARRY_BYTES; i++) {
        const struct gpucoll_member *member = &team->members[i];
        cluster->shelves[i] = gpucoll_board_shelf(&member->peer->board, ends[member->number].shelf - 1);
    }
}

static bool is_in_use(const struct gpucoll_context *context, uint32_t id)
{
    const struct gpucoll_cluster *cluster = context->clusters;
    while (cluster != NULL && cluster->id != id) {
        cluster = cluster->next;
    }
    return cluster != NULL;
}

/* There are more ids than teams at once, but a process may make any number of teams one after the other. */
static void take_ids(struct gpucoll_cluster *cluster)
{
    struct gpucoll_context *context = cluster->context;
    do {
        cluster->id = context->net_ids;
        context->net_ids += GPUCOLL_CLUSTER_IDS;
        if (context->net_ids > GPUCOLL_NET_IDS - GPUCOLL_CLUSTER_IDS) {
            context->net_ids = 0;
            context->net_ids_again = true;
        }
    } while (context->net_ids_again && is_in_use(context, cluster->id));
    cluster->next = context->clusters;
    cluster->link = &context->clusters;
    if (cluster->next != NULL) {
        cluster->next->link = &cluster->next;
    }
    context->clusters = cluster;
}

static void give_ids(struct gpucoll_cluster *cluster)
{
    if (cluster->link == NULL) {
        return;
    }
    pthread_mutex_lock(&cluster->context->lock);
    *cluster->link = cluster->next;
    if (cluster->next != NULL) {
        cluster->next->link = cluster->link;
    }
    pthread_mutex_unlock(&cluster->context->lock);
}

gpucoll_status gpucoll_cluster_open(struct gpucoll_team *team, struct gpucoll_cluster_end *end)
{
    struct gpucoll_context *context = team->context;
    struct gpucoll_cluster *cluster = team->cluster;
    gpucoll_status status = gpucoll_context_net(context);
    if (status != GPUCOLL_OK) {
        return status;
    }
    cluster->net = context->net;
    cluster->ops = context->net_ops;
    cluster->ops->address(cluster->net, &end->address);
    take_ids(cluster);
    end->id = cluster->id;
    take_shelf(team, end);
    struct gpucoll_team *back = make_back(team);
    if (back == NULL) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    cluster->back = back;
    if (back->size > 1) {
        status = gpucoll_board_take(&context->board, &back->region);
        if (status != GPUCOLL_OK) {
            return status;
        }
        back->board = gpucoll_board_team(&context->board.segment, back->region);
        end->region = back->region;
    }
    return GPUCOLL_OK;
}

/* To all ranks, as any of them may be sent to; to the others, too, if one fails. Of those that are never sent to, the network keeps the address,
 * once a process. */
static gpucoll_status connect_ranks(struct gpucoll_cluster *cluster, const struct gpucoll_cluster_end *ends)
{
    gpucoll_status failed = GPUCOLL_OK;
    for (uint32_t rank = 0; rank < cluster->size; rank++) {
        if (rank != cluster->rank) {
            const gpucoll_status status =
                cluster->ops->connect(cluster->net, &ends[rank].address, &cluster->peers[rank]);
            failed = status != GPUCOLL_OK ? status : failed;
        }
    }
    return failed;
}

static void fill_rails(struct gpucoll_cluster *cluster, const struct gpucoll_cluster_end *ends)
{
    struct gpucoll_rail *rail = &cluster->rail;
    rail->ops = cluster->ops;
    rail->net = cluster->net;
    rail->rank = cluster->host;
    rail->size = cluster->hosts;
    rail->id = ends[cluster->rank].id;
    cluster->all = (struct gpucoll_rail){
        .ops = cluster->ops,
        .net = cluster->net,
        .rank = cluster->rank,
        .size = cluster->size,
        .id = cluster->all_id[cluster->rank],
        .peer = cluster->peers,
        .peer_id = cluster->all_id,
    };
    for (uint32_t host = 0; host < cluster->hosts && cluster->on_rail; host++) {
        const uint32_t rank = gpucoll_host_rank(cluster, host, cluster->index_of[cluster->rank]);
        rail->peer_id[host] = ends[rank].id;
        rail->peer[host] = cluster->peers[rank];
    }
}

static gpucoll_status connect_all(struct gpucoll_team *team, const struct gpucoll_cluster_end *ends)
{
    struct gpucoll_cluster *cluster = team->cluster;
    struct gpucoll_team *back = cluster->back;
    for (uint32_t i = 0; i < cluster->size; i++) {
        cluster->span_id[i] = ends[i].id + 1;
        cluster->all_id[i] = ends[i].id + 2;
    }
    for (uint32_t i = 0; i < back->size && back->board != NULL; i++) {
        back->members[i].board =
            gpucoll_board_team(&back->members[i].peer->board, ends[back->members[i].number].region);
    }
    const gpucoll_status status = connect_ranks(cluster, ends);
    fill_rails(cluster, ends);
    find_shelves(team, ends);
    gpucoll_cluster_listen(cluster);
    if (status != GPUCOLL_OK) {
        return status;
    }
    const struct gpucoll_verdict hello = {.lowest = cluster->host, .host = cluster->host};
    cluster->greeting =
        gpucoll_span_start(cluster, GPUCOLL_SPAN_ONCE, GPUCOLL_ONCE_GREETING, &hello, NULL, false);
    return cluster->greeting != NULL ? GPUCOLL_IN_PROGRESS : GPUCOLL_ERR_NO_MEMORY;
}

/* This rank cannot greet: who waits for that is to end it, too. Whether all could is told afterwards in any case. */
static void warn(struct gpucoll_cluster *cluster)
{
    const struct gpucoll_missing nobody = {0};
    gpucoll_cluster_alarm(cluster, 1, &nobody);
}

void gpucoll_cluster_greet(struct gpucoll_team *team, const struct gpucoll_cluster_end *ends)
{
    struct gpucoll_cluster *cluster = team->cluster;
    cluster->greeted = connect_all(team, ends);
    if (cluster->greeted != GPUCOLL_IN_PROGRESS) {
        warn(cluster);
    }
}

gpucoll_status gpucoll_cluster_greeted(struct gpucoll_cluster *cluster)
{
    if (cluster->greeting == NULL) {
        return cluster->greeted;
    }
    const int timeout = cluster->context->config->timeout;
    uint32_t missing = 0;
    gpucoll_status status = gpucoll_span_test(cluster->greeting, &missing);
    if (status == GPUCOLL_OK && !gpucoll_span_is_sent(cluster->greeting)) {
        status = GPUCOLL_IN_PROGRESS; /* a connection of this rank is not there yet */
    }
    const uint64_t limit_ns = (uint64_t)timeout * 1000000000u;
    const uint64_t waited_ns = gpucoll_patience_look(&cluster->greeting_for, gpucoll_now_ns(), limit_ns / 8);
    if (status == GPUCOLL_IN_PROGRESS && cluster->alarmed) {
        status = GPUCOLL_ERR_PEER;
    } else if (status == GPUCOLL_IN_PROGRESS && timeout > 0 && waited_ns > limit_ns) {
        gpucoll_help(cluster->context->log, "net-silent", cluster->rank, missing, timeout);
        status = GPUCOLL_ERR_TIMEOUT;
    }
    if (status != GPUCOLL_IN_PROGRESS) {
        if (status != GPUCOLL_OK) {
            warn(cluster);
        }
        gpucoll_span_end(cluster->greeting);
        cluster->greeting = NULL;
        cluster->greeted = status;
    }
    return status;
}

static void give_shelf(struct gpucoll_cluster *cluster)
{
    if (cluster->shelf > 0) {
        pthread_mutex_lock(&cluster->context->lock);
        gpucoll_board_give_shelf(&cluster->context->board, cluster->shelf - 1);
        pthread_mutex_unlock(&cluster->context->lock);
    }
}

static void end_spans(struct gpucoll_span **list)
{
    for (struct gpucoll_span *span = *list; span != NULL; span = span->next) {
        gpucoll_span_begin_end(span);
    }
    while (*list != NULL) {
        struct gpucoll_span *span = *list;
        *list = span->next;
        gpucoll_span_end(span);
    }
}

/* All but what is told, by this rank and of calls that it has passed, and what that needs. */
static void close_cluster(struct gpucoll_cluster *cluster)
{
    end_spans(&cluster->late);
    gpucoll_span_end(cluster->greeting);
    gpucoll_span_end(cluster->barrier);
    cluster->greeting = NULL;
    cluster->barrier = NULL;
    gpucoll_cluster_close_ear(cluster);
    give_shelf(cluster);
    gpucoll_rail_close(&cluster->rail);
    gpucoll_rail_close(&cluster->all);
    gpucoll_team_destroy(cluster->back);
    if (cluster->carry_memory != NULL) {
        cluster->context->accel->ops->host_free(cluster->context->accel, cluster->carry_memory);
    }
    while (cluster->memory != NULL) {
        struct gpucoll_stage_memory *memory = cluster->memory;
        cluster->memory = memory->next;
        cluster->context->accel->ops->host_free(cluster->context->accel, memory->slots);
        free(memory);
    }
}

static void bury(struct gpucoll_cluster *cluster)
{
    gpucoll_cluster_close_alarm(cluster);
    while (cluster->spare != NULL) {
        struct gpucoll_span *span = cluster->spare;
        cluster->spare = span->next;
        free(span);
    }
    give_ids(cluster);
    for (uint32_t i = 0; i < cluster->size && cluster->peers != NULL; i++) {
        if (cluster->peers[i] != NULL) {
            cluster->ops->disconnect(cluster->net, cluster->peers[i]);
        }
    }
    free(cluster->rail.peer);
    free(cluster->rail.peer_id);
    free(cluster->peers);
    free(cluster->all_id);
    free(cluster->span_id);
    free(cluster->ranks);
    free(cluster->first);
    free(cluster->index_of);
    free(cluster->host_of);
    free(cluster);
}

/* Is something of it under way, of this rank or to it, or to be told yet? A span that has left has said before whether it failed. */
static bool owes(struct gpucoll_cluster *cluster)
{
    return cluster->passing != NULL || __atomic_load_n(&cluster->leaving, __ATOMIC_ACQUIRE) > 0 ||
           !gpucoll_cluster_alarm_is_out(cluster);
}

void gpucoll_cluster_free(struct gpucoll_cluster *cluster)
{
    if (cluster == NULL) {
        return;
    }
    struct gpucoll_context *context = cluster->context;
    gpucoll_cluster_reap(cluster);
    if (cluster->alarmed || cluster->told) { /* of a team that was given up nobody tells anything any more */
        end_spans(&cluster->passing);
    }
    close_cluster(cluster);
    gpucoll_spans_settle(context);
    if (!owes(cluster)) {
        bury(cluster);
        return;
    }
    pthread_mutex_lock(&context->owing_lock);
    cluster->freed_ns = gpucoll_now_ns();
    __atomic_store_n(context->owing_end, cluster, __ATOMIC_RELAXED);
    context->owing_end = &cluster->owing;
    pthread_mutex_unlock(&context->owing_lock);
}

/* Others had as long to tell as a call waits for them. */
static bool waits_in_vain(const struct gpucoll_cluster *cluster)
{
    const uint64_t timeout = (uint64_t)cluster->context->config->timeout;
    return timeout > 0 && gpucoll_now_ns() - cluster->freed_ns > timeout * 1000000000u;
}

/* With the lock held: it owes nothing any more. */
static void let_go(struct gpucoll_context *context, struct gpucoll_cluster **link)
{
    struct gpucoll_cluster *cluster = *link;
    __atomic_store_n(link, cluster->owing, __ATOMIC_RELAXED);
    if (context->owing_end == &cluster->owing) {
        context->owing_end = link;
    }
    bury(cluster);
}

/* What is said here may turn MPI's progress, which may free another team, or come back here: as with spans (core/cluster/cluster_leave.c). */
void gpucoll_clusters_settle(struct gpucoll_context *context)
{
    if (pthread_mutex_trylock(&context->owing_lock) != 0) {
        return; /* another thread is at it */
    }
    const bool outermost = !context->settles;
    context->settles = true;
    for (struct gpucoll_cluster **link = &context->owing; outermost && *link != NULL;) {
        struct gpucoll_cluster *cluster = *link;
        gpucoll_cluster_turn(cluster);
        gpucoll_cluster_reap(cluster);
        if (waits_in_vain(cluster)) {
            end_spans(&cluster->passing);
        }
        if (!owes(cluster)) {
            let_go(context, link);
        } else {
            link = &cluster->owing;
        }
    }
    context->settles = !outermost;
    pthread_mutex_unlock(&context->owing_lock);
}

/* Is something that this rank has told still on its way? Of all teams. */
static bool tells(const struct gpucoll_context *context)
{
    bool any = __atomic_load_n(&context->leaving, __ATOMIC_RELAXED) != NULL;
    for (struct gpucoll_cluster *cluster = context->owing; cluster != NULL && !any;
         cluster = cluster->owing) {
        any = !gpucoll_cluster_alarm_is_out(cluster);
    }
    return any;
}

void gpucoll_clusters_end(struct gpucoll_context *context)
{
    const uint64_t end = gpucoll_now_ns() + 1000000000u;
    pthread_mutex_lock(&context->owing_lock);
    while (tells(context) && gpucoll_now_ns() < end) {
        context->net_ops->progress(context->net);
        gpucoll_spans_settle(context);
        for (struct gpucoll_cluster *one = context->owing; one != NULL; one = one->owing) {
            gpucoll_cluster_tell_unreached(one);
        }
        sched_yield();
    }
    for (struct gpucoll_cluster *cluster = context->owing; cluster != NULL; cluster = cluster->owing) {
        end_spans(&cluster->passing);
        gpucoll_cluster_begin_close_alarm(cluster);
    }
    gpucoll_spans_end(context);
    while (context->owing != NULL) {
        let_go(context, &context->owing);
    }
    pthread_mutex_unlock(&context->owing_lock);
}
