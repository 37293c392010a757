#include <gpucoll_config.h>
#include "core/topology/near_memory.h"

#ifdef HAVE_HWLOC
#include <errno.h>
#include <hwloc.h>

/* NUMA nodes alone, which hwloc always keeps: looking for caches and devices takes much longer. */
static bool load(hwloc_topology_t *hwloc)
{
    if (hwloc_topology_init(hwloc) != 0) {
        return false;
    }
    hwloc_topology_set_all_types_filter(*hwloc, HWLOC_TYPE_FILTER_KEEP_NONE);
    if (hwloc_topology_load(*hwloc) != 0) {
        hwloc_topology_destroy(*hwloc);
        return false;
    }
    return true;
}

static bool has_nodes_to_choose_from(void)
{
    hwloc_topology_t hwloc;
    if (!load(&hwloc)) {
        return false;
    }
    bool several = hwloc_get_nbobjs_by_type(hwloc, HWLOC_OBJ_NUMANODE) > 1;
    hwloc_topology_destroy(hwloc);
    return several;
}

const char *gpucoll_near_bind(int numa, void *map, size_t bytes)
{
    hwloc_topology_t hwloc;
    if (!load(&hwloc)) {
        return "hwloc does not load";
    }
    const char *reason = "the process may not use memory of that node";
    hwloc_obj_t node = hwloc_get_numanode_obj_by_os_index(hwloc, (unsigned)numa);
    /* Without HWLOC_MEMBIND_STRICT it is a preference: a node that is full ends nothing. */
    if (node != NULL) {
        bool bound = hwloc_set_area_membind(hwloc, map, bytes, node->nodeset, HWLOC_MEMBIND_BIND,
                                            HWLOC_MEMBIND_BYNODESET) == 0;
        reason = bound            ? NULL
                 : errno == EPERM ? "the system forbids binding memory, as containers do without CAP_SYS_NICE"
                                  : "the system refuses to bind memory";
    }
    hwloc_topology_destroy(hwloc);
    return reason;
}
#else
static bool has_nodes_to_choose_from(void)
{
    return false;
}

const char *gpucoll_near_bind(int numa, void *map, size_t bytes)
{
    (void)numa;
    (void)map;
    (void)bytes;
    return "this build is without hwloc";
}
#endif

static int numa_of(const struct gpucoll_topology *topology, const struct gpucoll_device_id *id)
{
    int gpu = gpucoll_topology_find_gpu(topology, id);
    return gpu < 0 ? -1 : gpucoll_topology_numa_id(topology, gpu);
}

int gpucoll_near_numa(struct gpucoll_device *device)
{
    struct gpucoll_device_id id;
    struct gpucoll_topology *here;
    device->accel->ops->device_id(device, &id);
    if (device->accel->topology != NULL) {
        return numa_of(device->accel->topology, &id);
    }
    /* What is not known is left to the system, as it is without hwloc. */
    if (!has_nodes_to_choose_from() || gpucoll_topology_discover(&gpucoll_log_silent, &here) != GPUCOLL_OK) {
        return -1;
    }
    int numa = numa_of(here, &id);
    gpucoll_topology_free(here);
    return numa;
}
