#include "core/accel/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { P2P_CAPS_NVLINK = 2 /* NVML_P2P_CAPS_INDEX_NVLINK */, P2P_OK = 0 /* NVML_P2P_STATUS_OK */ };

#define SYMBOL(name, is_needed)                                                                              \
    {                                                                                                        \
#name, offsetof(struct gpucoll_nvml, name), is_needed                                                \
    }
static const struct {
    const char *name;
    size_t offset;
    bool needed;
} symbols[] = {
    SYMBOL(nvmlInit_v2, true),
    SYMBOL(nvmlShutdown, true),
    SYMBOL(nvmlSystemGetDriverVersion, true),
    SYMBOL(nvmlDeviceGetHandleByUUID, true),
    SYMBOL(nvmlDeviceGetP2PStatus, true),
    SYMBOL(nvmlDeviceGetNvLinkState, true),
    SYMBOL(nvmlDeviceGetNvLinkRemoteDeviceType, false),
    SYMBOL(nvmlDeviceGetNvLinkRemotePciInfo_v2, true),
    SYMBOL(nvmlDeviceGetNvLinkVersion, true),
    SYMBOL(nvmlDeviceGetCount_v2, true),
    SYMBOL(nvmlDeviceGetHandleByIndex_v2, true),
    SYMBOL(nvmlDeviceGetName, true),
    SYMBOL(nvmlDeviceGetUUID, true),
    SYMBOL(nvmlDeviceGetPciInfo_v3, true),
    SYMBOL(nvmlDeviceGetMemoryInfo, true),
    SYMBOL(nvmlDeviceGetCudaComputeCapability, true),
    SYMBOL(nvmlDeviceGetMaxPcieLinkGeneration, true),
    SYMBOL(nvmlDeviceGetMaxPcieLinkWidth, true),
    SYMBOL(nvmlDeviceGetMultiGpuBoard, true),
    SYMBOL(nvmlDeviceGetBoardId, true),
    SYMBOL(nvmlDeviceGetFieldValues, false),
};

static bool load(struct gpucoll_nvml *nvml)
{
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *address = dlsym(nvml->library, symbols[i].name);
        if (!address && symbols[i].needed) {
            return false;
        }
        memcpy((char *)nvml + symbols[i].offset, &address, sizeof(address));
    }
    return nvml->nvmlInit_v2() == 0;
}

bool gpucoll_nvml_open(struct gpucoll_nvml *nvml)
{
    nvml->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library) {
        return false;
    }
    if (!load(nvml)) {
        dlclose(nvml->library);
        return false;
    }
    return true;
}

void gpucoll_nvml_close(struct gpucoll_nvml *nvml)
{
    (void)nvml->nvmlShutdown();
    dlclose(nvml->library);
}

/* NULL if NVML does not know it. */
static void *find(const struct gpucoll_nvml *nvml, const struct gpucoll_device_id *id)
{
    char text[64];
    size_t used = (size_t)snprintf(text, sizeof(text), "GPU-");
    for (int i = 0; i < 16; i++) {
        bool dash = i == 4 || i == 6 || i == 8 || i == 10;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%02x", dash ? "-" : "", id->uuid[i]);
    }
    void *device = NULL;
    return nvml->nvmlDeviceGetHandleByUUID(text, &device) == 0 ? device : NULL;
}

bool gpucoll_nvml_has_nvlink(const struct gpucoll_device_id *a, const struct gpucoll_device_id *b)
{
    struct gpucoll_nvml nvml;
    if (!gpucoll_nvml_open(&nvml)) {
        return false;
    }
    void *from = find(&nvml, a);
    void *to = find(&nvml, b);
    int status = -1;
    bool linked = from && to && nvml.nvmlDeviceGetP2PStatus(from, to, P2P_CAPS_NVLINK, &status) == 0 &&
                  status == P2P_OK;
    gpucoll_nvml_close(&nvml);
    return linked;
}
