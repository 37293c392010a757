/*
 * What the forms of the two-shot all-reduce share: the shape of the kernel and its rounds; and what its form over LL128 shares with the reduce that
 * runs by the same kernel.
 */
#ifndef GPUCOLL_TWOSHOT_H
#define GPUCOLL_TWOSHOT_H

#include "core/plan/plan.h"

/* Channels, threads and rounds for a message; predicted_us is the time of the transfers alone. */
void gpucoll_twoshot_shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan);
/* The whole prediction of the form that copies its results out of the lane. */
void gpucoll_twoshot_simple_shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan);

/* Why the kernel over LL128 cannot be used, or NULL; and its plan. */
const char *gpucoll_twoshot_ll128_unusable(const struct gpucoll_plan_input *input);
void gpucoll_twoshot_ll128_shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan);

#endif
