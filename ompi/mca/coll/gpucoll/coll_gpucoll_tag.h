/*
 * libnbc's tags. It gives each nonblocking call of a communicator, and each persistent request at its making, the next one, so all ranks
 * have to come to it with the same calls in the same order. A call whose way is not known yet takes its tag when it is called, just as it
 * would without gpucoll, and lends it to libnbc should it go there after all. So calls that never run natively can go on at once, whatever
 * is undecided before them: a rank may wait in them for a neighbor's message, and another one for this rank's before it comes to what is
 * undecided.
 *
 * That holds where the next component's functions are all libnbc's. Others may take more tags for a call, or count in ways of their own;
 * they get their calls in order (coll_gpucoll_later.h).
 *
 * To be called by the thread that calls a collective, or with gpucoll_enter held while the communicator's order is not empty.
 */
#ifndef COLL_GPUCOLL_TAG_H
#define COLL_GPUCOLL_TAG_H

#include "coll_gpucoll.h"

/* Are they all libnbc's? The same on all ranks, which select components alike. */
bool gpucoll_tags_known(const gpucoll_module *self);

/* The tag of the call that is made now; nothing where tags are not known. */
static inline int32_t gpucoll_tag_take(gpucoll_module *self)
{
    return self->tags_known ? ompi_coll_base_nbc_reserve_tags(self->comm, 1) : 0;
}

/* Around a call of the next component's function: it gets this tag. Returns what gpucoll_tag_restore needs. */
static inline int32_t gpucoll_tag_lend(gpucoll_module *self, int32_t tag)
{
    const int32_t next = self->comm->c_nbc_tag;
    if (self->tags_known) {
        self->comm->c_nbc_tag = tag;
    }
    return next;
}

static inline void gpucoll_tag_restore(gpucoll_module *self, int32_t next)
{
    if (self->tags_known) {
        self->comm->c_nbc_tag = next;
    }
}

/* Around a call that goes on as it is. That of a rank which has no data may take no tag (MPI_Ialltoallv in place, in Open MPI 4.1), though
 * those of its peers do: it is taken here. */
static inline int32_t gpucoll_tag_next(const gpucoll_module *self)
{
    return self->comm->c_nbc_tag;
}

static inline void gpucoll_tag_pass(gpucoll_module *self, int32_t next)
{
    if (self->comm->c_nbc_tag == next) {
        gpucoll_tag_take(self);
    }
}

#endif
