#include "test/gpu/gpus.h"
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/accel/cuda.h"

void gpus_copy(const struct gpus *gpus, const char *name, void *to, const void *from, size_t bytes)
{
    if (gpus->accel->ops->copy(gpus->accel, to, from, bytes) != GPUCOLL_OK) {
        printf("FAIL %s: a copy failed\n", name);
        exit(1);
    }
}

void gpus_report(struct gpus *gpus, bool passed, const char *name, ...)
{
    char text[512];
    va_list args;
    va_start(args, name);
    vsnprintf(text, sizeof(text), name, args);
    va_end(args);
    printf("%s %s\n", passed ? "PASS" : "FAIL", text);
    fflush(stdout);
    *(passed ? &gpus->passed : &gpus->failed) += 1;
}

void gpus_must(const struct gpus *gpus, CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS) {
        char text[256];
        gpucoll_cuda_describe(gpus->cuda, result, text, sizeof(text));
        printf("FAIL %s: %s\n", what, text);
        exit(1);
    }
}

/* gpucoll never initialises the driver; the application does, and here that is the test. */
static bool init_driver(void)
{
    CUresult(CUDAAPI * init)(unsigned flags) = NULL;
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *address = handle ? dlsym(handle, "cuInit") : NULL;
    memcpy(&init, &address, sizeof(init));
    return init && init(0) == CUDA_SUCCESS;
}

bool gpus_open(struct gpus *gpus)
{
    /* Ranks that share a GPU spin on each other: each needs a hardware queue of its own. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    memset(gpus, 0, sizeof(*gpus));
    gpucoll_log_stderr(&gpus->log, getenv("GPUCOLL_VERBOSE") ? 10 : 0, NULL);
    gpucoll_config_init(&gpus->config);
    gpus->cuda = gpucoll_cuda_driver(&gpus->log);
    if (!gpus->cuda || gpucoll_accel_cuda.open(&gpus->config, &gpus->log, &gpus->accel) != GPUCOLL_OK) {
        printf("SKIP kernels (no CUDA driver)\n");
        return false;
    }
    bool quiet = !gpus->accel->ops->active(gpus->accel);
    if (!init_driver() || gpus->cuda->cuDeviceGetCount(&gpus->count) != CUDA_SUCCESS || gpus->count < 1) {
        printf("SKIP kernels (no GPU)\n");
        gpus->accel->ops->close(gpus->accel);
        return false;
    }
    quiet = quiet && !gpus->accel->ops->active(gpus->accel);
    gpus_report(gpus, quiet, "inactive before there is a context");
    gpus->count = gpus->count < 64 ? gpus->count : 64;
    for (int i = 0; i < gpus->count; i++) {
        gpus_must(gpus, gpus->cuda->cuDevicePrimaryCtxRetain(&gpus->contexts[i], i), "making a context");
    }
    gpus_report(gpus, gpus->accel->ops->active(gpus->accel), "active with a context that is not current");
    return true;
}

void gpus_close(struct gpus *gpus)
{
    gpus->accel->ops->close(gpus->accel);
    for (int i = 0; i < gpus->count; i++) {
        (void)gpus->cuda->cuDevicePrimaryCtxRelease(i);
    }
}

void gpus_use(const struct gpus *gpus, int gpu)
{
    CUcontext old;
    (void)gpus->cuda->cuCtxPopCurrent(&old);
    gpus_must(gpus, gpus->cuda->cuCtxPushCurrent(gpus->contexts[gpu]), "using a context");
}

void *gpus_alloc(const struct gpus *gpus, int gpu, size_t bytes)
{
    CUdeviceptr memory = 0;
    gpus_use(gpus, gpu);
    gpus_must(gpus, gpus->cuda->cuMemAlloc(&memory, bytes), "allocating device memory");
    return (void *)(uintptr_t)memory;
}

void gpus_free(const struct gpus *gpus, int gpu, void *pointer)
{
    gpus_use(gpus, gpu);
    (void)gpus->cuda->cuMemFree((CUdeviceptr)(uintptr_t)pointer);
}
