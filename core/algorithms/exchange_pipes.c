/*
 * Exchange through pipes (transports shm, cpu_reduce): what is only moved goes chunk by chunk into host memory by the sender's copy engine
 * and out of it by the receivers'. Both directions run at once, on different chunks; the host only starts copies
 * and passes flags on, and never waits.
 */
#include <string.h>
#include "core/exchange.h"
#include "core/plan/algorithm.h"
#include "core/plan/model.h"
#include "core/staging.h"
#include "core/watchdog.h"

/* Of a stream for one rank; with one stream a rank there is room for more. */
enum { SLOTS_OF_MANY = 4, SLOTS_OF_ONE = 8 };
/* Chunks of a message, if they are no longer than this. */
static const uint64_t parts = 4;
static const uint64_t most_chunk = 1 << 20;

static void cut(struct gpucoll_pipes *pipes, enum gpucoll_coll coll, uint32_t nranks, uint64_t bytes,
                uint64_t area)
{
    const bool same = gpucoll_exchange_sends_same(coll);
    pipes->streams = same ? 1 : nranks;
    pipes->slots = same ? SLOTS_OF_ONE : SLOTS_OF_MANY;
    pipes->chunk_bytes =
        gpucoll_staging_chunk(bytes, parts, most_chunk, area / pipes->streams / pipes->slots);
}

static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = input->model;
    struct gpucoll_pipes pipes;
    cut(&pipes, input->coll, input->nranks, input->bytes, gpucoll_staging_bytes(input->config));
    const double bytes = (double)input->bytes;
    const double first = bytes < (double)pipes.chunk_bytes ? bytes : (double)pipes.chunk_bytes;
    const double through = input->coll == GPUCOLL_BCAST ? bytes : bytes * (input->nranks - 1);
    plan->predicted_us =
        model->agree_us + 2 * model->host_copy_us + (first + through) / gpucoll_host_bandwidth(input) * 1e6;
}

/* ---- the call ---- */

static uint64_t chunks_of(const struct gpucoll_pipes *pipes, uint64_t bytes)
{
    return (bytes + pipes->chunk_bytes - 1) / pipes->chunk_bytes;
}

static uint64_t piece_bytes(const struct gpucoll_pipes *pipes, uint64_t bytes, uint64_t chunk)
{
    const uint64_t left = bytes - chunk * pipes->chunk_bytes;
    return left < pipes->chunk_bytes ? left : pipes->chunk_bytes;
}

/* Where ranks share a GPU, a copy within its memory waits for a turn: then the own part goes as all others. */
static bool sends_itself(const struct gpucoll_request *request)
{
    const struct gpucoll_kernel_run *own = &request->runs.run[request->team->rank];
    return gpucoll_links_in_turn(request->links) && own->recv_bytes > 0 && own->send != own->recv;
}

static void describe(const struct gpucoll_request *request, struct gpucoll_moves *moves)
{
    struct gpucoll_pipes *pipes = &moves->pipes;
    const uint32_t left_out = sends_itself(request) ? pipes->nranks : request->team->rank;
    for (uint32_t i = 0; i < pipes->nranks; i++) {
        const struct gpucoll_kernel_run *run = &request->runs.run[i];
        const uint32_t stream = gpucoll_pipe_stream(pipes, i);
        if (i != left_out && run->send_bytes > 0) {
            moves->out[stream].place = (char *)(uintptr_t)run->send;
            moves->out[stream].bytes = run->send_bytes;
            pipes->readers[stream] |= 1u << i;
        }
        if (i != left_out && run->recv_bytes > 0) {
            moves->in[i].place = run->recv;
            moves->in[i].bytes = run->recv_bytes;
        }
    }
    for (uint32_t i = 0; i < pipes->nranks; i++) {
        moves->out[i].chunks = chunks_of(pipes, moves->out[i].bytes);
        moves->in[i].chunks = chunks_of(pipes, moves->in[i].bytes);
        moves->out_left += moves->out[i].chunks;
        moves->in_left += moves->in[i].chunks;
    }
}

/* The own part first: it uses what is idle until the first chunk comes. */
static gpucoll_status copy_own(struct gpucoll_request *request, struct gpucoll_staging *staging)
{
    const struct gpucoll_kernel_run *own = &request->runs.run[request->team->rank];
    struct gpucoll_moves *moves = &staging->moves;
    if (own->recv_bytes == 0 || own->send == own->recv || sends_itself(request)) {
        return GPUCOLL_OK;
    }
    moves->in_flight[0] = request->team->rank;
    moves->in[request->team->rank].given++;
    moves->in_left++;
    return gpucoll_copies_give_own(request, &staging->in, own->recv, own->send, own->recv_bytes);
}

static gpucoll_status start(struct gpucoll_request *request)
{
    struct gpucoll_staging *staging = request->lane->staging;
    struct gpucoll_moves *moves = &staging->moves;
    struct gpucoll_pipes *pipes = &moves->pipes;
    gpucoll_staging_begin(staging);
    memset(moves, 0, sizeof *moves);
    pipes->rank = request->team->rank;
    pipes->nranks = request->team->size;
    cut(pipes, request->coll, pipes->nranks, request->bytes,
        gpucoll_staging_bytes(request->team->context->config));
    for (uint32_t i = 0; i < pipes->nranks; i++) {
        pipes->lane[i] = gpucoll_staging_lane(request, i, &pipes->epoch[i]);
    }
    describe(request, moves);
    gpucoll_watchdog_reset(request);
    return copy_own(request, staging);
}

/* The next chunk of a stream, if there is one and it may go; `*gone` says so. */
static gpucoll_status send_chunk(struct gpucoll_request *request, uint32_t stream, bool *gone,
                                 uint32_t *missing)
{
    struct gpucoll_staging *staging = request->lane->staging;
    struct gpucoll_moves *moves = &staging->moves;
    struct gpucoll_move *move = &moves->out[stream];
    struct gpucoll_copies *out = &staging->out;
    if (move->given == move->chunks || gpucoll_copies_full(out)) {
        return GPUCOLL_OK;
    }
    void *slot = request->links->pipe->reserve(&moves->pipes, stream, move->given, missing);
    if (slot == NULL) {
        return GPUCOLL_OK;
    }
    const uint64_t chunk = move->given++;
    *gone = true;
    moves->out_flight[out->given % GPUCOLL_IN_FLIGHT] = stream;
    return gpucoll_copies_give(request, out, slot, move->place + chunk * moves->pipes.chunk_bytes,
                               piece_bytes(&moves->pipes, move->bytes, chunk));
}

/* In place, what comes from a rank overwrites what goes to it: not before that has gone. */
static bool may_overwrite(const struct gpucoll_moves *moves, uint32_t source, uint64_t chunk)
{
    const struct gpucoll_move *out = &moves->out[gpucoll_pipe_stream(&moves->pipes, source)];
    return out->bytes == 0 || out->place != moves->in[source].place || out->complete > chunk;
}

static gpucoll_status take_chunk(struct gpucoll_request *request, uint32_t source, bool *gone,
                                 uint32_t *missing)
{
    struct gpucoll_staging *staging = request->lane->staging;
    struct gpucoll_moves *moves = &staging->moves;
    struct gpucoll_move *move = &moves->in[source];
    struct gpucoll_copies *in = &staging->in;
    if (move->given >= move->chunks || gpucoll_copies_full(in) ||
        !may_overwrite(moves, source, move->given)) {
        return GPUCOLL_OK;
    }
    const void *chunk_at = request->links->pipe->front(&moves->pipes, source, move->given);
    if (chunk_at == NULL) {
        *missing = source;
        return GPUCOLL_OK;
    }
    const uint64_t chunk = move->given++;
    *gone = true;
    moves->in_flight[in->given % GPUCOLL_IN_FLIGHT] = source;
    return gpucoll_copies_give(request, in, move->place + chunk * moves->pipes.chunk_bytes, chunk_at,
                               piece_bytes(&moves->pipes, move->bytes, chunk));
}

/* A chunk to and from each rank in turn, beginning with the next one, as long as any moves. */
static gpucoll_status give_copies(struct gpucoll_request *request, bool *moved, uint32_t *missing)
{
    const struct gpucoll_pipes *pipes = &request->lane->staging->moves.pipes;
    gpucoll_status status = GPUCOLL_OK;
    bool gone = true;
    while (gone && status == GPUCOLL_OK) {
        gone = false;
        for (uint32_t i = 1; i <= pipes->nranks && status == GPUCOLL_OK; i++) {
            const uint32_t rank = (pipes->rank + i) % pipes->nranks;
            if (rank < pipes->streams) {
                status = send_chunk(request, rank, &gone, missing);
            }
            if (status == GPUCOLL_OK) {
                status = take_chunk(request, rank, &gone, missing);
            }
        }
        *moved |= gone;
    }
    return status;
}

/* Tells of the copies that have become complete. */
static gpucoll_status see_copies(struct gpucoll_request *request, bool *moved)
{
    struct gpucoll_staging *staging = request->lane->staging;
    struct gpucoll_moves *moves = &staging->moves;
    const struct gpucoll_pipe_ops *pipe = request->links->pipe;
    uint64_t out = staging->out.complete;
    uint64_t in = staging->in.complete;
    gpucoll_status status = gpucoll_copies_look(request->gpu, &staging->out, moved);
    if (status == GPUCOLL_OK) {
        status = gpucoll_copies_look(request->gpu, &staging->in, moved);
    }
    for (; out < staging->out.complete; out++, moves->out_left--) {
        const uint32_t stream = moves->out_flight[out % GPUCOLL_IN_FLIGHT];
        pipe->push(&moves->pipes, stream, ++moves->out[stream].complete);
    }
    for (; in < staging->in.complete; in++, moves->in_left--) {
        const uint32_t source = moves->in_flight[in % GPUCOLL_IN_FLIGHT];
        const uint64_t complete = ++moves->in[source].complete;
        if (moves->in[source].chunks > 0) { /* no copy within the GPU */
            pipe->pop(&moves->pipes, source, complete);
        }
    }
    return status;
}

static gpucoll_status progress(struct gpucoll_request *request)
{
    const struct gpucoll_moves *moves = &request->lane->staging->moves;
    uint32_t missing = request->team->rank;
    if (request->in_barrier) {
        return gpucoll_staging_leave(request);
    }
    bool moved = false;
    gpucoll_status status = see_copies(request, &moved);
    if (status == GPUCOLL_OK) {
        status = give_copies(request, &moved, &missing);
    }
    if (status != GPUCOLL_OK) {
        return status;
    }
    if (moves->out_left == 0 && moves->in_left == 0) {
        return gpucoll_staging_leave(request);
    }
    if (moved) {
        gpucoll_watchdog_reset(request);
        return GPUCOLL_IN_PROGRESS;
    }
    return gpucoll_watchdog(request, missing, "moving data through host memory");
}

const struct gpucoll_algorithm gpucoll_exchange_pipes = {
    .name = "pipes",
    .protocol = "host",
    .help = "what is moved goes through host memory in chunks, by the copy engines; uses no SM",
    .coll = GPUCOLL_ANY_MOVE,
    .rank_order = true,
    .needs = GPUCOLL_TL_PIPES,
    .shape = shape,
    .start = start,
    .progress = progress,
    .stop = gpucoll_staging_stop,
};
