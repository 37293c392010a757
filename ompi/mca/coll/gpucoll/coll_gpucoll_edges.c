#include "coll_gpucoll_edges.h"

#include <stdlib.h>
#include "coll_gpucoll_layout.h"

/* ---- which ranks they lead to ---- */

static void fill(struct gpucoll_edge *edge, int block, int rank, int order)
{
    *edge = (struct gpucoll_edge){.rank = rank, .block = block, .order = order};
}

/* What is sent downwards comes from above. That matters where both are one rank, in a dimension of one or two that is periodic. */
static void list_grid(ompi_communicator_t *comm, struct gpucoll_edges *edges)
{
    const mca_topo_base_comm_cart_2_2_0_t *grid = comm->c_topo->mtc.cart;
    for (int dim = 0; dim < grid->ndims; dim++) {
        const int down = 2 * dim;
        const int up = 2 * dim + 1;
        int below = grid->periods[dim] ? ompi_comm_rank(comm) : MPI_PROC_NULL;
        int above = below;
        if (grid->dims[dim] > 1) {
            mca_topo_base_cart_shift(comm, dim, 1, &below, &above);
        }
        fill(&edges->source[down], down, below, down);
        fill(&edges->source[up], up, above, up);
        fill(&edges->target[down], down, below, up);
        fill(&edges->target[up], up, above, down);
    }
}

static void list_graph(struct gpucoll_edges *edges, const int *sources, const int *targets)
{
    for (int i = 0; i < edges->in; i++) {
        fill(&edges->source[i], i, sources[i], i);
    }
    for (int i = 0; i < edges->out; i++) {
        fill(&edges->target[i], i, targets[i], i);
    }
}

static void list_edges(ompi_communicator_t *comm, struct gpucoll_edges *edges)
{
    if (OMPI_COMM_IS_CART(comm)) {
        list_grid(comm, edges);
    } else if (OMPI_COMM_IS_GRAPH(comm)) {
        const mca_topo_base_comm_graph_2_2_0_t *graph = comm->c_topo->mtc.graph;
        const int rank = ompi_comm_rank(comm);
        const int *neighbors = graph->edges + (rank > 0 ? graph->index[rank - 1] : 0);
        list_graph(edges, neighbors, neighbors);
    } else {
        const mca_topo_base_comm_dist_graph_2_2_0_t *graph = comm->c_topo->mtc.dist_graph;
        list_graph(edges, graph->in, graph->out);
    }
}

static int compare(const void *left, const void *right)
{
    const struct gpucoll_edge *a = left;
    const struct gpucoll_edge *b = right;
    if (a->rank != b->rank) {
        return a->rank < b->rank ? -1 : 1;
    }
    return (a->order > b->order) - (a->order < b->order);
}

/* In order, without those that lead nowhere. Returns how many are left. */
static int sort(struct gpucoll_edge *edge, int count)
{
    int left = 0;
    for (int i = 0; i < count; i++) {
        if (edge[i].rank != MPI_PROC_NULL) {
            edge[left++] = edge[i];
        }
    }
    qsort(edge, (size_t)left, sizeof *edge, compare);
    return left;
}

static bool has_several(const struct gpucoll_edge *edge, int count)
{
    for (int i = 1; i < count; i++) {
        if (edge[i].rank == edge[i - 1].rank) {
            return true;
        }
    }
    return false;
}

const struct gpucoll_edges *gpucoll_edges_of(gpucoll_module *self, ompi_communicator_t *comm)
{
    if (self->edges != NULL) {
        return self->edges;
    }
    int in = 0;
    int out = 0;
    mca_topo_base_neighbor_count(comm, &in, &out);
    struct gpucoll_edges *edges = malloc(sizeof *edges + (size_t)(in + out) * sizeof(struct gpucoll_edge));
    if (edges == NULL) {
        return NULL;
    }
    *edges = (struct gpucoll_edges){
        .ranks = ompi_comm_size(comm),
        .in = in,
        .out = out,
        .source = (struct gpucoll_edge *)(edges + 1),
    };
    edges->target = edges->source + in;
    list_edges(comm, edges);
    edges->sources = sort(edges->source, in);
    edges->targets = sort(edges->target, out);
    edges->several_sources = has_several(edges->source, edges->sources);
    edges->several_targets = has_several(edges->target, edges->targets);
    self->edges = edges;
    return edges;
}

void gpucoll_edges_free(struct gpucoll_edges *edges)
{
    free(edges);
}

/* In a grid all ranks are connected: if one has data for a neighbour, every rank has some or expects some, where all blocks are alike. */
static bool connects_all(const mca_topo_base_comm_cart_2_2_0_t *grid)
{
    for (int dim = 0; dim < grid->ndims; dim++) {
        if (grid->dims[dim] > 1 || grid->periods[dim]) {
            return true;
        }
    }
    return false;
}

/* Has the grid a dimension in which the rank below is that above? */
static bool closes_at_once(const mca_topo_base_comm_cart_2_2_0_t *grid)
{
    for (int dim = 0; dim < grid->ndims; dim++) {
        if (grid->dims[dim] <= 2 && grid->periods[dim]) {
            return true;
        }
    }
    return false;
}

/* The MPI layer returns from blocking MPI_Neighbor_allgather and MPI_Neighbor_alltoall if a rank has no data, before it comes here: then others must not
 * have any either.
 *
 * Up to Open MPI 5.0 (github.com/open-mpi/ompi, 14416) libnbc takes what comes from one rank in the order of sending, so that in a dimension that closes at once blocks
 * are exchanged the wrong way round. Whether a call runs natively may differ from call to call, and its result should not. */
bool gpucoll_edges_allow(enum gpucoll_coll coll, bool blocking, ompi_communicator_t *comm)
{
    const mca_topo_base_comm_cart_2_2_0_t *grid = OMPI_COMM_IS_CART(comm) ? comm->c_topo->mtc.cart : NULL;
    if (blocking) {
        const bool returns = coll == GPUCOLL_NEIGHBOR_ALLGATHER || coll == GPUCOLL_NEIGHBOR_ALLTOALL;
        return !returns || (grid != NULL && connects_all(grid));
    }
    const bool each = coll != GPUCOLL_NEIGHBOR_ALLGATHER && coll != GPUCOLL_NEIGHBOR_ALLGATHERV;
    return OMPI_MAJOR_VERSION > 5 || !each || grid == NULL || !closes_at_once(grid);
}

/* ---- blocks ---- */

/* The block that goes along an edge: its own, or the only one. */
static int block_along(const struct gpucoll_region *region, const struct gpucoll_edge *edge)
{
    return region->blocks > 1 ? edge->block : 0;
}

/* That of one edge. */
static bool take_block(const struct gpucoll_edge *edge, const struct gpucoll_region *region,
                       struct gpucoll_block *block, struct gpucoll_layout **layout)
{
    struct gpucoll_region one = *region;
    one.first = block_along(region, edge);
    one.blocks = 1;
    return gpucoll_region_blocks(&one, false, block, layout);
}

/* That of several. */
static bool join_blocks(const struct gpucoll_edge *edge, int count, const struct gpucoll_region *region,
                        struct gpucoll_block *block, struct gpucoll_layout **layout)
{
    struct gpucoll_layout_builder *builder = gpucoll_layout_begin();
    for (int i = 0; i < count; i++) {
        const int index = block_along(region, &edge[i]);
        block->bytes += gpucoll_region_bytes(region, index);
        if (builder != NULL) {
            gpucoll_region_describe(region, index, builder);
        }
    }
    struct gpucoll_layout *joined = builder != NULL ? gpucoll_layout_build(builder, 0) : NULL;
    if (joined == NULL || joined->bytes != block->bytes) {
        gpucoll_layout_release(joined);
        return block->bytes == 0;
    }
    if (gpucoll_layout_is_run(joined, 1)) {
        block->offset = joined->first;
        gpucoll_layout_release(joined);
        return true;
    }
    *layout = gpucoll_layout_known(joined);
    return true;
}

bool gpucoll_edges_blocks(const struct gpucoll_edges *edges, bool sends, const struct gpucoll_region *region,
                          struct gpucoll_block *blocks, struct gpucoll_layout **layouts)
{
    const struct gpucoll_edge *edge = sends ? edges->target : edges->source;
    const int count = sends ? edges->targets : edges->sources;
    bool taken = true;
    memset(blocks, 0, (size_t)edges->ranks * sizeof *blocks);
    memset(layouts, 0, (size_t)edges->ranks * sizeof *layouts);
    for (int i = 0, many = 0; i < count; i += many) {
        const int rank = edge[i].rank;
        for (many = 1; i + many < count && edge[i + many].rank == rank;) {
            many++;
        }
        taken &= many == 1 ? take_block(&edge[i], region, &blocks[rank], &layouts[rank])
                           : join_blocks(&edge[i], many, region, &blocks[rank], &layouts[rank]);
    }
    return taken;
}
