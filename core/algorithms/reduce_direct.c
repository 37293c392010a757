/*
 * Direct reduce: the ranks beside the root reduce a slice each, over Simple, in rounds, and store the result straight into the root's
 * buffer. No link carries more than the message: the root takes in its result only, and sends its own part. In place: a slice of the
 * root's is overwritten by the rank that has had it. (Reduce-scatter and gather, Rabenseifner 2004.)
 */
#include <string.h>
#include "core/algorithms/slices.h"
#include "core/direct.h"
#include "core/exchange.h"
#include "core/pipeline.h"
#include "core/plan/model.h"

/* Of a round, that the first one takes longer: the root takes in nothing before a round has come to those who reduce. */
static const double first_share = 0.38;

static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = input->model;
    struct gpucoll_plan_input slices = *input;
    slices.bytes = gpucoll_slice_bytes(input->bytes, input->nranks - 1);
    gpucoll_exchange_shape(&slices, plan); /* as many bytes leave a rank, and the root, as the message has */
    if (input->nranks > 2 && plan->rounds > 0) {
        plan->predicted_us *= 1 + first_share / (double)plan->rounds;
    }
    plan->predicted_us +=
        model->agree_us + model->launch_us + 2 * input->latency_us + model->fence_us + model->barrier_us;
}

static gpucoll_status start(struct gpucoll_request *request)
{
    const struct gpucoll_team *team = request->team;
    struct gpucoll_kernel_run *runs = request->runs.run;
    const char *send = runs[request->root].send;
    uint64_t own_at;
    const uint64_t own =
        gpucoll_reduced_slice(GPUCOLL_REDUCE, request->bytes, team->size, request->root, team->rank, &own_at);
    memset(runs, 0, gpucoll_kernel_runs_bytes(team->size));
    for (uint32_t i = 0; i < team->size; i++) {
        uint64_t at;
        if (i != request->root) {
            runs[i].send_bytes =
                gpucoll_reduced_slice(GPUCOLL_REDUCE, request->bytes, team->size, request->root, i, &at);
            runs[i].send = send + at;
        }
        runs[i].recv_bytes = own;
    }
    if (team->rank != request->root) {
        runs[team->rank].recv = (char *)gpucoll_direct_result(request, request->root) + own_at;
    }
    struct gpucoll_kernel_args args;
    gpucoll_kernel_args_init(request, &args);
    args.bytes = gpucoll_slice_bytes(request->bytes, team->size - 1);
    return gpucoll_kernel_start(request, GPUCOLL_KERNEL_REDUCE, &args);
}

const struct gpucoll_algorithm gpucoll_reduce_direct = {
    .name = "scatter_gather",
    .protocol = "direct",
    .help = "one kernel: every rank but the root reduces a slice and stores it into the root's buffer; for "
            "large messages in "
            "buffers that are used again",
    .direct = true,
    .coll = GPUCOLL_REDUCE,
    .rank_order = true,
    .waits = true,
    .unusable = gpucoll_slices_unusable,
    .shape = shape,
    .start = start,
    .progress = gpucoll_pipeline_end_kernel,
};
