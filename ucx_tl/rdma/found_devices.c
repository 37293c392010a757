/*
 * The network devices that UCX can use, by UCX's lower half (uct), and the GPU that this process uses or is likely to use.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* CPU_SET and its like */
#endif
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ucx_tl/rdma/devices.h"

/* Those would start a GPU's library, and know no network. */
static bool of_gpus(const char *component)
{
    static const char *const names[] = {"cuda", "gdr", "rocm", "ze"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strncmp(component, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

static void add(struct gpucoll_rdma_devices *devices, const uct_tl_resource_desc_t *resource, bool gpu_memory)
{
    int i = 0;
    while (i < devices->count && strcmp(devices->device[i].name, resource->dev_name) != 0) {
        i++;
    }
    if (i == GPUCOLL_RDMA_DEVICES) {
        return;
    }
    struct gpucoll_rdma_device *device = &devices->device[i];
    if (i == devices->count) {
        devices->count++;
        memset(device, 0, sizeof *device);
        snprintf(device->name, sizeof device->name, "%s", resource->dev_name);
        device->tcp = true;
        device->nic = -1;
    }
    size_t used = strlen(device->transports);
    snprintf(device->transports + used, sizeof device->transports - used, "%s%s", used > 0 ? " " : "",
             resource->tl_name);
    device->tcp = device->tcp && strcmp(resource->tl_name, "tcp") == 0;
    device->gpu_memory = device->gpu_memory || gpu_memory;
}

static void add_domain(const struct gpucoll_ucx *ucx, uct_component_h component, const char *name,
                       struct gpucoll_rdma_devices *devices)
{
    uct_md_config_t *config;
    uct_tl_resource_desc_t *resources;
    uct_md_h domain;
    uct_md_attr_t attr;
    unsigned count;
    if (ucx->uct_md_config_read(component, NULL, NULL, &config) != UCS_OK) {
        return;
    }
    ucs_status_t status = ucx->uct_md_open(component, name, config, &domain);
    ucx->uct_config_release(config);
    if (status != UCS_OK) {
        return;
    }
    const bool gpu_memory = ucx->uct_md_query(domain, &attr) == UCS_OK &&
                            (attr.cap.reg_mem_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
    if (ucx->uct_md_query_tl_resources(domain, &resources, &count) == UCS_OK) {
        for (unsigned i = 0; i < count; i++) {
            if (resources[i].dev_type == UCT_DEVICE_TYPE_NET) {
                add(devices, &resources[i], gpu_memory);
            }
        }
        ucx->uct_release_tl_resource_list(resources);
    }
    ucx->uct_md_close(domain);
}

static void add_component(const struct gpucoll_ucx *ucx, uct_component_h component,
                          struct gpucoll_rdma_devices *devices)
{
    uct_component_attr_t attr = {.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME |
                                               UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT};
    if (ucx->uct_component_query(component, &attr) != UCS_OK || attr.md_resource_count == 0) {
        return;
    }
    devices->cuda_ipc = devices->cuda_ipc || strcmp(attr.name, "cuda_ipc") == 0;
    if (of_gpus(attr.name)) {
        return;
    }
    uct_md_resource_desc_t *domains = calloc(attr.md_resource_count, sizeof *domains);
    if (domains != NULL) {
        uct_component_attr_t more = {.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES,
                                     .md_resources = domains};
        if (ucx->uct_component_query(component, &more) == UCS_OK) {
            for (unsigned i = 0; i < attr.md_resource_count; i++) {
                add_domain(ucx, component, domains[i].md_name, devices);
            }
        }
        free(domains);
    }
}

static void list_devices(const struct gpucoll_ucx *ucx, struct gpucoll_rdma_devices *devices)
{
    uct_component_h *components;
    unsigned count;
    if (ucx->uct_query_components(&components, &count) == UCS_OK) {
        for (unsigned i = 0; i < count; i++) {
            add_component(ucx, components[i], devices);
        }
        ucx->uct_release_component_list(components);
    }
}

/* The `which`-th number of a list such as "2,3" of CUDA_VISIBLE_DEVICES, round and round; -1: the list is not of numbers. */
static int numbered(const char *list, int which)
{
    int count = 1;
    for (const char *at = list; *at != '\0'; at++) {
        if (!isdigit((unsigned char)*at) && *at != ',') {
            return -1;
        }
        count += *at == ',';
    }
    for (which %= count; which > 0; which--) {
        list = strchr(list, ',') + 1;
    }
    return isdigit((unsigned char)*list) ? atoi(list) : -1;
}

/* The GPU that is usual for a rank: of those it may see, the one of its number on the host. The application has perhaps not chosen one
 * yet when the network is set up; if it takes another, its data goes by a NIC that is farther. */
static int likely_gpu(const struct gpucoll_topology *topology, int rank)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int host = gpucoll_topology_host(topology, 0);
    int count = 0;
    while (gpucoll_topology_gpu(topology, host, count) >= 0) {
        count++;
    }
    if (count == 0 || rank < 0) {
        return -1;
    }
    int which = visible != NULL && visible[0] != '\0' ? numbered(visible, rank) : rank % count;
    return gpucoll_topology_gpu(topology, host, which);
}

/* A slice of a GPU (MIG) is not in the topology by the name that the driver gives it. */
int gpucoll_rdma_gpu(const struct gpucoll_topology *topology, const struct gpucoll_net_place *place)
{
    const int used = place->gpu != NULL ? gpucoll_topology_find_gpu(topology, place->gpu) : -1;
    return used >= 0 ? used : likely_gpu(topology, place->local_rank);
}

static void say_gpu(const struct gpucoll_rdma_devices *devices, const struct gpucoll_net_place *place,
                    const struct gpucoll_log *log)
{
    const struct gpucoll_topology_object *gpu = &devices->topology->objects[devices->gpu];
    const bool used =
        place->gpu != NULL && gpu->has_uuid && memcmp(&gpu->uuid, place->gpu, sizeof *place->gpu) == 0;
    gpucoll_log(log, GPUCOLL_LOG_SETUP, "network devices are to be near GPU %d, %s", gpu->id,
                used ? "which this process uses" : "as is usual for a process of this number on the host");
}

gpucoll_status gpucoll_rdma_devices_open(const struct gpucoll_ucx *ucx, const struct gpucoll_config *config,
                                         const struct gpucoll_log *log, const struct gpucoll_net_place *place,
                                         struct gpucoll_rdma_devices *devices)
{
    memset(devices, 0, sizeof *devices);
    devices->gpu = -1;
    list_devices(ucx, devices);
    /* Not that of coll_gpucoll_topology_file: UCX is to use what is here. A build without hwloc knows none, which is no error here. */
    if (gpucoll_topology_discover(&gpucoll_log_silent, &devices->topology) == GPUCOLL_OK) {
        devices->gpu = gpucoll_rdma_gpu(devices->topology, place);
    } else {
        devices->topology = NULL;
        gpucoll_log(log, GPUCOLL_LOG_SETUP,
                    "the topology is not known: network devices are chosen by their names");
    }
    if (devices->gpu >= 0) {
        say_gpu(devices, place, log);
    }
    return gpucoll_rdma_choose(config, log, devices);
}

void gpucoll_rdma_devices_close(struct gpucoll_rdma_devices *devices)
{
    gpucoll_topology_free(devices->topology);
    devices->topology = NULL;
}
