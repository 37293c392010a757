/*
 * Reductions in host memory: every rank's copy engine brings its chunks into its outbox, somebody reduces them, and copy engines fetch the
 * results. Four things go on at once, on different chunks, and none waits for another rank but by its flags:
 *
 *   bring   copy chunk k of the own message into slot k % slots, once what was there is reduced and, if the result
 *           lay there, fetched by those who want it
 *   tell    when that copy is complete, raise `filled`
 *   sum     reduce a chunk that all ranks have filled: core/algorithms/reduce_cpu.c by CPU cores, core/algorithms/reduce_pipes.c by kernels
 *   fetch   copy the result of a chunk to the receive buffer; when that is complete, raise `emptied`
 *
 * The published scheme (reduce to the host, sum, broadcast back) with neither a semaphore a chunk nor fixed shares.
 */
#ifndef GPUCOLL_REDUCE_HOST_H
#define GPUCOLL_REDUCE_HOST_H

#include "core/plan/algorithm.h"
#include "core/request.h"
#include "core/staging.h"

/* Who reduces, and what follows from it. Equal on all ranks. */
struct gpucoll_reduce_host {
    uint64_t share_bytes; /* of a chunk that is reduced at a time; 0: the whole chunk */
    /* Who reduces a chunk alone, for all, reads the own part of it from where it is on the device. */
    bool own_stays;
    /* Who reduces a result that is for that rank alone writes it to where it belongs. */
    bool places;
};

/* Blocks that each rank brings one of: what moves is as many times the bytes of a call. */
uint32_t gpucoll_reduce_host_blocks(const struct gpucoll_plan_input *input);
/* Bytes of a chunk of such a message. */
uint64_t gpucoll_reduce_host_chunk(const struct gpucoll_config *config, uint64_t bytes);

/* Fills in staging->sum and what this rank brings and gets; nothing is in flight, and the watchdog is reset. */
void gpucoll_reduce_host_begin(struct gpucoll_request *request, const struct gpucoll_reduce_host *how);

/* Each goes as far as it can, sets `*moved` if that was a step, and `*missing` to who holds it up if it was none. */
gpucoll_status gpucoll_reduce_host_bring(struct gpucoll_request *request, bool *moved,
                                         uint32_t *missing) GPUCOLL_CHECKED;
gpucoll_status gpucoll_reduce_host_tell(struct gpucoll_request *request, bool *moved) GPUCOLL_CHECKED;
gpucoll_status gpucoll_reduce_host_fetch(struct gpucoll_request *request, bool *moved,
                                         uint32_t *missing) GPUCOLL_CHECKED;

/* Is all reduced, and all that this rank gets where it belongs? */
bool gpucoll_reduce_host_is_done(const struct gpucoll_request *request);

#endif
