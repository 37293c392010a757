/*
 * The plans of a team: for each kind of call and class of sizes the selector's choice, and the plan for the latest size of the
 * class. So a call of a known size costs a look-up, one of another size of a known class one algorithm's shape.
 */
#ifndef GPUCOLL_PLAN_CACHE_H
#define GPUCOLL_PLAN_CACHE_H

#include "core/plan/selector.h"

enum { GPUCOLL_PLAN_CACHE = 64 };

struct gpucoll_cached_plan {
    const void *links; /* what the plan was made for beside the call; NULL: empty */
    struct gpucoll_plan_call call;
    struct gpucoll_choice choice;
    struct gpucoll_plan plan;
};

struct gpucoll_plan_cache {
    struct gpucoll_cached_plan entry[GPUCOLL_PLAN_CACHE]; /* zeroed by the owner at first */
    uint32_t said; /* by collective: that the forced algorithm cannot be used */
};

/* The plan that is kept for such a call; NULL: none. Valid until the next one is made. */
const struct gpucoll_plan *gpucoll_plan_find(struct gpucoll_plan_cache *cache, const void *links,
                                             const struct gpucoll_plan_call *call);

/* Makes and keeps the plan. `*fresh`: its class was not known, so that a choice was made; errors are gpucoll_choose's. */
gpucoll_status gpucoll_plan_make(struct gpucoll_plan_cache *cache, const void *links,
                                 const struct gpucoll_plan_input *input, const struct gpucoll_log *log,
                                 bool *fresh, const struct gpucoll_plan **plan) GPUCOLL_CHECKED;

#endif
