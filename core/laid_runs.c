#include "core/laid_runs.h"

#include <string.h>
#include "core/context.h"
#include "core/layout_copy.h"
#include "core/packing.h"
#include "core/plan/algorithm.h"

/*
 * What it takes a thread to find the bytes of one pack, in steps of 0.1 us: reading the view, then for each piece of the pack a division for each
 * dimension, and of a list a look, or more looks one after the other where its runs are of different lengths. Packing and unpacking instead take two launches, and a kernel that
 * lingers has to leave for them: some 100 steps each. Measured: docs/design-calls.md, "Packing".
 */
enum { VIEW_STEPS = 5, DIM_STEPS = 1, LOOK_STEPS = 4, MOST_STEPS = 80 };

static uint32_t log2_of(uint32_t value)
{
    return value > 1 ? 32 - (uint32_t)__builtin_clz(value - 1) : 0;
}

static uint32_t steps_of(const struct gpucoll_layout *layout)
{
    const struct gpucoll_layout_view *view = &layout->view;
    const uint64_t mean = view->bytes / view->runs; /* of a run */
    const uint32_t whole = GPUCOLL_PACK_BYTES / GPUCOLL_LAID_BYTES;
    const uint32_t pieces = mean >= GPUCOLL_PACK_BYTES   ? 2
                            : mean >= GPUCOLL_LAID_BYTES ? (uint32_t)(GPUCOLL_PACK_BYTES / mean) + 1
                                                         : whole;
    const uint32_t looks = view->runs == 1 ? 0 : layout->even ? 1 : 2 + log2_of(view->runs);
    return VIEW_STEPS + (pieces < whole ? pieces : whole) * (view->dims * DIM_STEPS + looks * LOOK_STEPS);
}

/* The turns that the threads of the plan's CTAs need for packs of all peers. */
static uint64_t turns_of(const struct gpucoll_request *request)
{
    const struct gpucoll_plan *plan = &request->plan;
    const uint64_t packs = (request->bytes + GPUCOLL_PACK_BYTES - 1) / GPUCOLL_PACK_BYTES;
    const uint64_t threads = (uint64_t)plan->ctas * plan->threads;
    return (packs * (request->team->size - 1) + threads - 1) / threads;
}

/* A layout that has been asked for once may belong to a type that is made anew for each call: a copy of it would take longer than packing. */
static bool is_worth_a_copy(struct gpucoll_layout *layout, const struct gpucoll_gpu *gpu)
{
    return gpucoll_layout_copy_is_on(layout, gpu) ||
           __atomic_exchange_n(&layout->asked_for, true, __ATOMIC_RELAXED);
}

static bool suits(const struct gpucoll_packed_run *noted, const struct gpucoll_gpu *gpu)
{
    const uint64_t all = (uintptr_t)noted->user | noted->bytes | noted->layout->align;
    return all % GPUCOLL_LAID_BYTES == 0 && is_worth_a_copy(noted->layout, gpu);
}

/* Of one side of a call. A thread has packs of one peer after another to look for, and then of what the rank keeps for itself. */
static uint64_t cost_of(const struct gpucoll_request *request, const struct gpucoll_packed_run *noted,
                        uint32_t count)
{
    uint32_t dearest = 0;
    uint32_t own = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t *steps = noted[i].number == request->team->rank ? &own : &dearest;
        const uint32_t these = steps_of(noted[i].layout);
        *steps = these > *steps ? these : *steps;
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

static bool all_suit(const struct gpucoll_packed_run *noted, uint32_t count, const struct gpucoll_gpu *gpu)
{
    bool all = true;
    for (uint32_t i = 0; i < count; i++) {
        all &= suits(&noted[i], gpu); /* each is asked for, though one may not suit */
    }
    return all;
}

static bool lay(struct gpucoll_request *request, bool sends)
{
    struct gpucoll_packing *packing = request->packing;
    const struct gpucoll_packed_run *noted = sends ? packing->send : packing->receive;
    const uint32_t count = sends ? packing->sends : packing->receives;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t rank = noted[i].number;
        const struct gpucoll_layout_view *view =
            gpucoll_layout_copy_on(noted[i].layout, request->team->context, packing->gpu);
        if (view == NULL) {
            return false;
        }
        if (sends) {
            request->runs.run[rank].send = noted[i].user;
            request->runs.layouts[rank].send = view;
        } else {
            request->runs.run[rank].recv = noted[i].user;
            request->runs.layouts[rank].recv = view;
        }
    }
    return true;
}

static bool lay_all(struct gpucoll_request *request)
{
    struct gpucoll_context *context = request->team->context;
    memset(request->runs.layouts, 0,
           gpucoll_run_layouts_bytes(GPUCOLL_KERNEL_MOVE_LAYOUTS, request->team->size));
    pthread_mutex_lock(&context->lock);
    const bool laid = lay(request, true) && lay(request, false);
    pthread_mutex_unlock(&context->lock);
    return laid;
}

void gpucoll_laid_runs_settle(struct gpucoll_request *request)
{
    struct gpucoll_packing *packing = request->packing;
    if (packing == NULL || packing->memory == NULL) {
        return;
    }
    const bool able =
        request->plan.algorithm->lays && !gpucoll_coll_reduces(request->coll) && is_cheap(request);
    const bool sent = able && all_suit(packing->send, packing->sends, packing->gpu);
    const bool received = able && all_suit(packing->receive, packing->receives, packing->gpu);
    const bool laid = sent && received && lay_all(request);
    if (!laid) {
        gpucoll_packing_direct(request);
    }
    packing->laid = laid;
}
