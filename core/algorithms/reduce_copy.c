/*
 * Reductions of long messages whose data moves by copy engines alone. Each of the ranks that reduce has a slice, cut in chunks; the
 * others' copy engines bring it their parts of a chunk into its scratch, a kernel of its own GPU, which waits for nobody, reduces them in
 * rank order, and its copy engines write the result to where the others want it. (Reduce-scatter and all-gather, Rabenseifner
 * 2004, pipelined.)
 *
 *                      who reduces            who gets the result
 *   all-reduce         every rank             every rank
 *   reduce             every rank but root    the root: it could not take in more than the message anyway
 *   reduce-scatter     every rank             itself
 *
 * All ranks take the same steps together: step k brings the results of chunk k - LAG to those who want them, and the parts of chunk k
 * to those who reduce, in turns: in turn t to the rank t after the own. One copy alone fills the links of a GPU, and a GPU does
 * one after another; so in each turn every rank gets from one other what it can take in. Two that write to one rank at once would
 * both be slow while another gets nothing, and once out of step ranks stay so. Steps are queued one ahead, so that the links never wait for hosts; but
 * where the ranks are seen to have begun, or completed a step, well apart, all wait until the next is complete on all, and fall in step again
 * (docs/design-direct.md). Two ranks cannot get into each other's way. While step k is on its way, chunk k - 1 is reduced.
 *
 * Where parts wait. In scratch, in slot k % LAG for chunk k; that bounds the length of chunks. Or, of an all-reduce none of whose ranks sends
 * from its receive buffer, in the receive buffers: the rank that reduces slice s has the part of the rank of slice t where slice t will
 * be in the end, but that of the rank of the last slice, which may be shorter, where its own result will be. So two chunks do, of any length.
 *
 * What keeps it right:
 *   - Parts of chunk k go to a rank's slot k % LAG after it has told that chunk k - LAG, which was there before, is reduced.
 *   - Results of chunk k, which may come to where parts of it wait, go to a rank after it has told that it has reduced these.
 *   - Chunk k is reduced after all ranks have completed step k, the own too: in place, a reduce-scatter's result takes the place of
 *     what this rank sends another; and the slot's result of chunk k - LAG has left.
 *   - All-reduce and reduce in place: chunk k of a slice is overwritten by its result, hence after all have sent it.
 */
#include <math.h>
#include <string.h>
#include "core/algorithms/slices.h"
#include "core/direct.h"
#include "core/exchange.h"
#include "core/pipeline.h"
#include "core/plan/model.h"

enum {
    LAG = 2,  /* chunks whose parts are in scratch at once: one is reduced while another arrives */
    STEPS = 2 /* on their way at once, at most */
};

static const uint64_t line = 128;
/* Below this a chunk takes its copies less time than what they cost beside it. */
static const uint64_t least_chunk = (uint64_t)1 << 20;
/* Ranks that complete a step no further apart are in step. Out of step, they lose more than it takes them to wait for each other. (docs/design-direct.md,
 * "Steps ahead") */
static const uint64_t in_step_ns = 4000;
/* Of the news that hosts would wait for, so many are spared at most: in calls of more steps ranks fall out of step. (the same) */
static const unsigned most_spared = 8;

/* A lane's data area is slots of blocks, one for each rank that brings a part; and one for a result that goes elsewhere. */
static uint32_t blocks_of(enum gpucoll_coll coll, uint32_t nranks)
{
    return coll == GPUCOLL_REDUCE ? nranks : nranks - 1;
}

static uint64_t block_bytes(uint64_t data_bytes, enum gpucoll_coll coll, uint32_t nranks)
{
    return data_bytes / ((uint64_t)LAG * blocks_of(coll, nranks)) / line * line;
}

/* Of the longest slice of a message of `bytes`; of a reduce-scatter they are those of the longest block. */
static uint64_t slice_bytes(const struct gpucoll_plan_input *input)
{
    return gpucoll_slice_bytes(input->bytes, gpucoll_reduced_slices(input->coll, input->nranks));
}

/*
 * More chunks make what is not hidden shorter, and cost more copies and steps. Not hidden are: of a reduce, LAG steps, in which only the
 * root receives anything; of a reduce-scatter, the reduction of the last chunk, half as long as its copies; of an all-reduce nothing,
 * if there are two.
 */
static double wanted_chunks(const struct gpucoll_plan_input *input, uint64_t slice)
{
    const struct gpucoll_model *model = input->model;
    const uint32_t peers = input->nranks - 1;
    if (input->coll == GPUCOLL_ALLREDUCE) {
        return LAG;
    }
    const double bare = input->coll == GPUCOLL_REDUCE ? LAG : 0.5;
    const double all_us = (double)slice * peers / (model->copy_link_share * input->bandwidth) * 1e6;
    const double chunks = sqrt(bare * all_us / (peers * model->copy_each_us + model->copy_hop_us));
    return chunks < LAG ? LAG : chunks;
}

/* Do the parts wait in the receive buffers? There, every slice but the last has to be whole to take a part of another. */
static bool waits_in_results(enum gpucoll_coll coll, bool room, uint64_t bytes, uint32_t nranks)
{
    return coll == GPUCOLL_ALLREDUCE && room && gpucoll_slice_bytes(bytes, nranks) * (nranks - 1) <= bytes;
}

/* The longest chunk that there is a place for; 0: none. */
static uint64_t most_chunk(const struct gpucoll_plan_input *input)
{
    return waits_in_results(input->coll, input->room, input->bytes, input->nranks)
               ? UINT64_MAX
               : block_bytes(input->data_bytes, input->coll, input->nranks);
}

static uint64_t chunk_of(const struct gpucoll_plan_input *input, uint64_t slice)
{
    const uint64_t page = 4096;
    const uint64_t most = most_chunk(input);
    const uint64_t asked = (input->config->chunk + page - 1) / page * page;
    if (asked > 0) {
        return asked < most ? asked : most;
    }
    uint64_t chunk = (uint64_t)((double)slice / wanted_chunks(input, slice));
    chunk = chunk < least_chunk ? least_chunk : chunk;
    chunk = chunk < most ? chunk : most;
    const uint64_t chunks = slice > chunk ? (slice + chunk - 1) / chunk : 1; /* then equally long ones */
    return ((slice + chunks - 1) / chunks + line - 1) / line * line;
}

static const char *unusable(const struct gpucoll_plan_input *input)
{
    if (input->coll == GPUCOLL_REDUCE && gpucoll_slices_unusable(input) != NULL) {
        return gpucoll_slices_unusable(input);
    }
    const uint64_t slice = slice_bytes(input);
    const uint64_t most_chunks = (1u << 24) - 1 - LAG; /* as the board counts them */
    if (most_chunk(input) == 0) {
        return "the scratch area is too small for so many ranks";
    }
    return slice > 0 && slice / chunk_of(input, slice) >= most_chunks
               ? "the message has too many chunks, which the scratch area or coll_gpucoll_chunk keeps short"
               : NULL;
}

static bool results_leave(enum gpucoll_coll coll)
{
    return coll == GPUCOLL_ALLREDUCE || coll == GPUCOLL_REDUCE;
}

/* How often a host waits for another's news while the links stand still. Between steps it takes two: all tell of their copies, and of the
 * kernel; but while ranks are in step the next is queued before, which spares them most of it, if somebody looks all the time. Not of a reduce,
 * which is not queued ahead. Two ranks do not wait for each other, except for the first results and the last, and not for these either where parts
 * wait in the receive buffers. Of a single chunk the step that only reduces is none. */
static unsigned hops(const struct gpucoll_plan_input *input, const struct gpucoll_plan *plan)
{
    const bool results = results_leave(input->coll);
    if (input->nranks == 2) {
        const bool in_results = waits_in_results(input->coll, input->room, input->bytes, input->nranks);
        return !results ? 0 : plan->rounds <= 1 ? 1 : in_results ? 0 : 2;
    }
    const uint64_t steps = plan->rounds + (!results ? 0 : plan->rounds > 1 ? LAG : 1);
    const unsigned all = steps > 0 ? (unsigned)(2 * (steps - 1)) : 0;
    const bool spares = input->coll != GPUCOLL_REDUCE && !input->unattended;
    return spares ? all - gpucoll_least_of(all * 2 / 3, most_spared) : all;
}

/* What the reductions take that no copies hide: those of few CTAs, and short ones of two ranks, of which none is queued before its copies have
 * been seen, take longer than the step beside them (all-reduce of 32 MiB, plans of 2 H200). */
static double bare_us(const struct gpucoll_plan_input *input, const struct gpucoll_plan *plan)
{
    double us = gpucoll_model_sum_us(input, (double)plan->chunk_bytes, plan->ctas);
    if (plan->rounds < 2 || !results_leave(input->coll)) {
        return us;
    }
    us += input->nranks == 2 ? input->model->copy_hop_us : 0;
    const double brought = (double)plan->chunk_bytes * (input->nranks - 1);
    const double beside = brought / (input->model->copy_link_share * input->bandwidth) * 1e6;
    return us > beside ? (double)plan->rounds * (us - beside) : 0;
}

static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const uint32_t peers = input->nranks - 1;
    const uint64_t slice = slice_bytes(input);
    plan->threads = gpucoll_whole_warps(input->config->threads);
    plan->ctas = gpucoll_model_sum_ctas(input);
    plan->chunk_bytes = chunk_of(input, slice);
    plan->rounds = plan->chunk_bytes == 0 ? 0 : (slice + plan->chunk_bytes - 1) / plan->chunk_bytes;
    double copies = (double)plan->rounds * peers;
    double leaves = (double)slice * peers;
    if (input->coll == GPUCOLL_ALLREDUCE) {
        copies *= 2;
        leaves *= 2;
    } else if (input->coll == GPUCOLL_REDUCE) {
        copies += LAG * peers;
        leaves += (double)LAG * (double)plan->chunk_bytes * peers;
    }
    plan->predicted_us = gpucoll_model_copies_us(input, leaves, 0, hops(input, plan)) +
                         copies * input->model->copy_each_us + bare_us(input, plan);
}

/* What a rank has to do with a slice. */
struct part {
    const char *send; /* this rank's contribution */
    uint64_t begin;   /* of the slice in the message */
    uint64_t bytes;   /* 0: nobody reduces it */
};

static struct part part_of(const struct gpucoll_request *request, uint32_t rank)
{
    const struct gpucoll_kernel_run *runs = request->runs.run;
    if (request->coll != GPUCOLL_ALLREDUCE && request->coll != GPUCOLL_REDUCE) {
        return (struct part){runs[rank].send, 0, runs[rank].send_bytes};
    }
    struct part part = {.send = request->coll == GPUCOLL_REDUCE ? runs[request->root].send : request->send};
    part.bytes = gpucoll_reduced_slice(request->coll, request->bytes, request->team->size, request->root,
                                       rank, &part.begin);
    part.send += part.begin;
    return part;
}

static uint64_t chunk_bytes(const struct gpucoll_request *request, const struct part *part, uint64_t chunk)
{
    const uint64_t at = chunk * request->plan.chunk_bytes;
    const uint64_t left = at < part->bytes ? part->bytes - at : 0;
    return left < request->plan.chunk_bytes ? left : request->plan.chunk_bytes;
}

/* Where a rank has what `source` has brought of a chunk, in its receive buffer. */
static char *waiting_part(const struct gpucoll_request *request, uint32_t rank, uint64_t chunk,
                          uint32_t source)
{
    const uint32_t size = request->team->size;
    const uint32_t slice = source == size - 1 ? rank : source;
    char *results = rank == request->team->rank ? request->recv : gpucoll_direct_result(request, rank);
    return results + slice * gpucoll_slice_bytes(request->bytes, size) + chunk * request->plan.chunk_bytes;
}

/* Where a rank has what `source` has brought of a chunk; of scratch, the rank's own block is for a result that goes elsewhere. */
static char *block_of(const struct gpucoll_request *request, uint32_t rank, uint64_t chunk, uint32_t source)
{
    if (waits_in_results(request->coll, request->room, request->bytes, request->team->size)) {
        return waiting_part(request, rank, chunk, source);
    }
    const uint32_t blocks = blocks_of(request->coll, request->team->size);
    const uint32_t index = source < rank ? source : source > rank ? source - 1 : request->team->size - 1;
    char *lane = (char *)request->links->scratch[rank] + gpucoll_agreement_post(request, rank)->lane;
    return lane + gpucoll_lane_bytes(0) +
           (chunk % LAG * blocks + index) *
               block_bytes(request->gpu->data_bytes, request->coll, request->team->size);
}

/* Where the result of a chunk of the own slice is put: where it belongs or, if that is the root's alone, in scratch. */
static char *result_of(const struct gpucoll_request *request, const struct part *own, uint64_t chunk)
{
    const uint32_t rank = request->team->rank;
    if (request->coll == GPUCOLL_REDUCE) {
        return block_of(request, rank, chunk, rank);
    }
    char *recv = request->coll == GPUCOLL_ALLREDUCE ? request->recv : request->runs.run[rank].recv;
    return recv + own->begin + chunk * request->plan.chunk_bytes;
}

static uint64_t steps_of(const struct gpucoll_request *request)
{
    const bool spreads = request->coll == GPUCOLL_ALLREDUCE || request->coll == GPUCOLL_REDUCE;
    return request->plan.rounds + (spreads ? LAG : 0);
}

static gpucoll_status start(struct gpucoll_request *request)
{
    gpucoll_pipeline_start(request);
    gpucoll_pipeline_tell(request, GPUCOLL_FLOW_SENT, 0);
    return GPUCOLL_OK;
}

/* Is this rank's next step to wait until all have completed the one before? The ranks were not in step when the latest that all have completed
 * ended, or when they began; or it is a reduce, which gains nothing by going ahead. Two are never in each other's way. */
static bool falls_in_step(const struct gpucoll_request *request)
{
    const uint32_t step = request->pipeline.queued;
    return request->team->size > 2 && step > 0 &&
           (request->coll == GPUCOLL_REDUCE || gpucoll_pipeline_apart_ns(request, step - 1) > in_step_ns);
}

/* May this rank begin its next step? Else `*missing` has not completed an earlier one, or not reduced what is in its slot. */
static bool may_step(const struct gpucoll_request *request, uint32_t *missing)
{
    const uint64_t step = request->pipeline.queued;
    if (step == steps_of(request)) {
        return false;
    }
    const uint64_t ahead = falls_in_step(request) ? 0 : STEPS - 1;
    const uint64_t complete = step > ahead ? step - ahead : 0;
    return gpucoll_pipeline_all(request, complete, step < LAG ? 0 : step - LAG + 1, missing);
}

/* The copies of the next step that go into one of the queues, in the order of their turns. Returns how many there are. */
static uint32_t list_copies(const struct gpucoll_request *request, uint32_t queue, uint32_t queues,
                            struct gpucoll_copy *copies)
{
    const struct gpucoll_team *team = request->team;
    const uint64_t step = request->pipeline.queued;
    const uint64_t part_at = step * request->plan.chunk_bytes;
    const struct part own = part_of(request, team->rank);
    uint32_t count = 0;
    for (uint32_t turn = 1; turn < team->size; turn++) {
        const uint32_t peer = (team->rank + turn) % team->size;
        if (turn % queues != queue) {
            continue;
        }
        if (step >= LAG && gpucoll_reduced_is_wanted(request->coll, request->root, peer)) {
            const uint64_t chunk = step - LAG;
            char *result = (char *)gpucoll_direct_result(request, peer) + own.begin;
            copies[count] =
                (struct gpucoll_copy){result + chunk * request->plan.chunk_bytes,
                                      result_of(request, &own, chunk), chunk_bytes(request, &own, chunk)};
            count += copies[count].bytes > 0;
        }
        const struct part part = part_of(request, peer);
        copies[count] = (struct gpucoll_copy){block_of(request, peer, step, team->rank), part.send + part_at,
                                              chunk_bytes(request, &part, step)};
        count += copies[count].bytes > 0;
    }
    return count;
}

/* A ticket for each queue; of steps that are on their way at once they are apart. */
static struct gpucoll_copy_ticket *tickets_of(struct gpucoll_request *request, uint64_t step)
{
    _Static_assert(STEPS * GPUCOLL_PEER_QUEUES <= GPUCOLL_MAX_LOCAL, "there are so many tickets");
    return &request->pipeline.sending[step % STEPS * GPUCOLL_PEER_QUEUES];
}

/* The turns are shared out among the queues; on all ranks alike, unless coll_gpucoll_copy_queues differs. */
static gpucoll_status queue_step(struct gpucoll_request *request)
{
    struct gpucoll_copy copies[2 * GPUCOLL_MAX_LOCAL];
    const uint32_t queues = (uint32_t)request->team->context->config->copy_queues;
    struct gpucoll_copy_ticket *tickets = tickets_of(request, request->pipeline.queued);
    gpucoll_status status = GPUCOLL_OK;
    for (uint32_t queue = 0; queue < queues && status == GPUCOLL_OK; queue++) {
        const uint32_t count = list_copies(request, queue, queues, copies);
        status = gpucoll_copies_in(request->gpu, queue, copies, count, GPUCOLL_COPY_IN_TURN, &tickets[queue]);
    }
    request->pipeline.queued++;
    return status;
}

static gpucoll_status step_copied(struct gpucoll_request *request, uint64_t step)
{
    const struct gpucoll_copy_ticket *tickets = tickets_of(request, step);
    gpucoll_status status = GPUCOLL_OK;
    for (uint32_t queue = 0; queue < GPUCOLL_PEER_QUEUES && status == GPUCOLL_OK; queue++) {
        status = gpucoll_copy_done(request->gpu, tickets[queue]);
    }
    return status;
}

/* Ends the oldest step that is on its way, and tells the peers; begins the next. */
static gpucoll_status move_step(struct gpucoll_request *request, uint32_t *missing)
{
    struct gpucoll_pipeline *pipeline = &request->pipeline;
    if (pipeline->sent < pipeline->queued) {
        gpucoll_status status = step_copied(request, pipeline->sent);
        if (status == GPUCOLL_OK) {
            gpucoll_pipeline_tell(request, GPUCOLL_FLOW_SENT, ++pipeline->sent);
        } else if (status == GPUCOLL_IN_PROGRESS) {
            *missing = request->team->rank;
        } else {
            return status;
        }
    }
    return may_step(request, missing) ? queue_step(request) : GPUCOLL_OK;
}

static gpucoll_status reduce_chunk(struct gpucoll_request *request, const struct part *own, uint64_t bytes)
{
    const struct gpucoll_team *team = request->team;
    const uint64_t chunk = request->pipeline.reduced;
    struct gpucoll_kernel_args args;
    memset(&args, 0, offsetof(struct gpucoll_kernel_args, peer));
    args.send = own->send + chunk * request->plan.chunk_bytes;
    args.recv = result_of(request, own, chunk);
    args.bytes = bytes;
    args.rank = team->rank;
    args.nranks = team->size;
    for (uint32_t i = 0; i < team->size; i++) {
        args.peer[i] = (struct gpucoll_kernel_peer){.lane = block_of(request, team->rank, chunk, i)};
    }
    request->pipeline.reducing = 1;
    return gpucoll_kernel_start(request, GPUCOLL_KERNEL_REDUCE_BLOCKS, &args);
}

/* Reduces chunk after chunk, one at a time, and tells the peers. */
static gpucoll_status reduce_more(struct gpucoll_request *request, uint32_t *missing)
{
    struct gpucoll_pipeline *pipeline = &request->pipeline;
    const struct gpucoll_accel_ops *ops = request->gpu->device->accel->ops;
    const struct part own = part_of(request, request->team->rank);
    while (pipeline->reduced < request->plan.rounds) {
        const uint64_t bytes = chunk_bytes(request, &own, pipeline->reduced);
        gpucoll_status status = GPUCOLL_OK;
        if (pipeline->reducing > 0) {
            *missing = request->team->rank;
            status = ops->stream_poll(request->lane->stream);
        } else if (bytes > 0) {
            const bool may = gpucoll_pipeline_all(request, pipeline->reduced + 1, 0, missing);
            return may ? reduce_chunk(request, &own, bytes) : GPUCOLL_OK;
        }
        if (status != GPUCOLL_OK) {
            return status == GPUCOLL_IN_PROGRESS ? GPUCOLL_OK : status;
        }
        pipeline->reducing = 0;
        gpucoll_pipeline_tell(request, GPUCOLL_FLOW_REDUCED, ++pipeline->reduced);
    }
    return GPUCOLL_OK;
}

static gpucoll_status progress(struct gpucoll_request *request)
{
    const struct gpucoll_pipeline *pipeline = &request->pipeline;
    uint32_t missing = request->team->rank;
    if (request->in_barrier) {
        return gpucoll_pipeline_end(request);
    }
    gpucoll_status status = reduce_more(request, &missing);
    if (status == GPUCOLL_OK) {
        status = move_step(request, &missing);
    }
    if (status != GPUCOLL_OK) {
        return status;
    }
    const bool all = pipeline->sent == steps_of(request) && pipeline->reduced == request->plan.rounds;
    return all ? gpucoll_pipeline_end(request) : gpucoll_pipeline_idle(request, missing);
}

#define ROW(row, collective, text)                                                                           \
    const struct gpucoll_algorithm row = {                                                                   \
        .name = text,                                                                                        \
        .protocol = "copy",                                                                                  \
        .help = "copy engines bring the parts of each slice to the rank that reduces it, and its result to " \
                "who wants it, in chunks; a short kernel reduces each; for large messages in buffers that "  \
                "are used again",                                                                            \
        .direct = true,                                                                                      \
        .late_kernels = true,                                                                                \
        .coll = collective,                                                                                  \
        .rank_order = true,                                                                                  \
        .unusable = unusable,                                                                                \
        .shape = shape,                                                                                      \
        .start = start,                                                                                      \
        .progress = progress,                                                                                \
        .stop = gpucoll_pipeline_stop,                                                                       \
    }

ROW(gpucoll_allreduce_copy, GPUCOLL_ALLREDUCE, "twoshot");
ROW(gpucoll_reduce_copy, GPUCOLL_REDUCE, "scatter_gather");
ROW(gpucoll_reduce_scatter_copy, GPUCOLL_REDUCE_SCATTER, "exchange");
ROW(gpucoll_reduce_scatter_block_copy, GPUCOLL_REDUCE_SCATTER_BLOCK, "exchange");
