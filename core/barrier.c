/*
 * The barrier of a team, on its board alone: every rank counts its barriers in lines of its own, one for each of up to eight readers, and
 * waits until all others have counted as many. It stands beside the posted calls and takes no part in their order. Of several hosts, each whose ranks have all arrived then
 * tells the others.
 */
#include "core/team.h"

#include "core/cluster/cluster.h"
#include "core/request.h"
#include "core/stats.h"
#include "core/watchdog.h"

static void end_span(struct gpucoll_cluster *cluster)
{
    gpucoll_span_end(cluster->barrier);
    cluster->barrier = NULL;
}

static void drop_watch(struct gpucoll_team *team)
{
    if (team->barrier_watch != NULL) {
        gpucoll_request_drop(team->barrier_watch);
        team->barrier_watch = NULL;
    }
}

void gpucoll_barrier_start(struct gpucoll_team *team)
{
    /* Of a barrier that was given up: what is told of that one is not to end this one, nor is the time it has taken. */
    if (team->cluster != NULL && (team->cluster->barrier != NULL || team->cluster->late != NULL)) {
        gpucoll_cluster_leave_barrier(team->cluster, team->barriers + 1);
    }
    drop_watch(team);
    team->barrier_begun = gpucoll_stats_on(team->context->stats) ? gpucoll_ticks() : 0;
    team->barriers++;
    team->barrier_arrived = 0;
    if (team->board == NULL) {
        return;
    }
    for (uint32_t i = 0; i < team->size && i < GPUCOLL_BARRIER_LINES; i++) {
        atomic_store_explicit(&team->board->barriers[i].value, team->barriers, memory_order_release);
    }
    team->barrier_polls = 0;
}

/* What the watchdog is told about the barrier: made only when a rank is late, or something goes wrong. */
static bool make_watch(struct gpucoll_team *team)
{
    if (team->barrier_watch == NULL) {
        team->barrier_watch = gpucoll_request_for_barrier(team);
    }
    return team->barrier_watch != NULL;
}

enum { POLLS_ALONE = 4096 };

bool gpucoll_barrier_is_watched(const struct gpucoll_team *team)
{
    return team->barrier_watch != NULL || team->barrier_polls + 1 >= POLLS_ALONE;
}

static gpucoll_status look_after(struct gpucoll_team *team, uint32_t missing, const char *doing)
{
    if (!gpucoll_barrier_is_watched(team)) {
        team->barrier_polls++;
        return GPUCOLL_IN_PROGRESS;
    }
    if (!make_watch(team)) { /* out of memory: it may be there by the next time */
        team->barrier_polls = 0;
        return GPUCOLL_IN_PROGRESS;
    }
    gpucoll_status status = gpucoll_watchdog_far(team->barrier_watch, missing, doing);
    if (status != GPUCOLL_IN_PROGRESS) {
        gpucoll_watchdog_abandon(team->barrier_watch);
    }
    return status;
}

/* A message of the barrier has failed. */
static gpucoll_status give_up(struct gpucoll_team *team, uint32_t missing, gpucoll_status status)
{
    if (make_watch(team)) {
        status = gpucoll_watchdog_failed(team->barrier_watch, missing, status);
        gpucoll_watchdog_abandon(team->barrier_watch);
    }
    return status;
}

/* All ranks of this host are there. */
static gpucoll_status meet_hosts(struct gpucoll_team *team, uint32_t *missing)
{
    struct gpucoll_cluster *cluster = team->cluster;
    if (cluster->barrier == NULL) {
        const struct gpucoll_verdict here = {.host = cluster->host, .lowest = cluster->host};
        cluster->barrier =
            gpucoll_span_start(cluster, GPUCOLL_SPAN_BARRIER, team->barriers, &here, NULL, false);
        if (cluster->barrier == NULL) {
            return GPUCOLL_ERR_NO_MEMORY;
        }
    }
    /* All is known once it drains: what then fails of its own words goes once more as it leaves. */
    return gpucoll_span_drains(cluster->barrier) ? GPUCOLL_OK : gpucoll_span_test(cluster->barrier, missing);
}

static void count(const struct gpucoll_team *team)
{
    const struct gpucoll_stats_key key = {
        .coll = GPUCOLL_BARRIER,
        .form = GPUCOLL_FORM_BLOCKING,
        .way = GPUCOLL_WAY_NATIVE,
        .detail = team->cluster != NULL ? GPUCOLL_DETAIL_HOSTS : GPUCOLL_DETAIL_BOARD,
        .size_class = gpucoll_size_class(0),
    };
    gpucoll_stats_add(team->context->stats, key, 0, gpucoll_ticks() - team->barrier_begun, 0);
}

gpucoll_status gpucoll_barrier_test(struct gpucoll_team *team)
{
    if (team->board == NULL) { /* one rank */
        return GPUCOLL_OK;
    }
    if (team->cluster != NULL) {
        gpucoll_cluster_turn(team->cluster);
    }
    const uint32_t own = team->rank % GPUCOLL_BARRIER_LINES;
    uint32_t end = team->size; /* all are looked at, as in gpucoll_agreement_arrived */
    for (uint32_t i = team->size; i-- > team->barrier_arrived;) {
        const struct gpucoll_board_count *count = &team->members[i].board->barriers[own];
        const uint64_t there = atomic_load_explicit(&count->value, memory_order_acquire);
        end = there < team->barriers ? i : end;
    }
    team->barrier_arrived = end;
    if (end < team->size) {
        return look_after(team, team->members[end].number, "waiting for all ranks to enter a barrier");
    }
    if (team->cluster != NULL) {
        uint32_t missing = 0;
        gpucoll_status status = meet_hosts(team, &missing);
        if (status == GPUCOLL_IN_PROGRESS) {
            return look_after(team, missing, "waiting for all hosts to enter a barrier");
        }
        if (status == GPUCOLL_OK && gpucoll_span_drain(team->cluster->barrier) == GPUCOLL_IN_PROGRESS) {
            return GPUCOLL_IN_PROGRESS;
        }
        end_span(team->cluster);
        if (status != GPUCOLL_OK) {
            return give_up(team, missing, status);
        }
    }
    drop_watch(team);
    if (__builtin_expect(team->barrier_begun != 0, false)) {
        count(team);
    }
    return GPUCOLL_OK;
}
