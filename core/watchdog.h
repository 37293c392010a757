/*
 * The watchdog: no wait of the engine is without an end. It looks at the clock only now and then, so a poll costs a
 * counter.
 *
 * What is said of a local call, which is a stage of a call of several hosts, is said of that one.
 */
#ifndef GPUCOLL_WATCHDOG_H
#define GPUCOLL_WATCHDOG_H

#include "core/request.h"

/* To be called on each unsuccessful poll. GPUCOLL_IN_PROGRESS; or GPUCOLL_ERR_TIMEOUT when the wait has lasted config->timeout seconds, with topic
 * "timeout" shown; GPUCOLL_ERR_PEER when a rank's process is gone or the connection to it has failed, with "peer-died" or "peer-lost"; either
 * when a rank has given up on the team, with "peer-gave-up". A rank that gives up is noticed at once by those of other hosts, which it tells
 * (core/cluster/cluster_alarm.c), and by its own in a call of several hosts; else, and what has become of the others, after a second.
 * `doing` is a constant clause for the message. */
gpucoll_status gpucoll_watchdog(struct gpucoll_request *request, uint32_t missing,
                                const char *doing) GPUCOLL_CHECKED;

/* The same where the wait is for earlier calls of the team on this rank: it starts anew whenever one of them moves, and may last twice as
 * long. `missing` is this rank, or one that such a call waits for, too. */
gpucoll_status gpucoll_watchdog_behind(struct gpucoll_request *request, uint32_t missing,
                                       const char *doing) GPUCOLL_CHECKED;

/* The same for a rank of another host: `missing` is its rank in the communicator. */
gpucoll_status gpucoll_watchdog_far(struct gpucoll_request *request, uint32_t missing,
                                    const char *doing) GPUCOLL_CHECKED;

/* A message to or from `missing`, a rank of another host, has failed with `status`: shows for which call if the connection did, or that
 * another rank has given it up. How the call ends. */
gpucoll_status gpucoll_watchdog_failed(struct gpucoll_request *request, uint32_t missing,
                                       gpucoll_status status) GPUCOLL_CHECKED;

/* How calls end of a team that has been given up: GPUCOLL_ERR_PEER if a rank is gone, else GPUCOLL_ERR_TIMEOUT. */
gpucoll_status gpucoll_watchdog_given_up(const struct gpucoll_team *team) GPUCOLL_CHECKED;

/* Starts the wait anew: something has moved, which is what `moves` of the request counts. */
void gpucoll_watchdog_reset(struct gpucoll_request *request);

/* Ends a request that failed: its kernels are stopped, its lane is never used again, and the peers see that this
 * rank has given up on the team. */
void gpucoll_watchdog_abandon(struct gpucoll_request *request);
/* This rank has no request for the team's latest call: the peers see that it has given up on it. */
void gpucoll_watchdog_forsake(struct gpucoll_team *team);

#endif
