/*
 * Phased exchange: the exchange over Simple, one stage a launch, with barriers of the hosts between. No
 * kernel ever waits for another, so it works where the ranks' kernels cannot run side by side: several ranks
 * on one GPU.
 *
 * Two rounds (both slots) make a pass: SEND, barrier, take, barrier. The first barrier shows that what is
 * taken is there, the second that the blocks which the next pass overwrites have been taken; the last pass
 * needs none.
 */
#include "core/exchange.h"
#include "core/plan/model.h"

static const char *unusable(const struct gpucoll_plan_input *input)
{
    struct gpucoll_plan plan;
    gpucoll_exchange_shape(input, &plan);
    return gpucoll_phase_unusable(plan.rounds);
}

static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = input->model;
    gpucoll_exchange_shape(input, plan);
    double passes = (double)((plan->rounds + GPUCOLL_SLOTS - 1) / GPUCOLL_SLOTS);
    plan->predicted_us += model->agree_us + passes * 2 * (model->launch_us + model->barrier_us);
}

static enum gpucoll_kernel kernel_of(const struct gpucoll_request *request)
{
    return gpucoll_coll_reduces(request->coll) ? GPUCOLL_KERNEL_REDUCE : GPUCOLL_KERNEL_MOVE;
}

static gpucoll_status start(struct gpucoll_request *request)
{
    return gpucoll_phase_start(request, kernel_of(request));
}

static gpucoll_status next_stage(struct gpucoll_request *request)
{
    if (request->stage == GPUCOLL_STAGE_SEND) {
        request->stage = GPUCOLL_STAGE_REDUCE;
    } else {
        request->stage = GPUCOLL_STAGE_SEND;
        request->next_round += GPUCOLL_SLOTS;
    }
    return gpucoll_phase_launch(request, kernel_of(request));
}

static gpucoll_status progress(struct gpucoll_request *request)
{
    const uint64_t next_pass = request->next_round + GPUCOLL_SLOTS;
    bool last = request->stage == GPUCOLL_STAGE_REDUCE && next_pass >= request->plan.rounds;
    gpucoll_status status = gpucoll_phase_wait(request, !last);
    return status == GPUCOLL_OK && !last ? next_stage(request) : status;
}

const struct gpucoll_algorithm gpucoll_exchange_phased = {
    .name = "phased",
    .protocol = "simple",
    .help =
        "the exchange in two kernels with host barriers between: no kernel waits; for ranks that share a GPU",
    .coll = GPUCOLL_ANY_EXCHANGE,
    .late_kernels = true,
    .phases = 2,
    .rank_order = true,
    .unusable = unusable,
    .shape = shape,
    .start = start,
    .progress = progress,
};
