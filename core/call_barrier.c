/*
 * Barriers of the ranks of one host within a call, on their boards: between steps that hosts take, such as copies.
 */
#include "core/agreement.h"
#include "core/watchdog.h"

/* What a rank that has entered the request's present barrier has stored, without the failure bit. */
static uint64_t barrier_word(const struct gpucoll_request *request)
{
    return request->call << 16 | request->barriers;
}

void gpucoll_barrier_enter(struct gpucoll_request *request, bool failed)
{
    request->barriers++;
    _Atomic uint64_t *step = request->team->board->step[request->call % GPUCOLL_RING];
    atomic_store_explicit(&step[request->barriers & 1], barrier_word(request) << 1 | failed,
                          memory_order_release);
}

gpucoll_status gpucoll_barrier_done(const struct gpucoll_request *request, uint32_t *missing)
{
    const struct gpucoll_team *team = request->team;
    bool failed = false;
    for (uint32_t i = 0; i < team->size; i++) {
        _Atomic uint64_t *step = team->members[i].board->step[request->call % GPUCOLL_RING];
        uint64_t word = atomic_load_explicit(&step[request->barriers & 1], memory_order_acquire);
        if (word >> 1 != barrier_word(request)) {
            *missing = i;
            return GPUCOLL_IN_PROGRESS;
        }
        failed |= word & 1;
    }
    return failed ? GPUCOLL_DECLINED : GPUCOLL_OK;
}

gpucoll_status gpucoll_barrier_pass(struct gpucoll_request *request, uint32_t *missing)
{
    if (!request->in_barrier) {
        gpucoll_barrier_enter(request, false);
        gpucoll_watchdog_reset(request);
        request->in_barrier = true;
    }
    gpucoll_status status = gpucoll_barrier_done(request, missing);
    request->in_barrier = status == GPUCOLL_IN_PROGRESS;
    return status;
}
