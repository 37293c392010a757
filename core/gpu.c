#include "core/gpu.h"

#include <stdlib.h>
#include <string.h>
#include "core/base/clock.h"
#include "core/staging.h"

/* The device is asked for errors, which takes a system call, once in so many looks. */
static const uint32_t looks_per_question = 4096;

static gpucoll_status open_lanes(struct gpucoll_gpu *gpu, uint32_t wanted)
{
    const struct gpucoll_accel_ops *ops = gpu->device->accel->ops;
    size_t lane_bytes = gpucoll_lane_bytes(gpu->data_bytes);
    gpucoll_status status = ops->scratch_alloc(gpu->device, gpu->inboxes_offset + GPUCOLL_INBOXES_BYTES,
                                               &gpu->scratch, &gpu->card.scratch);
    if (status != GPUCOLL_OK) {
        return status;
    }
    gpu->lanes = calloc(wanted, sizeof *gpu->lanes);
    if (gpu->lanes == NULL) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < wanted; i++) {
        struct gpucoll_lane *lane = &gpu->lanes[i];
        lane->offset = i * lane_bytes;
        status = ops->stream_open(gpu->device, &lane->stream);
        if (status != GPUCOLL_OK) {
            return status;
        }
        lane->status = ops->stream_status(lane->stream);
        gpu->lane_count++;
    }
    return GPUCOLL_OK;
}

gpucoll_status gpucoll_gpu_open(struct gpucoll_accel *accel, const void *pointer, struct gpucoll_gpu **out)
{
    struct gpucoll_gpu *gpu = calloc(1, sizeof *gpu);
    if (gpu == NULL) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    pthread_mutex_init(&gpu->copies_lock, NULL);
    const struct gpucoll_config *config = accel->config;
    gpu->data_bytes = gpucoll_scratch_bytes(config, accel->ops);
    gpu->inboxes_offset = (uint64_t)config->lanes * gpucoll_lane_bytes(gpu->data_bytes);
    gpucoll_status status = accel->ops->device_open(accel, pointer, &gpu->device);
    if (status == GPUCOLL_OK) {
        gpu->pool.device = gpu->device;
        accel->ops->device_id(gpu->device, &gpu->card.device);
        gpu->card.resident = accel->ops->device_resident(gpu->device);
        gpu->card.concurrent = accel->ops->device_concurrent(gpu->device);
        status = open_lanes(gpu, (uint32_t)config->lanes);
    }
    if (status != GPUCOLL_OK) {
        gpucoll_help(accel->log, "gpu-bind", (gpu->inboxes_offset + GPUCOLL_INBOXES_BYTES) >> 20,
                     gpucoll_status_name(status));
        gpucoll_gpu_close(gpu);
        return status;
    }
    *out = gpu;
    return GPUCOLL_OK;
}

void gpucoll_gpu_close(struct gpucoll_gpu *gpu)
{
    if (gpu == NULL) {
        return;
    }
    if (gpu->device != NULL) {
        const struct gpucoll_accel_ops *ops = gpu->device->accel->ops;
        for (uint32_t i = 0; i < gpu->lane_count; i++) {
            free(gpu->lanes[i].staging);
            ops->stream_close(gpu->lanes[i].stream);
        }
        gpucoll_device_pool_close(&gpu->pool);
        for (int i = 0; i < GPUCOLL_COPY_QUEUES; i++) {
            if (gpu->copies[i].copier != NULL) {
                ops->copier_close(gpu->copies[i].copier);
            }
        }
        gpucoll_courier_close(&gpu->courier);
        if (gpu->offered != NULL) {
            gpu->offered->withdraw(gpu->device, &gpu->outbox);
        }
        if (gpu->scratch != NULL) {
            ops->scratch_free(gpu->device, gpu->scratch);
        }
        ops->device_close(gpu->device);
    }
    pthread_mutex_destroy(&gpu->copies_lock);
    free(gpu->lanes);
    free(gpu);
}

/* Stores zeros over the whole lane, as fresh scratch holds them. No peer stores into it: its last call has ended, which
 * takes everything that peers store in a call. */
static bool clear_lane(struct gpucoll_gpu *gpu, struct gpucoll_lane *lane)
{
    struct gpucoll_accel *accel = gpu->device->accel;
    size_t bytes = gpucoll_lane_bytes(gpu->data_bytes);
    void *zeros = calloc(1, bytes);
    bool cleared = zeros != NULL &&
                   accel->ops->copy(accel, (char *)gpu->scratch + lane->offset, zeros, bytes) == GPUCOLL_OK;
    free(zeros);
    if (gpu->offered != NULL) { /* the flags; no peer looks at them either */
        const uint64_t index = lane->offset / bytes;
        memset(gpucoll_outbox_lane(gpu->outbox.user, gpucoll_staging_bytes(accel->config), index), 0,
               GPUCOLL_OUTBOX_FLAG_BYTES);
    }
    return cleared;
}

static bool take(struct gpucoll_gpu *gpu, struct gpucoll_lane *lane)
{
    if (lane->taken || lane->poisoned) {
        return false;
    }
    if (lane->epoch >
        UINT32_MAX - GPUCOLL_EPOCHS_OF_A_CALL) { /* flags of the coming epochs would look older than these */
        lane->poisoned = !clear_lane(gpu, lane);
        if (lane->poisoned) {
            return false;
        }
        lane->epoch = 0; /* what cleared scratch holds; it never marks a call */
    }
    lane->company = false;
    for (uint32_t i = 0; i < gpu->lane_count; i++) {
        lane->company |= gpu->lanes[i].taken;
    }
    lane->taken = true;
    lane->epoch++;
    return true;
}

struct gpucoll_lane *gpucoll_gpu_take_lane(struct gpucoll_gpu *gpu)
{
    for (uint32_t i = 0; i < gpu->lane_count; i++) {
        if (take(gpu, &gpu->lanes[i])) {
            return &gpu->lanes[i];
        }
    }
    return NULL;
}

struct gpucoll_lane *gpucoll_gpu_take_lane_but_one(struct gpucoll_gpu *gpu)
{
    uint32_t free_lanes = 0;
    for (uint32_t i = 0; i < gpu->lane_count && free_lanes < 2; i++) {
        free_lanes += !gpu->lanes[i].taken && !gpu->lanes[i].poisoned;
    }
    return free_lanes > 1 ? gpucoll_gpu_take_lane(gpu) : NULL;
}

struct gpucoll_lane *gpucoll_gpu_take_last_lane(struct gpucoll_gpu *gpu)
{
    for (uint32_t i = gpu->lane_count; i-- > 0;) {
        if (take(gpu, &gpu->lanes[i])) {
            gpucoll_gpu_mark_running(&gpu->lanes[i]);
            return &gpu->lanes[i];
        }
    }
    return NULL;
}

void gpucoll_gpu_give_lane(struct gpucoll_lane *lane)
{
    __atomic_store_n(&lane->running, 0, __ATOMIC_RELAXED);
    lane->taken = false;
}

/* The allowed transport that needs one and does most with it: what the others do is among that. */
static const struct gpucoll_tl_ops *find_offering(const char *allowed)
{
    const struct gpucoll_tl_ops *found = NULL;
    const struct gpucoll_tl_ops *tl;
    for (int i = 0; (tl = gpucoll_tl_row(i)) != NULL; i++) {
        if (tl->offer != NULL && gpucoll_tl_is_allowed(allowed, tl) &&
            (found == NULL || tl->does > found->does)) {
            found = tl;
        }
    }
    return found;
}

bool gpucoll_gpu_offer(struct gpucoll_gpu *gpu)
{
    if (gpu->offered != NULL || gpu->offer_failed) {
        return !gpu->offer_failed;
    }
    const struct gpucoll_config *config = gpu->device->accel->config;
    const struct gpucoll_tl_ops *tl = find_offering(config->transports);
    gpu->offer_failed = true;
    size_t bytes = gpucoll_outbox_bytes(gpucoll_staging_bytes(config), gpu->lane_count);
    if (tl == NULL || tl->offer(gpu->device, bytes, &gpu->outbox, &gpu->card) != GPUCOLL_OK) {
        return false;
    }
    gpu->offered = tl;
    for (uint32_t i = 0; i < gpu->lane_count; i++) {
        gpu->lanes[i].staging = calloc(1, sizeof *gpu->lanes[i].staging);
        if (gpu->lanes[i].staging == NULL) {
            return false;
        }
    }
    gpu->offer_failed = false;
    return true;
}

void gpucoll_gpu_mark_running(struct gpucoll_lane *lane)
{
    __atomic_store_n(&lane->running, 1, __ATOMIC_RELAXED);
}

enum gpucoll_lane_prospect gpucoll_gpu_lane_prospect(const struct gpucoll_gpu *gpu)
{
    enum gpucoll_lane_prospect prospect = GPUCOLL_LANE_NEVER;
    for (uint32_t i = 0; i < gpu->lane_count; i++) {
        const struct gpucoll_lane *lane = &gpu->lanes[i];
        if (lane->poisoned) {
            continue;
        }
        if (__atomic_load_n(&lane->running, __ATOMIC_RELAXED)) {
            return GPUCOLL_LANE_SURELY;
        }
        prospect = GPUCOLL_LANE_MAYBE;
    }
    return prospect;
}

bool gpucoll_gpu_lane_comes(const struct gpucoll_gpu *gpu, uint64_t *short_since_ns)
{
    const uint64_t now = gpucoll_now_ns();
    if (*short_since_ns == 0) {
        *short_since_ns = now;
    }
    return gpucoll_gpu_lane_prospect(gpu) == GPUCOLL_LANE_SURELY &&
           now - *short_since_ns <= GPUCOLL_LANE_PATIENCE_NS;
}

gpucoll_status gpucoll_gpu_look(const struct gpucoll_gpu *gpu, const struct gpucoll_lane *lane,
                                uint32_t *looks)
{
    const struct gpucoll_accel_ops *ops = gpu->device->accel->ops;
    gpucoll_status status = ops->stream_poll(lane->stream);
    if (status == GPUCOLL_IN_PROGRESS && ++*looks % looks_per_question == 0) {
        status = ops->stream_health(lane->stream);
        return status == GPUCOLL_OK ? GPUCOLL_IN_PROGRESS : status;
    }
    return status;
}
