/*
 * Direct exchange by a kernel: it stores the runs straight to where they belong in the peers' buffers. No slots, no flags, nobody waits
 * in a kernel; one barrier of the hosts tells that all has arrived. For runs of middle length, where copy engines take too
 * long to begin.
 */
#include "core/direct.h"
#include "core/exchange.h"
#include "core/model.h"
#include "core/pipeline.h"

static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = input->model;
    gpucoll_exchange_shape(input, plan);
    plan->rounds = 1;
    plan->predicted_us += model->agree_us + model->launch_us + input->latency_us + model->barrier_us;
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
            run->recv_bytes = run->send_bytes;
        }
    }
    struct gpucoll_kernel_args args;
    gpucoll_kernel_args_init(request, &args);
    return gpucoll_kernel_start(request, GPUCOLL_KERNEL_STORE, &args);
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
