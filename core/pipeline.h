/*
 * What direct algorithms (core/direct.h) share: their copies, if they go by copy engines, and the end of the call, a barrier of the
 * hosts that tells every rank that all has arrived.
 */
#ifndef GPUCOLL_PIPELINE_H
#define GPUCOLL_PIPELINE_H

#include "core/agreement.h"
#include "core/request.h"

/* To be called when an algorithm starts that goes by copies: none is queued. */
void gpucoll_pipeline_start(struct gpucoll_request *request);

/* Queues a copy that concerns `peer`. */
gpucoll_status gpucoll_pipeline_copy(const struct gpucoll_request *request, uint32_t peer, void *to,
                                     const void *from, uint64_t bytes,
                                     struct gpucoll_copy_ticket *ticket) GPUCOLL_CHECKED;
/* GPUCOLL_OK when the copies to all ranks are complete, GPUCOLL_IN_PROGRESS, or the device's error. Tickets of complete ones are
 * cleared. */
gpucoll_status gpucoll_pipeline_copied(const struct gpucoll_request *request,
                                       struct gpucoll_copy_ticket *tickets) GPUCOLL_CHECKED;

/* Of a call that sends its chunks one after the other, to one peer, chunk i with the ticket pipeline.sending[i % tickets]: counts those that are complete, and
 * tells of them. GPUCOLL_OK, or the device's error. */
gpucoll_status gpucoll_pipeline_count_sent(struct gpucoll_request *request, uint32_t tickets) GPUCOLL_CHECKED;

/* The call is given up: waits, not for ever, for its copies that are on their way. Not for those of peers, who may be dead, or not have heard yet.
 * What they have queued goes on: into this rank's lane, which is not used again, and, as the stores of direct kernels do, into its receive buffer
 * for as long as the copies of a step or two take, or until they have heard; of exchanges, and of a reduce of two ranks, all that they send is queued from the
 * beginning. They begin at most the step that they may queue ahead, since this rank tells of none. MPI leaves the contents of that buffer undefined after an error; who frees it at once and takes it for something else should know. */
void gpucoll_pipeline_stop(struct gpucoll_request *request);

/* What a rank tells its peers of a call in chunks: how much of its own part is complete. A count of less than 2^24. */
enum gpucoll_flow { GPUCOLL_FLOW_SENT, GPUCOLL_FLOW_REDUCED };
void gpucoll_pipeline_tell(struct gpucoll_request *request, enum gpucoll_flow flow, uint32_t count);
uint32_t gpucoll_pipeline_told(const struct gpucoll_request *request, enum gpucoll_flow flow, uint32_t rank);

/* Have all ranks sent so many chunks, or steps, and reduced so many? Else `*missing` has not. */
bool gpucoll_pipeline_all(const struct gpucoll_request *request, uint64_t sent, uint64_t reduced,
                          uint32_t *missing);

/* How long after the first the last of all ranks had sent so many steps: the same on all. UINT64_MAX: some rank has not, or is well ahead of this
 * one. */
uint64_t gpucoll_pipeline_apart_ns(const struct gpucoll_request *request, uint32_t sent);

/* Turned while nothing moves: GPUCOLL_IN_PROGRESS, the watchdog's error, or the device's. */
gpucoll_status gpucoll_pipeline_idle(struct gpucoll_request *request, uint32_t missing) GPUCOLL_CHECKED;

/* To be turned when this rank's part is complete: GPUCOLL_OK when all ranks' are. */
gpucoll_status gpucoll_pipeline_end(struct gpucoll_request *request) GPUCOLL_CHECKED;
/* The same for a part that is complete when the copies of pipeline.sending are, or when the kernel is that this rank
 * has launched, if it is not idle. */
gpucoll_status gpucoll_pipeline_end_copies(struct gpucoll_request *request) GPUCOLL_CHECKED;
gpucoll_status gpucoll_pipeline_end_kernel(struct gpucoll_request *request) GPUCOLL_CHECKED;

#endif
