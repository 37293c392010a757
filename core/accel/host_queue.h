/*
 * Queues of copies on the host accelerator. A copy is done when its queue is polled, one a poll: so it is late, as on a
 * device, without a thread of its own.
 */
#ifndef GPUCOLL_ACCEL_HOST_QUEUE_H
#define GPUCOLL_ACCEL_HOST_QUEUE_H

#include "core/accel/accel.h"

gpucoll_status gpucoll_host_queue_open(struct gpucoll_device *device,
                                       struct gpucoll_queue **queue) GPUCOLL_CHECKED;
void gpucoll_host_queue_close(struct gpucoll_queue *queue);
gpucoll_status gpucoll_host_queue_copy(struct gpucoll_queue *queue, void *to, const void *from,
                                       size_t bytes) GPUCOLL_CHECKED;
uint64_t gpucoll_host_queue_poll(struct gpucoll_queue *queue);
gpucoll_status gpucoll_host_queue_health(struct gpucoll_queue *queue) GPUCOLL_CHECKED;
void gpucoll_host_queue_stop(struct gpucoll_queue *queue);

#endif
