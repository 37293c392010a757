/*
 * The barrier of a team, on its board alone: every rank counts its barriers in a line of its own, and waits until all others have
 * counted as many. It stands beside the posted calls and takes no part in their order.
 */
#include "core/team.h"

#include "core/request.h"
#include "core/watchdog.h"

void gpucoll_barrier_start(struct gpucoll_team *team)
{
    team->barriers++;
    team->barrier_arrived = 0;
    if (team->board == NULL) {
        return;
    }
    atomic_store_explicit(&team->board->barriers, team->barriers, memory_order_release);
    team->barrier_polls = 0;
}

/* Made only when a rank is late: what the watchdog is told about the barrier. */
static gpucoll_status look_after(struct gpucoll_team *team, uint32_t missing)
{
    static const uint32_t polls_alone = 4096;
    if (team->barrier_watch == NULL) {
        if (++team->barrier_polls < polls_alone) {
            return GPUCOLL_IN_PROGRESS;
        }
        team->barrier_watch = gpucoll_request_for_barrier(team);
        if (team->barrier_watch == NULL) {
            return GPUCOLL_ERR_NO_MEMORY;
        }
    }
    gpucoll_status status =
        gpucoll_watchdog(team->barrier_watch, missing, "waiting for all ranks to enter a barrier");
    if (status != GPUCOLL_IN_PROGRESS) {
        gpucoll_watchdog_abandon(team->barrier_watch);
    }
    return status;
}

gpucoll_status gpucoll_barrier_test(struct gpucoll_team *team)
{
    if (team->board == NULL) { /* one rank */
        return GPUCOLL_OK;
    }
    for (; team->barrier_arrived < team->size; team->barrier_arrived++) {
        const struct gpucoll_team_board *peer = team->members[team->barrier_arrived].board;
        if (atomic_load_explicit(&peer->barriers, memory_order_acquire) < team->barriers) {
            return look_after(team, team->barrier_arrived);
        }
    }
    if (team->barrier_watch != NULL) {
        gpucoll_request_drop(team->barrier_watch);
        team->barrier_watch = NULL;
    }
    return GPUCOLL_OK;
}
