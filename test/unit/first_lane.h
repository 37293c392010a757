/*
 * The first lane of a rank's GPU, as a call of another communicator would hold it. (In C: the engine's own structures are no C++.)
 */
#ifndef GPUCOLL_TEST_UNIT_FIRST_LANE_H
#define GPUCOLL_TEST_UNIT_FIRST_LANE_H

#include "core/gpucoll.h"

/* Of the GPU that the process bound first, by a call that has run. While no call of the process is under way. */
void test_take_first_lane(struct gpucoll_context *context);
void test_give_first_lane(struct gpucoll_context *context);

#endif
