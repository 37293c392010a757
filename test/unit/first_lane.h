/*
 * Lanes of a rank's GPU, as calls of other communicators would hold them. (In C: the engine's own structures are no C++.)
 */
#ifndef GPUCOLL_TEST_UNIT_FIRST_LANE_H
#define GPUCOLL_TEST_UNIT_FIRST_LANE_H

#include <stdint.h>
#include "core/gpucoll.h"

/* Of the GPU that the process bound first, by a call that has run. While no call of the process is under way. */
void test_take_first_lane(struct gpucoll_context *context);
void test_give_first_lane(struct gpucoll_context *context);
/* All lanes of that GPU are as failed calls leave them. */
void test_lose_lanes(struct gpucoll_context *context);
/* How many kernels have been launched on its lanes, those that pack and unpack among them; none before the process has bound a GPU. */
uint64_t test_launched(struct gpucoll_context *context);

#endif
