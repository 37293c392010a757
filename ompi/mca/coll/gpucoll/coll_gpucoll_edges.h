/*
 * The edges of a communicator's topology at this rank. MPI counts the blocks of a neighborhood collective by edges, the engine by ranks: a
 * rank may be no neighbour at all, or be one several times.
 */
#ifndef COLL_GPUCOLL_EDGES_H
#define COLL_GPUCOLL_EDGES_H

#include "coll_gpucoll.h"
#include "coll_gpucoll_region.h"

/* An edge to or from a rank, MPI_PROC_NULL left out. */
struct gpucoll_edge {
    int rank;
    int block; /* its number in MPI's order */
    int order; /* among the edges from this sender to this receiver, the same at both: the receiver's number of it, or one that is in the same order. So
                * blocks that touch are received where they belong */
};

/* By rank, of one rank by order: what goes along several edges from one rank to another is in the same order at both. */
struct gpucoll_edges {
    int ranks; /* of the communicator */
    int in;    /* blocks that MPI counts, those of MPI_PROC_NULL among them, */
    int out;   /* and edges: */
    int sources;
    int targets;
    bool several_sources; /* edges from one rank */
    bool several_targets; /* or to one */
    struct gpucoll_edge *source;
    struct gpucoll_edge *target;
};

/* Those of an intracommunicator with a topology: made at first use, and kept as long as the module. NULL: out of memory. Not for two threads at once. */
const struct gpucoll_edges *gpucoll_edges_of(gpucoll_module *self, ompi_communicator_t *comm);
/* Harmless on NULL. */
void gpucoll_edges_free(struct gpucoll_edges *edges);

/* Can such a call run natively on the communicator? The same on all ranks. */
bool gpucoll_edges_allow(enum gpucoll_coll coll, bool blocking, ompi_communicator_t *comm);

/* A block for each rank, into arrays of as many: of the region's blocks those that go along edges to it (`sends`) or come from it; a region's only
 * block goes along all. Those of a rank with several edges become one, with a layout unless they touch, in which bytes may repeat where they are sent. Returns what
 * gpucoll_region_blocks does; the arrays are filled in any case. */
bool gpucoll_edges_blocks(const struct gpucoll_edges *edges, bool sends, const struct gpucoll_region *region,
                          struct gpucoll_block *blocks, struct gpucoll_layout **layouts);

#endif
