/*
 * Host memory near a device: which NUMA node that is, and pages that are to lie there.
 */
#ifndef GPUCOLL_TOPOLOGY_NEAR_MEMORY_H
#define GPUCOLL_TOPOLOGY_NEAR_MEMORY_H

#include "core/topology/topology.h"

/* The system's number of the NUMA node nearest to the device: what coll_gpucoll_topology_file says, else this machine by hwloc. -1: not
 * known, or this machine has one node only. */
int gpucoll_near_numa(struct gpucoll_device *device);

/* Asks that the pages of this mapping, of which there are none yet, lie on that NUMA node as long as it has room. NULL, or why they
 * will lie wherever the system puts them: a constant clause. */
const char *gpucoll_near_bind(int numa, void *map, size_t bytes);

#endif
