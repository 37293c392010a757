/*
 * The plan for a call of a team: what it is made from, and finding it again.
 */
#include "core/team.h"

#include "core/plan/selector.h"

/* Every rank makes the same plan: one says so. */
static void log_plan(const struct gpucoll_team *team, const struct gpucoll_plan_input *input,
                     const struct gpucoll_plan *plan)
{
    if (team->rank != 0 || team->context->log->verbosity < GPUCOLL_LOG_PLAN) {
        return;
    }
    char why[3072];
    gpucoll_select_explain(input, why, sizeof why);
    gpucoll_log(
        team->context->log, GPUCOLL_LOG_PLAN,
        "%s: %s of %llu bytes with %s%s: %s by %s, %u CTAs of %u threads%s, predicted %.1f us; from: %s",
        team->name, gpucoll_coll_name(input->coll), (unsigned long long)input->bytes,
        gpucoll_coll_reduces(input->coll) ? gpucoll_functor_name(input->functor) : "no operator",
        input->apart ? ", far from other calls" : "", plan->algorithm->name, plan->algorithm->protocol,
        plan->ctas, plan->threads, plan->linger ? " that linger" : "", plan->predicted_us, why);
}

struct gpucoll_plan_input gpucoll_team_input(const struct gpucoll_team *team,
                                             const struct gpucoll_links *links,
                                             const struct gpucoll_plan_call *call)
{
    return (struct gpucoll_plan_input){
        .coll = call->coll,
        .functor = call->functor,
        .bytes = call->bytes,
        .nranks = team->size,
        .data_bytes = links->gpu->data_bytes,
        .ways = links->ways,
        .direct = call->direct,
        .room = call->room,
        .unattended = call->unattended,
        .crowded = call->crowded,
        .apart = call->apart,
        .sharers = links->sharers,
        .concurrent = links->concurrent,
        .resident = links->resident,
        .crew = call->apart ? 0 : links->crew,
        .bulk = links->bulk,
        .whole_lines = links->whole_lines,
        .latency_us = links->latency_us,
        .bandwidth = links->bandwidth,
        .ring_whole_lines = links->ring_whole_lines,
        .ring_latency_us = links->ring_latency_us,
        .ring_bandwidth = links->ring_bandwidth,
        .model = &links->model,
        .config = team->context->config,
    };
}

gpucoll_status gpucoll_team_plan(struct gpucoll_team *team, const struct gpucoll_links *links,
                                 const struct gpucoll_plan_call *call, struct gpucoll_plan *plan)
{
    const struct gpucoll_plan *kept = gpucoll_plan_find(&team->plans, links, call);
    if (kept == NULL) {
        const struct gpucoll_plan_input input = gpucoll_team_input(team, links, call);
        bool fresh;
        gpucoll_status status =
            gpucoll_plan_make(&team->plans, links, &input, team->context->log, &fresh, &kept);
        if (status != GPUCOLL_OK) {
            return status;
        }
        if (fresh) {
            log_plan(team, &input, kept);
        }
    }
    *plan = *kept;
    return GPUCOLL_OK;
}
