/*
 * MPI_Gather and MPI_Gatherv. In place, the root's block of the receive buffer is read too; on an
 * intercommunicator the root sends nothing.
 */
#include "coll_gpucoll_forms.h"

static struct gpucoll_call describe(const void *sbuf, struct gpucoll_region send, void *rbuf,
                                    struct gpucoll_region recv, int root, ompi_communicator_t *comm)
{
    struct gpucoll_call call = {.send.user = (void *)sbuf, .recv.user = rbuf};
    enum gpucoll_role role = gpucoll_role(comm, root);
    if (role == GPUCOLL_ROOT) {
        call.recv.out = recv;
    }
    if (role == GPUCOLL_ROOT && sbuf == MPI_IN_PLACE) {
        call.recv.in = recv;
        call.recv.in.first = root;
        call.recv.in.blocks = 1;
    } else if (role == GPUCOLL_LEAF || (role == GPUCOLL_ROOT && OMPI_COMM_IS_INTRA(comm))) {
        call.send.in = send;
    }
    return call;
}

GPUCOLL_NATIVE_FORMS(gather,
                     (const void *sbuf, gpucoll_count scount, ompi_datatype_t *sdtype, void *rbuf,
                      gpucoll_count rcount, ompi_datatype_t *rdtype, int root),
                     (sbuf, scount, sdtype, rbuf, rcount, rdtype, root),
                     describe(sbuf, gpucoll_even(scount, sdtype, 0, 1), rbuf,
                              gpucoll_even(rcount, rdtype, 0, gpucoll_peers(comm)), root, comm),
                     GPUCOLL_BOTH, GPUCOLL_GATHER, root,
                     sbuf == MPI_IN_PLACE ? gpucoll_has_data(rcount, rdtype)
                                          : gpucoll_has_data(scount, sdtype))

GPUCOLL_NATIVE_FORMS(gatherv,
                     (const void *sbuf, gpucoll_count scount, ompi_datatype_t *sdtype, void *rbuf,
                      gpucoll_counts rcounts, gpucoll_displs displs, ompi_datatype_t *rdtype, int root),
                     (sbuf, scount, sdtype, rbuf, rcounts, displs, rdtype, root),
                     describe(sbuf, gpucoll_even(scount, sdtype, 0, 1), rbuf,
                              gpucoll_vector(rcounts, displs, rdtype, 0, gpucoll_peers(comm)), root, comm),
                     GPUCOLL_BOTH, GPUCOLL_GATHERV, root, true)
