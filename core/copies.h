/*
 * Copies by a GPU's copy engines: a few queues, each in order. They take no SM, and go on while the host computes. A copy has a
 * ticket; it is complete when its queue has passed the ticket. Queues belong to the GPU and are shared by all calls.
 */
#ifndef GPUCOLL_COPIES_H
#define GPUCOLL_COPIES_H

#include "core/gpu.h"

struct gpucoll_copy_ticket {
    uint32_t queue;
    uint64_t number; /* 0: there was nothing to copy */
};

/* The queue for what goes to or comes from `peer`, seen from `rank`: neighbours on both sides have queues of their own, and so has the rank itself. */
static inline uint32_t gpucoll_peer_queue(uint32_t rank, uint32_t peer)
{
    return (rank - peer) % GPUCOLL_PEER_QUEUES;
}

/* Queues a copy to or from a place of `peer`, seen from `rank`: copies that concern different peers run at the same time. */
gpucoll_status gpucoll_copy(struct gpucoll_gpu *gpu, uint32_t rank, uint32_t peer, void *to, const void *from,
                            uint64_t bytes, struct gpucoll_copy_ticket *ticket) GPUCOLL_CHECKED;
/* Several in a queue of choice, which have one ticket. GPUCOLL_COPY_AT_ONCE, of up to GPUCOLL_MAX_LOCAL, is only for where
 * gpucoll_copies_can_batch: with recent drivers, and where ranks do not have the GPU in turn. */
gpucoll_status gpucoll_copies_in(struct gpucoll_gpu *gpu, uint32_t queue, const struct gpucoll_copy *copies,
                                 uint32_t count, enum gpucoll_copy_order order,
                                 struct gpucoll_copy_ticket *ticket) GPUCOLL_CHECKED;
bool gpucoll_copies_can_batch(struct gpucoll_gpu *gpu);
/* One in a queue of choice. */
gpucoll_status gpucoll_copy_in(struct gpucoll_gpu *gpu, uint32_t queue, void *to, const void *from,
                               uint64_t bytes, struct gpucoll_copy_ticket *ticket) GPUCOLL_CHECKED;
/* The same for GPUCOLL_QUEUE_OUT and GPUCOLL_QUEUE_IN with host memory at one end: few bytes go by the courier instead, if it takes them. `migrates`:
 * what is at the other end may be elsewhere than on the GPU. */
gpucoll_status gpucoll_copy_few(struct gpucoll_gpu *gpu, uint32_t queue, void *to, const void *from,
                                uint64_t bytes, bool migrates,
                                struct gpucoll_copy_ticket *ticket) GPUCOLL_CHECKED;
/* GPUCOLL_OK when the copy is complete, GPUCOLL_IN_PROGRESS, or an error that has been shown. */
gpucoll_status gpucoll_copy_done(struct gpucoll_gpu *gpu, struct gpucoll_copy_ticket ticket) GPUCOLL_CHECKED;
/* Of one that its call gave up waiting for: it writes no host memory any more. (A copy engine may still, until the memory is unpinned, which
 * waits for it.) */
void gpucoll_copy_forget(struct gpucoll_gpu *gpu, struct gpucoll_copy_ticket ticket);

#endif
