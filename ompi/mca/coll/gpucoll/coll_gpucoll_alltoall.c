/*
 * MPI_Alltoall, MPI_Alltoallv and MPI_Alltoallw. In place, the receive buffer is read whole before it is written.
 */
#include "coll_gpucoll_forms.h"

static struct gpucoll_call describe(const void *sbuf, struct gpucoll_region send, void *rbuf,
                                    struct gpucoll_region recv)
{
    struct gpucoll_call call = {.send.user = (void *)sbuf, .recv.user = rbuf, .recv.out = recv};
    if (sbuf == MPI_IN_PLACE) {
        call.recv.in = recv;
    } else {
        call.send.in = send;
    }
    return call;
}

GPUCOLL_FORMS(alltoall,
              (const void *sbuf, gpucoll_count scount, ompi_datatype_t *sdtype, void *rbuf,
               gpucoll_count rcount, ompi_datatype_t *rdtype),
              (sbuf, scount, sdtype, rbuf, rcount, rdtype),
              describe(sbuf, gpucoll_even(scount, sdtype, 0, gpucoll_peers(comm)), rbuf,
                       gpucoll_even(rcount, rdtype, 0, gpucoll_peers(comm))))

GPUCOLL_FORMS(alltoallv,
              (const void *sbuf, gpucoll_counts scounts, gpucoll_displs sdispls, ompi_datatype_t *sdtype,
               void *rbuf, gpucoll_counts rcounts, gpucoll_displs rdispls, ompi_datatype_t *rdtype),
              (sbuf, scounts, sdispls, sdtype, rbuf, rcounts, rdispls, rdtype),
              describe(sbuf, gpucoll_vector(scounts, sdispls, sdtype, 0, gpucoll_peers(comm)), rbuf,
                       gpucoll_vector(rcounts, rdispls, rdtype, 0, gpucoll_peers(comm))))

GPUCOLL_FORMS(alltoallw,
              (const void *sbuf, gpucoll_counts scounts, gpucoll_displs sdispls,
               ompi_datatype_t *const *sdtypes, void *rbuf, gpucoll_counts rcounts, gpucoll_displs rdispls,
               ompi_datatype_t *const *rdtypes),
              (sbuf, scounts, sdispls, sdtypes, rbuf, rcounts, rdispls, rdtypes),
              describe(sbuf, gpucoll_bytes(scounts, sdispls, sdtypes, gpucoll_peers(comm)), rbuf,
                       gpucoll_bytes(rcounts, rdispls, rdtypes, gpucoll_peers(comm))))
