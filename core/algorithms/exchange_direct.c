/*
 * Direct exchange by a kernel: it stores the runs straight to where they belong in the peers' buffers. No slots, no flags, nobody waits
 * in a kernel; one barrier of the hosts tells that all has arrived. For runs of middle length, where copy engines take too
 * long to begin.
 */
#include "core/direct.h"
#include "core/exchange.h"
#include "core/pipeline.h"
#include "core/plan/model.h"

/* Where the root alone has a kernel no slowest one is waited for, and the links are taken one way only. (plans of 4 H200) */
static const double one_kernel_us = 0.6;
static const double one_way_share = 0.99, pair_share = 0.97;

/* A gather of two ranks: the one that stores over the link has no copy of its own beside it, which is seen from 512 KiB on. (plans of 2 H200) */
static const struct gpucoll_share of_pair_gather = {.share = 1.75, .after_us = 1.3, .most_us = 1.3};

/* Does a crew that is idle in all steps but one wait long enough for its step of the next call, which does not come quite so soon? */
static bool outlasts(const struct gpucoll_plan_input *input, unsigned steps, double step_us)
{
    const double rest_of_call = 0.8;
    return (steps - 1) * step_us < rest_of_call * input->config->linger;
}

/* The runs to peers share the CTAs with the own one, which goes over no link. */
void gpucoll_store_shape(const struct gpucoll_plan_input *input, unsigned steps, double times,
                         struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = input->model;
    const double peers = input->nranks - 1;
    const double beside = input->latency_us + model->barrier_us;
    gpucoll_exchange_shape(input, plan);
    plan->rounds = steps;
    plan->predicted_us = model->agree_us + steps * (model->launch_us + beside) + times * plan->predicted_us;

    const double cta_leaves = gpucoll_model_store_bandwidth * (peers > 0 ? peers / input->nranks : 1);
    const double link = model->link_share * input->bandwidth;
    const unsigned crew = gpucoll_model_bulk_crew(input, input->bytes, link / cta_leaves);
    if (crew > 0) {
        const double transfer =
            gpucoll_model_bulk_transfer_us(input, peers * (double)input->bytes, crew, crew, cta_leaves);
        const double step_us = gpucoll_model_bulk_ring_us(input, crew) + beside;
        if (outlasts(input, steps, step_us + transfer)) {
            gpucoll_plan_offer_crew(plan, crew, model->agree_us + steps * step_us + times * transfer);
        }
    }
}

static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const bool one_way = gpucoll_goes_from_root(input->coll);
    gpucoll_store_shape(input, 1, !one_way ? 1 : input->nranks == 2 ? pair_share : one_way_share, plan);
    const bool gathers = gpucoll_goes_to_root(input->coll);
    const double less = one_way ? one_kernel_us
                        : gathers && input->nranks == 2
                            ? gpucoll_model_share_us(input, (double)input->bytes, of_pair_gather)
                            : 0;
    plan->predicted_us -= less;
    plan->launched_us -= plan->linger ? less : 0;
}

static gpucoll_status start(struct gpucoll_request *request)
{
    if (request->idle) {
        return GPUCOLL_OK;
    }
    for (uint32_t i = 0; i < request->team->size; i++) {
        struct gpucoll_kernel_run *run = &request->runs.run[i];
        if (i != request->team->rank) {
            run->recv = run->send_bytes > 0 ? gpucoll_direct_place(request, i) : NULL;
            run->send_bytes = run->recv != NULL ? run->send_bytes : 0;
            run->recv_bytes = run->send_bytes;
        }
    }
    return gpucoll_kernel_start_call(request, GPUCOLL_KERNEL_STORE);
}

const struct gpucoll_algorithm gpucoll_exchange_direct = {
    .name = "exchange",
    .protocol = "direct",
    .help = "one kernel stores from the application's buffers to those of the peers; for messages of middle "
            "size in "
            "buffers that are used again",
    .direct = true,
    .coll = GPUCOLL_ANY_MOVE,
    .shape = shape,
    .start = start,
    .progress = gpucoll_pipeline_end_kernel,
};
