/*
 * Two-shot all-reduce over LL128: as allreduce_twoshot.c, but lines carry their own flags, so that there are no fences and no
 * rounds: for messages whose slices fit the LL128 area, over links that keep lines whole. (LL128: "Demystifying NCCL", table I.)
 */
#include "core/algorithms/twoshot.h"
#include "core/plan/algorithm.h"
#include "core/plan/model.h"

const char *gpucoll_twoshot_ll128_unusable(const struct gpucoll_plan_input *input)
{
    if (!input->whole_lines) {
        return "a link between the GPUs may tear a line of 128 bytes";
    }
    if (gpucoll_ll128_lines(input->bytes, input->nranks) > gpucoll_ll128_capacity(input->nranks)) {
        return "the message is larger than the LL128 area of a lane";
    }
    return NULL;
}

/* What a hop takes longer where lines of several peers are waited for (plans of 4 H100); and that they come later by so much of the bytes' time, at most
 * so long, as far as it is not what CTAs take to store them (plans of 4 H100 and of 4 H200). */
static const double several_us = 0.3;
static const struct gpucoll_share late = {.share = 1.2, .most_us = 0.9};

void gpucoll_twoshot_ll128_shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    /* Not rounded to whole lines, so that a prediction has no steps. */
    const double flags = (double)(GPUCOLL_LINE_PACKS + 1) / GPUCOLL_LINE_PACKS;
    const double stored = flags * 2 * (input->nranks - 1) / input->nranks * (double)input->bytes;
    const struct gpucoll_lines lines = {
        .hops = 2,
        .hop_us = input->model->hop_us + (input->nranks > 2 ? several_us : 0),
        .packed = (double)input->bytes,
        .stored = stored,
        .longer_us = input->nranks > 2 ? gpucoll_model_share_us(input, stored, late) : 0,
        .cta_bandwidth = input->model->ll128_cta_bandwidth,
        .together = input->nranks - 1,
        .kernel = GPUCOLL_KERNEL_TWOSHOT_LL128,
    };
    gpucoll_model_shape_lines(input, &lines, plan);
}

static gpucoll_status start(struct gpucoll_request *request)
{
    return gpucoll_kernel_start_call(request, GPUCOLL_KERNEL_TWOSHOT_LL128);
}

const struct gpucoll_algorithm gpucoll_allreduce_twoshot_ll128 = {
    .name = "twoshot",
    .protocol = "ll128",
    .help = "one kernel: reduce-scatter then all-gather by stores, each line with its flag; for middle sizes "
            "over NVLink",
    .coll = GPUCOLL_ALLREDUCE,
    .rank_order = true,
    .waits = true,
    .unusable = gpucoll_twoshot_ll128_unusable,
    .shape = gpucoll_twoshot_ll128_shape,
    .start = start,
    .progress = gpucoll_kernel_wait,
};
