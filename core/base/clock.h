/*
 * Time for watchdogs and measurements.
 */
#ifndef GPUCOLL_BASE_CLOCK_H
#define GPUCOLL_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of the monotonic clock. */
static inline uint64_t gpucoll_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Waiting time that counts: a pause between two looks is one in which the process stood still, or nobody turned progress, as far as it is longer than a
 * look takes at most; so it is not for the one who is waited for. Zeroed: nobody has looked yet. */
struct gpucoll_patience {
    uint64_t looked_ns; /* at the latest look; 0: none */
    uint64_t waited_ns;
};

/* A look: how long has been waited, with `longest_ns` at most for each pause? */
static inline uint64_t gpucoll_patience_look(struct gpucoll_patience *patience, uint64_t now_ns,
                                             uint64_t longest_ns)
{
    const uint64_t pause_ns = patience->looked_ns != 0 ? now_ns - patience->looked_ns : 0;
    patience->waited_ns += pause_ns < longest_ns ? pause_ns : longest_ns;
    patience->looked_ns = now_ns;
    return patience->waited_ns;
}

/* A counter of the processor that runs at a fixed rate, read in a few nanoseconds: for what is done on every call. */
static inline uint64_t gpucoll_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return gpucoll_now_ns();
#endif
}

/* Nanoseconds of one tick, measured at the first call, which takes some milliseconds; the same ever after. Thread safe. */
double gpucoll_tick_ns(void);

#endif
