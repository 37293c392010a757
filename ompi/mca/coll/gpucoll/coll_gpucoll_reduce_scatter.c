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

GPUCOLL_NATIVE_REDUCTION(reduce_scatter,
                         (const void *sbuf, void *rbuf, gpucoll_counts rcounts, ompi_datatype_t *dtype,
                          ompi_op_t *op),
                         (sbuf, rbuf, rcounts, dtype, op),
                         describe(sbuf, gpucoll_row(rcounts, dtype, ompi_comm_size(comm)), rbuf,
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
