/*
 * The selector: the cheapest usable algorithm by the cost model, or the one a parameter forces.
 */
#ifndef GPUCOLL_SELECTOR_H
#define GPUCOLL_SELECTOR_H

#include "core/algorithm.h"

/* The algorithm that the configuration forces for a collective; "auto" when it leaves the choice. */
const char *gpucoll_forced_algorithm(const struct gpucoll_config *config, enum gpucoll_coll coll);

/* GPUCOLL_DECLINED if nothing can run the input; a forced algorithm that cannot is shown by topic
 * "algorithm-unusable", unless `*said` tells that it was before, and the choice is then made as if by "auto". */
gpucoll_status gpucoll_select(const struct gpucoll_plan_input *input, const struct gpucoll_log *log,
                              bool *said, struct gpucoll_plan *plan) GPUCOLL_CHECKED;

/* What the choice was made from: every algorithm of the collective with its predicted time, or why it cannot run the
 * input, then the parameters that force one. Cut to `size` bytes. */
void gpucoll_select_explain(const struct gpucoll_plan_input *input, char *text, size_t size);

#endif
