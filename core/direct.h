/*
 * Direct calls: what a rank receives is written by its peers' copy engines to where it belongs, in the application's own
 * buffer. A post says whether that is possible on its rank, and by which export (core/exports.h). Before the first call with
 * an export that a team has not met, every rank maps it, and a barrier tells whether all could.
 */
#ifndef GPUCOLL_DIRECT_H
#define GPUCOLL_DIRECT_H

#include "core/request.h"

/* Fills what the request's post says about direct calls, and takes the export. Caller serialises. */
void gpucoll_direct_post(struct gpucoll_request *request);

/* How far is the call possible as a direct one, by the posts? The same on every rank. */
enum gpucoll_direct gpucoll_direct_possible(const struct gpucoll_request *request);

/* Then: may the parts of an all-reduce, or a reduce, wait in the receive buffers, on all ranks that have one? They are whole packs there. The same on every rank. */
bool gpucoll_direct_has_room(const struct gpucoll_request *request);

/* Has the team mapped all exports that the call's plan needs? The same on every rank. */
bool gpucoll_direct_met(struct gpucoll_request *request);
/* Maps those that a call needs which reaches so far; false if one cannot be. */
bool gpucoll_direct_map(struct gpucoll_request *request, enum gpucoll_direct reach);
/* Some rank could not, and which exports it was only that rank knows: none of them counts as met any more, on any rank, in the other role too. */
void gpucoll_direct_forget(struct gpucoll_request *request, enum gpucoll_direct reach);
/* And no call of this team is direct by what peers write to in this one any more, */
void gpucoll_direct_refuse(struct gpucoll_request *request);
/* or in bulk by what they read in this one. */
void gpucoll_direct_refuse_sources(struct gpucoll_request *request);

/* Where `rank` has, in an all-reduce or as root of a reduction, the result; in another exchange, what this rank sends it:
 * NULL if it expects nothing from anybody, whatever this rank sends. */
void *gpucoll_direct_result(const struct gpucoll_request *request, uint32_t rank);
void *gpucoll_direct_place(const struct gpucoll_request *request, uint32_t rank);
/* Where another rank's send buffer begins, of a reduction that is possible in bulk, or the root's of such a broadcast. */
const void *gpucoll_direct_source(const struct gpucoll_request *request, uint32_t rank);
/* Where that of this rank does. */
const void *gpucoll_direct_own_source(const struct gpucoll_request *request);

#endif
