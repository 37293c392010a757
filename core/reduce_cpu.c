/*
 * Reductions in host memory (transport cpu_reduce): every rank's copy engine brings its chunks into its outbox, CPU cores of all ranks
 * reduce them in shares, and copy engines fetch the results. Four things go on at once, on different chunks, and none waits for
 * another rank but by its flags:
 *
 *   bring   copy chunk k of the own message into slot k % slots, once what was there is reduced and, if the result
 *           lay there, fetched by those who want it
 *   tell    when that copy is complete, raise `filled`
 *   sum     take shares of chunks that all ranks have filled (ucx_tl/cpu_reduce/sum.h)
 *   fetch   copy the result of a chunk to the receive buffer; when that is complete, raise `emptied`
 *
 * The published scheme (reduce to the host, sum, broadcast back) with neither a semaphore a chunk nor fixed shares.
 */
#include <string.h>
#include "core/algorithm.h"
#include "core/exchange.h"
#include "core/model.h"
#include "core/staging.h"
#include "core/watchdog.h"

static const uint32_t slots = 8;
/* So much of a message for a chunk: from when a chunk is given to the copy engine until its slot is free again some hundred microseconds pass,
 * in which the slots of a lane are all that moves (docs/design.md). Smaller ones are worth their copies only where there would be one. */
static const uint64_t most_parts = 8;
static const uint64_t least_parts = 2;
static const uint64_t least_chunk = 256 << 10;
static const uint64_t most_chunk = 2 << 20;
/* What a core sums at a time: few enough microseconds for all cores to end a chunk together, and for copies to be looked after in between. */
static const uint64_t share = 8 << 10;
/* Below this the callers are done before a thread that sleeps has come. */
static const uint64_t least_for_threads = 256 << 10;

_Static_assert(GPUCOLL_OUTBOX_SLOTS >= 8, "a lane counts as many slots");

static uint64_t between(uint64_t low, uint64_t value, uint64_t high)
{
    return value > high ? high : value < low ? low : value;
}

static bool is_scatter(enum gpucoll_coll coll)
{
    return coll == GPUCOLL_REDUCE_SCATTER || coll == GPUCOLL_REDUCE_SCATTER_BLOCK;
}

/* From what is equal on all ranks. */
static void cut(struct gpucoll_sum *sum, uint64_t bytes, uint64_t area)
{
    const uint64_t parts = between(least_parts, bytes / least_chunk, most_parts);
    sum->slots = slots;
    sum->chunk_bytes = gpucoll_staging_chunk(bytes, parts, most_chunk, area / slots);
    sum->share_bytes = share;
}

static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = input->model;
    struct gpucoll_sum sum;
    cut(&sum, input->bytes, gpucoll_staging_bytes(input->config));
    const double blocks = is_scatter(input->coll) ? input->nranks : 1;
    const double bytes = blocks * (double)input->bytes;
    const double first = bytes < (double)sum.chunk_bytes ? bytes : (double)sum.chunk_bytes;
    /* Each rank reads its share of everybody's part by the calling thread, at least. */
    const double copies = bytes / model->host_bandwidth * 1e6;
    const double sums = bytes / model->cpu_bandwidth * 1e6;
    plan->predicted_us = model->agree_us + 2 * model->host_copy_us + first / model->host_bandwidth * 1e6 +
                         (copies > sums ? copies : sums);
}

/* ---- the call ---- */

/* The blocks of the message and this rank's part of each. */
static void describe(struct gpucoll_request *request, struct gpucoll_staging *staging)
{
    struct gpucoll_sum *sum = &staging->sum;
    const struct gpucoll_kernel_run *runs = request->runs.run;
    const uint32_t size = request->team->size;
    const uint32_t rank = request->team->rank;
    sum->scatter = is_scatter(request->coll);
    sum->prefix = request->coll == GPUCOLL_SCAN || request->coll == GPUCOLL_EXSCAN;
    sum->nblocks = sum->scatter ? size : 1;
    sum->contributors = request->coll == GPUCOLL_EXSCAN ? size - 1 : size;
    sum->block_bytes[0] = request->bytes;
    if (!gpucoll_is_exchange(request->coll)) {
        staging->send[0] = request->send;
        staging->recv = request->recv;
        return;
    }
    staging->send[0] = NULL;
    staging->recv = runs[rank].recv_bytes > 0 ? runs[rank].recv : NULL;
    for (uint32_t i = 0; i < size; i++) {
        if (sum->scatter) {
            staging->send[i] = runs[i].send;
            sum->block_bytes[i] = runs[i].send_bytes;
        } else if (runs[i].send_bytes > 0) {
            staging->send[0] = runs[i].send;
        }
    }
}

static void dismiss(struct gpucoll_request *request)
{
    struct gpucoll_staging *staging = request->lane->staging;
    gpucoll_pool_withdraw(request->team->context->pool, staging->posted);
    staging->posted = GPUCOLL_POOL_NONE;
}

/* The ranks that fetch the result which lies in the slot of `owner` for a chunk: first to last, none if first > last. */
struct readers {
    uint32_t first;
    uint32_t last;
};

static struct readers readers_of(const struct gpucoll_request *request, uint32_t owner, uint64_t chunk)
{
    static const struct readers nobody = {1, 0};
    const struct gpucoll_sum *sum = &request->lane->staging->sum;
    const uint32_t last = sum->nranks - 1;
    switch (request->coll) {
    case GPUCOLL_SCAN:
        return (struct readers){owner, owner};
    case GPUCOLL_EXSCAN:
        return owner < last ? (struct readers){owner + 1, owner + 1} : nobody;
    default:
        break;
    }
    if (gpucoll_sum_home(sum, chunk) != owner) {
        return nobody;
    }
    if (request->coll == GPUCOLL_REDUCE) {
        return (struct readers){request->root, request->root};
    }
    return sum->scatter ? (struct readers){owner, owner} : (struct readers){0, last};
}

/* In whose slot this rank finds its result of a chunk; -1 if it gets none. */
static int source_of(const struct gpucoll_request *request, uint64_t chunk)
{
    const struct gpucoll_staging *staging = request->lane->staging;
    const int rank = (int)request->team->rank;
    if (staging->recv == NULL) {
        return -1;
    }
    switch (request->coll) {
    case GPUCOLL_SCAN:
        return rank;
    case GPUCOLL_EXSCAN:
        return rank - 1;
    default:
        break;
    }
    const int home = (int)gpucoll_sum_home(&staging->sum, chunk);
    return staging->sum.scatter && home != rank ? -1 : home;
}

/* Is nothing of the chunk in this rank's slot needed any more? */
static bool is_spent(const struct gpucoll_request *request, uint64_t chunk, uint32_t *missing)
{
    const struct gpucoll_sum *sum = &request->lane->staging->sum;
    if (!gpucoll_sum_is_done(sum, chunk)) {
        *missing = gpucoll_sum_unfilled(sum, chunk) % sum->nranks;
        return false;
    }
    const struct readers readers = readers_of(request, request->team->rank, chunk);
    for (uint32_t i = readers.first; i <= readers.last; i++) {
        if (gpucoll_outbox_count(&sum->lane[i]->emptied[0], sum->epoch[i]) <= chunk) {
            *missing = i;
            return false;
        }
    }
    return true;
}

static gpucoll_status bring(struct gpucoll_request *request, bool *moved, uint32_t *missing)
{
    struct gpucoll_staging *staging = request->lane->staging;
    const struct gpucoll_sum *sum = &staging->sum;
    struct gpucoll_copies *out = &staging->out;
    gpucoll_status status = GPUCOLL_OK;
    while (status == GPUCOLL_OK && out->given < sum->chunks) {
        const uint64_t chunk = out->given;
        if (chunk >= sum->slots && !is_spent(request, chunk - sum->slots, missing)) {
            break;
        }
        const struct gpucoll_sum_piece piece = gpucoll_sum_piece(sum, chunk);
        status = gpucoll_copies_give(request, out, gpucoll_sum_slot(sum, request->team->rank, chunk),
                                     staging->send[piece.block] + piece.offset, piece.bytes);
        *moved = true;
    }
    return status;
}

static gpucoll_status start(struct gpucoll_request *request)
{
    struct gpucoll_staging *staging = request->lane->staging;
    struct gpucoll_sum *sum = &staging->sum;
    gpucoll_staging_begin(staging);
    staging->next_in = 0;
    sum->functor = request->functor;
    sum->nranks = request->team->size;
    cut(sum, request->bytes, gpucoll_staging_bytes(request->team->context->config));
    describe(request, staging);
    for (uint32_t i = 0; i < sum->nranks; i++) {
        sum->lane[i] = gpucoll_staging_lane(request, i, &sum->epoch[i]);
    }
    gpucoll_sum_cut(sum);
    if (request->team->rank == 0) {
        gpucoll_sum_open(sum);
    }
    struct gpucoll_pool *pool = request->bytes < least_for_threads ? NULL : request->team->context->pool;
    gpucoll_watchdog_reset(request);
    /* The first copies are on their way while threads wake. */
    bool moved = false;
    uint32_t missing = 0;
    const gpucoll_status status =
        request->team->rank < sum->contributors ? bring(request, &moved, &missing) : GPUCOLL_OK;
    staging->posted = status == GPUCOLL_OK ? gpucoll_pool_post(pool, sum) : GPUCOLL_POOL_NONE;
    return status;
}

static gpucoll_status tell(struct gpucoll_request *request, bool *moved)
{
    struct gpucoll_staging *staging = request->lane->staging;
    const uint32_t rank = request->team->rank;
    bool complete = false;
    gpucoll_status status = gpucoll_copies_look(request->gpu, &staging->out, &complete);
    if (complete) {
        gpucoll_outbox_raise(&staging->sum.lane[rank]->filled[0], staging->sum.epoch[rank],
                             staging->out.complete);
        *moved = true;
    }
    return status;
}

static gpucoll_status fetch(struct gpucoll_request *request, bool *moved, uint32_t *missing)
{
    struct gpucoll_staging *staging = request->lane->staging;
    const struct gpucoll_sum *sum = &staging->sum;
    struct gpucoll_copies *in = &staging->in;
    gpucoll_status status = GPUCOLL_OK;
    while (status == GPUCOLL_OK && staging->next_in < sum->chunks && !gpucoll_copies_full(in)) {
        const uint64_t chunk = staging->next_in;
        if (!gpucoll_sum_is_done(sum, chunk)) {
            *missing = gpucoll_sum_unfilled(sum, chunk) % sum->nranks;
            break;
        }
        const int source = source_of(request, chunk);
        staging->next_in++;
        *moved = true;
        if (source >= 0) {
            const struct gpucoll_sum_piece piece = gpucoll_sum_piece(sum, chunk);
            staging->in_chunk[in->given % GPUCOLL_IN_FLIGHT] = chunk;
            status = gpucoll_copies_give(request, in, staging->recv + piece.offset,
                                         gpucoll_sum_slot(sum, (uint32_t)source, chunk), piece.bytes);
        }
    }
    return status;
}

/* All chunks before this one need nothing more of this rank. */
static uint64_t fetched(const struct gpucoll_staging *staging)
{
    const struct gpucoll_copies *in = &staging->in;
    return in->complete < in->given ? staging->in_chunk[in->complete % GPUCOLL_IN_FLIGHT] : staging->next_in;
}

static gpucoll_status give_back(struct gpucoll_request *request, bool *moved)
{
    struct gpucoll_staging *staging = request->lane->staging;
    const uint32_t rank = request->team->rank;
    gpucoll_status status = gpucoll_copies_look(request->gpu, &staging->in, moved);
    gpucoll_outbox_raise(&staging->sum.lane[rank]->emptied[0], staging->sum.epoch[rank], fetched(staging));
    return status;
}

static gpucoll_status progress(struct gpucoll_request *request)
{
    struct gpucoll_staging *staging = request->lane->staging;
    bool moved = false;
    uint32_t missing = request->team->rank;
    gpucoll_status status = GPUCOLL_OK;
    if (request->in_barrier) {
        return gpucoll_staging_leave(request);
    }
    if (request->team->rank < staging->sum.contributors) {
        status = tell(request, &moved);
        if (status == GPUCOLL_OK) {
            status = bring(request, &moved, &missing);
        }
    }
    moved |= gpucoll_sum_share(&staging->sum);
    if (status == GPUCOLL_OK) {
        status = give_back(request, &moved);
    }
    if (status == GPUCOLL_OK) {
        status = fetch(request, &moved, &missing);
    }
    if (status != GPUCOLL_OK) {
        return status;
    }
    if (fetched(staging) == staging->sum.chunks) {
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
