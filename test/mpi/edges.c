/*
 * Neighborhood collectives where ranks are neighbours several times, of themselves, or of nobody: grids whose dimensions have one or two ranks, and
 * graphs drawn at random. What goes along each edge differs from what goes along any other, in length and content. With `--native`
 * calls have to run natively but those of which the MPI layer keeps some ranks away.
 *
 * In a grid what is sent downwards comes from above. Nonblocking and persistent all-to-alls of libnbc take it for what comes first from that rank
 * instead, up to Open MPI 5.0: there they are staged, and left out here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/form.h"
#include "test/mpi/memory.h"
#include "test/mpi/support.h"
#include "test/mpi/ways.h"

enum coll { ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW, COLLS };
static const char *const coll_names[] = {"allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw"};

enum { EVEN = 24, MOST = 200, ROUNDS = 3 }; /* integers of a message */

/* At this rank; `sent` is the message's number at its sender. */
struct end {
    int peer; /* or MPI_PROC_NULL */
    int sent;
};

struct ends {
    int count;
    struct end *end;
};

struct topology {
    char name[32];
    MPI_Comm comm;
    bool grid;
    bool several; /* some rank is a neighbour twice */
    struct ends in;
    struct ends out;
};

static bool gathers(enum coll coll)
{
    return coll == ALLGATHER || coll == ALLGATHERV;
}

static bool is_even(enum coll coll)
{
    return coll == ALLGATHER || coll == ALLTOALL;
}

static void add(struct ends *ends, int peer, int sent)
{
    ends->end = realloc(ends->end, (size_t)(ends->count + 1) * sizeof *ends->end);
    ends->end[ends->count++] = (struct end){peer, sent};
}

/* ---- topologies ---- */

static struct topology make_grid(const char *name, int ndims, const int *dims, const int *periods)
{
    struct topology topology = {.grid = true};

    snprintf(topology.name, sizeof topology.name, "%s", name);
    MPI_Cart_create(MPI_COMM_WORLD, ndims, dims, periods, 0, &topology.comm);
    for (int dim = 0; dim < ndims; dim++) {
        int coords[3], ends[2];
        for (int up = 0; up < 2; up++) {
            MPI_Cart_coords(topology.comm, test.rank, ndims, coords);
            coords[dim] += up ? 1 : -1;
            if (periods[dim] || (coords[dim] >= 0 && coords[dim] < dims[dim]))
                MPI_Cart_rank(topology.comm, coords, &ends[up]);
            else
                ends[up] = MPI_PROC_NULL;
            add(&topology.in, ends[up], 2 * dim + !up);
            add(&topology.out, ends[up], 2 * dim + up);
        }
        topology.several |= periods[dim] && dims[dim] <= 2;
    }
    return topology;
}

/* Makes the communicator. */
static void join(struct topology *topology)
{
    const int in = topology->in.count, out = topology->out.count;
    int *peers = test_alloc((size_t)(in + out + 1) * sizeof *peers);
    int *weights = test_alloc((size_t)(in + out + 1) * sizeof *weights);

    for (int i = 0; i < in + out; i++) {
        peers[i] = i < in ? topology->in.end[i].peer : topology->out.end[i - in].peer;
        weights[i] = 1;
    }
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in, peers, weights, out, peers + in, weights + in,
                                   MPI_INFO_NULL, 0, &topology->comm);
    free(weights);
    free(peers);
}

/* Of several ranks the last one has no edges. What comes from one rank comes in its order; the ranks stand in any. */
static struct topology make_graph(uint64_t key)
{
    struct topology topology = {.several = true};
    const int ranks = test.size > 2 ? test.size - 1 : test.size;
    const int edges = 4 * ranks;
    int *sent = calloc((size_t)ranks, sizeof *sent);
    struct ends listed = {0, NULL};
    uint64_t state = key;

    snprintf(topology.name, sizeof topology.name, "graph");
    for (int i = 0; i < edges; i++) {
        const int from = test_draw(&state, ranks);
        const int to = test_draw(&state, ranks);
        if (from == test.rank)
            add(&topology.out, to, sent[from]);
        if (to == test.rank)
            add(&listed, from, sent[from]);
        sent[from]++;
    }
    for (int step = 0; step < ranks; step++) {
        const int from = (int)((key + (uint64_t)(ranks - step)) % (uint64_t)ranks);
        for (int i = 0; i < listed.count; i++)
            if (listed.end[i].peer == from)
                add(&topology.in, from, listed.end[i].sent);
    }
    join(&topology);
    free(listed.end);
    free(sent);
    return topology;
}

static void free_topology(struct topology *topology)
{
    MPI_Comm_free(&topology->comm);
    free(topology->in.end);
    free(topology->out.end);
}

/* ---- one side of a call ---- */

struct side {
    const struct ends *ends;
    int blocks; /* of the buffer */
    int *counts;
    int *displs; /* integers */
    MPI_Aint *places;
    MPI_Datatype *types;
    int *apart; /* from one integer of a block to the next */
    int ints;
    struct test_buffer buffer;
    int *image;
};

static int count_of(enum coll coll, uint64_t key, int from, int sent)
{
    uint64_t state = test_mix3(key, (uint64_t)from, gathers(coll) ? 0 : (uint64_t)sent + 1);

    if (is_even(coll))
        return EVEN;
    return test_chance(&state, 25) ? 0 : 1 + test_draw(&state, test_chance(&state, 30) ? MOST : 8);
}

static int value_of(enum coll coll, uint64_t key, int from, int sent, int i)
{
    const uint64_t message = gathers(coll) ? 0 : (uint64_t)sent + 1;

    return (int)(test_mix3(test_mix3(key, (uint64_t)from, message), 99, (uint64_t)i) % 1000000);
}

static void open_side(struct side *side, enum coll coll, const struct ends *ends, bool sending, uint64_t key,
                      MPI_Datatype spaced)
{
    const bool one = sending && gathers(coll);
    const size_t most = (size_t)ends->count + 1;

    memset(side, 0, sizeof *side);
    side->ends = ends;
    side->blocks = one ? 1 : ends->count;
    side->counts = test_alloc(most * sizeof(int));
    side->displs = test_alloc(most * sizeof(int));
    side->apart = test_alloc(most * sizeof(int));
    side->places = test_alloc(most * sizeof(MPI_Aint));
    side->types = test_alloc(most * sizeof(MPI_Datatype));
    for (int i = 0; i < side->blocks; i++) {
        const struct end own = {test.rank, 0};
        const struct end *end = one ? &own : &ends->end[i];
        const uint64_t mixed = test_mix3(key, (uint64_t)test.rank, (uint64_t)i);
        side->counts[i] = end->peer == MPI_PROC_NULL
                              ? (is_even(coll) ? EVEN : 5)
                              : count_of(coll, key, sending ? test.rank : end->peer, end->sent);
        side->apart[i] = coll == ALLTOALLW && mixed % 3 == 0 ? 2 : 1;
        side->types[i] = side->apart[i] == 2 ? spaced : MPI_INT;
        side->ints += is_even(coll) || one ? 0 : (int)(mixed % 2) * 3;
        side->displs[i] = side->ints;
        side->places[i] = (MPI_Aint)side->ints * (MPI_Aint)sizeof(int);
        side->ints += side->counts[i] * side->apart[i];
    }
    side->image = test_alloc(((size_t)side->ints + 1) * sizeof(int));
    memset(side->image, TEST_POISON, (size_t)side->ints * sizeof(int));
    for (int i = 0; i < side->blocks; i++) {
        const struct end own = {test.rank, 0};
        const struct end *end = one ? &own : &ends->end[i];
        for (int j = 0; j < side->counts[i] && end->peer != MPI_PROC_NULL; j++)
            side->image[side->displs[i] + j * side->apart[i]] =
                value_of(coll, key, sending ? test.rank : end->peer, end->sent, j);
    }
    test_buffer_make(&side->buffer, test_memory_kind(key + (uint64_t)sending),
                     ((size_t)side->ints + 1) * sizeof(int), 0, false);
    if (sending)
        test_buffer_write(&side->buffer, 0, side->image, (size_t)side->ints * sizeof(int));
}

static void check_side(struct side *side, const char *what)
{
    int *got = test_alloc(((size_t)side->ints + 1) * sizeof(int));

    test_buffer_read(&side->buffer, 0, got, (size_t)side->ints * sizeof(int));
    for (int i = 0; i < side->ints; i++) {
        if (got[i] != side->image[i]) {
            test_fail("%s: integer %d is %d, not %d", what, i, got[i], side->image[i]);
            break;
        }
    }
    test_buffer_check(&side->buffer, what);
    free(got);
}

static void close_side(struct side *side)
{
    test_buffer_free(&side->buffer);
    free(side->image);
    free(side->types);
    free(side->places);
    free(side->apart);
    free(side->displs);
    free(side->counts);
}

/* ---- calls ---- */

static void run(enum coll coll, enum test_form form, const struct side *s, const struct side *r,
                MPI_Comm comm)
{
    const void *from = s->buffer.data;
    void *to = r->buffer.data;
    /* A rank without neighbours may say that it has no data. */
    const int even = s->ends->count + r->ends->count > 0 ? EVEN : 0;

    if (coll == ALLGATHER)
        TEST_RUN(form, 2, Neighbor_allgather, Ineighbor_allgather, from, even, MPI_INT, to, even, MPI_INT,
                 comm);
    else if (coll == ALLGATHERV)
        TEST_RUN(form, 2, Neighbor_allgatherv, Ineighbor_allgatherv, from, s->counts[0], MPI_INT, to,
                 r->counts, r->displs, MPI_INT, comm);
    else if (coll == ALLTOALL)
        TEST_RUN(form, 2, Neighbor_alltoall, Ineighbor_alltoall, from, even, MPI_INT, to, even, MPI_INT,
                 comm);
    else if (coll == ALLTOALLV)
        TEST_RUN(form, 2, Neighbor_alltoallv, Ineighbor_alltoallv, from, s->counts, s->displs, MPI_INT, to,
                 r->counts, r->displs, MPI_INT, comm);
    else
        TEST_RUN(form, 2, Neighbor_alltoallw, Ineighbor_alltoallw, from, s->counts, s->places, s->types, to,
                 r->counts, r->places, r->types, comm);
}

/* How many calls have to run natively. From some the MPI layer keeps ranks without data away, so that the others can count on none; and a rank alone
 * hands on what has no data. */
static unsigned natively(const struct topology *topology, enum coll coll, enum test_form form)
{
    bool has_edges = false;

    for (int i = 0; i < topology->in.count; i++)
        has_edges |= topology->in.end[i].peer != MPI_PROC_NULL;
    if (form == TEST_BLOCKING && is_even(coll) && !topology->grid)
        return 0;
    if (test.size == 1 && (!is_even(coll) || !has_edges))
        return 0;
    return form == TEST_PERSISTENT_FORM ? 2 : 1;
}

static void test_calls(const struct topology *topology, enum coll coll, enum test_form form,
                       MPI_Datatype spaced)
{
    if (!test_begin("%s/%s/%s", topology->name, coll_names[coll], test_form_name(form)))
        return;
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t key = test_mix3(test.seed, (uint64_t)coll, (uint64_t)round);
        struct side send, recv;
        open_side(&send, coll, &topology->out, true, key, spaced);
        open_side(&recv, coll, &topology->in, false, key, spaced);
        test_ways_before();
        run(coll, form, &send, &recv, topology->comm);
        test_ways_after(natively(topology, coll, form), coll_names[coll]);
        check_side(&recv, "what was received");
        check_side(&send, "what was sent");
        close_side(&send);
        close_side(&recv);
    }
    test_end();
}

static bool is_defined(const struct topology *topology, enum coll coll, enum test_form form)
{
    return form == TEST_BLOCKING || gathers(coll) || !topology->grid || !topology->several;
}

static void test_topology(struct topology topology)
{
    MPI_Datatype spaced;

    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spaced);
    MPI_Type_commit(&spaced);
    for (int form = 0; form < TEST_FORMS; form++) {
        if (!test_form_exists((enum test_form)form))
            continue;
        for (int coll = 0; coll < COLLS; coll++)
            if (is_defined(&topology, (enum coll)coll, (enum test_form)form))
                test_calls(&topology, (enum coll)coll, (enum test_form)form, spaced);
    }
    MPI_Type_free(&spaced);
    free_topology(&topology);
}

int main(int argc, char **argv)
{
    const struct test_option own[] = {TEST_WAYS_NATIVE, {NULL, NULL, NULL, NULL}};

    test_start(&argc, &argv, MPI_THREAD_SINGLE, own);
    test_ways_start();
    const int half = test.size % 2 == 0 ? test.size / 2 : 1;
    test_topology(make_grid("ring", 1, &test.size, (int[]){1}));
    test_topology(make_grid("line", 1, &test.size, (int[]){0}));
    test_topology(make_grid("torus", 2, (int[]){test.size / half, half}, (int[]){1, 1}));
    test_topology(make_grid("thin", 3, (int[]){1, test.size, 1}, (int[]){1, 0, 0}));
    test_topology(make_graph(test.seed));
    test_topology(make_graph(test.seed + 1));
    test_ways_stop();
    return test_finish();
}
