#include "tools/gpu_list.h"

#include <stdio.h>
#include "core/accel/nvml.h"

enum { LINKS = 18 /* NVML_NVLINK_MAX_LINKS */, REMOTE_SWITCH = 2 /* NVML_NVLINK_DEVICE_TYPE_SWITCH */ };

/* nvmlGpuTopologyLevel_t, with the names that nvidia-smi gives them. */
static const struct {
    int level;
    const char *name;
} levels[] = {
    {0, "PIX"}, /* two GPUs of one board */
    {10, "PIX"}, {20, "PXB"}, {30, "PHB"}, {40, "NODE"}, {50, "SYS"},
};

static int find_pci(const struct gpu_list *list, const struct gpucoll_nvml_pci *pci)
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

/* The active links of one GPU: into `direct` by the GPU at the other end; returns those that end at a switch.
 */
static int count_links(const struct gpucoll_nvml *nvml, const struct gpu_list *list, void *handle,
                       int *direct)
{
    int to_switch = 0;
    for (unsigned link = 0; link < LINKS; link++) {
        unsigned active = 0;
        int type = 0;
        struct gpucoll_nvml_pci remote;
        if (nvml->nvmlDeviceGetNvLinkState(handle, link, &active) != 0 || !active) {
            continue;
        }
        if (nvml->nvmlDeviceGetNvLinkRemoteDeviceType &&
            nvml->nvmlDeviceGetNvLinkRemoteDeviceType(handle, link, &type) == 0 && type == REMOTE_SWITCH) {
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

static const char *path_between(const struct gpucoll_nvml *nvml, void *a, void *b)
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
    struct gpucoll_nvml nvml;
    void *handles[GPU_LIST_MAX] = {NULL};
    int to_switch[GPU_LIST_MAX] = {0};
    if (!gpucoll_nvml_open(&nvml)) {
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
    gpucoll_nvml_close(&nvml);
}
