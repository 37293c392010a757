/*
 * Direct two-shot all-reduce: as over Simple (core/algorithms/allreduce_twoshot.c), but each rank stores its result straight into the buffers of all, so
 * nothing is copied out of the lane, and what it saves of that serves as more slots.
 */
#include "core/agreement.h"
#include "core/algorithms/twoshot.h"
#include "core/direct.h"
#include "core/plan/algorithm.h"

/* What the other form takes longer: the last round's results are copied out of the lane when nothing crosses the links any more (docs/design.md). */
static const double copy_cta_bandwidth = 31e9;

static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    gpucoll_twoshot_simple_shape(input, plan);
    plan->threads =
        plan->threads < GPUCOLL_LEAST_SERVED_THREADS ? GPUCOLL_LEAST_SERVED_THREADS : plan->threads;
    const double copied = (input->nranks - 1.0) / input->nranks * (double)input->bytes / (double)plan->rounds;
    const double ctas =
        plan->ctas * (double)plan->threads / input->config->threads; /* of as many threads as asked for */
    plan->predicted_us -= copied / (ctas * copy_cta_bandwidth) * 1e6;
}

/* Are the results of all ranks to begin at multiples of a pack? The same on every rank. */
static bool all_aligned(const struct gpucoll_request *request)
{
    uint64_t places = 0;
    for (uint32_t i = 0; i < request->team->size; i++) {
        places |= gpucoll_agreement_post(request, i)->place;
    }
    return places % GPUCOLL_PACK_BYTES == 0;
}

static gpucoll_status start(struct gpucoll_request *request)
{
    const struct gpucoll_team *team = request->team;
    struct gpucoll_kernel_args args;
    gpucoll_kernel_args_init(request, &args);
    if (!all_aligned(request)) {
        return gpucoll_kernel_start(request, GPUCOLL_KERNEL_TWOSHOT, &args);
    }
    for (uint32_t i = 0; i < team->size; i++) {
        request->runs.run[i] = (struct gpucoll_kernel_run){
            .recv = i == team->rank ? request->recv : gpucoll_direct_result(request, i)};
    }
    return gpucoll_kernel_start(request, GPUCOLL_KERNEL_TWOSHOT_DIRECT, &args);
}

const struct gpucoll_algorithm gpucoll_allreduce_direct = {
    .name = "twoshot",
    .protocol = "direct",
    .help = "one kernel, in rounds: reduce-scatter by stores, and the results stored straight into the "
            "buffers of all ranks; for large "
            "messages in buffers that are used again",
    .direct = true,
    .coll = GPUCOLL_ALLREDUCE,
    .rank_order = true,
    .waits = true,
    .shape = shape,
    .start = start,
    .progress = gpucoll_kernel_wait,
};
