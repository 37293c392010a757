/*
 * Reductions by few SMs, straight from the buffers of all ranks to those of all that want the result: each of the ranks that reduce has a
 * slice, and its kernel reads that of every rank, reduces it in rank order, and writes the result to where it belongs, all by the copy
 * engine of the SM (kernels/reduce_bulk.cuh). No scratch, no flags, nobody waits in a kernel: all ranks have arrived before it starts, in
 * place each element is read and then written by one rank, and one barrier of the hosts tells that all is there.
 *
 *                      who reduces            who gets the result
 *   all-reduce         every rank             every rank
 *   reduce             every rank but root    the root
 *   reduce-scatter     every rank             itself, not in place: the first block of a rank is read by another
 */
#include <string.h>
#include "core/algorithms/slices.h"
#include "core/direct.h"
#include "core/exchange.h"
#include "core/pipeline.h"
#include "core/plan/model.h"
#include "core/watchdog.h"

/* What the SMs of a rank move, in bytes of an all-reduce's message, and what of it leaves the GPU: as much as comes, for what a rank reads
 * is sent by its peer. */
struct moved {
    double through;
    double leaves;
    double read; /* of that: by others, the rest is stored */
};

/* Of what a link carries of stores, that it carries of loads from several peers at once (docs/design-direct.md). */
static const double loads_share = 0.84;

/* The same of a crew, beside stores; of loads alone nothing is lost. There are so many times the CTAs that fill the links: they cost no time to
 * start. (plans of 4 H100) */
static const double crew_loads_share = 0.93;
static const double crew_share = 1.5;

/* A byte that is only read costs two thirds of one that is read and stored, as in an all-reduce (docs/design-direct.md). */
static double through(double read, double stored)
{
    return (2 * read + stored) / 3;
}

static struct moved moved_of(const struct gpucoll_plan_input *input)
{
    const double peers = input->nranks - 1;
    const double bytes = (double)input->bytes;
    if (input->coll == GPUCOLL_ALLREDUCE) {
        const double part = peers / input->nranks * bytes;
        return (struct moved){through(bytes, bytes), 2 * part, part};
    }
    if (input->coll ==
        GPUCOLL_REDUCE) { /* the root's part is read by the others, what they read of each other is less */
        return (struct moved){through(bytes * input->nranks / peers, bytes / peers), bytes, bytes};
    }
    return (struct moved){through(bytes * input->nranks, bytes), peers * bytes,
                          peers * bytes}; /* bytes are those of a block */
}

/* A reduce of two ranks has one crew that works, and nobody waits for a slowest one. (plans of 2 H200) */
static const double one_crew_us = 0.3;

/* More pairs of CTAs take longer to start, each with nearly all of the shared memory of two SMs: 14 CTAs 2.4 us longer than 8 (plans-launched-2xH200). */
static double pairs_us(uint32_t ctas)
{
    const uint32_t free = 8;
    return ctas > free ? 0.4 * (ctas - free) : 0;
}

/* Of what a CTA reads and stores, what one does whose reduction is called pack by pack (kernels/functors.h): a reduce of 16 MiB to one of four
 * H100, by 8 CTAs, took 131 us instead of 78. */
static const double rare_share = 0.55;

/* As few as fill the links: an even number, for they are started in pairs. */
static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = input->model;
    const struct moved moved = moved_of(input);
    const double reducing = gpucoll_functor_is_rare(input->functor) ? rare_share : 1;
    const double cta_leaves = model->bulk_cta_bandwidth * reducing * moved.leaves / moved.through;
    const double link = model->link_share * input->bandwidth;
    const uint64_t slice =
        gpucoll_slice_bytes(input->bytes, gpucoll_reduced_slices(input->coll, input->nranks));
    const double tiles = (double)slice / gpucoll_bulk_tile_bytes(input->nranks);
    const double most = gpucoll_most_ctas(input);
    const double fill = gpucoll_model_bulk_fill(input, link / cta_leaves);
    const double share = gpucoll_wanted_ctas(input, tiles < fill ? tiles : fill);
    plan->threads = GPUCOLL_BULK_THREADS;
    plan->ctas = gpucoll_model_bulk_ctas(input, share);
    plan->rounds = 1;
    const double slower = input->nranks > 2 ? moved.read * (1 / loads_share - 1) : 0;
    plan->predicted_us = model->agree_us + model->launch_us + model->bulk_us + pairs_us(plan->ctas) +
                         2 * input->latency_us + model->barrier_us +
                         gpucoll_model_transfer_us(input, moved.leaves + slower, share, most, cta_leaves);

    const double good = crew_share * fill;
    const unsigned crew = gpucoll_model_bulk_crew(input, slice, tiles < good ? tiles : good);
    if (crew > 0) {
        const double late = moved.leaves > moved.read || input->coll == GPUCOLL_REDUCE
                                ? moved.read * (1 / crew_loads_share - 1)
                                : 0;
        const double busy = tiles < crew ? tiles : crew;
        const double bytes = moved.leaves + late;
        /* Two ranks of which one reduces have the links as those have that reduce alike: not all of it (plans of 2 H200). */
        const double transfer_us = input->coll == GPUCOLL_REDUCE
                                       ? gpucoll_model_transfer_us(input, bytes, busy, crew, cta_leaves)
                                       : gpucoll_model_bulk_transfer_us(input, bytes, crew, busy, cta_leaves);
        const double us = model->agree_us + gpucoll_model_bulk_ring_us(input, crew) + input->latency_us +
                          model->barrier_us + transfer_us;
        gpucoll_plan_offer_crew(plan, crew, gpucoll_goes_one_way(input) ? us - one_crew_us : us);
    }
}

/* The slice of the message that this rank reduces; without bytes: none. */
static uint64_t own_slice(const struct gpucoll_request *request, uint64_t *begin)
{
    const struct gpucoll_team *team = request->team;
    if (request->coll == GPUCOLL_ALLREDUCE || request->coll == GPUCOLL_REDUCE) {
        return gpucoll_reduced_slice(request->coll, request->bytes, team->size, request->root, team->rank,
                                     begin);
    }
    const struct gpucoll_kernel_run *own = &request->runs.run[team->rank];
    *begin = own->send_bytes > 0
                 ? (uint64_t)((const char *)own->send - (const char *)gpucoll_direct_own_source(request))
                 : 0;
    return own->send_bytes;
}

/* Where `rank` wants this one's result; NULL: it does not. */
static char *result_of(const struct gpucoll_request *request, uint32_t rank, uint64_t begin)
{
    const bool is_own = rank == request->team->rank;
    if (gpucoll_reduced_is_wanted(request->coll, request->root, rank)) { /* a root has no slice of its own */
        return (is_own ? (char *)request->recv : (char *)gpucoll_direct_result(request, rank)) + begin;
    }
    return is_own && request->coll != GPUCOLL_REDUCE ? request->runs.run[rank].recv : NULL;
}

static gpucoll_status start(struct gpucoll_request *request)
{
    const struct gpucoll_team *team = request->team;
    struct gpucoll_kernel_args args;
    struct gpucoll_kernel_runs runs;
    uint64_t begin;
    gpucoll_kernel_args_init(request, &args);
    args.bytes = own_slice(request, &begin);
    const char *own_source = gpucoll_direct_own_source(request);
    for (uint32_t i = 0; i < team->size && args.bytes > 0; i++) {
        const char *source = i == team->rank ? own_source : gpucoll_direct_source(request, i);
        runs.run[i] = (struct gpucoll_kernel_run){
            .send = source + begin,
            .recv = result_of(request, i, begin),
            .send_bytes = args.bytes,
            .recv_bytes = args.bytes,
        };
    }
    if (args.bytes == 0) {
        request->idle = true;
        gpucoll_watchdog_reset(request);
        return GPUCOLL_OK;
    }
    memcpy(request->runs.run, runs.run, gpucoll_kernel_runs_bytes(team->size));
    return gpucoll_kernel_start(request, GPUCOLL_KERNEL_REDUCE_BULK, &args);
}

#define ROW(row, collective, text)                                                                           \
    const struct gpucoll_algorithm row = {                                                                   \
        .name = text,                                                                                        \
        .protocol = "bulk",                                                                                  \
        .help =                                                                                              \
            "one kernel of few SMs reads a slice from the buffers of all ranks and writes its result to "    \
            "those that want it, by bulk copies; for messages of some 100 KiB and more in buffers that are used again, on "     \
            "GPUs of compute capability 9.0 and up",                                                         \
        .direct = true,                                                                                      \
        .bulk = true,                                                                                        \
        .coll = collective,                                                                                  \
        .rank_order = true,                                                                                  \
        .shape = shape,                                                                                      \
        .start = start,                                                                                      \
        .progress = gpucoll_pipeline_end_kernel,                                                             \
    }

ROW(gpucoll_allreduce_bulk, GPUCOLL_ALLREDUCE, "twoshot");
ROW(gpucoll_reduce_bulk, GPUCOLL_REDUCE, "scatter_gather");
ROW(gpucoll_reduce_scatter_bulk, GPUCOLL_REDUCE_SCATTER, "exchange");
ROW(gpucoll_reduce_scatter_block_bulk, GPUCOLL_REDUCE_SCATTER_BLOCK, "exchange");
