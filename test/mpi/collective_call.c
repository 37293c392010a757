/* A call of a row of the table, with everything else drawn from the seed; the same for all forms. */
#include <stdio.h>
#include <string.h>

#include "test/mpi/collective.h"
#include "test/mpi/memory.h"
#include "test/mpi/support.h"

void test_call_open(struct test_call *call, const struct test_collective *row, enum test_form form,
                    const struct test_comm *comm, int turn, int fixed_count, bool alone, bool plain)
{
    uint64_t mine;

    memset(call, 0, sizeof *call);
    call->row = row;
    call->form = form;
    call->comm = comm;
    call->alone = alone;
    call->plain = plain;
    call->fixed_count = fixed_count;
    call->request = MPI_REQUEST_NULL;
    call->key =
        test_mix3(test.seed, (uint64_t)(row->coll * TEST_FORMS + form), (uint64_t)(comm->slot * 1000 + turn));
    mine = test_mix2(call->key, (uint64_t)test.rank + 500);
    call->in_place = row->may_be_in_place && !comm->inter && test_mix(call->key + 9) % 5 < 2;
    call->kinds[0] = test_memory_kind(mine);
    call->kinds[1] = test_memory_kind(mine + 1);
    call->on_device = test_memory_all_on_device();
    test_choose_root(call, turn);
    (row->reduces ? test_reduce_plan : test_move_plan)(call);
    snprintf(call->text, sizeof call->text, "on %s, turn %d, root %d%s, count %d, %s", comm->name, turn,
             call->root, call->in_place ? ", in place" : "", call->count,
             row->reduces       ? call->reduction.layout->name
             : call->recv.n > 0 ? call->recv.blocks[0].layout->name
             : call->send.n > 0 ? call->send.blocks[0].layout->name
                                : "nothing to do here");
}

void test_call_open_side(const struct test_call *call, struct test_args *args, bool sending, uint64_t key)
{
    const enum test_memory kind = call->kinds[sending ? 0 : 1];

    if (call->plain)
        test_side_open_at(&args->side, args->blocks, args->n, kind, 0);
    else
        test_side_open(&args->side, args->blocks, args->n, kind, key);
}

void test_call_fill(struct test_call *call, int round)
{
    (call->row->reduces ? test_reduce_fill : test_move_fill)(call, round);
}

bool test_call_check(struct test_call *call)
{
    return test_side_check(&call->recv.side, "receive", call->text) &&
           test_side_check(&call->send.side, "send", call->text);
}

/* Where each rank knows its own counts only, they come together for a call without data, too. */
static bool has_data(const struct test_call *call)
{
    int sum = 0;

    if (call->row->reduces)
        return call->reduction.total > 0;
    if (call->row->coll != TEST_ALLGATHERV)
        return call->row->variant != TEST_SIMPLE || call->count > 0;
    for (int i = 0; i < call->recv.n; i++)
        sum += call->recv.counts[i];
    return sum > 0;
}

/* The same collectives of one integer are made by Open MPI itself for MPI_Comm_idup: these are left to it, whoever makes them. */
static bool is_like_idups(const struct test_call *call)
{
    const struct test_block *block = call->is_root ? call->send.blocks : call->recv.blocks;

    if (call->form != TEST_NONBLOCKING)
        return false;
    if (call->row->coll == TEST_BCAST)
        return (size_t)block->count * test_layout_packed(block->layout) == sizeof(int);
    return (call->row->coll == TEST_ALLREDUCE || call->row->coll == TEST_REDUCE) && call->send.count == 1 &&
           call->send.type == MPI_INT && (call->op == MPI_MAX || call->op == MPI_MIN);
}

bool test_call_is_native(const struct test_call *call)
{
    const struct test_collective *row = call->row;

    /* From these the MPI layer may keep ranks without data away. */
    if (row->neighbors && row->variant == TEST_SIMPLE && call->form == TEST_BLOCKING &&
        call->comm->topology != TEST_CART)
        return false;
    if (!call->on_device || row->has_no_data || call->comm->inter || !has_data(call) || is_like_idups(call))
        return false;
    if (row->reduces)
        return call->reduction.type != NULL && test_repr_is_native(&call->reduction.type->repr);
    return call->comm->size > 1; /* a rank alone hands on what has no data; corners looks at the rest */
}
