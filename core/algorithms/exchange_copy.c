/*
 * Direct exchange of what is only moved: every rank's copy engines write its runs to where they belong in its peers' buffers. No
 * kernel, no scratch; one barrier of the hosts tells that all has arrived. For long runs.
 */
#include <math.h>
#include "core/copy_list.h"
#include "core/direct.h"
#include "core/exchange.h"
#include "core/pipeline.h"
#include "core/plan/algorithm.h"
#include "core/plan/model.h"

/* What the copy within a GPU takes beside those to its peers, which are queued before it. */
static const double own_us = 6;

/* A batch and the copy within the GPU, which is queued behind it, take no less, however short they are (plans of 4 H200 and of 4 H100). */
static const double least_of_both_us = 19.5;

/* A single copy: so much of its bytes' time, and no more than so long, is not seen (plans of 2 H100 and of 2 H200). */
static const struct gpucoll_share of_pair = {.share = 0.6, .most_us = 3};

static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const unsigned peers = input->nranks - 1;
    const bool gathers = gpucoll_goes_to_root(input->coll);
    /* Of the rank that queues most: in a gather each has one to the root, and a broadcast's root has none within its GPU. Where all send to
     * several, the copy within the GPU takes its whole time; beside others it is half hidden. */
    const bool scatters = input->coll == GPUCOLL_SCATTER || input->coll == GPUCOLL_SCATTERV;
    const double within = gathers || input->coll == GPUCOLL_BCAST ? 0
                          : scatters && peers > 1                 ? own_us / 8
                          : peers == 1                            ? own_us / 2
                                                                  : own_us;
    const double leaves = (double)peers * (double)input->bytes;
    /* A batch takes the host about as long as a single copy; that a driver before CUDA 12.8 has none is not asked for. */
    const unsigned calls = gathers || gpucoll_turns(input) == 1 ? 1 : peers;
    plan->predicted_us = gpucoll_model_copies_us(input, leaves, calls, 0) + within;
    if (peers > 1 && within > 0) {
        plan->predicted_us = fmax(plan->predicted_us, least_of_both_us);
    } else if (peers == 1) {
        plan->predicted_us -= gpucoll_model_share_us(input, leaves, of_pair);
    }
}

/* ---- the call ---- */

/* What goes to a peer: one copy, or those of its pieces. Returns how many. */
static uint32_t list_part(const struct gpucoll_request *request, uint32_t peer, struct gpucoll_copy *copies)
{
    const uint64_t bytes = request->runs.run[peer].send_bytes;
    const bool own = peer == request->team->rank;
    void *place = own ? request->runs.run[peer].recv : bytes > 0 ? gpucoll_direct_place(request, peer) : NULL;
    const struct gpucoll_run_end to = {.flat = place};
    return place != NULL ? gpucoll_copy_list(to, gpucoll_copy_list_end(request, peer), bytes, copies) : 0;
}

/* All that goes to peers, by one call of the driver. */
static gpucoll_status send_batch(struct gpucoll_request *request)
{
    const struct gpucoll_team *team = request->team;
    const uint32_t next = (team->rank + 1) % team->size;
    struct gpucoll_copy copies[GPUCOLL_MAX_LOCAL];
    uint32_t count = 0;
    for (uint32_t turn = 1; turn < team->size; turn++) {
        count += list_part(request, (team->rank + turn) % team->size, copies + count);
    }
    return gpucoll_copies_in(request->gpu, GPUCOLL_QUEUE_BATCH, copies, count, GPUCOLL_COPY_AT_ONCE,
                             &request->pipeline.sending[next]);
}

static gpucoll_status send_to(struct gpucoll_request *request, uint32_t peer)
{
    struct gpucoll_copy copies[GPUCOLL_MAX_LOCAL];
    const uint32_t count = list_part(request, peer, copies);
    const enum gpucoll_copy_order order =
        count > 1 && gpucoll_copies_can_batch(request->gpu) ? GPUCOLL_COPY_AT_ONCE : GPUCOLL_COPY_IN_TURN;
    return gpucoll_copies_in(request->gpu, gpucoll_peer_queue(request->team->rank, peer), copies, count,
                             order, &request->pipeline.sending[peer]);
}

static gpucoll_status send_each(struct gpucoll_request *request)
{
    const struct gpucoll_team *team = request->team;
    gpucoll_status status = GPUCOLL_OK;
    for (uint32_t turn = 1; turn < team->size && status == GPUCOLL_OK; turn++) {
        status = send_to(request, (team->rank + turn) % team->size);
    }
    return status;
}

/* The copies of a batch are made one after the other. In an all-to-all of blocks that are alike each rank so has another peer at a time; where they differ,
 * ranks meet at the same peers while others have nothing to take. Copies in queues of their own share the links instead; each costs the host a call, which is
 * worth it for many bytes (docs/design-direct.md, "Blocks that differ"), as far as there are queues. */
static bool differs_much(const struct gpucoll_request *request)
{
    const uint64_t worth_of_calls = 32 << 20;
    const double much = 1.5; /* times as long as the mean */
    const struct gpucoll_team *team = request->team;
    uint64_t all = 0;
    uint64_t longest = 0;
    if (!gpucoll_exchange_is_uneven(request->coll) || team->size > GPUCOLL_PEER_QUEUES) {
        return false;
    }
    for (uint32_t peer = 0; peer < team->size; peer++) {
        const uint64_t bytes = peer == team->rank ? 0 : request->runs.run[peer].send_bytes;
        all += bytes;
        longest = bytes > longest ? bytes : longest;
    }
    return all >= worth_of_calls && (double)longest * (team->size - 1) >= much * (double)all;
}

/* The own part comes last: no peer waits for it. */
static gpucoll_status start(struct gpucoll_request *request)
{
    const uint32_t rank = request->team->rank;
    const struct gpucoll_kernel_run *own = &request->runs.run[rank];
    const bool batch =
        request->team->size > 2 && gpucoll_copies_can_batch(request->gpu) && !differs_much(request);
    gpucoll_pipeline_start(request);
    gpucoll_status status = batch ? send_batch(request) : send_each(request);
    if (status == GPUCOLL_OK && own->send != own->recv) {
        status = send_to(request, rank);
    }
    return status;
}

const struct gpucoll_algorithm gpucoll_exchange_copy = {
    .name = "exchange",
    .protocol = "copy",
    .help = "copy engines write from the application's buffers to those of the peers; takes no SM; for large "
            "messages in buffers that are used again",
    .direct = true,
    .spares_sms = true,
    .lists = true,
    .coll = GPUCOLL_ANY_MOVE,
    .shape = shape,
    .start = start,
    .progress = gpucoll_pipeline_end_copies,
    .stop = gpucoll_pipeline_stop,
};
