/*
 * The collectives that reduce: predefined operators on values whose reduction is exact in any order, and
 * users' operators on derived types, some of which do not commute.
 */
#include <stdlib.h>
#include <string.h>

#include "test/mpi/collective.h"
#include "test/mpi/support.h"

enum { ELEMENT_MAX = 64 };
enum { USER_DRAWS = 5 }; /* of operators, how many are users' */
enum { PLAIN_UNIT = 64 }; /* elements: plain blocks have the same boundaries, whoever gets more */
/* What the ranks give repeats itself after so many elements, a prime number: so results of megabytes, which are computed in wide arithmetic,
 * cost no more than those of kilobytes, and no chunk of an algorithm can be taken for another. */
enum { PERIOD = 4099 };
enum { LARGEST = 4 << 20 }; /* bytes of a buffer with gaps, of an intracommunicator */

static const int common_counts[] = {0, 1, 2, 3, 17, 64, 260};

struct pair {
    MPI_Datatype type;
    enum test_op op;
};

static void set_operator(struct test_call *call, const struct test_type *type, enum test_op op)
{
    call->reduction.type = type;
    call->reduction.op = op;
    call->reduction.plain = test_layout_plain(type->name, type->handle, type->repr.size);
    call->reduction.layout = &call->reduction.plain;
    call->op = test_op_handle(op);
}

static void draw_operator(struct test_call *call, uint64_t *state)
{
    const struct test_type *type;
    enum test_op op;

    do {
        type = &test_types[test_draw(state, test_type_count)];
    } while (!test_type_exists(type));
    do {
        op = (enum test_op)test_draw(state, TEST_OPS);
    } while (!test_type_allows(type, op));
    set_operator(call, type, op);
    /* Of a complex product the sign of a zero depends on the order, whatever the factors are. */
    call->reduction.rounds =
        (test_repr_is_float(&type->repr) && (op == TEST_SUM || op == TEST_PROD) && test_chance(state, 50)) ||
        (type->repr.shape == TEST_COMPLEX && op == TEST_PROD);
}

/* Any predefined operator on any type that has it; sums and products of floating-point numbers that round, too, but where there are so many
 * that bounds for each would take long. */
static void choose_any_operator(struct test_call *call)
{
    uint64_t state = test_mix(call->key + 5);

    do
        draw_operator(call, &state);
    while (call->reduction.rounds && call->count > PERIOD);
}

static void choose_user_operator(struct test_call *call, int drawn)
{
    static const enum test_user_op ops[USER_DRAWS] = {TEST_USER_SUM, TEST_USER_SUM, TEST_USER_COMPOSE,
                                                      TEST_USER_COMPOSE, TEST_USER_CLAIM};
    const bool alone = test.loaded == 0;
    enum test_user_op op = ops[drawn];

    /* Said to commute, it is in the order of ranks all the same where the type's lower bound is not 0, but not by Open MPI itself. */
    if (alone && op == TEST_USER_CLAIM)
        op = TEST_USER_COMPOSE;
    call->reduction.user_op = op;
    call->reduction.layout = test_layout_pick(TEST_FOUR_INTS, call->key);
    /* Without gpucoll, Open MPI's algorithms for operators that commute (ring, reduce-scatter and gather of libnbc) forget
     * the lower bound of a type in their own buffers. */
    for (uint64_t key = call->key; op == TEST_USER_CLAIM && call->reduction.layout->low == 0;)
        call->reduction.layout = test_layout_pick(TEST_FOUR_INTS, ++key);
    bool forgetful = alone && op == TEST_USER_SUM && (call->count > 17 || call->form != TEST_BLOCKING);
    for (uint64_t key = call->key; forgetful && call->reduction.layout->low != 0;)
        call->reduction.layout = test_layout_pick(TEST_FOUR_INTS, ++key);
    call->op = test_user_handle(op);
}

static void choose_operator(struct test_call *call)
{
    const struct pair pairs[] = {{MPI_FLOAT, TEST_SUM},
                                 {MPI_DOUBLE, TEST_SUM},
                                 {MPI_INT, TEST_MAX},
                                 {MPI_UINT64_T, TEST_BXOR},
                                 {MPI_SHORT, TEST_SUM},
                                 {MPI_DOUBLE_INT, TEST_MINLOC},
                                 {MPI_C_DOUBLE_COMPLEX, TEST_SUM},
                                 {MPI_C_BOOL, TEST_LAND}};
    int known = sizeof pairs / sizeof pairs[0];
    int drawn = (int)(test_mix(call->key + 5) % (unsigned)(known + USER_DRAWS));

    if (call->plain)
        drawn = 0;
    if (drawn >= known) {
        choose_user_operator(call, drawn - known);
        return;
    }
    if (call->varied) {
        choose_any_operator(call);
        return;
    }
    const struct test_type *type = test_types;
    while (type->handle != pairs[drawn].type)
        type++;
    set_operator(call, type, pairs[drawn].op);
}

/* How the elements of the reduce_scatters fall to the ranks; both groups of an intercommunicator have the
 * same total. */
static void share_elements(struct test_call *call)
{
    const struct test_comm *comm = call->comm;
    int unit = call->count * (comm->inter ? comm->remote_size : 1);
    int *counts = test_alloc((size_t)comm->size * sizeof(int));

    call->recv.counts = counts;
    call->reduction.total = 0;
    for (int rank = 0; rank < comm->size; rank++)
        counts[rank] = unit;
    /* Uneven, with some that get nothing: neighbours give each other what they have. */
    for (int rank = 0; rank + 1 < comm->size && call->row->coll == TEST_REDUCE_SCATTER; rank += 2) {
        int given = unit == 0 ? 0 : (int)(test_mix2(call->key, (uint64_t)rank) % (unsigned)(unit + 1));
        given -= call->plain ? given % PLAIN_UNIT : 0;
        counts[rank] += given;
        counts[rank + 1] -= given;
    }
    for (int rank = 0; rank < comm->size; rank++) {
        if (rank == comm->rank)
            call->reduction.first = call->reduction.total;
        call->reduction.total += counts[rank];
    }
    call->reduction.mine = counts[comm->rank];
}

static bool scatters(const struct test_call *call)
{
    return call->row->coll == TEST_REDUCE_SCATTER || call->row->coll == TEST_REDUCE_SCATTER_BLOCK;
}

/* A side of one block of `count` elements; of none if this rank has no such side. */
static void plan_side(struct test_call *call, struct test_args *args, bool used, int count, bool sending)
{
    uint64_t mine = test_mix3(call->key, (uint64_t)test.rank, sending ? 0 : 1);

    /* Open MPI takes two NULL buffers of an empty reduction for two that overlap: odd keys give none. */
    if (sending)
        mine |= 1;

    args->blocks = test_alloc(sizeof *args->blocks);
    args->blocks[0] = (struct test_block){.layout = call->reduction.layout, .count = count};
    args->n = used ? 1 : 0;
    args->type = call->reduction.layout->type;
    test_call_open_side(call, args, sending, mine);
}

void test_reduce_plan(struct test_call *call)
{
    bool rooted = call->row->rooted;
    bool has_input = !rooted || call->is_leaf;
    bool has_result = !rooted || call->is_root;
    bool in_place = call->in_place && (!rooted || call->is_root);

    call->count = common_counts[test_mix(call->key + 3) % (sizeof common_counts / sizeof common_counts[0])];
    if (call->varied)
        call->count = test_varied_count(call->key);
    if (call->fixed_count != 0)
        call->count = call->fixed_count;
    /* Open MPI answers an empty persistent reduction with a request that does nothing; while one is under
     * way, others of its own libnbc hang. */
    if (call->count == 0 && call->form == TEST_PERSISTENT_FORM && !call->alone)
        call->count = 2;
    choose_operator(call);
    if (call->count > LARGEST / call->reduction.layout->extent)
        call->count = (int)(LARGEST / call->reduction.layout->extent);
    call->reduction.total = call->count;
    call->reduction.mine = call->count;
    if (scatters(call))
        share_elements(call);
    plan_side(call, &call->send, has_input && !in_place, call->reduction.total, true);
    plan_side(call, &call->recv, has_result, in_place ? call->reduction.total : call->reduction.mine, false);
    call->send.count = call->reduction.total;
    call->recv.count = call->reduction.mine;
}

/* Tells the values of different groups and rounds apart. */
static uint64_t seed_of(const struct test_call *call, int round, int side)
{
    return test_mix3(call->key, (uint64_t)round, (uint64_t)(call->comm->inter ? side : call->comm->colour));
}

/* How many contributions there are on `side`. Those of a local call are its two buffers. */
static int operands_of(const struct test_call *call, int side)
{
    const struct test_comm *comm = call->comm;

    if (call->row->is_local)
        return 2;
    return side == comm->side ? comm->size : comm->remote_size;
}

static struct test_draw draw_of(const struct test_call *call, int round, int side)
{
    return (struct test_draw){.op = call->reduction.op,
                              .repr = &call->reduction.type->repr,
                              .seed = seed_of(call, round, side),
                              .ranks = operands_of(call, side),
                              .exact = !call->reduction.rounds};
}

/* What the rank `rank` of the group on `side` gives as its element `index`. */
static void make_element(const struct test_call *call, int round, int side, int rank, int index,
                         unsigned char *element)
{
    uint64_t state;
    uint32_t words[4];

    index %= PERIOD;
    state = test_mix3(seed_of(call, round, side), (uint64_t)rank, (uint64_t)index);
    if (call->reduction.type != NULL) {
        struct test_draw draw = draw_of(call, round, side);
        test_value_make(&draw, rank, (uint64_t)index, element);
        return;
    }
    for (int i = 0; i < 4; i++)
        words[i] = (uint32_t)test_next(&state) | (i % 2 == 0 ? 1 : 0);
    memcpy(element, words, sizeof words);
}

static void reduce_element(const struct test_call *call, unsigned char *left, const unsigned char *right)
{
    uint32_t a[4], b[4];

    if (call->reduction.type != NULL) {
        test_value_reduce(call->reduction.op, &call->reduction.type->repr, left, right);
        return;
    }
    memcpy(a, left, sizeof a);
    memcpy(b, right, sizeof b);
    test_user_reduce(call->reduction.user_op, a, b);
    memcpy(left, a, sizeof a);
}

/* The contributions of ranks 0 to `ranks` - 1 of the group on `side`, reduced in order. */
static void make_result(const struct test_call *call, int round, int side, int ranks, int first, int count,
                        unsigned char *packed)
{
    size_t size = test_layout_packed(call->reduction.layout);
    unsigned char element[ELEMENT_MAX];

    for (int i = 0; i < count; i++) {
        unsigned char *result = packed + (size_t)i * size;
        if (i >= PERIOD) {
            memcpy(result, result - PERIOD * size, size);
            continue;
        }
        make_element(call, round, side, 0, first + i, result);
        for (int rank = 1; rank < ranks; rank++) {
            make_element(call, round, side, rank, first + i, element);
            reduce_element(call, result, element);
        }
    }
}

/* What `rank` of this group contributes. */
static void fill_input(struct test_call *call, struct test_args *args, int round, int rank)
{
    size_t size = test_layout_packed(call->reduction.layout);
    unsigned char *packed = test_alloc((size_t)call->reduction.total * size);

    for (int i = 0; i < call->reduction.total && i < PERIOD; i++)
        make_element(call, round, call->comm->side, rank, i, packed + (size_t)i * size);
    for (int i = PERIOD; i < call->reduction.total; i++)
        memcpy(packed + (size_t)i * size, packed + (size_t)(i - PERIOD) * size, size);
    test_side_expect(&args->side, &args->blocks[0], packed);
    free(packed);
}

/* How many ranks' contributions are in this rank's result. */
static int contributors(const struct test_call *call)
{
    if (call->row->coll == TEST_SCAN)
        return call->comm->rank + 1;
    return call->row->coll == TEST_EXSCAN ? call->comm->rank : operands_of(call, 1 - call->comm->side);
}

/* The group whose contributions these are. */
static int contributing_side(const struct test_call *call)
{
    return call->comm->inter ? 1 - call->comm->side : call->comm->side;
}

static void expect_result(struct test_call *call, int round)
{
    size_t size = test_layout_packed(call->reduction.layout);
    int side = contributing_side(call);
    int ranks = contributors(call);
    struct test_block block = {.layout = call->reduction.layout, .count = call->reduction.mine};
    struct test_block rest = {.layout = call->reduction.layout,
                              .count = call->recv.blocks[0].count - block.count,
                              .at = block.count * block.layout->extent};
    unsigned char flags[ELEMENT_MAX];
    unsigned char *packed = test_alloc((size_t)block.count * size);

    if (ranks == 0 || call->reduction.rounds) { /* MPI_Exscan leaves rank 0 with anything */
        test_side_ignore(&call->recv.side, &block, NULL);
    } else {
        make_result(call, round, side, ranks, call->reduction.first, block.count, packed);
        test_side_expect(&call->recv.side, &block, packed);
    }
    if (call->reduction.type != NULL) {
        test_repr_mask(&call->reduction.type->repr, flags);
        for (size_t i = 0; i < size; i++)
            flags[i] = flags[i] == 0;
        test_side_ignore(&call->recv.side, &block, ranks == 0 || call->reduction.rounds ? NULL : flags);
    }
    /* In place the input may be longer than the result; what becomes of it is not said. */
    test_side_ignore(&call->recv.side, &rest, NULL);
    free(packed);
}

void test_reduce_fill(struct test_call *call, int round)
{
    bool local = call->row->is_local;
    bool has_input = local || (call->send.n == 0 && call->in_place);

    test_side_clear(&call->send.side);
    if (call->send.n > 0)
        fill_input(call, &call->send, round, local ? 0 : call->comm->rank);
    test_side_write(&call->send.side);
    test_side_clear(&call->recv.side);
    if (has_input && call->recv.n > 0)
        fill_input(call, &call->recv, round, local ? 1 : call->comm->rank);
    test_side_write(&call->recv.side);
    if (call->recv.n > 0)
        expect_result(call, round);
}

bool test_reduce_near(const struct test_call *call, int round)
{
    int side = contributing_side(call);
    int ranks = contributors(call);
    bool right = true;
    size_t size;
    unsigned char *inputs, *got;
    struct test_draw draw;

    if (!call->row->reduces || !call->reduction.rounds || call->recv.n == 0 || ranks == 0)
        return true;
    size = test_layout_packed(call->reduction.layout);
    draw = draw_of(call, round, side);
    draw.ranks = ranks;
    inputs = test_alloc((size_t)ranks * size);
    got = test_alloc((size_t)call->reduction.mine * size);
    test_buffer_read(&call->recv.side.buffer, 0, got, (size_t)call->reduction.mine * size);
    for (int i = 0; i < call->reduction.mine && right; i++) {
        for (int rank = 0; rank < ranks; rank++)
            make_element(call, round, side, rank, call->reduction.first + i, inputs + (size_t)rank * size);
        right = test_value_right(&draw, inputs, got + (size_t)i * size);
        if (!right)
            test_fail("%s: element %d of the result is off by more than rounding", call->text, i);
    }
    free(inputs);
    free(got);
    return right;
}
