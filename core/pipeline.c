#include "core/pipeline.h"

#include <string.h>
#include "core/watchdog.h"

static const uint64_t wanted_chunks = 8;
/* Each copy costs its engine about 20 us (docs/design.md). */
static const uint64_t least_block = (uint64_t)2 << 20;
static const uint64_t line = 128;
static const uint64_t page = 4096;

uint64_t gpucoll_pipeline_block(const struct gpucoll_config *config, uint64_t slice, uint64_t most)
{
    /* Boards count the chunks of a call in 24 bits: those that are asked for are not too small. */
    uint64_t block = config->chunk > 0 ? (config->chunk + page - 1) / page * page
                                       : (slice / wanted_chunks + line - 1) / line * line;
    block = config->chunk == 0 && block < least_block ? least_block : block;
    return block < most ? block : most;
}

void gpucoll_pipeline_start(struct gpucoll_request *request, uint64_t slice)
{
    struct gpucoll_pipeline *pipeline = &request->pipeline;
    memset(pipeline, 0, sizeof *pipeline);
    pipeline->block = request->plan.chunk_bytes;
    pipeline->chunks = slice > 0 ? (uint32_t)((slice + pipeline->block - 1) / pipeline->block) : 0;
    request->in_barrier = false;
    gpucoll_watchdog_reset(request);
}

/* A count is of no other call than the one beside it. */
void gpucoll_pipeline_tell(const struct gpucoll_request *request, uint32_t chunks)
{
    _Atomic uint64_t *word = &request->team->board->flow[request->call % GPUCOLL_RING];
    atomic_store_explicit(word, request->call << 24 | chunks, memory_order_release);
}

uint32_t gpucoll_pipeline_told(const struct gpucoll_request *request, uint32_t rank)
{
    const struct gpucoll_team_board *board = request->team->members[rank].board;
    uint64_t word = atomic_load_explicit(&board->flow[request->call % GPUCOLL_RING], memory_order_acquire);
    return word >> 24 == request->call ? (uint32_t)(word & 0xffffff) : 0;
}

gpucoll_status gpucoll_pipeline_copy(const struct gpucoll_request *request, uint32_t peer, void *to,
                                     const void *from, uint64_t bytes, struct gpucoll_copy_ticket *ticket)
{
    return gpucoll_copy(request->gpu, request->team->rank, peer, to, from, bytes, ticket);
}

gpucoll_status gpucoll_pipeline_copied(const struct gpucoll_request *request,
                                       struct gpucoll_copy_ticket *tickets)
{
    for (uint32_t i = 0; i < request->team->size; i++) {
        gpucoll_status status = gpucoll_copy_done(request->gpu, tickets[i]);
        if (status != GPUCOLL_OK) {
            return status;
        }
        tickets[i].number = 0;
    }
    return GPUCOLL_OK;
}

gpucoll_status gpucoll_pipeline_sent(struct gpucoll_request *request)
{
    struct gpucoll_pipeline *pipeline = &request->pipeline;
    gpucoll_status status = GPUCOLL_OK;
    while (pipeline->sent < pipeline->queued && status == GPUCOLL_OK) {
        status = gpucoll_pipeline_copied(request, pipeline->sending[pipeline->sent % GPUCOLL_PIPELINE_SLOTS]);
        if (status == GPUCOLL_OK) {
            pipeline->sent++;
            gpucoll_pipeline_tell(request, pipeline->sent);
        }
    }
    return status == GPUCOLL_IN_PROGRESS ? GPUCOLL_OK : status;
}

gpucoll_status gpucoll_pipeline_idle(struct gpucoll_request *request, uint32_t missing)
{
    uint64_t looked = request->looked_ns;
    gpucoll_status status = gpucoll_watchdog(request, missing, "waiting for copies between the GPUs");
    if (status == GPUCOLL_IN_PROGRESS && request->looked_ns != looked) {
        /* As often as the watchdog looks at the peers, ask the device whether it met an error. */
        gpucoll_status health = request->gpu->device->accel->ops->stream_health(request->lane->stream);
        return health == GPUCOLL_OK ? GPUCOLL_IN_PROGRESS : health;
    }
    return status;
}

gpucoll_status gpucoll_pipeline_end(struct gpucoll_request *request)
{
    if (!request->in_barrier) {
        gpucoll_barrier_enter(request, false);
        gpucoll_watchdog_reset(request);
        request->in_barrier = true;
    }
    uint32_t missing = 0;
    gpucoll_status status = gpucoll_barrier_done(request, &missing);
    return status == GPUCOLL_IN_PROGRESS ? gpucoll_pipeline_idle(request, missing) : status;
}
