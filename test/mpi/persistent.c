/*
 * Persistent requests of every collective, made in one order and started in another one on each rank, again and again, and completed
 * in any order: those that run natively, those that are staged, and neighbors', on several communicators at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/collective.h"
#include "test/mpi/memory.h"
#include "test/mpi/support.h"

#ifdef TEST_PERSISTENT
enum { REQUESTS = 2 * TEST_COLLS, ROUNDS = 6 };

struct batch {
    struct test_call calls[REQUESTS];
    int count;
};

static void add(struct batch *batch, const struct test_collective *row, const struct test_comm *comm,
                uint64_t key)
{
    struct test_call *call = &batch->calls[batch->count];
    uint64_t mine = test_mix2(key, (uint64_t)test.rank + 500);

    if (row->is_local || comm->comm == MPI_COMM_NULL || !test_collective_fits(row, comm))
        return;
    memset(call, 0, sizeof *call);
    call->row = row;
    call->form = TEST_PERSISTENT_FORM;
    call->comm = comm;
    call->key = key;
    call->request = MPI_REQUEST_NULL;
    call->in_place = row->may_be_in_place && !comm->inter && key % 4 == 0;
    call->kinds[0] = test_memory_kind(mine);
    call->kinds[1] = test_memory_kind(mine + 1);
    test_choose_root(call, (int)(key % 1000));
    (row->reduces ? test_reduce_plan : test_move_plan)(call);
    snprintf(call->text, sizeof call->text, "%s on %s", row->name, comm->name);
    if (test_ok(test_issue(call), call->text))
        batch->count++;
}

static bool run_round(struct batch *batch, int round)
{
    MPI_Request requests[REQUESTS];
    int order[REQUESTS];

    for (int i = 0; i < batch->count; i++)
        (batch->calls[i].row->reduces ? test_reduce_fill : test_move_fill)(&batch->calls[i], round);
    test_shuffle_own(order, batch->count, (uint64_t)round);
    for (int i = 0; i < batch->count; i++)
        if (!test_ok(MPI_Start(&batch->calls[order[i]].request), batch->calls[order[i]].text))
            return false;
    test_shuffle_own(order, batch->count, (uint64_t)round + 100);
    for (int i = 0; i < batch->count; i++)
        requests[i] = batch->calls[order[i]].request;
    for (int left = batch->count; left > 0; left--) {
        int done = MPI_UNDEFINED;
        if (round % 2 == 0)
            test_ok(MPI_Wait(&requests[left - 1], MPI_STATUS_IGNORE), "MPI_Wait");
        else
            test_ok(MPI_Waitany(batch->count, requests, &done, MPI_STATUS_IGNORE), "MPI_Waitany");
    }
    for (int i = 0; i < batch->count; i++) {
        struct test_call *call = &batch->calls[i];
        test_side_check(&call->recv.side, "receive", call->text);
        test_side_check(&call->send.side, "send", call->text);
    }
    return true;
}

static void test_batch(const char *name, const struct test_comm *comms, int comm_count, uint64_t key)
{
    struct batch *batch;
    bool going = true;

    if (!test_begin("persistent/%s", name))
        return;
    batch = test_alloc(sizeof *batch);
    batch->count = 0;
    for (int turn = 0; turn < REQUESTS; turn++) {
        uint64_t drawn = test_mix3(test.seed, key, (uint64_t)turn);
        int at = (turn + (int)(drawn % (uint64_t)comm_count)) % comm_count;
        add(batch, &test_collectives[turn % test_collective_count], &comms[at], drawn);
    }
    for (int round = 0; round < ROUNDS && going; round++)
        going = run_round(batch, round);
    for (int i = batch->count - 1; i >= 0 && going; i--)
        test_ok(MPI_Request_free(&batch->calls[i].request), "MPI_Request_free");
    for (int i = 0; i < batch->count; i++)
        test_call_close(&batch->calls[i]);
    free(batch);
    test_end();
}

#endif

int main(int argc, char **argv)
{
    struct test_comm comms[TEST_COMMS_MAX];
    int comm_count;

    test_start(&argc, &argv, MPI_THREAD_SINGLE, NULL);
    comm_count = test_comms_make(comms);
    test_layouts_make();
#ifdef TEST_PERSISTENT
    test_batch("one_communicator", comms, 1, 1);
    for (int key = 2; key < (test.quick ? 4 : 12); key++) {
        char name[40];
        snprintf(name, sizeof name, "all_communicators/%d", key);
        test_batch(name, comms, comm_count, (uint64_t)key);
    }
#else
    if (test_begin("persistent")) {
        test_skip("this Open MPI has no persistent collectives");
        test_end();
    }
#endif
    test_layouts_free();
    test_comms_free(comms, comm_count);
    return test_finish();
}
