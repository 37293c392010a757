#include "core/copies.h"

/* Caller holds the GPU's lock. */
static gpucoll_status open_queue(struct gpucoll_gpu *gpu, struct gpucoll_copy_queue *queue)
{
    const struct gpucoll_accel_ops *ops = gpu->device->accel->ops;
    if (queue->stream != NULL) {
        return GPUCOLL_OK;
    }
    gpucoll_status status = ops->stream_open(gpu->device, &queue->stream);
    if (status == GPUCOLL_OK) {
        queue->status = ops->stream_status(queue->stream);
    }
    return status;
}

gpucoll_status gpucoll_copy(struct gpucoll_gpu *gpu, uint32_t rank, uint32_t peer, void *to, const void *from,
                            uint64_t bytes, struct gpucoll_copy_ticket *ticket)
{
    /* Neighbours on both sides have queues of their own, and so has the rank itself. */
    return gpucoll_copy_in(gpu, (rank - peer) % GPUCOLL_PEER_QUEUES, to, from, bytes, ticket);
}

gpucoll_status gpucoll_copy_in(struct gpucoll_gpu *gpu, uint32_t queue_index, void *to, const void *from,
                               uint64_t bytes, struct gpucoll_copy_ticket *ticket)
{
    ticket->number = 0;
    if (bytes == 0) {
        return GPUCOLL_OK;
    }
    ticket->queue = queue_index;
    struct gpucoll_copy_queue *queue = &gpu->copies[ticket->queue];
    pthread_mutex_lock(&gpu->copies_lock);
    gpucoll_status status = open_queue(gpu, queue);
    if (status == GPUCOLL_OK) {
        queue->queued += queue->queued == UINT32_MAX ? 2 : 1; /* never 0 */
        ticket->number = queue->queued;
        status = gpu->device->accel->ops->copy_queue(queue->stream, to, from, bytes, queue->queued);
    }
    pthread_mutex_unlock(&gpu->copies_lock);
    return status;
}

bool gpucoll_copy_done(const struct gpucoll_gpu *gpu, struct gpucoll_copy_ticket ticket)
{
    if (ticket.number == 0) {
        return true;
    }
    uint32_t passed = __atomic_load_n(&gpu->copies[ticket.queue].status->done, __ATOMIC_ACQUIRE);
    return (int32_t)(passed - ticket.number) >= 0;
}
