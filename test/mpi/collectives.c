/*
 * Every collective in its blocking, nonblocking and persistent form, on every kind of
 * communicator, with every rank as root: contents, gaps, holes and unchanged inputs are checked byte for
 * byte.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/collective.h"
#include "test/mpi/memory.h"
#include "test/mpi/support.h"
#include "test/mpi/ways.h"

enum { WINDOW = 3 };

/* Waits for the calls from the last to the first: they may be finished in any order. */
static bool wait_calls(struct test_call *calls, int count, uint64_t key)
{
    bool right = true;

    for (int i = count - 1; i >= 0; i--) {
        int done = key % 2;
        while (!done && right)
            right = test_ok(MPI_Test(&calls[i].request, &done, MPI_STATUS_IGNORE), "MPI_Test") && right;
        right = test_ok(MPI_Wait(&calls[i].request, MPI_STATUS_IGNORE), "MPI_Wait") && right;
    }
    return right;
}

/* How many of the calls have to run so. */
static unsigned natively(const struct test_call *calls, int count)
{
    unsigned number = 0;

    for (int i = 0; i < count; i++)
        number += test_call_is_native(&calls[i]);
    return number;
}

/* The calls of a window are under way at the same time. Persistent ones run twice; in quick tests all do, since peers get at buffers
 * themselves from their second use on. */
static void run_window(struct test_call *calls, int count)
{
    enum test_form form = calls[0].form;
    int rounds = form == TEST_PERSISTENT_FORM || test.quick ? 2 : 1;

    for (int i = 0; i < count && form == TEST_PERSISTENT_FORM; i++)
        if (!test_ok(test_issue(&calls[i]), "the initialisation"))
            return;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < count; i++)
            test_call_fill(&calls[i], round);
        test_ways_before();
        for (int i = 0; i < count; i++) {
            int code = form == TEST_PERSISTENT_FORM ? MPI_Start(&calls[i].request) : test_issue(&calls[i]);
            if (!test_ok(code, calls[i].text))
                return;
        }
        if (form != TEST_BLOCKING && !wait_calls(calls, count, calls[0].key))
            return;
        test_ways_after(natively(calls, count), calls[0].text);
        if (test_call_is_native(&calls[count - 1]))
            test_ways_count(calls[0].row->name);
        for (int i = 0; i < count; i++)
            test_call_check(&calls[i]);
    }
    for (int i = 0; i < count && form == TEST_PERSISTENT_FORM; i++)
        test_ok(MPI_Request_free(&calls[i].request), "MPI_Request_free");
}

static void run_on(const struct test_collective *row, enum test_form form, const struct test_comm *comm)
{
    int roots = comm->inter ? comm->size + comm->remote_size : comm->size;
    int turns = (row->rooted && roots > 4 ? roots : 4) * (test.quick ? 1 : 2);
    int count = 1;

    for (int turn = 0; turn < turns; turn += count) {
        struct test_call calls[WINDOW];
        count = form != TEST_BLOCKING && turn + WINDOW <= turns ? WINDOW : 1;
        for (int i = 0; i < count; i++)
            test_call_open(&calls[i], row, form, comm, turn + i, 0, count == 1, false);
        run_window(calls, count);
        for (int i = 0; i < count; i++)
            test_call_close(&calls[i]);
    }
}

static void test_collective(const struct test_collective *row, enum test_form form,
                            const struct test_comm *comms, int comm_count)
{
    if ((row->is_local && form != TEST_BLOCKING) || !test_begin("%s/%s", row->name, test_form_name(form)))
        return;
    for (int i = 0; i < comm_count; i++)
        if (comms[i].comm != MPI_COMM_NULL && test_collective_fits(row, &comms[i]))
            run_on(row, form, &comms[i]);
    test_end();
}

/* Messages that do not fit into one piece of whatever carries them. */
static void test_large(const struct test_collective *row, const struct test_comm *world)
{
    bool shared = row->coll == TEST_REDUCE_SCATTER || row->coll == TEST_REDUCE_SCATTER_BLOCK;
    int count = row->sends_to_each || row->gets_from_each || shared ? 100003 / world->size : 100003;

    if (row->has_no_data || !test_collective_fits(row, world) || !test_begin("%s/large", row->name))
        return;
    for (int turn = 0; turn < (test.quick ? 1 : 4); turn++) {
        struct test_call call;
        test_call_open(&call, row, turn % 2 == 0 ? TEST_BLOCKING : TEST_NONBLOCKING, world, 900 + turn, count,
                       true, false);
        run_window(&call, 1);
        test_call_close(&call);
    }
    test_end();
}

/* What every plan can run: long blocks that begin at boundaries, of whole packs, in buffers that are long enough to be shared. */
static void test_even(const struct test_collective *row, const struct test_comm *world)
{
    const int count = test_memory_has_gpu() ? 1 << 19 : 1 << 14;

    if (row->has_no_data || !test_collective_fits(row, world) || !test_begin("%s/even", row->name))
        return;
    for (int turn = 0; turn < 4; turn++) {
        struct test_call call;
        test_call_open(&call, row, TEST_BLOCKING, world, 1000 + turn, count, true, true);
        run_window(&call, 1);
        test_call_close(&call);
    }
    test_end();
}

/* Types that hold absolute addresses: what MPI is told to be the buffer is MPI_BOTTOM, and says nothing about
 * the memory. */
static void test_bottom(void)
{
    const struct test_layout *four = test_layout_pick(TEST_FOUR_INTS, 1);
    struct test_block block = {.layout = four, .count = 5};
    size_t bytes = 5 * test_layout_packed(four);
    unsigned char *packed;

    if (!test_begin("absolute_addresses"))
        return;
    packed = test_alloc(bytes);
    for (int root = 0; root < test.size; root++) {
        struct test_side side;
        MPI_Datatype type;
        MPI_Aint address;
        const int five = 5;
        test_side_open(&side, &block, 1, test_memory_kind(test_mix2((uint64_t)root, (uint64_t)test.rank)), 1);
        for (size_t i = 0; i < bytes; i++)
            packed[i] = (unsigned char)test_mix2(test.seed + (uint64_t)root, i);
        if (test.rank == root)
            test_side_expect(&side, &block, packed);
        test_side_write(&side);
        test_side_expect(&side, &block, packed);
        MPI_Get_address(side.origin, &address);
        MPI_Type_create_hindexed(1, &five, &address, four->type, &type);
        MPI_Type_commit(&type);
        test_ok(MPI_Bcast(MPI_BOTTOM, 1, type, root, MPI_COMM_WORLD), "MPI_Bcast");
        test_side_check(&side, "bcast", "MPI_BOTTOM");
        MPI_Type_free(&type);
        test_side_close(&side);
    }
    free(packed);
    test_end();
}

int main(int argc, char **argv)
{
    const struct test_option own[] = {TEST_WAYS_NATIVE, TEST_WAYS_EXPECT, {.name = NULL}};
    struct test_comm comms[TEST_COMMS_MAX];
    int comm_count;

    test_start(&argc, &argv, MPI_THREAD_SINGLE, own);
    test_ways_start();
    if (test.rank == 0)
        printf("seed %llu, %d ranks\n", (unsigned long long)test.seed, test.size);
    comm_count = test_comms_make(comms);
    test_layouts_make();
    for (int i = 0; i < test_collective_count; i++)
        for (int form = 0; form < TEST_FORMS; form++)
            test_collective(&test_collectives[i], (enum test_form)form, comms, comm_count);
    for (int i = 0; i < test_collective_count; i++)
        test_large(&test_collectives[i], &comms[0]);
    for (int i = 0; i < test_collective_count; i++)
        test_even(&test_collectives[i], &comms[0]);
    test_bottom();
    test_layouts_free();
    test_comms_free(comms, comm_count);
    test_ways_stop();
    return test_finish();
}
