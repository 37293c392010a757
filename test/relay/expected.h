/*
 * What must come of a relay (kernels/relay_abi.h), worked out another way than the kernels do: each element's operands put in the
 * order in which rings, chains and trees meet them.
 */
#ifndef GPUCOLL_TEST_RELAY_EXPECTED_H
#define GPUCOLL_TEST_RELAY_EXPECTED_H

#include "kernels/relay_abi.h"

struct relay_expected {
    enum gpucoll_relay_flow flow;
    int functor;
    uint32_t nranks;
    uint32_t channels;
    uint64_t bytes[GPUCOLL_MAX_LOCAL]; /* of each block; of a single one: [0] */
    const void *own[GPUCOLL_MAX_LOCAL]
                   [GPUCOLL_MAX_LOCAL]; /* what a position has for a block, where that is reduced or moved */
};

/* Does the position send for the block, or receive it? */
bool relay_has_own(enum gpucoll_relay_flow flow, uint32_t position, uint32_t block);
bool relay_wants(enum gpucoll_relay_flow flow, uint32_t position, uint32_t block);

/* The block as this position gets it, which wants it: all that do get the same, except in scans. */
void relay_expect(const struct relay_expected *call, uint32_t position, uint32_t block, void *result);

#endif
