/*
 * Exchange over Simple, in rounds through the data area of the lanes. For long runs.
 */
#include "core/exchange.h"
#include "core/plan/model.h"

/* Less than this for a channel and the fixed cost of its flags outweighs what another channel brings. */
static const uint64_t least_channel_bytes = 8192;
/* Nor is a block ever smaller than this: with many ranks and little scratch there are fewer channels instead.
 */
static const uint64_t least_block_bytes = 1024;

/* How much longer the kernel takes that reduces and sends by turns than one that only sends: 290 GB/s where that reaches 333
 * (docs/design-rings.md). */
static const double reduce_share = 1.15;
/* And of its first round, which is not yet reduced beside another that comes. */
static const double first_share = 0.14;
/* Nor is it over with one fence: the CTA meets again before it takes in what has come. */
static const double reduce_fences = 1.6;

void gpucoll_exchange_shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = input->model;
    uint64_t most = input->data_bytes / (least_block_bytes * GPUCOLL_SLOTS * input->nranks);
    most = most < gpucoll_most_ctas(input) ? most : gpucoll_most_ctas(input);
    double leaves = (double)(input->nranks - 1) * (double)input->bytes;
    double share = gpucoll_wanted_ctas(input, leaves / (double)least_channel_bytes);
    plan->threads = gpucoll_whole_warps(input->config->threads);
    plan->ctas = share + 1 < (double)most ? (uint32_t)(share + 1) : (uint32_t)most;
    uint64_t begin;
    uint64_t end;
    gpucoll_channel_range(input->bytes, plan->ctas, 0, &begin, &end); /* the first channel has the most */
    uint64_t block =
        gpucoll_exchange_block_bytes(input->data_bytes, input->nranks, plan->ctas) / GPUCOLL_PACK_BYTES;
    plan->rounds = (end - begin + block - 1) / block;
    plan->predicted_us =
        gpucoll_model_transfer_us(input, leaves, share, (double)most, model->simple_cta_bandwidth);
    if (gpucoll_coll_reduces(input->coll) && plan->rounds > 0) {
        plan->predicted_us *= reduce_share + first_share / (double)plan->rounds;
    }
}

static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = input->model;
    gpucoll_exchange_shape(input, plan);
    plan->predicted_us += model->agree_us + model->launch_us + input->latency_us +
                          model->fence_us * (gpucoll_coll_reduces(input->coll) ? reduce_fences : 1);
}

static gpucoll_status start(struct gpucoll_request *request)
{
    return gpucoll_exchange_start(request, GPUCOLL_KERNEL_REDUCE, GPUCOLL_KERNEL_MOVE);
}

const struct gpucoll_algorithm gpucoll_exchange_simple = {
    .name = "exchange",
    .protocol = "simple",
    .help = "one kernel, in rounds: every rank stores to its peers, and takes what they have stored; for "
            "large messages",
    .coll = GPUCOLL_ANY_EXCHANGE,
    .rank_order = true,
    .waits = true,
    .shape = shape,
    .start = start,
    .progress = gpucoll_exchange_wait,
};
