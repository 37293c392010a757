/*
 * Buffers that are not where their pointers say: of datatypes on a communicator of one rank, of types that begin elsewhere, so that
 * one address serves for both buffers, and of absolute addresses.
 */
#include "test/mpi/corners.h"

#include <string.h>

/* ---- one rank ---- */

enum alone { ALLGATHER, ALLTOALL, ALLTOALLW, GATHER, SCATTER, IALLTOALL, IALLTOALLW, ALONE };
static const char *const alone_names[ALONE] = {"allgather", "alltoall",  "alltoallw", "gather",
                                               "scatter",   "ialltoall", "ialltoallw"};

/* Displacements of bytes, where the collective has some, are those of the blocks. */
static void call_alone(enum alone which, const struct test_side *send, const struct test_block *sent,
                       const struct test_side *recv, const struct test_block *received)
{
    const MPI_Datatype st = sent->layout->type, rt = received->layout->type;
    const int n = sent->count, m = received->count, sat = (int)sent->at, rat = (int)received->at;
    void *from = send->origin, *to = recv->origin;
    MPI_Request request = MPI_REQUEST_NULL;
    int rc = MPI_SUCCESS;

    switch (which) {
    case ALLGATHER:
        rc = MPI_Allgather(from, n, st, to, m, rt, MPI_COMM_SELF);
        break;
    case ALLTOALL:
        rc = MPI_Alltoall(from, n, st, to, m, rt, MPI_COMM_SELF);
        break;
    case ALLTOALLW:
        rc = MPI_Alltoallw(from, &n, &sat, &st, to, &m, &rat, &rt, MPI_COMM_SELF);
        break;
    case GATHER:
        rc = MPI_Gather(from, n, st, to, m, rt, 0, MPI_COMM_SELF);
        break;
    case SCATTER:
        rc = MPI_Scatter(from, n, st, to, m, rt, 0, MPI_COMM_SELF);
        break;
    case IALLTOALL:
        rc = MPI_Ialltoall(from, n, st, to, m, rt, MPI_COMM_SELF, &request);
        break;
    default:
        rc = MPI_Ialltoallw(from, &n, &sat, &st, to, &m, &rat, &rt, MPI_COMM_SELF, &request);
        break;
    }
    test_ok(rc, alone_names[which]);
    test_ok(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
}

static void move_alone(enum alone which, int turn)
{
    const uint64_t key = (uint64_t)(turn + 100 * (int)which);
    const bool places = which == ALLTOALLW || which == IALLTOALLW;
    const int count = turn % 5 == 4 ? 3000 : 1 + turn % 4;
    const struct test_block sent = {test_layout_pick(TEST_FOUR_INTS, 2 * key), count, places ? 64 : 0};
    const struct test_block received = {test_layout_pick(TEST_FOUR_INTS, 7 * key + 3), count,
                                        places ? 16 : 0};
    struct test_side send, recv;

    test_side_open(&send, &sent, 1, corners_kind(key), 2 * key + 1);
    test_side_open(&recv, &received, 1, corners_kind(key + 7), 2 * key + 1);
    corners_expect(&send, &sent, key, 0, 0);
    test_side_write(&send);
    test_side_write(&recv);
    corners_expect(&recv, &received, key, 0, 0);
    call_alone(which, &send, &sent, &recv, &received);
    test_side_check(&send, "send", alone_names[which]);
    test_side_check(&recv, "receive", alone_names[which]);
    test_side_close(&send);
    test_side_close(&recv);
}

static void test_alone(void)
{
    enum { TURNS = 25 };

    for (int which = 0; which < ALONE; which++) {
        if (!test_begin("one_rank/%s", alone_names[which]))
            continue;
        corners_count_calls();
        for (int turn = 0; turn < TURNS; turn++)
            move_alone((enum alone)which, turn);
        corners_check_calls(TURNS);
        test_end();
    }
}

/* ---- one address for both buffers ---- */

/* What is sent and what is received lie apart in one buffer, of which MPI has the same address twice: the types tell them apart. */
struct both {
    struct test_side side;
    struct test_block sent[MOST_RANKS];
    struct test_block received[MOST_RANKS];
};

static const struct test_layout *layout_named(const char *name)
{
    uint64_t key = 0;

    while (strcmp(test_layout_pick(TEST_FOUR_INTS, key)->name, name) != 0)
        key++;
    return test_layout_pick(TEST_FOUR_INTS, key);
}

/* Blocks of `count` elements for each of `peers`, and from each. */
static void open_both(struct both *both, int peers, int count, uint64_t key)
{
    const struct test_layout *near = layout_named("gaps"), *far = layout_named("far from its origin");
    struct test_block blocks[2 * MOST_RANKS];

    for (int i = 0; i < peers; i++) {
        both->sent[i] = (struct test_block){near, count, i * count * near->extent};
        both->received[i] = (struct test_block){far, count, i * count * far->extent};
    }
    memcpy(blocks, both->sent, (size_t)peers * sizeof *blocks);
    memcpy(blocks + peers, both->received, (size_t)peers * sizeof *blocks);
    test_side_open(&both->side, blocks, 2 * peers, corners_kind(key), 2 * key + 1);
}

static void same_address_alone(enum alone which, int count)
{
    struct both both;

    open_both(&both, 1, count, (uint64_t)count);
    corners_expect(&both.side, &both.sent[0], (uint64_t)which, 0, 0);
    test_side_write(&both.side);
    corners_expect(&both.side, &both.received[0], (uint64_t)which, 0, 0);
    call_alone(which, &both.side, both.sent, &both.side, both.received);
    test_side_check(&both.side, "the", alone_names[which]);
    test_side_close(&both.side);
}

static void exchange_from_same_address(int count, bool blocking)
{
    struct both both;
    MPI_Request request = MPI_REQUEST_NULL;
    void *buffer;

    open_both(&both, test.size, count, (uint64_t)count);
    buffer = both.side.origin;
    for (int i = 0; i < test.size; i++)
        corners_expect(&both.side, &both.sent[i], 2, test.rank, i);
    test_side_write(&both.side);
    for (int i = 0; i < test.size; i++)
        corners_expect(&both.side, &both.received[i], 2, i, test.rank);
    if (blocking)
        test_ok(MPI_Alltoall(buffer, count, both.sent[0].layout->type, buffer, count,
                             both.received[0].layout->type, MPI_COMM_WORLD),
                "MPI_Alltoall");
    else
        test_ok(MPI_Ialltoall(buffer, count, both.sent[0].layout->type, buffer, count,
                              both.received[0].layout->type, MPI_COMM_WORLD, &request),
                "MPI_Ialltoall");
    test_ok(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    test_side_check(&both.side, "the", "alltoall");
    test_side_close(&both.side);
}

/* Of two equal host pointers libnbc takes a nonblocking call for one in place, gpucoll or not. */
static bool is_right_without(bool blocking)
{
    return blocking || test_memory_all_on_device();
}

static void test_same_address(void)
{
    static const int counts[] = {1, 100, 3000};

    for (int which = 0; which < ALONE; which++) {
        const bool blocking = which != IALLTOALL && which != IALLTOALLW;
        if (!is_right_without(blocking) || !test_begin("same_address/one_rank/%s", alone_names[which]))
            continue;
        corners_count_calls();
        for (int i = 0; i < 3; i++)
            same_address_alone((enum alone)which, counts[i]);
        corners_check_calls(3);
        test_end();
    }
    for (int blocking = 0; blocking < 2; blocking++) {
        if (!is_right_without(blocking) || !test_begin("same_address/%salltoall", blocking ? "" : "i"))
            continue;
        corners_count_calls();
        for (int i = 0; i < 3; i++)
            exchange_from_same_address(counts[i], blocking);
        corners_check_calls(3);
        test_end();
    }
}

/* ---- absolute addresses ---- */

/* The block as a type of its own that says where it is. */
static MPI_Datatype absolute(const struct test_side *side, const struct test_block *block)
{
    MPI_Datatype type;
    MPI_Aint address;

    MPI_Get_address((char *)side->origin + block->at, &address);
    MPI_Type_create_hindexed(1, &block->count, &address, block->layout->type, &type);
    MPI_Type_commit(&type);
    return type;
}

/* A side of `n` equal blocks one behind the other. */
static void open_blocks(struct test_side *side, struct test_block *blocks, int n, uint64_t key)
{
    const struct test_layout *layout = test_layout_pick(TEST_FOUR_INTS, key);

    for (int i = 0; i < n; i++)
        blocks[i] = (struct test_block){layout, 5, i * 5 * layout->extent};
    test_side_open(side, blocks, n, corners_kind(key), 2 * key + 1);
}

static void test_bottom_alltoallw(void)
{
    struct test_block sent[MOST_RANKS], received[MOST_RANKS];
    MPI_Datatype stypes[MOST_RANKS], rtypes[MOST_RANKS];
    int ones[MOST_RANKS], zeros[MOST_RANKS];
    struct test_side send, recv;

    if (!test_begin("absolute_addresses/alltoallw"))
        return;
    open_blocks(&send, sent, test.size, (uint64_t)test.rank);
    open_blocks(&recv, received, test.size, (uint64_t)test.rank + 30);
    for (int i = 0; i < test.size; i++)
        corners_expect(&send, &sent[i], 1, test.rank, i);
    test_side_write(&send);
    test_side_write(&recv);
    for (int i = 0; i < test.size; i++) {
        corners_expect(&recv, &received[i], 1, i, test.rank);
        ones[i] = 1;
        zeros[i] = 0;
        stypes[i] = absolute(&send, &sent[i]);
        rtypes[i] = absolute(&recv, &received[i]);
    }
    test_ok(MPI_Alltoallw(MPI_BOTTOM, ones, zeros, stypes, MPI_BOTTOM, ones, zeros, rtypes, MPI_COMM_WORLD),
            "MPI_Alltoallw");
    test_side_check(&send, "send", "alltoallw");
    test_side_check(&recv, "receive", "alltoallw");
    for (int i = 0; i < test.size; i++) {
        MPI_Type_free(&stypes[i]);
        MPI_Type_free(&rtypes[i]);
    }
    test_side_close(&send);
    test_side_close(&recv);
    test_end();
}

/* All to the root, by MPI_Gather, or from it, by MPI_Iscatter. The root's own buffer on the other side is no absolute address: libnbc takes
 * two that are for one in place. */
static void move_bottom(int root, bool gathers)
{
    const bool is_root = test.rank == root;
    struct test_block many[MOST_RANKS], one;
    struct test_side all, mine;
    MPI_Datatype all_type, mine_type;
    MPI_Request request;

    open_blocks(&all, many, test.size, (uint64_t)root);
    open_blocks(&mine, &one, 1, (uint64_t)(root + test.rank + 5));
    for (int i = 0; i < test.size && is_root && !gathers; i++)
        corners_expect(&all, &many[i], 2, root, i);
    if (gathers)
        corners_expect(&mine, &one, 2, test.rank, root);
    test_side_write(&all);
    test_side_write(&mine);
    for (int i = 0; i < test.size && is_root && gathers; i++)
        corners_expect(&all, &many[i], 2, i, root);
    if (!gathers)
        corners_expect(&mine, &one, 2, root, test.rank);
    all_type = absolute(&all, &many[0]);
    mine_type = is_root ? one.layout->type : absolute(&mine, &one);
    void *place = is_root ? mine.origin : MPI_BOTTOM;
    const int count = is_root ? one.count : 1;
    if (gathers) {
        test_ok(MPI_Gather(place, count, mine_type, MPI_BOTTOM, 1, all_type, root, MPI_COMM_WORLD),
                "MPI_Gather");
    } else {
        test_ok(MPI_Iscatter(is_root ? MPI_BOTTOM : all.origin, 1, all_type, place, count, mine_type, root,
                             MPI_COMM_WORLD, &request),
                "MPI_Iscatter");
        test_ok(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    }
    test_side_check(&all, "the root's side", gathers ? "gather" : "iscatter");
    test_side_check(&mine, "this rank's side", gathers ? "gather" : "iscatter");
    MPI_Type_free(&all_type);
    if (!is_root)
        MPI_Type_free(&mine_type);
    test_side_close(&all);
    test_side_close(&mine);
}

static void test_bottom(void)
{
    test_bottom_alltoallw();
    for (int gathers = 0; gathers < 2; gathers++) {
        if (!test_begin("absolute_addresses/%s", gathers ? "gather" : "iscatter"))
            continue;
        for (int root = 0; root < test.size; root++)
            move_bottom(root, gathers != 0);
        test_end();
    }
}

void corners_addresses(void)
{
    test_alone();
    test_same_address();
    test_bottom();
}
