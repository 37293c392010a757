/*
 * A message cut into slices of whole lines, one for each of the ranks that work on it: all of them, or all but the root.
 */
#ifndef GPUCOLL_SLICES_H
#define GPUCOLL_SLICES_H

#include "core/plan/plan.h"

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

/* Reductions: into how many slices a message is cut, one for each rank that reduces; a reduce-scatter's blocks are not cut. */
static inline uint32_t gpucoll_reduced_slices(enum gpucoll_coll coll, uint32_t nranks)
{
    return coll == GPUCOLL_ALLREDUCE ? nranks : coll == GPUCOLL_REDUCE ? nranks - 1 : 1;
}

/* Of an all-reduce or a reduce: the slice that `rank` reduces, as gpucoll_slice_at; that of a reduce's root has no bytes. */
static inline uint64_t gpucoll_reduced_slice(enum gpucoll_coll coll, uint64_t bytes, uint32_t nranks,
                                             uint32_t root, uint32_t rank, uint64_t *begin)
{
    const uint32_t slices = gpucoll_reduced_slices(coll, nranks);
    *begin = 0;
    if (coll == GPUCOLL_ALLREDUCE) {
        return gpucoll_slice_at(bytes, slices, rank, begin);
    }
    return rank == root
               ? 0
               : gpucoll_slice_at(bytes, slices, gpucoll_slice_beside_root(rank, root, nranks), begin);
}

/* Does `rank` want what others reduce? A reduce-scatter's result is wanted by who reduces it alone. */
static inline bool gpucoll_reduced_is_wanted(enum gpucoll_coll coll, uint32_t root, uint32_t rank)
{
    return coll == GPUCOLL_ALLREDUCE || (coll == GPUCOLL_REDUCE && rank == root);
}

#endif
