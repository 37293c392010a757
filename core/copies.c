#include "core/copies.h"

gpucoll_status gpucoll_copy(struct gpucoll_gpu *gpu, uint32_t rank, uint32_t peer, void *to, const void *from,
                            uint64_t bytes, struct gpucoll_copy_ticket *ticket)
{
    /* Neighbours on both sides have queues of their own, and so has the rank itself. */
    return gpucoll_copy_in(gpu, (rank - peer) % GPUCOLL_PEER_QUEUES, to, from, bytes, ticket);
}

gpucoll_status gpucoll_copy_in(struct gpucoll_gpu *gpu, uint32_t queue_index, void *to, const void *from,
                               uint64_t bytes, struct gpucoll_copy_ticket *ticket)
{
    const struct gpucoll_copy copy = {to, from, bytes};
    return gpucoll_copies_in(gpu, queue_index, &copy, bytes > 0, ticket);
}

gpucoll_status gpucoll_copies_in(struct gpucoll_gpu *gpu, uint32_t queue_index,
                                 const struct gpucoll_copy *copies, uint32_t count,
                                 struct gpucoll_copy_ticket *ticket)
{
    const struct gpucoll_accel_ops *ops = gpu->device->accel->ops;
    ticket->number = 0;
    if (count == 0) {
        return GPUCOLL_OK;
    }
    ticket->queue = queue_index;
    struct gpucoll_copy_queue *queue = &gpu->copies[ticket->queue];
    gpucoll_status status = GPUCOLL_OK;
    pthread_mutex_lock(&gpu->copies_lock);
    if (queue->copier == NULL) {
        status = ops->copier_open(gpu->device, queue_index == GPUCOLL_QUEUE_OUT, &queue->copier);
    }
    if (status == GPUCOLL_OK) {
        status = ops->copier_queue(queue->copier, copies, count);
    }
    if (status == GPUCOLL_OK) {
        ticket->number = ++queue->queued;
    }
    pthread_mutex_unlock(&gpu->copies_lock);
    return status;
}

gpucoll_status gpucoll_copy_done(struct gpucoll_gpu *gpu, struct gpucoll_copy_ticket ticket)
{
    if (ticket.number == 0) {
        return GPUCOLL_OK;
    }
    struct gpucoll_copy_queue *queue = &gpu->copies[ticket.queue];
    gpucoll_status status = GPUCOLL_OK;
    pthread_mutex_lock(&gpu->copies_lock);
    if (queue->passed < ticket.number) {
        status = gpu->device->accel->ops->copier_passed(queue->copier, &queue->passed);
    }
    bool done = queue->passed >= ticket.number;
    pthread_mutex_unlock(&gpu->copies_lock);
    return status == GPUCOLL_OK && !done ? GPUCOLL_IN_PROGRESS : status;
}
