/*
 * MPI_Scatter and MPI_Scatterv. In place, the root receives nothing, as it does on an intercommunicator.
 */
#include "coll_gpucoll_forms.h"

static struct gpucoll_call describe(const void *sbuf, struct gpucoll_region send, void *rbuf,
                                    struct gpucoll_region recv, int root, ompi_communicator_t *comm)
{
    struct gpucoll_call call = {.send.user = (void *)sbuf, .recv.user = rbuf};
    enum gpucoll_role role = gpucoll_role(comm, root);
    if (role == GPUCOLL_ROOT) {
        call.send.in = send;
    }
    if (role == GPUCOLL_LEAF || (role == GPUCOLL_ROOT && OMPI_COMM_IS_INTRA(comm) && rbuf != MPI_IN_PLACE)) {
        call.recv.out = recv;
    }
    return call;
}

GPUCOLL_NATIVE_FORMS(scatter,
                     (const void *sbuf, gpucoll_count scount, ompi_datatype_t *sdtype, void *rbuf,
                      gpucoll_count rcount, ompi_datatype_t *rdtype, int root),
                     (sbuf, scount, sdtype, rbuf, rcount, rdtype, root),
                     describe(sbuf, gpucoll_even(scount, sdtype, 0, gpucoll_peers(comm)), rbuf,
                              gpucoll_even(rcount, rdtype, 0, 1), root, comm),
                     GPUCOLL_BOTH, GPUCOLL_SCATTER, root,
                     rbuf == MPI_IN_PLACE ? gpucoll_has_data(scount, sdtype)
                                          : gpucoll_has_data(rcount, rdtype))

GPUCOLL_NATIVE_FORMS(scatterv,
                     (const void *sbuf, gpucoll_counts scounts, gpucoll_displs displs,
                      ompi_datatype_t *sdtype, void *rbuf, gpucoll_count rcount, ompi_datatype_t *rdtype,
                      int root),
                     (sbuf, scounts, displs, sdtype, rbuf, rcount, rdtype, root),
                     describe(sbuf, gpucoll_vector(scounts, displs, sdtype, 0, gpucoll_peers(comm)), rbuf,
                              gpucoll_even(rcount, rdtype, 0, 1), root, comm),
                     GPUCOLL_BOTH, GPUCOLL_SCATTERV, root, true)
