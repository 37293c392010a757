#include "bench/nccl_api.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/measure.h"

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

/* Where Python's packages keep it; in front of each the value of an environment variable, where one is named. The dynamic
 * linker's own places are tried before these. */
static const struct {
    const char *variable;
    const char *pattern;
} places[] = {
    {"VIRTUAL_ENV", "/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2"},
    {"CONDA_PREFIX", "/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2"},
    {"CONDA_PREFIX", "/lib/libnccl.so.2"},
    {"PYTHONPATH", "/nvidia/nccl/lib/libnccl.so.2"},
    {"HOME", "/.local/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2"},
    {NULL, "/usr/local/lib/python3*/dist-packages/nvidia/nccl/lib/libnccl.so.2"},
    {NULL, "/usr/local/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2"},
    {NULL, "/usr/lib/python3*/dist-packages/nvidia/nccl/lib/libnccl.so.2"},
    {NULL, "/usr/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2"},
    {NULL, "/opt/*/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2"},
    {NULL, "/usr/local/cuda/lib64/libnccl.so.2"},
};

static void *load(struct bench_nccl_api *api, const char *path)
{
    snprintf(api->path, sizeof(api->path), "%s", path);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *load_from(struct bench_nccl_api *api, const char *prefix, const char *pattern)
{
    char text[1024];
    glob_t found;
    void *library = NULL;
    snprintf(text, sizeof(text), "%s%s", prefix, pattern);
    if (glob(text, 0, NULL, &found) != 0)
        return NULL;
    for (size_t i = 0; i < found.gl_pathc && !library; i++)
        library = load(api, found.gl_pathv[i]);
    globfree(&found);
    return library;
}

static void *find(struct bench_nccl_api *api)
{
    void *library = load(api, "libnccl.so.2");
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && !library; i++) {
        const char *prefix = places[i].variable ? getenv(places[i].variable) : "";
        if (prefix)
            library = load_from(api, prefix, places[i].pattern);
    }
    return library;
}

bool bench_nccl_load(struct bench_nccl_api *api, const char *path, char *reason, size_t reason_bytes)
{
    /* NVLink multicast (NVLS) can take a shared host's GPUs out of service when a virtual machine uses it: it is used only where
     * the user has asked for it. The setting in force is in the report's context. */
    setenv("NCCL_NVLS_ENABLE", "0", 0);
    void *library = strcmp(path, "auto") == 0 ? find(api) : load(api, path);
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
