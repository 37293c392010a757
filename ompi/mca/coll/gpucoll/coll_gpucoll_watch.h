/*
 * The watchdog of waits outside the engine, which has one of its own (core/watchdog.h): for the making of a team, for a call's turn,
 * and for the next component. What lasts longer than coll_gpucoll_timeout is said, with what is known of whom it waits for. The wait
 * goes on: without gpucoll it would have no end either, and a rank that comes so late breaks no rule of MPI's.
 */
#ifndef COLL_GPUCOLL_WATCH_H
#define COLL_GPUCOLL_WATCH_H

#include "coll_gpucoll_request.h"

/* To be called by progress now and then, with gpucoll_enter held. `active`: the list of requests that progress looks at. */
void gpucoll_watch_waits(struct gpucoll_outer *active);

#endif
