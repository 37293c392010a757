/*
 * One-shot all-reduce: every rank stores its whole message to every peer by the LL protocol and reduces all of them itself,
 * in rank order. One store latency, (n - 1) times the traffic: for small messages.
 */
#include "core/algorithm.h"
#include "core/model.h"

static const char *unusable(const struct gpucoll_plan_input *input)
{
    if (input->shared_device) {
        return "two ranks share a GPU, where kernels that wait for each other cannot run side by side";
    }
    if (input->bytes > gpucoll_ll_capacity(input->nranks)) {
        return "the message is larger than the LL area of a lane";
    }
    return NULL;
}

static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = &gpucoll_model_default;
    uint64_t packs = (input->bytes + GPUCOLL_PACK_BYTES - 1) / GPUCOLL_PACK_BYTES;
    plan->threads = gpucoll_whole_warps(input->config->threads);
    uint64_t ctas = (packs + plan->threads - 1) / plan->threads;
    uint64_t most = (uint64_t)input->config->max_ctas;
    plan->ctas = (uint32_t)(ctas == 0 ? 1 : ctas < most ? ctas : most);
    double stored = 2.0 * (double)input->bytes * (input->nranks - 1);
    double share = (double)packs / plan->threads; /* without steps, or the prediction would fall at each new CTA */
    double bandwidth = gpucoll_model_bandwidth(model->ll_bandwidth, share, (double)most, input->bandwidth);
    plan->predicted_us = model->agree_us + model->launch_us + input->latency_us + stored / bandwidth * 1e6;
}

static gpucoll_status start(struct gpucoll_request *request)
{
    struct gpucoll_kernel_args args;
    gpucoll_kernel_args_init(request, &args);
    return gpucoll_kernel_start(request, GPUCOLL_KERNEL_ONESHOT, &args);
}

const struct gpucoll_algorithm gpucoll_allreduce_oneshot = {
    .name = "oneshot",
    .help = "one kernel, LL protocol: all to all, every rank reduces everything; lowest latency",
    .coll = GPUCOLL_ALLREDUCE,
    .unusable = unusable,
    .shape = shape,
    .start = start,
    .progress = gpucoll_kernel_wait,
};
