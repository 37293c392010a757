#include "core/accel/cuda.h"
#include "core/accel/cuda_accel.h"
#include <stdlib.h>
#include <string.h>

gpucoll_status gpucoll_cuda_check(const struct gpucoll_cuda_accel *accel, int ordinal, const char *what,
                                  CUresult result)
{
    if (result == CUDA_SUCCESS) {
        return GPUCOLL_OK;
    }
    char text[256];
    gpucoll_cuda_describe(accel->cuda, result, text, sizeof(text));
    gpucoll_help(accel->base.log, "device-error", "cuda", ordinal, what, text);
    return result == CUDA_ERROR_OUT_OF_MEMORY ? GPUCOLL_ERR_NO_MEMORY : GPUCOLL_ERR_DEVICE;
}

struct gpucoll_entry gpucoll_cuda_relax(const struct gpucoll_cuda_accel *accel)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    const bool relaxed = accel->cuda->cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS;
    return (struct gpucoll_entry){.relaxed = relaxed, .mode = (int)mode};
}

struct gpucoll_entry gpucoll_cuda_enter(const struct gpucoll_cuda_accel *accel, CUcontext context)
{
    CUcontext current = NULL;
    struct gpucoll_entry entry = gpucoll_cuda_relax(accel);
    if (accel->cuda->cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != context) {
        /* If this fails, so does what the caller does next, and says so. */
        entry.pushed = accel->cuda->cuCtxPushCurrent(context) == CUDA_SUCCESS;
    }
    return entry;
}

void gpucoll_cuda_leave(const struct gpucoll_cuda_accel *accel, struct gpucoll_entry entry)
{
    CUcontext left;
    CUstreamCaptureMode mode = (CUstreamCaptureMode)entry.mode;
    if (entry.pushed) {
        (void)accel->cuda->cuCtxPopCurrent(&left);
    }
    if (entry.relaxed) {
        (void)accel->cuda->cuThreadExchangeStreamCaptureMode(&mode);
    }
}

/* Initialises neither the driver nor a device: that is the application's to do. */
static gpucoll_status cuda_open(const struct gpucoll_config *config, const struct gpucoll_log *log,
                                struct gpucoll_accel **out)
{
    const struct gpucoll_cuda_driver *cuda = gpucoll_cuda_driver(log);
    if (!cuda) {
        return GPUCOLL_ERR_UNSUPPORTED;
    }
    struct gpucoll_cuda_accel *accel = calloc(1, sizeof(*accel));
    if (!accel) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    accel->base = (struct gpucoll_accel){.ops = &gpucoll_accel_cuda, .config = config, .log = log};
    accel->cuda = cuda;
    pthread_mutex_init(&accel->lock, NULL);
    *out = &accel->base;
    return GPUCOLL_OK;
}

static void cuda_close(struct gpucoll_accel *base)
{
    struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base);
    gpucoll_cuda_close_places(accel);
    pthread_mutex_destroy(&accel->lock);
    free(accel);
}

/* Asked on every MPI call. Before anybody has initialised the driver the one call into it fails at once;
 * after a context has been seen it is one load. */
static bool cuda_active(struct gpucoll_accel *base)
{
    struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base);
    if (atomic_load_explicit(&accel->seen, memory_order_relaxed)) {
        return true;
    }
    CUcontext current = NULL;
    if (accel->cuda->cuCtxGetCurrent(&current) != CUDA_SUCCESS) {
        return false;
    }
    int ordinal;
    if (!current && gpucoll_cuda_primaries(accel->cuda, &ordinal) == 0) {
        return false;
    }
    atomic_store_explicit(&accel->seen, true, memory_order_relaxed);
    return true;
}

bool gpucoll_cuda_look(const struct gpucoll_cuda_accel *accel, const void *address,
                       struct gpucoll_cuda_pointer *pointer)
{
    *pointer = (struct gpucoll_cuda_pointer){.ordinal = -1};
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_BUFFER_ID};
    void *values[] = {&pointer->context, &pointer->type, &pointer->managed, &pointer->ordinal, &pointer->id};
    const unsigned count = sizeof(names) / sizeof(names[0]);
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)address;
    CUresult result = accel->cuda->cuPointerGetAttributes(count, names, values, at);
    if (result != CUDA_SUCCESS) {
        /* Without the number of the allocation, which not every kind of memory has. */
        result = accel->cuda->cuPointerGetAttributes(count - 1, names, values, at);
    }
    if (result != CUDA_SUCCESS || (pointer->type != CU_MEMORYTYPE_DEVICE && !pointer->managed)) {
        return false;
    }
    CUdevice current;
    if (pointer->ordinal < 0 && accel->cuda->cuCtxGetDevice(&current) == CUDA_SUCCESS) {
        pointer->ordinal = current; /* managed memory that no device is preferred for */
    }
    return true;
}

static void cuda_classify(struct gpucoll_accel *base, const void *address, struct gpucoll_buffer *buffer)
{
    struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base);
    struct gpucoll_cuda_pointer pointer;
    *buffer = (struct gpucoll_buffer){.memory = GPUCOLL_MEMORY_HOST, .device = -1};
    if (!address || !gpucoll_cuda_look(accel, address, &pointer)) {
        return;
    }
    *buffer =
        (struct gpucoll_buffer){GPUCOLL_MEMORY_DEVICE, pointer.ordinal, pointer.id, pointer.managed != 0};
    if (pointer.ordinal < 0 || pointer.ordinal >= GPUCOLL_CUDA_DEVICES) {
        buffer->device = -1;
        return;
    }
    /* Kernels of the context in use cannot touch memory of another context of the same GPU. */
    CUcontext used = atomic_load_explicit(&accel->places[pointer.ordinal].context, memory_order_acquire);
    if (used && pointer.context && pointer.context != used) {
        buffer->device = -1;
    }
}

static bool tell(const struct gpucoll_cuda_pointer *pointer, bool found, struct gpucoll_buffer *buffer)
{
    *buffer = (struct gpucoll_buffer){.memory = GPUCOLL_MEMORY_DEVICE, .device = pointer->ordinal};
    return found && pointer->ordinal < GPUCOLL_CUDA_DEVICES;
}

static bool cuda_here(struct gpucoll_accel *base, struct gpucoll_buffer *buffer)
{
    struct gpucoll_cuda_pointer pointer;
    bool found = gpucoll_cuda_find_used(gpucoll_cuda_accel(base)->cuda, &pointer);
    return tell(&pointer, found, buffer);
}

static bool cuda_only(struct gpucoll_accel *base, struct gpucoll_buffer *buffer)
{
    struct gpucoll_cuda_pointer pointer;
    bool found = gpucoll_cuda_find_only(gpucoll_cuda_accel(base)->cuda, &pointer);
    return tell(&pointer, found, buffer);
}

const struct gpucoll_accel_ops gpucoll_accel_cuda = {
    .name = "cuda",
    .help = "NVIDIA GPUs, through the driver that the machine has",
    .scratch_bytes = (size_t)64 << 20,
    .open = cuda_open,
    .close = cuda_close,
    .active = cuda_active,
    .classify = cuda_classify,
    .copy = gpucoll_cuda_copy,
    .copy_rows = gpucoll_cuda_copy_rows,
    .host_alloc = gpucoll_cuda_host_alloc,
    .host_free = gpucoll_cuda_host_free,
    .synchronize = gpucoll_cuda_synchronize,
    .here = cuda_here,
    .only = cuda_only,
    .identify = gpucoll_cuda_identify,
    .device_open = gpucoll_cuda_device_open,
    .device_close = gpucoll_cuda_device_close,
    .device_id = gpucoll_cuda_device_id,
    .extent = gpucoll_cuda_extent,
    .export_memory = gpucoll_cuda_export_memory,
    .unexport_memory = gpucoll_cuda_unexport_memory,
    .copier_open = gpucoll_cuda_copier_open,
    .copier_close = gpucoll_cuda_copier_close,
    .copier_queue = gpucoll_cuda_copier_queue,
    .copier_batches = gpucoll_cuda_copier_batches,
    .copier_passed = gpucoll_cuda_copier_passed,
    .device_lingers = gpucoll_cuda_device_lingers,
    .device_resident = gpucoll_cuda_device_resident,
    .device_concurrent = gpucoll_cuda_device_concurrent,
    .device_bulk = gpucoll_cuda_device_bulk,
    .device_link = gpucoll_cuda_device_link,
    .device_enter = gpucoll_cuda_device_enter,
    .device_leave = gpucoll_cuda_device_leave,
    .device_flush = gpucoll_cuda_device_flush,
    .scratch_alloc = gpucoll_cuda_scratch_alloc,
    .scratch_free = gpucoll_cuda_scratch_free,
    .import = gpucoll_cuda_import,
    .release = gpucoll_cuda_release,
    .memory_alloc = gpucoll_cuda_memory_alloc,
    .memory_free = gpucoll_cuda_memory_free,
    .stream_open = gpucoll_cuda_stream_open,
    .stream_close = gpucoll_cuda_stream_close,
    .stream_stop = gpucoll_cuda_stream_stop,
    .launch = gpucoll_cuda_launch,
    .ring_early = gpucoll_cuda_ring_early,
    .confirm = gpucoll_cuda_confirm,
    .call_off = gpucoll_cuda_call_off,
    .launch_again = gpucoll_cuda_launch_again,
    .pack = gpucoll_cuda_pack,
    .stream_status = gpucoll_cuda_stream_status,
    .stream_poll = gpucoll_cuda_stream_poll,
    .stream_health = gpucoll_cuda_stream_health,
    .host_register = gpucoll_cuda_host_register,
    .host_unregister = gpucoll_cuda_host_unregister,
};
