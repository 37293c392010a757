/*
 * What MPI allows and few programs do: results that overwrite what others still need, buffers that are not where their pointers say
 * (corners_addresses.c), cancelling; and counts that do not fit each other, which it does not allow. With `--native` all buffers are device
 * memory and the counters must say that calls ran natively.
 */
#include "test/mpi/corners.h"

#include <stdlib.h>

#include "test/mpi/collective.h"
#include "test/mpi/comms.h"
#include "test/mpi/counters.h"

static bool native; /* what `--native` has set */
static bool counts; /* `--counts` */

enum test_memory corners_kind(uint64_t key)
{
    return native ? TEST_DEVICE : test_memory_kind(test_mix3(test.seed, key, (uint64_t)test.rank));
}

/* ---- which way a case's calls went ---- */

static MPI_T_pvar_handle natives, staged;

void corners_count_calls(void)
{
    if (native) {
        natives = test_counter_open("coll_gpucoll_native_calls");
        staged = test_counter_open("coll_gpucoll_staged_calls");
    }
}

void corners_check_calls(unsigned long long calls)
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

void corners_expect(struct test_side *side, const struct test_block *block, uint64_t key, int from, int to)
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
    test_buffer_make(&buffer, corners_kind((uint64_t)unit), (size_t)total * sizeof *values, 4, false);
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
        corners_count_calls();
        for (int i = 0; i < 4; i++)
            scatter_in_place(units[i], blocking != 0);
        corners_check_calls(4);
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
        corners_expect(&side, &blocks[i], 0, test.rank, i);
    test_side_write(&side);
    for (int i = 0; i < test.size; i++)
        corners_expect(&side, &blocks[i], 0, i, test.rank);
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
    corners_count_calls();
    for (int unit = 1; unit < 2000; unit *= 10) {
        exchange_in_place(unit, false);
        exchange_in_place(unit, true);
    }
    corners_check_calls(8);
    test_end();
}

/* ---- counts that do not fit ---- */

/* Rank 0 sends 100 numbers of `unit` to rank 1, which expects `expected`. */
static void misfit(int unit, int expected)
{
    int sent[MOST_RANKS] = {0}, received[MOST_RANKS] = {0}, places[MOST_RANKS] = {0}, number = -1;
    const size_t most = (size_t)(expected * unit) * sizeof number;
    struct test_buffer from, to;

    sent[1] = test.rank == 0 ? 100 * unit : 0;
    received[0] = test.rank == 1 ? expected * unit : 0;
    test_buffer_make(&from, TEST_DEVICE, most, 4, false);
    test_buffer_make(&to, TEST_DEVICE, most, 4, false);
    test_buffer_write(&from, 0, &test.rank, sizeof test.rank);
    test_ok(
        MPI_Alltoallv(from.data, sent, places, MPI_INT, to.data, received, places, MPI_INT, MPI_COMM_WORLD),
        "MPI_Alltoallv");
    test_buffer_read(&to, 0, &number, sizeof number);
    if (test.rank == 1 && number != 0)
        test_fail("%d of %d: the first number is %d", 100 * unit, expected * unit, number);
    test_buffer_check(&to, "what is expected");
    test_buffer_free(&from);
    test_buffer_free(&to);
}

/* An error in the application that Open MPI lets pass, where less is sent than is expected: so such calls are left to it. */
static void test_misfits(void)
{
    unsigned long long ran, copied;

    if (!test_begin("counts/less_than_expected"))
        return;
    corners_count_calls();
    for (int unit = 1; unit < 20000; unit *= 20)
        misfit(unit, 200);
    misfit(1, 100);
    ran = test_counter_close(natives);
    copied = test_counter_close(staged);
    /* Who has no data has nothing to stage. */
    if (ran != 1 || copied != (test.rank < 2 ? 4 : 0))
        test_fail("%llu calls ran natively and %llu were staged", ran, copied);
    test_end();
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
        {.name = "counts", .flag = &counts, .help = "also counts that do not fit, on one host"},
        {.name = NULL}};

    struct test_comm comms[TEST_COMMS_MAX];
    int comm_count;

    test_start(&argc, &argv, MPI_THREAD_SINGLE, own);
    comm_count = test_comms_make(comms);
    test_counters_start();
    test_layouts_make();
    test_scatter_in_place();
    corners_addresses();
    if (native) {
        test_exchange_in_place();
        test_cancel(&comms[0]);
    }
    if (counts)
        test_misfits();
    test_comms_free(comms, comm_count);
    test_layouts_free();
    test_counters_stop();
    return test_finish();
}
