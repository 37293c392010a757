#include "core/request.h"

#include <stdlib.h>
#include "core/agreement.h"
#include "core/cluster/cluster.h"
#include "core/copy_list.h"
#include "core/direct.h"
#include "core/exchange.h"
#include "core/links.h"
#include "core/observe.h"
#include "core/packing.h"
#include "core/plan/algorithm.h"
#include "core/watchdog.h"

/* The peers may reuse the ring entries of the calls up to the first that has not ended here. */
static void raise_agreed(struct gpucoll_team *team, uint64_t call)
{
    uint64_t agreed = atomic_load_explicit(&team->board->agreed, memory_order_relaxed);
    team->ended |= 1u << (call % GPUCOLL_RING);
    for (uint32_t bit; (bit = 1u << ((agreed + 1) % GPUCOLL_RING)) & team->ended; agreed++) {
        team->ended &= ~bit;
    }
    atomic_store_explicit(&team->board->agreed, agreed, memory_order_release);
}

/* About from now on a kernel that lingers waits for the next call, or would wait if calls came in time. Only of a call that had a plan, since there is no kernel
 * of another; and that somebody waits in: the end of others is seen when somebody looks. */
static void note_end(struct gpucoll_request *request)
{
    struct gpucoll_lane *lane = request->lane;
    const bool seen = request->plan.algorithm != NULL && request->form == GPUCOLL_FORM_BLOCKING;
    if (seen && lane == request->gpu->lanes && gpucoll_habit_awaits_end(&lane->habit)) {
        gpucoll_habit_ended(&lane->habit, gpucoll_now_ns() + request->stays_ns);
    }
}

static void end(struct gpucoll_request *request)
{
    struct gpucoll_team *team = request->team;
    gpucoll_packing_close(request);
    gpucoll_cluster_close(request);
    if (request->lane != NULL || request->exported != NULL || request->sourced != NULL ||
        request->lent != NULL) {
        pthread_mutex_lock(&team->context->lock);
        /* Of a call that is given up a kernel may still write there. */
        if (request->lent != NULL && (request->lane == NULL || !request->lane->poisoned)) {
            gpucoll_device_pool_put(&request->lender->pool, request->lent);
        }
        if (request->lane != NULL) {
            note_end(request);
            gpucoll_gpu_give_lane(request->lane);
        }
        if (request->exported != NULL) {
            gpucoll_export_give(request->exported);
        }
        if (request->sourced != NULL) {
            gpucoll_export_give(request->sourced);
        }
        pthread_mutex_unlock(&team->context->lock);
    }
    if (team->board != NULL && request->state > GPUCOLL_QUEUED) {
        raise_agreed(team, request->call);
    }
    if (team->decided < request->call) {
        team->decided = request->call;
    }
    gpucoll_request_keep(team, request);
}

struct gpucoll_request *gpucoll_request_for_barrier(struct gpucoll_team *team)
{
    struct gpucoll_request *request = calloc(1, sizeof *request);
    if (request != NULL) {
        request->team = team;
        request->coll = GPUCOLL_BARRIER;
        request->call = team->barriers;
        request->state = GPUCOLL_RUNNING;
        request->in_barrier = true;
    }
    return request;
}

void gpucoll_request_drop(struct gpucoll_request *request)
{
    free(request);
}

/* What the ranks of this host bring goes along with what they have decided. */
static gpucoll_status carry(struct gpucoll_request *request)
{
    gpucoll_status agreed = GPUCOLL_OK;
    gpucoll_status status = gpucoll_carry_gather(request, &agreed);
    return status == GPUCOLL_OK ? gpucoll_cluster_agree(request, agreed) : status;
}

/* The ranks of this host have decided, or are about to: then so do all hosts. */
static gpucoll_status decide_far(struct gpucoll_request *request, gpucoll_status status)
{
    if (status == GPUCOLL_OK && request->coll != GPUCOLL_BARRIER) {
        status = gpucoll_cluster_probe(request);
    }
    /* An error is this rank's own: its alarm tells the others. */
    const bool failed = status < 0 && status != GPUCOLL_ERR_MISMATCH;
    if (status == GPUCOLL_IN_PROGRESS || failed) {
        return status;
    }
    if (gpucoll_carry_waits(request, status)) {
        request->state = GPUCOLL_CARRYING;
        gpucoll_watchdog_reset(request);
        return carry(request);
    }
    return gpucoll_cluster_agree(request, status);
}

/* All hosts run the call. */
static gpucoll_status start_stages(struct gpucoll_request *request)
{
    request->team->decided = request->call;
    if (!gpucoll_coll_has_buffers(request->coll)) {
        return GPUCOLL_OK;
    }
    return gpucoll_cluster_start(request);
}

/* Every rank has posted: all take the same way from here. */
static gpucoll_status decide(struct gpucoll_request *request)
{
    gpucoll_observe_arrived(request);
    gpucoll_status status = gpucoll_agreement_decide(request);
    if (!request->inboxes) {
        gpucoll_early_call_off(request);
    }
    if (request->team->cluster != NULL) {
        return decide_far(request, status);
    }
    if (status != GPUCOLL_OK || request->coll == GPUCOLL_BARRIER) { /* no GPU takes part in that */
        return status;
    }
    if (!gpucoll_agreement_find_links(request)) {
        status = gpucoll_links_begin(request);
        if (status != GPUCOLL_OK) {
            return status;
        }
        request->state = GPUCOLL_CONNECTING;
        return GPUCOLL_IN_PROGRESS;
    }
    return request->links->ways != 0 ? GPUCOLL_OK : GPUCOLL_DECLINED;
}

static gpucoll_status start_algorithm(struct gpucoll_request *request)
{
    request->state = GPUCOLL_RUNNING;
    gpucoll_status status = request->plan.algorithm->start(request);
    if (status == GPUCOLL_OK) {
        _Atomic uint64_t *started = &request->team->board->started[request->call % GPUCOLL_RING];
        atomic_store_explicit(started, request->call, memory_order_relaxed);
        return GPUCOLL_IN_PROGRESS;
    }
    return status;
}

static gpucoll_status start(struct gpucoll_request *request)
{
    request->team->decided = request->call;
    gpucoll_observe_run(request);
    if (request->plan.algorithm->lists) {
        gpucoll_copy_list_sends(request);
    }
    gpucoll_status status = gpucoll_packing_launch(request->packing, request->lane, false);
    if (status != GPUCOLL_OK) {
        return status;
    }
    /* Copies are not in the order of the lane's stream. */
    const bool copies = request->plan.algorithm->direct || request->plan.algorithm->needs != 0;
    if (copies && gpucoll_packing_packs(request->packing)) {
        gpucoll_watchdog_reset(request);
        request->state = GPUCOLL_PACKING;
        return GPUCOLL_IN_PROGRESS;
    }
    return start_algorithm(request);
}

static gpucoll_status end_run(struct gpucoll_request *request)
{
    if (!gpucoll_packing_unpacks(request->packing)) {
        return GPUCOLL_OK;
    }
    gpucoll_watchdog_reset(request);
    request->state = GPUCOLL_UNPACKING;
    gpucoll_status status = gpucoll_packing_launch(request->packing, request->lane, true);
    return status == GPUCOLL_OK ? GPUCOLL_IN_PROGRESS : status;
}

/* Each rank maps what a call needs that reaches so far, and tells whether it could. */
static gpucoll_status map(struct gpucoll_request *request, enum gpucoll_direct reach)
{
    request->mapped = reach;
    gpucoll_barrier_enter(request, !gpucoll_direct_map(request, reach));
    gpucoll_watchdog_reset(request);
    request->state = GPUCOLL_MAPPING;
    return GPUCOLL_IN_PROGRESS;
}

static gpucoll_status offer(struct gpucoll_request *request);

/* Some ranks have no lane yet, or have told of no lane. */
static gpucoll_status follow(struct gpucoll_request *request)
{
    gpucoll_watchdog_reset(request);
    request->state = GPUCOLL_OFFERING;
    return offer(request);
}

/* All ranks have lanes, or inboxes. */
static gpucoll_status run(struct gpucoll_request *request)
{
    if (!gpucoll_coll_has_buffers(request->coll)) {
        request->team->decided = request->call;
        return GPUCOLL_OK;
    }
    gpucoll_gpu_mark_running(request->lane);
    request->company = gpucoll_agreement_company(request, &request->apart);
    if (gpucoll_is_exchange(request->coll)) {
        request->bytes = gpucoll_exchange_longest(request);
        if (request->bytes == 0) {
            request->team->decided = request->call;
            return GPUCOLL_OK;
        }
    }
    if (!request->inboxes) { /* else it is planned as each rank has planned it before it posted */
        request->direct = gpucoll_direct_possible(request);
        request->room = gpucoll_direct_has_room(request);
    }
    gpucoll_status status = GPUCOLL_OK;
    if (request->early) {
        gpucoll_call_lingers(request);
    } else {
        status = gpucoll_call_plan(request);
    }
    if (status != GPUCOLL_OK) {
        return status;
    }
    if (request->inboxes && !gpucoll_early_suits(request)) {
        request->inboxes = false;
        return follow(request);
    }
    if (!request->plan.algorithm->direct || gpucoll_direct_met(request)) {
        return start(request);
    }
    return map(request, gpucoll_algorithm_direct(request->plan.algorithm));
}

/* After the barrier that ends mapping. One that was for a call in bulk does not tell whether nothing but what peers read could not be mapped:
 * then a second one tells whether all can write at least. */
static gpucoll_status run_mapped(struct gpucoll_request *request, bool all)
{
    const enum gpucoll_direct wanted = gpucoll_algorithm_direct(request->plan.algorithm);
    if (all && request->mapped == wanted) {
        return start(request);
    }
    if (!all) {
        gpucoll_direct_forget(request, request->mapped);
    }
    if (!all && request->mapped == GPUCOLL_DIRECT_BULK) {
        return map(request, GPUCOLL_DIRECT_STORES);
    }
    if (all) {
        gpucoll_direct_refuse_sources(request);
        request->direct = GPUCOLL_DIRECT_STORES;
    } else {
        gpucoll_direct_refuse(request);
        request->direct = GPUCOLL_DIRECT_NOT;
    }
    gpucoll_status status = gpucoll_call_plan(request);
    return status == GPUCOLL_OK ? start(request) : status;
}

static gpucoll_status offer(struct gpucoll_request *request)
{
    uint32_t missing = 0;
    gpucoll_status status = gpucoll_agreement_lanes(request, &missing);
    if (status == GPUCOLL_IN_PROGRESS) {
        return gpucoll_watchdog(request, missing, "waiting for a free lane on all ranks");
    }
    return status == GPUCOLL_OK ? run(request) : status;
}

static gpucoll_status agree(struct gpucoll_request *request)
{
    uint32_t missing = 0;
    if (!request->skipped && gpucoll_agreement_arrived(request, &missing) == GPUCOLL_IN_PROGRESS) {
        return gpucoll_watchdog(request, missing, "waiting for all ranks to call");
    }
    if (request->team->decided < request->call - 1) {
        return gpucoll_watchdog_behind(request, request->team->rank, "waiting for its own earlier call");
    }
    if (request->skipped) {
        gpucoll_cluster_skip(request);
        return GPUCOLL_DECLINED;
    }
    return decide(request);
}

static gpucoll_status connect_links(struct gpucoll_request *request)
{
    uint32_t missing = 0;
    gpucoll_status status = gpucoll_barrier_done(request, &missing);
    if (status == GPUCOLL_IN_PROGRESS) {
        status = gpucoll_watchdog(request, missing, "waiting for all ranks to connect");
    }
    return status == GPUCOLL_OK || status == GPUCOLL_DECLINED
               ? gpucoll_links_continue(request, status == GPUCOLL_OK)
               : status;
}

static gpucoll_status publish(struct gpucoll_request *request)
{
    uint32_t missing = 0;
    if (request->team->given_up) { /* since the call was made: the earlier one has waited long enough */
        return gpucoll_watchdog_given_up(request->team);
    }
    if (!gpucoll_agreement_publish(request, &missing)) {
        return gpucoll_watchdog_behind(request, missing, "publishing its call");
    }
    request->state = GPUCOLL_AGREEING;
    return gpucoll_carry_begin(request);
}

static gpucoll_status await_maps(struct gpucoll_request *request)
{
    uint32_t missing = 0;
    gpucoll_status status = gpucoll_barrier_done(request, &missing);
    return status == GPUCOLL_IN_PROGRESS
               ? gpucoll_watchdog(request, missing, "waiting for all ranks to map a buffer")
               : run_mapped(request, status == GPUCOLL_OK);
}

/* All that the ranks agree on has been: the call begins. */
static gpucoll_status begin_agreed(struct gpucoll_request *request)
{
    if (request->stages != NULL) {
        return start_stages(request);
    }
    return request->lanes_follow ? follow(request) : run(request);
}

/* One step; GPUCOLL_IN_PROGRESS when there is nothing more to do now. */
static gpucoll_status advance(struct gpucoll_request *request)
{
    gpucoll_status status = GPUCOLL_OK;
    switch (request->state) {
    case GPUCOLL_GIVEN_UP:
        return GPUCOLL_DECLINED;
    case GPUCOLL_QUEUED:
        status = publish(request);
        status = status == GPUCOLL_OK ? agree(request) : status;
        break;
    case GPUCOLL_AGREEING:
        status = agree(request);
        break;
    case GPUCOLL_PROBING:
        status = decide_far(request, GPUCOLL_OK);
        break;
    case GPUCOLL_CARRYING:
        status = carry(request);
        break;
    case GPUCOLL_SPANNING:
        status = gpucoll_cluster_span(request);
        break;
    case GPUCOLL_DELIVERING:
    case GPUCOLL_STAGES:
        return gpucoll_cluster_advance(request);
    case GPUCOLL_CONNECTING:
        status = connect_links(request);
        break;
    case GPUCOLL_OFFERING:
        return offer(request);
    case GPUCOLL_MAPPING:
        return await_maps(request);
    case GPUCOLL_RUNNING:
        status = request->plan.algorithm->progress(request);
        return status == GPUCOLL_OK ? end_run(request) : status;
    case GPUCOLL_PACKING:
        if (request->stages != NULL) {
            return gpucoll_cluster_advance(request);
        }
        status = gpucoll_kernel_wait(request);
        return status == GPUCOLL_OK ? start_algorithm(request) : status;
    case GPUCOLL_DRAINING:
        return GPUCOLL_OK; /* it is complete */
    case GPUCOLL_UNPACKING:
        return request->stages != NULL ? gpucoll_cluster_advance(request) : gpucoll_kernel_wait(request);
    }
    return status == GPUCOLL_OK ? begin_agreed(request) : status;
}

/* Where no rank's post says it. */
static enum gpucoll_reason find_reason(const struct gpucoll_request *request)
{
    if (request->state == GPUCOLL_GIVEN_UP) {
        return GPUCOLL_REASON_GIVEN_UP;
    }
    if (request->passed) {
        return GPUCOLL_REASON_PASSED;
    }
    return request->links != NULL && request->links->ways == 0 ? GPUCOLL_REASON_LINKS : GPUCOLL_REASON_PLAN;
}

/* Arguments that differ are seen by all ranks alike before anything is started; but of several hosts the length of a message may be what
 * tells, on its receiver alone and with the call at work. */
static bool is_own_failure(const struct gpucoll_request *request, gpucoll_status status)
{
    return status < 0 && (status != GPUCOLL_ERR_MISMATCH || request->state == GPUCOLL_STAGES);
}

gpucoll_status gpucoll_test(struct gpucoll_request *request)
{
    const bool alone = request->team->size == 1 && request->team->cluster == NULL;
    if (request->team->cluster != NULL) {
        gpucoll_cluster_turn(request->team->cluster);
    }
    gpucoll_status status = alone ? gpucoll_alone_test(request) : advance(request);
    if (status == GPUCOLL_OK && request->team->cluster != NULL) {
        status = gpucoll_cluster_drain(request);
    }
    if (status != GPUCOLL_IN_PROGRESS) {
        if (status == GPUCOLL_DECLINED) {
            request->reason = request->reason != GPUCOLL_REASON_NONE ? request->reason : find_reason(request);
            request->team->reason = request->reason;
        }
        if (status == GPUCOLL_OK && request->lane != NULL) {
            gpucoll_early_note(request);
        }
        gpucoll_observe_end(request, status);
        gpucoll_observe_log(request, status);
        if (is_own_failure(request, status)) {
            gpucoll_watchdog_abandon(request);
        }
        end(request);
    }
    return status;
}

bool gpucoll_refuse(struct gpucoll_request *request)
{
    return request->state == GPUCOLL_GIVEN_UP || gpucoll_agreement_refuse(request);
}

enum gpucoll_reason gpucoll_declined_reason(const struct gpucoll_team *team)
{
    return team->reason;
}

void gpucoll_cancel(struct gpucoll_request *request)
{
    gpucoll_observe_end(request, GPUCOLL_ERR_TIMEOUT);
    request->cancelled = true;
    gpucoll_watchdog_abandon(request);
    end(request);
}
