#include "bench/nccl_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/library.h"

struct symbol {
    const char *name;
    size_t offset;
    bool required;
};

#define SYMBOL(name, required)                                                                               \
    {                                                                                                        \
#name, offsetof(struct bench_nccl_api, name), required                                               \
    }
static const struct symbol symbols[] = {
    SYMBOL(ncclGetVersion, true),
    SYMBOL(ncclGetUniqueId, true),
    SYMBOL(ncclCommInitRank, true),
    SYMBOL(ncclCommDestroy, true),
    SYMBOL(ncclAllReduce, true),
    SYMBOL(ncclReduce, true),
    SYMBOL(ncclBroadcast, true),
    SYMBOL(ncclAllGather, true),
    SYMBOL(ncclReduceScatter, true),
    SYMBOL(ncclSend, true),
    SYMBOL(ncclRecv, true),
    SYMBOL(ncclGroupStart, true),
    SYMBOL(ncclGroupEnd, true),
    SYMBOL(ncclAlltoAll, false),
    SYMBOL(ncclGather, false),
    SYMBOL(ncclScatter, false),
    SYMBOL(ncclGetErrorString, true),
    SYMBOL(ncclGetLastError, false),
    SYMBOL(ncclMemAlloc, false),
    SYMBOL(ncclMemFree, false),
    SYMBOL(ncclCommWindowRegister, false),
    SYMBOL(ncclCommWindowDeregister, false),
};

static const struct bench_library nccl = {
    .sonames = {"libnccl.so.2"},
    .in_packages = "nvidia/nccl/lib/libnccl.so.2",
    .in_lib = "libnccl.so.2",
};

/* NVLink multicast (NVLS) can take a shared host's GPUs out of service when a virtual machine uses it: it is used only where the user has asked
 * for it. */
void bench_nccl_settings(void)
{
    setenv("NCCL_NVLS_ENABLE", "0", 0);
}

bool bench_nccl_load(struct bench_nccl_api *api, const char *path, char *reason, size_t reason_bytes)
{
    bench_nccl_settings();
    void *library = bench_library_load(&nccl, path, api->path, sizeof(api->path));
    if (!library) {
        snprintf(reason, reason_bytes, "%s. Name the library with --nccl=PATH",
                 strcmp(path, "auto") == 0 ? "libnccl.so.2 was found neither by the dynamic linker nor among "
                                             "Python's packages (nvidia/nccl/lib)"
                                           : dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void **address = (void **)(void *)((char *)api + symbols[i].offset);
        *address = dlsym(library, symbols[i].name);
        if (!*address && symbols[i].required) {
            snprintf(reason, reason_bytes, "%s lacks %s: it is not an NCCL library", api->path,
                     symbols[i].name);
            return false;
        }
    }
    return true;
}

bool bench_nccl_has_windows(const struct bench_nccl_api *api)
{
    return api->ncclMemAlloc && api->ncclMemFree && api->ncclCommWindowRegister &&
           api->ncclCommWindowDeregister;
}
