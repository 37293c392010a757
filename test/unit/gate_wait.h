/*
 * Time, as tests of gates take it.
 */
#ifndef GPUCOLL_TEST_UNIT_GATE_WAIT_H
#define GPUCOLL_TEST_UNIT_GATE_WAIT_H

#include <chrono>
#include <functional>
#include <sched.h>
#include <thread>

extern "C" {
#include "core/base/clock.h"
}

constexpr uint64_t millisecond = 1000000;
constexpr uint64_t patience = 4 * millisecond; /* of rank 0, for the first time: of core/gate.c */

/* False if it does not come true in half a minute. */
inline bool comes(const std::function<bool()> &condition)
{
    for (const uint64_t end = gpucoll_now_ns() + 30000 * millisecond; !condition();) {
        if (gpucoll_now_ns() > end) {
            return false;
        }
        sched_yield();
    }
    return true;
}

inline void sleep_ns(uint64_t time)
{
    std::this_thread::sleep_for(std::chrono::nanoseconds(time));
}

#endif
