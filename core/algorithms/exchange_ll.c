/*
 * Exchange over LL: each run in one pass, its words carrying their own flags. For short runs.
 */
#include "core/exchange.h"
#include "core/packing.h"
#include "core/plan/model.h"

static const char *unusable(const struct gpucoll_plan_input *input)
{
    if (input->bytes > gpucoll_ll_capacity(input->nranks)) {
        return "a part of the message is larger than the LL area of a lane";
    }
    return NULL;
}

/* What it takes longer with several peers, by one CTA and by several: where what they send is moved, where a root alone sends, and where it is
 * reduced (plans of 4 H100). */
static const struct several {
    double by_one_us;
    double us;
} moved = {0.8, 1.2}, from_root = {0.4, 0.7}, reduced = {1.3, 2.1};

/* What comes later than is counted here: between two ranks what is reduced (plans of 2 H100 and of 2 H200); of several what is moved, what a root alone
 * sends, what all reduce, and what one reduces (plans of 4 H100 and of 4 H200). */
static const struct gpucoll_share of_pair = {.share = 0.2, .most_us = 0.5}, late_moved = {1.5, 1.2, 0},
                                  late_from_root = {1.3, 0.8, 0}, late_reduced = {0.9, 0.9, 0},
                                  late_at_root = {1, 0.9, 0.5};

static double late_us(const struct gpucoll_plan_input *input, double stored)
{
    const bool reduces = gpucoll_coll_reduces(input->coll);
    if (input->nranks == 2) {
        return reduces ? gpucoll_model_share_us(input, stored, of_pair) : 0;
    }
    if (reduces) {
        return gpucoll_model_share_us(input, stored,
                                      input->coll == GPUCOLL_REDUCE ? late_at_root : late_reduced);
    }
    return gpucoll_model_share_us(input, stored,
                                  gpucoll_goes_from_root(input->coll) ? late_from_root : late_moved);
}

static double several_us(const struct gpucoll_plan_input *input, enum gpucoll_kernel kernel)
{
    const struct several *several = kernel == GPUCOLL_KERNEL_REDUCE_LL    ? &reduced
                                    : gpucoll_goes_from_root(input->coll) ? &from_root
                                                                          : &moved;
    const uint32_t threads = gpucoll_whole_warps(input->config->threads);
    const bool by_one = gpucoll_leader_suffices(kernel, input->bytes, input->nranks, threads);
    return input->nranks <= 2 ? 0 : by_one ? several->by_one_us : several->us;
}

static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const double sent = (double)input->bytes * (input->nranks - 1);
    const double stored = 2 * sent; /* half of each word is flag */
    const enum gpucoll_kernel kernel =
        gpucoll_coll_reduces(input->coll) ? GPUCOLL_KERNEL_REDUCE_LL : GPUCOLL_KERNEL_MOVE_LL;
    const struct gpucoll_lines lines = {
        .hops = 1,
        .hop_us = input->model->hop_us + several_us(input, kernel),
        .longer_us = late_us(input, stored),
        .packed = sent,
        .stored = stored,
        .cta_bandwidth = input->model->ll_cta_bandwidth,
        .together = input->nranks - 1,
        .kernel = kernel,
    };
    gpucoll_model_shape_lines(input, &lines, plan);
}

static gpucoll_status start(struct gpucoll_request *request)
{
    const bool laid = request->packing != NULL && request->packing->laid;
    return gpucoll_exchange_start(request, GPUCOLL_KERNEL_REDUCE_LL,
                                  laid ? GPUCOLL_KERNEL_MOVE_LAYOUTS : GPUCOLL_KERNEL_MOVE_LL);
}

const struct gpucoll_algorithm gpucoll_exchange_ll = {
    .name = "exchange",
    .protocol = "ll",
    .help = "one kernel: every rank stores to its peers, and takes what they have stored; lowest latency",
    .coll = GPUCOLL_ANY_EXCHANGE,
    .rank_order = true,
    .lays = true,
    .waits = true,
    .unusable = unusable,
    .shape = shape,
    .start = start,
    .progress = gpucoll_exchange_wait,
};
