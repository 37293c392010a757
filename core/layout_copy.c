#include "core/layout_copy.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "core/context.h"

/* A layout's copies are guarded by `copies_lock`, taken under the context's lock, since a layout may be used in several contexts. */
static pthread_mutex_t copies_lock = PTHREAD_MUTEX_INITIALIZER;
struct gpucoll_layout_copy {
    struct gpucoll_layout_copy *next;
    struct gpucoll_context *context;
    struct gpucoll_gpu *gpu;
    struct gpucoll_layout_view *view; /* on the GPU */
};

static void drop_copies(struct gpucoll_layout *layout)
{
    while (layout->copies != NULL) {
        struct gpucoll_layout_copy *copy = layout->copies;
        layout->copies = copy->next;
        pthread_mutex_lock(&copy->context->lock);
        gpucoll_device_pool_put(&copy->gpu->pool, copy->view);
        pthread_mutex_unlock(&copy->context->lock);
        free(copy);
    }
}

static struct gpucoll_layout_copy *find_copy(const struct gpucoll_layout *layout,
                                             const struct gpucoll_gpu *gpu)
{
    struct gpucoll_layout_copy *copy = layout->copies;
    while (copy != NULL && copy->gpu != gpu) {
        copy = copy->next;
    }
    return copy;
}

/* Copies the view and the list to `to`, on the GPU. */
static bool fill(const struct gpucoll_layout *layout, struct gpucoll_accel *accel,
                 struct gpucoll_layout_view *to, size_t bytes)
{
    struct gpucoll_layout_view *view = malloc(bytes);
    if (view == NULL) {
        return false;
    }
    *view = layout->view;
    if (layout->list != NULL) {
        memcpy(view + 1, layout->list, bytes - sizeof *view);
        view->list = gpucoll_layout_copy_list(to);
    }
    const bool filled = accel->ops->copy(accel, to, view, bytes) == GPUCOLL_OK;
    free(view);
    return filled;
}

static struct gpucoll_layout_copy *make_copy(struct gpucoll_layout *layout, struct gpucoll_context *context,
                                             struct gpucoll_gpu *gpu)
{
    const size_t listed = layout->list != NULL ? layout->view.runs * sizeof *layout->list : 0;
    const size_t bytes = sizeof layout->view + listed;
    struct gpucoll_layout_copy *copy = malloc(sizeof *copy);
    struct gpucoll_layout_view *view = copy != NULL ? gpucoll_device_pool_get(&gpu->pool, bytes) : NULL;
    if (view == NULL || !fill(layout, context->accel, view, bytes)) {
        gpucoll_device_pool_put(&gpu->pool, view);
        free(copy);
        return NULL;
    }
    *copy = (struct gpucoll_layout_copy){layout->copies, context, gpu, view};
    layout->drop_copies = drop_copies;
    layout->copies = copy;
    return copy;
}

const struct gpucoll_layout_view *gpucoll_layout_copy_on(struct gpucoll_layout *layout,
                                                         struct gpucoll_context *context,
                                                         struct gpucoll_gpu *gpu)
{
    pthread_mutex_lock(&copies_lock);
    struct gpucoll_layout_copy *copy = find_copy(layout, gpu);
    if (copy == NULL) {
        copy = make_copy(layout, context, gpu);
    }
    pthread_mutex_unlock(&copies_lock);
    return copy != NULL ? copy->view : NULL;
}

void gpucoll_layout_copy_lose(struct gpucoll_layout *layout, const struct gpucoll_gpu *gpu)
{
    pthread_mutex_lock(&copies_lock);
    struct gpucoll_layout_copy **link = &layout->copies;
    while (*link != NULL && (*link)->gpu != gpu) {
        link = &(*link)->next;
    }
    struct gpucoll_layout_copy *lost = *link;
    if (lost != NULL) {
        *link = lost->next;
        free(lost);
    }
    pthread_mutex_unlock(&copies_lock);
}
