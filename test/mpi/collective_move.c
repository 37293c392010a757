/* The collectives that move data: who sends which block where, and what must arrive. */
#include <stdlib.h>
#include <string.h>

#include "test/mpi/collective.h"
#include "test/mpi/support.h"

static const int common_counts[] = {0, 1, 1, 2, 5, 16, 33, 300};

/* Every rank's idea of the block from one rank to another. Without blocks for each peer, `to` does not
 * matter. */
static int block_count(const struct test_call *call, int from, int to)
{
    uint64_t state;

    if (call->row->variant == TEST_SIMPLE)
        return call->count;
    if (!call->row->sends_to_each)
        to = from;
    /* In place what a rank sends has the shape of what it receives. */
    if (call->in_place && call->row->sends_to_each && call->row->gets_from_each && from > to) {
        int lower = to;
        to = from;
        from = lower;
    }
    state = test_mix3(call->key, (uint64_t)from, (uint64_t)to + 7);
    if (call->fixed_count != 0)
        return call->fixed_count + test_draw(&state, 100);
    /* In place, Open MPI's libnbc loses its order where a block is empty, and where all are its count of the
     * calls. */
    if (call->in_place && call->row->sends_to_each && call->form != TEST_BLOCKING)
        return 1 + test_draw(&state, 40);
    return test_chance(&state, 35) ? 0 : 1 + test_draw(&state, test_chance(&state, 10) ? 300 : 9);
}

/* The bytes of the block from one rank to another, without gaps. */
static void make_data(const struct test_call *call, int round, int from, int to, unsigned char *data,
                      size_t bytes)
{
    uint64_t state = test_mix3(call->key, (uint64_t)round, (uint64_t)from);
    if (call->row->sends_to_each)
        state = test_mix2(state, (uint64_t)to);
    for (size_t i = 0; i < bytes; i += sizeof state) {
        uint64_t word = test_next(&state);
        memcpy(data + i, &word, bytes - i < sizeof word ? bytes - i : sizeof word);
    }
}

/* How many blocks a side has, and who is at their other ends. */
static void find_peers(const struct test_call *call, struct test_args *args, bool takes_part, bool each,
                       bool sending)
{
    const struct test_comm *comm = call->comm;
    int size = comm->remote_size > comm->size ? comm->remote_size : comm->size;

    args->peers = test_alloc((size_t)(2 * size + 4) * sizeof(int));
    args->n = 0;
    if (!takes_part)
        return;
    if (!each) {
        args->peers[args->n++] = call->row->root_sends ? call->root_world : test.rank;
        return;
    }
    if (!call->row->neighbors) {
        args->n = comm->remote_size;
        memcpy(args->peers, comm->remote, (size_t)args->n * sizeof(int));
        return;
    }
    (sending ? test_comm_targets : test_comm_sources)(comm, comm->rank, &args->n, args->peers);
    for (int i = 0; i < args->n; i++)
        if (args->peers[i] >= 0)
            args->peers[i] = comm->local[args->peers[i]];
}

/* Blocks of v variants stand in any order with holes between them; the others one behind the other. */
static void place_blocks(const struct test_call *call, struct test_args *args, uint64_t key)
{
    int variant = args->n == 1 && args->counts == NULL ? TEST_SIMPLE : call->row->variant;
    bool backwards = variant != TEST_SIMPLE && key % 2 != 0;
    ptrdiff_t cursor = 0; /* elements, or bytes for w */

    for (int step = 0; step < args->n; step++) {
        int i = backwards ? args->n - 1 - step : step;
        struct test_block *block = &args->blocks[i];
        ptrdiff_t hole = variant != TEST_SIMPLE ? (ptrdiff_t)(test_mix2(key, (uint64_t)i) % 4) : 0;
        if (variant == TEST_W) {
            cursor += 16 * hole;
            /* Open MPI's coll/self takes the places of a single rank for elements: 0 means the same both
             * ways. */
            block->at = args->n == 1 ? 0 : cursor - block->layout->low;
            cursor +=
                block->count == 0 ? 0 : test_layout_end(block->layout, block->count) - block->layout->low;
            args->places[i] = (int)block->at;
            args->byte_places[i] = block->at;
        } else {
            cursor += hole;
            block->at = cursor * block->layout->extent;
            if (args->places != NULL)
                args->places[i] = (int)cursor;
            cursor += block->count;
        }
    }
}

/* In place, the all-to-alls of Open MPI's libnbc correct what they keep aside by a wrong lower bound: types
 * without one. */
static const struct test_layout *choose_layout(const struct test_call *call, uint64_t key)
{
    const struct test_layout *layout = test_layout_pick(call->family, key);
    bool careful = call->in_place && call->row->sends_to_each && call->row->gets_from_each;

    while (careful && layout->low != 0)
        layout = test_layout_pick(call->family, ++key);
    return layout;
}

static void plan_side(struct test_call *call, struct test_args *args, bool sending, bool each, uint64_t key)
{
    const struct test_layout *layout = choose_layout(call, key);
    size_t n = (size_t)args->n;
    size_t spare = n + (size_t)(2 * call->comm->size + 4);

    args->blocks = test_alloc(n * sizeof *args->blocks);
    /* Where it does not matter what is passed, it is passed wrong. */
    args->count = call->row->neighbors || call->comm->inter ? call->count : -1;
    args->type = call->row->neighbors || call->comm->inter ? layout->type : MPI_DATATYPE_NULL;
    if (each && call->row->variant != TEST_SIMPLE) {
        args->counts = test_alloc(n * sizeof(int));
        args->places = test_alloc(n * sizeof(int));
        args->byte_places = test_alloc(n * sizeof(MPI_Aint));
        /* MPI_Ialltoallw of Open MPI 4.1 looks at types that do not matter: in place, and on a communicator
         * with a topology as many as a rank has neighbours. */
        args->types = test_alloc(spare * sizeof(MPI_Datatype));
        for (size_t i = 0; i < spare; i++)
            args->types[i] = layout->type;
    }
    for (int i = 0; i < args->n; i++) {
        struct test_block *block = &args->blocks[i];
        int from = sending ? test.rank : args->peers[i];
        int to = sending ? args->peers[i] : test.rank;
        if (call->row->variant == TEST_W)
            layout = choose_layout(call, test_mix2(key, (uint64_t)i));
        block->layout = layout;
        block->count =
            args->peers[i] < 0 && call->row->variant != TEST_SIMPLE ? 2 : block_count(call, from, to);
        args->count = block->count;
        args->type = layout->type;
        if (args->counts != NULL) {
            args->counts[i] = block->count;
            args->types[i] = layout->type;
        }
    }
    place_blocks(call, args, key);
    test_call_open_side(call, args, sending, key);
}

void test_move_plan(struct test_call *call)
{
    const struct test_collective *row = call->row;
    uint64_t mine = test_mix2(call->key, (uint64_t)test.rank + 100);
    bool sends = row->root_sends ? call->is_root : row->root_receives ? call->is_leaf : true;
    bool receives = row->root_receives ? call->is_root : row->root_sends ? call->is_leaf : true;

    if (call->in_place && row->root_receives && call->is_root)
        sends = false;
    if (call->in_place && row->root_sends && call->is_root)
        receives = false;
    if (call->in_place && !row->rooted)
        sends = false;
    if (row->coll == TEST_BCAST && call->is_root)
        receives = false;
    if (row->has_no_data)
        sends = receives = false;
    call->family = (enum test_family)(test_mix(call->key + 1) % TEST_FAMILIES);
    if (test_mix(call->key + 2) % 3 == 0)
        call->family = TEST_FOUR_INTS;
    if (call->plain)
        call->family = TEST_ONE_INT;
    if (call->varied && test_mix(call->key + 4) % 2 == 0) {
        const enum test_family predefined[] = {TEST_ONE_INT, TEST_ONE_BYTE, TEST_ONE_DOUBLE};
        call->family = predefined[test_mix(call->key + 6) % 3];
    }
    call->count = common_counts[test_mix(call->key + 3) % (sizeof common_counts / sizeof common_counts[0])];
    if (call->varied)
        call->count = test_varied_count(call->key);
    if (call->fixed_count != 0)
        call->count = call->fixed_count;
    find_peers(call, &call->send, sends, row->sends_to_each, true);
    find_peers(call, &call->recv, receives, row->gets_from_each, false);
    plan_side(call, &call->send, true, row->sends_to_each, mine);
    plan_side(call, &call->recv, false, row->gets_from_each, test_mix(mine));
    /* Origins may be far from their data, each near the other's. Of equal ones libnbc takes a call for one in place. */
    if (call->form != TEST_BLOCKING)
        test_sides_part(&call->send.side, &call->recv.side);
}

/* The side now expects in block `i` what `from` sends to `to`. */
static void expect_data(struct test_call *call, struct test_args *args, int i, int round, int from, int to)
{
    const struct test_block *block = &args->blocks[i];
    size_t bytes = (size_t)block->count * test_layout_packed(block->layout);
    unsigned char *data = test_alloc(bytes);

    make_data(call, round, from, to, data, bytes);
    test_side_expect(&args->side, block, data);
    free(data);
}

void test_move_fill(struct test_call *call, int round)
{
    struct test_args *send = &call->send;
    struct test_args *recv = &call->recv;

    test_side_clear(&send->side);
    for (int i = 0; i < send->n; i++)
        if (send->peers[i] >= 0)
            expect_data(call, send, i, round, test.rank, send->peers[i]);
    test_side_write(&send->side);

    test_side_clear(&recv->side);
    for (int i = 0; i < recv->n && call->in_place && !call->row->root_sends; i++)
        if (call->row->sends_to_each || recv->peers[i] == test.rank)
            expect_data(call, recv, i, round, test.rank, recv->peers[i]);
    test_side_write(&recv->side);
    for (int i = 0; i < recv->n; i++)
        if (recv->peers[i] >= 0)
            expect_data(call, recv, i, round, recv->peers[i], test.rank);
}

static void close_args(struct test_args *args)
{
    test_side_close(&args->side);
    free(args->blocks);
    free(args->peers);
    free(args->counts);
    free(args->places);
    free(args->byte_places);
    free(args->types);
}

void test_call_close(struct test_call *call)
{
    close_args(&call->send);
    close_args(&call->recv);
}
