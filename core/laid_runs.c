#include "core/laid_runs.h"

#include <string.h>
#include "core/base/sizes.h"
#include "core/layout.h"
#include "core/packing.h"
#include "core/plan/algorithm.h"

/*
 * What it takes a thread to find the bytes of one pack, in steps of 0.1 us: reading the view, then for each piece of the pack a division for each
 * dimension, and of a list a look, or more looks one after the other where its runs are of different lengths. Packing and unpacking instead take two launches, and a kernel that
 * lingers has to leave for them: some 100 steps each. Measured: docs/design-calls.md, "Small calls are not packed".
 */
enum { VIEW_STEPS = 5, DIM_STEPS = 1, LOOK_STEPS = 4, MOST_STEPS = 80 };

static uint32_t log2_of(uint32_t value)
{
    return value > 1 ? 32 - (uint32_t)__builtin_clz(value - 1) : 0;
}

static uint64_t steps_of(const struct gpucoll_layout *layout)
{
    const struct gpucoll_layout_view *view = &layout->view;
    /* Runs that a pack touches, by their mean length. */
    const uint64_t touched = GPUCOLL_PACK_BYTES / (view->bytes / view->runs) + 1;
    const uint64_t pieces =
        gpucoll_smaller(gpucoll_larger(touched, 2), GPUCOLL_PACK_BYTES / GPUCOLL_LAID_BYTES);
    const uint64_t looks = view->runs == 1 ? 0 : layout->even ? 1 : 2 + log2_of(view->runs);
    return VIEW_STEPS + pieces * (view->dims * DIM_STEPS + looks * LOOK_STEPS);
}

/* The turns that the threads of the plan's CTAs need for packs of all peers. */
static uint64_t turns_of(const struct gpucoll_request *request)
{
    const struct gpucoll_plan *plan = &request->plan;
    const uint64_t packs = (request->bytes + GPUCOLL_PACK_BYTES - 1) / GPUCOLL_PACK_BYTES;
    const uint64_t threads = (uint64_t)plan->ctas * plan->threads;
    return (packs * (request->team->size - 1) + threads - 1) / threads;
}

/* A layout that is asked for the first time may belong to a type that is made anew for each call: a copy of it would take longer than packing. The next
 * call that packs by it has one (core/packing.c). */
static bool has_copy(const struct gpucoll_packed_run *noted)
{
    if (noted->copy == NULL) {
        __atomic_store_n(&noted->layout->asked_for, true, __ATOMIC_RELAXED);
    }
    return noted->copy != NULL;
}

static bool suits(const struct gpucoll_packed_run *noted)
{
    const uint64_t all = (uintptr_t)noted->user | noted->bytes | noted->layout->align;
    return all % GPUCOLL_LAID_BYTES == 0 && has_copy(noted);
}

/* Of one side of a call, at most: what the rank keeps for itself other threads look for, as far as there are some. */
static uint64_t cost_of(const struct gpucoll_request *request, const struct gpucoll_packed_run *noted,
                        uint32_t count)
{
    uint64_t dearest = 0;
    uint64_t own = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t *steps = noted[i].number == request->team->rank ? &own : &dearest;
        *steps = gpucoll_larger(*steps, steps_of(noted[i].layout));
    }
    return (dearest + own) * turns_of(request);
}

static bool is_cheap(const struct gpucoll_request *request)
{
    const struct gpucoll_packing *packing = request->packing;
    const uint32_t sides = (packing->sends > 0) + (packing->receives > 0);
    return cost_of(request, packing->send, packing->sends) +
               cost_of(request, packing->receive, packing->receives) <=
           (uint64_t)sides * MOST_STEPS;
}

static bool all_suit(const struct gpucoll_packed_run *noted, uint32_t count)
{
    bool all = true;
    for (uint32_t i = 0; i < count; i++) {
        all &= suits(&noted[i]); /* each is asked for, though one may not suit */
    }
    return all;
}

static void lay(struct gpucoll_request *request)
{
    const struct gpucoll_packing *packing = request->packing;
    struct gpucoll_kernel_runs *runs = &request->runs;
    memset(runs->layouts, 0, gpucoll_run_layouts_bytes(GPUCOLL_KERNEL_MOVE_LAYOUTS, request->team->size));
    for (uint32_t i = 0; i < packing->sends; i++) {
        runs->run[packing->send[i].number].send = packing->send[i].user;
        runs->layouts[packing->send[i].number].send = packing->send[i].copy;
    }
    for (uint32_t i = 0; i < packing->receives; i++) {
        runs->run[packing->receive[i].number].recv = packing->receive[i].user;
        runs->layouts[packing->receive[i].number].recv = packing->receive[i].copy;
    }
}

void gpucoll_laid_runs_settle(struct gpucoll_request *request)
{
    struct gpucoll_packing *packing = request->packing;
    if (packing == NULL || packing->memory == NULL) {
        return;
    }
    const bool able =
        request->plan.algorithm->lays && !gpucoll_coll_reduces(request->coll) && is_cheap(request);
    const bool sent = able && all_suit(packing->send, packing->sends);
    const bool received = able && all_suit(packing->receive, packing->receives);
    packing->laid = sent && received;
    if (packing->laid) {
        lay(request);
    } else {
        gpucoll_packing_direct(request);
    }
}
