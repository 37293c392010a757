#include "test/unit/first_habit.h"

#include "core/context.h"
#include "core/gpu.h"

struct gpucoll_habit *test_first_habit(struct gpucoll_context *context)
{
    return &context->gpus[0]->lanes->habit;
}
