#include "core/observe.h"

#include <stdio.h>
#include "core/cluster/cluster.h"
#include "core/plan/algorithm.h"

static bool is_nested(const struct gpucoll_request *request)
{
    return request->form == GPUCOLL_FORM_BLOCKING;
}

static void open_range(struct gpucoll_request *request, uint64_t *range, const char *text)
{
    *range = gpucoll_trace_begin(is_nested(request), request->bytes, "%s", text);
}

void gpucoll_observe_begin(struct gpucoll_request *request)
{
    struct gpucoll_observed *observed = &request->observed;
    if (request->own) {
        return; /* no call of the application */
    }
    observed->begun = true;
    observed->posted = gpucoll_ticks();
    observed->arrived = observed->posted;
    if (gpucoll_trace_on()) {
        observed->traced = true;
        observed->call =
            gpucoll_trace_begin(is_nested(request), request->bytes, "%s %llu B",
                                gpucoll_coll_name(request->coll), (unsigned long long)request->bytes);
        open_range(request, &observed->part, "waiting for ranks");
    }
}

void gpucoll_observe_arrival(struct gpucoll_request *request)
{
    request->observed.arrived = gpucoll_ticks();
}

void gpucoll_observe_start(struct gpucoll_request *request)
{
    struct gpucoll_observed *observed = &request->observed;
    const struct gpucoll_plan *plan = &request->plan;
    if (observed->traced) {
        gpucoll_trace_end(is_nested(request), observed->part);
        observed->part =
            gpucoll_trace_begin(is_nested(request), request->bytes, "%s/%s %u CTAs%s", plan->algorithm->name,
                                plan->algorithm->protocol, plan->ctas, plan->linger ? " that linger" : "");
    }
}

static void count(const struct gpucoll_request *request)
{
    const struct gpucoll_observed *observed = &request->observed;
    const struct gpucoll_plan *plan = &request->plan;
    const uint64_t now = gpucoll_ticks();
    const struct gpucoll_stats_key key = {
        .coll = (uint8_t)request->coll,
        .form = request->form,
        .way = GPUCOLL_WAY_NATIVE,
        .detail = request->stages != NULL            ? GPUCOLL_DETAIL_HOSTS
                  : request->coll == GPUCOLL_BARRIER ? GPUCOLL_DETAIL_BOARD
                  : plan->algorithm != NULL          ? (uint8_t)gpucoll_algorithm_index(plan->algorithm)
                                                     : GPUCOLL_DETAIL_COPY,
        .size_class = gpucoll_size_class(request->bytes),
        .linger = plan->linger,
        .ctas = (uint16_t)plan->ctas,
    };
    /* Counters of different cores may differ by some ticks. */
    const uint64_t waiting = observed->arrived > observed->posted ? observed->arrived - observed->posted : 0;
    const uint64_t running = now > observed->arrived ? now - observed->arrived : 0;
    gpucoll_stats_add(request->team->context->stats, key, request->bytes, waiting, running);
}

void gpucoll_observe_finish(struct gpucoll_request *request, gpucoll_status status)
{
    struct gpucoll_observed *observed = &request->observed;
    if (observed->traced) {
        gpucoll_trace_end(is_nested(request), observed->part);
        gpucoll_trace_end(is_nested(request), observed->call);
    }
    if (status == GPUCOLL_OK && gpucoll_stats_on(request->team->context->stats)) {
        count(request);
    }
}

/* How it went, in words. */
static void outcome(const struct gpucoll_request *request, gpucoll_status status, char *text, size_t size)
{
    const struct gpucoll_plan *plan = &request->plan;
    if (status == GPUCOLL_DECLINED) {
        snprintf(text, size, "declined: %s", gpucoll_reason_text(request->reason));
    } else if (status != GPUCOLL_OK) {
        snprintf(text, size, "%s", gpucoll_status_name(status));
    } else if (request->coll == GPUCOLL_WARMUP) {
        snprintf(text, size, "connected");
    } else if (request->coll == GPUCOLL_BARRIER) {
        snprintf(text, size, "all ranks have come");
    } else if (request->stages != NULL) {
        snprintf(text, size, "ran natively on %u hosts", request->team->cluster->hosts);
    } else if (plan->algorithm == NULL) {
        snprintf(text, size, "ran natively: nothing to exchange");
    } else {
        snprintf(text, size, "ran natively by %s/%s, %u CTAs%s%s", plan->algorithm->name,
                 plan->algorithm->protocol, plan->ctas, plan->linger ? " that linger" : "",
                 request->early ? ", begun early" : "");
    }
}

void gpucoll_observe_log(const struct gpucoll_request *request, gpucoll_status status)
{
    const struct gpucoll_log *log = request->team->context->log;
    if (log->verbosity >= GPUCOLL_LOG_CALL) {
        char how[160];
        outcome(request, status, how, sizeof how);
        gpucoll_log(log, GPUCOLL_LOG_CALL, "%s: call %llu, %s of %llu bytes: %s", request->team->name,
                    (unsigned long long)request->call, gpucoll_coll_name(gpucoll_request_coll(request)),
                    (unsigned long long)request->bytes, how);
    }
}
