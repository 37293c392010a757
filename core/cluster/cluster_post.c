/*
 * What a call of several hosts is, before its stages begin.
 */
#include "core/cluster/cluster_call.h"

#include <stdlib.h>
#include <string.h>
#include "core/agreement.h"
#include "core/cluster/cluster_pairs.h"
#include "core/watchdog.h"

/* The blocks that all ranks name alike; NULL: this collective has none. */
static const struct gpucoll_block *common_blocks(const struct gpucoll_coll_args *args)
{
    switch (args->coll) {
    case GPUCOLL_ALLGATHER:
    case GPUCOLL_ALLGATHERV:
        return args->recv_blocks;
    case GPUCOLL_REDUCE_SCATTER:
    case GPUCOLL_REDUCE_SCATTER_BLOCK:
        return args->send_blocks;
    default:
        return NULL;
    }
}

/* What tells blocks of other lengths from these; 0: there are none. */
static uint32_t signature_of(const struct gpucoll_block *blocks, uint32_t size)
{
    uint64_t word = 0;
    for (uint32_t i = 0; blocks != NULL && i < size; i++) {
        word = (word ^ blocks[i].bytes) * 0x9E3779B97F4A7C15u;
    }
    return (uint32_t)(word ^ word >> 32);
}

static bool note_blocks(struct gpucoll_cluster_call *call, const struct gpucoll_block *blocks)
{
    const uint32_t size = call->cluster->size;
    call->blocks = calloc(size, sizeof *blocks);
    if (call->blocks == NULL) {
        return false;
    }
    memcpy(call->blocks, blocks, size * sizeof *blocks);
    for (uint32_t i = 0; i < size; i++) {
        call->bytes = blocks[i].bytes > call->bytes ? blocks[i].bytes : call->bytes;
    }
    return true;
}

static void note_buffers(struct gpucoll_cluster_call *call, const struct gpucoll_request *request,
                         const struct gpucoll_coll_args *args)
{
    call->send = request->send;
    call->recv = request->recv;
    if (args->coll == GPUCOLL_ALLREDUCE) {
        call->bytes = args->count * gpucoll_type_size(args->type);
        return;
    }
    const bool each_sent = call->blocks != NULL && gpucoll_coll_reduces(args->coll);
    const bool each_received = call->blocks != NULL && !each_sent;
    if (args->send_blocks != NULL && !each_sent) {
        call->send += args->send_blocks[0].offset;
        call->bytes = call->blocks == NULL ? args->send_blocks[0].bytes : call->bytes;
    }
    if (args->recv_blocks != NULL && !each_received) {
        call->recv += args->recv_blocks[0].offset;
        call->bytes = call->blocks == NULL ? args->recv_blocks[0].bytes : call->bytes;
    }
}

/* Of a call that goes pair by pair. */
static bool note_pairs(struct gpucoll_request *request, const struct gpucoll_coll_args *args)
{
    struct gpucoll_cluster_call *call = request->stages;
    call->send = request->send;
    call->recv = request->recv;
    call->pairs = gpucoll_pairs_new(call->cluster, args, &call->bytes);
    return call->pairs != NULL;
}

/* Of a call that goes along the rails. */
static bool note_parts(struct gpucoll_request *request, const struct gpucoll_coll_args *args)
{
    struct gpucoll_cluster_call *call = request->stages;
    const struct gpucoll_block *blocks = common_blocks(args);
    if (blocks != NULL && !note_blocks(call, blocks)) {
        return false;
    }
    note_buffers(call, request, args);
    return true;
}

/* False: out of memory. */
static bool note_call(struct gpucoll_request *request, const struct gpucoll_coll_args *args)
{
    struct gpucoll_cluster *cluster = request->team->cluster;
    struct gpucoll_cluster_call *call = calloc(1, sizeof *call);
    request->stages = call;
    if (call == NULL || !gpucoll_coll_has_buffers(args->coll)) {
        return call !=
               NULL; /* a warm-up connects the ranks of this host; either ends when all hosts have agreed */
    }
    call->family = gpucoll_cluster_family_of(cluster, args->coll);
    call->cluster = cluster;
    call->index = request->team->rank;
    call->size = request->team->size;
    call->root = args->root;
    call->op = args->op;
    call->type = args->type;
    call->functor = request->functor;
    if (!(call->family->between == GPUCOLL_BETWEEN_PAIRS ? note_pairs : note_parts)(request, args)) {
        return false;
    }
    request->bytes = call->bytes;
    gpucoll_cluster_find_way(call, args->coll);
    call->family->shape(call);
    return true;
}

void gpucoll_cluster_post(struct gpucoll_request *request, const struct gpucoll_coll_args *args)
{
    struct gpucoll_contiguous call;
    const enum gpucoll_reason reason = gpucoll_cluster_pack(request->team, args, &call);
    if (reason != GPUCOLL_REASON_NONE) {
        request->refused = reason;
    } else if (call.packing != NULL) {
        request->send = call.args.send;
        request->recv = call.args.recv;
    }
    if (gpucoll_coll_has_buffers(args->coll)) {
        request->signature = signature_of(common_blocks(args), request->team->cluster->size);
    }
    if (note_call(request, &call.args)) {
        request->stages->packing = call.packing;
    } else { /* declined by all, and agreed on like any other; the signature is that of the others all the same */
        gpucoll_packing_free(call.packing, request->team->context, false);
        gpucoll_cluster_close(request);
        request->refused = GPUCOLL_REASON_HOST_MEMORY;
    }
    free(call.blocks);
}

const struct gpucoll_kernel_run *gpucoll_cluster_runs(const struct gpucoll_request *request)
{
    return request->stages->pairs != NULL ? request->stages->pairs->runs : NULL;
}

/* A piece of this rank's buffers, on the device of those before it? */
static bool joins(struct gpucoll_accel *accel, const char *place, uint64_t bytes,
                  struct gpucoll_buffer *buffer, const void **pointer)
{
    return bytes == 0 || gpucoll_exchange_joins(accel, place, buffer, pointer);
}

static bool disjoint(const char *a, uint64_t a_bytes, const char *b, uint64_t b_bytes)
{
    return a_bytes == 0 || b_bytes == 0 || a + a_bytes <= b || b + b_bytes <= a;
}

/* May the single block on the other side take the place of block `i`? All-gather: of the own one, as MPI has it in place. Reduce-scatter: of one
 * of which each piece is read in the units of the own one at the latest, such as that of rank 0, which MPI means. */
static bool may_replace(const struct gpucoll_cluster *cluster, const struct gpucoll_block *blocks,
                        bool reduces, uint32_t i)
{
    const uint32_t own = cluster->rank;
    const bool read_before = cluster->index_of[i] / cluster->rails <= cluster->index_of[own] / cluster->rails;
    return blocks[i].bytes == blocks[own].bytes && (i == own || (reduces && read_before));
}

/* May the single block, at `single`, be where it is, beside those of all ranks from `base` on? */
static bool single_is_apart(const struct gpucoll_cluster *cluster, const struct gpucoll_block *blocks,
                            const char *base, const char *single, bool reduces)
{
    const uint64_t bytes = blocks[cluster->rank].bytes;
    bool apart = true;
    for (uint32_t i = 0; i < cluster->size && apart; i++) {
        const char *place = base + blocks[i].offset;
        apart = disjoint(single, bytes, place, blocks[i].bytes) ||
                (place == single && may_replace(cluster, blocks, reduces, i));
    }
    return apart;
}

bool gpucoll_cluster_overwrites(const struct gpucoll_cluster *cluster, const struct gpucoll_coll_args *args)
{
    const bool scatters = args->coll == GPUCOLL_REDUCE_SCATTER || args->coll == GPUCOLL_REDUCE_SCATTER_BLOCK;
    return scatters && args->send == args->recv &&
           !single_is_apart(cluster, args->send_blocks, args->send,
                            (const char *)args->recv + args->recv_blocks[0].offset, true);
}

/* Of a call with blocks: each of them, and the single block on the other side. */
static bool blocks_are_able(const struct gpucoll_cluster_call *call, struct gpucoll_accel *accel,
                            bool reduces, struct gpucoll_buffer *buffer, const void **pointer)
{
    const char *base = reduces ? call->send : call->recv;
    const char *single = reduces ? call->recv : call->send;
    const uint64_t bytes = call->blocks[call->cluster->rank].bytes;
    bool known = false;
    for (uint32_t i = 0; i < call->cluster->size; i++) {
        const struct gpucoll_block *block = &call->blocks[i];
        const char *place = base + block->offset;
        /* One place of an allocation tells; with the base NULL blocks may be anywhere. */
        if ((!known || base == NULL) && !joins(accel, place, block->bytes, buffer, pointer)) {
            return false;
        }
        known |= block->bytes > 0;
    }
    return joins(accel, single, bytes, buffer, pointer) &&
           single_is_apart(call->cluster, call->blocks, base, single, reduces);
}

/* Has this rank a result, of a call without blocks? */
static bool receives_buffer(const struct gpucoll_cluster_call *call, enum gpucoll_coll coll)
{
    const uint32_t rank = call->cluster->rank;
    switch (coll) {
    case GPUCOLL_REDUCE:
        return rank == call->root;
    case GPUCOLL_BCAST:
        return rank != call->root;
    case GPUCOLL_EXSCAN:
        return rank > 0;
    default:
        return true;
    }
}

bool gpucoll_cluster_is_able(const struct gpucoll_request *request, struct gpucoll_buffer *buffer,
                             const void **pointer)
{
    const struct gpucoll_cluster_call *call = request->stages;
    struct gpucoll_accel *accel = request->team->context->accel;
    const bool reduces = gpucoll_coll_reduces(request->coll);
    *pointer = NULL;
    if (call->pairs != NULL) {
        return gpucoll_exchange_runs_are_able(request, &call->pairs->list, buffer, pointer);
    }
    if (call->blocks != NULL) {
        return blocks_are_able(call, accel, reduces, buffer, pointer);
    }
    const bool sends = reduces || call->cluster->rank == call->root;
    const bool receives = receives_buffer(call, request->coll);
    return (!sends || joins(accel, call->send, call->bytes, buffer, pointer)) &&
           (!receives || joins(accel, call->recv, call->bytes, buffer, pointer)) &&
           (!sends || !receives || call->send == call->recv ||
            disjoint(call->send, call->bytes, call->recv, call->bytes));
}

/* Host memory for units of so many bytes: what there is, or new memory; older pieces stay for the calls that use them. */
static char *take_slots(struct gpucoll_cluster *cluster, uint64_t bytes)
{
    struct gpucoll_stage_memory *memory = cluster->memory;
    if (memory != NULL && memory->slot_bytes >= bytes) {
        return memory->slots;
    }
    memory = calloc(1, sizeof *memory);
    if (memory == NULL) {
        return NULL;
    }
    memory->slot_bytes = 4096;
    while (memory->slot_bytes < bytes) {
        memory->slot_bytes *= 2;
    }
    struct gpucoll_accel *accel = cluster->context->accel;
    if (accel->ops->host_alloc(accel, GPUCOLL_STAGE_SLOTS * memory->slot_bytes, &memory->slots) !=
        GPUCOLL_OK) {
        free(memory);
        return NULL;
    }
    memory->next = cluster->memory;
    cluster->memory = memory;
    return memory->slots;
}

/* Asks the network to take the memory that the rail could work on: what all blocks are in, or this rank's parts of the units. */
static void reach_rail(struct gpucoll_cluster_call *call)
{
    const struct gpucoll_cluster *cluster = call->cluster;
    struct gpucoll_extent extent = {0};
    if (call->family->place == NULL) {
        return;
    }
    for (uint64_t unit = 0; call->blocks == NULL && unit < call->units; unit++) {
        gpucoll_extend(&extent, call->family->place(call, unit, 0),
                       gpucoll_stage_part(call, unit, call->index).bytes);
    }
    for (uint32_t i = 0; call->blocks != NULL && i < cluster->size; i++) {
        gpucoll_extend(&extent, call->recv + call->blocks[i].offset, call->blocks[i].bytes);
    }
    call->memory = gpucoll_stage_reach(call, &extent);
}

bool gpucoll_cluster_reserve(struct gpucoll_request *request)
{
    struct gpucoll_cluster *cluster = request->team->cluster;
    struct gpucoll_cluster_call *call = request->stages;
    call->gpu = request->gpu;
    if (!gpucoll_carry_reserve(request)) {
        return false;
    }
    if (call->pairs != NULL) {
        gpucoll_pairs_reach(call);
        call->family->shape(call);
        call->slots = call->slot_bytes > 0 ? take_slots(cluster, call->slot_bytes) : NULL;
        return call->slot_bytes == 0 || call->slots != NULL;
    }
    const struct gpucoll_rail *rail = gpucoll_stage_rail(call, cluster);
    if (rail == NULL || call->units == 0) {
        return true;
    }
    if (call->blocks != NULL) {
        const size_t count = (size_t)GPUCOLL_STAGE_SLOTS * rail->size;
        call->slot_blocks = calloc(count, sizeof *call->slot_blocks);
        call->slot_places = calloc(count, sizeof *call->slot_places);
        if (call->slot_blocks == NULL || call->slot_places == NULL) {
            return false;
        }
    }
    reach_rail(call);
    call->slots = take_slots(cluster, call->slot_bytes);
    if (call->temp_bytes > 0) {
        call->temp = gpucoll_device_pool_get(&call->gpu->pool, GPUCOLL_STAGE_SLOTS * call->temp_bytes);
    }
    return call->slots != NULL && (call->temp_bytes == 0 || call->temp != NULL);
}

/* Do the links of the back team carry what the stages want? The same on all ranks of the host. */
static gpucoll_status check_links(struct gpucoll_request *request)
{
    struct gpucoll_team *back = request->team->cluster->back;
    const struct gpucoll_cluster_call *call = request->stages;
    const struct gpucoll_links *links = gpucoll_agreement_known_links(request, back);
    if (links == NULL || links->ways == 0) {
        request->reason = GPUCOLL_REASON_LINKS;
        return GPUCOLL_DECLINED;
    }
    for (int i = 0; i < 2 && call->units > 0; i++) {
        const enum gpucoll_coll coll = call->family->local[i];
        struct gpucoll_plan plan;
        const struct gpucoll_plan_call local = {
            .coll = coll,
            .functor = gpucoll_coll_reduces(coll) ? call->functor : 0,
            .bytes = call->part_bytes,
            .unattended = request->form != GPUCOLL_FORM_BLOCKING,
        };
        if (gpucoll_team_plan(back, links, &local, &plan) != GPUCOLL_OK) {
            request->reason = GPUCOLL_REASON_PLAN;
            return GPUCOLL_DECLINED;
        }
    }
    return GPUCOLL_OK;
}

/* A local call without a byte connects the ranks. */
static gpucoll_status post_probe(struct gpucoll_request *request)
{
    struct gpucoll_team *back = request->team->cluster->back;
    const struct gpucoll_block none[GPUCOLL_MAX_LOCAL] = {{0}};
    const struct gpucoll_coll_args args = {
        .coll = GPUCOLL_ALLGATHERV,
        .send_blocks = none,
        .recv_blocks = none,
        .form = (enum gpucoll_form)request->form,
    };
    back->gpu = request->gpu;
    back->outer = request;
    return gpucoll_post(back, &args, &request->stages->probe);
}

gpucoll_status gpucoll_cluster_probe(struct gpucoll_request *request)
{
    struct gpucoll_cluster *cluster = request->team->cluster;
    struct gpucoll_cluster_call *call = request->stages;
    const bool has_local = call->family == NULL || call->family->between != GPUCOLL_BETWEEN_RANKS;
    if (cluster->back->size == 1 || !has_local) {
        return GPUCOLL_OK;
    }
    if (request->state != GPUCOLL_PROBING) {
        if (gpucoll_agreement_known_links(request, cluster->back) != NULL) {
            return check_links(request);
        }
        request->state = GPUCOLL_PROBING;
        gpucoll_watchdog_reset(request);
    }
    if (call->probe == NULL) {
        if (cluster->begun != cluster->ended) { /* whose local calls come first */
            return gpucoll_watchdog_behind(request, request->team->rank, "waiting for its own earlier call");
        }
        gpucoll_status status = post_probe(request);
        if (status != GPUCOLL_OK) {
            return status;
        }
    }
    gpucoll_status status = gpucoll_stage_test(request, call->probe);
    if (status == GPUCOLL_IN_PROGRESS) {
        return status;
    }
    call->probe = NULL;
    /* Declined or not: what counts is how they are connected now. */
    return status < 0 ? status : check_links(request);
}

void gpucoll_cluster_close(struct gpucoll_request *request)
{
    struct gpucoll_cluster_call *call = request->stages;
    if (call == NULL) {
        return;
    }
    struct gpucoll_context *context = request->team->context;
    if (call->turn != 0) { /* what has not left is not waited for any longer */
        gpucoll_rail_forget(&request->team->cluster->rail);
        gpucoll_rail_forget(&request->team->cluster->all);
        request->team->cluster->ended++;
    }
    if (call->temp != NULL && !call->stopped) {
        pthread_mutex_lock(&context->lock);
        gpucoll_device_pool_put(&call->gpu->pool, call->temp);
        pthread_mutex_unlock(&context->lock);
    }
    if (request->team->cluster->back->outer == request) {
        request->team->cluster->back->outer = NULL;
    }
    gpucoll_packing_free(call->packing, context, call->stopped);
    gpucoll_stage_forget(call, call->memory);
    if (call->pairs != NULL) {
        gpucoll_pairs_forget(call);
    }
    free(call->slot_blocks);
    free(call->slot_places);
    free(call->blocks);
    free(call->pairs);
    free(call);
    request->stages = NULL;
}
