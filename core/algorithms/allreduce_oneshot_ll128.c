/*
 * One-shot all-reduce of two ranks over LL128: they swap their messages, and each reduces both in rank order. As many bytes as two-shot
 * stores between two ranks, with one store latency instead of two. (LL128: "Demystifying NCCL", table I.)
 */
#include "core/plan/algorithm.h"
#include "core/plan/model.h"

static const char *unusable(const struct gpucoll_plan_input *input)
{
    if (input->nranks != 2) {
        return "it is for two ranks; between more, two-shot stores less";
    }
    if (!input->whole_lines) {
        return "a link between the GPUs may tear a line of 128 bytes";
    }
    if (gpucoll_ll128_lines(input->bytes, 1) > GPUCOLL_STREAM_MOST_LINES) {
        return "the message has too many packs";
    }
    return NULL;
}

/* Of what a hop takes beside the link's latency (plans of 2 H100); and more with a crew of as many CTAs as the sizes ask for at which it is the best plan
 * (plans of 2 H200). */
static const double swap_hop_us = 1.0, crew_us = 1.1;

/* Lines are loaded and stored several at once: a CTA stores as much as to three peers (2 H100, docs/design-protocols.md). */
static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const double flags = (double)(GPUCOLL_LINE_PACKS + 1) / GPUCOLL_LINE_PACKS;
    const struct gpucoll_lines lines = {
        .hops = 1,
        .hop_us = swap_hop_us + (input->crew > 0 ? crew_us : 0),
        .packed = flags * (double)input->bytes,
        .stored = flags * (double)input->bytes,
        .cta_bandwidth = input->model->ll128_cta_bandwidth,
        .together = 3,
        .most_ctas = gpucoll_stream_ctas(gpucoll_whole_warps(input->config->threads)),
        .alike = gpucoll_ll128_lines(input->bytes, 1) > gpucoll_stream_room(),
        .kernel = GPUCOLL_KERNEL_SWAP_LL128,
    };
    gpucoll_model_shape_lines(input, &lines, plan);
}

static gpucoll_status start(struct gpucoll_request *request)
{
    return gpucoll_kernel_start_call(request, GPUCOLL_KERNEL_SWAP_LL128);
}

const struct gpucoll_algorithm gpucoll_allreduce_oneshot_ll128 = {
    .name = "oneshot",
    .protocol = "ll128",
    .help = "one kernel: two ranks swap their messages, lines with their flags; for middle sizes over NVLink",
    .coll = GPUCOLL_ALLREDUCE,
    .rank_order = true,
    .waits = true,
    .unusable = unusable,
    .shape = shape,
    .start = start,
    .progress = gpucoll_kernel_wait,
};
