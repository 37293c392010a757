#include "core/accel/host_queue.h"
#include <stdlib.h>
#include <string.h>

/* When as many wait, the oldest is done at once. */
enum { WAITING = 16 };

struct copy {
    void *to;
    const void *from;
    size_t bytes;
};

struct host_queue {
    struct gpucoll_queue base;
    uint64_t appended;
    uint64_t done;
    struct copy waiting[WAITING];
};

gpucoll_status gpucoll_host_queue_open(struct gpucoll_device *device, struct gpucoll_queue **out)
{
    struct host_queue *queue = calloc(1, sizeof(*queue));
    if (!queue) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    queue->base.device = device;
    *out = &queue->base;
    return GPUCOLL_OK;
}

/* What still waits is not done: its memory may be gone. */
void gpucoll_host_queue_close(struct gpucoll_queue *base)
{
    free(base);
}

static void do_oldest(struct host_queue *queue)
{
    const struct copy *copy = &queue->waiting[queue->done % WAITING];
    memmove(copy->to, copy->from, copy->bytes);
    queue->done++;
}

gpucoll_status gpucoll_host_queue_copy(struct gpucoll_queue *base, void *to, const void *from, size_t bytes)
{
    struct host_queue *queue = (struct host_queue *)base;
    if (queue->appended - queue->done == WAITING) {
        do_oldest(queue);
    }
    queue->waiting[queue->appended++ % WAITING] = (struct copy){to, from, bytes};
    return GPUCOLL_OK;
}

uint64_t gpucoll_host_queue_poll(struct gpucoll_queue *base)
{
    struct host_queue *queue = (struct host_queue *)base;
    if (queue->done < queue->appended) {
        do_oldest(queue);
    }
    return queue->done;
}

gpucoll_status gpucoll_host_queue_health(struct gpucoll_queue *base)
{
    (void)base;
    return GPUCOLL_OK;
}

void gpucoll_host_queue_stop(struct gpucoll_queue *base)
{
    struct host_queue *queue = (struct host_queue *)base;
    queue->done = queue->appended;
}
