/*
 * Direct broadcast of long messages: the root's copy engines scatter a slice to each other rank, in chunks, and each rank passes
 * its chunks on to the rest as they come. Every byte leaves the root once, and arrives at each rank once: the least there is.
 * (Scatter and all-gather, van de Geijn 1994, pipelined.)
 */
#include "core/algorithm.h"
#include "core/direct.h"
#include "core/model.h"
#include "core/pipeline.h"
#include "core/slices.h"

static const uint64_t wanted_chunks = 8;
/* Each copy costs its engine about 20 us (docs/design.md). */
static const uint64_t least_chunk = (uint64_t)2 << 20;
static const uint64_t most_chunk = (uint64_t)32 << 20;

/* Bytes of a chunk of a slice: what the configuration says, or enough chunks that they overlap, each large enough to pay for its
 * copies. */
static uint64_t chunk_bytes(const struct gpucoll_config *config, uint64_t slice)
{
    const uint64_t line = 128;
    const uint64_t page = 4096;
    /* Boards count the chunks of a call in 24 bits: those that are asked for are not too small. */
    uint64_t chunk = config->chunk > 0 ? (config->chunk + page - 1) / page * page
                                       : (slice / wanted_chunks + line - 1) / line * line;
    chunk = config->chunk == 0 && chunk < least_chunk ? least_chunk : chunk;
    return chunk < most_chunk ? chunk : most_chunk;
}
static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const uint64_t slice = gpucoll_slice_bytes(input->bytes, input->nranks - 1);
    plan->chunk_bytes = chunk_bytes(input->config, slice);
    plan->rounds = (slice + plan->chunk_bytes - 1) / plan->chunk_bytes;
    const double fill = (double)(plan->chunk_bytes * (input->nranks - 1));
    plan->predicted_us = gpucoll_model_copies_us(input, (double)input->bytes + fill, input->nranks - 1, 2);
}

static gpucoll_status start(struct gpucoll_request *request)
{
    gpucoll_pipeline_start(request);
    return GPUCOLL_OK;
}

/* Where chunk `chunk` of the slice of `rank` is in the message, and its length. */
static uint64_t chunk_of(const struct gpucoll_request *request, uint32_t rank, uint32_t chunk,
                         uint64_t *begin)
{
    const uint32_t size = request->team->size;
    const uint32_t index = gpucoll_slice_beside_root(rank, request->root, size);
    uint64_t first;
    const uint64_t most = gpucoll_slice_at(request->bytes, size - 1, index, &first) + first;
    *begin = first + chunk * request->plan.chunk_bytes;
    const uint64_t left = *begin < most ? most - *begin : 0;
    return left < request->plan.chunk_bytes ? left : request->plan.chunk_bytes;
}

/* The root sends each rank its part of a chunk; another rank passes its own on to the rest. */
static gpucoll_status queue_chunk(struct gpucoll_request *request, uint32_t chunk)
{
    const struct gpucoll_team *team = request->team;
    const bool is_root = team->rank == request->root;
    const struct gpucoll_kernel_run *run =
        &request->runs.run[is_root ? (team->rank + 1) % team->size : request->root];
    const char *from = is_root ? run->send : run->recv;
    struct gpucoll_copy_ticket *tickets = request->pipeline.sending[chunk % GPUCOLL_PIPELINE_SLOTS];
    for (uint32_t turn = 1; turn < team->size; turn++) {
        const uint32_t peer = (team->rank + turn) % team->size;
        if (peer == request->root) {
            continue;
        }
        uint64_t at;
        const uint64_t bytes = chunk_of(request, is_root ? peer : team->rank, chunk, &at);
        char *to = (char *)gpucoll_direct_result(request, peer) + at;
        gpucoll_status status = gpucoll_pipeline_copy(request, peer, to, from + at, bytes, &tickets[peer]);
        if (status != GPUCOLL_OK) {
            return status;
        }
    }
    return GPUCOLL_OK;
}

/* Counts the chunks of which this rank's part is complete, and tells the peers. */
static gpucoll_status count_sent(struct gpucoll_request *request)
{
    struct gpucoll_pipeline *pipeline = &request->pipeline;
    gpucoll_status status = GPUCOLL_OK;
    while (pipeline->sent < pipeline->queued && status == GPUCOLL_OK) {
        status = gpucoll_pipeline_copied(request, pipeline->sending[pipeline->sent % GPUCOLL_PIPELINE_SLOTS]);
        if (status == GPUCOLL_OK) {
            gpucoll_pipeline_tell(request, GPUCOLL_FLOW_SENT, ++pipeline->sent);
        }
    }
    return status == GPUCOLL_IN_PROGRESS ? GPUCOLL_OK : status;
}

static gpucoll_status progress(struct gpucoll_request *request)
{
    struct gpucoll_pipeline *pipeline = &request->pipeline;
    const bool is_root = request->team->rank == request->root;
    const uint32_t chunks = (uint32_t)request->plan.rounds;
    const uint32_t there =
        is_root ? chunks : gpucoll_pipeline_told(request, GPUCOLL_FLOW_SENT, request->root);
    while (pipeline->queued < there && pipeline->queued - pipeline->sent < GPUCOLL_PIPELINE_SLOTS) {
        gpucoll_status queued = queue_chunk(request, pipeline->queued);
        if (queued != GPUCOLL_OK) {
            return queued;
        }
        pipeline->queued++;
    }
    gpucoll_status status = count_sent(request);
    if (status != GPUCOLL_OK) {
        return status;
    }
    if (pipeline->sent == chunks) {
        return gpucoll_pipeline_end(request);
    }
    return gpucoll_pipeline_idle(request, is_root ? request->team->rank : request->root);
}

const struct gpucoll_algorithm gpucoll_bcast_copy = {
    .name = "scatter_allgather",
    .protocol = "copy",
    .help = "copy engines scatter the message from the root and gather it between the others, in chunks; "
            "takes no SM; for "
            "large messages in buffers that are used again",
    .direct = true,
    .spares_sms = true,
    .coll = GPUCOLL_BCAST,
    .steps = true,
    .unusable = gpucoll_slices_unusable,
    .shape = shape,
    .start = start,
    .progress = progress,
};
