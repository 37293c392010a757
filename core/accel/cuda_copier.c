/*
 * Copies by the copy engines: a stream of copies, those that are queued together followed by an event. (Not by a value that the stream writes, which
 * the driver does on another engine: each change of engines takes ten microseconds, and the link idles.)
 */
#include "core/accel/cuda_accel.h"
#include <stddef.h>
#include <stdlib.h>

enum { EVENTS = 64 }; /* sets of copies that can be outstanding */

struct cuda_copier {
    struct gpucoll_copier base;
    CUstream stream;
    uint64_t queued;
    uint64_t passed;
    CUevent events[EVENTS]; /* of set number n: [n % EVENTS] */
};

static const struct gpucoll_cuda_accel *accel_of(const struct cuda_copier *copier)
{
    return gpucoll_cuda_accel(copier->base.device->accel);
}

static CUcontext context_of(const struct cuda_copier *copier)
{
    return atomic_load_explicit(&gpucoll_cuda_device(copier->base.device)->place->context,
                                memory_order_relaxed);
}

/* What was made stays in `copier` if a later step fails. */
static CUresult fill(const struct gpucoll_cuda_driver *cuda, struct cuda_copier *copier)
{
    int least = 0;
    int greatest = 0;
    CUresult result = cuda->cuCtxGetStreamPriorityRange(&least, &greatest);
    if (result == CUDA_SUCCESS) {
        result = cuda->cuStreamCreateWithPriority(&copier->stream, CU_STREAM_NON_BLOCKING, greatest);
    }
    for (int i = 0; i < EVENTS && result == CUDA_SUCCESS; i++) {
        result = cuda->cuEventCreate(&copier->events[i], CU_EVENT_DISABLE_TIMING);
    }
    return result;
}

gpucoll_status gpucoll_cuda_copier_open(struct gpucoll_device *device, bool to_host,
                                        struct gpucoll_copier **out)
{
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(device->accel);
    struct cuda_copier *copier = calloc(1, sizeof(*copier));
    if (!copier) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    copier->base = (struct gpucoll_copier){device, to_host};
    struct gpucoll_entry entry = gpucoll_cuda_enter(accel, context_of(copier));
    CUresult result = fill(accel->cuda, copier);
    gpucoll_cuda_leave(accel, entry);
    gpucoll_status status = gpucoll_cuda_check(accel, device->ordinal, "making a queue of copies", result);
    if (status != GPUCOLL_OK) {
        gpucoll_cuda_copier_close(&copier->base);
        return status;
    }
    *out = &copier->base;
    return GPUCOLL_OK;
}

void gpucoll_cuda_copier_close(struct gpucoll_copier *base)
{
    struct cuda_copier *copier = (struct cuda_copier *)base;
    const struct gpucoll_cuda_accel *accel = accel_of(copier);
    if (gpucoll_cuda_alive(accel, gpucoll_cuda_device(base->device)->place, base->device->ordinal)) {
        struct gpucoll_entry entry = gpucoll_cuda_enter(accel, context_of(copier));
        for (int i = 0; i < EVENTS && copier->events[i]; i++) {
            (void)accel->cuda->cuEventDestroy(copier->events[i]);
        }
        if (copier->stream) {
            (void)accel->cuda->cuStreamDestroy(copier->stream);
        }
        gpucoll_cuda_leave(accel, entry);
    }
    free(copier);
}

/*
 * Copies below 32 KiB into a GPU are not the copy engines' to the driver: they wait, like kernels, for the turn of their process where several
 * have the GPU, 145 us for each of the others. But those of two rows that do not touch each other are. So the bytes are cut in four parts, which
 * may overlap by what is no multiple of four: the first and the third are the rows of one copy, the second and the fourth of another.
 */
enum { LEAST_OF_ENGINE = 4, MOST_IN_TURN = 32 << 10 };

static CUresult copy_rows(const struct gpucoll_cuda_driver *cuda, const struct gpucoll_copy *copy,
                          CUstream stream)
{
    const size_t width = (copy->bytes + 3) / 4;
    const size_t pitch = copy->bytes - 2 * width;
    CUDA_MEMCPY2D rows = {
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcPitch = pitch,
        .dstPitch = pitch,
        .WidthInBytes = width,
        .Height = 2,
    };
    CUresult result = CUDA_SUCCESS;
    for (size_t at = 0; at <= width && result == CUDA_SUCCESS; at += width) {
        rows.srcDevice = (CUdeviceptr)(uintptr_t)copy->from + at;
        rows.dstDevice = (CUdeviceptr)(uintptr_t)copy->to + at;
        result = cuda->cuMemcpy2DAsync(&rows, stream);
    }
    return result;
}

static CUresult copy_one(const struct gpucoll_cuda_driver *cuda, const struct cuda_copier *copier,
                         const struct gpucoll_copy *copy)
{
    const bool in_rows = !copier->base.to_host &&
                         __atomic_load_n(&copier->base.device->shared, __ATOMIC_RELAXED) &&
                         copy->bytes < MOST_IN_TURN && copy->bytes >= LEAST_OF_ENGINE &&
                         (copy->bytes + 3) / 4 * 3 <= copy->bytes; /* else the rows would overlap */
    return in_rows ? copy_rows(cuda, copy, copier->stream)
                   : cuda->cuMemcpyAsync((CUdeviceptr)(uintptr_t)copy->to, (CUdeviceptr)(uintptr_t)copy->from,
                                         copy->bytes, copier->stream);
}

bool gpucoll_cuda_copier_batches(struct gpucoll_device *device)
{
    const struct gpucoll_cuda_driver *cuda = gpucoll_cuda_accel(device->accel)->cuda;
    return cuda->copy_batch != NULL || cuda->copy_batch_12 != NULL;
}

static CUresult copy_each(const struct gpucoll_cuda_driver *cuda, const struct cuda_copier *copier,
                          const struct gpucoll_copy *copies, uint32_t count)
{
    CUresult result = CUDA_SUCCESS;
    for (uint32_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        result = copy_one(cuda, copier, &copies[i]);
    }
    return result;
}

#if CUDA_VERSION >= 12080
_Static_assert(sizeof(struct gpucoll_copy_attributes) == sizeof(CUmemcpyAttributes) &&
                   offsetof(struct gpucoll_copy_attributes, flags) == offsetof(CUmemcpyAttributes, flags) &&
                   (int)GPUCOLL_AFTER_STREAM == (int)CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
               "a copy of the driver's structure");
#endif

/* By one call of the driver, which takes 0.6 us for each copy where calls of their own take 2.5 to 3 (docs/design-direct.md). */
static CUresult copy_batch(const struct gpucoll_cuda_driver *cuda, const struct cuda_copier *copier,
                           const struct gpucoll_copy *copies, uint32_t count)
{
    struct gpucoll_copy_attributes attributes = {.order = GPUCOLL_AFTER_STREAM};
    CUdeviceptr to[GPUCOLL_MAX_LOCAL], from[GPUCOLL_MAX_LOCAL];
    size_t bytes[GPUCOLL_MAX_LOCAL], first = 0, failed = 0;
    for (uint32_t i = 0; i < count; i++) {
        to[i] = (CUdeviceptr)(uintptr_t)copies[i].to;
        from[i] = (CUdeviceptr)(uintptr_t)copies[i].from;
        bytes[i] = copies[i].bytes;
    }
    return cuda->copy_batch != NULL
               ? cuda->copy_batch(to, from, bytes, count, &attributes, &first, 1, copier->stream)
               : cuda->copy_batch_12(to, from, bytes, count, &attributes, &first, 1, &failed, copier->stream);
}

/* A set of copies and its event. If that fails nothing of it is under way any more: the caller has no number to wait for. */
static CUresult queue_set(const struct gpucoll_cuda_driver *cuda, struct cuda_copier *copier,
                          const struct gpucoll_copy *copies, uint32_t count, bool batch)
{
    CUresult result =
        batch ? copy_batch(cuda, copier, copies, count) : copy_each(cuda, copier, copies, count);
    if (batch && (result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_INVALID_VALUE)) {
        result = copy_each(cuda, copier, copies, count); /* what was begun is only copied once more */
    }
    if (result == CUDA_SUCCESS) {
        result = cuda->cuEventRecord(copier->events[(copier->queued + 1) % EVENTS], copier->stream);
    }
    if (result == CUDA_SUCCESS) {
        copier->queued++;
    } else {
        (void)cuda->cuStreamSynchronize(copier->stream);
    }
    return result;
}

gpucoll_status gpucoll_cuda_copier_queue(struct gpucoll_copier *base, const struct gpucoll_copy *copies,
                                         uint32_t count, enum gpucoll_copy_order order)
{
    struct cuda_copier *copier = (struct cuda_copier *)base;
    const struct gpucoll_cuda_accel *accel = accel_of(copier);
    struct gpucoll_entry entry = gpucoll_cuda_enter(accel, context_of(copier));
    CUresult result = gpucoll_cuda_same_context(accel, gpucoll_cuda_device(base->device)->place);
    if (result == CUDA_SUCCESS && copier->queued - copier->passed == EVENTS) {
        result = accel->cuda->cuEventSynchronize(copier->events[(copier->passed + 1) % EVENTS]);
        copier->passed += result == CUDA_SUCCESS;
    }
    if (result == CUDA_SUCCESS) {
        result = queue_set(accel->cuda, copier, copies, count, order == GPUCOLL_COPY_AT_ONCE && count > 1);
    }
    gpucoll_cuda_leave(accel, entry);
    return gpucoll_cuda_check(accel, base->device->ordinal, "queueing a copy", result);
}

gpucoll_status gpucoll_cuda_copier_passed(struct gpucoll_copier *base, uint64_t *passed)
{
    struct cuda_copier *copier = (struct cuda_copier *)base;
    const struct gpucoll_cuda_accel *accel = accel_of(copier);
    CUresult result = CUDA_SUCCESS;
    struct gpucoll_entry entry = gpucoll_cuda_relax(accel);
    while (copier->passed < copier->queued && result == CUDA_SUCCESS) {
        result = accel->cuda->cuEventQuery(copier->events[(copier->passed + 1) % EVENTS]);
        copier->passed += result == CUDA_SUCCESS;
    }
    gpucoll_cuda_leave(accel, entry);
    *passed = copier->passed;
    return gpucoll_cuda_check(accel, base->device->ordinal, "copying between GPUs",
                              result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result);
}
