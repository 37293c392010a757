/*
 * A reduction of one process (MPI_Reduce_local), by the kernel that reduces blocks without waiting for anybody: the blocks are
 * the two buffers. It takes a lane for its stream only, so that such calls and collectives may run at once and bound each other
 * to what the GPU was given. A lane that runs is waited for, but not for long: without a progress thread
 * its call ends only when the application turns MPI's progress, on this rank or on another whose kernel or copies it needs, and
 * this caller may be the one who keeps it from that. One whose call still waits for other ranks is not waited for, since nothing here
 * may depend on them. Then the call is declined.
 */
#include <string.h>
#include "core/context.h"
#include "core/plan/plan.h"

static gpucoll_status decline(struct gpucoll_local *local, enum gpucoll_reason reason)
{
    local->reason = reason;
    return GPUCOLL_DECLINED;
}

static uint64_t bytes_of(const struct gpucoll_local *local)
{
    return local->count * gpucoll_type_size(local->type);
}

/* Are both buffers memory of one GPU? Then `buffer` describes it. */
static bool on_one_gpu(struct gpucoll_accel *accel, const struct gpucoll_local *local,
                       struct gpucoll_buffer *buffer)
{
    struct gpucoll_buffer in;
    accel->ops->classify(accel, local->inout, buffer);
    if (buffer->memory != GPUCOLL_MEMORY_DEVICE) {
        return false;
    }
    accel->ops->classify(accel, local->in, &in);
    return in.memory == GPUCOLL_MEMORY_DEVICE && in.device == buffer->device;
}

gpucoll_status gpucoll_local_start(struct gpucoll_context *context, struct gpucoll_local *local)
{
    struct gpucoll_accel *accel = context->accel;
    struct gpucoll_buffer buffer;
    local->context = context;
    local->gpu = NULL;
    local->lane = NULL;
    local->reason = GPUCOLL_REASON_NONE;
    local->ctas = 0;
    local->looks = 0;
    local->short_since_ns = 0;
    if (local->count == 0 || gpucoll_functor(local->op, local->type) < 0) {
        return decline(local, GPUCOLL_REASON_OPERAND);
    }
    if (accel == NULL || !on_one_gpu(accel, local, &buffer)) {
        return decline(local, GPUCOLL_REASON_MEMORY);
    }
    if (context->config->sync_device && accel->ops->synchronize(accel, local->inout) != GPUCOLL_OK) {
        return decline(local, GPUCOLL_REASON_GPU);
    }
    local->gpu = gpucoll_context_bind(context, &buffer, local->inout);
    return local->gpu != NULL ? GPUCOLL_OK : decline(local, GPUCOLL_REASON_GPU);
}

/* A pack for each thread, as far as there may be so many CTAs. */
static uint32_t wanted_ctas(const struct gpucoll_config *config, uint64_t bytes)
{
    if (config->channels > 0) {
        return (uint32_t)config->channels;
    }
    const uint64_t share = (uint64_t)gpucoll_whole_warps(config->threads) * GPUCOLL_PACK_BYTES;
    const uint64_t ctas = (bytes + share - 1) / share;
    const uint32_t most = gpucoll_least_of((uint32_t)config->max_ctas, GPUCOLL_FEW_CTAS);
    return ctas < most ? (uint32_t)ctas : most;
}

/* `in` is the left operand: to the kernel, what rank 0 of two has brought to this one. */
static gpucoll_status launch(struct gpucoll_local *local)
{
    const struct gpucoll_config *config = local->context->config;
    struct gpucoll_kernel_args args;
    memset(&args, 0, offsetof(struct gpucoll_kernel_args, peer));
    args.send = local->inout;
    args.recv = local->inout;
    args.bytes = bytes_of(local);
    args.rank = 1;
    args.nranks = 2;
    args.peer[0] = (struct gpucoll_kernel_peer){.lane = (void *)local->in};
    args.peer[1] = (struct gpucoll_kernel_peer){.lane = local->inout};
    args.done_value = gpucoll_next_done(&local->lane->done);
    local->ctas = wanted_ctas(config, args.bytes);
    const struct gpucoll_launch launch = {
        .kernel = GPUCOLL_KERNEL_REDUCE_BLOCKS,
        .functor = gpucoll_functor(local->op, local->type),
        .ctas = local->ctas,
        .threads = gpucoll_whole_warps(config->threads),
        .args = &args,
    };
    return local->gpu->device->accel->ops->launch(local->lane->stream, &launch);
}

/* Takes a lane and starts, as soon as there is one. */
static gpucoll_status begin(struct gpucoll_local *local)
{
    pthread_mutex_lock(&local->context->lock);
    local->lane = gpucoll_gpu_take_last_lane(local->gpu);
    const bool comes = local->lane == NULL && gpucoll_gpu_lane_comes(local->gpu, &local->short_since_ns);
    pthread_mutex_unlock(&local->context->lock);
    if (local->lane == NULL) {
        return comes ? GPUCOLL_IN_PROGRESS : decline(local, GPUCOLL_REASON_LANES);
    }
    const gpucoll_status status = launch(local);
    return status == GPUCOLL_OK ? GPUCOLL_IN_PROGRESS : status;
}

static void log_end(const struct gpucoll_local *local, gpucoll_status status)
{
    if (status == GPUCOLL_OK) {
        gpucoll_log(local->context->log, GPUCOLL_LOG_CALL,
                    "reduce_local of %llu bytes: ran natively, %u CTAs", (unsigned long long)bytes_of(local),
                    local->ctas);
    } else if (status != GPUCOLL_DECLINED) {
        gpucoll_log(local->context->log, GPUCOLL_LOG_CALL, "reduce_local of %llu bytes: %s",
                    (unsigned long long)bytes_of(local), gpucoll_status_name(status));
    }
}

/* A lane whose kernel may still be there is not used again, and when the caller has the error, the buffers are its own. */
static void end(struct gpucoll_local *local, bool failed)
{
    if (local->lane == NULL) {
        return;
    }
    if (failed) {
        local->gpu->device->accel->ops->stream_stop(local->lane->stream);
    }
    pthread_mutex_lock(&local->context->lock);
    local->lane->poisoned |= failed;
    gpucoll_gpu_give_lane(local->lane);
    pthread_mutex_unlock(&local->context->lock);
}

gpucoll_status gpucoll_local_test(struct gpucoll_local *local)
{
    const gpucoll_status status =
        local->lane == NULL ? begin(local) : gpucoll_gpu_look(local->gpu, local->lane, &local->looks);
    if (status != GPUCOLL_IN_PROGRESS) {
        log_end(local, status);
        end(local, status != GPUCOLL_OK);
    }
    return status;
}
