/*
 * Calls of a communicator of one rank: there is nobody to agree with, and nothing to exchange. What the rank sends to itself is copied, by a
 * copy engine beside the application if nobody waits in the call (state RUNNING). Where a
 * datatype is not contiguous, but has few long pieces, such as the faces that a grid of one rank has for itself, a copy engine copies each. Of other
 * types the bytes are packed before that and unpacked after it, on a lane that is taken for its stream only: as by a reduction of one
 * process (core/reduce_local.c), which says how long a lane is waited for, and why no longer.
 */
#include "core/context.h"
#include "core/copy_list.h"
#include "core/exchange.h"
#include "core/packing.h"

static gpucoll_status decline(struct gpucoll_request *request, enum gpucoll_reason reason)
{
    request->reason = reason;
    return GPUCOLL_DECLINED;
}

static gpucoll_status copy(const struct gpucoll_request *request, void *to, const void *from, uint64_t bytes)
{
    struct gpucoll_accel *accel = request->team->context->accel;
    return to == from || bytes == 0 ? GPUCOLL_OK : accel->ops->copy(accel, to, from, bytes);
}

/* Less than this is copied as soon as it is looked for. */
static const uint64_t least_beside = 64 << 10;

/* Both are memory of one GPU that stays there, and the GPU is this process's to use: the request's. */
static bool find_gpu(struct gpucoll_request *request, const void *to, const void *from)
{
    struct gpucoll_context *context = request->team->context;
    const struct gpucoll_accel_ops *ops = context->accel->ops;
    struct gpucoll_buffer buffer;
    struct gpucoll_buffer other;
    ops->classify(context->accel, to, &buffer);
    ops->classify(context->accel, from, &other);
    if (buffer.memory != GPUCOLL_MEMORY_DEVICE || other.memory != GPUCOLL_MEMORY_DEVICE ||
        buffer.device != other.device || buffer.migrates || other.migrates) {
        return false;
    }
    request->gpu = gpucoll_context_bind(context, &buffer, to);
    return request->gpu != NULL;
}

/* The only step of a call, by a copy engine. */
static gpucoll_status copy_pieces(struct gpucoll_request *request, const struct gpucoll_copy *pieces,
                                  uint32_t count)
{
    const enum gpucoll_copy_order order =
        gpucoll_copies_can_batch(request->gpu) ? GPUCOLL_COPY_AT_ONCE : GPUCOLL_COPY_IN_TURN;
    request->state = GPUCOLL_RUNNING;
    gpucoll_status status =
        gpucoll_copies_in(request->gpu, 0, pieces, count, order, &request->pipeline.sending[0]);
    return status == GPUCOLL_OK ? GPUCOLL_IN_PROGRESS : status;
}

/* As coll_gpucoll_sync_device wants it: what kernels of the application do on the GPU of that memory, if it is a GPU's. */
static bool synchronize(const struct gpucoll_request *request, const void *pointer)
{
    struct gpucoll_accel *accel = request->team->context->accel;
    struct gpucoll_buffer buffer;
    accel->ops->classify(accel, pointer, &buffer);
    return buffer.memory != GPUCOLL_MEMORY_DEVICE || accel->ops->synchronize(accel, pointer) == GPUCOLL_OK;
}

/* At once, if somebody waits for it or it is short. */
static gpucoll_status copy_beside(struct gpucoll_request *request, void *to, const void *from, uint64_t bytes)
{
    if (request->team->context->config->sync_device && bytes > 0 &&
        !(synchronize(request, from) && synchronize(request, to))) {
        return decline(request, GPUCOLL_REASON_GPU);
    }
    if (request->form == GPUCOLL_FORM_BLOCKING || bytes < least_beside || to == from ||
        !find_gpu(request, to, from)) {
        return copy(request, to, from, bytes);
    }
    const struct gpucoll_copy piece = {to, from, bytes};
    return copy_pieces(request, &piece, 1);
}

static gpucoll_status copy_run(const struct gpucoll_request *request)
{
    const struct gpucoll_kernel_run *run = &request->runs.run[0];
    return copy(request, run->recv, run->send, run->send_bytes);
}

static gpucoll_status launch(struct gpucoll_request *request, bool unpack)
{
    request->state = unpack ? GPUCOLL_UNPACKING : GPUCOLL_PACKING;
    gpucoll_status status = gpucoll_packing_launch(request->packing, request->lane, unpack);
    return status == GPUCOLL_OK ? GPUCOLL_IN_PROGRESS : status;
}

/* What is sent is packed. */
static gpucoll_status move(struct gpucoll_request *request)
{
    gpucoll_status status = copy_run(request);
    return status == GPUCOLL_OK && gpucoll_packing_unpacks(request->packing) ? launch(request, true) : status;
}

/* Takes a lane and memory, as soon as there is a lane. */
static gpucoll_status begin(struct gpucoll_request *request)
{
    struct gpucoll_context *context = request->team->context;
    struct gpucoll_buffer received;
    pthread_mutex_lock(&context->lock);
    request->lane = gpucoll_gpu_take_last_lane(request->gpu);
    const bool comes =
        request->lane == NULL && gpucoll_gpu_lane_comes(request->gpu, &request->short_since_ns);
    const bool reserved = request->lane != NULL && gpucoll_packing_reserve(request, &received);
    pthread_mutex_unlock(&context->lock);
    if (request->lane == NULL) {
        return comes ? GPUCOLL_IN_PROGRESS : decline(request, GPUCOLL_REASON_LANES);
    }
    if (!reserved) {
        return decline(request, GPUCOLL_REASON_PACKING);
    }
    return gpucoll_packing_packs(request->packing) ? launch(request, false) : move(request);
}

/* Packed, what is read would all be read before anything is written. */
static bool are_apart(const struct gpucoll_copy *pieces, uint32_t count)
{
    for (uint32_t i = 0; i < count * count; i++) {
        const struct gpucoll_copy *read = &pieces[i / count];
        const struct gpucoll_copy *written = &pieces[i % count];
        const uintptr_t from = (uintptr_t)read->from;
        const uintptr_t to = (uintptr_t)written->to;
        if (to < from + read->bytes && from < to + written->bytes) {
            return false;
        }
    }
    return true;
}

/* The pieces that both ends have in common, if they are few and long; else 0. */
static uint32_t list_pieces(const struct gpucoll_request *request, struct gpucoll_copy *pieces)
{
    const struct gpucoll_packing *packing = request->packing;
    const struct gpucoll_kernel_run *run = &request->runs.run[0];
    const struct gpucoll_run_end from = {packing->sends > 0 ? packing->send : NULL, run->send};
    const struct gpucoll_run_end to = {packing->receives > 0 ? packing->receive : NULL, run->recv};
    const uint32_t count = gpucoll_copy_list(to, from, run->send_bytes, pieces);
    return are_apart(pieces, count) ? count : 0;
}

/* The first look at an exchange: contiguous, it is done here. */
static gpucoll_status open(struct gpucoll_request *request)
{
    struct gpucoll_context *context = request->team->context;
    struct gpucoll_accel *accel = context->accel;
    struct gpucoll_buffer buffer = {.memory = GPUCOLL_MEMORY_HOST};
    const void *pointer = NULL;
    if (request->refused != GPUCOLL_REASON_NONE) {
        return decline(request, request->refused);
    }
    if (!gpucoll_exchange_is_able(request, &buffer, &pointer)) {
        const bool on_device = buffer.memory == GPUCOLL_MEMORY_DEVICE;
        return decline(request, on_device ? GPUCOLL_REASON_OVERLAP : GPUCOLL_REASON_MEMORY);
    }
    if (request->packing == NULL || request->packing->bytes == 0) {
        const struct gpucoll_kernel_run *run = &request->runs.run[0];
        return copy_beside(request, run->recv, run->send, run->send_bytes);
    }
    if (context->config->sync_device && accel->ops->synchronize(accel, pointer) != GPUCOLL_OK) {
        return decline(request, GPUCOLL_REASON_GPU);
    }
    request->gpu = gpucoll_context_bind(context, &buffer, pointer);
    if (request->gpu == NULL) {
        return decline(request, GPUCOLL_REASON_GPU);
    }
    struct gpucoll_copy pieces[GPUCOLL_MAX_LOCAL];
    const uint32_t count = buffer.migrates ? 0 : list_pieces(request, pieces);
    return count > 0 ? copy_pieces(request, pieces, count) : begin(request);
}

gpucoll_status gpucoll_alone_test(struct gpucoll_request *request)
{
    if (request->state == GPUCOLL_RUNNING) {
        return gpucoll_copy_done(request->gpu, request->pipeline.sending[0]);
    }
    if (!gpucoll_is_exchange(request->coll)) {
        return copy_beside(request, request->recv, request->send, request->bytes);
    }
    if (request->gpu == NULL) {
        return open(request);
    }
    if (request->lane == NULL) {
        return begin(request);
    }
    gpucoll_status status = gpucoll_gpu_look(request->gpu, request->lane, &request->polls);
    return status == GPUCOLL_OK && request->state == GPUCOLL_PACKING ? move(request) : status;
}
