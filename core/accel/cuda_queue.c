/*
 * Queues of copies: a stream of the device, on which each copy is followed by a write of its number into pinned host
 * memory. So the host sees the end of a copy with one load, and the driver is called twice a copy.
 */
#include "core/accel/cuda_accel.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/clock.h"

struct cuda_queue {
    struct gpucoll_queue base;
    CUstream handle;
    uint32_t *written;          /* by the device: the low half of the number of the latest complete copy */
    CUdeviceptr device_written; /* the same, as the device sees it */
    uint64_t appended;
    uint64_t done;
};

static CUcontext context_of(const struct gpucoll_device *device)
{
    return atomic_load_explicit(&((const struct gpucoll_cuda_device *)device)->place->context,
                                memory_order_relaxed);
}

gpucoll_status gpucoll_cuda_host_register(struct gpucoll_device *device, void *pointer, size_t bytes)
{
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(device->accel);
    bool entered = gpucoll_cuda_enter(accel, context_of(device));
    CUresult result = accel->cuda->cuMemHostRegister(
        pointer, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    gpucoll_cuda_leave(accel, entered);
    return gpucoll_cuda_check(accel, device->ordinal, "registering shared host memory (cuMemHostRegister)",
                              result);
}

void gpucoll_cuda_host_unregister(struct gpucoll_device *device, void *pointer)
{
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(device->accel);
    if (gpucoll_cuda_alive(accel, gpucoll_cuda_device(device)->place, device->ordinal)) {
        bool entered = gpucoll_cuda_enter(accel, context_of(device));
        (void)accel->cuda->cuMemHostUnregister(pointer);
        gpucoll_cuda_leave(accel, entered);
    }
}

static CUresult fill(const struct gpucoll_cuda_driver *cuda, struct cuda_queue *queue)
{
    CUresult result = cuda->cuStreamCreateWithPriority(&queue->handle, CU_STREAM_NON_BLOCKING, 0);
    return result == CUDA_SUCCESS ? cuda->cuMemHostGetDevicePointer(&queue->device_written, queue->written, 0)
                                  : result;
}

gpucoll_status gpucoll_cuda_queue_open(struct gpucoll_device *device, struct gpucoll_queue **out)
{
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(device->accel);
    struct cuda_queue *queue = calloc(1, sizeof(*queue));
    if (!queue) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    queue->base.device = device;
    bool entered = gpucoll_cuda_enter(accel, context_of(device)); /* `written` is pinned in it */
    void *memory = NULL;
    gpucoll_status status = gpucoll_cuda_host_alloc(device->accel, sizeof(*queue->written), &memory);
    if (status == GPUCOLL_OK) {
        queue->written = memory;
        *queue->written = 0;
        status =
            gpucoll_cuda_check(accel, device->ordinal, "making a queue of copies", fill(accel->cuda, queue));
    }
    gpucoll_cuda_leave(accel, entered);
    if (status == GPUCOLL_OK) {
        *out = &queue->base;
    } else {
        gpucoll_cuda_queue_close(&queue->base);
    }
    return status;
}

void gpucoll_cuda_queue_close(struct gpucoll_queue *base)
{
    struct cuda_queue *queue = (struct cuda_queue *)base;
    struct gpucoll_device *device = base->device;
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(device->accel);
    bool alive = gpucoll_cuda_alive(accel, gpucoll_cuda_device(device)->place, device->ordinal);
    bool entered = alive && gpucoll_cuda_enter(accel, context_of(device));
    if (alive && queue->handle) {
        (void)accel->cuda->cuStreamSynchronize(queue->handle);
        (void)accel->cuda->cuStreamDestroy(queue->handle);
    }
    gpucoll_cuda_host_free(device->accel, queue->written);
    gpucoll_cuda_leave(accel, entered);
    free(queue);
}

gpucoll_status gpucoll_cuda_queue_copy(struct gpucoll_queue *base, void *to, const void *from, size_t bytes)
{
    struct cuda_queue *queue = (struct cuda_queue *)base;
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base->device->accel);
    const struct gpucoll_cuda_driver *cuda = accel->cuda;
    bool entered = gpucoll_cuda_enter(accel, context_of(base->device));
    CUresult result =
        cuda->cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, bytes, queue->handle);
    queue->appended++;
    /* Ordered after the copy, and visible to the host after what the copy wrote. */
    if (result == CUDA_SUCCESS && cuda->write_value) {
        result = cuda->write_value(queue->handle, queue->device_written, (uint32_t)queue->appended,
                                   CU_STREAM_WRITE_VALUE_DEFAULT);
    }
    gpucoll_cuda_leave(accel, entered);
    return gpucoll_cuda_check(accel, base->device->ordinal, "copying between device and host memory", result);
}

uint64_t gpucoll_cuda_queue_poll(struct gpucoll_queue *base)
{
    struct cuda_queue *queue = (struct cuda_queue *)base;
    const struct gpucoll_cuda_driver *cuda = gpucoll_cuda_accel(base->device->accel)->cuda;
    if (cuda->write_value) {
        uint32_t written = __atomic_load_n(queue->written, __ATOMIC_ACQUIRE);
        queue->done += written - (uint32_t)queue->done;
    } else if (queue->done < queue->appended && cuda->cuStreamQuery(queue->handle) == CUDA_SUCCESS) {
        queue->done = queue->appended; /* an older driver tells of all copies at once */
    }
    return queue->done;
}

gpucoll_status gpucoll_cuda_queue_health(struct gpucoll_queue *base)
{
    const struct cuda_queue *queue = (const struct cuda_queue *)base;
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base->device->accel);
    CUresult result = accel->cuda->cuStreamQuery(queue->handle);
    return gpucoll_cuda_check(accel, base->device->ordinal, "copying between device and host memory",
                              result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result);
}

void gpucoll_cuda_queue_stop(struct gpucoll_queue *base)
{
    const struct cuda_queue *queue = (const struct cuda_queue *)base;
    const struct gpucoll_cuda_driver *cuda = gpucoll_cuda_accel(base->device->accel)->cuda;
    const uint64_t end = gpucoll_now_ns() + 1000000000u;
    while (cuda->cuStreamQuery(queue->handle) == CUDA_ERROR_NOT_READY && gpucoll_now_ns() < end) {
        sched_yield();
    }
}
