#include "core/habit.h"

#include <stddef.h>
#include "core/plan.h"

/* A call in time weighs as much as two that are not: two calls that always come together are worth a kernel that lingers after the first. */
static void judge(struct gpucoll_habit *habit, bool in_time)
{
    if (!in_time) {
        habit->doubts += habit->doubts < GPUCOLL_HABIT_DOUBTS;
    } else {
        habit->doubts = habit->doubts > 2 ? habit->doubts - 2 : 0;
    }
}

bool gpucoll_habit_lingers(struct gpucoll_habit *habit, const struct gpucoll_plan *plan, int functor,
                           uint64_t now_ns, uint64_t linger_ns)
{
    const bool same = plan->linger && habit->algorithm == plan->algorithm && habit->functor == functor;
    /* From plan to plan: the call's own time counts as well. */
    const bool in_time = same && now_ns - habit->latest_ns < linger_ns + (uint64_t)(plan->predicted_us * 1e3);
    if (habit->algorithm != NULL && !habit->rung) {
        judge(habit, in_time);
    }
    habit->rung = in_time && habit->lingered;
    habit->lingered = plan->linger && habit->doubts < GPUCOLL_HABIT_DOUBTS;
    habit->algorithm = plan->linger ? plan->algorithm : NULL;
    habit->functor = functor;
    habit->latest_ns = now_ns;
    return habit->lingered;
}
