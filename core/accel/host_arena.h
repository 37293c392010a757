/*
 * Registry of the buffers that gpucoll_host_malloc handed out: what stands in for a driver's knowledge of pointers.
 */
#ifndef GPUCOLL_ACCEL_HOST_ARENA_H
#define GPUCOLL_ACCEL_HOST_ARENA_H

#include "core/accel/accel.h"

/* True if `pointer` lies in such a buffer; then its kind and id are filled in. */
bool gpucoll_host_arena_find(const void *pointer, enum gpucoll_memory *memory, uint64_t *id);
/* True if it lies in one that other processes can map; then *name is of its segment. */
bool gpucoll_host_arena_share(const void *pointer, struct gpucoll_segment_name *name);
/* True if it lies in such a buffer, or piece of one; then its bounds are filled in. */
bool gpucoll_host_arena_extent(const void *pointer, uintptr_t *begin, uint64_t *bytes);
/* A descriptor of the piece that holds it, which the caller closes; -1 if it lies in none that is shared. */
int gpucoll_host_arena_piece(const void *pointer);

#endif
