/*
 * Exchange over LL128: each run in one pass, by lines that carry their flags. For runs of some ten KiB to some MiB, over links that keep lines
 * whole. (LL128: "Demystifying NCCL", table I.)
 */
#include "core/exchange.h"
#include "core/plan/model.h"

static const char *unusable(const struct gpucoll_plan_input *input)
{
    if (!input->whole_lines) {
        return "a link between the GPUs may tear a line of 128 bytes";
    }
    if (gpucoll_ll128_lines(input->bytes, 1) > gpucoll_ll128_run_capacity(input->nranks)) {
        return input->nranks == 2 ? "a part of the message has too many packs"
                                  : "a part of the message is larger than the LL128 area of a lane";
    }
    return NULL;
}

/* Of what a hop takes beside the link's latency: with one peer, with several, and where what comes from several is reduced (plans of 4 H100). */
static const double pair_hop_us = 1.6, several_hop_us = 2.4, one_by_one_hop_us = 2.7;

/* More of a crew: to one peer (plans of 2 H200), and where it moves to several (plans of 4 H100). */
static const double pair_crew_us = 0.8, several_crew_us = 0.9;

/* Between two ranks what is not reduced comes later, both ways or from the root alone (halfway between plans of 2 H100 and of 2 H200). */
static const struct gpucoll_share of_pair = {.share = 0.6, .most_us = 2.2},
                                  from_root = {.share = 0.6, .most_us = 1};

/* Where one of two sends and the other reduces: what is not seen of the bytes' time, and how fast the first rank of a scan copies its own part at the end
 * (the same). */
static const struct gpucoll_share one_way = {.share = 0.05, .most_us = 1};
static const double kept_bandwidth = 1e12;

/* What several send at once comes sooner than it is reduced; and what all only move comes later, too. (plans of 4 H100 and 4 H200) */
static const struct gpucoll_share reduced = {.share = 0.9, .most_us = 2, .after_us = 0.15},
                                  moved = {.share = 0.8, .most_us = 1};

static double late_us(const struct gpucoll_plan_input *input, double sent)
{
    if (gpucoll_coll_reduces(input->coll)) {
        return gpucoll_model_share_us(input, sent, reduced);
    }
    return gpucoll_goes_from_root(input->coll) ? 0 : gpucoll_model_share_us(input, sent, moved);
}

static double longer_us(const struct gpucoll_plan_input *input, double sent)
{
    if (input->nranks > 2) {
        return late_us(input, sent);
    }
    if (!gpucoll_coll_reduces(input->coll)) {
        return gpucoll_model_share_us(input, sent, gpucoll_goes_from_root(input->coll) ? from_root : of_pair);
    }
    if (!gpucoll_goes_one_way(input)) {
        return 0;
    }
    const double kept = input->coll == GPUCOLL_SCAN ? (double)input->bytes / kept_bandwidth * 1e6 : 0;
    return kept - gpucoll_model_share_us(input, sent, one_way);
}

/* Lines are loaded and stored several at once, so a CTA stores as much as to three peers, or to as many as there are; but where more than one
 * source is reduced, a line at a time. (docs/design-protocols.md) */
static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const bool reduces = gpucoll_coll_reduces(input->coll);
    const uint32_t peers = input->nranks - 1;
    const bool one_by_one = reduces && peers > 1;
    const double flags = (double)(GPUCOLL_LINE_PACKS + 1) / GPUCOLL_LINE_PACKS;
    const double sent = flags * (double)input->bytes * peers;
    const struct gpucoll_lines lines = {
        .hops = 1,
        .hop_us = one_by_one  ? one_by_one_hop_us
                  : peers > 1 ? several_hop_us + (input->crew > 0 ? several_crew_us : 0)
                              : pair_hop_us + (input->crew > 0 ? pair_crew_us : 0),
        .longer_us = longer_us(input, sent),
        .packed = sent,
        .stored = sent,
        .cta_bandwidth = input->model->ll128_cta_bandwidth,
        .together = one_by_one || peers > 3 ? peers : 3,
        .most_ctas = peers == 1 ? gpucoll_stream_ctas(gpucoll_whole_warps(input->config->threads)) : 0,
        .alike = peers == 1 && gpucoll_ll128_lines(input->bytes, 1) > gpucoll_stream_room(),
        .kernel = reduces ? GPUCOLL_KERNEL_REDUCE_LL128 : GPUCOLL_KERNEL_MOVE_LL128,
    };
    gpucoll_model_shape_lines(input, &lines, plan);
}

static gpucoll_status start(struct gpucoll_request *request)
{
    return gpucoll_exchange_start(request, GPUCOLL_KERNEL_REDUCE_LL128, GPUCOLL_KERNEL_MOVE_LL128);
}

const struct gpucoll_algorithm gpucoll_exchange_ll128 = {
    .name = "exchange",
    .protocol = "ll128",
    .help =
        "one kernel: every rank stores to its peers, each line with its flag; for middle sizes over NVLink",
    .coll = GPUCOLL_ANY_EXCHANGE,
    .rank_order = true,
    .waits = true,
    .unusable = unusable,
    .shape = shape,
    .start = start,
    .progress = gpucoll_exchange_wait,
};
