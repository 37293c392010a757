/*
 * MPI_Reduce_scatter and MPI_Reduce_scatter_block. The send buffer holds what all ranks of the own group
 * receive, also on an intercommunicator; in place, the receive buffer holds that before and one rank's part,
 * at its beginning, after.
 */
#include "coll_gpucoll_forms.h"

static struct gpucoll_call describe(const void *sbuf, struct gpucoll_region send, void *rbuf,
                                    struct gpucoll_region recv)
{
    struct gpucoll_call call = {.send.user = (void *)sbuf, .recv.user = rbuf, .recv.out = recv};
    if (sbuf == MPI_IN_PLACE) {
        call.recv.in = send;
    } else {
        call.send.in = send;
    }
    return call;
}

/* The room for a block for each rank. */
struct parts {
    ptrdiff_t displs[GPUCOLL_MAX_LOCAL];
    ompi_datatype_t *types[GPUCOLL_MAX_LOCAL];
};

/* What all ranks receive, a block for each, as the engine needs it; where there are more ranks than it can have, as one. */
static struct gpucoll_region all_parts(gpucoll_counts counts, ompi_datatype_t *dtype,
                                       ompi_communicator_t *comm, struct parts *parts)
{
    const int size = ompi_comm_size(comm);
    size_t sum = 0;
    for (int i = 0; i < size; i++) {
        if (i < GPUCOLL_MAX_LOCAL) {
            parts->displs[i] = (ptrdiff_t)sum * (dtype->super.ub - dtype->super.lb);
            parts->types[i] = dtype;
        }
        sum += gpucoll_count_at(counts, i);
    }
    return size <= GPUCOLL_MAX_LOCAL ? gpucoll_bytes_aint(counts, parts->displs, parts->types, size)
                                     : gpucoll_even(sum, dtype, 0, 1);
}

GPUCOLL_NATIVE_REDUCTION(reduce_scatter,
                         (const void *sbuf, void *rbuf, gpucoll_counts rcounts, ompi_datatype_t *dtype,
                          ompi_op_t *op),
                         (sbuf, rbuf, rcounts, dtype, op),
                         describe(sbuf, all_parts(rcounts, dtype, comm, &(struct parts){{0}, {0}}), rbuf,
                                  gpucoll_even(gpucoll_count_at(rcounts, ompi_comm_rank(comm)), dtype, 0, 1)),
                         GPUCOLL_BOTH, GPUCOLL_REDUCE_SCATTER, 0,
                         gpucoll_any_has_data(rcounts, dtype, comm) &&
                             gpucoll_native_reduction(self, op, dtype),
                         gpucoll_ordered_reduce_scatter(sbuf, rbuf, rcounts, comm, self))

GPUCOLL_NATIVE_REDUCTION(reduce_scatter_block,
                         (const void *sbuf, void *rbuf, gpucoll_count rcount, ompi_datatype_t *dtype,
                          ompi_op_t *op),
                         (sbuf, rbuf, rcount, dtype, op),
                         describe(sbuf, gpucoll_even(rcount, dtype, 0, ompi_comm_size(comm)), rbuf,
                                  gpucoll_even(rcount, dtype, 0, 1)),
                         GPUCOLL_BOTH, GPUCOLL_REDUCE_SCATTER_BLOCK, 0,
                         rcount > 0 && gpucoll_native_reduction(self, op, dtype),
                         gpucoll_ordered_reduce_scatter_block(sbuf, rbuf, (size_t)rcount, comm, self))
