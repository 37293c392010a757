/*
 * Phased exchange: the exchange over Simple, one stage a launch, with barriers of the hosts between. No
 * kernel ever waits for another, so it works where the ranks' kernels cannot run side by side: several ranks
 * on one GPU.
 *
 * Two rounds (both slots) make a pass: SEND, barrier, take, barrier. The first barrier shows that what is
 * taken is there, the second that the blocks which the next pass overwrites have been taken; the last pass
 * needs none.
 */
#include "core/agreement.h"
#include "core/exchange.h"
#include "core/model.h"
#include "core/watchdog.h"

/* The board counts the barriers of a call in 16 bits; two a pass. */
static const uint64_t most_rounds = GPUCOLL_SLOTS
*(UINT16_MAX / 2 - 1);

static const char *unusable(const struct gpucoll_plan_input *input)
{
    struct gpucoll_plan plan;
    gpucoll_exchange_shape(input, &plan);
    return plan.rounds > most_rounds ? "the message takes too many rounds through so small a scratch area"
                                     : NULL;
}

static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = &gpucoll_model_default;
    gpucoll_exchange_shape(input, plan);
    double passes = (double)((plan->rounds + GPUCOLL_SLOTS - 1) / GPUCOLL_SLOTS);
    plan->predicted_us += model->agree_us + passes * 2 * (model->launch_us + model->barrier_us);
}

static gpucoll_status launch_stage(struct gpucoll_request *request)
{
    struct gpucoll_kernel_args args;
    gpucoll_kernel_args_init(request, &args);
    args.round_begin = request->next_round;
    args.round_end = request->next_round + GPUCOLL_SLOTS;
    args.stages = request->stage;
    bool reduces = gpucoll_coll_reduces(request->coll);
    return gpucoll_kernel_start(request, reduces ? GPUCOLL_KERNEL_REDUCE : GPUCOLL_KERNEL_MOVE, &args);
}

static gpucoll_status start(struct gpucoll_request *request)
{
    request->next_round = 0;
    request->stage = GPUCOLL_STAGE_SEND;
    request->in_barrier = false;
    return launch_stage(request);
}

/* The barrier after a stage is done: on to the next stage. */
static gpucoll_status next_stage(struct gpucoll_request *request)
{
    if (request->stage == GPUCOLL_STAGE_SEND) {
        request->stage = GPUCOLL_STAGE_REDUCE;
    } else {
        request->stage = GPUCOLL_STAGE_SEND;
        request->next_round += GPUCOLL_SLOTS;
    }
    gpucoll_status status = launch_stage(request);
    return status == GPUCOLL_OK ? GPUCOLL_IN_PROGRESS : status;
}

static gpucoll_status progress(struct gpucoll_request *request)
{
    if (!request->in_barrier) {
        gpucoll_status status = gpucoll_kernel_wait(request);
        if (status != GPUCOLL_OK) {
            return status;
        }
        if (request->stage == GPUCOLL_STAGE_REDUCE &&
            request->next_round + GPUCOLL_SLOTS >= request->plan.rounds) {
            return GPUCOLL_OK;
        }
        gpucoll_barrier_enter(request, false);
        gpucoll_watchdog_reset(request);
        request->in_barrier = true;
    }
    uint32_t missing = 0;
    gpucoll_status status = gpucoll_barrier_done(request, &missing);
    if (status == GPUCOLL_IN_PROGRESS) {
        return gpucoll_watchdog(request, missing, "waiting between two phases");
    }
    request->in_barrier = false;
    return next_stage(request);
}

const struct gpucoll_algorithm gpucoll_exchange_phased = {
    .name = "phased",
    .protocol = "simple",
    .help =
        "the exchange in two kernels with host barriers between: no kernel waits; for ranks that share a GPU",
    .coll = GPUCOLL_ANY_EXCHANGE,
    .unusable = unusable,
    .shape = shape,
    .start = start,
    .progress = progress,
};
