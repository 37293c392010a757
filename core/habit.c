#include "core/habit.h"

/* A call in time weighs as much as two that are not: two calls that always come together are worth a kernel that lingers after the first. */
static void judge(struct gpucoll_habit *habit, bool in_time)
{
    if (!in_time) {
        habit->doubts += habit->doubts < GPUCOLL_HABIT_DOUBTS;
    } else {
        habit->doubts = habit->doubts > 2 ? habit->doubts - 2 : 0;
    }
}

bool gpucoll_habit_lingers(struct gpucoll_habit *habit, const void *kind, int functor, uint64_t now_ns,
                           uint64_t in_time_ns)
{
    const bool same = kind != NULL && habit->kind == kind && habit->functor == functor;
    const bool in_time = same && now_ns < habit->until_ns;
    if (habit->kind != NULL && !habit->rung) {
        judge(habit, in_time);
    }
    habit->rung = in_time && habit->lingered;
    habit->lingered = kind != NULL && !gpucoll_habit_apart(habit);
    habit->kind = kind;
    habit->functor = functor;
    habit->until_ns = now_ns + in_time_ns;
    return habit->lingered;
}
