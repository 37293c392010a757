/*
 * Phased all-reduce: the two-shot kernel, one stage a launch, with barriers of the hosts between. No kernel ever waits for
 * another, so it works where the ranks' kernels cannot run side by side: several ranks on one GPU.
 *
 * Two rounds (both slots) make a pass: SEND, barrier, REDUCE, barrier, COPY. The next pass's SEND overwrites inputs that
 * the barrier after REDUCE has shown to be consumed; its REDUCE overwrites results that its own first barrier shows to be
 * copied, since each rank copies before it sends again.
 */
#include "core/algorithms/twoshot.h"
#include "core/plan/algorithm.h"
#include "core/plan/model.h"
#include "core/request.h"

static const char *unusable(const struct gpucoll_plan_input *input)
{
    struct gpucoll_plan plan;
    gpucoll_twoshot_shape(input, &plan);
    return gpucoll_phase_unusable(plan.rounds);
}

static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = input->model;
    gpucoll_twoshot_shape(input, plan);
    double passes = (double)((plan->rounds + GPUCOLL_SLOTS - 1) / GPUCOLL_SLOTS);
    plan->predicted_us += model->agree_us + passes * (3 * model->launch_us + 2 * model->barrier_us);
}

static gpucoll_status start(struct gpucoll_request *request)
{
    return gpucoll_phase_start(request, GPUCOLL_KERNEL_TWOSHOT);
}

static gpucoll_status next_stage(struct gpucoll_request *request)
{
    if (request->stage != GPUCOLL_STAGE_COPY) {
        request->stage <<= 1;
    } else {
        request->stage = GPUCOLL_STAGE_SEND;
        request->next_round += GPUCOLL_SLOTS;
        if (request->next_round >= request->plan.rounds) {
            return GPUCOLL_OK;
        }
    }
    return gpucoll_phase_launch(request, GPUCOLL_KERNEL_TWOSHOT);
}

static gpucoll_status progress(struct gpucoll_request *request)
{
    gpucoll_status status = gpucoll_phase_wait(request, request->stage != GPUCOLL_STAGE_COPY);
    return status == GPUCOLL_OK ? next_stage(request) : status;
}

const struct gpucoll_algorithm gpucoll_allreduce_phased = {
    .name = "phased",
    .protocol = "simple",
    .help =
        "two-shot in three kernels with host barriers between: no kernel waits; for ranks that share a GPU",
    .coll = GPUCOLL_ALLREDUCE,
    .late_kernels = true,
    .phases = 3,
    .rank_order = true,
    .unusable = unusable,
    .shape = shape,
    .start = start,
    .progress = progress,
};
