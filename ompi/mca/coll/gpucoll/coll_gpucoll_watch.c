#include "coll_gpucoll_watch.h"
#include "coll_gpucoll_meeting.h"
#include "core/base/clock.h"

/* Each message makes the next one wait twice as long: an application that waits for hours on purpose is not to be buried in them. */
static uint64_t patience_ns;

/* Does a wait, which is not over, last too long for the first time? */
static bool lasts_too_long(struct gpucoll_waiting *waiting, int what, uint64_t now)
{
    if (waiting->since_ns == 0 || waiting->what != what) {
        *waiting = (struct gpucoll_waiting){.since_ns = now, .what = what};
    }
    if (waiting->said || now - waiting->since_ns < patience_ns) {
        return false;
    }
    waiting->said = true;
    return true;
}

static int seconds(uint64_t since_ns, uint64_t now)
{
    return (int)((now - since_ns) / 1000000000u);
}

/* The one whose turn it is to connect. */
static bool watch_team(gpucoll_module *module, uint64_t now)
{
    struct gpucoll_sequence *sequence = module->connecting;
    if (sequence == NULL || !sequence->begun || !lasts_too_long(&sequence->waiting, 0, now)) {
        return false;
    }
    char ranks[128];
    gpucoll_meeting_missing(module->meeting, ranks, sizeof ranks);
    gpucoll_help(&mca_coll_gpucoll_component.log, "team-waits", ompi_comm_rank(module->comm),
                 seconds(sequence->waiting.since_ns, now), module->comm->c_name,
                 sequence->owner != NULL ? sequence->owner->call.name : "the first call", ranks);
    return true;
}

/* What the engine has, its own watchdog looks after; who waits for a team, the one above. */
static bool watch_call(struct gpucoll_outer *outer, uint64_t now)
{
    const bool next = outer->phase == GPUCOLL_PHASE_NEXT;
    if ((!next && outer->phase != GPUCOLL_PHASE_TURN) ||
        !lasts_too_long(&outer->waiting, (int)outer->phase, now)) {
        return false;
    }
    const struct gpucoll_outer *first = outer->module->order;
    char doing[128] = "the next component, to which it was handed";
    if (!next && first != NULL) {
        snprintf(doing, sizeof doing, "its turn behind %s, number %llu", first->call.name, first->number);
    } else if (!next) {
        snprintf(doing, sizeof doing, "its turn, with no call before it");
    }
    gpucoll_help(&mca_coll_gpucoll_component.log, "call-waits", ompi_comm_rank(outer->comm),
                 seconds(outer->waiting.since_ns, now), outer->call.name, outer->comm->c_name, outer->number,
                 doing);
    return true;
}

void gpucoll_watch_waits(struct gpucoll_outer *active)
{
    const uint64_t timeout = (uint64_t)mca_coll_gpucoll_component.config.timeout;
    if (timeout == 0) {
        return;
    }
    patience_ns = patience_ns != 0 ? patience_ns : timeout * 1000000000u;
    const uint64_t now = gpucoll_now_ns();
    bool said = false;
    for (gpucoll_module *module = gpucoll_sequences_connecting(); module != NULL && !said;
         module = module->next_connecting) {
        said = watch_team(module, now);
    }
    for (struct gpucoll_outer *outer = active; outer != NULL && !said; outer = outer->next) {
        said = watch_call(outer, now);
    }
    if (said) {
        patience_ns *= 2;
    }
}
