#include "tools/gpu_list.h"

#include <hwloc.h>
#include <stdio.h>
#include <string.h>

static hwloc_topology_t load(void)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0) {
        return NULL;
    }
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (hwloc_topology_load(topology) != 0) {
        hwloc_topology_destroy(topology);
        return NULL;
    }
    return topology;
}

/* Steps up from `from` to the first object that is also above `other`. */
static int distance(hwloc_obj_t from, hwloc_obj_t other)
{
    int steps = 0;
    for (hwloc_obj_t above = from; above; above = above->parent, steps++) {
        for (hwloc_obj_t at = other; at; at = at->parent) {
            if (at == above) {
                return steps;
            }
        }
    }
    return steps;
}

static bool is_nic(hwloc_obj_t device)
{
    if (device->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS) {
        return true;
    }
    return device->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK &&
           device->parent->type == HWLOC_OBJ_PCI_DEVICE;
}

/* The NICs with the fewest steps to the GPU, InfiniBand ports and Ethernet interfaces alike. */
static void find_nics(hwloc_topology_t topology, hwloc_obj_t card, char *text, size_t bytes)
{
    int nearest = -1;
    hwloc_obj_t device = NULL;
    text[0] = '\0';
    while ((device = hwloc_get_next_osdev(topology, device)) != NULL) {
        if (is_nic(device) && (nearest < 0 || distance(card, device) < nearest)) {
            nearest = distance(card, device);
        }
    }
    while ((device = hwloc_get_next_osdev(topology, device)) != NULL) {
        if (is_nic(device) && distance(card, device) == nearest) {
            size_t used = strlen(text);
            snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", device->name);
        }
    }
}

void gpu_list_add_hwloc(struct gpu_list *list)
{
    hwloc_topology_t topology = load();
    for (int i = 0; i < list->count && topology; i++) {
        struct gpu *gpu = &list->gpus[i];
        hwloc_obj_t card = hwloc_get_pcidev_by_busidstring(topology, gpu->pci);
        if (!card) {
            continue;
        }
        hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology, card);
        hwloc_bitmap_list_snprintf(gpu->cores, sizeof(gpu->cores), near->cpuset);
        gpu->numa_node = hwloc_bitmap_weight(near->nodeset) == 1 ? hwloc_bitmap_first(near->nodeset) : -1;
        find_nics(topology, card, gpu->nics, sizeof(gpu->nics));
    }
    if (topology) {
        hwloc_topology_destroy(topology);
    }
}
