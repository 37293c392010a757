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
    struct gpucoll_layout_dim mean;                     /* of a list, a step of the runs' mean length */
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

static inline GPUCOLL_HD uint64_t gpucoll_layout_divide(const struct gpucoll_layout_dim *dim,
                                                        uint64_t position)
{
#ifdef __CUDA_ARCH__
    const uint64_t high = __umul64hi(position, dim->magic);
#else
    __extension__ typedef unsigned __int128 wide;
    const uint64_t high = (uint64_t)((wide)position * dim->magic >> 64);
#endif
    return dim->magic == 0 ? position : high >> dim->shift;
}

/* Run `index` of a list. `past_l1`: by a kernel that may have been there before the list was, and so may find in L1 what an earlier call has read. */
static inline GPUCOLL_HD struct gpucoll_layout_run
gpucoll_layout_run_at(const struct gpucoll_layout_view *view, uint32_t index, bool past_l1)
{
#ifdef __CUDA_ARCH__
    if (past_l1) {
        const ulonglong2 both = __ldcg((const ulonglong2 *)&view->list[index]);
        const struct gpucoll_layout_run run = {both.x, (int64_t)both.y};
        return run;
    }
#else
    (void)past_l1;
#endif
    return view->list[index];
}

/* Where run `index` begins, packed; behind the last, where they end. */
static inline GPUCOLL_HD uint64_t gpucoll_layout_run_begin(const struct gpucoll_layout_view *view,
                                                           uint32_t index, bool past_l1)
{
    return index < view->runs ? gpucoll_layout_run_at(view, index, past_l1).at : view->bytes;
}

/* The run that it is if all are of one length, as those of most lists are. */
static inline GPUCOLL_HD uint32_t gpucoll_layout_guess(const struct gpucoll_layout_view *view,
                                                       uint64_t position)
{
    const uint64_t guess = gpucoll_layout_divide(&view->mean, position);
    return guess < view->runs ? (uint32_t)guess : view->runs - 1;
}

/* The last of the runs from `low` on and before `high` that begins at `position` or before. */
static inline GPUCOLL_HD uint32_t gpucoll_layout_search(const struct gpucoll_layout_view *view,
                                                        uint64_t position, uint32_t low, uint32_t high,
                                                        bool past_l1)
{
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (gpucoll_layout_run_at(view, middle, past_l1).at <= position) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* How far in memory the step is that `*position` lies in, which becomes the position within it. */
static inline GPUCOLL_HD int64_t gpucoll_layout_step(const struct gpucoll_layout_dim *dim, uint64_t *position)
{
    const uint64_t step = gpucoll_layout_divide(dim, *position);
    *position -= step * dim->bytes;
    return (int64_t)step * dim->stride;
}

/* Where the byte at packed `position` of the innermost runs lies. `*left`: so many bytes from there on lie together. `past_l1`: as above. */
static inline GPUCOLL_HD int64_t gpucoll_layout_find_inside(const struct gpucoll_layout_view *view,
                                                            uint64_t position, bool past_l1, uint64_t *left)
{
    if (view->runs == 1) {
        *left = view->bytes - position;
        return view->offset + (int64_t)position;
    }
    uint32_t index = gpucoll_layout_guess(view, position);
    struct gpucoll_layout_run run = gpucoll_layout_run_at(view, index, past_l1);
    uint64_t end = gpucoll_layout_run_begin(view, index + 1, past_l1);
    if (position < run.at || position >= end) {
        const bool below = position < run.at;
        index =
            gpucoll_layout_search(view, position, below ? 0 : index + 1, below ? index : view->runs, past_l1);
        run = gpucoll_layout_run_at(view, index, past_l1);
        end = gpucoll_layout_run_begin(view, index + 1, past_l1);
    }
    *left = end - position;
    return run.offset + (int64_t)(position - run.at);
}

/* Where the byte at packed `position` lies, from the address of element 0. */
static inline GPUCOLL_HD int64_t gpucoll_layout_find(const struct gpucoll_layout_view *view,
                                                     uint64_t position, uint64_t *left)
{
    int64_t offset = 0;
    for (uint32_t i = 0; i < view->dims; i++) {
        offset += gpucoll_layout_step(&view->dim[i], &position);
    }
    return offset + gpucoll_layout_find_inside(view, position, false, left);
}

#endif
