/*
 * Reductions in host memory (core/algorithms/reduce_host.h) by kernels: the GPU of one of the ranks reads the parts of a chunk where the others' copy
 * engines have laid them, over PCIe, and its own from its memory. Chunks that are for all go round the ranks, and their results lie in host
 * memory, for all to fetch; a result for one rank alone is put where it belongs, by that rank's own kernel. For shm without cpu_reduce, and for
 * hosts whose cores are few or busy. A kernel waits for nobody.
 */
#include <string.h>
#include "core/algorithms/reduce_host.h"
#include "core/plan/model.h"
#include "core/watchdog.h"

enum { CTAS = 8 /* whose loads, all in flight together, fill PCIe */ };
/* Bytes/s that a kernel reads from host memory: a quarter of what a copy engine does, and less than 2 H100 show (docs/design-host-memory.md, "By kernels, where
 * cores may not sum"), so that cores are preferred where they may sum, which are the faster ones there. */
static const double read_bandwidth = 12.5e9;

/* Each rank reads what it reduces, and fetches the rest. */
static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = input->model;
    const double chunk = (double)gpucoll_reduce_host_chunk(input->config, input->bytes);
    const double bytes = (double)gpucoll_reduce_host_blocks(input) * (double)input->bytes;
    const double first = bytes < chunk ? bytes : chunk;
    const bool prefix = gpucoll_coll_is_scan(input->coll);
    const bool fetched = input->coll == GPUCOLL_ALLREDUCE || input->coll == GPUCOLL_REDUCE;
    const double reads = bytes * (input->nranks - 1) / (prefix ? 1 : input->nranks);
    const double ctas = gpucoll_wanted_ctas(input, CTAS);
    plan->threads = gpucoll_whole_warps(input->config->threads);
    plan->ctas = ctas < gpucoll_most_ctas(input) ? (uint32_t)ctas : gpucoll_most_ctas(input);
    plan->predicted_us = model->agree_us + 2 * model->host_copy_us + model->launch_us +
                         first / gpucoll_host_bandwidth(input) * 1e6 +
                         reads * gpucoll_sharers(input) / read_bandwidth * 1e6 +
                         (fetched ? bytes / gpucoll_host_bandwidth(input) * 1e6 : 0);
}

static gpucoll_status start(struct gpucoll_request *request)
{
    gpucoll_reduce_host_begin(request, &(struct gpucoll_reduce_host){.own_stays = true, .places = true});
    return GPUCOLL_OK;
}

/* Does this rank reduce the chunk? Of a prefix reduction each does that gets something. */
static bool is_mine(const struct gpucoll_request *request, uint64_t chunk)
{
    const struct gpucoll_sum *sum = &request->lane->staging->sum;
    const uint32_t rank = request->team->rank;
    return sum->prefix ? rank > 0 || request->coll == GPUCOLL_SCAN : gpucoll_sum_home(sum, chunk) == rank;
}

static gpucoll_status launch(struct gpucoll_request *request, uint64_t chunk)
{
    const struct gpucoll_staging *staging = request->lane->staging;
    const struct gpucoll_sum *sum = &staging->sum;
    const struct gpucoll_sum_piece piece = gpucoll_sum_piece(sum, chunk);
    const uint32_t rank = request->team->rank;
    struct gpucoll_kernel_args args;
    memset(&args, 0, offsetof(struct gpucoll_kernel_args, peer));
    args.bytes = piece.bytes;
    args.nranks = !sum->prefix ? sum->nranks : request->coll == GPUCOLL_SCAN ? rank + 1 : rank;
    args.rank = rank < args.nranks ? rank : 0;
    for (uint32_t i = 0; i < args.nranks; i++) {
        args.peer[i] = (struct gpucoll_kernel_peer){.lane = gpucoll_sum_slot(sum, i, chunk)};
    }
    args.send = staging->own_stays ? staging->send[piece.block] + piece.offset : args.peer[args.rank].lane;
    args.recv = staging->places ? staging->recv + piece.offset : gpucoll_sum_slot(sum, rank, chunk);
    return gpucoll_kernel_start(request, GPUCOLL_KERNEL_REDUCE_BLOCKS, &args);
}

/* Chunk after chunk, one at a time. */
static gpucoll_status reduce_more(struct gpucoll_request *request, bool *moved, uint32_t *missing)
{
    struct gpucoll_staging *staging = request->lane->staging;
    const struct gpucoll_sum *sum = &staging->sum;
    for (; staging->next_sum < sum->chunks; staging->next_sum++) {
        const uint64_t chunk = staging->next_sum;
        if (!is_mine(request, chunk)) {
            continue;
        }
        if (!staging->summing) {
            *missing = gpucoll_sum_unfilled(sum, chunk);
            if (*missing < sum->contributors) {
                return GPUCOLL_OK;
            }
            *moved = true;
            staging->summing = true;
            gpucoll_status status = launch(request, chunk);
            if (status != GPUCOLL_OK) {
                return status;
            }
        }
        *missing = request->team->rank;
        gpucoll_status status = request->gpu->device->accel->ops->stream_poll(request->lane->stream);
        if (status != GPUCOLL_OK) {
            return status == GPUCOLL_IN_PROGRESS ? GPUCOLL_OK : status;
        }
        *moved = true;
        staging->summing = false;
        gpucoll_sum_tell(sum, chunk, 1);
    }
    return GPUCOLL_OK;
}

static gpucoll_status progress(struct gpucoll_request *request)
{
    bool moved = false;
    uint32_t missing = request->team->rank;
    if (request->in_barrier) {
        return gpucoll_staging_leave(request);
    }
    gpucoll_status status = gpucoll_reduce_host_tell(request, &moved);
    if (status == GPUCOLL_OK) {
        status = gpucoll_reduce_host_bring(request, &moved, &missing);
    }
    if (status == GPUCOLL_OK) {
        status = gpucoll_reduce_host_fetch(request, &moved, &missing);
    }
    if (status == GPUCOLL_OK) {
        status = reduce_more(request, &moved, &missing);
    }
    if (status != GPUCOLL_OK) {
        return status;
    }
    if (gpucoll_reduce_host_is_done(request)) {
        return gpucoll_staging_leave(request);
    }
    if (moved) {
        gpucoll_watchdog_reset(request);
        return GPUCOLL_IN_PROGRESS;
    }
    return gpucoll_lane_watch(request, missing, "waiting for a reduction in host memory");
}

const struct gpucoll_algorithm gpucoll_reduce_pipes = {
    .name = "pipes",
    .protocol = "host",
    .help =
        "chunks to host memory by copy engine, reduced there by kernels that read them over PCIe, and back",
    .late_kernels = true,
    .coll = GPUCOLL_ANY_REDUCTION,
    .rank_order = true,
    .needs = GPUCOLL_TL_PIPES,
    .shape = shape,
    .start = start,
    .progress = progress,
    .stop = gpucoll_staging_stop,
};
