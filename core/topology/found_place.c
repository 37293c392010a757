/*
 * The tree of this machine by hwloc: sockets, NUMA nodes, PCI host bridges and switches, and among them the GPUs and NICs that
 * others have found.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* CPU_SET and its like */
#endif
#include <gpucoll_config.h>
#include "core/topology/found.h"

#ifdef HAVE_HWLOC
#include <hwloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/topology/build.h"

struct placer {
    hwloc_topology_t hwloc;
    const struct gpucoll_topology *found;
    hwloc_obj_t *card; /* of each found object: its PCI device; NULL: hwloc does not know it */
    hwloc_obj_t *home; /* the NUMA node, socket or machine that it hangs from */
    int *index;        /* in the tree; -1: not placed yet */
    struct gpucoll_topology *tree;
    hwloc_bitmap_t with_cpus; /* numbers of the NUMA nodes that have CPUs of their own */
    bool short_of_memory;
};

static hwloc_topology_t load(void)
{
    hwloc_topology_t hwloc;
    if (hwloc_topology_init(&hwloc) != 0) {
        return NULL;
    }
    /* The whole machine, also where this process may run on some of its cores only. */
    hwloc_topology_set_flags(hwloc, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    /* PCI only: for devices of the system hwloc would start OpenCL, CUDA and the like in this process. */
    hwloc_topology_set_type_filter(hwloc, HWLOC_OBJ_BRIDGE, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    hwloc_topology_set_type_filter(hwloc, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
#if HWLOC_API_VERSION >= 0x00020100
    /* libpciaccess never gives all its memory back; without it hwloc reads sysfs, which has all that is needed. */
    hwloc_topology_set_components(hwloc, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "pci");
#endif
    if (hwloc_topology_load(hwloc) != 0) {
        hwloc_topology_destroy(hwloc);
        return NULL;
    }
    return hwloc;
}

static void copy_cpus(cpu_set_t *cpus, hwloc_const_bitmap_t from)
{
    unsigned cpu;
    CPU_ZERO(cpus);
    hwloc_bitmap_foreach_begin(cpu, from)
    {
        if (cpu < CPU_SETSIZE) {
            CPU_SET(cpu, cpus);
        }
    }
    hwloc_bitmap_foreach_end();
}

static int number_of(hwloc_obj_t object)
{
    return (int)(object->os_index == HWLOC_UNKNOWN_INDEX ? object->logical_index : object->os_index);
}

static int add(struct placer *placer, const struct gpucoll_topology_object *object)
{
    int index = gpucoll_topology_add(placer->tree, object);
    placer->short_of_memory |= index < 0;
    return index;
}

/* Of NUMA nodes near the same CPUs, those of the lowest rank go first. */
enum { ORDINARY_MEMORY, OTHER_MEMORY, NO_MEMORY, MEMORY_RANKS };

static int memory_rank(hwloc_obj_t numa)
{
    if (numa->attr->numanode.local_memory == 0) {
        return NO_MEMORY;
    }
    /* Others are HBM, GPUMemory, NVM, CXL-DRAM and the like. There is no subtype where hwloc cannot tell. */
    return numa->subtype == NULL || strcmp(numa->subtype, "DRAM") == 0 ? ORDINARY_MEMORY : OTHER_MEMORY;
}

/* hwloc says of each NUMA node which CPUs it is near, also of memory that has none (of a GPU, HBM beside DRAM, behind CXL): several
 * nodes have the same. Here a CPU belongs to one node, and the others have none. Where ranks are equal the lower number goes first:
 * systems count what they allocate from by default before the rest. */
static bool find_numas_with_cpus(struct placer *placer)
{
    hwloc_const_nodeset_t all = hwloc_topology_get_topology_nodeset(placer->hwloc);
    hwloc_bitmap_t taken = hwloc_bitmap_alloc();
    placer->with_cpus = hwloc_bitmap_alloc();
    bool fine = taken != NULL && placer->with_cpus != NULL;
    for (int rank = 0; rank < MEMORY_RANKS; rank++) {
        for (int at = hwloc_bitmap_first(all); at >= 0 && fine; at = hwloc_bitmap_next(all, at)) {
            hwloc_obj_t numa = hwloc_get_numanode_obj_by_os_index(placer->hwloc, (unsigned)at);
            if (numa != NULL && memory_rank(numa) == rank && !hwloc_bitmap_iszero(numa->cpuset) &&
                !hwloc_bitmap_intersects(numa->cpuset, taken)) {
                fine = hwloc_bitmap_or(taken, taken, numa->cpuset) == 0 &&
                       hwloc_bitmap_set(placer->with_cpus, (unsigned)at) == 0;
            }
        }
    }
    hwloc_bitmap_free(taken);
    return fine;
}

static bool has_cpus(const struct placer *placer, hwloc_obj_t numa)
{
    return hwloc_bitmap_isset(placer->with_cpus, numa->os_index);
}

/* The socket that the NUMA node belongs to; NULL: to none, or to several. */
static hwloc_obj_t socket_of(const struct placer *placer, hwloc_obj_t numa)
{
    hwloc_obj_t socket = hwloc_get_ancestor_obj_by_type(placer->hwloc, HWLOC_OBJ_PACKAGE, numa);
    if (socket != NULL || hwloc_bitmap_iszero(numa->cpuset)) {
        return socket;
    }
    while ((socket = hwloc_get_next_obj_by_type(placer->hwloc, HWLOC_OBJ_PACKAGE, socket)) != NULL) {
        if (hwloc_bitmap_isincluded(numa->cpuset, socket->cpuset)) {
            return socket;
        }
    }
    return NULL;
}

/* Where what hangs from `object` (a normal object of hwloc) is put. */
static hwloc_obj_t home_of(const struct placer *placer, hwloc_obj_t object)
{
    hwloc_obj_t numa = NULL;
    hwloc_obj_t found = NULL;
    int nodes = 0;
    while ((numa = hwloc_get_next_obj_by_type(placer->hwloc, HWLOC_OBJ_NUMANODE, numa)) != NULL) {
        /* A node without CPUs is a home to nothing. */
        if (hwloc_bitmap_isset(object->nodeset, numa->os_index) && has_cpus(placer, numa)) {
            found = numa;
            nodes++;
        }
    }
    if (nodes == 1) {
        return found;
    }
    hwloc_obj_t socket = object->type == HWLOC_OBJ_PACKAGE
                             ? object
                             : hwloc_get_ancestor_obj_by_type(placer->hwloc, HWLOC_OBJ_PACKAGE, object);
    return socket != NULL ? socket : hwloc_get_root_obj(placer->hwloc);
}

/* How many found devices that are not functions of one card lie below the bridge; stops at two. */
static int cards_below(const struct placer *placer, hwloc_obj_t bridge)
{
    const struct gpucoll_pci_address *first = NULL;
    for (int i = 0; i < placer->found->count; i++) {
        const struct gpucoll_pci_address *pci = &placer->found->objects[i].pci;
        hwloc_obj_t at = placer->card[i];
        while (at != NULL && at != bridge) {
            at = at->parent;
        }
        if (at == NULL) {
            continue;
        }
        if (first != NULL &&
            (first->domain != pci->domain || first->bus != pci->bus || first->device != pci->device)) {
            return 2;
        }
        first = pci;
    }
    return first != NULL;
}

static void add_devices(struct placer *placer, hwloc_obj_t card, int parent)
{
    for (int i = 0; i < placer->found->count; i++) {
        if (placer->card[i] == card && placer->index[i] < 0) {
            struct gpucoll_topology_object object = placer->found->objects[i];
            object.parent = parent;
            placer->index[i] = add(placer, &object);
        }
    }
}

/* The devices below a bridge. A PCI bridge with several cards below is a switch, or the part of one that leads to them; bridges
 * that only lead on to one card or one bridge are left out. */
static void add_below(struct placer *placer, hwloc_obj_t bridge, int parent)
{
    int ways = 0; /* children that lead to something */
    for (hwloc_obj_t child = bridge->io_first_child; child != NULL; child = child->next_sibling) {
        ways += cards_below(placer, child) > 0;
    }
    if (bridge->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI && ways > 1 &&
        cards_below(placer, bridge) > 1) {
        struct gpucoll_topology_object object;
        gpucoll_topology_blank(&object, GPUCOLL_TOPOLOGY_SWITCH, parent);
        const struct hwloc_pcidev_attr_s *pci = &bridge->attr->bridge.upstream.pci;
        object.pci = (struct gpucoll_pci_address){true, pci->domain, pci->bus, pci->dev, pci->func};
        parent = add(placer, &object);
    }
    for (hwloc_obj_t child = bridge->io_first_child; child != NULL; child = child->next_sibling) {
        if (child->type == HWLOC_OBJ_BRIDGE) {
            add_below(placer, child, parent);
        } else {
            add_devices(placer, child, parent);
        }
    }
}

/* All that hangs directly from a NUMA node, socket or machine. */
static void add_home(struct placer *placer, hwloc_obj_t home, int parent)
{
    hwloc_obj_t bridge = NULL;
    while ((bridge = hwloc_get_next_bridge(placer->hwloc, bridge)) != NULL) {
        if (bridge->attr->bridge.upstream_type != HWLOC_OBJ_BRIDGE_HOST || cards_below(placer, bridge) == 0 ||
            home_of(placer, hwloc_get_non_io_ancestor_obj(placer->hwloc, bridge)) != home) {
            continue;
        }
        struct gpucoll_topology_object object;
        gpucoll_topology_blank(&object, GPUCOLL_TOPOLOGY_BRIDGE, parent);
        add_below(placer, bridge, add(placer, &object));
    }
    for (int i = 0; i < placer->found->count; i++) {
        if (placer->home[i] == home && placer->card[i] != NULL) {
            add_devices(placer, placer->card[i], parent); /* those without a bridge */
        }
    }
}

static void add_numa(struct placer *placer, hwloc_obj_t numa, int parent)
{
    struct gpucoll_topology_object object;
    gpucoll_topology_blank(&object, GPUCOLL_TOPOLOGY_NUMA, parent);
    object.id = number_of(numa);
    object.memory_bytes = numa->attr->numanode.local_memory;
    if (has_cpus(placer, numa)) {
        copy_cpus(&object.cpus, numa->cpuset);
    }
    add_home(placer, numa, add(placer, &object));
}

/* The NUMA nodes of a socket, or with NULL those of none. */
static void add_numas(struct placer *placer, hwloc_obj_t socket, int parent)
{
    hwloc_obj_t numa = NULL;
    while ((numa = hwloc_get_next_obj_by_type(placer->hwloc, HWLOC_OBJ_NUMANODE, numa)) != NULL) {
        if (socket_of(placer, numa) == socket) {
            add_numa(placer, numa, parent);
        }
    }
}

static void add_machine(struct placer *placer)
{
    struct gpucoll_topology_object object;
    gpucoll_topology_blank(&object, GPUCOLL_TOPOLOGY_HOST, -1);
    if (gethostname(object.name, sizeof(object.name) - 1) != 0 || object.name[0] == '\0') {
        strcpy(object.name, "localhost");
    }
    int host = add(placer, &object);
    hwloc_obj_t socket = NULL;
    while ((socket = hwloc_get_next_obj_by_type(placer->hwloc, HWLOC_OBJ_PACKAGE, socket)) != NULL) {
        gpucoll_topology_blank(&object, GPUCOLL_TOPOLOGY_SOCKET, host);
        object.id = number_of(socket);
        copy_cpus(&object.cpus, socket->cpuset);
        int index = add(placer, &object);
        add_numas(placer, socket, index);
        add_home(placer, socket, index);
    }
    add_numas(placer, NULL, host);
    add_home(placer, hwloc_get_root_obj(placer->hwloc), host);
    add_devices(placer, NULL, host);
}

static void find_homes(struct placer *placer)
{
    for (int i = 0; i < placer->found->count; i++) {
        const struct gpucoll_pci_address *pci = &placer->found->objects[i].pci;
        placer->index[i] = -1;
        if (pci->known) {
            placer->card[i] =
                hwloc_get_pcidev_by_busid(placer->hwloc, pci->domain, pci->bus, pci->device, pci->function);
        }
        if (placer->card[i] != NULL) {
            placer->home[i] = home_of(placer, hwloc_get_non_io_ancestor_obj(placer->hwloc, placer->card[i]));
        }
    }
}

static void add_nvlinks(struct placer *placer)
{
    for (int i = 0; i < placer->found->nvlink_count; i++) {
        struct gpucoll_nvlink nvlink = placer->found->nvlinks[i];
        nvlink.gpu = placer->index[nvlink.gpu];
        nvlink.to = nvlink.to < 0 ? nvlink.to : placer->index[nvlink.to];
        placer->short_of_memory |= !gpucoll_topology_add_nvlink(placer->tree, &nvlink);
    }
}

struct gpucoll_topology *gpucoll_found_place(const struct gpucoll_topology *found)
{
    size_t count = (size_t)found->count + 1;
    struct placer placer = {
        .hwloc = load(),
        .found = found,
        .card = calloc(count, sizeof(hwloc_obj_t)),
        .home = calloc(count, sizeof(hwloc_obj_t)),
        .index = calloc(count, sizeof(int)),
        .tree = gpucoll_topology_new(),
    };
    bool fine = placer.hwloc && placer.card && placer.home && placer.index && placer.tree &&
                find_numas_with_cpus(&placer);
    if (fine) {
        find_homes(&placer);
        add_machine(&placer);
        add_nvlinks(&placer);
        fine = !placer.short_of_memory && gpucoll_topology_finish(placer.tree);
    }
    if (!fine) {
        gpucoll_topology_free(placer.tree);
        placer.tree = NULL;
    }
    if (placer.hwloc) {
        hwloc_topology_destroy(placer.hwloc);
    }
    hwloc_bitmap_free(placer.with_cpus);
    free(placer.card);
    free(placer.home);
    free(placer.index);
    return placer.tree;
}

#else

struct gpucoll_topology *gpucoll_found_place(const struct gpucoll_topology *found)
{
    (void)found;
    return NULL;
}

#endif
