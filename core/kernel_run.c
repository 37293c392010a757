/*
 * What algorithms that run as kernels share: arguments, launch, completion.
 */
#include <string.h>
#include "core/agreement.h"
#include "core/gate.h"
#include "core/plan/algorithm.h"
#include "core/watchdog.h"

void gpucoll_kernel_args_own(const struct gpucoll_request *request, struct gpucoll_kernel_args *args)
{
    const struct gpucoll_team *team = request->team;
    /* The arrays are filled to the team's size only, so they are not cleared. */
    memset(args, 0, offsetof(struct gpucoll_kernel_args, peer));
    args->send = request->send;
    args->recv = request->recv;
    args->bytes = request->bytes;
    args->data_bytes = request->gpu->data_bytes;
    args->round_end = UINT64_MAX;
    args->rank = team->rank;
    args->nranks = team->size;
    args->stages = GPUCOLL_STAGE_ALL;
}

void gpucoll_kernel_args_init(const struct gpucoll_request *request, struct gpucoll_kernel_args *args)
{
    const struct gpucoll_team *team = request->team;
    gpucoll_kernel_args_own(request, args);
    for (uint32_t i = 0; i < team->size; i++) {
        const struct gpucoll_post *post = gpucoll_agreement_post(request, i);
        args->peer[i].lane = (char *)request->links->scratch[i] + post->lane;
        args->peer[i].epoch = post->epoch;
    }
}

/* Does all that the call moves begin at multiples of a pack? Threads move what does not, and more of them than stay. */
static bool goes_in_bulk(const struct gpucoll_request *request)
{
    uintptr_t all = 0;
    for (uint32_t i = 0; i < request->team->size; i++) {
        const struct gpucoll_kernel_run *run = &request->runs.run[i];
        all |= run->send_bytes > 0 ? (uintptr_t)run->send | (uintptr_t)run->recv : 0;
    }
    return all % GPUCOLL_PACK_BYTES == 0;
}

/* Has a launched kernel no use for the memory that bulk copies go through? Of what is not aligned nothing goes through it; and within a GPU threads do as well, in
 * CTAs that leave others room on their SMs. */
static bool goes_by_threads(const struct gpucoll_request *request, enum gpucoll_kernel kernel)
{
    return kernel == GPUCOLL_KERNEL_STORE && !request->plan.linger &&
           (request->links->sharers > 1 || !goes_in_bulk(request));
}

/* How long the kernel waits for the next call. That of rehearsals, if it is longer than usual, for what is left of MPI_Init, 0.1 ms, and for a call
 * soon after it: for that one alone, and no longer than a program needs to allocate memory. */
static void set_linger(const struct gpucoll_request *request, struct gpucoll_launch *launch)
{
    static const uint32_t after_rehearsal_ns = 500000;
    if (request->plan.linger) {
        launch->waits_once = request->own && request->stays_ns < after_rehearsal_ns;
        launch->linger_ns = launch->waits_once ? after_rehearsal_ns : request->stays_ns;
    }
}

gpucoll_status gpucoll_kernel_start(struct gpucoll_request *request, enum gpucoll_kernel kernel,
                                    struct gpucoll_kernel_args *args)
{
    struct gpucoll_lane *lane = request->lane;
    const struct gpucoll_accel_ops *ops = request->gpu->device->accel->ops;
    struct gpucoll_plan *plan = &request->plan;
    if (plan->linger && kernel == GPUCOLL_KERNEL_STORE && !goes_in_bulk(request)) {
        plan->linger = false;
        plan->ctas = plan->launch_ctas;
        gpucoll_habit_launched(&lane->habit);
    }
    const bool gate = gpucoll_gate_wanted(request);
    args->done_value = gpucoll_next_done(&lane->done);
    struct gpucoll_launch launch = {
        .kernel = kernel,
        .functor = request->functor,
        .ctas = plan->ctas,
        .threads = plan->threads,
        .by_threads = goes_by_threads(request, kernel),
        .gate = gate,
        .args = args,
        .runs = gpucoll_kernel_is_exchange(kernel) ? &request->runs : NULL,
    };
    set_linger(request, &launch);
    gpucoll_watchdog_reset(request);
    gpucoll_status status = ops->launch(lane->stream, &launch);
    if (status == GPUCOLL_OK && gate) {
        gpucoll_gate_begin(request);
    }
    return status;
}

bool gpucoll_kernel_ring_early(struct gpucoll_request *request, struct gpucoll_kernel_args *args)
{
    struct gpucoll_lane *lane = request->lane;
    uint32_t done = lane->done;
    args->done_value = gpucoll_next_done(&done);
    struct gpucoll_launch launch = {
        .kernel = GPUCOLL_KERNEL_ONESHOT_EARLY,
        .functor = request->functor,
        .ctas = 1,
        .threads = request->plan.threads,
        .args = args,
    };
    set_linger(request, &launch);
    if (request->gpu->device->accel->ops->ring_early(lane->stream, &launch) != GPUCOLL_OK) {
        return false;
    }
    lane->done = done;
    return true;
}

gpucoll_status gpucoll_kernel_start_call(struct gpucoll_request *request, enum gpucoll_kernel kernel)
{
    struct gpucoll_kernel_args args;
    if (request->early) {
        request->gpu->device->accel->ops->confirm(request->lane->stream);
        gpucoll_watchdog_reset(request);
        return GPUCOLL_OK;
    }
    gpucoll_kernel_args_init(request, &args);
    return gpucoll_kernel_start(request, kernel, &args);
}

gpucoll_status gpucoll_lane_watch(struct gpucoll_request *request, uint32_t missing, const char *doing)
{
    const uint64_t looked = request->looked_ns;
    gpucoll_status status = gpucoll_watchdog(request, missing, doing);
    if (status == GPUCOLL_IN_PROGRESS && request->looked_ns != looked) {
        gpucoll_status health = request->gpu->device->accel->ops->stream_health(request->lane->stream);
        return health == GPUCOLL_OK ? GPUCOLL_IN_PROGRESS : health;
    }
    return status;
}

gpucoll_status gpucoll_kernel_wait(struct gpucoll_request *request)
{
    gpucoll_status status = gpucoll_gate_test(request);
    if (status == GPUCOLL_OK) {
        status = request->gpu->device->accel->ops->stream_poll(request->lane->stream);
    }
    return status == GPUCOLL_IN_PROGRESS
               ? gpucoll_lane_watch(request, request->team->rank, "waiting for its own kernel")
               : status;
}

const char *gpucoll_phase_unusable(uint64_t rounds)
{
    /* The board counts the barriers of a call in 16 bits: two a pass, three to connect, two to map buffers. */
    const uint64_t most_passes = (UINT16_MAX - 5) / 2;
    const uint64_t passes = (rounds + GPUCOLL_SLOTS - 1) / GPUCOLL_SLOTS;
    return passes > most_passes ? "the message takes too many rounds through so small a scratch area" : NULL;
}

gpucoll_status gpucoll_phase_launch(struct gpucoll_request *request, enum gpucoll_kernel kernel)
{
    struct gpucoll_kernel_args args;
    gpucoll_kernel_args_init(request, &args);
    args.round_begin = request->next_round;
    args.round_end = request->next_round + GPUCOLL_SLOTS;
    args.stages = request->stage;
    gpucoll_status status = gpucoll_kernel_start(request, kernel, &args);
    return status == GPUCOLL_OK ? GPUCOLL_IN_PROGRESS : status;
}

gpucoll_status gpucoll_phase_start(struct gpucoll_request *request, enum gpucoll_kernel kernel)
{
    request->next_round = 0;
    request->stage = GPUCOLL_STAGE_SEND;
    gpucoll_status status = gpucoll_phase_launch(request, kernel);
    return status == GPUCOLL_IN_PROGRESS ? GPUCOLL_OK : status;
}

gpucoll_status gpucoll_phase_wait(struct gpucoll_request *request, bool barrier)
{
    if (!request->in_barrier) {
        gpucoll_status status = gpucoll_kernel_wait(request);
        if (status != GPUCOLL_OK || !barrier) {
            return status;
        }
    }
    uint32_t missing = 0;
    if (gpucoll_barrier_pass(request, &missing) == GPUCOLL_IN_PROGRESS) {
        return gpucoll_watchdog(request, missing, "waiting between two phases");
    }
    return GPUCOLL_OK;
}
