#include "bench/nccl_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include "bench/measure.h"

struct symbol {
    const char *name;
    size_t offset;
    bool required;
};

#define SYMBOL(name, required) {#name, offsetof(struct bench_nccl_api, name), required}
static const struct symbol symbols[] = {
    SYMBOL(ncclGetVersion, true),          SYMBOL(ncclGetUniqueId, true),
    SYMBOL(ncclCommInitRank, true),        SYMBOL(ncclCommDestroy, true),
    SYMBOL(ncclAllReduce, true),           SYMBOL(ncclGetErrorString, true),
    SYMBOL(ncclGetLastError, false),       SYMBOL(ncclMemAlloc, false),
    SYMBOL(ncclMemFree, false),            SYMBOL(ncclCommWindowRegister, false),
    SYMBOL(ncclCommWindowDeregister, false),
};

bool bench_nccl_load(struct bench_nccl_api *api, const char *path)
{
    /* NVLink multicast (NVLS) can take a shared host's GPUs out of service when a virtual machine uses it: it is used only where
     * the user has asked for it. The setting in force is in the report's context. */
    setenv("NCCL_NVLS_ENABLE", "0", 0);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr,
                "%s: NCCL cannot be loaded: %s\nName it with --nccl=PATH; Python packages keep it in "
                "site-packages/nvidia/nccl/lib/libnccl.so.2.\n",
                bench_program, dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void **address = (void **)(void *)((char *)api + symbols[i].offset);
        *address = dlsym(library, symbols[i].name);
        if (!*address && symbols[i].required) {
            fprintf(stderr, "%s: %s lacks %s: it is not an NCCL library\n", bench_program, path, symbols[i].name);
            return false;
        }
    }
    return true;
}

bool bench_nccl_has_windows(const struct bench_nccl_api *api)
{
    return api->ncclMemAlloc && api->ncclMemFree && api->ncclCommWindowRegister && api->ncclCommWindowDeregister;
}
