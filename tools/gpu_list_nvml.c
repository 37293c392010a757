#include "tools/gpu_list.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Declared by ourselves from NVML's public interface. Handles are pointers, results are 0 for success. */
struct pci_info {
    char legacy[16];
    unsigned domain;
    unsigned bus;
    unsigned device;
    unsigned device_id;
    unsigned subsystem_id;
    char id[32];
};

struct nvml {
    int (*nvmlInit_v2)(void);
    int (*nvmlShutdown)(void);
    int (*nvmlSystemGetDriverVersion)(char *, unsigned);
    int (*nvmlDeviceGetHandleByPciBusId_v2)(const char *, void **);
    int (*nvmlDeviceGetNvLinkState)(void *, unsigned, unsigned *);
    int (*nvmlDeviceGetNvLinkRemoteDeviceType)(void *, unsigned, int *);
    int (*nvmlDeviceGetNvLinkRemotePciInfo_v2)(void *, unsigned, struct pci_info *);
    int (*nvmlDeviceGetTopologyCommonAncestor)(void *, void *, int *);
};

#define SYMBOL(name) {#name, offsetof(struct nvml, name)}
static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
    SYMBOL(nvmlInit_v2),
    SYMBOL(nvmlShutdown),
    SYMBOL(nvmlSystemGetDriverVersion),
    SYMBOL(nvmlDeviceGetHandleByPciBusId_v2),
    SYMBOL(nvmlDeviceGetNvLinkState),
    SYMBOL(nvmlDeviceGetNvLinkRemoteDeviceType),
    SYMBOL(nvmlDeviceGetNvLinkRemotePciInfo_v2),
    SYMBOL(nvmlDeviceGetTopologyCommonAncestor),
};

enum { LINKS = 18 /* NVML_NVLINK_MAX_LINKS */, REMOTE_SWITCH = 2 /* NVML_NVLINK_DEVICE_TYPE_SWITCH */ };

/* nvmlGpuTopologyLevel_t, with the names that nvidia-smi gives them. */
static const struct {
    int level;
    const char *name;
} levels[] = {
    {0, "PIX"}, /* two GPUs of one board */
    {10, "PIX"}, {20, "PXB"}, {30, "PHB"}, {40, "NODE"}, {50, "SYS"},
};

static bool load(struct nvml *nvml)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]) && library; i++) {
        void *address = dlsym(library, symbols[i].name);
        if (!address) {
            return false;
        }
        memcpy((char *)nvml + symbols[i].offset, &address, sizeof(address));
    }
    return library && nvml->nvmlInit_v2() == 0;
}

static int find_pci(const struct gpu_list *list, const struct pci_info *pci)
{
    for (int i = 0; i < list->count; i++) {
        unsigned domain;
        unsigned bus;
        unsigned device;
        if (sscanf(list->gpus[i].pci, "%x:%x:%x", &domain, &bus, &device) == 3 && domain == pci->domain &&
            bus == pci->bus && device == pci->device) {
            return i;
        }
    }
    return -1;
}

/* The active links of one GPU: into `direct` by the GPU at the other end; returns those that end at a switch. */
static int count_links(const struct nvml *nvml, const struct gpu_list *list, void *handle, int *direct)
{
    int to_switch = 0;
    for (unsigned link = 0; link < LINKS; link++) {
        unsigned active = 0;
        int type = 0;
        struct pci_info remote;
        if (nvml->nvmlDeviceGetNvLinkState(handle, link, &active) != 0 || !active) {
            continue;
        }
        if (nvml->nvmlDeviceGetNvLinkRemoteDeviceType(handle, link, &type) == 0 && type == REMOTE_SWITCH) {
            to_switch++;
        } else if (nvml->nvmlDeviceGetNvLinkRemotePciInfo_v2(handle, link, &remote) == 0) {
            int index = find_pci(list, &remote);
            if (index >= 0) {
                direct[index]++;
            }
        }
    }
    return to_switch;
}

static const char *path_between(const struct nvml *nvml, void *a, void *b)
{
    int level = -1;
    if (nvml->nvmlDeviceGetTopologyCommonAncestor(a, b, &level) != 0) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        if (levels[i].level == level) {
            return levels[i].name;
        }
    }
    return NULL;
}

void gpu_list_add_nvml(struct gpu_list *list)
{
    struct nvml nvml;
    void *handles[GPU_LIST_MAX] = {NULL};
    int to_switch[GPU_LIST_MAX] = {0};
    if (!load(&nvml)) {
        return;
    }
    nvml.nvmlSystemGetDriverVersion(list->driver, sizeof(list->driver));
    for (int i = 0; i < list->count; i++) {
        if (nvml.nvmlDeviceGetHandleByPciBusId_v2(list->gpus[i].pci, &handles[i]) == 0) {
            to_switch[i] = count_links(&nvml, list, handles[i], list->gpus[i].nvlinks);
        }
    }
    for (int i = 0; i < list->count; i++) {
        for (int j = 0; j < list->count; j++) {
            if (i == j || !handles[i] || !handles[j]) {
                continue;
            }
            list->gpus[i].nvlinks[j] += to_switch[i] < to_switch[j] ? to_switch[i] : to_switch[j];
            list->gpus[i].path[j] = path_between(&nvml, handles[i], handles[j]);
        }
    }
    nvml.nvmlShutdown();
}
