/*
 * MPI_Allgather and MPI_Allgatherv. In place, the own block of the receive buffer is read too.
 */
#include "coll_gpucoll_forms.h"

static struct gpucoll_call describe(const void *sbuf, struct gpucoll_region send, void *rbuf,
                                    struct gpucoll_region recv, ompi_communicator_t *comm)
{
    struct gpucoll_call call = {.send.user = (void *)sbuf, .recv.user = rbuf, .recv.out = recv};
    if (sbuf == MPI_IN_PLACE) {
        call.recv.in = recv;
        call.recv.in.first = ompi_comm_rank(comm);
        call.recv.in.blocks = 1;
    } else {
        call.send.in = send;
    }
    return call;
}

GPUCOLL_NATIVE_FORMS(allgather,
                     (const void *sbuf, gpucoll_count scount, ompi_datatype_t *sdtype, void *rbuf,
                      gpucoll_count rcount, ompi_datatype_t *rdtype),
                     (sbuf, scount, sdtype, rbuf, rcount, rdtype),
                     describe(sbuf, gpucoll_even(scount, sdtype, 0, 1), rbuf,
                              gpucoll_even(rcount, rdtype, 0, gpucoll_peers(comm)), comm),
                     GPUCOLL_BOTH, GPUCOLL_ALLGATHER, 0, gpucoll_has_data(rcount, rdtype))

GPUCOLL_NATIVE_FORMS(allgatherv,
                     (const void *sbuf, gpucoll_count scount, ompi_datatype_t *sdtype, void *rbuf,
                      gpucoll_counts rcounts, gpucoll_displs displs, ompi_datatype_t *rdtype),
                     (sbuf, scount, sdtype, rbuf, rcounts, displs, rdtype),
                     describe(sbuf, gpucoll_even(scount, sdtype, 0, 1), rbuf,
                              gpucoll_vector(rcounts, displs, rdtype, 0, gpucoll_peers(comm)), comm),
                     GPUCOLL_BOTH, GPUCOLL_ALLGATHERV, 0, gpucoll_any_has_data(rcounts, rdtype, comm))
