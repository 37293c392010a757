/*
 * What reductions in host memory have in common, whoever reduces (core/algorithms/reduce_host.h).
 */
#include "core/algorithms/reduce_host.h"
#include "core/exchange.h"
#include "core/watchdog.h"

static const uint32_t slots = 8;
/* So much of a message for a chunk: from when a chunk is given to the copy engine until its slot is free again some hundred microseconds pass,
 * in which the slots of a lane are all that moves (docs/design-host-memory.md). Smaller ones are worth their copies only where there would be one. */
static const uint64_t most_parts = 8;
static const uint64_t least_parts = 2;
static const uint64_t least_chunk = 256 << 10;
static const uint64_t most_chunk = 2 << 20;

_Static_assert(GPUCOLL_OUTBOX_SLOTS >= 8, "a lane counts as many slots");

static bool is_scatter(enum gpucoll_coll coll)
{
    return coll == GPUCOLL_REDUCE_SCATTER || coll == GPUCOLL_REDUCE_SCATTER_BLOCK;
}

static uint64_t between(uint64_t low, uint64_t value, uint64_t high)
{
    return value > high ? high : value < low ? low : value;
}

uint32_t gpucoll_reduce_host_blocks(const struct gpucoll_plan_input *input)
{
    return is_scatter(input->coll) ? input->nranks : 1;
}

uint64_t gpucoll_reduce_host_chunk(const struct gpucoll_config *config, uint64_t bytes)
{
    const uint64_t parts = between(least_parts, bytes / least_chunk, most_parts);
    return gpucoll_staging_chunk(bytes, parts, most_chunk, gpucoll_staging_bytes(config) / slots);
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
    sum->prefix = gpucoll_coll_is_scan(request->coll);
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

void gpucoll_reduce_host_begin(struct gpucoll_request *request, const struct gpucoll_reduce_host *how)
{
    struct gpucoll_staging *staging = request->lane->staging;
    struct gpucoll_sum *sum = &staging->sum;
    gpucoll_staging_begin(staging);
    staging->next_in = 0;
    staging->next_sum = 0;
    staging->summing = false;
    sum->functor = request->functor;
    sum->nranks = request->team->size;
    sum->slots = slots;
    sum->chunk_bytes = gpucoll_reduce_host_chunk(request->team->context->config, request->bytes);
    sum->share_bytes = how->share_bytes > 0 ? how->share_bytes : sum->chunk_bytes;
    describe(request, staging);
    const bool is_for_one = sum->scatter || sum->prefix;
    staging->own_stays = how->own_stays && !is_for_one;
    staging->places = how->places && is_for_one;
    for (uint32_t i = 0; i < sum->nranks; i++) {
        sum->lane[i] = gpucoll_staging_lane(request, i, &sum->epoch[i]);
    }
    gpucoll_sum_cut(sum);
    if (staging->places && sum->prefix) {
        sum->shares = sum->contributors; /* as many ranks get something: each reduces what it gets */
    }
    if (request->team->rank == 0) {
        gpucoll_sum_open(sum);
    }
    gpucoll_watchdog_reset(request);
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
    if (request->lane->staging->places) {
        return nobody;
    }
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

/* In whose slot this rank finds its result of a chunk; -1 if it gets none so. */
static int source_of(const struct gpucoll_request *request, uint64_t chunk)
{
    const struct gpucoll_staging *staging = request->lane->staging;
    const int rank = (int)request->team->rank;
    if (staging->recv == NULL || staging->places) {
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

/* Of a chunk, into this rank's slot. */
static uint64_t brought_bytes(const struct gpucoll_request *request, uint64_t chunk, uint64_t bytes)
{
    const struct gpucoll_staging *staging = request->lane->staging;
    return staging->own_stays && gpucoll_sum_home(&staging->sum, chunk) == request->team->rank ? 0 : bytes;
}

gpucoll_status gpucoll_reduce_host_bring(struct gpucoll_request *request, bool *moved, uint32_t *missing)
{
    struct gpucoll_staging *staging = request->lane->staging;
    const struct gpucoll_sum *sum = &staging->sum;
    struct gpucoll_copies *out = &staging->out;
    gpucoll_status status = GPUCOLL_OK;
    while (status == GPUCOLL_OK && request->team->rank < sum->contributors && out->given < sum->chunks) {
        const uint64_t chunk = out->given;
        if (chunk >= sum->slots && !is_spent(request, chunk - sum->slots, missing)) {
            break;
        }
        const struct gpucoll_sum_piece piece = gpucoll_sum_piece(sum, chunk);
        status = gpucoll_copies_give(request, out, gpucoll_sum_slot(sum, request->team->rank, chunk),
                                     staging->send[piece.block] + piece.offset,
                                     brought_bytes(request, chunk, piece.bytes));
        *moved = true;
    }
    return status;
}

gpucoll_status gpucoll_reduce_host_tell(struct gpucoll_request *request, bool *moved)
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

static gpucoll_status give_copies(struct gpucoll_request *request, bool *moved, uint32_t *missing)
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

gpucoll_status gpucoll_reduce_host_fetch(struct gpucoll_request *request, bool *moved, uint32_t *missing)
{
    gpucoll_status status = give_back(request, moved);
    return status == GPUCOLL_OK ? give_copies(request, moved, missing) : status;
}

bool gpucoll_reduce_host_is_done(const struct gpucoll_request *request)
{
    const struct gpucoll_staging *staging = request->lane->staging;
    return fetched(staging) == staging->sum.chunks;
}
