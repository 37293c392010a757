/*
 * MPI_Alltoall, MPI_Alltoallv and MPI_Alltoallw. In place, the receive buffer is read whole before it is
 * written.
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

GPUCOLL_NATIVE_FORMS(alltoall,
                     (const void *sbuf, gpucoll_count scount, ompi_datatype_t *sdtype, void *rbuf,
                      gpucoll_count rcount, ompi_datatype_t *rdtype),
                     (sbuf, scount, sdtype, rbuf, rcount, rdtype),
                     describe(sbuf, gpucoll_even(scount, sdtype, 0, gpucoll_peers(comm)), rbuf,
                              gpucoll_even(rcount, rdtype, 0, gpucoll_peers(comm))),
                     GPUCOLL_BOTH, GPUCOLL_ALLTOALL, 0, gpucoll_has_data(rcount, rdtype))

GPUCOLL_NATIVE_FORMS(alltoallv,
                     (const void *sbuf, gpucoll_counts scounts, gpucoll_displs sdispls,
                      ompi_datatype_t *sdtype, void *rbuf, gpucoll_counts rcounts, gpucoll_displs rdispls,
                      ompi_datatype_t *rdtype),
                     (sbuf, scounts, sdispls, sdtype, rbuf, rcounts, rdispls, rdtype),
                     describe(sbuf, gpucoll_vector(scounts, sdispls, sdtype, 0, gpucoll_peers(comm)), rbuf,
                              gpucoll_vector(rcounts, rdispls, rdtype, 0, gpucoll_peers(comm))),
                     GPUCOLL_BOTH, GPUCOLL_ALLTOALLV, 0, true)

#define W_PARAMETERS                                                                                         \
    (const void *sbuf, gpucoll_counts scounts, gpucoll_displs sdispls, ompi_datatype_t *const *sdtypes,      \
     void *rbuf, gpucoll_counts rcounts, gpucoll_displs rdispls, ompi_datatype_t *const *rdtypes)
#define W_ARGUMENTS (sbuf, scounts, sdispls, sdtypes, rbuf, rcounts, rdispls, rdtypes)
#define W_DESCRIPTION                                                                                        \
    describe(sbuf, gpucoll_bytes(scounts, sdispls, sdtypes, gpucoll_peers(comm)), rbuf,                      \
             gpucoll_bytes(rcounts, rdispls, rdtypes, gpucoll_peers(comm)))

static GPUCOLL_BLOCKING(next_alltoallw, alltoallw, W_PARAMETERS, W_ARGUMENTS, W_DESCRIPTION, GPUCOLL_BOTH)
GPUCOLL_LATER_FORMS(alltoallw, W_PARAMETERS, W_ARGUMENTS, W_DESCRIPTION, GPUCOLL_ALLTOALLW, 0, true)

static int staged_alltoallw(const void *sbuf, gpucoll_counts scounts, gpucoll_displs sdispls,
                            ompi_datatype_t *const *sdtypes, void *rbuf, gpucoll_counts rcounts,
                            gpucoll_displs rdispls, ompi_datatype_t *const *rdtypes,
                            ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    /* coll/self of 4.1 and 5.0 takes the displacements for elements, and would write beside a host copy. Zero
     * is zero. */
    static const gpucoll_displ zero[1] = {0};
    if (OMPI_COMM_IS_INTRA(comm) && ompi_comm_size(comm) == 1 && sbuf != MPI_IN_PLACE) {
        sbuf = (const char *)sbuf + gpucoll_displ_at(sdispls, 0);
        rbuf = (char *)rbuf + gpucoll_displ_at(rdispls, 0);
        sdispls = gpucoll_displs_of(zero);
        rdispls = gpucoll_displs_of(zero);
    }
    return next_alltoallw(sbuf, scounts, sdispls, sdtypes, rbuf, rcounts, rdispls, rdtypes, comm, module);
}

GPUCOLL_NATIVE(alltoallw, W_PARAMETERS, W_ARGUMENTS, W_DESCRIPTION, GPUCOLL_ALLTOALLW, 0, true)
