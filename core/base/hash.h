/*
 * FNV-1a of 64 bits, with offset basis and prime as published by its authors: for what is compared, not for what is kept secret.
 */
#ifndef GPUCOLL_BASE_HASH_H
#define GPUCOLL_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

static const uint64_t gpucoll_hash_seed = UINT64_C(0xcbf29ce484222325);

/* Goes on from `seed`, the above or the hash of what comes before. */
static inline uint64_t gpucoll_hash(uint64_t seed, const void *data, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)data;
    for (size_t i = 0; i < bytes; i++) {
        seed = (seed ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return seed;
}

#endif
