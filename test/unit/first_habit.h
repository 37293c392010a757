/*
 * Of the lane on which kernels linger, how calls have come so far. (In C: the engine's own structures are no C++.)
 */
#ifndef GPUCOLL_TEST_UNIT_FIRST_HABIT_H
#define GPUCOLL_TEST_UNIT_FIRST_HABIT_H

#include "core/gpucoll.h"
#include "core/habit.h"

/* Of the GPU that the process bound first, by a call that has run. */
struct gpucoll_habit *test_first_habit(struct gpucoll_context *context);

#endif
