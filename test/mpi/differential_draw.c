/* What is called, by whom, on which communicator, with what buffers. */
#include <stdio.h>
#include <string.h>

#include "test/mpi/differential.h"
#include "test/mpi/support.h"

enum { ON_DEVICE, ON_HOST, ROOT_ON_HOST, ROOT_ON_DEVICE, SEND_ON_HOST, RECV_ON_HOST, ONE_KIND, ANY_KINDS };

static const char *const placements[] = {"all on the device", "all on the host", "root on the host",
                                         "root on a device",  "sent from host",  "received on the host",
                                         "all of one kind",   "every kind"};

/* Of a hundred calls. */
static const int placement_share[] = {60, 5, 6, 4, 5, 5, 8, 7};

static int draw_placement(uint64_t key)
{
    int left = (int)(test_mix(key) % 100);
    int placement = 0;
    while (left >= placement_share[placement])
        left -= placement_share[placement++];
    return placement;
}

static bool is_root(const struct test_call *call)
{
    return call->row->rooted ? call->is_root : call->comm->rank == 0;
}

/* Of `side` 0, what is sent, or 1, what is received. */
static enum test_memory draw_kind(const struct test_call *call, int placement, int side)
{
    uint64_t mine = test_mix3(call->key, (uint64_t)test.rank + 500, (uint64_t)side);

    if (!test_memory_drawn())
        return test_memory_kind(mine);
    switch (placement) {
    case ON_HOST:
        return TEST_HOST;
    case ROOT_ON_HOST:
        return is_root(call) ? TEST_HOST : TEST_DEVICE;
    case ROOT_ON_DEVICE:
        return is_root(call) ? TEST_DEVICE : TEST_HOST;
    case SEND_ON_HOST:
        return side == 0 ? TEST_HOST : TEST_DEVICE;
    case RECV_ON_HOST:
        return side == 1 ? TEST_HOST : TEST_DEVICE;
    case ONE_KIND:
        return test_memory_kind(call->key);
    case ANY_KINDS:
        return test_memory_kind(mine);
    default:
        return TEST_DEVICE;
    }
}

/* Usually 0: counts as each collective's plan draws them. Three calls of a thousand have buffers of up to some 4 MiB. */
static int draw_large_count(const struct test_call *call, uint64_t *state)
{
    const struct test_collective *row = call->row;
    int ranks = call->comm->size > call->comm->remote_size ? call->comm->size : call->comm->remote_size;
    bool of_each = row->gets_from_each || row->sends_to_each || row->coll == TEST_REDUCE_SCATTER ||
                   row->coll == TEST_REDUCE_SCATTER_BLOCK;
    int most = row->reduces ? 3000 : 20000;

    if (!test_chance(state, 2))
        return 0;
    if (test_chance(state, 15))
        most = row->reduces ? 1 << (13 + test_draw(state, 6)) : 1 << (15 + test_draw(state, 3));
    return (1 + test_draw(state, most)) / (of_each ? ranks : 1) + 1;
}

static const struct test_comm *draw_comm(uint64_t *state, const struct test_collective *row,
                                         const struct test_comm *comms, int comm_count)
{
    const struct test_comm *comm;
    /* What all ranks of the world do together is most of what programs do. */
    if (!row->neighbors && test_chance(state, 25))
        return &comms[0];
    do {
        comm = &comms[test_draw(state, comm_count)];
    } while (!test_collective_fits(row, comm));
    return comm;
}

static const char *type_name(const struct test_call *call)
{
    if (call->row->reduces)
        return call->reduction.layout->name;
    if (call->send.n > 0)
        return call->send.blocks[0].layout->name;
    return call->recv.n > 0 ? call->recv.blocks[0].layout->name : "no data";
}

static const char *op_name(const struct test_call *call)
{
    if (!call->row->reduces)
        return "";
    if (call->reduction.type != NULL)
        return test_op_name(call->reduction.op);
    return test_user_name(call->reduction.user_op);
}

static void describe_side(const struct test_args *args, const char *what, char *text, size_t bytes)
{
    const struct test_buffer *buffer = &args->side.buffer;

    if (args->n == 0)
        snprintf(text, bytes, "%s nothing", what);
    else if (args->side.origin == NULL)
        snprintf(text, bytes, "%s NULL", what);
    else
        snprintf(text, bytes, "%s %zu bytes %s +%u", what, args->side.bytes, test_memory_name(buffer->kind),
                 (unsigned)((uintptr_t)buffer->data % 256));
}

static bool together(const struct test_call *call)
{
    return call->send.side.buffer.is_part || call->recv.side.buffer.is_part;
}

static void describe(struct test_call *call, uint64_t number, int placement)
{
    char send[60], recv[60];

    describe_side(&call->send, "sends", send, sizeof send);
    describe_side(&call->recv, "receives", recv, sizeof recv);
    snprintf(call->text, sizeof call->text,
             "call %llu, %s %s on %s (rank %d of %d), root %d%s, count %d, %s%s%s%s, %s; here %s, %s%s",
             (unsigned long long)number, test_form_name(call->form), call->row->name, call->comm->name,
             call->comm->rank, call->comm->size, call->root, call->in_place ? ", in place" : "", call->count,
             op_name(call), call->row->reduces ? " of " : "", type_name(call),
             call->row->reduces && call->reduction.rounds ? " (rounds)" : "", placements[placement], send,
             recv,
             !together(call)                                    ? ""
             : call->send.side.origin == call->recv.side.origin ? ", one address"
                                                                : ", one allocation");
}

static enum test_form draw_form(uint64_t *state)
{
    int drawn = test_draw(state, 10);
#ifdef TEST_PERSISTENT
    if (drawn >= 8)
        return TEST_PERSISTENT_FORM;
#endif
    return drawn < 5 ? TEST_BLOCKING : TEST_NONBLOCKING;
}

/* Of some calls the two buffers of a rank are parts of one allocation, as of those who manage memory themselves, and of some of these MPI gets one
 * address, which types tell apart. Not where Open MPI by itself is wrong then: it refuses reductions, and libnbc takes equal host pointers for
 * a call in place. */
static void draw_neighborhood(struct test_call *call)
{
    uint64_t state = test_mix3(call->key, (uint64_t)test.rank + 900, 0);
    struct test_side *send = &call->send.side, *recv = &call->recv.side;
    const enum test_memory kind = send->buffer.kind;
    const bool right = !call->row->reduces && (call->form == TEST_BLOCKING || kind == TEST_DEVICE);
    const bool joined = test_chance(&state, 25), same_origin = test_chance(&state, 50);

    if (joined && !call->in_place && send->buffer.base != NULL && recv->buffer.base != NULL &&
        kind == recv->buffer.kind && (kind == TEST_HOST || kind == TEST_DEVICE || kind == TEST_POOL))
        test_sides_join(send, recv, right && same_origin);
}

/* False where this rank has no part in the call. */
static bool open_call(struct test_call *call, uint64_t number, int length, const struct test_comm *comms,
                      int comm_count)
{
    uint64_t state = test_mix2(test.seed, number);
    const struct test_collective *row = &test_collectives[test_draw(&state, test_collective_count)];
    const struct test_comm *comm = draw_comm(&state, row, comms, comm_count);
    enum test_form form = draw_form(&state);
    int placement;

    memset(call, 0, sizeof *call);
    if (comm->comm == MPI_COMM_NULL)
        return false;
    call->row = row;
    call->form = row->is_local ? TEST_BLOCKING : form;
    call->comm = comm;
    call->alone = length == 1;
    call->varied = test_chance(&state, 60);
    call->request = MPI_REQUEST_NULL;
    call->key = test_next(&state);
    call->in_place = row->may_be_in_place && !comm->inter && test_chance(&state, 35);
    test_choose_root(call, test_draw(&state, 1 << 20));
    call->fixed_count = draw_large_count(call, &state);
    placement = draw_placement(call->key);
    call->on_device = test_memory_drawn() ? placement == ON_DEVICE : test_memory_all_on_device();
    for (int side = 0; side < 2; side++)
        call->kinds[side] = draw_kind(call, placement, side);
    (row->reduces ? test_reduce_plan : test_move_plan)(call);
    draw_neighborhood(call);
    describe(call, number, placement);
    return true;
}

int window_length(uint64_t number)
{
    uint64_t state = test_mix3(test.seed, number, 0x71);
    return test_chance(&state, 50) ? 1 : 2 + test_draw(&state, WINDOW_MAX - 1);
}

void window_open(struct window *window, uint64_t number, const struct test_comm *comms, int comm_count)
{
    window->number = number;
    window->length = window_length(number);
    window->count = 0;
    for (int i = 0; i < window->length; i++) {
        struct test_call *call = &window->calls[window->count];
        if (open_call(call, number + (uint64_t)i, window->length, comms, comm_count))
            window->index[window->count++] = i;
    }
}

void window_close(struct window *window)
{
    for (int i = 0; i < window->count; i++)
        test_call_close(&window->calls[i]);
}
