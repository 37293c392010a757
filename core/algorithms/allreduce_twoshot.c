/*
 * Two-shot all-reduce by stores only: each rank stores slice p of its message to rank p, reduces its own slice of all ranks in rank
 * order, and stores the result to everyone. 2 (n - 1) / n of the message leaves each GPU: the least there is. (Reduce-scatter
 * and all-gather, Rabenseifner 2004, in their direct form for fully connected GPUs.)
 */
#include <math.h>
#include "core/algorithms/twoshot.h"
#include "core/plan/algorithm.h"
#include "core/plan/model.h"

/* Less than this for a channel and the fixed cost of its flags outweighs what another channel brings. */
static const uint64_t least_channel_bytes = 8192;
/* Nor is a block ever smaller than this: with many ranks and little scratch there are fewer channels instead. */
static const uint64_t least_block_bytes = 1024;

/* What stores to several peers at once take longer than to one, and at most so long (4 H100, 4 to 64 MiB). */
static const double several_peers = 0.06, several_peers_us = 10;

void gpucoll_twoshot_shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = input->model;
    const double leaves = 2.0 * (input->nranks - 1) / input->nranks * (double)input->bytes;
    uint64_t most = input->data_bytes / (least_block_bytes * 2 * GPUCOLL_SLOTS * input->nranks);
    const bool many = gpucoll_may_have_many(input, leaves) && most >= GPUCOLL_MANY_CTAS;
    const uint32_t allowed = many ? GPUCOLL_MANY_CTAS : gpucoll_most_ctas(input);
    most = most < allowed ? most : allowed;
    double share = gpucoll_wanted_ctas(input, (double)input->bytes / (double)least_channel_bytes);
    uint64_t ctas = (uint64_t)ceil(share);
    plan->threads = gpucoll_whole_warps(many ? input->config->threads / 2 : input->config->threads);
    plan->ctas = (uint32_t)(ctas == 0 ? 1 : ctas < most ? ctas : most);
    uint64_t begin;
    uint64_t end;
    gpucoll_channel_range(input->bytes, plan->ctas, 0, &begin, &end); /* the first channel has the most */
    uint64_t round = gpucoll_block_bytes(input->data_bytes, input->nranks, plan->ctas) * input->nranks;
    uint64_t bytes = end > begin ? (end - begin) * GPUCOLL_PACK_BYTES : 1;
    plan->rounds = (bytes + round - 1) / round;
    plan->predicted_us =
        (many ? gpucoll_model_many_share : 1) *
        gpucoll_model_transfer_us(input, leaves, share, (double)most, model->simple_cta_bandwidth);
    if (input->nranks > 2) {
        const double longer = several_peers * plan->predicted_us;
        plan->predicted_us += longer < several_peers_us ? longer : several_peers_us;
    }
}

/* Of a step, for beside its fence the CTA meets before it takes in what has come. */
static const double step_fences = 1.3;

void gpucoll_twoshot_simple_shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = input->model;
    gpucoll_twoshot_shape(input, plan);
    plan->predicted_us +=
        model->agree_us + model->launch_us + 2 * (input->latency_us + step_fences * model->fence_us);
}

static gpucoll_status start(struct gpucoll_request *request)
{
    return gpucoll_kernel_start_call(request, GPUCOLL_KERNEL_TWOSHOT);
}

const struct gpucoll_algorithm gpucoll_allreduce_twoshot = {
    .name = "twoshot",
    .protocol = "simple",
    .help = "one kernel, in rounds: reduce-scatter then all-gather by stores; least traffic",
    .coll = GPUCOLL_ALLREDUCE,
    .rank_order = true,
    .waits = true,
    .shape = gpucoll_twoshot_simple_shape,
    .start = start,
    .progress = gpucoll_kernel_wait,
};
