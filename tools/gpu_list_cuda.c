#include "tools/gpu_list.h"

#include <stdio.h>
#include <string.h>
#include "tools/cuda_symbols.h"

/* Declared by ourselves, so that builds without cuda.h show GPUs too. Nothing here creates a context. */
struct driver {
    int (*cuDriverGetVersion)(int *);
    int (*cuDeviceGetCount)(int *);
    int (*cuDeviceGet)(int *, int);
    int (*cuDeviceGetName)(char *, int, int);
    int (*cuDeviceGetPCIBusId)(char *, int, int);
    int (*cuDeviceTotalMem_v2)(size_t *, int);
    int (*cuDeviceGetAttribute)(int *, int, int);
    int (*cuDeviceCanAccessPeer)(int *, int, int);
};

/* CUdevice_attribute */
enum { COMPUTE_MAJOR = 75, COMPUTE_MINOR = 76, MPS_ENABLED = 133 };

#define SYMBOL(name) CUDA_SYMBOL(struct driver, name)
static const struct cuda_symbol symbols[] = {
    SYMBOL(cuDriverGetVersion),   SYMBOL(cuDeviceGetCount),      SYMBOL(cuDeviceGet),
    SYMBOL(cuDeviceGetName),      SYMBOL(cuDeviceGetPCIBusId),   SYMBOL(cuDeviceTotalMem_v2),
    SYMBOL(cuDeviceGetAttribute), SYMBOL(cuDeviceCanAccessPeer),
};

/* False if the driver does not answer for it. */
static bool describe(const struct driver *cuda, int ordinal, struct gpu *gpu)
{
    int device = 0;
    size_t bytes = 0;
    bool fine = cuda->cuDeviceGet(&device, ordinal) == 0 &&
                cuda->cuDeviceGetName(gpu->name, sizeof(gpu->name), device) == 0 &&
                cuda->cuDeviceGetPCIBusId(gpu->pci, sizeof(gpu->pci), device) == 0 &&
                cuda->cuDeviceTotalMem_v2(&bytes, device) == 0 &&
                cuda->cuDeviceGetAttribute(&gpu->major, COMPUTE_MAJOR, device) == 0 &&
                cuda->cuDeviceGetAttribute(&gpu->minor, COMPUTE_MINOR, device) == 0;
    int mps = 0;
    gpu->mib = bytes >> 20;
    gpu->mps = cuda->cuDeviceGetAttribute(&mps, MPS_ENABLED, device) == 0 &&
               mps != 0; /* older drivers do not know it */
    return fine;
}

bool gpu_list_from_cuda(struct gpu_list *list, char *reason, size_t reason_bytes)
{
    struct driver cuda;
    memset(list, 0, sizeof(*list));
    if (!cuda_load(&cuda, symbols, sizeof(symbols) / sizeof(symbols[0]), reason, reason_bytes)) {
        return false;
    }
    cuda.cuDriverGetVersion(&list->cuda_version);
    if (cuda.cuDeviceGetCount(&list->count) != 0 || list->count == 0) {
        snprintf(reason, reason_bytes, "the CUDA driver shows no GPU (is CUDA_VISIBLE_DEVICES empty?)");
        return false;
    }
    list->count = list->count < GPU_LIST_MAX ? list->count : GPU_LIST_MAX;
    for (int i = 0; i < list->count; i++) {
        if (!describe(&cuda, i, &list->gpus[i])) {
            snprintf(reason, reason_bytes, "the CUDA driver does not answer for GPU %d", i);
            return false;
        }
    }
    for (int i = 0; i < list->count; i++) {
        for (int j = 0; j < list->count; j++) {
            int reaches = i == j;
            int from = 0;
            int to = 0;
            if (i != j && cuda.cuDeviceGet(&from, i) == 0 && cuda.cuDeviceGet(&to, j) == 0) {
                cuda.cuDeviceCanAccessPeer(&reaches, from, to);
            }
            list->gpus[i].reaches[j] = reaches != 0;
        }
    }
    return true;
}
