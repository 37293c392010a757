#include "core/watchdog.h"

#include "core/gate.h"

#include <stdio.h>
#include "core/base/clock.h"
#include "core/cluster/cluster.h"
#include "core/pipeline.h"
#include "core/plan/algorithm.h"

/* Polls between two looks at the clock: some tens of microseconds when nothing else is turned in between. */
static const uint32_t polls_per_look = 1024;
/* A pause between two looks counts as waiting up to this part of the time that is waited in all. */
static const uint64_t looks_a_limit = 8;
/* Waiting longer than this, look whether the peers still live. */
static const uint64_t suspicion_ns = 1000000000u;

gpucoll_status gpucoll_watchdog_given_up(const struct gpucoll_team *team)
{
    return team->missing.gone != 0 ? GPUCOLL_ERR_PEER : GPUCOLL_ERR_TIMEOUT;
}

/* The call that is meant: of a stage, the whole. */
static struct gpucoll_request *whole(struct gpucoll_request *request)
{
    return request->team->outer != NULL ? request->team->outer : request;
}

static void start_anew(struct gpucoll_request *request)
{
    request->waiting = (struct gpucoll_patience){0};
    request->polls = 0;
}

void gpucoll_watchdog_reset(struct gpucoll_request *request)
{
    start_anew(request);
    request->moves++;
    whole(request)->team->moves++;
}

/* ---- who is missing ---- */

static void note_missing(struct gpucoll_missing *missing, uint32_t rank)
{
    const uint32_t most = sizeof missing->rank / sizeof missing->rank[0];
    const uint32_t named = missing->count < most ? missing->count : most;
    for (uint32_t i = 0; i < named; i++) {
        if (missing->rank[i] == rank) {
            return;
        }
    }
    if (missing->count < most) {
        missing->rank[missing->count] = rank;
    }
    missing->count++;
}

/* Barriers are counted by themselves, so calls that were given up do not tell whether they will be complete. */
static bool is_barrier(const struct gpucoll_request *call)
{
    return call == call->team->barrier_watch;
}

/* Has a rank not arrived at this call or, when this one runs it, not started it? */
static bool is_late(const struct gpucoll_request *request, const struct gpucoll_team_board *board)
{
    if (request->state == GPUCOLL_AGREEING) {
        return atomic_load_explicit(&board->head, memory_order_acquire) < request->call;
    }
    return request->state == GPUCOLL_RUNNING && !is_barrier(request) &&
           atomic_load_explicit(&board->started[request->call % GPUCOLL_RING], memory_order_relaxed) !=
               request->call;
}

static const struct gpucoll_member *find_member(const struct gpucoll_team *team, uint32_t number)
{
    for (uint32_t i = 0; i < team->size; i++) {
        if (team->members[i].number == number) {
            return &team->members[i];
        }
    }
    return NULL;
}

/* A neighbour that has given the call up has told for whom; that one may have, too. A rank for which this one was given up knows better
 * itself, so the way ends before it. */
static uint32_t follow(const struct gpucoll_request *request, uint32_t missing)
{
    const struct gpucoll_team *team = request->team;
    for (uint32_t step = 0; step < team->size && !is_barrier(request); step++) {
        const struct gpucoll_member *member = find_member(team, missing);
        const struct gpucoll_team_board *board = member != NULL ? member->board : NULL;
        const bool told = board != NULL && atomic_load_explicit(&board->broken, memory_order_acquire) != 0 &&
                          board->gave_up <= request->call && board->missing.count == 1;
        if (!told || board->missing.rank[0] == team->members[team->rank].number) {
            break;
        }
        missing = board->missing.rank[0];
    }
    return missing;
}

/* For whom the call is given up. While it runs, as a ring or a tree, the rank that this one waits for may wait for another: it
 * is those that have not started it, if there are any. If this rank's own kernel does not say that it waits, nor stands at its gate for the others, it
 * is meant as well. */
static void find_late(struct gpucoll_request *request, uint32_t missing, struct gpucoll_missing *all)
{
    const struct gpucoll_team *team = request->team;
    if (request->state != GPUCOLL_RUNNING) {
        note_missing(all, missing);
    }
    for (uint32_t i = 0; i < team->size; i++) {
        if (is_late(request, team->members[i].board)) {
            note_missing(all, team->members[i].number);
        }
    }
    const bool own = missing == team->members[team->rank].number && !gpucoll_gate_awaits_peers(request);
    if (all->count == 0 || own) {
        note_missing(all, follow(request, missing));
    }
}

/* "2, 5" */
static void list(const struct gpucoll_missing *missing, char *text, size_t bytes)
{
    const uint32_t most = sizeof missing->rank / sizeof missing->rank[0];
    size_t used = (size_t)snprintf(text, bytes, "%s", missing->count == 0 ? "none" : "");
    for (uint32_t i = 0; i < missing->count && i <= most && used < bytes; i++) {
        const char *separator = i > 0 ? ", " : "";
        used += (size_t)(i < most ? snprintf(text + used, bytes - used, "%s%u", separator, missing->rank[i])
                                  : snprintf(text + used, bytes - used, " and more"));
    }
}

/* ---- what has become of the others ---- */

/* The topic that tells it, and the rank; NULL if all are there, as far as can be seen. */
static const char *find_gone(const struct gpucoll_team *team, uint32_t *rank)
{
    const struct gpucoll_cluster *cluster = team->cluster;
    for (uint32_t i = 0; i < team->size; i++) {
        if (i != team->rank && gpucoll_process_gone(&team->members[i].peer->process)) {
            *rank = team->members[i].number;
            return "peer-died";
        }
    }
    for (*rank = 0; cluster != NULL && *rank < cluster->size; ++*rank) {
        if (cluster->peers[*rank] != NULL && cluster->ops->gone(cluster->net, cluster->peers[*rank])) {
            return "peer-lost";
        }
    }
    return NULL;
}

/* Who gave up may have done so without having looked why the others do not answer. */
static gpucoll_status show_gave_up(const struct gpucoll_request *call, uint32_t rank,
                                   const struct gpucoll_missing *missing)
{
    struct gpucoll_team *team = call->team;
    char ranks[256];
    team->missing = *missing;
    list(missing, ranks, sizeof ranks);
    gpucoll_help(team->context->log, "peer-gave-up", rank, gpucoll_coll_name(gpucoll_request_coll(call)),
                 team->name, (unsigned long long)call->call, ranks);
    uint32_t gone;
    team->missing.gone |= team->missing.gone == 0 && find_gone(team, &gone) != NULL;
    return gpucoll_watchdog_given_up(team);
}

static gpucoll_status show_gone(const struct gpucoll_request *call, uint32_t rank, const char *topic)
{
    struct gpucoll_team *team = call->team;
    note_missing(&team->missing, rank);
    team->missing.gone = 1;
    gpucoll_help(team->context->log, topic, rank, gpucoll_coll_name(gpucoll_request_coll(call)), team->name,
                 (unsigned long long)call->call);
    return GPUCOLL_ERR_PEER;
}

/* Has a rank of another host told that it gave this call up, or, with `any`, some call of the team? */
static gpucoll_status look_at_alarm(const struct gpucoll_request *call, bool any)
{
    const struct gpucoll_cluster *cluster = call->team->cluster;
    if (cluster == NULL || !cluster->alarmed) {
        return GPUCOLL_IN_PROGRESS;
    }
    const struct gpucoll_alarm *alarm = &cluster->alarm;
    const bool meant = !is_barrier(call) && alarm->call <= call->call;
    if (!meant && !any) {
        return GPUCOLL_IN_PROGRESS;
    }
    return alarm->rank ==
                   cluster->rank /* which found it when it was through: gpucoll_cluster_tell_unreached */
               ? show_gone(call, alarm->missing.rank[0], "peer-lost")
               : show_gave_up(call, alarm->rank, &alarm->missing);
}

/* The same of the ranks of this host. */
static gpucoll_status look_at_boards(const struct gpucoll_request *call, bool any)
{
    const struct gpucoll_team *team = call->team;
    for (uint32_t i = 0; i < team->size; i++) {
        const struct gpucoll_team_board *board = team->members[i].board;
        if (i == team->rank || atomic_load_explicit(&board->broken, memory_order_acquire) == 0) {
            continue;
        }
        if (any || (!is_barrier(call) && board->gave_up <= call->call)) {
            return show_gave_up(call, team->members[i].number, &board->missing);
        }
    }
    return GPUCOLL_IN_PROGRESS;
}

/* Are the others there? */
static gpucoll_status look_at_peers(const struct gpucoll_request *call)
{
    uint32_t rank;
    const char *topic = find_gone(call->team, &rank);
    return topic != NULL ? show_gone(call, rank, topic) : GPUCOLL_IN_PROGRESS;
}

/* Who keeps the request waiting: a kernel that is told to stop says which rank it was waiting for. */
static uint32_t find_missing(const struct gpucoll_request *request, uint32_t missing)
{
    if (request->state != GPUCOLL_RUNNING || request->in_barrier) {
        return missing;
    }
    const struct gpucoll_lane *lane = request->lane;
    request->gpu->device->accel->ops->stream_stop(lane->stream);
    uint32_t stuck = __atomic_load_n(&lane->status->stuck_rank, __ATOMIC_ACQUIRE);
    return stuck != 0 ? request->team->members[stuck - 1].number : missing;
}

/* How long to wait; 0: for ever. Somebody on another host may be silent only because it waits for a rank of its own host, which it can name: it
 * speaks first. */
static uint64_t limit_ns(const struct gpucoll_team *team, uint32_t missing)
{
    const uint64_t timeout_ns = (uint64_t)team->context->config->timeout * 1000000000u;
    const struct gpucoll_cluster *cluster = team->cluster;
    const bool far = cluster != NULL && cluster->host_of[missing] != cluster->host;
    return far ? timeout_ns + timeout_ns / 8 : timeout_ns;
}

/* The first call of the team that this rank does not complete: none that has not ended does. `call`: of a team that has run none natively. */
static uint64_t first_of(const struct gpucoll_team *team, uint64_t call)
{
    return team->active ? atomic_load_explicit(&team->board->agreed, memory_order_relaxed) + 1 : call;
}

/* Does no earlier call of the team go on? Whatever ends this one ends that as well, which all may be able to complete. */
static bool is_oldest(const struct gpucoll_request *call)
{
    return first_of(call->team, call->call) >= call->call;
}

/* All of this after a second: who only is slow still gets to the end of its calls. */
static gpucoll_status look_around(struct gpucoll_request *request, uint64_t now)
{
    const struct gpucoll_request *call = whole(request);
    const bool any = now - request->looked_ns > suspicion_ns;
    gpucoll_status status = GPUCOLL_IN_PROGRESS;
    if (any || (call->team->cluster != NULL && is_oldest(call))) {
        status = look_at_boards(call, any);
    }
    if (any && status == GPUCOLL_IN_PROGRESS) {
        request->looked_ns = now;
        status = look_at_alarm(call, true);
        status = status == GPUCOLL_IN_PROGRESS ? look_at_peers(call) : status;
    }
    return status;
}

static gpucoll_status time_out(struct gpucoll_request *request, uint32_t missing, const char *doing)
{
    const struct gpucoll_request *call = whole(request);
    struct gpucoll_team *team = call->team;
    char ranks[256];
    find_late(request, find_missing(request, missing), &team->missing);
    list(&team->missing, ranks, sizeof ranks);
    gpucoll_help(team->context->log, "timeout", team->members[team->rank].number,
                 team->context->config->timeout, doing, gpucoll_coll_name(gpucoll_request_coll(call)),
                 team->name, (unsigned long long)call->call, ranks);
    return GPUCOLL_ERR_TIMEOUT;
}

/* `times`: how many times as long as usual. */
static gpucoll_status watch(struct gpucoll_request *request, uint32_t missing, const char *doing,
                            unsigned times)
{
    /* Nobody waits in a warm-up, or in what it posts for the ranks of one host. A rehearsal for which this rank has offered a lane waits for
     * nobody who computes, but perhaps for one that the machine keeps from running: that is no reason to give up before MPI_Init does. */
    static const uint64_t least_ns = 10000000000u;
    const struct gpucoll_request *call = whole(request);
    if (call->own && call->lane == NULL) {
        const bool ended = call->team->given_up && call->team->cluster == NULL && !call->team->inner;
        return ended ? gpucoll_watchdog_given_up(call->team) : GPUCOLL_IN_PROGRESS;
    }
    gpucoll_status status = is_oldest(call) ? look_at_alarm(call, false) : GPUCOLL_IN_PROGRESS;
    if (status != GPUCOLL_IN_PROGRESS || ++request->polls < polls_per_look) {
        return status;
    }
    request->polls = 0;
    const uint64_t now = gpucoll_now_ns();
    const uint64_t usual = times * limit_ns(call->team, missing);
    const uint64_t limit = call->own && usual > 0 && usual < least_ns ? least_ns : usual;
    if (request->waiting.looked_ns == 0) {
        request->looked_ns = now;
    }
    const uint64_t waited = gpucoll_patience_look(&request->waiting, now, limit / looks_a_limit);
    status = look_around(request, now);
    return status == GPUCOLL_IN_PROGRESS && limit > 0 && waited > limit ? time_out(request, missing, doing)
                                                                        : status;
}

gpucoll_status gpucoll_watchdog_far(struct gpucoll_request *request, uint32_t missing, const char *doing)
{
    return watch(request, missing, doing, 1);
}

gpucoll_status gpucoll_watchdog(struct gpucoll_request *request, uint32_t missing, const char *doing)
{
    return gpucoll_watchdog_far(request, request->team->members[missing].number, doing);
}

gpucoll_status gpucoll_watchdog_behind(struct gpucoll_request *request, uint32_t missing, const char *doing)
{
    const uint64_t moves = whole(request)->team->moves;
    if (request->moves_before != moves) {
        request->moves_before = moves;
        start_anew(request);
    }
    /* The earlier call has a watchdog of its own, which knows better whom to name. */
    return watch(request, request->team->members[missing].number, doing, 2);
}

gpucoll_status gpucoll_watchdog_failed(struct gpucoll_request *request, uint32_t missing,
                                       gpucoll_status status)
{
    const gpucoll_status told = look_at_alarm(request, false);
    if (told != GPUCOLL_IN_PROGRESS) {
        return told;
    }
    return status == GPUCOLL_ERR_SYSTEM ? show_gone(request, missing, "peer-lost") : status;
}

/* ---- giving up ---- */

static uint64_t first_given_up(const struct gpucoll_request *request)
{
    const struct gpucoll_team *team = request->team;
    return first_of(team, request == team->barrier_watch ? team->calls + 1 : request->call);
}

/* A warm-up, or a rehearsal without a lane, is cancelled where the communicator is freed before all have come to it: that is no error, and others
 * may still be in what all have come to before. */
static bool is_error(const struct gpucoll_request *request)
{
    return !request->own || !request->cancelled || request->lane != NULL;
}

static void show_broken(struct gpucoll_team *team, uint64_t first, const struct gpucoll_missing *missing)
{
    team->board->gave_up = first;
    team->board->missing = *missing;
    atomic_store_explicit(&team->board->broken, 1, memory_order_release);
}

/* The peers are to see it. */
static void publish(struct gpucoll_request *request)
{
    struct gpucoll_team *team = request->team;
    if (team->board != NULL && !team->given_up && is_error(request)) {
        show_broken(team, first_given_up(request), &whole(request)->team->missing);
    }
    team->given_up = true;
}

void gpucoll_watchdog_forsake(struct gpucoll_team *team)
{
    const uint64_t first = first_of(team, team->calls);
    if (team->given_up) {
        return;
    }
    if (team->cluster != NULL) {
        gpucoll_cluster_alarm(team->cluster, first, &team->missing);
    }
    if (team->board != NULL) {
        show_broken(team, first, &team->missing);
    }
    team->given_up = true;
}

void gpucoll_watchdog_abandon(struct gpucoll_request *request)
{
    const struct gpucoll_team *team = request->team;
    if (team->cluster != NULL) { /* first: to stop a call may take its time */
        if (is_error(request)) {
            const uint64_t first = first_given_up(request);
            gpucoll_cluster_alarm(team->cluster, first, &team->missing);
            gpucoll_cluster_desert(request, first, &team->missing);
        }
        publish(request);
    }
    gpucoll_cluster_stop(request);
    gpucoll_gate_drop(request);
    if (request->lane != NULL) {
        request->lane->poisoned = true;
        if (request->state == GPUCOLL_RUNNING && request->plan.algorithm->stop != NULL) {
            request->plan.algorithm->stop(request);
        }
        /* When the caller has the error, the buffers are its own again. (But for kernels that have not begun by then: docs/design.md.) */
        request->gpu->device->accel->ops->stream_stop(request->lane->stream);
    } else if (request->state == GPUCOLL_RUNNING && request->gpu != NULL) { /* of one rank (core/alone.c) */
        gpucoll_pipeline_stop(request);
    }
    publish(request);
}
