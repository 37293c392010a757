/*
 * coll/han of Open MPI 4.1 as the next component. Where it cannot serve a communicator (one process on each node; of some collectives, nodes with
 * different numbers of them) it puts what stood there before it into the communicator's slots, and calls what is there then: but only into slots that
 * are its own. With gpucoll above it none is, and it would call gpucoll again, without end. So its slots are its own while it runs, and what it leaves
 * in them is the next component from then on. That of 5.0 calls what it has saved.
 */
#ifndef COLL_GPUCOLL_HAN_H
#define COLL_GPUCOLL_HAN_H

#include "coll_gpucoll.h"

/* Does it serve one of the module's next functions? To be asked when the slots are taken. */
bool gpucoll_han_is_next(const gpucoll_module *self);

void gpucoll_han_give_slots(gpucoll_module *self);
void gpucoll_han_take_slots(gpucoll_module *self);

/* Around calls of the next component's blocking functions. */
static inline void gpucoll_han_begin(gpucoll_module *self)
{
    if (self->above_han && self->han_runs++ == 0) {
        gpucoll_han_give_slots(self);
    }
}

static inline void gpucoll_han_end(gpucoll_module *self)
{
    if (self->above_han && --self->han_runs == 0) {
        gpucoll_han_take_slots(self);
    }
}

/* `rc` = `run`, which calls such functions of `self`. */
#define GPUCOLL_RUN_BELOW(self, rc, run)                                                                     \
    do {                                                                                                     \
        gpucoll_han_begin(self);                                                                             \
        (rc) = run;                                                                                          \
        gpucoll_han_end(self);                                                                               \
    } while (0)

#endif
