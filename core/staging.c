#include "core/staging.h"

#include <stdlib.h>
#include "core/agreement.h"
#include "core/watchdog.h"

size_t gpucoll_staging_bytes(const struct gpucoll_config *config)
{
    return config->shm_bytes / 4096 * 4096;
}

uint64_t gpucoll_staging_chunk(uint64_t bytes, uint64_t most)
{
    const uint64_t least_bytes = 128 << 10;
    const uint64_t most_bytes = 1 << 20;
    const uint64_t chunks_of_a_message = 4;
    uint64_t chunk = bytes / chunks_of_a_message;
    chunk = chunk < least_bytes ? least_bytes : chunk > most_bytes ? most_bytes : chunk;
    chunk = (chunk + GPUCOLL_SHARE_ALIGN - 1) / GPUCOLL_SHARE_ALIGN * GPUCOLL_SHARE_ALIGN;
    return chunk < most ? chunk : most / GPUCOLL_SHARE_ALIGN * GPUCOLL_SHARE_ALIGN;
}

gpucoll_status gpucoll_staging_open(struct gpucoll_device *device, struct gpucoll_staging **out)
{
    const struct gpucoll_accel_ops *ops = device->accel->ops;
    struct gpucoll_staging *staging = calloc(1, sizeof *staging);
    if (staging == NULL) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    gpucoll_status status = ops->queue_open(device, &staging->out.queue);
    if (status == GPUCOLL_OK) {
        status = ops->queue_open(device, &staging->in.queue);
    }
    if (status != GPUCOLL_OK) {
        gpucoll_staging_close(staging);
        return status;
    }
    *out = staging;
    return GPUCOLL_OK;
}

static void close_queue(struct gpucoll_queue *queue)
{
    if (queue != NULL) {
        queue->device->accel->ops->queue_close(queue);
    }
}

void gpucoll_staging_close(struct gpucoll_staging *staging)
{
    if (staging != NULL) {
        close_queue(staging->out.queue);
        close_queue(staging->in.queue);
        free(staging);
    }
}

static void begin(struct gpucoll_copies *copies)
{
    copies->before += copies->given;
    copies->given = 0;
    copies->complete = 0;
}

void gpucoll_staging_begin(struct gpucoll_staging *staging)
{
    begin(&staging->out);
    begin(&staging->in);
}

void gpucoll_staging_stop(struct gpucoll_staging *staging)
{
    const struct gpucoll_accel_ops *ops = staging->out.queue->device->accel->ops;
    ops->queue_stop(staging->out.queue);
    ops->queue_stop(staging->in.queue);
}

gpucoll_status gpucoll_copies_give(struct gpucoll_copies *copies, void *to, const void *from, size_t bytes)
{
    copies->given++;
    return copies->queue->device->accel->ops->queue_copy(copies->queue, to, from, bytes);
}

bool gpucoll_copies_look(struct gpucoll_copies *copies)
{
    const uint64_t known = copies->complete;
    if (known == copies->given) {
        return false;
    }
    copies->complete = copies->queue->device->accel->ops->queue_poll(copies->queue) - copies->before;
    return copies->complete != known;
}

gpucoll_status gpucoll_staging_wait(struct gpucoll_request *request, uint32_t missing, const char *doing)
{
    const uint64_t looked = request->looked_ns;
    gpucoll_status status = gpucoll_watchdog(request, missing, doing);
    if (status == GPUCOLL_IN_PROGRESS && request->looked_ns != looked) {
        /* As often as the watchdog looks at the peers, ask the device whether it met an error. */
        struct gpucoll_queue *queue = request->lane->staging->out.queue;
        gpucoll_status health = queue->device->accel->ops->queue_health(queue);
        return health == GPUCOLL_OK ? GPUCOLL_IN_PROGRESS : health;
    }
    return status;
}

gpucoll_status gpucoll_staging_leave(struct gpucoll_request *request)
{
    if (!request->in_barrier) {
        gpucoll_barrier_enter(request, false);
        gpucoll_watchdog_reset(request);
        request->in_barrier = true;
    }
    uint32_t missing = 0;
    if (gpucoll_barrier_done(request, &missing) == GPUCOLL_IN_PROGRESS) {
        return gpucoll_watchdog(request, missing, "waiting for the others to take their data");
    }
    return GPUCOLL_OK;
}

struct gpucoll_outbox_lane *gpucoll_staging_lane(const struct gpucoll_request *request, uint32_t rank,
                                                 uint32_t *epoch)
{
    const struct gpucoll_post *post = gpucoll_agreement_post(request, rank);
    const struct gpucoll_config *config = request->team->context->config;
    *epoch = post->epoch;
    /* All ranks cut their scratch alike, so the offset of a lane tells its number. */
    return gpucoll_outbox_lane(request->links->outbox[rank], gpucoll_staging_bytes(config),
                               post->lane / gpucoll_lane_bytes(request->gpu->data_bytes));
}
