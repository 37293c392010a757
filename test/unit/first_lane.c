#include "test/unit/first_lane.h"

#include "core/context.h"
#include "core/gpu.h"

static void set_taken(struct gpucoll_context *context, bool taken)
{
    pthread_mutex_lock(&context->lock);
    context->gpus[0]->lanes->taken = taken;
    pthread_mutex_unlock(&context->lock);
}

void test_take_first_lane(struct gpucoll_context *context)
{
    set_taken(context, true);
}

void test_give_first_lane(struct gpucoll_context *context)
{
    set_taken(context, false);
}

void test_lose_lanes(struct gpucoll_context *context)
{
    pthread_mutex_lock(&context->lock);
    struct gpucoll_gpu *gpu = context->gpus[0];
    for (uint32_t i = 0; i < gpu->lane_count; i++) {
        gpu->lanes[i].poisoned = true;
    }
    pthread_mutex_unlock(&context->lock);
}

uint64_t test_launched(struct gpucoll_context *context)
{
    uint64_t launched = 0;
    pthread_mutex_lock(&context->lock);
    const struct gpucoll_gpu *gpu = context->gpus[0];
    for (uint32_t i = 0; gpu != NULL && i < gpu->lane_count; i++) {
        launched += gpu->lanes[i].done;
    }
    pthread_mutex_unlock(&context->lock);
    return launched;
}
