/*
 * Whether kernels should linger: only where the next call has lately come in time for them.
 *
 * A kernel that lingers saves the next call its launch, but its SMs are missed by what the application does next, and who waits for the GPU
 * waits for it. A program that computes between calls for longer than kernels linger has nothing of that. So for each launch it is remembered
 * whether a call that could have been rung for followed in time.
 */
#ifndef GPUCOLL_HABIT_H
#define GPUCOLL_HABIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of a stream; all zero at first. Guarded by what guards the stream. */
struct gpucoll_habit {
    uint64_t until_ns; /* to follow the latest call in time, the next is planned before this */
    const void *kind;  /* of that one, if it is for a kernel that lingers; NULL: it is not */
    int functor;
    uint8_t doubts; /* that it pays: 0 to GPUCOLL_HABIT_DOUBTS */
    bool lingered;  /* the latest call's kernel, and */
    bool rung;      /* that had been there */
};

enum { GPUCOLL_HABIT_DOUBTS = 4 };

/* Of a call that is planned now: shall its kernel linger? To be asked of every call on the stream, also of those whose kernel cannot, of which
 * `kind` is NULL; of others it tells, with the functor, whom a kernel that lingers may take after whom. The next call is in time so long after this
 * one was planned, unless gpucoll_habit_ended says otherwise; `now_ns` counts only of those that can linger. */
bool gpucoll_habit_lingers(struct gpucoll_habit *habit, const void *kind, int functor, uint64_t now_ns,
                           uint64_t in_time_ns);

/* Is the end of the latest call to be told? Of one that has to be launched: launches take longer than is known before, and what is judged is how long after
 * its end the next call comes. One that is rung for spares the look at the clock. */
static inline bool gpucoll_habit_awaits_end(const struct gpucoll_habit *habit)
{
    return habit->kind != NULL && !habit->rung;
}

/* It has ended: the next is in time until then. */
static inline void gpucoll_habit_ended(struct gpucoll_habit *habit, uint64_t until_ns)
{
    habit->until_ns = until_ns;
}

/* The latest call's kernel does not linger after all. */
static inline void gpucoll_habit_launched(struct gpucoll_habit *habit)
{
    habit->lingered = false;
}

/* Have calls lately come too far apart for kernels to linger? */
static inline bool gpucoll_habit_apart(const struct gpucoll_habit *habit)
{
    return habit->doubts == GPUCOLL_HABIT_DOUBTS;
}

#endif
