#include "test/unit/packed_once.h"

#include "core/packing.h"

const void *test_pack_once(struct gpucoll_context *context, struct gpucoll_gpu *gpu,
                           struct gpucoll_layout *layout, void *user, bool abandoned)
{
    const struct gpucoll_packed_run run = {.layout = layout, .user = user, .bytes = 2 * layout->bytes};
    struct gpucoll_packing *packing = gpucoll_packing_new(1);
    if (packing == NULL) {
        return NULL;
    }
    gpucoll_packing_note(packing, true, &run);
    const void *copy = NULL;
    if (gpucoll_packing_take(packing, context, gpu, "team")) {
        copy = packing->send[0].copy;
    }
    gpucoll_packing_free(packing, context, abandoned);
    return copy;
}
