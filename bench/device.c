#include "bench/device.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/cuda_symbols.h"

/* The few driver functions used here, declared by ourselves: cuda.h is not needed to build. A CUresult is an int, a
 * CUdeviceptr an unsigned 64-bit integer, handles are pointers. */
static struct {
    int (*cuDriverGetVersion)(int *);
    int (*cuDeviceGetCount)(int *);
    int (*cuDeviceGet)(int *, int);
    int (*cuDeviceGetName)(char *, int, int);
    int (*cuDevicePrimaryCtxRetain)(void **, int);
    int (*cuDevicePrimaryCtxRelease_v2)(int);
    int (*cuCtxSetCurrent)(void *);
    int (*cuCtxSynchronize)(void);
    int (*cuMemAlloc_v2)(uint64_t *, size_t);
    int (*cuMemFree_v2)(uint64_t);
    int (*cuMemAllocHost_v2)(void **, size_t);
    int (*cuMemFreeHost)(void *);
    int (*cuMemcpy)(uint64_t, uint64_t, size_t);
    int (*cuMemsetD8_v2)(uint64_t, unsigned char, size_t);
    int (*cuStreamSynchronize)(void *);
    int (*cuStreamDestroy_v2)(void *);
    int (*cuStreamCreateWithPriority)(void **, unsigned, int);
    int (*cuStreamQuery)(void *);
    int (*cuCtxGetStreamPriorityRange)(int *, int *);
    int (*cuDeviceGetAttribute)(int *, int, int);
    int (*cuEventCreate)(void **, unsigned);
    int (*cuEventRecord)(void *, void *);
    int (*cuEventElapsedTime)(float *, void *, void *);
    int (*cuEventDestroy_v2)(void *);
    int (*cuModuleLoadData)(void **, const void *);
    int (*cuModuleUnload)(void *);
    int (*cuModuleGetFunction)(void **, void *, const char *);
    int (*cuLaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          void *, void **, void **);
} cuda;

#define SYMBOL(name) CUDA_SYMBOL(__typeof__(cuda), name)
static const struct cuda_symbol symbols[] = {
    SYMBOL(cuDriverGetVersion),
    SYMBOL(cuDeviceGetCount),
    SYMBOL(cuDeviceGet),
    SYMBOL(cuDeviceGetName),
    SYMBOL(cuDevicePrimaryCtxRetain),
    SYMBOL(cuDevicePrimaryCtxRelease_v2),
    SYMBOL(cuCtxSetCurrent),
    SYMBOL(cuCtxSynchronize),
    SYMBOL(cuMemAlloc_v2),
    SYMBOL(cuMemFree_v2),
    SYMBOL(cuMemAllocHost_v2),
    SYMBOL(cuMemFreeHost),
    SYMBOL(cuMemcpy),
    SYMBOL(cuMemsetD8_v2),
    SYMBOL(cuStreamSynchronize),
    SYMBOL(cuStreamDestroy_v2),
    SYMBOL(cuStreamCreateWithPriority),
    SYMBOL(cuStreamQuery),
    SYMBOL(cuCtxGetStreamPriorityRange),
    SYMBOL(cuDeviceGetAttribute),
    SYMBOL(cuEventCreate),
    SYMBOL(cuEventRecord),
    SYMBOL(cuEventElapsedTime),
    SYMBOL(cuEventDestroy_v2),
    SYMBOL(cuModuleLoadData),
    SYMBOL(cuModuleUnload),
    SYMBOL(cuModuleGetFunction),
    SYMBOL(cuLaunchKernel),
};

enum {
    CUDA_STREAM_NON_BLOCKING = 1,
    CUDA_MULTIPROCESSOR_COUNT = 16,
    CUDA_MPS_ENABLED = 133,
    CUDA_NOT_READY = 600
};

static void check(int error, const char *what)
{
    if (error != 0)
        bench_fail("%s: %s (CUDA error %d)", what, cuda_error_text(error), error);
}

bool bench_device_open_cuda(struct bench_device *device, int local_rank, char *reason, size_t reason_bytes)
{
    int handle = 0;
    void *context = NULL;
    memset(device, 0, sizeof(*device));
    if (!cuda_load(&cuda, symbols, sizeof(symbols) / sizeof(symbols[0]), reason, reason_bytes))
        return false;
    if (cuda.cuDeviceGetCount(&device->count) != 0 || device->count == 0) {
        snprintf(reason, reason_bytes, "the CUDA driver sees no GPU");
        return false;
    }
    device->cuda = true;
    device->ordinal = local_rank % device->count;
    cuda.cuDriverGetVersion(&device->cuda_version);
    check(cuda.cuDeviceGet(&handle, device->ordinal), "cuDeviceGet");
    check(cuda.cuDeviceGetName(device->name, (int)sizeof(device->name), handle), "cuDeviceGetName");
    int mps = 0; /* older drivers do not know the attribute */
    device->mps = cuda.cuDeviceGetAttribute(&mps, CUDA_MPS_ENABLED, handle) == 0 && mps != 0;
    check(cuda.cuDevicePrimaryCtxRetain(&context, handle), "cuDevicePrimaryCtxRetain");
    check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    return true;
}

void bench_device_open_host(struct bench_device *device)
{
    memset(device, 0, sizeof(*device));
    device->ordinal = -1;
    snprintf(device->name, sizeof(device->name), "host memory");
}

bool bench_device_open(struct bench_device *device, struct bench_group *group, const char *memory)
{
    char reason[256] = "as asked for";
    bool wanted = strcmp(memory, "host") != 0;
    bool found = wanted && bench_device_open_cuda(device, group->local_rank, reason, sizeof(reason));
    if (bench_max(group, !found) == 0)
        return true;
    if (found)
        bench_device_close(device);
    if (strcmp(memory, "cuda") == 0) {
        if (!found)
            fprintf(stderr, "%s: rank %d: no buffers on a GPU: %s\n", bench_program, group->rank, reason);
        return false;
    }
    bench_device_open_host(device);
    if (group->rank == 0)
        printf("Buffers are in host memory (%s).\n", found ? "another rank has no GPU" : reason);
    return true;
}

void bench_device_close(struct bench_device *device)
{
    int handle = 0;
    if (device->cuda && cuda.cuDeviceGet(&handle, device->ordinal) == 0)
        cuda.cuDevicePrimaryCtxRelease_v2(handle);
    device->cuda = false;
}

void *bench_device_alloc(struct bench_device *device, size_t bytes)
{
    uint64_t address = 0;
    if (device->cuda) {
        check(cuda.cuMemAlloc_v2(&address, bytes), "cuMemAlloc");
        return (void *)(uintptr_t)address;
    }
    void *pointer = malloc(bytes);
    if (!pointer)
        bench_fail("no memory for a buffer of %zu bytes: try a smaller --max", bytes);
    return pointer;
}

void bench_device_free(struct bench_device *device, void *pointer)
{
    if (!device->cuda)
        free(pointer);
    else if (pointer)
        check(cuda.cuMemFree_v2((uintptr_t)pointer), "cuMemFree");
}

void *bench_pinned_alloc(struct bench_device *device, size_t bytes)
{
    void *pointer = NULL;
    if (!device->cuda)
        return bench_device_alloc(device, bytes);
    check(cuda.cuMemAllocHost_v2(&pointer, bytes), "cuMemAllocHost");
    return pointer;
}

void bench_pinned_free(struct bench_device *device, void *pointer)
{
    if (!device->cuda)
        free(pointer);
    else if (pointer)
        check(cuda.cuMemFreeHost(pointer), "cuMemFreeHost");
}

void bench_device_copy(struct bench_device *device, void *to, const void *from, size_t bytes)
{
    if (!device->cuda) {
        memcpy(to, from, bytes);
        return;
    }
    check(cuda.cuMemcpy((uintptr_t)to, (uintptr_t)from, bytes), "cuMemcpy");
    /* A copy from pageable memory or within the device may return before its last byte has arrived. */
    check(cuda.cuStreamSynchronize(NULL), "cuStreamSynchronize after a copy");
}

void bench_device_fill(struct bench_device *device, void *to, unsigned char byte, size_t bytes)
{
    if (!device->cuda) {
        memset(to, byte, bytes);
        return;
    }
    check(cuda.cuMemsetD8_v2((uintptr_t)to, byte, bytes), "cuMemsetD8");
    check(cuda.cuStreamSynchronize(NULL), "cuStreamSynchronize after a fill");
}

void bench_device_synchronize(struct bench_device *device)
{
    if (device->cuda)
        check(cuda.cuCtxSynchronize(), "cuCtxSynchronize");
}

void *bench_stream_open(struct bench_device *device, bool urgent)
{
    void *stream = NULL;
    int least = 0;
    int greatest = 0;
    if (!device->cuda)
        return NULL;
    check(cuda.cuCtxGetStreamPriorityRange(&least, &greatest), "cuCtxGetStreamPriorityRange");
    check(cuda.cuStreamCreateWithPriority(&stream, CUDA_STREAM_NON_BLOCKING, urgent ? greatest : least),
          "cuStreamCreateWithPriority");
    return stream;
}

bool bench_stream_is_done(struct bench_device *device, void *stream)
{
    int error = device->cuda ? cuda.cuStreamQuery(stream) : 0;
    if (error != CUDA_NOT_READY)
        check(error, "cuStreamQuery");
    return error == 0;
}

void bench_stream_wait(struct bench_device *device, void *stream)
{
    if (device->cuda)
        check(cuda.cuStreamSynchronize(stream), "cuStreamSynchronize");
}

void bench_stream_close(struct bench_device *device, void *stream)
{
    if (device->cuda)
        check(cuda.cuStreamDestroy_v2(stream), "cuStreamDestroy");
}

void *bench_event_open(struct bench_device *device)
{
    void *event = NULL;
    if (device->cuda)
        check(cuda.cuEventCreate(&event, 0), "cuEventCreate");
    return event;
}

void bench_event_record(struct bench_device *device, void *event, void *stream)
{
    if (device->cuda)
        check(cuda.cuEventRecord(event, stream), "cuEventRecord");
}

double bench_event_us(struct bench_device *device, void *begin, void *end)
{
    float ms = 0;
    if (device->cuda)
        check(cuda.cuEventElapsedTime(&ms, begin, end), "cuEventElapsedTime");
    return (double)ms * 1e3;
}

void bench_event_close(struct bench_device *device, void *event)
{
    if (device->cuda && event)
        check(cuda.cuEventDestroy_v2(event), "cuEventDestroy");
}

void bench_kernel_open(struct bench_device *device, struct bench_kernel *kernel, const char *ptx,
                       const char *name)
{
    int handle = 0;
    check(cuda.cuDeviceGet(&handle, device->ordinal), "cuDeviceGet");
    check(cuda.cuDeviceGetAttribute(&kernel->multiprocessors, CUDA_MULTIPROCESSOR_COUNT, handle),
          "cuDeviceGetAttribute");
    check(cuda.cuModuleLoadData(&kernel->module, ptx), "cuModuleLoadData");
    check(cuda.cuModuleGetFunction(&kernel->function, kernel->module, name), "cuModuleGetFunction");
}

void bench_kernel_launch(const struct bench_kernel *kernel, unsigned blocks, unsigned threads, void *stream,
                         void **parameters)
{
    check(cuda.cuLaunchKernel(kernel->function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, NULL),
          "cuLaunchKernel");
}

void bench_kernel_close(struct bench_kernel *kernel)
{
    if (kernel->module)
        check(cuda.cuModuleUnload(kernel->module), "cuModuleUnload");
    kernel->module = NULL;
}
