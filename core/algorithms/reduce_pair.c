/*
 * Reduce of long messages of two ranks: the copy engine of one brings its part to the root, where kernels, which wait for nobody, add the root's own. Every byte
 * crosses the link once, by what carries most over it, and nothing comes the other way.
 *
 * Where the part arrives. Where the result belongs, if nothing that the root sends is there: then in halves of what is left, so that copies are few, each is
 * reduced while the next, half as long, comes, and the last one, whose sum nothing hides, is short. Else in slots of the root's scratch, in chunks that are alike; a
 * slot is written again after the root has told that what was there is reduced.
 */
#include <math.h>
#include <string.h>
#include "core/agreement.h"
#include "core/base/sizes.h"
#include "core/direct.h"
#include "core/pipeline.h"
#include "core/plan/algorithm.h"
#include "core/plan/model.h"

enum {
    SLOTS = 4,                 /* of scratch, and so copies that are on their way at once */
    HALVES = GPUCOLL_MAX_LOCAL /* copies that may be, where the result takes them: all */
};

static const uint64_t page = 4096;
static const uint64_t least_chunk = (uint64_t)1 << 20;
/* The last half: a shorter one comes sooner than the host has seen to the kernel of the one before, which gains nothing (docs/design-direct.md, "Reduce of two
 * ranks"). */
static const uint64_t last_half = (uint64_t)8 << 20;

/* ---- the plan ---- */

static uint64_t slot_bytes(uint64_t data_bytes)
{
    return data_bytes / SLOTS / page * page;
}

static double link_bandwidth(const struct gpucoll_plan_input *input)
{
    return input->model->copy_link_share * input->bandwidth;
}

/* Of halves, the last one. In slots each chunk costs a copy, and the last one half of its time at the end. */
static uint64_t chunk_bytes(const struct gpucoll_plan_input *input)
{
    const uint64_t most = input->room ? UINT64_MAX : slot_bytes(input->data_bytes);
    if (input->config->chunk > 0) {
        return gpucoll_smaller(gpucoll_round_up(input->config->chunk, page), most);
    }
    const double all_us = (double)input->bytes / link_bandwidth(input) * 1e6;
    const double chunks = sqrt(all_us / 2 / input->model->copy_each_us);
    const uint64_t chunk = (uint64_t)((double)input->bytes / (chunks < 1 ? 1 : chunks));
    return input->room ? last_half
                       : gpucoll_smaller(gpucoll_round_up(gpucoll_larger(chunk, least_chunk), page), most);
}

static uint64_t chunks_of(uint64_t bytes, uint64_t chunk, bool halves)
{
    uint64_t chunks = 1;
    if (!halves) {
        return (bytes + chunk - 1) / chunk;
    }
    while (chunks < HALVES && bytes >> (chunks - 1) > chunk) {
        chunks++;
    }
    return chunks;
}

static const char *unusable(const struct gpucoll_plan_input *input)
{
    const uint64_t most_chunks = (1u << 24) - 1; /* as the board counts them */
    if (input->nranks != 2) {
        return "it is for two ranks";
    }
    if (!input->room && (input->unattended || gpucoll_turns(input) > 1)) {
        return "in place, or into memory that is not aligned, it needs the host between its chunks, and "
               "nobody "
               "waits in the call, or ranks have a GPU in turn";
    }
    if (slot_bytes(input->data_bytes) == 0) {
        return "the scratch area is too small";
    }
    return !input->room && input->bytes / chunk_bytes(input) >= most_chunks
               ? "the message has too many chunks, which the scratch area or coll_gpucoll_chunk keeps short"
               : NULL;
}

static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    plan->threads = gpucoll_whole_warps(input->config->threads);
    plan->ctas = gpucoll_model_sum_ctas(input);
    plan->chunk_bytes = chunk_bytes(input);
    plan->rounds = chunks_of(input->bytes, plan->chunk_bytes, input->room);
    const double last = (double)gpucoll_smaller(plan->chunk_bytes, input->bytes);
    plan->predicted_us = gpucoll_model_copies_us(input, (double)input->bytes, (unsigned)plan->rounds, 0) +
                         gpucoll_model_sum_us(input, last, plan->ctas);
}

/* ---- the call ---- */

static bool is_root(const struct gpucoll_request *request)
{
    return request->team->rank == request->root;
}

static const char *own_part(const struct gpucoll_request *request)
{
    return request->runs.run[request->root].send;
}

static uint64_t begin_of(const struct gpucoll_request *request, uint64_t chunk)
{
    const uint64_t line = 128;
    if (chunk >= request->plan.rounds) {
        return request->bytes;
    }
    return request->room ? (request->bytes - (request->bytes >> chunk)) / line * line
                         : chunk * request->plan.chunk_bytes;
}

static uint64_t bytes_of(const struct gpucoll_request *request, uint64_t chunk)
{
    return begin_of(request, chunk + 1) - begin_of(request, chunk);
}

/* Where the root has what the other rank has sent, as this rank sees it. */
static char *place_of(const struct gpucoll_request *request, uint64_t chunk)
{
    const uint32_t root = request->root;
    if (request->room) {
        char *result = is_root(request) ? request->runs.run[root].recv : gpucoll_direct_result(request, root);
        return result + begin_of(request, chunk);
    }
    char *lane = (char *)request->links->scratch[root] + gpucoll_agreement_post(request, root)->lane;
    return lane + gpucoll_lane_bytes(0) + chunk % SLOTS * slot_bytes(request->gpu->data_bytes);
}

static gpucoll_status start(struct gpucoll_request *request)
{
    gpucoll_pipeline_start(request);
    return GPUCOLL_OK;
}

/* Two operands, in the order of ranks. */
static gpucoll_status reduce_chunks(struct gpucoll_request *request, uint32_t count)
{
    const uint64_t chunk = request->pipeline.reduced;
    const uint64_t at = begin_of(request, chunk);
    struct gpucoll_kernel_args args;
    memset(&args, 0, offsetof(struct gpucoll_kernel_args, peer));
    args.send = own_part(request) + at;
    args.recv = (char *)request->runs.run[request->root].recv + at;
    args.bytes = begin_of(request, chunk + count) - at;
    args.rank = request->team->rank;
    args.nranks = request->team->size;
    for (uint32_t i = 0; i < args.nranks; i++) {
        args.peer[i] = (struct gpucoll_kernel_peer){.lane = place_of(request, chunk)};
    }
    request->pipeline.reducing = count;
    return gpucoll_kernel_start(request, GPUCOLL_KERNEL_REDUCE_BLOCKS, &args);
}

/* The root: reduces what has come, of halves all of it at once, of slots one at a time, and tells that they are free. */
static gpucoll_status reduce_more(struct gpucoll_request *request)
{
    struct gpucoll_pipeline *pipeline = &request->pipeline;
    const struct gpucoll_accel_ops *ops = request->gpu->device->accel->ops;
    if (pipeline->reducing > 0) {
        gpucoll_status status = ops->stream_poll(request->lane->stream);
        if (status != GPUCOLL_OK) {
            return status == GPUCOLL_IN_PROGRESS ? GPUCOLL_OK : status;
        }
        pipeline->reduced += pipeline->reducing;
        pipeline->reducing = 0;
        gpucoll_pipeline_tell(request, GPUCOLL_FLOW_REDUCED, pipeline->reduced);
    }
    const uint32_t come = gpucoll_pipeline_told(request, GPUCOLL_FLOW_SENT, 1 - request->root);
    const uint32_t count = come - pipeline->reduced;
    return count > 0 ? reduce_chunks(request, request->room ? count : 1) : GPUCOLL_OK;
}

/* The other rank: sends as long as there is a place. */
static gpucoll_status send_more(struct gpucoll_request *request)
{
    struct gpucoll_pipeline *pipeline = &request->pipeline;
    const uint32_t most =
        request->room ? HALVES : gpucoll_pipeline_told(request, GPUCOLL_FLOW_REDUCED, request->root) + SLOTS;
    gpucoll_status status = GPUCOLL_OK;
    while (status == GPUCOLL_OK && pipeline->queued < request->plan.rounds && pipeline->queued < most) {
        const uint64_t chunk = pipeline->queued++;
        status = gpucoll_pipeline_copy(request, request->root, place_of(request, chunk),
                                       own_part(request) + begin_of(request, chunk), bytes_of(request, chunk),
                                       &pipeline->sending[chunk % HALVES]);
    }
    return status == GPUCOLL_OK ? gpucoll_pipeline_count_sent(request, HALVES) : status;
}

static gpucoll_status progress(struct gpucoll_request *request)
{
    const struct gpucoll_pipeline *pipeline = &request->pipeline;
    const bool root = is_root(request);
    if (request->in_barrier) {
        return gpucoll_pipeline_end(request);
    }
    gpucoll_status status = root ? reduce_more(request) : send_more(request);
    if (status != GPUCOLL_OK) {
        return status;
    }
    if ((root ? pipeline->reduced : pipeline->sent) == request->plan.rounds) {
        return gpucoll_pipeline_end(request);
    }
    const bool busy = root ? pipeline->reducing > 0 : pipeline->queued > pipeline->sent;
    return gpucoll_pipeline_idle(request, busy ? request->team->rank : 1 - request->team->rank);
}

const struct gpucoll_algorithm gpucoll_reduce_pair = {
    .name = "pair",
    .protocol = "copy",
    .help =
        "of two ranks: a copy engine brings the other rank's part to the root, where short kernels add the "
        "own one; for large messages in buffers that are used again",
    .direct = true,
    .last_kernels = true,
    .rank_order = true,
    .coll = GPUCOLL_REDUCE,
    .unusable = unusable,
    .shape = shape,
    .start = start,
    .progress = progress,
    .stop = gpucoll_pipeline_stop,
};
