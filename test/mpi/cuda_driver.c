#include "test/mpi/cuda_driver.h"

#include <dlfcn.h>
#include <string.h>

struct symbol {
    const char *name;
    size_t offset;
};

#define SYMBOL(field, name)                                                                                  \
    {                                                                                                        \
        name, offsetof(struct cuda_driver, field)                                                            \
    }
static const struct symbol symbols[] = {
    SYMBOL(init, "cuInit"),
    SYMBOL(device_count, "cuDeviceGetCount"),
    SYMBOL(device_get, "cuDeviceGet"),
    SYMBOL(primary_retain, "cuDevicePrimaryCtxRetain"),
    SYMBOL(primary_release, "cuDevicePrimaryCtxRelease_v2"),
    SYMBOL(set_current, "cuCtxSetCurrent"),
    SYMBOL(context_synchronize, "cuCtxSynchronize"),
    SYMBOL(stream_create, "cuStreamCreate"),
    SYMBOL(stream_destroy, "cuStreamDestroy_v2"),
    SYMBOL(stream_synchronize, "cuStreamSynchronize"),
    SYMBOL(mem_alloc, "cuMemAlloc_v2"),
    SYMBOL(mem_free, "cuMemFree_v2"),
    SYMBOL(mem_alloc_host, "cuMemAllocHost_v2"),
    SYMBOL(mem_free_host, "cuMemFreeHost"),
    SYMBOL(mem_alloc_managed, "cuMemAllocManaged"),
    SYMBOL(mem_alloc_async, "cuMemAllocAsync"),
    SYMBOL(mem_free_async, "cuMemFreeAsync"),
    SYMBOL(memcpy, "cuMemcpy"),
    SYMBOL(memset8, "cuMemsetD8_v2"),
    SYMBOL(memset8_async, "cuMemsetD8Async"),
    SYMBOL(capture_begin, "cuStreamBeginCapture_v2"),
    SYMBOL(capture_end, "cuStreamEndCapture"),
    SYMBOL(graph_instantiate, "cuGraphInstantiateWithFlags"),
    SYMBOL(graph_launch, "cuGraphLaunch"),
    SYMBOL(graph_exec_destroy, "cuGraphExecDestroy"),
    SYMBOL(graph_destroy, "cuGraphDestroy"),
    SYMBOL(mem_info, "cuMemGetInfo_v2"),
    SYMBOL(granularity, "cuMemGetAllocationGranularity"),
    SYMBOL(mem_create, "cuMemCreate"),
    SYMBOL(mem_release, "cuMemRelease"),
    SYMBOL(address_reserve, "cuMemAddressReserve"),
    SYMBOL(address_free, "cuMemAddressFree"),
    SYMBOL(mem_map, "cuMemMap"),
    SYMBOL(mem_unmap, "cuMemUnmap"),
    SYMBOL(mem_set_access, "cuMemSetAccess"),
    SYMBOL(error_name, "cuGetErrorName"),
};

bool cuda_driver_load(struct cuda_driver *cuda, int *gpus)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return false;
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *function = dlsym(library, symbols[i].name);
        if (function == NULL)
            return false;
        memcpy((char *)cuda + symbols[i].offset, &function, sizeof function);
    }
    return cuda->init(0) == 0 && cuda->device_count(gpus) == 0 && *gpus > 0;
}
