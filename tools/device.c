#include "tools/device.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "core/accel/accel.h"
#include "tools/cuda_symbols.h"

/* A CUresult is an int, a CUdevice too, a CUdeviceptr an unsigned 64-bit integer, handles are pointers. */
static struct {
    int (*cuDeviceGetCount)(int *);
    int (*cuDeviceGet)(int *, int);
    int (*cuDeviceGetName)(char *, int, int);
    int (*cuDevicePrimaryCtxRetain)(void **, int);
    int (*cuCtxSetCurrent)(void *);
    int (*cuMemAlloc_v2)(uint64_t *, size_t);
    int (*cuMemFree_v2)(uint64_t);
} cuda;

#define SYMBOL(name) CUDA_SYMBOL(__typeof__(cuda), name)
static const struct cuda_symbol symbols[] = {
    SYMBOL(cuDeviceGetCount), SYMBOL(cuDeviceGet),
    SYMBOL(cuDeviceGetName),  SYMBOL(cuDevicePrimaryCtxRetain),
    SYMBOL(cuCtxSetCurrent),  SYMBOL(cuMemAlloc_v2),
    SYMBOL(cuMemFree_v2),
};

static bool check(int error, const char *doing, char *reason, size_t reason_bytes)
{
    if (error == 0) {
        return true;
    }
    snprintf(reason, reason_bytes, "%s: %s (CUDA error %d)", doing, cuda_error_text(error), error);
    return false;
}

static bool load(char *reason, size_t reason_bytes)
{
    return cuda_load(&cuda, symbols, sizeof symbols / sizeof symbols[0], reason, reason_bytes);
}

int device_count(char *reason, size_t reason_bytes)
{
    int count = 0;
    if (!load(reason, reason_bytes) ||
        !check(cuda.cuDeviceGetCount(&count), "counting the GPUs", reason, reason_bytes)) {
        return 0;
    }
    if (count == 0) {
        snprintf(reason, reason_bytes, "the CUDA driver shows no GPU (is CUDA_VISIBLE_DEVICES empty?)");
    }
    return count;
}

bool device_open_cuda(struct device *device, int ordinal, char *reason, size_t reason_bytes)
{
    int handle = 0;
    void *context = NULL;
    memset(device, 0, sizeof *device);
    return load(reason, reason_bytes) &&
           check(cuda.cuDeviceGet(&handle, ordinal), "finding the GPU", reason, reason_bytes) &&
           check(cuda.cuDeviceGetName(device->name, (int)sizeof device->name, handle), "naming the GPU",
                 reason, reason_bytes) &&
           check(cuda.cuDevicePrimaryCtxRetain(&context, handle), "making a CUDA context", reason,
                 reason_bytes) &&
           check(cuda.cuCtxSetCurrent(context), "using a CUDA context", reason, reason_bytes);
}

void device_open_host(struct device *device)
{
    memset(device, 0, sizeof *device);
    device->host = true;
    snprintf(device->name, sizeof device->name, "host memory");
}

void *device_alloc(const struct device *device, size_t bytes)
{
    uint64_t address = 0;
    if (device->host) {
        void *pointer = gpucoll_host_malloc(bytes, GPUCOLL_MEMORY_DEVICE);
        return pointer != NULL ? memset(pointer, 0, bytes) : NULL;
    }
    return cuda.cuMemAlloc_v2(&address, bytes) == 0 ? (void *)(uintptr_t)address : NULL;
}

void device_free(const struct device *device, void *pointer)
{
    if (device->host) {
        gpucoll_host_free(pointer);
    } else if (pointer != NULL) {
        (void)cuda.cuMemFree_v2((uintptr_t)pointer);
    }
}
