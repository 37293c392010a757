/*
 * What passes between the host and the kernel that packs and unpacks (kernels/pack_layout.cu), and its stand-in on the
 * host (core/accel/host_pack.c). Plain C.
 *
 * A *layout* says where the bytes of a datatype's elements lie. Packed, the bytes of all elements stand one behind the other
 * in the order of the type map. A packed position is taken apart from the outside in: dimension 0 counts the elements
 * (or their outermost repetition), each further one the repetitions of what is inside it; what remains is a
 * position in the innermost runs, found in a list sorted by position.
 */
#ifndef GPUCOLL_LAYOUT_ABI_H
#define GPUCOLL_LAYOUT_ABI_H

#include "kernels/kernel_abi.h"

enum {
    GPUCOLL_LAYOUT_DIMS = 5,  /* the elements, and four dimensions of each */
    GPUCOLL_LAYOUT_WIDTH = 16 /* bytes: the most that a thread moves at once */
};

/* A contiguous run of bytes, at `at` packed; it ends where the next begins. */
struct gpucoll_layout_run {
    uint64_t at;
    int64_t offset; /* from the element's address */
};

/* position / bytes = multiply_high(position, magic) >> shift for all positions below 2^63; magic 0: bytes is 1. */
struct gpucoll_layout_dim {
    uint64_t bytes; /* packed, of one step */
    uint64_t magic;
    int64_t stride; /* of one step in memory */
    uint32_t shift;
    uint32_t reserved;
};

struct gpucoll_layout_view {
    struct gpucoll_layout_dim dim[GPUCOLL_LAYOUT_DIMS]; /* outermost first */
    uint32_t dims;
    uint32_t runs;                         /* innermost; at least 1 */
    int64_t offset;                        /* of a single run */
    uint64_t bytes;                        /* packed, of all runs */
    const struct gpucoll_layout_run *list; /* as the kernel sees it; not used for a single run */
};

/* Some elements of one layout and the place for them packed. */
struct gpucoll_pack_job {
    void *user; /* the address that MPI has: of element 0 */
    void *packed;
    uint64_t end; /* packed bytes of this job and of those before it */
};

struct gpucoll_pack_args {
    struct gpucoll_kernel_status *status; /* this and the next two: as in gpucoll_kernel_args */
    uint32_t *arrived;
    uint32_t done_value;
    uint32_t unpack; /* not 0: from packed to user */
    uint32_t width;  /* 1, 2, 4, 8 or 16: divides every address, offset, length and stride */
    uint32_t jobs;
    struct gpucoll_layout_view view;
    struct gpucoll_pack_job job[GPUCOLL_MAX_LOCAL];
};

static inline GPUCOLL_HD uint64_t gpucoll_layout_divide(const struct gpucoll_layout_dim *dim, uint64_t position)
{
#ifdef __CUDA_ARCH__
    const uint64_t high = __umul64hi(position, dim->magic);
#else
    __extension__ typedef unsigned __int128 wide;
    const uint64_t high = (uint64_t)((wide)position * dim->magic >> 64);
#endif
    return dim->magic == 0 ? position : high >> dim->shift;
}

/* The last run that begins at `position` or before. */
static inline GPUCOLL_HD uint32_t gpucoll_layout_search(const struct gpucoll_layout_view *view, uint64_t position)
{
    uint32_t low = 0;
    uint32_t high = view->runs;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (view->list[middle].at <= position) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Where the byte at packed `position` lies, from the address of element 0. `*left`: so many bytes from there on lie
 * together. */
static inline GPUCOLL_HD int64_t gpucoll_layout_find(const struct gpucoll_layout_view *view, uint64_t position,
                                                     uint64_t *left)
{
    int64_t offset = 0;
    for (uint32_t i = 0; i < view->dims; i++) {
        const uint64_t step = gpucoll_layout_divide(&view->dim[i], position);
        position -= step * view->dim[i].bytes;
        offset += (int64_t)step * view->dim[i].stride;
    }
    if (view->runs == 1) {
        *left = view->bytes - position;
        return offset + view->offset + (int64_t)position;
    }
    const uint32_t run = gpucoll_layout_search(view, position);
    const uint64_t end = run + 1 < view->runs ? view->list[run + 1].at : view->bytes;
    *left = end - position;
    return offset + view->list[run].offset + (int64_t)(position - view->list[run].at);
}

#endif
