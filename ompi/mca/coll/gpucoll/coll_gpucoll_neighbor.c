/*
 * The neighborhood collectives. Blocks are counted by neighbours, and a neighbour may be MPI_PROC_NULL: its
 * block of the receive buffer keeps what it holds, so that must be in the host copy before it is copied back.
 *
 * Natively they are exchanges with a block for each rank, most of which are empty (coll_gpucoll_edges.h).
 */
#include "coll_gpucoll_edges.h"
#include "coll_gpucoll_forms.h"

struct degrees {
    int in;
    int out;
};

static struct degrees degrees(ompi_communicator_t *comm)
{
    struct degrees degrees = {0, 0};
    mca_topo_base_neighbor_count(comm, &degrees.in, &degrees.out);
    return degrees;
}

static struct gpucoll_call describe(const void *sbuf, struct gpucoll_region send, void *rbuf,
                                    struct gpucoll_region recv, ompi_communicator_t *comm,
                                    mca_coll_base_module_t *module)
{
    const struct gpucoll_edges *edges = gpucoll_edges_of((gpucoll_module *)module, comm);
    struct gpucoll_call call = {
        .send = {.user = (void *)sbuf, .in = send},
        .recv = {.user = rbuf, .out = recv},
        .edges = edges,
    };
    if (edges == NULL || edges->sources < edges->in) {
        call.recv.in = recv;
    }
    if (edges != NULL && edges->targets == 0) {
        call.send.in.blocks = 0; /* also where one block goes to all: nobody reads it */
    }
    return call;
}

static bool may_run(enum gpucoll_coll coll, bool blocking, ompi_communicator_t *comm)
{
    return mca_coll_gpucoll_component.config.neighborhood && gpucoll_edges_allow(coll, blocking, comm);
}

#define NATIVE_FORMS(name, parameters, arguments, description, coll)                                         \
    GPUCOLL_NATIVE_FORMS_IF(name, parameters, arguments, description, GPUCOLL_BOTH, coll, 0,                 \
                            may_run(coll, true, comm), may_run(coll, false, comm))

NATIVE_FORMS(neighbor_allgather,
             (const void *sbuf, gpucoll_count scount, ompi_datatype_t *sdtype, void *rbuf,
              gpucoll_count rcount, ompi_datatype_t *rdtype),
             (sbuf, scount, sdtype, rbuf, rcount, rdtype),
             describe(sbuf, gpucoll_even(scount, sdtype, 0, 1), rbuf,
                      gpucoll_even(rcount, rdtype, 0, degrees(comm).in), comm, module),
             GPUCOLL_NEIGHBOR_ALLGATHER)

NATIVE_FORMS(neighbor_allgatherv,
             (const void *sbuf, gpucoll_count scount, ompi_datatype_t *sdtype, void *rbuf,
              gpucoll_counts rcounts, gpucoll_displs displs, ompi_datatype_t *rdtype),
             (sbuf, scount, sdtype, rbuf, rcounts, displs, rdtype),
             describe(sbuf, gpucoll_even(scount, sdtype, 0, 1), rbuf,
                      gpucoll_vector(rcounts, displs, rdtype, 0, degrees(comm).in), comm, module),
             GPUCOLL_NEIGHBOR_ALLGATHERV)

NATIVE_FORMS(neighbor_alltoall,
             (const void *sbuf, gpucoll_count scount, ompi_datatype_t *sdtype, void *rbuf,
              gpucoll_count rcount, ompi_datatype_t *rdtype),
             (sbuf, scount, sdtype, rbuf, rcount, rdtype),
             describe(sbuf, gpucoll_even(scount, sdtype, 0, degrees(comm).out), rbuf,
                      gpucoll_even(rcount, rdtype, 0, degrees(comm).in), comm, module),
             GPUCOLL_NEIGHBOR_ALLTOALL)

NATIVE_FORMS(neighbor_alltoallv,
             (const void *sbuf, gpucoll_counts scounts, gpucoll_displs sdispls, ompi_datatype_t *sdtype,
              void *rbuf, gpucoll_counts rcounts, gpucoll_displs rdispls, ompi_datatype_t *rdtype),
             (sbuf, scounts, sdispls, sdtype, rbuf, rcounts, rdispls, rdtype),
             describe(sbuf, gpucoll_vector(scounts, sdispls, sdtype, 0, degrees(comm).out), rbuf,
                      gpucoll_vector(rcounts, rdispls, rdtype, 0, degrees(comm).in), comm, module),
             GPUCOLL_NEIGHBOR_ALLTOALLV)

NATIVE_FORMS(neighbor_alltoallw,
             (const void *sbuf, gpucoll_counts scounts, gpucoll_displs_aint sdispls,
              ompi_datatype_t *const *sdtypes, void *rbuf, gpucoll_counts rcounts,
              gpucoll_displs_aint rdispls, ompi_datatype_t *const *rdtypes),
             (sbuf, scounts, sdispls, sdtypes, rbuf, rcounts, rdispls, rdtypes),
             describe(sbuf, gpucoll_bytes_aint(scounts, sdispls, sdtypes, degrees(comm).out), rbuf,
                      gpucoll_bytes_aint(rcounts, rdispls, rdtypes, degrees(comm).in), comm, module),
             GPUCOLL_NEIGHBOR_ALLTOALLW)
