/*
 * The selector: the cheapest usable algorithm by the cost model, or the one a parameter forces.
 */
#ifndef GPUCOLL_SELECTOR_H
#define GPUCOLL_SELECTOR_H

#include "core/plan/algorithm.h"

/* What is chosen for a class of sizes: the classes are so narrow that one algorithm serves all of a class. */
struct gpucoll_choice {
    const struct gpucoll_algorithm *algorithm;
    uint64_t low; /* bytes, both ends included */
    uint64_t high;
};

/* A function of the input's class alone, so that it is the same whichever size of the class comes first.
 * GPUCOLL_DECLINED if nothing can run the input; a forced algorithm that cannot is shown by topic
 * "algorithm-unusable", once for each collective (its bit of `*said`), and the choice is then made as if by "auto". */
gpucoll_status gpucoll_choose(const struct gpucoll_plan_input *input, const struct gpucoll_log *log,
                              uint32_t *said, struct gpucoll_choice *choice) GPUCOLL_CHECKED;

/* The plan by which the algorithm runs the input. */
void gpucoll_shape(const struct gpucoll_algorithm *algorithm, const struct gpucoll_plan_input *input,
                   struct gpucoll_plan *plan);

/* Both: the plan of the chosen algorithm. */
gpucoll_status gpucoll_select(const struct gpucoll_plan_input *input, const struct gpucoll_log *log,
                              uint32_t *said, struct gpucoll_plan *plan) GPUCOLL_CHECKED;

/* What the choice was made from: every algorithm of the collective with its predicted time, or why it cannot run the
 * input, then the parameters that force one. Cut to `size` bytes. */
void gpucoll_select_explain(const struct gpucoll_plan_input *input, char *text, size_t size);

/* NULL if the algorithm can run the input as configured, else why not. */
const char *gpucoll_unusable(const struct gpucoll_algorithm *row, const struct gpucoll_plan_input *input);

#endif
