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
