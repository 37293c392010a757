/*
 * Packing without a call. (In C: the engine's own structures are no C++.)
 */
#ifndef GPUCOLL_TEST_UNIT_PACKED_ONCE_H
#define GPUCOLL_TEST_UNIT_PACKED_ONCE_H

#include "core/gpu.h"
#include "core/gpucoll.h"
#include "core/layout.h"

/* What a call that packs two elements at `user` takes and frees again, `abandoned` or not. Where the copy of its layout, which has a list, was on the GPU; NULL: it
 * took nothing. */
const void *test_pack_once(struct gpucoll_context *context, struct gpucoll_gpu *gpu,
                           struct gpucoll_layout *layout, void *user, bool abandoned);

#endif
