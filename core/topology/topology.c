#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* CPU_SET and its like */
#endif
/*
 * The tree itself: making it, and finding one's way in it.
 */
#include "core/topology/topology.h"

#include <stdlib.h>
#include <string.h>
#include "core/topology/build.h"

struct gpucoll_topology *gpucoll_topology_new(void)
{
    return calloc(1, sizeof(struct gpucoll_topology));
}

void gpucoll_topology_free(struct gpucoll_topology *topology)
{
    if (topology != NULL) {
        free(topology->objects);
        free(topology->nvlinks);
        free(topology->gpus);
        free(topology);
    }
}

/* Room for one more of `count` items: whenever the count is a power of two, it is doubled. */
static bool grow(void **items, int count, size_t item_bytes)
{
    if (count & (count - 1)) {
        return true;
    }
    void *more = realloc(*items, (count ? 2 * (size_t)count : 1) * item_bytes);
    if (more != NULL) {
        *items = more;
    }
    return more != NULL;
}

int gpucoll_topology_add(struct gpucoll_topology *topology, const struct gpucoll_topology_object *object)
{
    if (!grow((void **)&topology->objects, topology->count, sizeof(*object))) {
        return -1;
    }
    topology->objects[topology->count] = *object;
    return topology->count++;
}

bool gpucoll_topology_add_nvlink(struct gpucoll_topology *topology, const struct gpucoll_nvlink *nvlink)
{
    if (!grow((void **)&topology->nvlinks, topology->nvlink_count, sizeof(*nvlink))) {
        return false;
    }
    topology->nvlinks[topology->nvlink_count++] = *nvlink;
    return true;
}

bool gpucoll_topology_finish(struct gpucoll_topology *topology)
{
    topology->gpus = calloc((size_t)topology->count + 1, sizeof(*topology->gpus));
    int first = 0; /* of the host, among the GPUs */
    for (int i = 0; i < topology->count && topology->gpus != NULL; i++) {
        const struct gpucoll_topology_object *object = &topology->objects[i];
        int place = topology->gpu_count;
        if (object->kind == GPUCOLL_TOPOLOGY_HOST) {
            first = place;
        }
        if (object->kind != GPUCOLL_TOPOLOGY_GPU) {
            continue;
        }
        while (place > first && topology->objects[topology->gpus[place - 1]].id > object->id) {
            topology->gpus[place] = topology->gpus[place - 1];
            place--;
        }
        topology->gpus[place] = i;
        topology->gpu_count++;
    }
    return topology->gpus != NULL;
}

void gpucoll_topology_blank(struct gpucoll_topology_object *object, enum gpucoll_topology_kind kind,
                            int parent)
{
    memset(object, 0, sizeof(*object));
    object->kind = kind;
    object->parent = parent;
    object->id = -1;
    object->up = true;
}

bool gpucoll_pci_same(const struct gpucoll_pci_address *a, const struct gpucoll_pci_address *b)
{
    return a->known && b->known && a->domain == b->domain && a->bus == b->bus && a->device == b->device &&
           a->function == b->function;
}

gpucoll_status gpucoll_topology_open(const struct gpucoll_config *config, const struct gpucoll_log *log,
                                     struct gpucoll_topology **topology)
{
    if (config->topology_file[0] != '\0') {
        return gpucoll_topology_read(config->topology_file, log, topology);
    }
    return gpucoll_topology_discover(log, topology);
}

int gpucoll_topology_host(const struct gpucoll_topology *topology, int which)
{
    for (int i = 0; i < topology->count; i++) {
        if (topology->objects[i].kind == GPUCOLL_TOPOLOGY_HOST && which-- == 0) {
            return i;
        }
    }
    return -1;
}

int gpucoll_topology_above(const struct gpucoll_topology *topology, int object,
                           enum gpucoll_topology_kind kind)
{
    while (object >= 0 && topology->objects[object].kind != kind) {
        object = topology->objects[object].parent;
    }
    return object;
}

int gpucoll_topology_gpu(const struct gpucoll_topology *topology, int host, int which)
{
    for (int i = 0; i < topology->gpu_count; i++) {
        int gpu = topology->gpus[i];
        if ((host < 0 || gpucoll_topology_above(topology, gpu, GPUCOLL_TOPOLOGY_HOST) == host) &&
            which-- == 0) {
            return gpu;
        }
    }
    return -1;
}

int gpucoll_topology_find_gpu(const struct gpucoll_topology *topology, const struct gpucoll_device_id *id)
{
    for (int i = 0; i < topology->count; i++) {
        const struct gpucoll_topology_object *object = &topology->objects[i];
        if (object->kind == GPUCOLL_TOPOLOGY_GPU && object->has_uuid &&
            memcmp(&object->uuid, id, sizeof(*id)) == 0) {
            return i;
        }
    }
    return -1;
}

int gpucoll_topology_find_pci(const struct gpucoll_topology *topology,
                              const struct gpucoll_pci_address *address)
{
    for (int i = 0; i < topology->count; i++) {
        if (gpucoll_pci_same(&topology->objects[i].pci, address)) {
            return i;
        }
    }
    return -1;
}

bool gpucoll_topology_same_host(const struct gpucoll_topology *topology, int a, int b)
{
    return gpucoll_topology_above(topology, a, GPUCOLL_TOPOLOGY_HOST) ==
           gpucoll_topology_above(topology, b, GPUCOLL_TOPOLOGY_HOST);
}

/* All CPUs that the tree names below `top`. */
static void add_cpus(const struct gpucoll_topology *topology, int top, cpu_set_t *cpus)
{
    for (int i = top; i < topology->count; i++) {
        if (gpucoll_topology_above(topology, i, GPUCOLL_TOPOLOGY_HOST) == top) {
            CPU_OR(cpus, cpus, &topology->objects[i].cpus);
        }
    }
}

void gpucoll_topology_cpus(const struct gpucoll_topology *topology, int object, cpu_set_t *cpus)
{
    CPU_ZERO(cpus);
    while (CPU_COUNT(cpus) == 0 && object >= 0) {
        *cpus = topology->objects[object].cpus;
        if (topology->objects[object].kind == GPUCOLL_TOPOLOGY_HOST) {
            add_cpus(topology, object, cpus);
        }
        object = topology->objects[object].parent;
    }
}

/* The only NUMA node below `top`, the host or socket that an object hangs from directly; -1: none, or several. */
static int only_numa_below(const struct gpucoll_topology *topology, int top)
{
    int found = -1;
    for (int i = top + 1; i < topology->count; i++) {
        const struct gpucoll_topology_object *object = &topology->objects[i];
        if (object->kind != GPUCOLL_TOPOLOGY_NUMA || CPU_COUNT(&object->cpus) == 0 ||
            gpucoll_topology_above(topology, i, topology->objects[top].kind) != top) {
            continue;
        }
        if (found >= 0) {
            return -1;
        }
        found = i;
    }
    return found;
}

int gpucoll_topology_numa_id(const struct gpucoll_topology *topology, int object)
{
    int numa = gpucoll_topology_above(topology, object, GPUCOLL_TOPOLOGY_NUMA);
    for (int at = object; at >= 0 && numa < 0; at = topology->objects[at].parent) {
        enum gpucoll_topology_kind kind = topology->objects[at].kind;
        if (kind == GPUCOLL_TOPOLOGY_SOCKET || kind == GPUCOLL_TOPOLOGY_HOST) {
            numa = only_numa_below(topology, at);
        }
    }
    return numa < 0 ? -1 : topology->objects[numa].id;
}
