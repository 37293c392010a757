/*
 * Agreement: how the ranks of a team learn, before anything is started, what all of them brought to a call, and take the
 * same decision. One post a rank and call on its own board, polled by the others: no rank decides from what it alone knows.
 */
#ifndef GPUCOLL_AGREEMENT_H
#define GPUCOLL_AGREEMENT_H

#include "core/request.h"

/* Publishes the request's post; false while rank `*missing` still reads the ring entry's previous one. Requests of one
 * team are published in the order of their calls. */
bool gpucoll_agreement_publish(struct gpucoll_request *request, uint32_t *missing);

/* GPUCOLL_OK when every rank has posted or passed this call, GPUCOLL_IN_PROGRESS while `*missing` has not. */
gpucoll_status gpucoll_agreement_arrived(struct gpucoll_request *request, uint32_t *missing) GPUCOLL_CHECKED;

/* From the posts alone: GPUCOLL_OK to run natively, GPUCOLL_DECLINED, or GPUCOLL_ERR_MISMATCH (topic "arguments-differ"). */
gpucoll_status gpucoll_agreement_decide(struct gpucoll_request *request) GPUCOLL_CHECKED;

/* To be asked, after `decide` and with the links known, while request->lanes_follow: GPUCOLL_OK when every rank has offered a lane,
 * GPUCOLL_IN_PROGRESS while rank `*missing` has not, GPUCOLL_DECLINED if one cannot. All ranks get the same final answer.
 *
 * No rank waits for ever: a call takes a lane late, when all ranks have posted it, and one call of a team at a time, so lanes are held by
 * calls that run and end by themselves, or for as long as all ranks need to offer theirs; a rank that finds all lanes held by calls
 * that do not run waits for a bounded time, then offers none. */
gpucoll_status gpucoll_agreement_lanes(struct gpucoll_request *request, uint32_t *missing) GPUCOLL_CHECKED;

/* This rank offers no lane, if it has not done so; false if it has. For a request of which lanes are to follow. */
bool gpucoll_agreement_refuse(struct gpucoll_request *request);

/* What a request that has its lane posts as `company`. */
uint8_t gpucoll_agreement_own_company(const struct gpucoll_request *request);

/* What company the ranks of the call have, at most, and whether on some rank calls come too far apart for kernels to linger. The same on all ranks,
 * once all have told their lanes. */
enum gpucoll_company_kind gpucoll_agreement_company(const struct gpucoll_request *request, bool *apart);

/* Finds the team's links to the GPUs of this call; false if they are new. The same answer on every rank. */
bool gpucoll_agreement_find_links(struct gpucoll_request *request);

/* Those of another team of the same ranks to the same GPUs; NULL if they are new to it. */
struct gpucoll_links *gpucoll_agreement_known_links(const struct gpucoll_request *request,
                                                    const struct gpucoll_team *team);

/* Makes the links, and connects this rank to the scratch of the GPUs of this call; `*reached` is false if one cannot be stored to. To
 * be followed by a barrier, and then by `connected`, which reads how well the others reach theirs. (core/links.h) */
gpucoll_status gpucoll_agreement_connect(struct gpucoll_request *request, bool *reached) GPUCOLL_CHECKED;
void gpucoll_agreement_connected(struct gpucoll_request *request);

/* Host barriers of the ranks of a call. `enter` tells the others that this rank has arrived, with or without a failure; `done`
 * asks whether all have. A barrier is to be seen done before the next is entered.
 * done: GPUCOLL_IN_PROGRESS while `*missing` has not arrived, GPUCOLL_OK, or GPUCOLL_DECLINED if some rank failed. */
void gpucoll_barrier_enter(struct gpucoll_request *request, bool failed);
gpucoll_status gpucoll_barrier_done(const struct gpucoll_request *request, uint32_t *missing) GPUCOLL_CHECKED;
/* Both, for a running algorithm: enters at the first call, with request->in_barrier set from then until it is done, and no failure.
 * GPUCOLL_OK or GPUCOLL_IN_PROGRESS, as `done`. */
gpucoll_status gpucoll_barrier_pass(struct gpucoll_request *request, uint32_t *missing) GPUCOLL_CHECKED;

/* The post of a rank for this call; valid until the request ends. */
const struct gpucoll_post *gpucoll_agreement_post(const struct gpucoll_request *request, uint32_t rank);

#endif
