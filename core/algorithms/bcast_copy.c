/*
 * Direct broadcast of long messages along a chain: each rank's copy engine writes chunk after chunk to the next rank's buffer, as they
 * come. Every byte leaves each rank but the last once, and arrives at each but the root once: the least there is. No two ranks write to
 * one, which is what copies suffer from (docs/design-direct.md).
 */
#include <math.h>
#include "core/direct.h"
#include "core/pipeline.h"
#include "core/plan/algorithm.h"
#include "core/plan/model.h"

/* Chunks that a rank has queued at a time: the next follows without the host. */
enum { AHEAD = 4 };

static const uint64_t least_chunk = (uint64_t)1 << 20;

/* The last rank gets its first chunk after all others have had it; each chunk takes a copy. */
static uint64_t chunk_bytes(const struct gpucoll_plan_input *input)
{
    const struct gpucoll_model *model = input->model;
    const uint64_t line = 128;
    const uint64_t page = 4096;
    if (input->config->chunk > 0) {
        const uint64_t least = input->bytes >> 23; /* boards count the chunks of a call in 24 bits */
        const uint64_t asked = input->config->chunk > least ? input->config->chunk : least;
        return (asked + page - 1) / page * page;
    }
    const double all_us = (double)input->bytes / (model->copy_link_share * input->bandwidth) * 1e6;
    const double chunks = sqrt((input->nranks - 2) * all_us / model->copy_each_us);
    const uint64_t chunk = (uint64_t)((double)input->bytes / (chunks < 1 ? 1 : chunks));
    return chunk < least_chunk ? least_chunk : (chunk + line - 1) / line * line;
}

static const char *unusable(const struct gpucoll_plan_input *input)
{
    return input->nranks < 3 ? "with two ranks there is no chain" : NULL;
}

static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = input->model;
    const uint32_t between = input->nranks - 2;
    plan->chunk_bytes = chunk_bytes(input);
    plan->rounds = (input->bytes + plan->chunk_bytes - 1) / plan->chunk_bytes;
    const double first = (double)between * (double)plan->chunk_bytes;
    const double copies = (double)(plan->rounds + between);
    plan->predicted_us = gpucoll_model_copies_us(input, (double)input->bytes + first, 0, between) +
                         copies * model->copy_each_us;
}

static gpucoll_status start(struct gpucoll_request *request)
{
    gpucoll_pipeline_start(request);
    return GPUCOLL_OK;
}

/* Sends the next chunk on. */
static gpucoll_status queue_chunk(struct gpucoll_request *request, uint32_t next)
{
    struct gpucoll_pipeline *pipeline = &request->pipeline;
    const bool is_root = request->team->rank == request->root;
    const struct gpucoll_kernel_run *run = &request->runs.run[is_root ? next : request->root];
    const char *from = is_root ? run->send : run->recv;
    const uint64_t at = pipeline->queued * request->plan.chunk_bytes;
    const uint64_t left = request->bytes - at;
    const uint64_t bytes = left < request->plan.chunk_bytes ? left : request->plan.chunk_bytes;
    struct gpucoll_copy_ticket *ticket = &pipeline->sending[pipeline->queued % AHEAD];
    pipeline->queued++;
    return gpucoll_pipeline_copy(request, next, (char *)gpucoll_direct_result(request, next) + at, from + at,
                                 bytes, ticket);
}

static gpucoll_status progress(struct gpucoll_request *request)
{
    const struct gpucoll_team *team = request->team;
    struct gpucoll_pipeline *pipeline = &request->pipeline;
    const uint32_t next = (team->rank + 1) % team->size;
    const uint32_t before = (team->rank + team->size - 1) % team->size;
    const uint32_t chunks = (uint32_t)request->plan.rounds;
    if (next == request->root) { /* the last rank sends nothing */
        return gpucoll_pipeline_end(request);
    }
    const uint32_t here =
        team->rank == request->root ? chunks : gpucoll_pipeline_told(request, GPUCOLL_FLOW_SENT, before);
    gpucoll_status status = GPUCOLL_OK;
    while (status == GPUCOLL_OK && pipeline->queued < here && pipeline->queued - pipeline->sent < AHEAD) {
        status = queue_chunk(request, next);
    }
    if (status == GPUCOLL_OK) {
        status = gpucoll_pipeline_count_sent(request, AHEAD);
    }
    if (status != GPUCOLL_OK) {
        return status;
    }
    return pipeline->sent == chunks
               ? gpucoll_pipeline_end(request)
               : gpucoll_pipeline_idle(request, here > pipeline->sent ? team->rank : before);
}

const struct gpucoll_algorithm gpucoll_bcast_copy = {
    .name = "chain",
    .protocol = "copy",
    .help =
        "each rank's copy engine passes the message on to the next rank, in chunks; takes no SM; for large "
        "messages in buffers that are used again",
    .direct = true,
    .spares_sms = true,
    .coll = GPUCOLL_BCAST,
    .steps = true,
    .unusable = unusable,
    .shape = shape,
    .start = start,
    .progress = progress,
    .stop = gpucoll_pipeline_stop,
};
