/*
 * MPI_Scan and MPI_Exscan. MPI_Exscan leaves the receive buffer of rank 0 alone, which may not even exist.
 */
#include "coll_gpucoll_forms.h"

static struct gpucoll_call describe(const void *sbuf, void *rbuf, struct gpucoll_region region, bool writes)
{
    struct gpucoll_call call = {.send.user = (void *)sbuf, .recv.user = rbuf};
    if (sbuf == MPI_IN_PLACE) {
        call.recv.in = region;
    } else {
        call.send.in = region;
    }
    if (writes) {
        call.recv.out = region;
    }
    return call;
}

#define SCAN(name, COLL, writes, exclusive)                                                                  \
    GPUCOLL_NATIVE_REDUCTION(                                                                                \
        name, (const void *sbuf, void *rbuf, gpucoll_count count, ompi_datatype_t *dtype, ompi_op_t *op),    \
        (sbuf, rbuf, count, dtype, op), describe(sbuf, rbuf, gpucoll_even(count, dtype, 0, 1), writes),      \
        GPUCOLL_BOTH, COLL, 0, count > 0 && gpucoll_native_reduction(self, op, dtype),                       \
        gpucoll_ordered_scan(sbuf, rbuf, (size_t)count, exclusive, comm, self))

SCAN(scan, GPUCOLL_SCAN, true, false)
SCAN(exscan, GPUCOLL_EXSCAN, ompi_comm_rank(comm) > 0, true)
