/*
 * Connecting: how a team finds out by which ways its ranks reach each other's GPUs. In up to three steps, with a barrier of the
 * ranks after each, whose outcome tells all of them the same:
 *
 *   1  each rank connects to the others' scratch (stores)
 *   2  if that is not enough, each makes an outbox in host memory
 *   3  and maps those of the others (pipes)
 */
#ifndef GPUCOLL_LINKS_H
#define GPUCOLL_LINKS_H

#include "core/request.h"

/* The first step, for the GPUs of this call: adds the links to the team's and enters the first barrier. Between this and the end no
 * other call of the team is decided. */
gpucoll_status gpucoll_links_begin(struct gpucoll_request *request) GPUCOLL_CHECKED;

/* After each barrier: `all` is whether no rank failed. GPUCOLL_IN_PROGRESS: the next barrier is entered. GPUCOLL_OK: the
 * links are complete, with at least one way. GPUCOLL_DECLINED: likewise, with none. */
gpucoll_status gpucoll_links_continue(struct gpucoll_request *request, bool all) GPUCOLL_CHECKED;

#endif
