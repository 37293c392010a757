/*
 * Reductions of long messages by copy engines, in chunks: each of the ranks that reduce has a slice; the others' copy engines bring it
 * their parts of a chunk, a kernel of its own GPU reduces them in rank order, and its copy engines spread the result to where
 * the others want it. The chunks overlap, so that the links are always busy. (Reduce-scatter and all-gather, Rabenseifner 2004,
 * pipelined.)
 *
 *                      who reduces            who gets the result
 *   all-reduce         every rank             every rank
 *   reduce             every rank but root    the root: it could not take in more than the message anyway
 *   reduce-scatter     every rank             itself
 *
 * The order of steps that keeps it right: a rank sends chunk c into the scratch slot c % SLOTS of a rank that reduces once that one has
 * told that it has reduced chunk c - SLOTS, which was there before; it reduces chunk c once all have told that they have sent
 * it. All-reduce in place: chunk c of a slice is overwritten by its result after its owner has had it from everyone.
 */
#include <string.h>
#include "core/direct.h"
#include "core/exchange.h"
#include "core/model.h"
#include "core/pipeline.h"

static const uint64_t line = 128;

/* A lane's data area as slots of one block for each rank. */
static uint64_t slot_block_bytes(uint64_t data_bytes, uint32_t nranks)
{
    return gpucoll_exchange_block_bytes(data_bytes, nranks, GPUCOLL_PIPELINE_SLOTS / GPUCOLL_SLOTS);
}

static char *slot_block(const struct gpucoll_request *request, uint32_t rank, uint32_t chunk, uint32_t source)
{
    const uint32_t slot = chunk % GPUCOLL_PIPELINE_SLOTS;
    char *lane = (char *)request->links->scratch[rank] + gpucoll_agreement_post(request, rank)->lane;
    return lane + gpucoll_exchange_block_offset(request->gpu->data_bytes, request->team->size,
                                                GPUCOLL_PIPELINE_SLOTS / GPUCOLL_SLOTS, slot / GPUCOLL_SLOTS,
                                                slot % GPUCOLL_SLOTS, source);
}

/* Bytes of the longest slice of a message that is `bytes` long, or whose longest block is (reduce-scatter). */
static uint64_t slice_bytes(enum gpucoll_coll coll, uint64_t bytes, uint32_t nranks)
{
    const uint64_t slices = coll == GPUCOLL_ALLREDUCE ? nranks : coll == GPUCOLL_REDUCE ? nranks - 1 : 1;
    return ((bytes + slices - 1) / slices + line - 1) / line * line;
}

/* The part of a slice that this rank contributes, or, for its own slice, where it is reduced. */
struct part {
    const char *send;
    uint64_t begin; /* of the slice in the message */
    uint64_t bytes; /* 0: the rank does not reduce */
};

static struct part part_of(const struct gpucoll_request *request, uint32_t rank)
{
    const uint32_t size = request->team->size;
    const uint64_t slice = slice_bytes(request->coll, request->bytes, size);
    struct part part = {.send = request->send};
    if (request->coll != GPUCOLL_ALLREDUCE && request->coll != GPUCOLL_REDUCE) {
        const struct gpucoll_kernel_run *run = &request->runs.run[rank];
        return (struct part){run->send, 0, run->send_bytes};
    }
    uint32_t index = rank;
    if (request->coll == GPUCOLL_REDUCE) {
        part.send = request->runs.run[request->root].send;
        if (rank == request->root) {
            return part;
        }
        index = (rank + size - request->root - 1) % size;
    }
    part.begin = slice * index < request->bytes ? slice * index : request->bytes;
    const uint64_t left = request->bytes - part.begin;
    part.bytes = left < slice ? left : slice;
    return part;
}

static uint64_t chunk_bytes(const struct gpucoll_request *request, const struct part *part, uint32_t chunk)
{
    const uint64_t at = chunk * request->pipeline.block;
    const uint64_t left = at < part->bytes ? part->bytes - at : 0;
    return left < request->pipeline.block ? left : request->pipeline.block;
}

static const char *unusable(const struct gpucoll_plan_input *input)
{
    if (slot_block_bytes(input->data_bytes, input->nranks) < line) {
        return "the scratch area is too small for so many ranks";
    }
    return gpucoll_model_copies_unusable(input);
}

static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const uint64_t slice = slice_bytes(input->coll, input->bytes, input->nranks);
    plan->chunk_bytes =
        gpucoll_pipeline_block(input->config, slice, slot_block_bytes(input->data_bytes, input->nranks));
    plan->rounds = (slice + plan->chunk_bytes - 1) / plan->chunk_bytes;
    plan->threads = gpucoll_whole_warps(input->config->threads);
    plan->ctas = gpucoll_most_ctas(input);
    double leaves = (double)slice * (input->nranks - 1);
    double fill = (double)plan->chunk_bytes * (input->nranks - 1);
    if (input->coll == GPUCOLL_ALLREDUCE) {
        leaves *= 2;
        fill *= 2;
    } else if (input->coll == GPUCOLL_REDUCE) {
        fill *= 2;
    }
    plan->predicted_us = gpucoll_model_copies_us(input, leaves + fill, 2 * (input->nranks - 1), 3);
}

static gpucoll_status start(struct gpucoll_request *request)
{
    gpucoll_pipeline_start(request, slice_bytes(request->coll, request->bytes, request->team->size));
    return GPUCOLL_OK;
}

/* May this rank send the next chunk to all that reduce? Else `*missing` has not reduced what its slot holds. */
static bool may_send(const struct gpucoll_request *request, uint32_t *missing)
{
    const struct gpucoll_pipeline *pipeline = &request->pipeline;
    for (uint32_t i = 0; i < request->team->size; i++) {
        const struct part part = part_of(request, i);
        if (i != request->team->rank && pipeline->queued >= GPUCOLL_PIPELINE_SLOTS &&
            chunk_bytes(request, &part, pipeline->queued) > 0 &&
            gpucoll_pipeline_told(request, GPUCOLL_FLOW_REDUCED, i) + GPUCOLL_PIPELINE_SLOTS <=
                pipeline->queued) {
            *missing = i;
            return false;
        }
    }
    return true;
}

static gpucoll_status send_chunk(struct gpucoll_request *request)
{
    const struct gpucoll_team *team = request->team;
    struct gpucoll_pipeline *pipeline = &request->pipeline;
    const uint32_t chunk = pipeline->queued;
    struct gpucoll_copy_ticket *tickets = pipeline->sending[chunk % GPUCOLL_PIPELINE_SLOTS];
    for (uint32_t turn = 1; turn < team->size; turn++) {
        const uint32_t peer = (team->rank + turn) % team->size;
        const struct part part = part_of(request, peer);
        gpucoll_status status =
            gpucoll_pipeline_copy(request, peer, slot_block(request, peer, chunk, team->rank),
                                  part.send + part.begin + chunk * pipeline->block,
                                  chunk_bytes(request, &part, chunk), &tickets[peer]);
        if (status != GPUCOLL_OK) {
            return status;
        }
    }
    pipeline->queued++;
    return GPUCOLL_OK;
}

/* Where the result of a chunk of the own slice is put: where it belongs, or for the root, in scratch. */
static char *result_of(const struct gpucoll_request *request, const struct part *own, uint32_t chunk)
{
    const uint32_t rank = request->team->rank;
    if (request->coll == GPUCOLL_REDUCE) {
        return slot_block(request, rank, chunk, rank);
    }
    char *recv = request->coll == GPUCOLL_ALLREDUCE ? request->recv : request->runs.run[rank].recv;
    return recv + own->begin + chunk * request->pipeline.block;
}

static gpucoll_status reduce_chunk(struct gpucoll_request *request, const struct part *own, uint64_t bytes)
{
    const struct gpucoll_team *team = request->team;
    struct gpucoll_pipeline *pipeline = &request->pipeline;
    const uint32_t chunk = pipeline->reduced;
    struct gpucoll_kernel_args args;
    memset(&args, 0, offsetof(struct gpucoll_kernel_args, peer));
    args.send = own->send + own->begin + chunk * pipeline->block;
    args.recv = result_of(request, own, chunk);
    args.bytes = bytes;
    args.rank = team->rank;
    args.nranks = team->size;
    for (uint32_t i = 0; i < team->size; i++) {
        args.peer[i] = (struct gpucoll_kernel_peer){.lane = slot_block(request, team->rank, chunk, i)};
    }
    pipeline->reducing = true;
    return gpucoll_kernel_start(request, GPUCOLL_KERNEL_REDUCE_BLOCKS, &args);
}

/* The result of the latest chunk goes to those who want it. */
static gpucoll_status spread_chunk(struct gpucoll_request *request, const struct part *own, uint64_t bytes)
{
    const struct gpucoll_team *team = request->team;
    struct gpucoll_pipeline *pipeline = &request->pipeline;
    const uint32_t chunk = pipeline->reduced;
    struct gpucoll_copy_ticket *tickets = pipeline->spreading[chunk % GPUCOLL_PIPELINE_SLOTS];
    const char *from = result_of(request, own, chunk);
    for (uint32_t turn = 1; turn < team->size; turn++) {
        const uint32_t peer = (team->rank + turn) % team->size;
        bool wants =
            request->coll == GPUCOLL_ALLREDUCE || (request->coll == GPUCOLL_REDUCE && peer == request->root);
        if (!wants) {
            continue;
        }
        char *to = (char *)gpucoll_direct_result(request, peer) + own->begin + chunk * pipeline->block;
        gpucoll_status status = gpucoll_pipeline_copy(request, peer, to, from, bytes, &tickets[peer]);
        if (status != GPUCOLL_OK) {
            return status;
        }
    }
    return GPUCOLL_OK;
}

/* GPUCOLL_OK when all ranks have sent the chunk that is to be reduced next, and its slot is free of an older result. */
static gpucoll_status may_reduce(struct gpucoll_request *request, uint32_t *missing)
{
    struct gpucoll_pipeline *pipeline = &request->pipeline;
    const uint32_t chunk = pipeline->reduced;
    for (uint32_t i = 0; i < request->team->size; i++) {
        if (i != request->team->rank && gpucoll_pipeline_told(request, GPUCOLL_FLOW_SENT, i) <= chunk) {
            *missing = i;
            return GPUCOLL_IN_PROGRESS;
        }
    }
    /* In place, the result of a reduce-scatter takes the place of what this rank sends another. */
    if (request->coll != GPUCOLL_ALLREDUCE && request->coll != GPUCOLL_REDUCE && pipeline->sent <= chunk) {
        *missing = request->team->rank;
        return GPUCOLL_IN_PROGRESS;
    }
    return gpucoll_pipeline_copied(request, pipeline->spreading[chunk % GPUCOLL_PIPELINE_SLOTS]);
}

static gpucoll_status send_more(struct gpucoll_request *request, uint32_t *missing)
{
    struct gpucoll_pipeline *pipeline = &request->pipeline;
    while (pipeline->queued < pipeline->chunks &&
           pipeline->queued - pipeline->sent < GPUCOLL_PIPELINE_SLOTS && may_send(request, missing)) {
        gpucoll_status status = send_chunk(request);
        if (status != GPUCOLL_OK) {
            return status;
        }
    }
    return gpucoll_pipeline_sent(request);
}

static gpucoll_status reduce_more(struct gpucoll_request *request, uint32_t *missing)
{
    struct gpucoll_pipeline *pipeline = &request->pipeline;
    const struct gpucoll_accel_ops *ops = request->gpu->device->accel->ops;
    const struct part own = part_of(request, request->team->rank);
    while (pipeline->reduced < pipeline->chunks) {
        const uint64_t bytes = chunk_bytes(request, &own, pipeline->reduced);
        gpucoll_status status = GPUCOLL_OK;
        if (pipeline->reducing) {
            status = ops->stream_poll(request->lane->stream);
            if (status == GPUCOLL_OK) {
                status = spread_chunk(request, &own, bytes);
            }
        } else if (bytes > 0) {
            status = may_reduce(request, missing);
            if (status == GPUCOLL_OK) {
                status = reduce_chunk(request, &own, bytes);
                if (status == GPUCOLL_OK) {
                    return GPUCOLL_OK;
                }
            }
        }
        if (status != GPUCOLL_OK) {
            return status == GPUCOLL_IN_PROGRESS ? GPUCOLL_OK : status;
        }
        pipeline->reducing = false;
        pipeline->reduced++;
        gpucoll_pipeline_tell(request, GPUCOLL_FLOW_REDUCED, pipeline->reduced);
    }
    return GPUCOLL_OK;
}

static gpucoll_status is_spread(struct gpucoll_request *request)
{
    gpucoll_status status = GPUCOLL_OK;
    for (int i = 0; i < GPUCOLL_PIPELINE_SLOTS && status == GPUCOLL_OK; i++) {
        status = gpucoll_pipeline_copied(request, request->pipeline.spreading[i]);
    }
    return status;
}

static gpucoll_status progress(struct gpucoll_request *request)
{
    const struct gpucoll_pipeline *pipeline = &request->pipeline;
    uint32_t missing = request->team->rank;
    if (request->in_barrier) {
        return gpucoll_pipeline_end(request);
    }
    gpucoll_status status = send_more(request, &missing);
    if (status == GPUCOLL_OK) {
        status = reduce_more(request, &missing);
    }
    if (status == GPUCOLL_OK) {
        const bool all = pipeline->sent == pipeline->chunks && pipeline->reduced == pipeline->chunks;
        status = all ? is_spread(request) : GPUCOLL_IN_PROGRESS;
    }
    if (status == GPUCOLL_IN_PROGRESS) {
        return gpucoll_pipeline_idle(request, missing);
    }
    return status == GPUCOLL_OK ? gpucoll_pipeline_end(request) : status;
}

#define ROW(row, collective, text)                                                                           \
    const struct gpucoll_algorithm row = {                                                                   \
        .name = text,                                                                                        \
        .protocol = "copy",                                                                                  \
        .help =                                                                                              \
            "copy engines bring each slice to the rank that reduces it, and its result to who wants it, in " \
            "chunks; for large messages in buffers that are used again",                                     \
        .direct = true,                                                                                      \
        .coll = collective,                                                                                  \
        .rank_order = true,                                                                                  \
        .unusable = unusable,                                                                                \
        .shape = shape,                                                                                      \
        .start = start,                                                                                      \
        .progress = progress,                                                                                \
    }

ROW(gpucoll_allreduce_copy, GPUCOLL_ALLREDUCE, "twoshot");
ROW(gpucoll_reduce_copy, GPUCOLL_REDUCE, "scatter_gather");
ROW(gpucoll_reduce_scatter_copy, GPUCOLL_REDUCE_SCATTER, "exchange");
ROW(gpucoll_reduce_scatter_block_copy, GPUCOLL_REDUCE_SCATTER_BLOCK, "exchange");
