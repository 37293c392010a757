/*
 * Layouts: where the bytes of a datatype's elements lie in memory, in a form that a kernel can follow. A layout
 * is built from runs and loops as a type map has them, and normalised: runs that touch are joined, loops around one body become
 * dimensions, lists that are regular after all become dimensions too. What is left irregular is a list of
 * runs, of bounded length.
 *
 * Of a layout that is for a single element the extent does not matter, and is 0. Runs of one that is only packed may overlap.
 *
 * A layout is shared by counting references; everything but the count, and what is said of copies on devices, is constant.
 */
#ifndef GPUCOLL_LAYOUT_H
#define GPUCOLL_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/layout_abi.h"

/* The longest list: 1 MiB on the device. */
enum { GPUCOLL_LAYOUT_MOST_RUNS = 1 << 16 };

struct gpucoll_layout_copy; /* core/layout_copy.c */

struct gpucoll_layout {
    uint32_t references; /* changed atomically */
    uint32_t
        align; /* a power of two, at most GPUCOLL_LAYOUT_WIDTH, that divides every offset, length and stride */
    uint64_t bytes;  /* packed, of one element */
    ptrdiff_t first; /* offset of the first packed byte */
    ptrdiff_t extent;
    struct gpucoll_layout_view view; /* `list` is the one below */
    struct gpucoll_layout_run *list; /* NULL for a single run */
    bool even;                       /* all runs are of one length */
    bool asked_for; /* a copy on the GPU, by a call that could do with one (core/laid_runs.c); changed atomically */
    struct gpucoll_layout_copy *copies;
    void (*drop_copies)(struct gpucoll_layout *layout);
};

/* That of bytes one behind the other, however many: for what is packed only to be out of the way. */
struct gpucoll_layout *gpucoll_layout_plain(void);

/* One element, described in the order of its type map. Errors (out of memory, too irregular) are kept until the end. */
struct gpucoll_layout_builder;
struct gpucoll_layout_builder *gpucoll_layout_begin(void); /* NULL: out of memory */
void gpucoll_layout_add_run(struct gpucoll_layout_builder *builder, ptrdiff_t offset, uint64_t bytes);
/* What is added up to the matching end is repeated, each time `stride` bytes further. Offsets are those of the first time. */
void gpucoll_layout_add_loop(struct gpucoll_layout_builder *builder, uint64_t count, ptrdiff_t stride);
void gpucoll_layout_end_loop(struct gpucoll_layout_builder *builder);
/* Frees the builder. NULL: the element has no byte, too many irregular runs, or memory ran out. The caller has the one
 * reference. */
struct gpucoll_layout *gpucoll_layout_build(struct gpucoll_layout_builder *builder, ptrdiff_t extent);

/* Do elements of both lie in the same places, in the same order? One of them may be NULL. */
bool gpucoll_layout_equal(const struct gpucoll_layout *a, const struct gpucoll_layout *b);

void gpucoll_layout_retain(struct gpucoll_layout *layout);
void gpucoll_layout_release(struct gpucoll_layout *layout); /* harmless on NULL */

/* The largest power of two up to `most`, one itself, that divides `value`. */
static inline uint32_t gpucoll_layout_align(uint64_t value, uint32_t most)
{
    while (value % most != 0) {
        most /= 2;
    }
    return most;
}

/* Do `count` elements lie in one run of bytes? It begins at `first`. */
static inline bool gpucoll_layout_is_run(const struct gpucoll_layout *layout, uint64_t count)
{
    const bool one = layout->view.runs == 1 && layout->view.bytes == layout->bytes;
    return one && (count == 1 || layout->extent == (ptrdiff_t)layout->bytes);
}

#endif
