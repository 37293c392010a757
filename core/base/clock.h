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
