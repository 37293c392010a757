/*
 * The plan of a call, by what its ranks have posted, and whether its kernel lingers.
 */
#include "core/gate.h"
#include "core/laid_runs.h"
#include "core/packing.h"
#include "core/plan/algorithm.h"
#include "core/request.h"

/* Calls of one kind are done by one kernel, if their reduction is the same. */
static const void *kind_of(const struct gpucoll_request *request)
{
    static const char laid = 0; /* those that are laid have one of their own */
    if (request->packing != NULL && request->packing->laid) {
        return &laid;
    }
    return request->plan.algorithm;
}

static bool packs_nothing(const struct gpucoll_request *request)
{
    return !gpucoll_packing_packs(request->packing) && !gpucoll_packing_unpacks(request->packing);
}

/* Does the kernel of the plan linger after all? One crew a GPU: the first lane is the one that a program with one call at a time always gets.
 * Not between kernels that pack and unpack, for which it would have to leave, nor where it has been of no use lately; nor where the results may
 * lie in other memory than GPUs', which only the end of a kernel or a fence of the system waits for (kernels/linger.cuh). */
void gpucoll_call_lingers(struct gpucoll_request *request)
{
    struct gpucoll_plan *plan = &request->plan;
    const bool meant = plan->linger;
    const bool first = request->lane == request->gpu->lanes;
    request->stays_ns = gpucoll_plan_stays_ns(plan, request->team->context->config);
    plan->linger &= first && packs_nothing(request) && !request->migrates && !gpucoll_gate_wanted(request);
    if (first) {
        const void *kind = plan->linger ? kind_of(request) : NULL;
        const uint64_t now_ns = kind != NULL ? gpucoll_now_ns() : 0;
        /* From plan to plan: the call's own time counts as well. */
        plan->linger = gpucoll_habit_lingers(&request->lane->habit, kind, request->functor, now_ns,
                                             request->stays_ns + (uint64_t)(plan->predicted_us * 1e3));
    }
    if (meant && !plan->linger) {
        plan->ctas = plan->launch_ctas;
    }
}

/* Also what of the call is packed, which depends on the plan. */
static gpucoll_status plan_call(struct gpucoll_request *request, const struct gpucoll_plan_call *call)
{
    gpucoll_status status = gpucoll_team_plan(request->team, request->links, call, &request->plan);
    if (status == GPUCOLL_OK) {
        gpucoll_laid_runs_settle(request);
    }
    return status;
}

/* The plan. Where no kernel lingers another one may be the best; but how the calls come is judged by the one of which a kernel would linger. */
gpucoll_status gpucoll_call_plan(struct gpucoll_request *request)
{
    const struct gpucoll_plan *plan = &request->plan;
    struct gpucoll_plan_call call = {
        .coll = request->coll,
        .functor = request->functor,
        .bytes = request->bytes,
        .direct = request->direct,
        .room = request->room,
        .unattended = request->form != GPUCOLL_FORM_BLOCKING,
        .crowded = request->company == GPUCOLL_BESIDE_CALLS,
    };
    gpucoll_status status = plan_call(request, &call);
    if (status == GPUCOLL_OK) {
        gpucoll_call_lingers(request);
    }
    if (status == GPUCOLL_OK && request->apart && plan->launched_us > 0) {
        call.apart = true;
        gpucoll_habit_launched(&request->lane->habit);
        status = plan_call(request, &call);
    }
    return status;
}
