/*
 * The agreement of all hosts on a call, by a span (core/cluster/cluster_span.c), and calls that a rank passes.
 */
#include "core/cluster/cluster.h"

#include "core/agreement.h"
#include "core/base/clock.h"
#include "core/watchdog.h"

static struct gpucoll_verdict verdict_of(const struct gpucoll_cluster *cluster, enum gpucoll_finding found,
                                         enum gpucoll_reason reason)
{
    return (struct gpucoll_verdict){
        .found = found,
        .reason = reason,
        .host = cluster->host,
        .lowest = cluster->host,
        .first_rank = gpucoll_host_rank(cluster, cluster->host, 0),
    };
}

void gpucoll_cluster_leave_barrier(struct gpucoll_cluster *cluster, uint64_t next)
{
    const uint32_t channel = gpucoll_span_channel(GPUCOLL_SPAN_BARRIER, next);
    struct gpucoll_span **link = &cluster->late;
    uint32_t missing;
    if (cluster->barrier != NULL) {
        cluster->barrier->next = cluster->late;
        cluster->late = cluster->barrier;
        cluster->barrier = NULL;
    }
    while (*link != NULL) {
        struct gpucoll_span *span = *link;
        if (gpucoll_span_test(span, &missing) == GPUCOLL_IN_PROGRESS &&
            gpucoll_span_channel(span->kind, span->number) != channel) {
            link = &span->next;
        } else {
            *link = span->next;
            gpucoll_span_end(span);
        }
    }
}

void gpucoll_cluster_reap(struct gpucoll_cluster *cluster)
{
    struct gpucoll_span *span;
    uint32_t missing;
    while ((span = cluster->passing) != NULL && gpucoll_span_test(span, &missing) != GPUCOLL_IN_PROGRESS) {
        cluster->passing = span->next;
        gpucoll_span_end(span);
    }
}

/* Tells all rounds at once, and takes what the others tell whenever it comes. */
static void tell_ahead(struct gpucoll_cluster *cluster, uint64_t call, enum gpucoll_finding found,
                       enum gpucoll_reason reason)
{
    gpucoll_cluster_hear(cluster);
    if (cluster->told || (cluster->alarmed && cluster->alarm.call <= call)) {
        return; /* nobody waits for it, and nobody will tell this rank */
    }
    gpucoll_cluster_reap(cluster);
    const struct gpucoll_verdict verdict = verdict_of(cluster, found, reason);
    struct gpucoll_span *span = gpucoll_span_start(cluster, GPUCOLL_SPAN_CALL, call, &verdict, NULL, true);
    if (span != NULL) { /* without memory the others find out in time */
        *(cluster->passing != NULL ? &cluster->passing_last->next : &cluster->passing) = span;
        cluster->passing_last = span;
    }
}

void gpucoll_cluster_pass(struct gpucoll_team *team)
{
    if (team->context->config->agree_hosts) {
        tell_ahead(team->cluster, team->calls, GPUCOLL_FOUND_PASSED, GPUCOLL_REASON_PASSED);
    }
}

void gpucoll_cluster_skip(struct gpucoll_request *request)
{
    request->reason = GPUCOLL_REASON_SMALL;
    tell_ahead(request->team->cluster, request->call, GPUCOLL_FOUND_DECLINED, request->reason);
}

/* What all hosts have found, as this request is to end or go on. */
static gpucoll_status conclude(struct gpucoll_request *request, const struct gpucoll_verdict *all)
{
    const struct gpucoll_team *team = request->team;
    switch ((enum gpucoll_finding)all->found) {
    case GPUCOLL_FOUND_ABLE:
        request->bytes = all->bytes;
        return GPUCOLL_OK;
    case GPUCOLL_FOUND_MISMATCH:
        if (!request->mismatch_said) {
            gpucoll_help(team->context->log, "arguments-differ", gpucoll_coll_name(request->coll), team->name,
                         (unsigned long long)request->call, all->other);
        }
        return GPUCOLL_ERR_MISMATCH;
    case GPUCOLL_FOUND_DECLINED:
    case GPUCOLL_FOUND_PASSED:
        break;
    }
    request->reason = (enum gpucoll_reason)all->reason;
    gpucoll_log(team->context->log, GPUCOLL_LOG_CALL, "%s: call %llu: host %u, of rank %u, declines: %s",
                team->name, (unsigned long long)request->call, all->host,
                gpucoll_host_rank(team->cluster, all->host, 0), gpucoll_reason_text(request->reason));
    return GPUCOLL_DECLINED;
}

gpucoll_status gpucoll_cluster_agree(struct gpucoll_request *request, gpucoll_status status)
{
    struct gpucoll_cluster *cluster = request->team->cluster;
    const enum gpucoll_finding found = request->passed                  ? GPUCOLL_FOUND_PASSED
                                       : status == GPUCOLL_ERR_MISMATCH ? GPUCOLL_FOUND_MISMATCH
                                       : status == GPUCOLL_DECLINED     ? GPUCOLL_FOUND_DECLINED
                                                                        : GPUCOLL_FOUND_ABLE;
    enum gpucoll_reason reason = request->passed ? GPUCOLL_REASON_PASSED : request->reason;
    struct gpucoll_verdict verdict =
        verdict_of(cluster, found, status == GPUCOLL_DECLINED ? reason : GPUCOLL_REASON_NONE);
    verdict.other = gpucoll_host_rank(cluster, cluster->host, 0);
    verdict.signature = request->passed ? 0 : gpucoll_agreement_post(request, 0)->signature;
    for (uint32_t i = 0; i < request->team->size && !request->passed; i++) {
        const uint64_t bytes = gpucoll_agreement_post(request, i)->bytes;
        verdict.bytes = bytes > verdict.bytes ? bytes : verdict.bytes;
    }
    request->mismatch_said = found == GPUCOLL_FOUND_MISMATCH;
    /* Without agreement all hosts are as this one; but that all have come they tell each other in any case. */
    const bool meets = request->coll == GPUCOLL_BARRIER && status == GPUCOLL_OK;
    if (!request->team->context->config->agree_hosts && !meets) {
        return conclude(request, &verdict);
    }
    request->state = GPUCOLL_SPANNING;
    gpucoll_watchdog_reset(request);
    const void *carried = NULL;
    verdict.carried = status == GPUCOLL_OK ? gpucoll_carry_brought(request, &carried) : 0;
    request->span =
        gpucoll_span_start(cluster, GPUCOLL_SPAN_CALL, request->call, &verdict, carried, request->passed);
    return request->span != NULL ? gpucoll_cluster_span(request) : GPUCOLL_ERR_NO_MEMORY;
}

/* Whoever runs the call turns the network's progress on. Who is about to leave it waits a little until what it has told is on its way. */
static bool lingers(const struct gpucoll_request *request)
{
    static const uint64_t patience_ns = 1000000;
    struct gpucoll_span *span = request->span;
    const bool runs = span->known.found == GPUCOLL_FOUND_ABLE && gpucoll_coll_has_buffers(request->coll) &&
                      span->known.carried == 0;
    if (runs || gpucoll_span_is_sent(span)) {
        return false;
    }
    const uint64_t now = gpucoll_now_ns();
    span->lingers_since_ns = span->lingers_since_ns == 0 ? now : span->lingers_since_ns;
    return now - span->lingers_since_ns < patience_ns;
}

/* All hosts could run the call: would they be slower than the next component? What has come along has its result already. */
static bool is_small(const struct gpucoll_request *request)
{
    return request->span->known.carried == 0 && gpucoll_coll_has_buffers(request->coll) &&
           gpucoll_cluster_is_small(request->team->cluster, request->coll, request->bytes);
}

gpucoll_status gpucoll_cluster_span(struct gpucoll_request *request)
{
    uint32_t missing = 0;
    gpucoll_status status = gpucoll_span_test(request->span, &missing);
    if (status == GPUCOLL_IN_PROGRESS && request->team->given_up) {
        /* By an earlier call of this rank. The others know that, and do not tell it so. */
        return gpucoll_watchdog_given_up(request->team);
    }
    if (status == GPUCOLL_IN_PROGRESS) {
        return gpucoll_watchdog_far(request, missing, "waiting for what another host brings to the call");
    }
    if (status == GPUCOLL_OK && lingers(request)) {
        return GPUCOLL_IN_PROGRESS;
    }
    if (status == GPUCOLL_OK) {
        status = conclude(request, &request->span->known);
        if (status == GPUCOLL_OK && is_small(request)) {
            request->reason = GPUCOLL_REASON_SMALL;
            status = GPUCOLL_DECLINED;
        }
        if (status == GPUCOLL_OK) {
            gpucoll_carry_take(request, request->span);
        }
    } else {
        status = gpucoll_watchdog_failed(request, missing, status);
        if (status != GPUCOLL_ERR_MISMATCH) {
            return status; /* to end it may take seconds: the others are told first (gpucoll_watchdog_abandon) */
        }
    }
    gpucoll_span_end(request->span);
    request->span = NULL;
    return status;
}
