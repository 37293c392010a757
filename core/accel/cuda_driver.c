#include "core/accel/cuda_driver.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char library[] = "libcuda.so.1";

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct gpucoll_cuda_driver driver;
static bool loaded;
static bool too_old;
static char failure[256]; /* why not */

struct symbol {
    const char *name;
    size_t offset;
};

/* cuda.h's macros have put the version suffix on `name` when TEXT sees it. */
#define TEXT(name) #name
#define SYMBOL(name) {TEXT(name), offsetof(struct gpucoll_cuda_driver, name)},
static const struct symbol needed[] = {GPUCOLL_CUDA_FUNCTIONS(SYMBOL)};
static const struct symbol optional[] = {GPUCOLL_CUDA_OPTIONAL(SYMBOL)};
static const struct symbol named[] = {
    {"cuDeviceGetUuid", offsetof(struct gpucoll_cuda_driver, uuid_of_device)},
    {"cuDeviceGetUuid_v2", offsetof(struct gpucoll_cuda_driver, uuid_of_slice)},
    {"cuCtxGetId", offsetof(struct gpucoll_cuda_driver, context_number)},
    {"cuLaunchKernelEx", offsetof(struct gpucoll_cuda_driver, launch_cluster)},
    {"cuFuncLoad", offsetof(struct gpucoll_cuda_driver, load_function)},
    {"cuFlushGPUDirectRDMAWrites", offsetof(struct gpucoll_cuda_driver, flush_writes)},
    {"cuMemcpyBatchAsync_v2", offsetof(struct gpucoll_cuda_driver, copy_batch)},
    {"cuMemcpyBatchAsync", offsetof(struct gpucoll_cuda_driver, copy_batch_12)},
};

static bool find(void *handle, const struct symbol *symbol)
{
    void *address = dlsym(handle, symbol->name);
    memcpy((char *)&driver + symbol->offset, &address, sizeof(address));
    return address != NULL;
}

static void load(void)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(failure, sizeof(failure), "%s", dlerror());
        return;
    }
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        if (!find(handle, &needed[i])) {
            snprintf(failure, sizeof(failure), "%s has no %s: gpucoll needs the driver of CUDA 11 or newer",
                     library, needed[i].name);
            too_old = true;
            return;
        }
    }
    for (size_t i = 0; i < sizeof(optional) / sizeof(optional[0]); i++) {
        find(handle, &optional[i]);
    }
    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
        find(handle, &named[i]);
    }
    loaded = true;
}

const struct gpucoll_cuda_driver *gpucoll_cuda_driver(const struct gpucoll_log *log)
{
    pthread_once(&once, load);
    if (!loaded) {
        gpucoll_log(log, too_old ? GPUCOLL_LOG_WARN : GPUCOLL_LOG_SETUP, "no CUDA driver: %s", failure);
    }
    return loaded ? &driver : NULL;
}

void gpucoll_cuda_describe(const struct gpucoll_cuda_driver *cuda, CUresult error, char *text, size_t bytes)
{
    const char *name = NULL;
    const char *meaning = NULL;
    if (cuda->cuGetErrorName(error, &name) != CUDA_SUCCESS ||
        cuda->cuGetErrorString(error, &meaning) != CUDA_SUCCESS) {
        snprintf(text, bytes, "CUDA error %d", (int)error);
        return;
    }
    snprintf(text, bytes, "%s: %s", name, meaning);
}
