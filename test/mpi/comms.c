#include "test/mpi/comms.h"

#include <stdlib.h>
#include <string.h>

#include "test/mpi/support.h"

/* Ring and star: symmetric, as MPI wants the graphs of MPI_Graph_create to be. */
static bool graph_edge(int size, int i, int j)
{
    int apart = i > j ? i - j : j - i;
    return i != j && (apart == 1 || apart == size - 1 || i == 0 || j == 0);
}

/* Directed, uneven, with a loop at some ranks. */
static bool directed_edge(int size, int from, int to)
{
    return to == (from + 1) % size || (from * 7 + to * 3) % 4 == 0;
}

static void cart_neighbours(const struct test_comm *comm, int rank, int *count, int *list)
{
    int at[2] = {rank / comm->dims[1], rank % comm->dims[1]};

    *count = 0;
    for (int d = 0; d < 2; d++) {
        for (int step = -1; step <= 1; step += 2) {
            int to[2] = {at[0], at[1]};
            bool periodic = comm->dims[d] >= 3;
            to[d] += step;
            if (periodic)
                to[d] = (to[d] + comm->dims[d]) % comm->dims[d];
            list[(*count)++] = to[d] < 0 || to[d] >= comm->dims[d] ? -1 : to[0] * comm->dims[1] + to[1];
        }
    }
}

static void graph_neighbours(int size, int rank, int *count, int *list)
{
    *count = 0;
    for (int other = 0; other < size; other++)
        if (graph_edge(size, rank, other))
            list[(*count)++] = other;
}

void test_comm_sources(const struct test_comm *comm, int rank, int *count, int *sources)
{
    if (comm->topology == TEST_CART) {
        cart_neighbours(comm, rank, count, sources);
    } else if (comm->topology == TEST_GRAPH) {
        graph_neighbours(comm->size, rank, count, sources);
    } else {
        *count = 0;
        for (int other = comm->size - 1; other >= 0; other--)
            if (directed_edge(comm->size, other, rank))
                sources[(*count)++] = other;
    }
}

void test_comm_targets(const struct test_comm *comm, int rank, int *count, int *targets)
{
    if (comm->topology == TEST_CART) {
        cart_neighbours(comm, rank, count, targets);
    } else if (comm->topology == TEST_GRAPH) {
        graph_neighbours(comm->size, rank, count, targets);
    } else {
        *count = 0;
        for (int other = 0; other < comm->size; other++)
            if (directed_edge(comm->size, rank, other))
                targets[(*count)++] = other;
    }
}

/* Members by a rule over world ranks, in the order of `key`. */
static void name_members(struct test_comm *entry, const int *colours, const int *keys)
{
    int mine = colours[test.rank];
    entry->local = test_alloc((size_t)test.size * sizeof(int));
    entry->size = 0;
    for (int world = 0; world < test.size; world++) {
        int at = entry->size;
        if (colours[world] != mine)
            continue;
        for (; at > 0 && keys[entry->local[at - 1]] > keys[world]; at--)
            entry->local[at] = entry->local[at - 1];
        entry->local[at] = world;
        entry->size++;
    }
    for (int i = 0; i < entry->size; i++)
        if (entry->local[i] == test.rank)
            entry->rank = i;
    entry->remote = entry->local;
    entry->remote_size = entry->size;
}

static struct test_comm *add(struct test_comm *list, int *count, const char *name)
{
    struct test_comm *entry = &list[*count];
    memset(entry, 0, sizeof *entry);
    entry->slot = (*count)++;
    entry->name = name;
    entry->comm = MPI_COMM_NULL;
    return entry;
}

/* The ranks 0, 1, 2, ... of the world, or all alike, by `step`. */
static void count_up(int *list, int first, int step)
{
    for (int world = 0; world < test.size; world++)
        list[world] = first + step * world;
}

static void add_plain(struct test_comm *list, int *count, int *colours, int *keys)
{
    struct test_comm *entry = add(list, count, "world");
    count_up(colours, 0, 0);
    count_up(keys, 0, 1);
    entry->comm = MPI_COMM_WORLD;
    name_members(entry, colours, keys);

    entry = add(list, count, "dup");
    test_ok(MPI_Comm_dup(MPI_COMM_WORLD, &entry->comm), "MPI_Comm_dup");
    name_members(entry, colours, keys);

    entry = add(list, count, "reversed");
    count_up(keys, test.size, -1);
    test_ok(MPI_Comm_split(MPI_COMM_WORLD, 0, keys[test.rank], &entry->comm), "MPI_Comm_split");
    name_members(entry, colours, keys);

    entry = add(list, count, "self");
    count_up(colours, 1, 1);
    count_up(keys, 0, 1);
    entry->comm = MPI_COMM_SELF;
    entry->colour = colours[test.rank];
    name_members(entry, colours, keys);
}

static void add_splits(struct test_comm *list, int *count, int *colours, int *keys)
{
    struct test_comm *entry = add(list, count, "split");
    for (int world = 0; world < test.size; world++)
        colours[world] = 1 + world % 2;
    entry->colour = colours[test.rank];
    test_ok(MPI_Comm_split(MPI_COMM_WORLD, entry->colour, keys[test.rank], &entry->comm), "MPI_Comm_split");
    name_members(entry, colours, keys);
    if (test.size < 2)
        return;

    entry = add(list, count, "partial");
    for (int world = 0; world < test.size; world++)
        colours[world] = world == test.size - 1 ? 2 : 1;
    entry->colour = colours[test.rank];
    test_ok(MPI_Comm_split(MPI_COMM_WORLD, entry->colour == 1 ? 1 : MPI_UNDEFINED, 0, &entry->comm),
            "MPI_Comm_split");
    name_members(entry, colours, keys);
}

static void make_graph(struct test_comm *entry)
{
    int *index = test_alloc((size_t)test.size * sizeof(int));
    int *edges = test_alloc((size_t)test.size * (size_t)(test.size + 1) * sizeof(int));
    int used = 0;

    for (int rank = 0; rank < test.size; rank++) {
        int degree;
        graph_neighbours(test.size, rank, &degree, edges + used);
        used += degree;
        index[rank] = used;
    }
    test_ok(MPI_Graph_create(MPI_COMM_WORLD, test.size, index, edges, 0, &entry->comm), "MPI_Graph_create");
    free(index);
    free(edges);
}

static void make_dist_graph(struct test_comm *entry)
{
    int places = 2 * test.size + 4;
    int *sources = test_alloc((size_t)places * sizeof(int));
    int *targets = test_alloc((size_t)places * sizeof(int));
    int *weights = test_alloc((size_t)places * sizeof(int));
    int in, out;

    for (int i = 0; i < places; i++)
        weights[i] = 1;
    test_comm_sources(entry, entry->rank, &in, sources);
    test_comm_targets(entry, entry->rank, &out, targets);
    test_ok(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in, sources, weights, out, targets, weights,
                                           MPI_INFO_NULL, 0, &entry->comm),
            "MPI_Dist_graph_create_adjacent");
    free(sources);
    free(targets);
    free(weights);
}

MPI_Comm test_comm_ring(enum test_topology topology)
{
    const int ends[2] = {(test.rank + test.size - 1) % test.size, (test.rank + 1) % test.size};
    const int weights[2] = {1, 1};
    const int periodic = 1;
    MPI_Comm ring;

    if (topology == TEST_CART)
        test_ok(MPI_Cart_create(MPI_COMM_WORLD, 1, &test.size, &periodic, 0, &ring), "MPI_Cart_create");
    else
        test_ok(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, ends, weights, 2, ends, weights,
                                               MPI_INFO_NULL, 0, &ring),
                "MPI_Dist_graph_create_adjacent");
    return ring;
}

static void add_topologies(struct test_comm *list, int *count, int *colours, int *keys)
{
    struct test_comm *entry = add(list, count, "cart");
    int periods[2];

    count_up(colours, 0, 0);
    count_up(keys, 0, 1);
    entry->topology = TEST_CART;
    name_members(entry, colours, keys);
    MPI_Dims_create(test.size, 2, entry->dims);
    /* In a periodic dimension of one or two places Open MPI's nonblocking calls exchange blocks the wrong way round: edges.c has those. */
    periods[0] = entry->dims[0] >= 3;
    periods[1] = entry->dims[1] >= 3;
    test_ok(MPI_Cart_create(MPI_COMM_WORLD, 2, entry->dims, periods, 0, &entry->comm), "MPI_Cart_create");

    entry = add(list, count, "graph");
    entry->topology = TEST_GRAPH;
    name_members(entry, colours, keys);
    make_graph(entry);

    entry = add(list, count, "dist_graph");
    entry->topology = TEST_DIST_GRAPH;
    name_members(entry, colours, keys);
    make_dist_graph(entry);
}

/* Two groups: the world ranks of side 0 and of side 1. */
static void make_inter(struct test_comm *entry, const int *sides, int *keys)
{
    MPI_Comm group = MPI_COMM_NULL;
    int leaders[2] = {-1, -1};

    entry->inter = true;
    entry->side = sides[test.rank];
    entry->colour = 1 + entry->side;
    name_members(entry, sides, keys);
    entry->remote = test_alloc((size_t)test.size * sizeof(int));
    entry->remote_size = 0;
    for (int world = test.size - 1; world >= 0; world--)
        leaders[sides[world]] = world;
    for (int world = 0; world < test.size; world++)
        if (sides[world] != entry->side)
            entry->remote[entry->remote_size++] = world;
    test_ok(MPI_Comm_split(MPI_COMM_WORLD, entry->side, 0, &group), "MPI_Comm_split");
    test_ok(MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, leaders[1 - entry->side], 99, &entry->comm),
            "MPI_Intercomm_create");
    MPI_Comm_free(&group);
}

static void add_inters(struct test_comm *list, int *count, int *colours, int *keys)
{
    struct test_comm *inter;
    struct test_comm *entry;

    if (test.size < 2)
        return;
    for (int world = 0; world < test.size; world++)
        colours[world] = world % 2;
    inter = add(list, count, "inter");
    make_inter(inter, colours, keys);

    entry = add(list, count, "merged");
    for (int world = 0; world < test.size; world++)
        keys[world] = colours[world] * test.size + world;
    test_ok(MPI_Intercomm_merge(inter->comm, colours[test.rank], &entry->comm), "MPI_Intercomm_merge");
    count_up(colours, 0, 0);
    name_members(entry, colours, keys);
    if (test.size < 3)
        return;

    for (int world = 0; world < test.size; world++)
        colours[world] = world != 0;
    count_up(keys, 0, 1);
    make_inter(add(list, count, "uneven_inter"), colours, keys);
}

int test_comms_make(struct test_comm *list)
{
    int *colours = test_alloc((size_t)test.size * sizeof(int));
    int *keys = test_alloc((size_t)test.size * sizeof(int));
    int count = 0;

    add_plain(list, &count, colours, keys);
    add_splits(list, &count, colours, keys);
    add_topologies(list, &count, colours, keys);
    add_inters(list, &count, colours, keys);
    free(colours);
    free(keys);
    for (int i = 0; i < count; i++)
        if (list[i].comm != MPI_COMM_NULL)
            MPI_Comm_set_errhandler(list[i].comm, MPI_ERRORS_RETURN);
    return count;
}

void test_comms_free(struct test_comm *list, int count)
{
    for (int i = 0; i < count; i++) {
        if (list[i].remote != list[i].local)
            free(list[i].remote);
        free(list[i].local);
        if (list[i].comm != MPI_COMM_NULL && list[i].comm != MPI_COMM_WORLD && list[i].comm != MPI_COMM_SELF)
            MPI_Comm_free(&list[i].comm);
    }
}
