/*
 * Ranges on the time line of a profiler, by NVTX: each call, and inside it what it waits for and what runs. Nothing is linked: NVTX is
 * header only, and a profiler has itself loaded by the variable NVTX_INJECTION64_PATH. Without one, or in a build
 * without the headers, tracing is off and costs a look at a flag.
 */
#ifndef GPUCOLL_TRACE_H
#define GPUCOLL_TRACE_H

#include <stdbool.h>
#include <stdint.h>

/* Looks, at the first call in the process, whether a profiler is attached. */
void gpucoll_trace_open(void);

extern bool gpucoll_trace_is_on;
static inline bool gpucoll_trace_on(void)
{
    return __builtin_expect(gpucoll_trace_is_on, false);
}

/* A range. `nested`: it ends in the same thread, and what begins in it ends before it. Returns what gpucoll_trace_end takes. */
uint64_t gpucoll_trace_begin(bool nested, uint64_t bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void gpucoll_trace_end(bool nested, uint64_t range);

#endif
