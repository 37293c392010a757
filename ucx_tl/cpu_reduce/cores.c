#include "ucx_tl/cpu_reduce/cores.h"

#include <hwloc.h>
#include <stdlib.h>
#include "core/base/quota.h"

struct gpucoll_cores {
    hwloc_topology_t topology;
    hwloc_cpuset_t allowed; /* to the process */
    hwloc_obj_type_t type;  /* cores, or hardware threads where hwloc knows of no cores */
    uint32_t count;
};

/* Only what is asked below: looking for caches and devices takes much longer. */
static bool load(struct gpucoll_cores *cores)
{
    if (hwloc_topology_init(&cores->topology) != 0) {
        return false;
    }
    hwloc_topology_set_all_types_filter(cores->topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_type_filter(cores->topology, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_load(cores->topology) != 0) {
        hwloc_topology_destroy(cores->topology);
        return false;
    }
    return true;
}

struct gpucoll_cores *gpucoll_cores_open(void)
{
    struct gpucoll_cores *cores = calloc(1, sizeof *cores);
    if (cores == NULL || !load(cores)) {
        free(cores);
        return NULL;
    }
    cores->allowed = hwloc_bitmap_alloc();
    if (cores->allowed == NULL ||
        hwloc_get_cpubind(cores->topology, cores->allowed, HWLOC_CPUBIND_PROCESS) != 0) {
        gpucoll_cores_close(cores);
        return NULL;
    }
    cores->type = HWLOC_OBJ_CORE;
    int count = hwloc_get_nbobjs_inside_cpuset_by_type(cores->topology, cores->allowed, HWLOC_OBJ_CORE);
    if (count < 1) {
        cores->type = HWLOC_OBJ_PU;
        count = hwloc_get_nbobjs_inside_cpuset_by_type(cores->topology, cores->allowed, HWLOC_OBJ_PU);
    }
    cores->count = count > 0 ? (uint32_t)count : 1;
    return cores;
}

void gpucoll_cores_close(struct gpucoll_cores *cores)
{
    if (cores != NULL) {
        hwloc_bitmap_free(cores->allowed);
        hwloc_topology_destroy(cores->topology);
        free(cores);
    }
}

struct gpucoll_cores_count gpucoll_cores_count(const struct gpucoll_cores *cores)
{
    struct gpucoll_cores_count count = {.own = 1, .machine = 1, .quota = gpucoll_cpu_quota(NULL, NULL)};
    if (cores != NULL) {
        const int machine = hwloc_get_nbobjs_by_type(cores->topology, cores->type);
        count.own = cores->count;
        count.machine = machine > 0 && (uint32_t)machine > cores->count ? (uint32_t)machine : cores->count;
    }
    return count;
}

/* Of processes that this one does not know, it is supposed that the launcher has spread them evenly over the machine, and that the same control group
 * holds them. Where none is bound, their numbers say whose cores are whose, however few of them know each other. */
struct gpucoll_cores_part gpucoll_cores_part(const struct gpucoll_cores_count *count,
                                             const struct gpucoll_cores_sharers *sharers)
{
    const uint64_t spread = (uint64_t)sharers->processes * count->own;
    const uint32_t even = (uint32_t)((spread + count->machine - 1) / count->machine);
    const uint32_t known = sharers->known > 0 ? sharers->known : 1;
    const uint32_t all = known > even ? known : even;
    const uint32_t processes = all > sharers->processes ? all : sharers->processes;
    const uint32_t time = count->quota > 0 ? count->quota / processes : UINT32_MAX;
    struct gpucoll_cores_part part = {.cores = count->own / all, .first = -1};
    part.threads = part.cores < time ? part.cores : time;
    if (count->own == count->machine && all == sharers->processes && sharers->rank < all) {
        part.first = (int)(sharers->rank * part.cores);
    } else if (all == known) {
        part.first = (int)(sharers->index * part.cores);
    }
    return part;
}

uint64_t gpucoll_cores_name(const struct gpucoll_cores *cores)
{
    uint64_t value = UINT64_C(0xcbf29ce484222325);
    unsigned cpu;
    if (cores != NULL) {
        hwloc_bitmap_foreach_begin(cpu, cores->allowed)
        {
            value = (value ^ cpu) * UINT64_C(0x100000001b3); /* FNV-1a */
        }
        hwloc_bitmap_foreach_end();
    }
    return value | 1;
}

bool gpucoll_cores_bind(const struct gpucoll_cores *cores, uint32_t index)
{
    if (cores == NULL) {
        return false;
    }
    hwloc_obj_t core =
        hwloc_get_obj_inside_cpuset_by_type(cores->topology, cores->allowed, cores->type, index);
    return core != NULL && hwloc_set_cpubind(cores->topology, core->cpuset, HWLOC_CPUBIND_THREAD) == 0;
}
