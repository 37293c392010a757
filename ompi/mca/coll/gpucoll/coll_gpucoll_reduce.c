/*
 * MPI_Reduce.
 */
#include "coll_gpucoll_forms.h"

static struct gpucoll_call describe(const void *sbuf, void *rbuf, struct gpucoll_region region, int root,
                                    ompi_communicator_t *comm)
{
    struct gpucoll_call call = {.send.user = (void *)sbuf, .recv.user = rbuf};
    enum gpucoll_role role = gpucoll_role(comm, root);
    if (role == GPUCOLL_ROOT) {
        call.recv.out = region;
    }
    if (role == GPUCOLL_ROOT && sbuf == MPI_IN_PLACE) {
        call.recv.in = region;
    } else if (role == GPUCOLL_LEAF || (role == GPUCOLL_ROOT && OMPI_COMM_IS_INTRA(comm))) {
        call.send.in = region;
    }
    return call;
}

GPUCOLL_NATIVE_REDUCTION(reduce,
                         (const void *sbuf, void *rbuf, gpucoll_count count, ompi_datatype_t *dtype,
                          ompi_op_t *op, int root),
                         (sbuf, rbuf, count, dtype, op, root),
                         describe(sbuf, rbuf, gpucoll_even(count, dtype, 0, 1), root, comm), GPUCOLL_BOTH,
                         GPUCOLL_REDUCE, root, count > 0 && gpucoll_native_reduction(self, op, dtype),
                         gpucoll_ordered_reduce(sbuf, rbuf, (size_t)count, root, comm, self))
