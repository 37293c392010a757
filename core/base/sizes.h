/*
 * Arithmetic of sizes.
 */
#ifndef GPUCOLL_BASE_SIZES_H
#define GPUCOLL_BASE_SIZES_H

#include <stdint.h>

static inline uint64_t gpucoll_smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t gpucoll_larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* To a multiple of `unit`. */
static inline uint64_t gpucoll_round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

#endif
