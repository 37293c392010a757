/*
 * One-shot all-reduce: every rank stores its whole message to every peer by the LL protocol and reduces all of them itself,
 * in rank order. One store latency, (n - 1) times the traffic: for small messages. (The one-phase all-pairs algorithm of
 * MSCCL++, Shah et al. 2025; LL from "Demystifying NCCL", table I.)
 */
#include "core/plan/algorithm.h"
#include "core/plan/model.h"

static const char *unusable(const struct gpucoll_plan_input *input)
{
    if (input->bytes > gpucoll_ll_capacity(input->nranks)) {
        return "the message is larger than the LL area of a lane";
    }
    return NULL;
}

/* Calls in a row do, without waiting for posts (core/early.h); for others a kernel that lingers is not there. */
static bool may_begin_early(const struct gpucoll_plan_input *input, const struct gpucoll_plan *plan)
{
    return plan->linger && input->config->early && !input->unattended && !input->crowded &&
           input->bytes <= GPUCOLL_INBOX_BYTES &&
           gpucoll_leader_suffices(GPUCOLL_KERNEL_ONESHOT, input->bytes, input->nranks, plan->threads);
}

static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const struct gpucoll_lines lines = {
        .hops = 1,
        .hop_us = input->model->hop_us,
        .packed = (double)input->bytes,
        .stored = 2.0 * (double)input->bytes * (input->nranks - 1), /* half of each word is flag */
        .cta_bandwidth = input->model->ll_cta_bandwidth,
        .together = input->nranks - 1,
        .kernel = GPUCOLL_KERNEL_ONESHOT,
    };
    gpucoll_model_shape_lines(input, &lines, plan);
    if (may_begin_early(input, plan)) {
        plan->predicted_us -= input->model->agree_us;
    }
}

static gpucoll_status start(struct gpucoll_request *request)
{
    return gpucoll_kernel_start_call(request, GPUCOLL_KERNEL_ONESHOT);
}

const struct gpucoll_algorithm gpucoll_allreduce_oneshot = {
    .name = "oneshot",
    .protocol = "ll",
    .help = "one kernel: all to all, every rank reduces everything; lowest latency",
    .coll = GPUCOLL_ALLREDUCE,
    .rank_order = true,
    .inboxes = true,
    .waits = true,
    .unusable = unusable,
    .shape = shape,
    .start = start,
    .progress = gpucoll_kernel_wait,
};
