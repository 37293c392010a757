/*
 * Running calls on the engine. Every rank of a communicator comes here at the same calls, decided
 * from what MPI guarantees to be equal on all ranks alone: the collective, of a reduction the operator and
 * the type, and whether there is anything to do at all. Everything else (counts, other types, kinds of
 * buffers) the ranks tell each other (core/agreement.h), and then all take the same way.
 *
 * Calls without a byte on any rank must not come here: Open MPI itself returns from some of them at once, on
 * ranks that say so by a count of zero, but not on ranks that say so by a type without data. Where MPI wants
 * the same amount of data on all ranks, each can tell; the collectives whose ranks have counts of their own
 * come here in any case, and Open MPI does not return from these.
 */
#ifndef COLL_GPUCOLL_NATIVE_H
#define COLL_GPUCOLL_NATIVE_H

#include "coll_gpucoll.h"
#include "coll_gpucoll_stage.h"

/* Does a block have any data? The same on all ranks where MPI wants the blocks equally long. */
static inline bool gpucoll_has_data(gpucoll_count count, const ompi_datatype_t *dtype)
{
    return count > 0 && dtype->super.size > 0;
}

/* Does any of the blocks that all ranks name alike? */
static inline bool gpucoll_any_has_data(gpucoll_counts counts, const ompi_datatype_t *dtype,
                                        ompi_communicator_t *comm)
{
    int size = ompi_comm_size(comm);
    int i = 0;
    while (i < size && gpucoll_count_at(counts, i) == 0) {
        i++;
    }
    return i < size && dtype->super.size > 0;
}

/* Has gpucoll kernels for this operator on this type? Then they are in self->latest. */
bool gpucoll_native_reduction(gpucoll_module *self, const ompi_op_t *op, const ompi_datatype_t *dtype);

/* Waits for the communicator's team, which is begun at its first call. *rc: an MPI error code. */
void gpucoll_native_connect(gpucoll_module *self, int *rc);

/* Does this rank post the call? Else it has passed, or there is no team, and the call goes on to the next
 * component. */
static inline bool gpucoll_native_joins(gpucoll_module *self, bool active, int *rc)
{
    struct gpucoll_sequence *calls = &self->calls;
    if (gpucoll_sequence_state(calls) != GPUCOLL_NATIVE_READY) {
        gpucoll_native_connect(self, rc);
        if (gpucoll_sequence_state(calls) != GPUCOLL_NATIVE_READY) {
            return false;
        }
    }
    if (!calls->posted && !active) {
        gpucoll_pass(calls->team);
        return false;
    }
    return true;
}

/* Runs a call on the engine. *done tells whether that settled it; else every rank goes on to the next
 * component. `bytes` are for the counters. */
int gpucoll_native_run(gpucoll_module *self, const struct gpucoll_coll_args *args, size_t bytes,
                       ompi_communicator_t *comm, bool *done);

/* The same for any collective but all-reduce, from the description of its buffers. A reduction's operator and
 * type are those of self->latest. */
int gpucoll_native_exchange(gpucoll_module *self, enum gpucoll_coll coll, int root,
                            const struct gpucoll_call *call, ompi_communicator_t *comm, bool *done);

/* A call as the engine wants it, from the description of its buffers; operator and type are left out. */
struct gpucoll_native {
    struct gpucoll_coll_args args; /* points to the blocks */
    int count;                     /* of the blocks that are sent, then of those that are received */
    struct gpucoll_block *block;
    struct gpucoll_layout **layout; /* referred to */
    void *memory;                   /* of many blocks; NULL: the arrays below have room for them */
    struct gpucoll_block few_blocks[2 * GPUCOLL_MAX_LOCAL];
    struct gpucoll_layout *few_layouts[2 * GPUCOLL_MAX_LOCAL];
};
/* False if out of memory: then there is nothing to release. */
bool gpucoll_native_describe(struct gpucoll_native *native, enum gpucoll_coll coll, int root,
                             const struct gpucoll_call *call);

/* Once it is posted: the engine has references of its own to what it still needs. */
void gpucoll_native_release(const struct gpucoll_native *native);

/* What is counted of it: the bytes of the longer one of this rank's buffers. */
size_t gpucoll_native_bytes(const struct gpucoll_call *call);

#endif
