/*
 * What algorithms share that go by copies: how far each rank is, told on the board, and the end of the call.
 */
#ifndef GPUCOLL_PIPELINE_H
#define GPUCOLL_PIPELINE_H

#include "core/agreement.h"
#include "core/request.h"

/* Bytes of a chunk of a slice: what the configuration says, or enough chunks that they overlap, each large enough to pay for its
 * copies; at most `most`. */
uint64_t gpucoll_pipeline_block(const struct gpucoll_config *config, uint64_t slice, uint64_t most);

/* Resets the request's pipeline for slices of up to `slice` bytes, cut by the plan's chunk size; 0: there are no chunks. */
void gpucoll_pipeline_start(struct gpucoll_request *request, uint64_t slice);

/* Tells the peers that this rank has done `chunks` of the call; how many `rank` has done. */
void gpucoll_pipeline_tell(const struct gpucoll_request *request, uint32_t chunks);
uint32_t gpucoll_pipeline_told(const struct gpucoll_request *request, uint32_t rank);

/* Queues a copy that concerns `peer`. */
gpucoll_status gpucoll_pipeline_copy(const struct gpucoll_request *request, uint32_t peer, void *to,
                                     const void *from, uint64_t bytes,
                                     struct gpucoll_copy_ticket *ticket) GPUCOLL_CHECKED;
/* GPUCOLL_OK when the copies to all ranks are complete, GPUCOLL_IN_PROGRESS, or the device's error. Tickets of complete ones are
 * cleared. */
gpucoll_status gpucoll_pipeline_copied(const struct gpucoll_request *request,
                                       struct gpucoll_copy_ticket *tickets) GPUCOLL_CHECKED;

/* Counts the chunks of which this rank's part, queued with tickets pipeline.sending, is complete, and tells the peers. */
gpucoll_status gpucoll_pipeline_sent(struct gpucoll_request *request) GPUCOLL_CHECKED;

/* Turned while nothing moves: GPUCOLL_IN_PROGRESS, the watchdog's error, or the device's. */
gpucoll_status gpucoll_pipeline_idle(struct gpucoll_request *request, uint32_t missing) GPUCOLL_CHECKED;
/* To be turned when this rank's part is complete: GPUCOLL_OK when all ranks' are. */
gpucoll_status gpucoll_pipeline_end(struct gpucoll_request *request) GPUCOLL_CHECKED;

#endif
