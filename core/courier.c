#include "core/courier.h"

#include <string.h>
#include "core/base/clock.h"
#include "core/base/config.h"

/* From when a kernel is told of bytes until it waits for the next, about. */
static const uint64_t turn_ns = 3000;

/* A kernel that is told of bytes is to be at work at once: not where processes have the GPU in turn. */
static bool is_usable(const struct gpucoll_courier *courier, struct gpucoll_device *device)
{
    const struct gpucoll_accel *accel = device->accel;
    return !courier->failed && accel->config->linger > 0 &&
           (!device->shared || accel->ops->device_concurrent(device));
}

/* Twice as long as the kernels of collectives: the calls that need it take longer, above all those of several hosts. */
static uint32_t linger_ns(const struct gpucoll_config *config)
{
    return 2 * gpucoll_linger_ns(config);
}

static bool lingers(struct gpucoll_courier *courier, const struct gpucoll_config *config)
{
    return gpucoll_habit_lingers(&courier->habit, courier, 0, gpucoll_now_ns(), linger_ns(config) + turn_ns);
}

static gpucoll_status launch(struct gpucoll_courier *courier, const struct gpucoll_copy *copy, bool to_host)
{
    const struct gpucoll_accel *accel = courier->stream->device->accel;
    struct gpucoll_kernel_args args;
    memset(&args, 0, gpucoll_kernel_args_bytes(GPUCOLL_COURIER_CHUNKS));
    args.bytes = copy->bytes;
    args.nranks = GPUCOLL_COURIER_CHUNKS;
    args.done_value = gpucoll_next_done(&courier->done);
    if (to_host) {
        args.send = copy->from;
    } else {
        args.recv = copy->to;
        for (uint32_t at = 0; at < copy->bytes; at += GPUCOLL_COURIER_CHUNK) {
            const uint64_t left = copy->bytes - at;
            memcpy(&args.peer[at / GPUCOLL_COURIER_CHUNK], (const char *)copy->from + at,
                   left < GPUCOLL_COURIER_CHUNK ? left : GPUCOLL_COURIER_CHUNK);
        }
    }
    const struct gpucoll_launch call = {
        .kernel = to_host ? GPUCOLL_KERNEL_FETCH : GPUCOLL_KERNEL_DELIVER,
        .ctas = 1,
        .threads = 32,
        .linger_ns = linger_ns(accel->config),
        .args = &args,
    };
    return accel->ops->launch(courier->stream, &call);
}

bool gpucoll_courier_take(struct gpucoll_courier *courier, struct gpucoll_device *device,
                          const struct gpucoll_copy *copy, bool to_host)
{
    const struct gpucoll_accel_ops *ops = device->accel->ops;
    if (!is_usable(courier, device) || !lingers(courier, device->accel->config)) {
        return false;
    }
    if (courier->stream == NULL && ops->stream_open(device, &courier->stream) != GPUCOLL_OK) {
        courier->stream = NULL;
        courier->failed = true;
        return false;
    }
    if (gpucoll_courier_look(courier) != GPUCOLL_OK || courier->passed != courier->taken) {
        return false;
    }
    if (launch(courier, copy, to_host) != GPUCOLL_OK) {
        courier->failed = true;
        return false;
    }
    courier->taken++;
    courier->into = to_host ? copy->to : NULL;
    courier->bytes = (uint32_t)copy->bytes;
    return true;
}

/* The words that the latest has brought; false: some are still on their way. */
static bool collect(const struct gpucoll_courier *courier)
{
    const struct gpucoll_kernel_status *status =
        courier->stream->device->accel->ops->stream_status(courier->stream);
    uint32_t word[GPUCOLL_COURIER_BYTES / sizeof(uint32_t)];
    for (uint32_t i = 0; i * sizeof(uint32_t) < courier->bytes; i++) {
        const uint64_t fetched = __atomic_load_n(&status->fetched[i], __ATOMIC_RELAXED);
        if (fetched >> 32 != courier->done) {
            return false;
        }
        word[i] = (uint32_t)fetched;
    }
    memcpy(courier->into, word, courier->bytes);
    return true;
}

gpucoll_status gpucoll_courier_look(struct gpucoll_courier *courier)
{
    enum { LOOKS_OF_A_QUESTION = 65536 }; /* a system call */
    if (courier->passed == courier->taken) {
        return GPUCOLL_OK;
    }
    const struct gpucoll_accel_ops *ops = courier->stream->device->accel->ops;
    gpucoll_status status = ops->stream_poll(courier->stream);
    if (status == GPUCOLL_IN_PROGRESS && ++courier->looks % LOOKS_OF_A_QUESTION == 0) {
        status = ops->stream_health(courier->stream);
        status = status == GPUCOLL_OK ? GPUCOLL_IN_PROGRESS : status;
    }
    if (status == GPUCOLL_OK && (courier->into == NULL || collect(courier))) {
        courier->passed = courier->taken;
    }
    if (status != GPUCOLL_OK && status != GPUCOLL_IN_PROGRESS) {
        courier->failed = true;
        return status;
    }
    return GPUCOLL_OK;
}

void gpucoll_courier_forget(struct gpucoll_courier *courier, uint64_t number)
{
    if (courier->taken == number) {
        courier->into = NULL;
    }
}

void gpucoll_courier_close(struct gpucoll_courier *courier)
{
    if (courier->stream != NULL) {
        courier->stream->device->accel->ops->stream_close(courier->stream);
        courier->stream = NULL;
    }
}
