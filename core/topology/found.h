/*
 * What is found on this machine, before it has its place in the tree (internal). One source a function: each adds what it knows
 * and leaves out what it does not. `found` has GPUs and NICs without parents, and NVLinks by their indices there.
 */
#ifndef GPUCOLL_TOPOLOGY_FOUND_H
#define GPUCOLL_TOPOLOGY_FOUND_H

#include "core/accel/nvml.h"
#include "core/topology/topology.h"

/* The GPUs that NVML shows to this process, with their NVLinks. False when memory is short. */
bool gpucoll_found_gpus(struct gpucoll_topology *found, const struct gpucoll_nvml *nvml);
/* The NICs that sysfs, mounted at `sys`, shows to this process. False when memory is short. */
bool gpucoll_found_nics(struct gpucoll_topology *found, const char *sys);
/* Lowers the speed of NICs of this process's network namespace to what their shapers let through. */
void gpucoll_found_limits(struct gpucoll_topology *found);
/* Puts all that was found into a tree of this machine by hwloc; NULL when memory is short or hwloc fails. */
struct gpucoll_topology *gpucoll_found_place(const struct gpucoll_topology *found);

#endif
