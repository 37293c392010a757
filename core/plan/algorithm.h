/*
 * Algorithms: one file each, one row each in the table of core/algorithms/algorithms.c. A row says when it can be used,
 * what shape and time it would have, and how it runs a request.
 */
#ifndef GPUCOLL_ALGORITHM_H
#define GPUCOLL_ALGORITHM_H

#include "core/accel/accel.h"
#include "core/plan/plan.h"

struct gpucoll_request;

/* What a row that is not for one collective runs. */
#define GPUCOLL_ANY_EXCHANGE (GPUCOLL_COLL_COUNT + 1)  /* every collective but all-reduce */
#define GPUCOLL_ANY_MOVE (GPUCOLL_COLL_COUNT + 2)      /* those that reduce nothing */
#define GPUCOLL_ANY_REDUCTION (GPUCOLL_COLL_COUNT + 3) /* those that reduce, all-reduce among them */
#define GPUCOLL_ANY_RING (GPUCOLL_COLL_COUNT + 4)      /* those that go round a ring, or from or to a root */
#define GPUCOLL_ANY_SCAN (GPUCOLL_COLL_COUNT + 5)

struct gpucoll_algorithm {
    const char *name;     /* as typed in coll_gpucoll_<collective>_algorithm */
    const char *protocol; /* as typed in coll_gpucoll_protocol */
    const char *help;
    bool direct; /* writes to the application's buffers: only when the input is direct */
    bool bulk;   /* and reads from those of peers in bulk: only when the input says so */
    bool waits;  /* its kernels wait for those of other ranks: not where ranks share a GPU */
    /* The host begins each of many short steps, between which the links stand still: not in a call that nobody waits in. Reductions by copies
     * have few and long steps, so there they are only weighed, for their late kernels. */
    bool steps;
    bool spares_sms;   /* copy engines do all of it: the application has the SMs */
    bool lists;        /* what it sends it copies piece by piece where it can (core/copy_list.h) */
    bool lays;         /* its kernel moves short pieces as they lie (core/laid_runs.h) */
    bool last_kernels; /* copy engines do all of it but for kernels, which follow and hold no copy up */
    bool late_kernels; /* between its steps: each waits while the application's kernels hold all SMs */
    uint8_t
        phases; /* kernels that follow each other, with the host between; 0: it is no algorithm of that kind */
    int coll;          /* enum gpucoll_coll, or one of GPUCOLL_ANY_... */
    unsigned needs;    /* enum gpucoll_tl_way: what the links of the team must do; 0 stands for stores */
    /* Reduces each element as ((r0 op r1) op r2) ..., whatever the message's size, the shape and the link, so that the bits
     * do not depend on them: what coll_gpucoll_deterministic asks for. */
    bool rank_order;
    bool inboxes; /* one kernel, all to all, that finds an inbox instead of a lane wherever a post says so (core/early.h) */
    /* What stands against it beside that: NULL if it can run the input, else a constant clause that says why not. No function:
     * nothing. */
    const char *(*unusable)(const struct gpucoll_plan_input *input);
    /* Fills the plan's shape and predicted time. */
    void (*shape)(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan);
    /* Starts the request's kernels or copies; every rank of the team has arrived. */
    gpucoll_status (*start)(struct gpucoll_request *request) GPUCOLL_CHECKED;
    /* Moves it on: GPUCOLL_IN_PROGRESS, GPUCOLL_OK, or an error that has been shown. */
    gpucoll_status (*progress)(struct gpucoll_request *request) GPUCOLL_CHECKED;
    /* The request is given up: when this returns nothing that this rank has begun touches a buffer any more (of what peers have begun see
     * core/pipeline.h). NULL if kernels are all there is. */
    void (*stop)(struct gpucoll_request *request);
};

/* How long the plan's kernel waits for the next call, if it lingers. One that waits for nobody is done long before that of a rank which had to be launched;
 * were it gone when that one is done, each call would find one rank or another without. */
static inline uint32_t gpucoll_plan_stays_ns(const struct gpucoll_plan *plan, const struct gpucoll_config *config)
{
    const double unforeseen = 1.5; /* launches take longer than predicted, */
    const double most_us = 30;     /* but no longer than this, whatever the message */
    const double us = plan->algorithm->waits ? 0 : unforeseen * (plan->launched_us - plan->predicted_us);
    const double later_us = us < 0 ? 0 : us < most_us ? us : most_us;
    return gpucoll_linger_ns(config) + (uint32_t)(later_us * 1e3);
}

/* The rows; NULL past the end. */
const struct gpucoll_algorithm *gpucoll_algorithm_row(int index);

/* The place of a row in the table. */
int gpucoll_algorithm_index(const struct gpucoll_algorithm *row);

/* How far its input has to reach into the application's buffers. */
static inline enum gpucoll_direct gpucoll_algorithm_direct(const struct gpucoll_algorithm *row)
{
    return row->bulk ? GPUCOLL_DIRECT_BULK : row->direct ? GPUCOLL_DIRECT_STORES : GPUCOLL_DIRECT_NOT;
}

/* Does the row run this collective? */
bool gpucoll_algorithm_runs(const struct gpucoll_algorithm *row, enum gpucoll_coll coll);

/* The collectives that the row runs, in words. */
const char *gpucoll_algorithm_colls(const struct gpucoll_algorithm *row);

/* NULL if the ranks reach each other as the row needs, else why it cannot be used. */
const char *gpucoll_algorithm_lacks(const struct gpucoll_algorithm *row,
                                    const struct gpucoll_plan_input *input);

/* Fills the kernel arguments that every algorithm needs (buffers, lanes, epochs, ranks); or all but lanes and epochs. */
void gpucoll_kernel_args_own(const struct gpucoll_request *request, struct gpucoll_kernel_args *args);
void gpucoll_kernel_args_init(const struct gpucoll_request *request, struct gpucoll_kernel_args *args);

/* Launches the plan's shape of a kernel on the request's lane. */
gpucoll_status gpucoll_kernel_start(struct gpucoll_request *request, enum gpucoll_kernel kernel,
                                    struct gpucoll_kernel_args *args) GPUCOLL_CHECKED;
/* The same with the arguments that every algorithm needs, and no others. */
gpucoll_status gpucoll_kernel_start_call(struct gpucoll_request *request,
                                         enum gpucoll_kernel kernel) GPUCOLL_CHECKED;
/* Gives the call with its plan to a kernel that lingers before it is known whether all ranks make it (core/early.h); gpucoll_kernel_start_call then finds
 * it begun. False if there is no such kernel, and nothing has happened. */
bool gpucoll_kernel_ring_early(struct gpucoll_request *request, struct gpucoll_kernel_args *args);
/* GPUCOLL_OK when the latest kernel is done, GPUCOLL_IN_PROGRESS, or the watchdog's or the device's error. */
gpucoll_status gpucoll_kernel_wait(struct gpucoll_request *request) GPUCOLL_CHECKED;
/* The watchdog of waits for the GPU: as gpucoll_watchdog, or the error that the device has met, which it is asked for as often as
 * the watchdog looks at the peers. */
gpucoll_status gpucoll_lane_watch(struct gpucoll_request *request, uint32_t missing,
                                  const char *doing) GPUCOLL_CHECKED;

/* NULL if the rounds of a phased algorithm can be counted by the barriers of one call, else why not. */
const char *gpucoll_phase_unusable(uint64_t rounds);
/* Phased algorithms launch one stage of a kernel at a time, for a pass of GPUCOLL_SLOTS rounds, with barriers of the hosts
 * between. Starts at the first stage of the first pass. */
gpucoll_status gpucoll_phase_start(struct gpucoll_request *request,
                                   enum gpucoll_kernel kernel) GPUCOLL_CHECKED;
/* Launches request->stage of the pass that begins at request->next_round; GPUCOLL_IN_PROGRESS if all is well. */
gpucoll_status gpucoll_phase_launch(struct gpucoll_request *request,
                                    enum gpucoll_kernel kernel) GPUCOLL_CHECKED;
/* GPUCOLL_OK when the stage's kernel is done and, if a barrier follows it, all ranks are; else as gpucoll_kernel_wait. */
gpucoll_status gpucoll_phase_wait(struct gpucoll_request *request, bool barrier) GPUCOLL_CHECKED;

#endif
