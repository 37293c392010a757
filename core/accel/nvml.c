#include "core/accel/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* The few things of nvml.h that are used here; the library's interface is kept stable by their version suffixes. */
typedef struct nvml_device *nvml_device;
enum { NVML_OK = 0, NVML_P2P_CAPS_NVLINK = 2, NVML_P2P_OK = 0 };

struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_uuid)(const char *uuid, nvml_device *device);
    int (*p2p_status)(nvml_device a, nvml_device b, int what, int *status);
};

static bool load(void *library, struct nvml *nvml)
{
    const struct {
        const char *name;
        void *field;
    } symbols[] = {
        {"nvmlInit_v2", &nvml->init},
        {"nvmlShutdown", &nvml->shutdown},
        {"nvmlDeviceGetHandleByUUID", &nvml->by_uuid},
        {"nvmlDeviceGetP2PStatus", &nvml->p2p_status},
    };
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *address = dlsym(library, symbols[i].name);
        if (!address) {
            return false;
        }
        memcpy(symbols[i].field, &address, sizeof(address));
    }
    return true;
}

static nvml_device find(const struct nvml *nvml, const struct gpucoll_device_id *id)
{
    char text[64];
    size_t used = (size_t)snprintf(text, sizeof(text), "GPU-");
    for (int i = 0; i < 16; i++) {
        bool dash = i == 4 || i == 6 || i == 8 || i == 10;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%02x", dash ? "-" : "", id->uuid[i]);
    }
    nvml_device device = NULL;
    return nvml->by_uuid(text, &device) == NVML_OK ? device : NULL;
}

bool gpucoll_nvml_has_nvlink(const struct gpucoll_device_id *a, const struct gpucoll_device_id *b)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    struct nvml nvml;
    bool linked = false;
    if (library && load(library, &nvml) && nvml.init() == NVML_OK) {
        nvml_device from = find(&nvml, a);
        nvml_device to = find(&nvml, b);
        int status = -1;
        linked = from && to && nvml.p2p_status(from, to, NVML_P2P_CAPS_NVLINK, &status) == NVML_OK && status == NVML_P2P_OK;
        (void)nvml.shutdown();
    }
    if (library) {
        dlclose(library);
    }
    return linked;
}
