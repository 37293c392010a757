/*
 * Direct broadcast by kernels: the root's stores a slice to each other rank's buffer; after a barrier of the hosts each rank's stores its
 * slice to the rest. Every byte leaves the root once. (Scatter and all-gather, van de Geijn 1994.)
 */
#include <string.h>
#include "core/algorithms/slices.h"
#include "core/direct.h"
#include "core/exchange.h"
#include "core/pipeline.h"
#include "core/plan/model.h"

enum { SCATTER, GATHER }; /* request->stage */

static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    struct gpucoll_plan_input slices = *input;
    slices.bytes = gpucoll_slice_bytes(input->bytes, input->nranks - 1);
    /* The scatter; then each rank stores one run less. */
    gpucoll_store_shape(&slices, 2, 1 + (double)(input->nranks - 2) / (input->nranks - 1), plan);
}

/* The root: each rank's slice. Another rank: its own, to the others. Nothing of a short message may be left for it. */
static gpucoll_status store(struct gpucoll_request *request)
{
    const struct gpucoll_team *team = request->team;
    const uint32_t slices = team->size - 1;
    const bool is_root = team->rank == request->root;
    const char *from = is_root ? request->send : request->recv;
    struct gpucoll_kernel_run *runs = request->runs.run;
    bool any = false;
    memset(runs, 0, gpucoll_kernel_runs_bytes(team->size));
    for (uint32_t i = 0; i < team->size; i++) {
        if (i == request->root || i == team->rank) {
            continue;
        }
        uint64_t at;
        const uint32_t owner = is_root ? i : team->rank;
        const uint32_t index = gpucoll_slice_beside_root(owner, request->root, team->size);
        runs[i].send_bytes = gpucoll_slice_at(request->bytes, slices, index, &at);
        runs[i].recv_bytes = runs[i].send_bytes;
        runs[i].send = from + at;
        runs[i].recv = (char *)gpucoll_direct_result(request, i) + at;
        any |= runs[i].send_bytes > 0;
    }
    request->idle = !any;
    if (request->idle) {
        return GPUCOLL_OK;
    }
    struct gpucoll_kernel_args args;
    gpucoll_kernel_args_init(request, &args);
    args.bytes = gpucoll_slice_bytes(request->bytes, slices);
    return gpucoll_kernel_start(request, GPUCOLL_KERNEL_STORE, &args);
}

static gpucoll_status start(struct gpucoll_request *request)
{
    const bool is_root = request->team->rank == request->root;
    const uint32_t peer = is_root ? (request->root + 1) % request->team->size : request->root;
    const struct gpucoll_kernel_run *run = &request->runs.run[peer];
    request->send = run->send;
    request->recv = run->recv;
    request->stage = SCATTER;
    request->idle = true;
    return is_root ? store(request) : GPUCOLL_OK;
}

static gpucoll_status progress(struct gpucoll_request *request)
{
    gpucoll_status status = gpucoll_pipeline_end_kernel(request);
    if (status != GPUCOLL_OK || request->stage == GATHER) {
        return status;
    }
    request->stage = GATHER;
    request->idle = true;
    status = request->team->rank == request->root ? GPUCOLL_OK : store(request);
    return status == GPUCOLL_OK ? GPUCOLL_IN_PROGRESS : status;
}

const struct gpucoll_algorithm gpucoll_bcast_direct = {
    .name = "scatter_allgather",
    .protocol = "direct",
    .help = "a kernel scatters the message from the root, another gathers it between the others; for "
            "messages of middle "
            "size in buffers that are used again",
    .direct = true,
    .coll = GPUCOLL_BCAST,
    .steps = true,
    .unusable = gpucoll_slices_unusable,
    .shape = shape,
    .start = start,
    .progress = progress,
};
