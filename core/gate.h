/*
 * The gate of a kernel that waits for those of other ranks, in a process that has other calls under way.
 *
 * Such a kernel may depend on more than its peers' arrival: a peer's kernel starts only when the peer's process can launch it, and when its CTAs find
 * SMs. cuMemFree of an application returns when the kernels that run have ended, and until then holds up all launches of its process; kernels of
 * other calls hold SMs. So two ranks that have begun two calls in different order can wait in a circle, each for what the other's running
 * kernel keeps from starting (docs/design-calls.md).
 *
 * Therefore the kernel stores nothing until all of its CTAs are resident and its host lets it go on. The hosts count, on the board of the team's
 * first rank, how many of the ranks' kernels are ready. When all are, they go on: nothing can keep them from their end. A rank that has waited
 * for long counts itself out again, which fails once the count is complete, tells its kernel to end, and launches it again a little later. In every
 * circle each rank has two calls, and the one that took its lane later saw the other: so one of the kernels has a gate, and retreats.
 *
 * The threads that wait in calls may themselves be held up in a launch, also of another call's kernel. So a thread of its own, the keeper, looks
 * after the gates as well; it calls nothing of the driver. It sleeps while there are none.
 */
#ifndef GPUCOLL_GATE_H
#define GPUCOLL_GATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "core/base/log.h"
#include "core/base/status.h"

struct gpucoll_request;

/* Those of a process. The lock is never held during a call of the driver, nor is another one taken under it. */
struct gpucoll_gates {
    const struct gpucoll_log *log;
    pthread_mutex_t lock; /* guards all below, and the requests' gates */
    pthread_cond_t work;
    struct gpucoll_request *first;
    pthread_t keeper;
    bool kept;   /* the keeper was started */
    bool unkept; /* it could not be: not tried again */
    bool stop;
};

void gpucoll_gates_open(struct gpucoll_gates *gates, const struct gpucoll_log *log);
/* Ends the keeper. No request has a gate any more. */
void gpucoll_gates_close(struct gpucoll_gates *gates);

/* Of a kernel: in its request. */
struct gpucoll_gate {
    struct gpucoll_request *next; /* of the process's kernels with gates */
    uint64_t since_ns;            /* it has been in its state */
    uint32_t launch;              /* done_value of the kernel */
    uint8_t state;                /* 0: there is none, or it is passed */
    uint8_t retreats;             /* of this call, so far */
    bool counted;                 /* in this call all CTAs of some launch were resident */
};

/* Is the kernel of the request's plan to have one? */
bool gpucoll_gate_wanted(const struct gpucoll_request *request);

/* A kernel with a gate has been launched. */
void gpucoll_gate_begin(struct gpucoll_request *request);

/* Instead of that: this rank has nothing to do in the call, and no kernel. */
void gpucoll_gate_pass_by(struct gpucoll_request *request);

/* GPUCOLL_OK when the kernel has passed its gate; else GPUCOLL_IN_PROGRESS, or an error that has been shown. */
gpucoll_status gpucoll_gate_test(struct gpucoll_request *request) GPUCOLL_CHECKED;

/* Is the kernel at a gate for the sake of other ranks, for all that is known, rather than for want of a place on its own GPU? */
bool gpucoll_gate_awaits_peers(struct gpucoll_request *request);

/* The request is given up: nobody looks after its gate any more. */
void gpucoll_gate_drop(struct gpucoll_request *request);

#endif
