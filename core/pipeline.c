#include "core/pipeline.h"

#include <sched.h>
#include <string.h>
#include "core/base/clock.h"
#include "core/exchange.h"
#include "core/watchdog.h"

void gpucoll_pipeline_start(struct gpucoll_request *request)
{
    memset(&request->pipeline, 0, sizeof request->pipeline);
    gpucoll_watchdog_reset(request);
}

gpucoll_status gpucoll_pipeline_copy(const struct gpucoll_request *request, uint32_t peer, void *to,
                                     const void *from, uint64_t bytes, struct gpucoll_copy_ticket *ticket)
{
    return gpucoll_copy(request->gpu, request->team->rank, peer, to, from, bytes, ticket);
}

gpucoll_status gpucoll_pipeline_copied(const struct gpucoll_request *request,
                                       struct gpucoll_copy_ticket *tickets)
{
    for (uint32_t i = 0; i < request->team->size; i++) {
        gpucoll_status status = gpucoll_copy_done(request->gpu, tickets[i]);
        if (status != GPUCOLL_OK) {
            return status;
        }
        tickets[i].number = 0;
    }
    return GPUCOLL_OK;
}

/* A copy waits for nobody: what is queued ends by itself, if the GPU does. */
void gpucoll_pipeline_stop(struct gpucoll_request *request)
{
    const struct gpucoll_copy_ticket *tickets = request->pipeline.sending;
    const uint64_t end = gpucoll_now_ns() + 1000000000u;
    gpucoll_status status = GPUCOLL_OK;
    for (uint32_t i = 0; i < GPUCOLL_MAX_LOCAL && status == GPUCOLL_OK; i++) {
        while ((status = gpucoll_copy_done(request->gpu, tickets[i])) == GPUCOLL_IN_PROGRESS &&
               gpucoll_now_ns() < end) {
            sched_yield();
        }
    }
}

/* Beside a time on a board: of what it is, so that no time of another count, or of an earlier call, is taken for it. (What is
 * left of the time begins anew every 18 minutes; then ranks that are in step seem not to be, once.) */
enum { COUNT_BITS = 16, TAG_BITS = 24, COUNT_MASK = (1 << COUNT_BITS) - 1, TAG_MASK = (1 << TAG_BITS) - 1 };

static uint64_t time_tag(const struct gpucoll_request *request, uint32_t count)
{
    return (request->call << COUNT_BITS | (count & COUNT_MASK)) & TAG_MASK;
}

/* A count is of no other call than the one beside it. */
void gpucoll_pipeline_tell(struct gpucoll_request *request, enum gpucoll_flow flow, uint32_t count)
{
    struct gpucoll_team_board *board = request->team->board;
    gpucoll_watchdog_reset(request);
    if (flow == GPUCOLL_FLOW_SENT) {
        atomic_store_explicit(&board->sent_at[request->call % GPUCOLL_RING][count % 2],
                              gpucoll_now_ns() << TAG_BITS | time_tag(request, count), memory_order_relaxed);
    }
    _Atomic uint64_t *word = &board->flow[request->call % GPUCOLL_RING][flow];
    atomic_store_explicit(word, request->call << 24 | count, memory_order_release);
}

uint32_t gpucoll_pipeline_told(const struct gpucoll_request *request, enum gpucoll_flow flow, uint32_t rank)
{
    const struct gpucoll_team_board *board = request->team->members[rank].board;
    uint64_t word =
        atomic_load_explicit(&board->flow[request->call % GPUCOLL_RING][flow], memory_order_acquire);
    return word >> 24 == (request->call & (UINT64_MAX >> 24)) ? (uint32_t)(word & 0xffffff) : 0;
}

gpucoll_status gpucoll_pipeline_count_sent(struct gpucoll_request *request, uint32_t tickets)
{
    struct gpucoll_pipeline *pipeline = &request->pipeline;
    gpucoll_status status = GPUCOLL_OK;
    while (pipeline->sent < pipeline->queued && status == GPUCOLL_OK) {
        status = gpucoll_copy_done(request->gpu, pipeline->sending[pipeline->sent % tickets]);
        if (status == GPUCOLL_OK) {
            gpucoll_pipeline_tell(request, GPUCOLL_FLOW_SENT, ++pipeline->sent);
        }
    }
    return status == GPUCOLL_IN_PROGRESS ? GPUCOLL_OK : status;
}

bool gpucoll_pipeline_all(const struct gpucoll_request *request, uint64_t sent, uint64_t reduced,
                          uint32_t *missing)
{
    const struct gpucoll_pipeline *own = &request->pipeline;
    for (uint32_t i = 0; i < request->team->size; i++) {
        const bool done = i == request->team->rank
                              ? own->sent >= sent && own->reduced >= reduced
                              : gpucoll_pipeline_told(request, GPUCOLL_FLOW_SENT, i) >= sent &&
                                    gpucoll_pipeline_told(request, GPUCOLL_FLOW_REDUCED, i) >= reduced;
        if (!done) {
            *missing = i;
            return false;
        }
    }
    return true;
}

uint64_t gpucoll_pipeline_apart_ns(const struct gpucoll_request *request, uint32_t sent)
{
    const uint64_t tag = time_tag(request, sent);
    uint64_t first = UINT64_MAX;
    uint64_t last = 0;
    for (uint32_t i = 0; i < request->team->size; i++) {
        const struct gpucoll_team_board *board = request->team->members[i].board;
        const uint64_t word = atomic_load_explicit(&board->sent_at[request->call % GPUCOLL_RING][sent % 2],
                                                   memory_order_relaxed);
        const uint64_t when = word >> TAG_BITS;
        if ((word & TAG_MASK) != tag) {
            return UINT64_MAX;
        }
        first = when < first ? when : first;
        last = when > last ? when : last;
    }
    return last - first;
}

gpucoll_status gpucoll_pipeline_idle(struct gpucoll_request *request, uint32_t missing)
{
    return gpucoll_lane_watch(request, missing, "waiting for copies between the GPUs");
}

gpucoll_status gpucoll_pipeline_end(struct gpucoll_request *request)
{
    uint32_t missing = 0;
    gpucoll_status status = gpucoll_barrier_pass(request, &missing);
    return status == GPUCOLL_IN_PROGRESS ? gpucoll_pipeline_idle(request, missing) : status;
}

gpucoll_status gpucoll_pipeline_end_copies(struct gpucoll_request *request)
{
    if (!request->in_barrier) {
        gpucoll_status status = gpucoll_pipeline_copied(request, request->pipeline.sending);
        if (status == GPUCOLL_IN_PROGRESS) {
            return gpucoll_pipeline_idle(request, request->team->rank);
        }
        if (status != GPUCOLL_OK) {
            return status;
        }
    }
    return gpucoll_pipeline_end(request);
}

gpucoll_status gpucoll_pipeline_end_kernel(struct gpucoll_request *request)
{
    if (!request->in_barrier) {
        gpucoll_status status = gpucoll_exchange_wait(request);
        if (status != GPUCOLL_OK) {
            return status;
        }
    }
    return gpucoll_pipeline_end(request);
}
