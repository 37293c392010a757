/*
 * What MPI allows and few programs do: results that overwrite what others still need, datatypes on a communicator of one
 * rank, absolute addresses, displacements that count bytes, cancelling. With `--native` all buffers are device memory and the
 * counters must say that calls ran natively.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/collective.h"
#include "test/mpi/comms.h"
#include "test/mpi/counters.h"
#include "test/mpi/side.h"
#include "test/mpi/support.h"

enum { MOST_RANKS = 16 };

static bool native; /* what `--native` has set */

static enum test_memory kind_of(uint64_t key)
{
    return native ? TEST_DEVICE : test_memory_kind(test_mix3(test.seed, key, (uint64_t)test.rank));
}

/* ---- which way a case's calls went ---- */

static MPI_T_pvar_handle natives, staged;

static void count_calls(void)
{
    if (native) {
        natives = test_counter_open("coll_gpucoll_native_calls");
        staged = test_counter_open("coll_gpucoll_staged_calls");
    }
}

/* Were there `calls` since, all of them native? */
static void check_calls(unsigned long long calls)
{
    unsigned long long ran, copied;

    if (!native)
        return;
    ran = test_counter_close(natives);
    copied = test_counter_close(staged);
    if (ran != calls || copied != 0)
        test_fail("of %llu calls %llu ran natively and %llu were staged", calls, ran, copied);
}

/* ---- packed elements that say who made them ---- */

static unsigned char *make_data(uint64_t key, int from, int to, const struct test_block *block)
{
    size_t bytes = (size_t)block->count * test_layout_packed(block->layout);
    unsigned char *data = test_alloc(bytes + 1);
    uint64_t state = test_mix3(test.seed + key, (uint64_t)from, (uint64_t)to);

    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)test_next(&state);
    return data;
}

/* The side is to hold, or holds, in this block what `from` has made for `to`. */
static void expect(struct test_side *side, const struct test_block *block, uint64_t key, int from, int to)
{
    unsigned char *data = make_data(key, from, to, block);

    test_side_expect(side, block, data);
    free(data);
}

/* ---- MPI_Reduce_scatter in place, of counts that differ ---- */

static int element(int rank, int i)
{
    return 1000 * rank + i;
}

static void scatter_in_place(int unit, bool blocking)
{
    int counts[MOST_RANKS], first = 0, total = 0;
    struct test_buffer buffer;
    MPI_Request request;

    for (int i = 0; i < test.size; i++) {
        counts[i] = i % 4 == 1 ? 0 : unit * (1 + i % 3);
        first += i < test.rank ? counts[i] : 0;
        total += counts[i];
    }
    int *values = test_alloc((size_t)total * sizeof *values);
    for (int i = 0; i < total; i++)
        values[i] = element(test.rank, i);
    test_buffer_make(&buffer, kind_of((uint64_t)unit), (size_t)total * sizeof *values, 4, false);
    test_buffer_write(&buffer, 0, values, buffer.bytes);
    if (blocking) {
        test_ok(MPI_Reduce_scatter(MPI_IN_PLACE, buffer.data, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD),
                "MPI_Reduce_scatter");
    } else {
        test_ok(MPI_Ireduce_scatter(MPI_IN_PLACE, buffer.data, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                                    &request),
                "MPI_Ireduce_scatter");
        test_ok(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    }
    test_buffer_read(&buffer, 0, values, buffer.bytes);
    for (int i = 0; i < counts[test.rank]; i++) {
        int sum = 0;
        for (int rank = 0; rank < test.size; rank++)
            sum += element(rank, first + i);
        if (values[i] != sum) {
            test_fail("element %d of %d is %d, not %d", i, counts[test.rank], values[i], sum);
            break;
        }
    }
    test_buffer_check(&buffer, "reduce_scatter in place");
    test_buffer_free(&buffer);
    free(values);
}

static void test_scatter_in_place(void)
{
    static const int units[] = {1, 3, 700, 40000};

    for (int blocking = 0; blocking < 2; blocking++) {
        if (!test_begin("in_place/%sreduce_scatter_of_unequal_counts", blocking ? "" : "i"))
            continue;
        count_calls();
        for (int i = 0; i < 4; i++)
            scatter_in_place(units[i], blocking != 0);
        check_calls(4);
        test_end();
    }
}

/* ---- all-to-all in place, of a type with a lower bound ---- */

/* Where libnbc has a hand in it, it takes a wrong place for such a type: natively only. */
static void exchange_in_place(int unit, bool bytes)
{
    const struct test_layout *layout = test_layout_pick(TEST_FOUR_INTS, 0);
    struct test_block blocks[MOST_RANKS];
    int counts[MOST_RANKS], places[MOST_RANKS];
    MPI_Datatype types[MOST_RANKS];
    struct test_side side;
    int at = 0;

    for (uint64_t key = 1; layout->low >= 0; key++)
        layout = test_layout_pick(TEST_FOUR_INTS, key);
    for (int i = 0; i < test.size; i++) {
        counts[i] = unit * (1 + (i + test.rank) % 3);
        blocks[i] = (struct test_block){layout, counts[i], at * layout->extent};
        places[i] = bytes ? (int)blocks[i].at : at;
        types[i] = layout->type;
        at += counts[i] + i % 2;
    }
    test_side_open(&side, blocks, test.size, TEST_DEVICE, (uint64_t)unit);
    for (int i = 0; i < test.size; i++)
        expect(&side, &blocks[i], 0, test.rank, i);
    test_side_write(&side);
    for (int i = 0; i < test.size; i++)
        expect(&side, &blocks[i], 0, i, test.rank);
    if (bytes)
        test_ok(
            MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, side.origin, counts, places, types, MPI_COMM_WORLD),
            "MPI_Alltoallw");
    else
        test_ok(MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, side.origin, counts, places,
                              layout->type, MPI_COMM_WORLD),
                "MPI_Alltoallv");
    test_side_check(&side, "the buffer", "in place");
    test_side_close(&side);
}

static void test_exchange_in_place(void)
{
    if (!test_begin("in_place/alltoallv_and_w_of_a_lower_bound"))
        return;
    count_calls();
    for (int unit = 1; unit < 2000; unit *= 10) {
        exchange_in_place(unit, false);
        exchange_in_place(unit, true);
    }
    check_calls(8);
    test_end();
}

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

    test_side_open(&send, &sent, 1, kind_of(key), 2 * key + 1);
    test_side_open(&recv, &received, 1, kind_of(key + 7), 2 * key + 1);
    expect(&send, &sent, key, 0, 0);
    test_side_write(&send);
    test_side_write(&recv);
    expect(&recv, &received, key, 0, 0);
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
        count_calls();
        for (int turn = 0; turn < TURNS; turn++)
            move_alone((enum alone)which, turn);
        check_calls(TURNS);
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
    test_side_open(side, blocks, n, kind_of(key), 2 * key + 1);
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
        expect(&send, &sent[i], 1, test.rank, i);
    test_side_write(&send);
    test_side_write(&recv);
    for (int i = 0; i < test.size; i++) {
        expect(&recv, &received[i], 1, i, test.rank);
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
        expect(&all, &many[i], 2, root, i);
    if (gathers)
        expect(&mine, &one, 2, test.rank, root);
    test_side_write(&all);
    test_side_write(&mine);
    for (int i = 0; i < test.size && is_root && gathers; i++)
        expect(&all, &many[i], 2, i, root);
    if (!gathers)
        expect(&mine, &one, 2, root, test.rank);
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

/* ---- cancelling ---- */

/* MPI: a collective cannot be cancelled; the attempt is an error, and the call goes on. Rank 1's cannot end before it has tried, since rank 0 does
 * not come before that. */
static void cancel(const struct test_collective *row, enum test_form form, const struct test_comm *world)
{
    struct test_call call = {.row = row,
                             .form = form,
                             .comm = world,
                             .request = MPI_REQUEST_NULL,
                             .key = test_mix2(test.seed, (uint64_t)row->coll),
                             .alone = true,
                             .plain = true,
                             .fixed_count = 20,
                             .kinds = {TEST_DEVICE, TEST_DEVICE}};
    const bool persistent = form == TEST_PERSISTENT_FORM;

    test_choose_root(&call, 0);
    (row->reduces ? test_reduce_plan : test_move_plan)(&call);
    (row->reduces ? test_reduce_fill : test_move_fill)(&call, 0);
    if (persistent)
        test_ok(test_issue(&call), "the initialisation");
    if (test.rank == 0)
        MPI_Recv(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    test_ok(persistent ? MPI_Start(&call.request) : test_issue(&call), row->name);
    if (test.rank == 1) {
        if (MPI_Cancel(&call.request) == MPI_SUCCESS)
            test_fail("MPI_Cancel of %s succeeded", row->name);
        MPI_Send(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
    test_ok(MPI_Wait(&call.request, MPI_STATUS_IGNORE), "MPI_Wait");
    test_side_check(&call.recv.side, "receive", row->name);
    test_side_check(&call.send.side, "send", row->name);
    if (persistent)
        test_ok(MPI_Request_free(&call.request), "MPI_Request_free");
    test_call_close(&call);
}

static void test_cancel(const struct test_comm *world)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int i = 0; i < test_collective_count; i++) {
        const struct test_collective *row = &test_collectives[i];
        for (int form = TEST_BLOCKING + 1; form < TEST_FORMS; form++) {
            if (row->neighbors || row->is_local || !test_form_exists((enum test_form)form) ||
                !test_begin("cancel/%s_%s", test_form_name((enum test_form)form), row->name))
                continue;
            cancel(row, (enum test_form)form, world);
            test_end();
        }
    }
}

int main(int argc, char **argv)
{
    const struct test_option own[] = {
        {.name = "native", .flag = &native, .help = "device memory only, and what can run natively must"},
        {.name = NULL}};

    struct test_comm comms[TEST_COMMS_MAX];
    int comm_count;

    test_start(&argc, &argv, MPI_THREAD_SINGLE, own);
    comm_count = test_comms_make(comms);
    test_counters_start();
    test_layouts_make();
    test_scatter_in_place();
    test_alone();
    test_bottom();
    if (native) {
        test_exchange_in_place();
        test_cancel(&comms[0]);
    }
    test_comms_free(comms, comm_count);
    test_layouts_free();
    test_counters_stop();
    return test_finish();
}
