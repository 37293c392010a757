/*
 * Which bytes of one buffer a collective reads or writes, said the way MPI's arguments say it: `blocks`
 * blocks, each some elements of a datatype at some displacement. A region holds no address: offsets count
 * from the buffer's.
 */
#ifndef COLL_GPUCOLL_REGION_H
#define COLL_GPUCOLL_REGION_H

#include "coll_gpucoll_compat.h"
#include "core/accel/accel.h"
#include "core/gpucoll.h"

enum gpucoll_arrangement {
    GPUCOLL_EVEN,       /* block i begins i * count elements into the buffer */
    GPUCOLL_VECTOR,     /* the v collectives: counts and displacements in elements of one type */
    GPUCOLL_BYTES,      /* alltoallw: displacements in bytes, a type for each block */
    GPUCOLL_BYTES_AINT, /* neighbor_alltoallw: the same with MPI_Aint displacements */
    GPUCOLL_ROW,        /* reduce_scatter: counts in elements of one type, a block behind the other */
};

struct gpucoll_region {
    enum gpucoll_arrangement layout;
    int first; /* blocks first .. first + blocks - 1 */
    int blocks;
    size_t count; /* EVEN */
    gpucoll_counts counts;
    gpucoll_displs displs;
    gpucoll_displs_aint displs_aint;
    ompi_datatype_t *type;         /* EVEN, VECTOR, ROW */
    ompi_datatype_t *const *types; /* BYTES, BYTES_AINT */
    void *kept;                    /* see gpucoll_region_keep */
};

/* The lowest and one past the highest offset, and the bytes in between that belong to the region. */
struct gpucoll_extent {
    ptrdiff_t low;
    ptrdiff_t high;
    size_t bytes;
};

struct gpucoll_region gpucoll_even(size_t count, ompi_datatype_t *type, int first, int blocks);
struct gpucoll_region gpucoll_vector(gpucoll_counts counts, gpucoll_displs displs, ompi_datatype_t *type,
                                     int first, int blocks);
struct gpucoll_region gpucoll_bytes(gpucoll_counts counts, gpucoll_displs displs,
                                    ompi_datatype_t *const *types, int blocks);
struct gpucoll_region gpucoll_bytes_aint(gpucoll_counts counts, gpucoll_displs_aint displs,
                                         ompi_datatype_t *const *types, int blocks);
struct gpucoll_region gpucoll_row(gpucoll_counts counts, ompi_datatype_t *type, int blocks);

/* False if the region holds no byte; `extent` is then all zero. */
bool gpucoll_region_extent(const struct gpucoll_region *region, struct gpucoll_extent *extent);

/* Bytes of the data of block `index`. */
uint64_t gpucoll_region_bytes(const struct gpucoll_region *region, int index);

/* The region's blocks as the engine takes them: each one run of bytes (its layout is NULL), or with a layout, of which the caller
 * then has a reference. False if one is neither; its `bytes` are those of its data all the same. `padded`: elements are taken
 * with the padding of their type, as reductions see them. */
bool gpucoll_region_blocks(const struct gpucoll_region *region, bool padded, struct gpucoll_block *blocks,
                           struct gpucoll_layout **layouts);

/* Adds the data of block `index` to a layout, as part of one element. Not of a ROW. */
struct gpucoll_layout_builder;
void gpucoll_region_describe(const struct gpucoll_region *region, int index,
                             struct gpucoll_layout_builder *builder);

/* Calls `run` for each contiguous run of bytes, neighbours joined, until it returns other than OMPI_SUCCESS;
 * returns that. */
typedef int (*gpucoll_run_fn)(void *arg, ptrdiff_t offset, size_t bytes);
int gpucoll_region_runs(const struct gpucoll_region *region, gpucoll_run_fn run, void *arg);

/* The same bytes in any order as sets of equal rows, as few as are easily found. */
typedef int (*gpucoll_rows_fn)(void *arg, const struct gpucoll_rows *rows);
int gpucoll_region_rows(const struct gpucoll_region *region, gpucoll_rows_fn take, void *arg);

/* Makes the region independent of the caller's arrays and of MPI_Type_free: for calls that end later. False
 * if out of memory. gpucoll_region_drop undoes it and is harmless on a region not kept. */
bool gpucoll_region_keep(struct gpucoll_region *region);
void gpucoll_region_drop(struct gpucoll_region *region);

#endif
