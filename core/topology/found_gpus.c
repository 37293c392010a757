#include <stdio.h>
#include "core/topology/build.h"
#include "core/topology/format.h"
#include "core/topology/found.h"

/* nvmlNvlinkVersion_t counts half versions too: 1.0, 2.0, 2.2, 3.0, 3.1, 4.0, 5.0. */
static unsigned whole_version(unsigned version)
{
    static const unsigned whole[] = {0, 1, 2, 2, 3, 3, 4, 5};
    unsigned newest = sizeof(whole) / sizeof(whole[0]) - 1;
    return version <= newest ? whole[version] : whole[newest] + (version - newest);
}

static struct gpucoll_pci_address pci_address(const struct gpucoll_nvml_pci *pci)
{
    return (struct gpucoll_pci_address){
        .known = true, .domain = pci->domain, .bus = pci->bus, .device = pci->device};
}

static void describe(const struct gpucoll_nvml *nvml, void *device, struct gpucoll_topology_object *gpu)
{
    struct gpucoll_nvml_memory memory;
    struct gpucoll_nvml_pci pci;
    char uuid[96];
    unsigned many = 0;
    unsigned board = 0;
    int major = 0;
    int minor = 0;
    if (nvml->nvmlDeviceGetName(device, gpu->name, sizeof(gpu->name)) != 0) {
        gpu->name[0] = '\0';
    }
    if (nvml->nvmlDeviceGetUUID(device, uuid, sizeof(uuid)) == 0) {
        gpu->has_uuid = gpucoll_uuid_parse(&gpu->uuid, uuid);
    }
    if (nvml->nvmlDeviceGetPciInfo_v3(device, &pci) == 0) {
        gpu->pci = pci_address(&pci);
    }
    if (nvml->nvmlDeviceGetMemoryInfo(device, &memory) == 0) {
        gpu->memory_bytes = memory.total;
    }
    if (nvml->nvmlDeviceGetCudaComputeCapability(device, &major, &minor) == 0) {
        gpu->compute = (unsigned)(major * 10 + minor);
    }
    /* Of the slot, not of the moment: an idle GPU lowers both. */
    if (nvml->nvmlDeviceGetMaxPcieLinkGeneration(device, &gpu->pcie_generation) != 0) {
        gpu->pcie_generation = 0;
    }
    if (nvml->nvmlDeviceGetMaxPcieLinkWidth(device, &gpu->pcie_lanes) != 0) {
        gpu->pcie_lanes = 0;
    }
    if (nvml->nvmlDeviceGetMultiGpuBoard(device, &many) == 0 && many &&
        nvml->nvmlDeviceGetBoardId(device, &board) == 0) {
        snprintf(gpu->board, sizeof(gpu->board), "%x", board);
    }
}

/* Where the link leads; false: to nothing that is known here. */
static bool far_end(const struct gpucoll_topology *found, const struct gpucoll_nvml *nvml, void *device,
                    unsigned link, int *to)
{
    struct gpucoll_nvml_pci remote;
    int type = -1;
    if (nvml->nvmlDeviceGetNvLinkRemoteDeviceType != NULL &&
        nvml->nvmlDeviceGetNvLinkRemoteDeviceType(device, link, &type) != 0) {
        type = -1;
    }
    if (type == GPUCOLL_NVML_REMOTE_SWITCH || type == GPUCOLL_NVML_REMOTE_CPU) {
        *to = type == GPUCOLL_NVML_REMOTE_SWITCH ? GPUCOLL_NVLINK_TO_SWITCH : GPUCOLL_NVLINK_TO_CPU;
        return true;
    }
    if (nvml->nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, &remote) != 0) {
        return false;
    }
    struct gpucoll_pci_address address = pci_address(&remote);
    *to = gpucoll_topology_find_pci(found, &address);
    return *to >= 0;
}

/* Counts one more link of `gpu` to that end. */
static bool count_link(struct gpucoll_topology *found, const struct gpucoll_nvlink *one)
{
    for (int i = 0; i < found->nvlink_count; i++) {
        struct gpucoll_nvlink *nvlink = &found->nvlinks[i];
        if (nvlink->gpu == one->gpu && nvlink->to == one->to) {
            nvlink->links++;
            return true;
        }
    }
    return gpucoll_topology_add_nvlink(found, one);
}

static bool add_nvlinks(struct gpucoll_topology *found, const struct gpucoll_nvml *nvml, void *device,
                        int gpu)
{
    for (unsigned link = 0; link < GPUCOLL_NVML_LINKS; link++) {
        struct gpucoll_nvlink one = {.gpu = gpu, .links = 1};
        unsigned active = 0;
        unsigned version = 0;
        if (nvml->nvmlDeviceGetNvLinkState(device, link, &active) != 0 || !active ||
            nvml->nvmlDeviceGetNvLinkVersion(device, link, &version) != 0 ||
            !far_end(found, nvml, device, link, &one.to)) {
            continue;
        }
        one.version = whole_version(version);
        if (one.version > 0 && !count_link(found, &one)) {
            return false;
        }
    }
    struct gpucoll_nvml_field c2c = {.id = GPUCOLL_NVML_FIELD_C2C_LINKS};
    if (nvml->nvmlDeviceGetFieldValues != NULL && nvml->nvmlDeviceGetFieldValues(device, 1, &c2c) == 0 &&
        c2c.result == 0 && c2c.value.number > 0) {
        return gpucoll_topology_add_nvlink(found, &(struct gpucoll_nvlink){.gpu = gpu,
                                                                           .to = GPUCOLL_NVLINK_TO_CPU,
                                                                           .links = c2c.value.number,
                                                                           .version = GPUCOLL_NVLINK_C2C});
    }
    return true;
}

bool gpucoll_found_gpus(struct gpucoll_topology *found, const struct gpucoll_nvml *nvml)
{
    unsigned count = 0;
    void *device = NULL;
    if (nvml->nvmlDeviceGetCount_v2(&count) != 0) {
        return true;
    }
    for (unsigned i = 0; i < count; i++) {
        struct gpucoll_topology_object gpu;
        if (nvml->nvmlDeviceGetHandleByIndex_v2(i, &device) != 0) {
            continue; /* kept from this process */
        }
        gpucoll_topology_blank(&gpu, GPUCOLL_TOPOLOGY_GPU, -1);
        gpu.id = (int)i;
        describe(nvml, device, &gpu);
        if (gpucoll_topology_add(found, &gpu) < 0) {
            return false;
        }
    }
    /* When all are known, so that links find their ends. */
    int gpus = found->count;
    for (int i = 0; i < gpus; i++) {
        bool is_gpu = found->objects[i].kind == GPUCOLL_TOPOLOGY_GPU;
        if (is_gpu && nvml->nvmlDeviceGetHandleByIndex_v2((unsigned)found->objects[i].id, &device) == 0 &&
            !add_nvlinks(found, nvml, device, i)) {
            return false;
        }
    }
    return true;
}
