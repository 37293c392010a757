/*
 * The order of a ring of ranks in which neighbours have the good links.
 */
#ifndef GPUCOLL_TOPOLOGY_RING_H
#define GPUCOLL_TOPOLOGY_RING_H

#include <stdbool.h>
#include <stdint.h>

/* `near[i]` has bit j set if the link from rank i to j is a good one; it counts where both ranks say so. Fills `order` with all
 * ranks, rank 0 first, such that each has a good link to the next and the last to the first, and the lowest ranks come first
 * where there is a choice: 0, 1, 2, ... where all links are good. False, with the order of ranks, if there is no such ring,
 * or none is found in a bounded search. The same for the same input. `nranks`: up to 32. */
bool gpucoll_ring_order(const uint32_t *near, uint32_t nranks, uint32_t *order);

#endif
