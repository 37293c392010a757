/*
 * Which NICs a GPU's traffic to other hosts should take.
 */
#include "core/topology/topology.h"

#include <stddef.h>

/* By rank: the lower, the better. Negative: never. */
static const struct {
    const char *name;
    int rank;
} kinds[] = {
    [GPUCOLL_NIC_INFINIBAND] = {"infiniband", 0}, [GPUCOLL_NIC_ROCE] = {"roce", 0},
    [GPUCOLL_NIC_ETHERNET] = {"ethernet", 1},     [GPUCOLL_NIC_VIRTUAL] = {"virtual", 2},
    [GPUCOLL_NIC_BRIDGE] = {"bridge", -1},        [GPUCOLL_NIC_LOOPBACK] = {"loopback", -1},
};

const char *gpucoll_nic_kind_name(enum gpucoll_nic_kind kind)
{
    return (size_t)kind < sizeof(kinds) / sizeof(kinds[0]) ? kinds[kind].name : NULL;
}

/* Below 0: `a` is the better NIC for the GPU; 0: both are as good. */
static int compare(const struct gpucoll_topology *topology, int gpu, int a, int b)
{
    const struct gpucoll_topology_object *one = &topology->objects[a];
    const struct gpucoll_topology_object *other = &topology->objects[b];
    if (kinds[one->nic].rank != kinds[other->nic].rank) {
        return kinds[one->nic].rank - kinds[other->nic].rank;
    }
    if (one->bits_per_sec > other->bits_per_sec || one->bits_per_sec < other->bits_per_sec) {
        return one->bits_per_sec > other->bits_per_sec ? -1 : 1;
    }
    return (int)gpucoll_topology_path(topology, gpu, a) - (int)gpucoll_topology_path(topology, gpu, b);
}

static bool leads_out(const struct gpucoll_topology_object *object)
{
    return object->kind == GPUCOLL_TOPOLOGY_NIC && object->up && kinds[object->nic].rank >= 0;
}

/* All NICs of the GPU's host that lead out, best first, those that are as good in the order of the tree. */
static int sort(const struct gpucoll_topology *topology, int gpu, int *nics, int most)
{
    int count = 0;
    for (int i = 0; i < topology->count; i++) {
        if (!leads_out(&topology->objects[i]) || !gpucoll_topology_same_host(topology, gpu, i)) {
            continue;
        }
        int place = count < most ? count++ : most;
        for (; place > 0 && compare(topology, gpu, i, nics[place - 1]) < 0; place--) {
            if (place < most) {
                nics[place] = nics[place - 1];
            }
        }
        if (place < most) {
            nics[place] = i;
        }
    }
    return count;
}

/* How many GPUs before this one, on its host, are as near to that NIC. */
static int rivals(const struct gpucoll_topology *topology, int gpu, int nic)
{
    enum gpucoll_path path = gpucoll_topology_path(topology, gpu, nic);
    int count = 0;
    for (int i = 0; i < topology->gpu_count && topology->gpus[i] != gpu; i++) {
        count += gpucoll_topology_path(topology, topology->gpus[i], nic) == path;
    }
    return count;
}

int gpucoll_topology_nics(const struct gpucoll_topology *topology, int gpu, int *nics, int most)
{
    enum { CANDIDATES = 64 };
    int all[CANDIDATES];
    int count = sort(topology, gpu, all, CANDIDATES);
    int equals = 0;
    while (equals < count && compare(topology, gpu, all[0], all[equals]) == 0) {
        equals++;
    }
    /* GPUs that have the same choice begin at different NICs, or one NIC would carry the traffic of all. */
    int shift = equals > 1 ? rivals(topology, gpu, all[0]) % equals : 0;
    for (int i = 0; i < count && i < most; i++) {
        nics[i] = i < equals ? all[(i + shift) % equals] : all[i];
    }
    return count;
}
