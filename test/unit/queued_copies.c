#include "test/unit/queued_copies.h"

#include "core/context.h"

uint64_t test_queued_batches(struct gpucoll_context *context)
{
    return context->gpus[0]->copies[GPUCOLL_QUEUE_BATCH].queued;
}

uint64_t test_queued_copies(struct gpucoll_context *context)
{
    uint64_t queued = 0;
    for (int i = 0; i < GPUCOLL_PEER_QUEUES; i++) {
        queued += i == GPUCOLL_QUEUE_BATCH ? 0 : context->gpus[0]->copies[i].queued;
    }
    return queued;
}

uint64_t test_queued(struct gpucoll_context *context)
{
    return test_queued_batches(context) + test_queued_copies(context);
}
