#include "core/staging.h"

#include <sched.h>
#include "core/agreement.h"
#include "core/base/clock.h"
#include "core/base/sizes.h"
#include "core/watchdog.h"

size_t gpucoll_staging_bytes(const struct gpucoll_config *config)
{
    return config->shm_bytes / 4096 * 4096;
}

uint64_t gpucoll_staging_chunk(uint64_t bytes, uint64_t parts, uint64_t longest, uint64_t room)
{
    const uint64_t least_bytes = 128 << 10;
    uint64_t chunk = bytes / parts;
    chunk = chunk < least_bytes ? least_bytes : chunk > longest ? longest : chunk;
    chunk = gpucoll_round_up(chunk, GPUCOLL_SHARE_ALIGN);
    return chunk < room ? chunk : room / GPUCOLL_SHARE_ALIGN * GPUCOLL_SHARE_ALIGN;
}

static void begin(struct gpucoll_copies *copies, uint32_t queue)
{
    copies->queue = queue;
    copies->given = 0;
    copies->complete = 0;
}

void gpucoll_staging_begin(struct gpucoll_staging *staging)
{
    begin(&staging->out, GPUCOLL_QUEUE_OUT);
    begin(&staging->in, GPUCOLL_QUEUE_IN);
}

static bool in_flight(struct gpucoll_gpu *gpu, struct gpucoll_copies *copies)
{
    bool moved;
    /* After an error nothing is known, nor to be waited for. */
    return gpucoll_copies_look(gpu, copies, &moved) == GPUCOLL_OK && copies->complete < copies->given;
}

void gpucoll_staging_stop(struct gpucoll_request *request)
{
    struct gpucoll_staging *staging = request->lane->staging;
    const uint64_t end = gpucoll_now_ns() + 1000000000u;
    while ((in_flight(request->gpu, &staging->out) || in_flight(request->gpu, &staging->in)) &&
           gpucoll_now_ns() < end) {
        sched_yield();
    }
}

static struct gpucoll_copy_ticket *next_ticket(struct gpucoll_copies *copies)
{
    return &copies->ticket[copies->given % GPUCOLL_IN_FLIGHT];
}

static gpucoll_status count(struct gpucoll_copies *copies, gpucoll_status status)
{
    copies->given += status == GPUCOLL_OK;
    return status;
}

gpucoll_status gpucoll_copies_give(struct gpucoll_request *request, struct gpucoll_copies *copies, void *to,
                                   const void *from, uint64_t bytes)
{
    return count(copies, gpucoll_copy_few(request->gpu, copies->queue, to, from, bytes, request->migrates,
                                          next_ticket(copies)));
}

gpucoll_status gpucoll_copies_give_own(struct gpucoll_request *request, struct gpucoll_copies *copies,
                                       void *to, const void *from, uint64_t bytes)
{
    return count(copies, gpucoll_copy_in(request->gpu, copies->queue, to, from, bytes, next_ticket(copies)));
}

gpucoll_status gpucoll_copies_look(struct gpucoll_gpu *gpu, struct gpucoll_copies *copies, bool *moved)
{
    gpucoll_status status = GPUCOLL_OK;
    while (status == GPUCOLL_OK && copies->complete < copies->given) {
        status = gpucoll_copy_done(gpu, copies->ticket[copies->complete % GPUCOLL_IN_FLIGHT]);
        copies->complete += status == GPUCOLL_OK;
        *moved |= status == GPUCOLL_OK;
    }
    return status == GPUCOLL_IN_PROGRESS ? GPUCOLL_OK : status;
}

gpucoll_status gpucoll_staging_leave(struct gpucoll_request *request)
{
    uint32_t missing = 0;
    if (gpucoll_barrier_pass(request, &missing) == GPUCOLL_IN_PROGRESS) {
        return gpucoll_watchdog(request, missing, "waiting for the others to take their data");
    }
    return GPUCOLL_OK;
}

struct gpucoll_outbox_lane *gpucoll_staging_lane(const struct gpucoll_request *request, uint32_t rank,
                                                 uint32_t *epoch)
{
    const struct gpucoll_post *post = gpucoll_agreement_post(request, rank);
    const struct gpucoll_config *config = request->team->context->config;
    *epoch = post->epoch;
    /* All ranks cut their scratch alike, so the offset of a lane tells its number. */
    return gpucoll_outbox_lane(request->links->outbox[rank], gpucoll_staging_bytes(config),
                               post->lane / gpucoll_lane_bytes(request->gpu->data_bytes));
}
