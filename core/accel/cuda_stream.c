#include "core/accel/cuda_accel.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cuda_stream {
    struct gpucoll_stream base;
    CUstream handle;
    struct gpucoll_kernel_status *status; /* pinned host memory */
    CUdeviceptr device_status;            /* the same, as kernels see it */
    CUdeviceptr arrived;                  /* device memory: see kernel_abi.h */
};

static const unsigned warp = 32;

static CUcontext context_of(const struct gpucoll_device *device)
{
    return atomic_load_explicit(&((const struct gpucoll_cuda_device *)device)->place->context, memory_order_relaxed);
}

/* Everything a stream needs of the driver; what was made stays in `stream` if a later step fails. */
static CUresult fill(const struct gpucoll_cuda_driver *cuda, struct cuda_stream *stream)
{
    int least = 0;
    int greatest = 0;
    CUresult result = cuda->cuCtxGetStreamPriorityRange(&least, &greatest);
    if (result == CUDA_SUCCESS) {
        result = cuda->cuStreamCreateWithPriority(&stream->handle, CU_STREAM_NON_BLOCKING, greatest);
    }
    if (result == CUDA_SUCCESS) {
        result = cuda->cuMemHostGetDevicePointer(&stream->device_status, stream->status, 0);
    }
    if (result == CUDA_SUCCESS) {
        result = cuda->cuMemAlloc(&stream->arrived, sizeof(uint32_t));
    }
    if (result == CUDA_SUCCESS) {
        result = cuda->cuMemsetD8Async(stream->arrived, 0, sizeof(uint32_t), stream->handle);
    }
    return result == CUDA_SUCCESS ? cuda->cuStreamSynchronize(stream->handle) : result;
}

gpucoll_status gpucoll_cuda_stream_open(struct gpucoll_device *device, struct gpucoll_stream **out)
{
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(device->accel);
    struct cuda_stream *stream = calloc(1, sizeof(*stream));
    if (!stream) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    stream->base.device = device;
    bool entered = gpucoll_cuda_enter(accel, context_of(device)); /* the status is pinned in it */
    void *memory = NULL;
    gpucoll_status status = gpucoll_cuda_host_alloc(device->accel, sizeof(*stream->status), &memory);
    if (status == GPUCOLL_OK) {
        stream->status = memory;
        memset(stream->status, 0, sizeof(*stream->status));
        status = gpucoll_cuda_check(accel, device->ordinal, "making a stream", fill(accel->cuda, stream));
    }
    if (status == GPUCOLL_OK) {
        *out = &stream->base;
    } else {
        gpucoll_cuda_stream_close(&stream->base);
    }
    gpucoll_cuda_leave(accel, entered);
    return status;
}

void gpucoll_cuda_stream_close(struct gpucoll_stream *base)
{
    struct cuda_stream *stream = (struct cuda_stream *)base;
    struct gpucoll_device *device = base->device;
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(device->accel);
    bool alive = gpucoll_cuda_alive(accel, gpucoll_cuda_device(device)->place, device->ordinal);
    bool entered = alive && gpucoll_cuda_enter(accel, context_of(device));
    if (alive && stream->handle) {
        /* A kernel that still waits for a peer writes to the status when it gives up. */
        __atomic_store_n(&stream->status->abort, 1, __ATOMIC_RELEASE);
        (void)accel->cuda->cuStreamSynchronize(stream->handle);
        (void)accel->cuda->cuStreamDestroy(stream->handle);
    }
    if (alive && stream->arrived) {
        (void)accel->cuda->cuMemFree(stream->arrived);
    }
    gpucoll_cuda_host_free(device->accel, stream->status);
    gpucoll_cuda_leave(accel, entered);
    free(stream);
}

static CUresult load_kernel(const struct gpucoll_cuda_driver *cuda, struct gpucoll_cuda_device *device,
                            enum gpucoll_kernel kernel, int functor, CUfunction *function)
{
    enum gpucoll_image image = gpucoll_image_of(functor);
    CUresult result = CUDA_SUCCESS;
    if (!device->modules[image]) {
        result = cuda->cuModuleLoadData(&device->modules[image], gpucoll_image_data(image));
    }
    if (result == CUDA_SUCCESS) {
        result = cuda->cuModuleGetFunction(function, device->modules[image], gpucoll_kernel_entry(kernel, functor));
    }
    /* A lazy driver would load the code at the first launch, and wait for other kernels to do so. */
    if (result == CUDA_SUCCESS && cuda->load_function) {
        result = cuda->load_function(*function);
    }
    return result;
}

/* The kernel, loaded by the first call. */
static gpucoll_status find_kernel(struct gpucoll_cuda_device *device, enum gpucoll_kernel kernel, int functor,
                                  CUfunction *function)
{
    if ((unsigned)kernel >= GPUCOLL_KERNEL_COUNT || (unsigned)functor >= GPUCOLL_FUNCTOR_COUNT) {
        return GPUCOLL_ERR_UNSUPPORTED;
    }
    _Atomic(CUfunction) *slot = &device->functions[kernel][functor];
    *function = atomic_load_explicit(slot, memory_order_acquire);
    if (*function) {
        return GPUCOLL_OK;
    }
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(device->base.accel);
    pthread_mutex_lock(&device->lock);
    bool entered = gpucoll_cuda_enter(accel, context_of(&device->base));
    CUresult result = load_kernel(accel->cuda, device, kernel, functor, function);
    gpucoll_cuda_leave(accel, entered);
    if (result == CUDA_SUCCESS) {
        atomic_store_explicit(slot, *function, memory_order_release);
    }
    pthread_mutex_unlock(&device->lock);
    char what[256];
    snprintf(what, sizeof(what), "loading the kernel %s (configure --with-cuda-arch says for which GPUs there is code)",
             gpucoll_kernel_entry(kernel, functor));
    return gpucoll_cuda_check(accel, device->base.ordinal, what, result);
}

gpucoll_status gpucoll_cuda_prepare(struct gpucoll_device *device, enum gpucoll_kernel kernel, int functor)
{
    CUfunction function;
    return find_kernel(gpucoll_cuda_device(device), kernel, functor, &function);
}

/* Whole warps, no more than the kernels are compiled for. */
static unsigned usable_threads(unsigned threads)
{
    unsigned most = threads < GPUCOLL_MAX_THREADS ? threads : GPUCOLL_MAX_THREADS;
    return most < warp ? warp : most / warp * warp;
}

gpucoll_status gpucoll_cuda_launch(struct gpucoll_stream *base, const struct gpucoll_launch *launch)
{
    struct cuda_stream *stream = (struct cuda_stream *)base;
    struct gpucoll_cuda_device *device = gpucoll_cuda_device(base->device);
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base->device->accel);
    const struct gpucoll_kernel_args *given = launch->args;
    if (launch->ctas < 1 || launch->ctas > GPUCOLL_MAX_CHANNELS || given->nranks < 1 || given->nranks > GPUCOLL_MAX_LOCAL) {
        return GPUCOLL_ERR_INVALID;
    }
    CUfunction function;
    gpucoll_status status = find_kernel(device, launch->kernel, launch->functor, &function);
    if (status != GPUCOLL_OK) {
        return status;
    }
    struct gpucoll_kernel_args args;
    /* Of the arrays only the team's part was filled. */
    memcpy(&args, given, offsetof(struct gpucoll_kernel_args, lane));
    memcpy(args.lane, given->lane, given->nranks * sizeof(given->lane[0]));
    memcpy(args.epoch, given->epoch, given->nranks * sizeof(given->epoch[0]));
    args.status = (struct gpucoll_kernel_status *)(uintptr_t)stream->device_status;
    args.arrived = (uint32_t *)(uintptr_t)stream->arrived;
    void *parameters[] = {&args};
    bool entered = gpucoll_cuda_enter(accel, context_of(base->device));
    CUresult result = accel->cuda->cuLaunchKernel(function, launch->ctas, 1, 1, usable_threads(launch->threads), 1, 1, 0,
                                                  stream->handle, parameters, NULL);
    gpucoll_cuda_leave(accel, entered);
    return result == CUDA_SUCCESS ? GPUCOLL_OK
                                  : gpucoll_cuda_check(accel, base->device->ordinal, "launching a kernel", result);
}

struct gpucoll_kernel_status *gpucoll_cuda_stream_status(struct gpucoll_stream *base)
{
    return ((struct cuda_stream *)base)->status;
}

gpucoll_status gpucoll_cuda_stream_health(struct gpucoll_stream *base)
{
    const struct cuda_stream *stream = (const struct cuda_stream *)base;
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base->device->accel);
    CUresult result = accel->cuda->cuStreamQuery(stream->handle);
    return gpucoll_cuda_check(accel, base->device->ordinal, "running a kernel",
                              result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result);
}
