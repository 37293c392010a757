#include "core/copies.h"

gpucoll_status gpucoll_copy(struct gpucoll_gpu *gpu, uint32_t rank, uint32_t peer, void *to, const void *from,
                            uint64_t bytes, struct gpucoll_copy_ticket *ticket)
{
    return gpucoll_copy_in(gpu, gpucoll_peer_queue(rank, peer), to, from, bytes, ticket);
}

gpucoll_status gpucoll_copy_in(struct gpucoll_gpu *gpu, uint32_t queue_index, void *to, const void *from,
                               uint64_t bytes, struct gpucoll_copy_ticket *ticket)
{
    const struct gpucoll_copy copy = {to, from, bytes};
    return gpucoll_copies_in(gpu, queue_index, &copy, bytes > 0, GPUCOLL_COPY_IN_TURN, ticket);
}

gpucoll_status gpucoll_copy_few(struct gpucoll_gpu *gpu, uint32_t queue_index, void *to, const void *from,
                                uint64_t bytes, bool migrates, struct gpucoll_copy_ticket *ticket)
{
    if (bytes == 0 || bytes > GPUCOLL_COURIER_BYTES || migrates) {
        return gpucoll_copy_in(gpu, queue_index, to, from, bytes, ticket);
    }
    const struct gpucoll_copy copy = {to, from, bytes};
    pthread_mutex_lock(&gpu->copies_lock);
    const bool taken =
        gpucoll_courier_take(&gpu->courier, gpu->device, &copy, queue_index == GPUCOLL_QUEUE_OUT);
    if (taken) {
        *ticket = (struct gpucoll_copy_ticket){GPUCOLL_BY_COURIER, gpu->courier.taken};
    }
    pthread_mutex_unlock(&gpu->copies_lock);
    return taken ? GPUCOLL_OK : gpucoll_copy_in(gpu, queue_index, to, from, bytes, ticket);
}

gpucoll_status gpucoll_copies_in(struct gpucoll_gpu *gpu, uint32_t queue_index,
                                 const struct gpucoll_copy *copies, uint32_t count,
                                 enum gpucoll_copy_order order, struct gpucoll_copy_ticket *ticket)
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
        status = ops->copier_queue(queue->copier, copies, count, order);
    }
    if (status == GPUCOLL_OK) {
        ticket->number = ++queue->queued;
    }
    pthread_mutex_unlock(&gpu->copies_lock);
    return status;
}

bool gpucoll_copies_can_batch(struct gpucoll_gpu *gpu)
{
    return !__atomic_load_n(&gpu->device->shared, __ATOMIC_RELAXED) &&
           gpu->device->accel->ops->copier_batches(gpu->device);
}

/* What has been passed of what the ticket is of. The caller holds the lock. */
static gpucoll_status passed(struct gpucoll_gpu *gpu, struct gpucoll_copy_ticket ticket, uint64_t *number)
{
    gpucoll_status status = GPUCOLL_OK;
    if (ticket.queue == GPUCOLL_BY_COURIER) {
        status = gpucoll_courier_look(&gpu->courier);
        *number = gpu->courier.passed;
        return status;
    }
    struct gpucoll_copy_queue *queue = &gpu->copies[ticket.queue];
    if (queue->passed < ticket.number) {
        status = gpu->device->accel->ops->copier_passed(queue->copier, &queue->passed);
    }
    *number = queue->passed;
    return status;
}

gpucoll_status gpucoll_copy_done(struct gpucoll_gpu *gpu, struct gpucoll_copy_ticket ticket)
{
    uint64_t number = 0;
    if (ticket.number == 0) {
        return GPUCOLL_OK;
    }
    pthread_mutex_lock(&gpu->copies_lock);
    gpucoll_status status = passed(gpu, ticket, &number);
    pthread_mutex_unlock(&gpu->copies_lock);
    return status == GPUCOLL_OK && number < ticket.number ? GPUCOLL_IN_PROGRESS : status;
}

void gpucoll_copy_forget(struct gpucoll_gpu *gpu, struct gpucoll_copy_ticket ticket)
{
    if (ticket.queue == GPUCOLL_BY_COURIER) {
        pthread_mutex_lock(&gpu->copies_lock);
        gpucoll_courier_forget(&gpu->courier, ticket.number);
        pthread_mutex_unlock(&gpu->copies_lock);
    }
}
