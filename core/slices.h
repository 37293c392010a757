/*
 * A message cut into slices of whole lines, one for each of the ranks that work on it: all of them, or all but the root.
 */
#ifndef GPUCOLL_SLICES_H
#define GPUCOLL_SLICES_H

#include "core/plan.h"

/* NULL if there are ranks beside the root that can share the work, else why not. */
static inline const char *gpucoll_slices_unusable(const struct gpucoll_plan_input *input)
{
    return input->nranks < 3 ? "with two ranks there is nobody to share the work with" : NULL;
}

static inline uint64_t gpucoll_slice_bytes(uint64_t bytes, uint32_t slices)
{
    const uint64_t line = 128;
    return ((bytes + slices - 1) / slices + line - 1) / line * line;
}

/* Where slice `index` begins, and its length, which is 0 for the last ones of a short message. */
static inline uint64_t gpucoll_slice_at(uint64_t bytes, uint32_t slices, uint32_t index, uint64_t *begin)
{
    const uint64_t slice = gpucoll_slice_bytes(bytes, slices);
    *begin = slice * index < bytes ? slice * index : bytes;
    return bytes - *begin < slice ? bytes - *begin : slice;
}

/* The slice of a rank that is not the root, where the root has none. */
static inline uint32_t gpucoll_slice_beside_root(uint32_t rank, uint32_t root, uint32_t nranks)
{
    return (rank + nranks - root - 1) % nranks;
}

#endif
