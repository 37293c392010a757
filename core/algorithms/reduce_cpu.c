/*
 * Reductions in host memory (core/algorithms/reduce_host.h) by CPU cores of all ranks (transport cpu_reduce): in shares, which whoever has time
 * takes (ucx_tl/cpu_reduce/sum.h).
 */
#include "core/algorithms/reduce_host.h"
#include "core/plan/model.h"
#include "core/watchdog.h"

/* What a core sums at a time: few enough microseconds for all cores to end a chunk together, and for copies to be looked after in between. */
static const uint64_t share = 8 << 10;
/* Of all that is summed; below this the callers are done before a thread that sleeps has come. */
static const uint64_t least_for_threads = 256 << 10;
/* How much faster all threads together are than the caller alone (2 H200, four threads a process: bench/results/host-memory-2xH200.json). */
static const double helped = 3;

static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = input->model;
    const double chunk = (double)gpucoll_reduce_host_chunk(input->config, input->bytes);
    const double bytes = (double)gpucoll_reduce_host_blocks(input) * (double)input->bytes;
    const double first = bytes < chunk ? bytes : chunk;
    /* Each rank reads its share of everybody's part. */
    const double copies = bytes / gpucoll_host_bandwidth(input) * 1e6;
    const double rest = bytes < (double)least_for_threads ? 0 : bytes - (double)least_for_threads;
    const double sums = (bytes - rest + rest / helped) / model->cpu_bandwidth * 1e6;
    plan->predicted_us = model->agree_us + 2 * model->host_copy_us +
                         first / gpucoll_host_bandwidth(input) * 1e6 + (copies > sums ? copies : sums);
}

static void dismiss(struct gpucoll_request *request)
{
    struct gpucoll_staging *staging = request->lane->staging;
    gpucoll_pool_withdraw(request->team->context->pool, staging->posted);
    staging->posted = GPUCOLL_POOL_NONE;
}

static gpucoll_status start(struct gpucoll_request *request)
{
    struct gpucoll_staging *staging = request->lane->staging;
    gpucoll_reduce_host_begin(request, &(struct gpucoll_reduce_host){.share_bytes = share});
    const uint64_t bytes = request->bytes * staging->sum.nblocks;
    struct gpucoll_pool *pool = bytes < least_for_threads ? NULL : request->team->context->pool;
    /* The first copies are on their way while threads wake. */
    bool moved = false;
    uint32_t missing = 0;
    const gpucoll_status status = gpucoll_reduce_host_bring(request, &moved, &missing);
    staging->posted = status == GPUCOLL_OK ? gpucoll_pool_post(pool, &staging->sum) : GPUCOLL_POOL_NONE;
    return status;
}

static gpucoll_status progress(struct gpucoll_request *request)
{
    struct gpucoll_staging *staging = request->lane->staging;
    bool moved = false;
    uint32_t missing = request->team->rank;
    if (request->in_barrier) {
        return gpucoll_staging_leave(request);
    }
    gpucoll_status status = gpucoll_reduce_host_tell(request, &moved);
    if (status == GPUCOLL_OK) {
        status = gpucoll_reduce_host_bring(request, &moved, &missing);
    }
    moved |= gpucoll_sum_share(&staging->sum);
    if (status == GPUCOLL_OK) {
        status = gpucoll_reduce_host_fetch(request, &moved, &missing);
    }
    if (status != GPUCOLL_OK) {
        return status;
    }
    if (gpucoll_reduce_host_is_done(request)) {
        dismiss(request);
        return gpucoll_staging_leave(request);
    }
    if (moved) {
        gpucoll_watchdog_reset(request);
        return GPUCOLL_IN_PROGRESS;
    }
    return gpucoll_watchdog(request, missing, "waiting for a sum in host memory");
}

static void stop(struct gpucoll_request *request)
{
    dismiss(request);
    gpucoll_staging_stop(request);
}

const struct gpucoll_algorithm gpucoll_reduce_cpu = {
    .name = "cpu",
    .protocol = "host",
    .help = "chunks to host memory by copy engine, summed there by CPU cores, and back; uses no SM",
    .coll = GPUCOLL_ANY_REDUCTION,
    .rank_order = true,
    .needs = GPUCOLL_TL_SUMS,
    .shape = shape,
    .start = start,
    .progress = progress,
    .stop = stop,
};
