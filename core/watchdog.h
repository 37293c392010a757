/*
 * The watchdog: no wait of the engine is without an end. It looks at the clock only now and then, so a poll costs a
 * counter.
 */
#ifndef GPUCOLL_WATCHDOG_H
#define GPUCOLL_WATCHDOG_H

#include "core/request.h"

/* To be called on each unsuccessful poll. GPUCOLL_IN_PROGRESS; or, when the wait has lasted config->timeout seconds, when
 * `missing` has given up on the team, or when its process is gone, GPUCOLL_ERR_TIMEOUT with topic "timeout",
 * "peer-gave-up" or "peer-died" shown. `doing` is a constant clause for the message. */
gpucoll_status gpucoll_watchdog(struct gpucoll_request *request, uint32_t missing,
                                const char *doing) GPUCOLL_CHECKED;

/* The same for a rank of another host: `missing` is its rank in the communicator. */
gpucoll_status gpucoll_watchdog_far(struct gpucoll_request *request, uint32_t missing,
                                    const char *doing) GPUCOLL_CHECKED;

/* Starts the wait anew: something has moved. */
void gpucoll_watchdog_reset(struct gpucoll_request *request);

/* Ends a request that failed: its kernels are stopped, its lane is never used again, and the peers see that this
 * rank has given up on the team. */
void gpucoll_watchdog_abandon(struct gpucoll_request *request);

#endif
