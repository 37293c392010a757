/*
 * Making a topology, for those who find it or read it (internal). Objects are added parents first, a subtree at a time.
 */
#ifndef GPUCOLL_TOPOLOGY_BUILD_H
#define GPUCOLL_TOPOLOGY_BUILD_H

#include "core/topology/topology.h"

/* An empty one, or NULL. */
struct gpucoll_topology *gpucoll_topology_new(void);
/* Adds a copy; returns its index, or -1 when memory is short. */
int gpucoll_topology_add(struct gpucoll_topology *topology, const struct gpucoll_topology_object *object);
/* False when memory is short. */
bool gpucoll_topology_add_nvlink(struct gpucoll_topology *topology, const struct gpucoll_nvlink *nvlink);

/* To be called when all objects are there. False when memory is short. */
bool gpucoll_topology_finish(struct gpucoll_topology *topology);

/* An object of that kind with nothing known but its place. */
void gpucoll_topology_blank(struct gpucoll_topology_object *object, enum gpucoll_topology_kind kind,
                            int parent);

bool gpucoll_pci_same(const struct gpucoll_pci_address *a, const struct gpucoll_pci_address *b);

#endif
