/*
 * What of a request is told to statistics (core/stats.h), to a profiler (core/trace.h) and to the log. Each function is one step in
 * a request's life, and returns at once unless somebody wants to know.
 */
#ifndef GPUCOLL_OBSERVE_H
#define GPUCOLL_OBSERVE_H

#include "core/request.h"
#include "core/stats.h"
#include "core/trace.h"

void gpucoll_observe_begin(struct gpucoll_request *request);
void gpucoll_observe_arrival(struct gpucoll_request *request);
void gpucoll_observe_start(struct gpucoll_request *request);
void gpucoll_observe_finish(struct gpucoll_request *request, gpucoll_status status);

/* To be called in gpucoll_post, once the request says what it is. */
static inline void gpucoll_observe_post(struct gpucoll_request *request)
{
    if (__builtin_expect(gpucoll_stats_on(request->team->context->stats) || gpucoll_trace_on(), false) &&
        !request->team->inner) {
        gpucoll_observe_begin(request);
    }
}

/* When the last rank has arrived. */
static inline void gpucoll_observe_arrived(struct gpucoll_request *request)
{
    if (__builtin_expect(request->observed.begun, false)) {
        gpucoll_observe_arrival(request);
    }
}

/* When the plan is known, before it starts. */
static inline void gpucoll_observe_run(struct gpucoll_request *request)
{
    if (__builtin_expect(request->observed.begun, false)) {
        gpucoll_observe_start(request);
    }
}

/* At the end of any kind. */
static inline void gpucoll_observe_end(struct gpucoll_request *request, gpucoll_status status)
{
    if (__builtin_expect(request->observed.begun, false)) {
        gpucoll_observe_finish(request, status);
    }
}

/* Likewise, and the reason is known: a line for the log. */
void gpucoll_observe_log(const struct gpucoll_request *request, gpucoll_status status);

#endif
