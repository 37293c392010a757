/*
 * The neighborhood collectives. Blocks are counted by neighbours, and a neighbour may be MPI_PROC_NULL: its
 * block of the receive buffer keeps what it holds, so that must be in the host copy before it is copied back.
 */
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

/* May some neighbour that this rank receives from be MPI_PROC_NULL? */
static bool may_lack_sources(ompi_communicator_t *comm)
{
    if (OMPI_COMM_IS_CART(comm)) {
        const mca_topo_base_comm_cart_2_2_0_t *cart = comm->c_topo->mtc.cart;
        for (int i = 0; i < cart->ndims; i++) {
            if (!cart->periods[i]) {
                return true;
            }
        }
    } else if (OMPI_COMM_IS_DIST_GRAPH(comm)) {
        const mca_topo_base_comm_dist_graph_2_2_0_t *graph = comm->c_topo->mtc.dist_graph;
        for (int i = 0; i < graph->indegree; i++) {
            if (graph->in[i] == MPI_PROC_NULL) {
                return true;
            }
        }
    }
    return false;
}

static struct gpucoll_call describe(const void *sbuf, struct gpucoll_region send, void *rbuf,
                                    struct gpucoll_region recv, ompi_communicator_t *comm)
{
    struct gpucoll_call call = {
        .send = {.user = (void *)sbuf, .in = send},
        .recv = {.user = rbuf, .out = recv},
    };
    if (may_lack_sources(comm)) {
        call.recv.in = recv;
    }
    return call;
}

GPUCOLL_FORMS(neighbor_allgather,
              (const void *sbuf, gpucoll_count scount, ompi_datatype_t *sdtype, void *rbuf,
               gpucoll_count rcount, ompi_datatype_t *rdtype),
              (sbuf, scount, sdtype, rbuf, rcount, rdtype),
              describe(sbuf, gpucoll_even(scount, sdtype, 0, 1), rbuf,
                       gpucoll_even(rcount, rdtype, 0, degrees(comm).in), comm))

GPUCOLL_FORMS(neighbor_allgatherv,
              (const void *sbuf, gpucoll_count scount, ompi_datatype_t *sdtype, void *rbuf,
               gpucoll_counts rcounts, gpucoll_displs displs, ompi_datatype_t *rdtype),
              (sbuf, scount, sdtype, rbuf, rcounts, displs, rdtype),
              describe(sbuf, gpucoll_even(scount, sdtype, 0, 1), rbuf,
                       gpucoll_vector(rcounts, displs, rdtype, 0, degrees(comm).in), comm))

GPUCOLL_FORMS(neighbor_alltoall,
              (const void *sbuf, gpucoll_count scount, ompi_datatype_t *sdtype, void *rbuf,
               gpucoll_count rcount, ompi_datatype_t *rdtype),
              (sbuf, scount, sdtype, rbuf, rcount, rdtype),
              describe(sbuf, gpucoll_even(scount, sdtype, 0, degrees(comm).out), rbuf,
                       gpucoll_even(rcount, rdtype, 0, degrees(comm).in), comm))

GPUCOLL_FORMS(neighbor_alltoallv,
              (const void *sbuf, gpucoll_counts scounts, gpucoll_displs sdispls, ompi_datatype_t *sdtype,
               void *rbuf, gpucoll_counts rcounts, gpucoll_displs rdispls, ompi_datatype_t *rdtype),
              (sbuf, scounts, sdispls, sdtype, rbuf, rcounts, rdispls, rdtype),
              describe(sbuf, gpucoll_vector(scounts, sdispls, sdtype, 0, degrees(comm).out), rbuf,
                       gpucoll_vector(rcounts, rdispls, rdtype, 0, degrees(comm).in), comm))

GPUCOLL_FORMS(neighbor_alltoallw,
              (const void *sbuf, gpucoll_counts scounts, gpucoll_displs_aint sdispls,
               ompi_datatype_t *const *sdtypes, void *rbuf, gpucoll_counts rcounts,
               gpucoll_displs_aint rdispls, ompi_datatype_t *const *rdtypes),
              (sbuf, scounts, sdispls, sdtypes, rbuf, rcounts, rdispls, rdtypes),
              describe(sbuf, gpucoll_bytes_aint(scounts, sdispls, sdtypes, degrees(comm).out), rbuf,
                       gpucoll_bytes_aint(rcounts, rdispls, rdtypes, degrees(comm).in), comm))
