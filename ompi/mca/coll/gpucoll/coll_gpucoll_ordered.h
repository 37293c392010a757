/*
 * coll_gpucoll_deterministic where the engine does not run a call: reductions in rank order, as the engine's algorithms do them, by
 * collectives of the next component that only move data. On host memory, the user's own or the copies that staging made.
 *
 * Which calls go this way follows from what is equal on all ranks alone.
 */
#ifndef COLL_GPUCOLL_ORDERED_H
#define COLL_GPUCOLL_ORDERED_H

#include "coll_gpucoll.h"

/* Is this call to be reduced in rank order here? What cannot be is said, once a process: `slot` names it. */
bool gpucoll_ordered_takes(gpucoll_module *self, const char *slot, const ompi_op_t *op,
                           const ompi_datatype_t *dtype, ompi_communicator_t *comm);
static inline bool gpucoll_ordered(gpucoll_module *self, const char *slot, const ompi_op_t *op,
                                   const ompi_datatype_t *dtype, ompi_communicator_t *comm)
{
    return __builtin_expect(mca_coll_gpucoll_component.config.deterministic, false) &&
           gpucoll_ordered_takes(self, slot, op, dtype, comm);
}

/* As the collectives of these names, after gpucoll_ordered: the operator and type are those of self->latest. Buffers are host memory. */
int gpucoll_ordered_allreduce(const void *sbuf, void *rbuf, size_t count, ompi_communicator_t *comm,
                              gpucoll_module *self);
int gpucoll_ordered_reduce(const void *sbuf, void *rbuf, size_t count, int root, ompi_communicator_t *comm,
                           gpucoll_module *self);
int gpucoll_ordered_reduce_scatter(const void *sbuf, void *rbuf, gpucoll_counts counts,
                                   ompi_communicator_t *comm, gpucoll_module *self);
int gpucoll_ordered_reduce_scatter_block(const void *sbuf, void *rbuf, size_t count,
                                         ompi_communicator_t *comm, gpucoll_module *self);
int gpucoll_ordered_scan(const void *sbuf, void *rbuf, size_t count, bool exclusive,
                         ompi_communicator_t *comm, gpucoll_module *self);

#endif
