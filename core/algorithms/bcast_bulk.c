/*
 * Broadcast in bulk: each rank but the root reads a slice of the message from the root's memory, and stores it to its own buffer and to those of
 * the rest, by the copy engines of few SMs (kernels/store.cuh). Every byte leaves the root once, nobody waits in a kernel, and the root has
 * none. (Scatter and all-gather, van de Geijn 1994, both at once.)
 */
#include <math.h>
#include <string.h>
#include "core/algorithms/slices.h"
#include "core/direct.h"
#include "core/exchange.h"
#include "core/pipeline.h"
#include "core/plan/model.h"
#include "core/watchdog.h"

/* Of the links' bandwidth, which is that of stores both ways at once, what leaves the root and nothing but that is read. (plans of 4 H100) */
static const double one_way_share = 1.04;

/* What is read comes later than what is stored by this share of its time, up to so many microseconds. (the same) */
static const struct gpucoll_share late = {.share = 0.35, .most_us = 4};

/* Of more bytes than these the rest takes longer: in some runs nothing, in others twice as much more. With the mean of them a message of 1 GiB is left to
 * a chain of copies, which takes the same in all runs (docs/design-direct.md, "Broadcasts in bulk"). */
static const double steady_bytes = 64 << 20;
static const double unsteady = 0.07;

/* A tile has been read before it is stored. (plans of 4 H200) */
static const double read_first_us = 0.9;

/* Microseconds of the bytes, by a part of each rank's CTAs. */
static double transfer_us(const struct gpucoll_plan_input *input, double ctas)
{
    const double stored = (double)input->bytes; /* by each rank: a slice, to all that want it */
    const double all = gpucoll_model_store_bandwidth * (ctas < 1 ? 1 : ctas);
    const double rest = fmax(0, stored - steady_bytes);
    const double us = (stored + unsteady * rest) / fmin(all, one_way_share * input->bandwidth) * 1e6;
    return us + gpucoll_model_share_us(input, stored, late);
}

static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = input->model;
    const uint64_t slice = gpucoll_slice_bytes(input->bytes, input->nranks - 1);
    const double tiles = (double)slice / GPUCOLL_BULK_MAX_TILE;
    const double beside = model->agree_us + 2 * input->latency_us + model->barrier_us;
    const double link = model->link_share * input->bandwidth;
    const double fill = gpucoll_model_bulk_fill(input, 1.5 * link / gpucoll_model_store_bandwidth);
    const double most = gpucoll_most_ctas(input);
    const double share = gpucoll_wanted_ctas(input, tiles < fill ? tiles : fill);
    plan->threads = gpucoll_whole_warps(input->config->threads);
    plan->ctas = gpucoll_model_bulk_ctas(input, share);
    plan->rounds = 1;
    plan->predicted_us = beside + model->launch_us + transfer_us(input, share < most ? share : most);
    const unsigned crew = gpucoll_model_bulk_crew(input, slice, share);
    if (crew > 0) {
        gpucoll_plan_offer_crew(plan, crew,
                                beside + gpucoll_model_bulk_ring_us(input, crew) + read_first_us +
                                    transfer_us(input, share < crew ? share : crew));
    }
}

static gpucoll_status start(struct gpucoll_request *request)
{
    const struct gpucoll_team *team = request->team;
    const uint32_t root = request->root;
    struct gpucoll_kernel_run *runs = request->runs.run;
    char *const own = runs[root].recv;
    uint64_t begin = 0;
    uint64_t bytes = 0;
    if (team->rank != root) {
        const uint32_t index = gpucoll_slice_beside_root(team->rank, root, team->size);
        bytes = gpucoll_slice_at(request->bytes, team->size - 1, index, &begin);
    }
    request->idle = bytes == 0;
    if (request->idle) {
        gpucoll_watchdog_reset(request);
        return GPUCOLL_OK;
    }
    const char *message = gpucoll_direct_source(request, root);
    memset(runs, 0, gpucoll_kernel_runs_bytes(team->size));
    for (uint32_t i = 0; i < team->size; i++) {
        if (i != root) {
            char *result = i == team->rank ? own : gpucoll_direct_result(request, i);
            runs[i] = (struct gpucoll_kernel_run){
                .send = message + begin, .recv = result + begin, .send_bytes = bytes, .recv_bytes = bytes};
        }
    }
    struct gpucoll_kernel_args args;
    gpucoll_kernel_args_init(request, &args);
    args.bytes = bytes;
    return gpucoll_kernel_start(request, GPUCOLL_KERNEL_SPREAD, &args);
}

const struct gpucoll_algorithm gpucoll_bcast_bulk = {
    .name = "scatter_allgather",
    .protocol = "bulk",
    .help = "kernels of few SMs on all ranks but the root read a slice each from the root's buffer and store "
            "it to those of "
            "all others, by bulk copies; for messages of some 100 KiB and more in buffers that are used "
            "again, on GPUs of "
            "compute capability 9.0 and up",
    .direct = true,
    .bulk = true,
    .coll = GPUCOLL_BCAST,
    .unusable = gpucoll_slices_unusable,
    .shape = shape,
    .start = start,
    .progress = gpucoll_pipeline_end_kernel,
};
