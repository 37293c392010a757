/*
 * Blocks that are not contiguous, in a call of several hosts: what is sent of them is packed before the call's stages, what is received is
 * unpacked after them. To the stages the call is one of contiguous blocks, some of which lie in packed memory. So a rank finds its GPU before
 * the call is noted; whether the others can take part is agreed on like anything else.
 */
#include "core/cluster/cluster_call.h"

#include <stdlib.h>
#include "core/context.h"
#include "core/exchange.h"
#include "core/layout.h"
#include "core/watchdog.h"

/* The blocks that a rank sends, or those that it receives. */
struct side {
    bool sends;
    const void *base;
    const struct gpucoll_block *blocks;
    struct gpucoll_layout *const *layouts;
    uint32_t count;
    struct gpucoll_block *contiguous; /* the same blocks, as the stages are to see them */
};

static uint32_t count_blocks(const struct gpucoll_cluster *cluster, const struct gpucoll_coll_args *args,
                             bool sends)
{
    const struct gpucoll_block *last = NULL;
    const struct gpucoll_block *all = sends ? args->send_blocks : args->recv_blocks;
    for (uint32_t i = 0; i < cluster->size; i++) {
        const struct gpucoll_block *block = sends ? gpucoll_exchange_send_block(args, cluster->rank, i)
                                                  : gpucoll_exchange_recv_block(args, cluster->rank, i);
        last = block != NULL ? block : last;
    }
    return last != NULL ? (uint32_t)(last - all) + 1 : 0;
}

static struct side side_of(const struct gpucoll_cluster *cluster, const struct gpucoll_coll_args *args,
                           bool sends)
{
    return (struct side){
        .sends = sends,
        .base = sends ? args->send : args->recv,
        .blocks = sends ? args->send_blocks : args->recv_blocks,
        .layouts = sends ? args->send_layouts : args->recv_layouts,
        .count = count_blocks(cluster, args, sends),
    };
}

static bool is_packed(const struct side *side, uint32_t i)
{
    return side->layouts != NULL && side->layouts[i] != NULL && side->blocks[i].bytes > 0;
}

static bool has_packed(const struct side *side)
{
    bool any = false;
    for (uint32_t i = 0; i < side->count && !any; i++) {
        any = is_packed(side, i);
    }
    return any;
}

static void note_side(struct gpucoll_packing *packing, const struct side *side)
{
    for (uint32_t i = 0; i < side->count; i++) {
        if (is_packed(side, i)) {
            const struct gpucoll_packed_run run = {
                .layout = side->layouts[i],
                .user = (char *)side->base + side->blocks[i].offset,
                .bytes = side->blocks[i].bytes,
                .number = i,
            };
            gpucoll_packing_note(packing, side->sends, &run);
        }
    }
}

/* Is what is noted of a side on a device, the one of `buffer` if that is of one? */
static bool is_on_device(struct gpucoll_accel *accel, const struct gpucoll_packed_run *noted, uint32_t count,
                         struct gpucoll_buffer *buffer, const void **pointer)
{
    bool all = true;
    for (uint32_t i = 0; i < count && all; i++) {
        all = gpucoll_exchange_joins(accel, (const char *)noted[i].user + noted[i].layout->first, buffer,
                                     pointer);
    }
    return all;
}

static enum gpucoll_reason take_memory(struct gpucoll_packing *packing, const struct gpucoll_team *team)
{
    struct gpucoll_context *context = team->context;
    struct gpucoll_buffer buffer = {0};
    const void *pointer = NULL;
    if (!is_on_device(context->accel, packing->send, packing->sends, &buffer, &pointer) ||
        !is_on_device(context->accel, packing->receive, packing->receives, &buffer, &pointer)) {
        return GPUCOLL_REASON_MEMORY;
    }
    pthread_mutex_lock(&context->lock);
    struct gpucoll_gpu *gpu = gpucoll_context_gpu(context, &buffer, pointer);
    const bool taken = gpu != NULL && gpucoll_packing_take(packing, context, gpu, team->name);
    pthread_mutex_unlock(&context->lock);
    return gpu == NULL ? GPUCOLL_REASON_GPU : taken ? GPUCOLL_REASON_NONE : GPUCOLL_REASON_PACKING;
}

/* The side's blocks with those that are packed in the packed memory. Returns the base that their offsets are from: NULL, as before, if
 * they may be parts of no common buffer. */
static void *redirect(const struct gpucoll_packing *packing, const struct side *side)
{
    const struct gpucoll_packed_run *noted = side->sends ? packing->send : packing->receive;
    char *base = side->base != NULL ? packing->memory : NULL;
    for (uint32_t i = 0; i < side->count; i++) {
        const bool packed = is_packed(side, i);
        const uintptr_t place = packed ? (uintptr_t)packing->memory + noted->at
                                       : (uintptr_t)side->base + (uintptr_t)side->blocks[i].offset;
        side->contiguous[i] = (struct gpucoll_block){
            .offset = (ptrdiff_t)(place - (uintptr_t)base),
            .bytes = side->blocks[i].bytes,
        };
        noted += packed;
    }
    return base;
}

static enum gpucoll_reason pack(const struct gpucoll_team *team, struct side *send, struct side *recv,
                                struct gpucoll_contiguous *out)
{
    const uint32_t most = send->count > recv->count ? send->count : recv->count;
    out->packing = gpucoll_packing_new(most);
    out->blocks = calloc((size_t)send->count + recv->count, sizeof *out->blocks);
    if (out->packing == NULL || out->blocks == NULL) {
        return GPUCOLL_REASON_HOST_MEMORY;
    }
    note_side(out->packing, send);
    note_side(out->packing, recv);
    const enum gpucoll_reason reason = take_memory(out->packing, team);
    if (reason != GPUCOLL_REASON_NONE) {
        return reason;
    }
    send->contiguous = out->blocks;
    recv->contiguous = out->blocks + send->count;
    if (out->packing->sends > 0) {
        out->args.send = redirect(out->packing, send);
        out->args.send_blocks = send->contiguous;
    }
    if (out->packing->receives > 0) {
        out->args.recv = redirect(out->packing, recv);
        out->args.recv_blocks = recv->contiguous;
    }
    return GPUCOLL_REASON_NONE;
}

enum gpucoll_reason gpucoll_cluster_pack(const struct gpucoll_team *team,
                                         const struct gpucoll_coll_args *args, struct gpucoll_contiguous *out)
{
    struct gpucoll_layout *const plain = gpucoll_layout_plain();
    const bool overwrites = gpucoll_cluster_overwrites(team->cluster, args);
    *out = (struct gpucoll_contiguous){.args = *args};
    if (!overwrites && args->send_layouts == NULL && args->recv_layouts == NULL) {
        return GPUCOLL_REASON_NONE;
    }
    struct side send = side_of(team->cluster, args, true);
    struct side recv = side_of(team->cluster, args, false);
    if (overwrites) { /* the result, a single block, is kept apart until all has been read */
        recv.layouts = &plain;
    }
    return has_packed(&send) || has_packed(&recv) ? pack(team, &send, &recv, out) : GPUCOLL_REASON_NONE;
}

gpucoll_status gpucoll_cluster_move_packed(struct gpucoll_request *request, bool unpack)
{
    struct gpucoll_context *context = request->team->context;
    if (request->lane == NULL) {
        pthread_mutex_lock(&context->lock);
        request->lane = gpucoll_gpu_take_last_lane(request->gpu);
        pthread_mutex_unlock(&context->lock);
        if (request->lane == NULL) {
            return gpucoll_watchdog_behind(request, request->team->rank, "waiting for a free lane");
        }
        gpucoll_watchdog_reset(request);
        gpucoll_status status = gpucoll_packing_launch(request->stages->packing, request->lane, unpack);
        if (status != GPUCOLL_OK) {
            return status;
        }
    }
    gpucoll_status status = gpucoll_kernel_wait(request);
    if (status == GPUCOLL_OK) { /* the local calls of the stages have lanes of their own */
        pthread_mutex_lock(&context->lock);
        gpucoll_gpu_give_lane(request->lane);
        pthread_mutex_unlock(&context->lock);
        request->lane = NULL;
    }
    return status;
}

/* ---- from what is packed before the stages to what is unpacked after them ---- */

static void enter(struct gpucoll_request *request, enum gpucoll_request_state state)
{
    gpucoll_watchdog_reset(request);
    request->state = state;
}

gpucoll_status gpucoll_cluster_advance(struct gpucoll_request *request)
{
    const struct gpucoll_cluster_call *call = request->stages;
    gpucoll_status status = GPUCOLL_OK;
    if (request->state == GPUCOLL_PACKING) {
        status = gpucoll_cluster_move_packed(request, false);
        if (status != GPUCOLL_OK) {
            return status;
        }
        enter(request, GPUCOLL_STAGES);
    }
    if (request->state != GPUCOLL_UNPACKING) {
        status = gpucoll_carry_has_come(call) ? gpucoll_carry_deliver(request) : gpucoll_stages_move(request);
        if (status != GPUCOLL_OK || !gpucoll_packing_unpacks(call->packing)) {
            return status;
        }
        enter(request, GPUCOLL_UNPACKING);
    }
    return gpucoll_cluster_move_packed(request, true);
}

gpucoll_status gpucoll_cluster_start(struct gpucoll_request *request)
{
    struct gpucoll_cluster_call *call = request->stages;
    if (gpucoll_carry_has_come(call)) {
        enter(request, GPUCOLL_DELIVERING);
    } else {
        /* Now, as all ranks agree on calls in one order; which of them pack, and for how long, differs. */
        call->turn = ++request->team->cluster->begun;
        enter(request, gpucoll_packing_packs(call->packing) ? GPUCOLL_PACKING : GPUCOLL_STAGES);
    }
    return gpucoll_cluster_advance(request);
}
