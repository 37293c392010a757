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

/* Is `a` the better NIC for the GPU? Among equals, the first stays first. */
static bool better(const struct gpucoll_topology *topology, int gpu, int a, int b)
{
    const struct gpucoll_topology_object *one = &topology->objects[a];
    const struct gpucoll_topology_object *other = &topology->objects[b];
    if (kinds[one->nic].rank != kinds[other->nic].rank) {
        return kinds[one->nic].rank < kinds[other->nic].rank;
    }
    if (one->bits_per_sec > other->bits_per_sec || one->bits_per_sec < other->bits_per_sec) {
        return one->bits_per_sec > other->bits_per_sec;
    }
    enum gpucoll_path near = gpucoll_topology_path(topology, gpu, a);
    enum gpucoll_path far = gpucoll_topology_path(topology, gpu, b);
    return near != far ? near < far : a < b;
}

static bool leads_out(const struct gpucoll_topology_object *object)
{
    return object->kind == GPUCOLL_TOPOLOGY_NIC && object->up && kinds[object->nic].rank >= 0;
}

int gpucoll_topology_nics(const struct gpucoll_topology *topology, int gpu, int *nics, int most)
{
    int count = 0;
    for (int i = 0; i < topology->count; i++) {
        if (!leads_out(&topology->objects[i]) || !gpucoll_topology_same_host(topology, gpu, i)) {
            continue;
        }
        /* Its place among those kept so far; what falls off the end is worse than all that stay. */
        int place = count < most ? count : most;
        while (place > 0 && better(topology, gpu, i, nics[place - 1])) {
            if (place < most) {
                nics[place] = nics[place - 1];
            }
            place--;
        }
        if (place < most) {
            nics[place] = i;
        }
        count++;
    }
    return count;
}
