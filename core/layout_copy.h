/*
 * Layouts in the memory of GPUs, as kernels read them: the view, and the list of runs behind it. Each GPU gets a copy when it is first wanted there, which
 * goes with the layout.
 */
#ifndef GPUCOLL_LAYOUT_COPY_H
#define GPUCOLL_LAYOUT_COPY_H

#include "core/layout.h"

struct gpucoll_context;
struct gpucoll_gpu;

/* The copy on this GPU, made unless there is one. NULL: no memory for it. Under the context's lock. */
const struct gpucoll_layout_view *gpucoll_layout_copy_on(struct gpucoll_layout *layout,
                                                         struct gpucoll_context *context,
                                                         struct gpucoll_gpu *gpu);
/* Its list of runs, where the layout has one. */
static inline const struct gpucoll_layout_run *
gpucoll_layout_copy_list(const struct gpucoll_layout_view *copy)
{
    return (const struct gpucoll_layout_run *)(const void *)(copy + 1);
}
/* A kernel may still read it: this GPU's copy is no longer the layout's, so its memory stays taken until the GPU is closed. */
void gpucoll_layout_copy_lose(struct gpucoll_layout *layout, const struct gpucoll_gpu *gpu);

#endif
