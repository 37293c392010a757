#include "core/watchdog.h"

#include <signal.h>
#include <errno.h>
#include <stdio.h>
#include "core/algorithm.h"
#include "core/base/clock.h"
#include "core/cluster.h"

/* Polls between two looks at the clock: some tens of microseconds when nothing else is turned in between. */
static const uint32_t polls_per_look = 1024;
/* Waiting longer than this, look whether the peers still live. */
static const uint64_t suspicion_ns = 1000000000u;

void gpucoll_watchdog_reset(struct gpucoll_request *request)
{
    request->started_ns = 0;
    request->polls = 0;
}

/* The ranks that have not arrived at this call, as the communicator counts them: "2, 5". */
static void list_missing(const struct gpucoll_request *request, uint32_t missing, char *text, size_t bytes)
{
    const struct gpucoll_team *team = request->team;
    size_t used = (size_t)snprintf(text, bytes, "%u", missing);
    for (uint32_t i = 0; i < team->size && used < bytes; i++) {
        bool late = request->state == GPUCOLL_AGREEING &&
                    atomic_load_explicit(&team->members[i].board->head, memory_order_acquire) < request->call;
        if (team->members[i].number != missing && late) {
            used += (size_t)snprintf(text + used, bytes - used, ", %u", team->members[i].number);
        }
    }
}

static bool process_gone(const struct gpucoll_process_id *process)
{
    struct gpucoll_process_id self;
    gpucoll_process_id_self(&self);
    return self.pid_space == process->pid_space && kill((pid_t)process->pid, 0) != 0 && errno == ESRCH;
}

/* A rank that has given up or whose process is gone; its topic. NULL if all seem to be there. */
static const char *find_lost(const struct gpucoll_team *team, uint32_t *rank)
{
    for (uint32_t i = 0; i < team->size; i++) {
        *rank = i;
        if (i == team->rank) {
            continue;
        }
        if (atomic_load_explicit(&team->members[i].board->broken, memory_order_acquire) != 0) {
            return "peer-gave-up";
        }
        if (process_gone(&team->members[i].peer->process)) {
            return "peer-died";
        }
    }
    return NULL;
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

/* Somebody on another host may be silent only because it waits for a rank of its own host, which it can name: it speaks first. */
static uint64_t limit_ns(const struct gpucoll_team *team, uint32_t missing)
{
    const uint64_t timeout_ns = (uint64_t)team->context->config->timeout * 1000000000u;
    const struct gpucoll_cluster *cluster = team->cluster;
    const bool far = cluster != NULL && cluster->host_of[missing] != cluster->host;
    return far ? timeout_ns + timeout_ns / 8 : timeout_ns;
}

gpucoll_status gpucoll_watchdog(struct gpucoll_request *request, uint32_t missing, const char *doing)
{
    return gpucoll_watchdog_far(request, request->team->members[missing].number, doing);
}

gpucoll_status gpucoll_watchdog_far(struct gpucoll_request *request, uint32_t missing, const char *doing)
{
    if (request->coll == GPUCOLL_WARMUP || ++request->polls < polls_per_look) {
        return GPUCOLL_IN_PROGRESS;
    }
    request->polls = 0;
    uint64_t now = gpucoll_now_ns();
    if (request->started_ns == 0) {
        request->started_ns = now;
        request->looked_ns = now;
        return GPUCOLL_IN_PROGRESS;
    }
    const struct gpucoll_team *team = request->team;
    const struct gpucoll_log *log = team->context->log;
    const char *coll = gpucoll_coll_name(request->coll);
    unsigned long long call = request->call;
    if (now - request->looked_ns > suspicion_ns) {
        request->looked_ns = now;
        uint32_t rank = 0;
        const char *topic = find_lost(team, &rank);
        if (topic != NULL) {
            gpucoll_help(log, topic, team->members[rank].number, coll, team->name, call);
            return GPUCOLL_ERR_TIMEOUT;
        }
    }
    int timeout = team->context->config->timeout;
    if (timeout > 0 && now - request->started_ns > limit_ns(team, missing)) {
        char ranks[128];
        list_missing(request, find_missing(request, missing), ranks, sizeof ranks);
        gpucoll_help(log, "timeout", team->members[team->rank].number, timeout, doing, coll, team->name, call,
                     ranks);
        return GPUCOLL_ERR_TIMEOUT;
    }
    return GPUCOLL_IN_PROGRESS;
}

void gpucoll_watchdog_abandon(struct gpucoll_request *request)
{
    struct gpucoll_team *team = request->team;
    gpucoll_cluster_stop(request);
    if (request->lane != NULL) {
        request->lane->poisoned = true;
        if (request->state == GPUCOLL_RUNNING && request->plan.algorithm->stop != NULL) {
            request->plan.algorithm->stop(request);
        }
        /* When the caller has the error, the buffers are its own again. */
        request->gpu->device->accel->ops->stream_stop(request->lane->stream);
    }
    team->given_up = true;
    if (team->board != NULL) {
        atomic_store_explicit(&team->board->broken, 1, memory_order_release);
    }
}
