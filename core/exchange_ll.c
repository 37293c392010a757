/*
 * Exchange over LL: each run in one pass, its words carrying their own flags. For short runs.
 */
#include "core/exchange.h"
#include "core/model.h"

static const char *unusable(const struct gpucoll_plan_input *input)
{
    if (input->bytes > gpucoll_ll_capacity(input->nranks)) {
        return "a part of the message is larger than the LL area of a lane";
    }
    return NULL;
}

static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = input->model;
    const double most = gpucoll_most_ctas(input);
    const double stored = 2.0 * (double)input->bytes * (input->nranks - 1); /* half of each word is flag */
    plan->threads = gpucoll_whole_warps(input->config->threads);
    /* A CTA for every pack that each thread can take. */
    double share = (double)input->bytes * (input->nranks - 1) / ((double)plan->threads * GPUCOLL_PACK_BYTES);
    double ctas = gpucoll_wanted_ctas(input, share);
    plan->ctas = ctas + 1 < most ? (uint32_t)(ctas + 1) : (uint32_t)most;
    plan->predicted_us = model->agree_us + model->launch_us + model->hop_us + input->latency_us +
                         gpucoll_model_transfer_us(input, stored, ctas, most, model->ll_cta_bandwidth);
}

static gpucoll_status start(struct gpucoll_request *request)
{
    return gpucoll_exchange_start(request, GPUCOLL_KERNEL_REDUCE_LL, GPUCOLL_KERNEL_MOVE_LL);
}

const struct gpucoll_algorithm gpucoll_exchange_ll = {
    .name = "exchange",
    .protocol = "ll",
    .help = "one kernel: every rank stores to its peers, and takes what they have stored; lowest latency",
    .coll = GPUCOLL_ANY_EXCHANGE,
    .rank_order = true,
    .waits = true,
    .unusable = unusable,
    .shape = shape,
    .start = start,
    .progress = gpucoll_exchange_wait,
};
