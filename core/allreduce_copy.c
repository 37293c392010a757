/*
 * All-reduce of long messages, reduce-scatter by stores and all-gather by copies: a kernel reduces each rank's slice over Simple, in
 * rounds, into its place in the receive buffer; then the copy engines, which use the links better, write it to the others'. In
 * place: a slice is overwritten only by the rank that has had all ranks' parts of it. (Rabenseifner 2004.)
 */
#include "core/direct.h"
#include "core/exchange.h"
#include "core/model.h"
#include "core/pipeline.h"
#include "core/slices.h"

enum { REDUCING, COPYING }; /* request->stage */

/* How much longer the kernel takes that reduces and sends by turns than one that only sends (docs/design.md). */
static const double reduce_share = 1.15;

static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = input->model;
    struct gpucoll_plan_input slices = *input;
    slices.bytes = gpucoll_slice_bytes(input->bytes, input->nranks);
    gpucoll_exchange_shape(&slices, plan);
    plan->predicted_us *= reduce_share;
    const double leaves = (double)slices.bytes * (input->nranks - 1);
    plan->predicted_us += model->launch_us + input->latency_us + model->fence_us +
                          gpucoll_model_copies_us(input, leaves, input->nranks - 1, 0);
}

static gpucoll_status start(struct gpucoll_request *request)
{
    const struct gpucoll_team *team = request->team;
    struct gpucoll_kernel_run *runs = request->runs.run;
    uint64_t own_at;
    const uint64_t own = gpucoll_slice_at(request->bytes, team->size, team->rank, &own_at);
    for (uint32_t i = 0; i < team->size; i++) {
        uint64_t at;
        runs[i].send_bytes = gpucoll_slice_at(request->bytes, team->size, i, &at);
        runs[i].send = (const char *)request->send + at;
        runs[i].recv_bytes = own;
        runs[i].recv = (char *)request->recv + own_at;
    }
    gpucoll_pipeline_start(request);
    request->stage = REDUCING;
    struct gpucoll_kernel_args args;
    gpucoll_kernel_args_init(request, &args);
    args.bytes = gpucoll_slice_bytes(request->bytes, team->size);
    return gpucoll_kernel_start(request, GPUCOLL_KERNEL_REDUCE, &args);
}

static gpucoll_status copy_slice(struct gpucoll_request *request)
{
    const struct gpucoll_team *team = request->team;
    uint64_t at;
    const uint64_t bytes = gpucoll_slice_at(request->bytes, team->size, team->rank, &at);
    for (uint32_t turn = 1; turn < team->size; turn++) {
        const uint32_t peer = (team->rank + turn) % team->size;
        gpucoll_status status =
            gpucoll_pipeline_copy(request, peer, (char *)gpucoll_direct_result(request, peer) + at,
                                  (char *)request->recv + at, bytes, &request->pipeline.sending[0][peer]);
        if (status != GPUCOLL_OK) {
            return status;
        }
    }
    return GPUCOLL_OK;
}

static gpucoll_status progress(struct gpucoll_request *request)
{
    if (request->stage == COPYING) {
        return gpucoll_pipeline_end_copies(request);
    }
    gpucoll_status status = gpucoll_kernel_wait(request);
    if (status == GPUCOLL_OK) {
        request->stage = COPYING;
        status = copy_slice(request);
    }
    return status == GPUCOLL_OK ? GPUCOLL_IN_PROGRESS : status;
}

const struct gpucoll_algorithm gpucoll_allreduce_copy = {
    .name = "twoshot",
    .protocol = "copy",
    .help = "a kernel reduces and scatters, copy engines gather; for large messages in buffers that are used "
            "again",
    .direct = true,
    .coll = GPUCOLL_ALLREDUCE,
    .rank_order = true,
    .waits = true,
    .steps = true,
    .shape = shape,
    .start = start,
    .progress = progress,
};
