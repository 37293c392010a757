/*
 * MPI_Allreduce: every predefined operator on every predefined type, against values computed here, with the
 * same bits asked of every rank and every run. Counts, alignment, communicator, kind of memory and
 * MPI_IN_PLACE vary.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/comms.h"
#include "test/mpi/memory.h"
#include "test/mpi/support.h"
#include "test/mpi/values.h"
#include "test/mpi/ways.h"

/* A buffer repeats its values after PERIOD elements: a prime, so that no chunk, slot or thread sees a
 * pattern, and short, so that values are computed and checked once however long the buffer. */
enum { CHUNK_BYTES = 1 << 18, PERIOD = 1021 };

/* One call. */
struct call {
    const struct test_type *type;
    const struct test_comm *comm;
    struct test_draw draw;
    size_t count;
    bool in_place;
    bool on_device;     /* on all ranks */
    size_t send_offset; /* of the data behind a 256-byte boundary */
    size_t recv_offset;
    enum test_memory send_kind;
    enum test_memory recv_kind;
    unsigned char *inputs;  /* of one period: for each element the values of all ranks */
    unsigned char *mine;    /* of one period: this rank's values */
    unsigned char *results; /* of one period: bits that were found right, if known */
    bool *known;
    size_t known_count;
};

static const size_t small_counts[] = {0, 1, 2, 3, 7, 17, 1000, 1023};
static const size_t big_counts[] = {65537, (1 << 19) + 3};

static size_t chunk_elements(const struct call *call)
{
    return CHUNK_BYTES / call->type->repr.size;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Computes what every rank contributes. */
static void make_inputs(struct call *call)
{
    size_t size = call->type->repr.size;
    size_t elements = smaller(call->count, PERIOD);

    call->draw.native = test_ways_native && call->on_device;

    call->inputs = test_alloc(elements * (size_t)call->comm->size * size);
    call->results = test_alloc(elements * size);
    call->mine = test_alloc(elements * size);
    call->known = test_alloc(elements * sizeof *call->known);
    memset(call->known, 0, elements * sizeof *call->known);
    for (size_t i = 0; i < elements; i++) {
        unsigned char *values = call->inputs + i * (size_t)call->comm->size * size;
        for (int rank = 0; rank < call->comm->size; rank++)
            test_value_make(&call->draw, rank, i, values + (size_t)rank * size);
        memcpy(call->mine + i * size, values + (size_t)call->comm->rank * size, size);
    }
}

static void drop_inputs(struct call *call)
{
    free(call->inputs);
    free(call->mine);
    free(call->results);
    free(call->known);
}

/* How many of the elements from `index` to `end` lie in one period. */
static size_t run_length(size_t index, size_t end)
{
    return smaller(PERIOD - index % PERIOD, end - index);
}

/* What this rank contributes from element `first` on. */
static void get_values(const struct call *call, size_t first, size_t count, unsigned char *values)
{
    size_t size = call->type->repr.size;
    for (size_t i = first; i < first + count; i += run_length(i, first + count))
        memcpy(values + (i - first) * size, call->mine + i % PERIOD * size,
               run_length(i, first + count) * size);
}

static void fill(const struct call *call, struct test_buffer *buffer)
{
    size_t size = call->type->repr.size;
    unsigned char *values = test_alloc(CHUNK_BYTES);

    for (size_t first = 0; first < call->count; first += chunk_elements(call)) {
        size_t count = smaller(call->count - first, chunk_elements(call));
        get_values(call, first, count, values);
        test_buffer_write(buffer, first * size, values, count * size);
    }
    free(values);
}

static void report_element(const struct call *call, size_t index, const unsigned char *inputs,
                           const unsigned char *got)
{
    char text[120], first[120];
    test_value_text(&call->type->repr, got, text, sizeof text);
    test_value_text(&call->type->repr, inputs, first, sizeof first);
    test_fail("count %zu on %s%s, send %s+%zu, recv %s+%zu: element %zu is %s (rank 0 gave %s)", call->count,
              call->comm->name, call->in_place ? " in place" : "", test_memory_name(call->send_kind),
              call->send_offset, test_memory_name(call->recv_kind), call->recv_offset, index, text, first);
}

static bool check_element(struct call *call, size_t index, const unsigned char *got)
{
    size_t size = call->type->repr.size;
    size_t at = index % PERIOD;
    const unsigned char *inputs = call->inputs + at * (size_t)call->comm->size * size;

    if (call->known[at] && memcmp(call->results + at * size, got, size) == 0)
        return true;
    if (!test_value_right(&call->draw, inputs, got)) {
        report_element(call, index, inputs, got);
        return false;
    }
    memcpy(call->results + at * size, got, size);
    call->known_count += !call->known[at];
    call->known[at] = true;
    return true;
}

/* Elements `first` to first + count; once a whole period was right, most of the rest is just like it. */
static bool check_elements(struct call *call, size_t first, size_t count, const unsigned char *values)
{
    size_t size = call->type->repr.size;
    bool right = true;

    for (size_t i = first; i < first + count && right; i += run_length(i, first + count)) {
        size_t run = run_length(i, first + count);
        const unsigned char *got = values + (i - first) * size;
        if (call->known_count == PERIOD && memcmp(got, call->results + i % PERIOD * size, run * size) == 0)
            continue;
        for (size_t j = 0; j < run && right; j++)
            right = check_element(call, i + j, got + j * size);
    }
    return right;
}

/* Padding is nobody's business: sets it to zero before bits are compared. */
static void drop_padding(const struct test_repr *repr, unsigned char *values, size_t count)
{
    unsigned char mask[64];
    test_repr_mask(repr, mask);
    if (memchr(mask, 0, repr->size) == NULL)
        return;
    for (size_t i = 0; i < count * repr->size; i++)
        values[i] = mask[i % repr->size] != 0 ? values[i] : 0;
}

/* Checks every element, and has the bits compared with those of the other ranks. The hash is for the next
 * run. */
static uint64_t check_result(struct call *call, const struct test_buffer *buffer)
{
    size_t size = call->type->repr.size;
    unsigned char *values = test_alloc(CHUNK_BYTES);
    uint64_t hash = 0;
    bool right = true;

    for (size_t first = 0; first < call->count; first += chunk_elements(call)) {
        size_t count = smaller(call->count - first, chunk_elements(call));
        test_buffer_read(buffer, first * size, values, count * size);
        drop_padding(&call->type->repr, values, count);
        test_agree(call->comm->slot, call->comm->colour, values, count * size);
        for (size_t i = 0; i < count * size; i += 8) {
            uint64_t word = 0;
            memcpy(&word, values + i, smaller(8, count * size - i));
            hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
            hash ^= hash >> 29;
        }
        right = right && check_elements(call, first, count, values);
    }
    free(values);
    return hash;
}

static void check_send(const struct call *call, const struct test_buffer *buffer)
{
    size_t size = call->type->repr.size;
    unsigned char *values = test_alloc(CHUNK_BYTES);
    unsigned char *seen = test_alloc(CHUNK_BYTES);

    for (size_t first = 0; first < call->count; first += chunk_elements(call)) {
        size_t count = smaller(call->count - first, chunk_elements(call));
        get_values(call, first, count, values);
        test_buffer_read(buffer, first * size, seen, count * size);
        if (memcmp(values, seen, count * size) != 0) {
            test_fail("count %zu on %s: the send buffer was changed", call->count, call->comm->name);
            break;
        }
    }
    free(values);
    free(seen);
    test_buffer_check(buffer, "send buffer");
}

static int make_call(const struct call *call, const struct test_buffer *send, const struct test_buffer *recv)
{
    const bool native = call->on_device && call->count > 0 && test_repr_is_native(&call->type->repr);
    char what[120];
    int code;

    test_ways_before();
    code = MPI_Allreduce(call->in_place ? MPI_IN_PLACE : (void *)send->data, recv->data, (int)call->count,
                         call->type->handle, test_op_handle(call->draw.op), call->comm->comm);
    if (code != MPI_SUCCESS)
        return code;
    snprintf(what, sizeof what, "count %zu on %s", call->count, call->comm->name);
    test_ways_after(native, what);
    if (native)
        test_ways_count("allreduce");
    return code;
}

/* Calls twice: both must give the same bits. False if MPI does not offer the pair. */
static bool run_call(struct call *call)
{
    size_t bytes = call->count * call->type->repr.size;
    struct test_buffer send, recv;
    uint64_t hashes[2] = {0, 0};
    int code = MPI_SUCCESS, class = MPI_SUCCESS;

    make_inputs(call);
    test_buffer_make(&recv, call->recv_kind, bytes, call->recv_offset, call->recv_offset == 0);
    test_buffer_make(&send, call->send_kind, call->in_place ? 0 : bytes, call->send_offset, false);
    if (!call->in_place)
        fill(call, &send);
    for (int run = 0; run < 2 && code == MPI_SUCCESS; run++) {
        if (call->in_place)
            fill(call, &recv);
        else
            test_buffer_poison(&recv);
        code = make_call(call, &send, &recv);
        if (code == MPI_SUCCESS)
            hashes[run] = check_result(call, &recv);
    }
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    if (code != MPI_SUCCESS && class != MPI_ERR_OP)
        test_ok(code, "MPI_Allreduce");
    if (hashes[0] != hashes[1])
        test_fail("count %zu on %s: two runs gave different bits", call->count, call->comm->name);
    if (!call->in_place)
        check_send(call, &send);
    test_buffer_check(&recv, "receive buffer");
    test_buffer_free(&send);
    test_buffer_free(&recv);
    drop_inputs(call);
    return code == MPI_SUCCESS;
}

/* Where gcc's own code for a type may demand its alignment (long double in a struct, moved by SSE), only that
 * is used. */
static size_t draw_offset(const struct test_type *type, uint64_t *state)
{
    static const size_t offsets[] = {0, 0, 4, 8, 16, 1, 2, 3, 13};
    size_t offset = offsets[test_draw(state, sizeof offsets / sizeof offsets[0])];
    if (type->repr.format[0] == TEST_FLONG)
        return offset / 16 * 16;
    if (test_chance(state, 50))
        return offset * type->repr.size;
    return offset;
}

static void prepare(struct call *call, const struct test_type *type, enum test_op op, size_t count,
                    uint64_t key)
{
    uint64_t state = key;
    uint64_t my_key = test_mix2(key, (uint64_t)test.rank);

    memset(call, 0, sizeof *call);
    call->type = type;
    call->count = count;
    call->in_place = test_chance(&state, 40);
    call->send_offset = draw_offset(type, &state);
    call->recv_offset = draw_offset(type, &state);
    call->send_kind = test_memory_kind(my_key);
    call->recv_kind = test_memory_kind(my_key + 1);
    call->on_device = test_memory_all_on_device();
    call->draw = (struct test_draw){.op = op, .repr = &type->repr, .seed = key, .exact = false};
}

static void set_comm(struct call *call, const struct test_comm *comm)
{
    call->comm = comm;
    call->draw.ranks = comm->size;
    /* The members of another group see other values. */
    call->draw.seed = test_mix2(call->draw.seed, (uint64_t)comm->colour);
}

/* A communicator with one group of ranks, most often the world. */
static const struct test_comm *draw_comm(const struct test_comm *list, int count, uint64_t key)
{
    uint64_t state = key;
    const struct test_comm *comm = &list[test_chance(&state, 50) ? 0 : test_draw(&state, count)];
    return comm->inter ? &list[0] : comm;
}

static void test_pair(const struct test_type *type, enum test_op op, const struct test_comm *comms,
                      int comm_count)
{
    int variants = test.quick ? 1 : 3;
    uint64_t pair_key = test_mix3(test.seed, (uint64_t)(type - test_types), op);
    bool allowed = true;

    if (!test_begin("allreduce/%s/%s", test_op_name(op), type->name))
        return;
    for (size_t c = 0; c < sizeof small_counts / sizeof small_counts[0] && allowed; c++) {
        for (int variant = 0; variant < variants && allowed; variant++) {
            uint64_t key = test_mix3(pair_key, c, (uint64_t)variant);
            struct call call;
            prepare(&call, type, op, small_counts[c], key);
            set_comm(&call, draw_comm(comms, comm_count, key + 1));
            if (call.comm->comm != MPI_COMM_NULL)
                allowed = run_call(&call);
            if (variant == 0 && c == 0)
                allowed = allowed && MPI_Allreduce(MPI_IN_PLACE, NULL, 0, type->handle, test_op_handle(op),
                                                   MPI_COMM_WORLD) == MPI_SUCCESS;
        }
    }
    if (!allowed)
        test_skip("this Open MPI does not offer the pair");
    test_end();
}

/* One line for the types that this Open MPI lacks: Fortran's, where it was built without a compiler for it.
 */
static void name_missing_types(void)
{
    char names[180] = "";

    for (int i = 0; i < test_type_count; i++) {
        size_t used = strlen(names);
        if (!test_type_exists(&test_types[i]))
            snprintf(names + used, sizeof names - used, " %s", test_types[i].name + strlen("MPI_"));
    }
    if (names[0] == '\0' || !test_begin("allreduce/types_of_another_compiler"))
        return;
    test_skip("this Open MPI lacks%s", names);
    test_end();
}

struct big_pair {
    enum test_op op;
    MPI_Datatype type;
};

static void test_big(const struct test_comm *comms)
{
    const struct big_pair pairs[] = {{TEST_SUM, MPI_FLOAT},        {TEST_SUM, MPI_DOUBLE},
                                     {TEST_MAX, MPI_INT8_T},       {TEST_BXOR, MPI_UINT64_T},
                                     {TEST_LAND, MPI_C_BOOL},      {TEST_MAXLOC, MPI_DOUBLE_INT},
                                     {TEST_MINLOC, MPI_SHORT_INT}, {TEST_PROD, MPI_C_DOUBLE_COMPLEX}};

    for (size_t p = 0; p < sizeof pairs / sizeof pairs[0]; p++) {
        const struct test_type *type = test_types;
        while (type->handle != pairs[p].type)
            type++;
        for (size_t c = 0; c < sizeof big_counts / sizeof big_counts[0]; c++) {
            if (test.quick && (c > 0) != (p % 4 == 0))
                continue;
            if (!test_begin("allreduce/big/%s/%s/%zu", test_op_name(pairs[p].op), type->name, big_counts[c]))
                continue;
            for (int variant = 0; variant < (test.quick ? 1 : 2); variant++) {
                struct call call;
                prepare(&call, type, pairs[p].op, big_counts[c],
                        test_mix3(test.seed, p + 1000, c * 100 + (size_t)variant));
                set_comm(&call, &comms[0]);
                run_call(&call);
            }
            test_end();
        }
    }
}

/* What every plan can run: whole packs at boundaries, in buffers that are long enough to be shared. */
static void test_even(const struct test_comm *comms)
{
    const struct test_type *type = test_types;

    if (!test_begin("allreduce/even"))
        return;
    while (type->handle != MPI_FLOAT)
        type++;
    for (int variant = 0; variant < 4; variant++) {
        struct call call;
        prepare(&call, type, TEST_SUM, test_memory_has_gpu() ? 1 << 19 : 1 << 14,
                test_mix3(test.seed, 5000, (uint64_t)variant));
        call.in_place = variant % 2 == 1;
        call.send_offset = call.recv_offset = 0;
        set_comm(&call, &comms[0]);
        run_call(&call);
    }
    test_end();
}

/* Frees buffers and makes others, of other sizes and kinds, where they stood: nothing kept about an address
 * may outlive the allocation. */
static void test_remade(const struct test_comm *comms)
{
    const struct test_type *type = test_types;
    uintptr_t last = 0;
    int same = 0;

    if (!test_begin("allreduce/remade_at_the_same_address"))
        return;
    while (type->handle != MPI_FLOAT)
        type++;
    for (int round = 0; round < (test.quick ? 20 : 60); round++) {
        uint64_t key = test_mix3(test.seed, 2000, (uint64_t)round);
        struct test_buffer probe;
        struct call call;
        prepare(&call, type, TEST_SUM, round % 3 == 0 ? 300000 : 1000, key);
        set_comm(&call, &comms[0]);
        test_buffer_make(&probe, call.recv_kind, call.count * 4, 0, true);
        same += (uintptr_t)probe.base == last;
        last = (uintptr_t)probe.base;
        test_buffer_free(&probe);
        run_call(&call);
    }
    test_end();
    if (test.rank == 0)
        printf("NOTE allreduce/remade: %d of the buffers stood where the one before them had stood\n", same);
}

/* Kinds that differ between the ranks of one call, whatever --memory says. */
static void test_unlike_ranks(const struct test_comm *comms, int comm_count)
{
    const struct test_type *type = test_types;

    while (type->handle != MPI_DOUBLE)
        type++;
    for (int odd_one = 0; odd_one < test.size && odd_one < 4; odd_one++) {
        if (!test_begin("allreduce/one_rank_unlike_the_others/%d", odd_one))
            continue;
        for (int round = 0; round < (test.quick ? 6 : 24); round++) {
            uint64_t key = test_mix3(test.seed, 3000 + (uint64_t)odd_one, (uint64_t)round);
            bool mine = test.rank == odd_one;
            struct call call;
            prepare(&call, type, TEST_SUM, small_counts[1 + round % 7], key);
            set_comm(&call, draw_comm(comms, comm_count, key));
            call.send_kind = mine == (round % 2 == 0) ? TEST_HOST : TEST_DEVICE;
            call.recv_kind = round % 3 == 0 ? TEST_HOST : call.send_kind;
            call.on_device = false;
            if (call.comm->comm != MPI_COMM_NULL)
                run_call(&call);
        }
        test_end();
    }
}

static void test_huge(const struct test_comm *comms)
{
    static const MPI_Datatype handles[] = {MPI_INT8_T, MPI_BYTE};

    for (int i = 0; i < 2; i++) {
        const struct test_type *type = test_types;
        struct call call;
        while (type->handle != handles[i])
            type++;
        if (!test_begin("allreduce/huge/%s", type->name))
            continue;
        prepare(&call, type, i == 0 ? TEST_MAX : TEST_BXOR, ((size_t)1 << 31) - 1,
                test_mix2(test.seed, 4000));
        call.in_place = i == 1;
        set_comm(&call, &comms[0]);
        run_call(&call);
        test_end();
    }
}

int main(int argc, char **argv)
{
    struct test_comm comms[TEST_COMMS_MAX];
    int comm_count = 0;

    const struct test_option own[] = {TEST_WAYS_NATIVE, TEST_WAYS_EXPECT, {.name = NULL}};

    test_start(&argc, &argv, MPI_THREAD_SINGLE, own);
    test_ways_start();
    if (test.rank == 0)
        printf("seed %llu, %d ranks\n", (unsigned long long)test.seed, test.size);
    comm_count = test_comms_make(comms);
    for (int op = 0; op < TEST_OPS; op++)
        for (int type = 0; type < test_type_count; type++)
            if (test_type_allows(&test_types[type], (enum test_op)op) && test_type_exists(&test_types[type]))
                test_pair(&test_types[type], (enum test_op)op, comms, comm_count);
    name_missing_types();
    test_big(comms);
    test_even(comms);
    test_remade(comms);
    test_unlike_ranks(comms, comm_count);
    if (test.huge)
        test_huge(comms);
    test_comms_free(comms, comm_count);
    test_ways_stop();
    return test_finish();
}
