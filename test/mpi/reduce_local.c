/*
 * MPI_Reduce_local, which belongs to no communicator: every operator on every type in memory of two kinds, all alignments, which
 * way calls go, and many threads at once. Nothing here has used the GPU in a collective before the first call.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/counters.h"
#include "test/mpi/layout.h"
#include "test/mpi/memory.h"
#include "test/mpi/side.h"
#include "test/mpi/support.h"
#include "test/mpi/values.h"

/* Both sides plain elements of one type; false if MPI does not offer the pair. */
static bool run_pair(const struct test_type *type, enum test_op op, int count, uint64_t key)
{
    struct test_layout layout = test_layout_plain(type->name, type->handle, type->repr.size);
    struct test_block block = {.layout = &layout, .count = count};
    struct test_draw draw = {.op = op, .repr = &type->repr, .seed = key, .ranks = 2, .exact = true};
    unsigned char *values = test_alloc((size_t)count * type->repr.size);
    unsigned char flags[64];
    struct test_side in, inout;
    int code, class = MPI_SUCCESS;

    test_side_open(&in, &block, 1, test_memory_kind(key), 16 * key + 1);
    test_side_open(&inout, &block, 1, test_memory_kind(key + 1), 16 * key + 1);
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < count; i++)
            test_value_make(&draw, side, (uint64_t)i, values + (size_t)i * type->repr.size);
        test_side_expect(side == 0 ? &in : &inout, &block, values);
        test_side_write(side == 0 ? &in : &inout);
    }
    code = MPI_Reduce_local(in.origin, inout.origin, count, type->handle, test_op_handle(op));
    for (int i = 0; i < count; i++) {
        unsigned char other[64];
        test_value_make(&draw, 0, (uint64_t)i, values + (size_t)i * type->repr.size);
        test_value_make(&draw, 1, (uint64_t)i, other);
        test_value_reduce(op, &type->repr, values + (size_t)i * type->repr.size, other);
    }
    test_side_expect(&inout, &block, values);
    test_repr_mask(&type->repr, flags);
    for (size_t i = 0; i < type->repr.size; i++)
        flags[i] = flags[i] == 0;
    test_side_ignore(&inout, &block, flags);
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    if (code == MPI_SUCCESS) {
        test_side_check(&in, "first", type->name);
        test_side_check(&inout, "second", type->name);
    } else if (class != MPI_ERR_OP) {
        test_ok(code, "MPI_Reduce_local");
    }
    test_side_close(&in);
    test_side_close(&inout);
    free(values);
    return code == MPI_SUCCESS;
}

static void test_operator(enum test_op op)
{
    static const int counts[] = {0, 1, 7, 1000};

    if (!test_begin("reduce_local/%s", test_op_name(op)))
        return;
    for (int t = 0; t < test_type_count; t++) {
        bool allowed = test_type_allows(&test_types[t], op) && test_type_exists(&test_types[t]);
        /* The sign of a zero part of a product of complex numbers depends on how it is computed. */
        allowed = allowed && !(op == TEST_PROD && test_types[t].repr.shape == TEST_COMPLEX);
        for (int c = 0; c < 4 && allowed; c++)
            allowed =
                run_pair(&test_types[t], op, counts[c], test_mix3(test.seed, (uint64_t)(t * 4 + c), op));
    }
    test_end();
}

/* in = in op inout, element by element, with gaps: a user's operator. */
static void test_user(enum test_user_op op)
{
    enum { COUNT = 9 };

    if (!test_begin("reduce_local/user/%d", (int)op))
        return;
    for (uint64_t key = 0; key < 20; key++) {
        struct test_block block = {.layout = test_layout_pick(TEST_FOUR_INTS, key), .count = COUNT};
        uint32_t first[COUNT][4], second[COUNT][4];
        uint64_t state = key;
        struct test_side in, inout;
        for (int i = 0; i < 4 * COUNT; i++) {
            first[i / 4][i % 4] = (uint32_t)test_next(&state);
            second[i / 4][i % 4] = (uint32_t)test_next(&state);
        }
        test_side_open(&in, &block, 1, test_memory_kind(key), 2 * key + 1);
        test_side_open(&inout, &block, 1, test_memory_kind(key + 7), 2 * key + 1);
        test_side_expect(&in, &block, (const unsigned char *)first);
        test_side_write(&in);
        test_side_expect(&inout, &block, (const unsigned char *)second);
        test_side_write(&inout);
        test_ok(MPI_Reduce_local(in.origin, inout.origin, COUNT, block.layout->type, test_user_handle(op)),
                "MPI_Reduce_local");
        for (int i = 0; i < COUNT; i++)
            test_user_reduce(op, first[i], second[i]);
        test_side_expect(&inout, &block, (const unsigned char *)first);
        test_side_check(&in, "first", block.layout->name);
        test_side_check(&inout, "second", block.layout->name);
        test_side_close(&in);
        test_side_close(&inout);
    }
    test_end();
}

/* Two buffers of bytes, each somewhere in an allocation of its own. */
struct operands {
    size_t bytes;
    struct test_buffer in, inout;
    unsigned char *left, *right, *got;
};

static void operands_make(struct operands *operands, const enum test_memory *kinds, size_t bytes,
                          const size_t *offsets, uint64_t key)
{
    *operands = (struct operands){.bytes = bytes};
    test_buffer_make(&operands->in, kinds[0], bytes, offsets[0], false);
    test_buffer_make(&operands->inout, kinds[1], bytes, offsets[1], false);
    operands->left = test_alloc(bytes);
    operands->right = test_alloc(bytes);
    operands->got = test_alloc(bytes);
    for (size_t i = 0; i < bytes; i += sizeof key) {
        const uint64_t words[] = {test_mix2(key, i), test_mix2(key + 1, i)};
        size_t now = bytes - i < sizeof key ? bytes - i : sizeof key;
        memcpy(operands->left + i, &words[0], now);
        memcpy(operands->right + i, &words[1], now);
    }
    test_buffer_write(&operands->in, 0, operands->left, bytes);
    test_buffer_write(&operands->inout, 0, operands->right, bytes);
}

/* After one reduction by MPI_BXOR. */
static void operands_check(struct operands *operands, const char *call)
{
    test_buffer_read(&operands->inout, 0, operands->got, operands->bytes);
    for (size_t i = 0; i < operands->bytes; i++) {
        if (operands->got[i] == (operands->left[i] ^ operands->right[i]))
            continue;
        test_fail("%s: byte %zu of %zu is wrong", call, i, operands->bytes);
        break;
    }
    test_buffer_read(&operands->in, 0, operands->got, operands->bytes);
    if (memcmp(operands->got, operands->left, operands->bytes) != 0)
        test_fail("%s: the first buffer has changed", call);
    test_buffer_check(&operands->in, "first buffer");
    test_buffer_check(&operands->inout, "second buffer");
}

static void operands_free(struct operands *operands)
{
    test_buffer_free(&operands->in);
    test_buffer_free(&operands->inout);
    free(operands->left);
    free(operands->right);
    free(operands->got);
}

/* Elements at every distance from where the GPU would like them, and ends wherever they fall. */
static void test_alignment(void)
{
    static const MPI_Datatype types[] = {MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T};
    static const size_t offsets[] = {0, 1, 2, 4, 7, 8, 12, 15, 16};
    static const size_t sizes[] = {8, 24, 40, 1000, 70008};
    enum { OFFSETS = sizeof offsets / sizeof offsets[0], SIZES = sizeof sizes / sizeof sizes[0] };

    if (!test_begin("reduce_local/alignment"))
        return;
    for (int turn = 0; turn < OFFSETS * OFFSETS * SIZES; turn++) {
        const size_t places[] = {offsets[turn % OFFSETS], offsets[turn / OFFSETS % OFFSETS]};
        const enum test_memory kinds[] = {test_memory_kind((uint64_t)turn), test_memory_kind((uint64_t)turn)};
        const size_t bytes = sizes[turn / OFFSETS / OFFSETS];
        const size_t unit = (size_t)1 << turn % 4;
        struct operands operands;
        operands_make(&operands, kinds, bytes + (unit == 1 ? (size_t)turn % 8 : 0), places, (uint64_t)turn);
        test_ok(MPI_Reduce_local(operands.in.data, operands.inout.data, (int)(operands.bytes / unit),
                                 types[turn % 4], MPI_BXOR),
                "MPI_Reduce_local");
        operands_check(&operands, "at these places");
        operands_free(&operands);
    }
    test_end();
}

/* Reduces so often, and says by gpucoll's counters how often that was done on the GPU, and on host copies. */
static void expect_way(const char *what, enum test_memory in, enum test_memory inout, size_t bytes,
                       MPI_Datatype type, MPI_Op op, unsigned long long native, unsigned long long staged)
{
    const enum test_memory kinds[] = {in, inout};
    const size_t offsets[] = {0, 0};
    MPI_T_pvar_handle natives = test_counter_open("coll_gpucoll_native_calls");
    MPI_T_pvar_handle stageds = test_counter_open("coll_gpucoll_staged_calls");
    struct operands operands;
    int size;

    MPI_Type_size(type, &size);
    operands_make(&operands, kinds, bytes, offsets, 5);
    test_ok(MPI_Reduce_local(operands.in.data, operands.inout.data, (int)(bytes / (size_t)size), type, op),
            what);
    unsigned long long native_calls = test_counter_close(natives);
    unsigned long long staged_calls = test_counter_close(stageds);
    if (native_calls != native || staged_calls != staged)
        test_fail("%s: %llu native and %llu staged calls, not %llu and %llu", what, native_calls,
                  staged_calls, native, staged);
    operands_free(&operands);
}

static void own_or(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((unsigned char *)inout)[i] |= ((const unsigned char *)in)[i];
}

static void test_ways(void)
{
    MPI_Datatype pair_of_bytes;
    MPI_Op own;

    if (!test_begin("reduce_local/ways"))
        return;
    test_counters_start();
    MPI_Op_create(own_or, 1, &own);
    MPI_Type_contiguous(2, MPI_BYTE, &pair_of_bytes);
    MPI_Type_commit(&pair_of_bytes);
    expect_way("on the device", TEST_DEVICE, TEST_DEVICE, 4000, MPI_INT, MPI_SUM, 1, 0);
    expect_way("one byte", TEST_DEVICE, TEST_DEVICE, 1, MPI_BYTE, MPI_BOR, 1, 0);
    expect_way("nothing", TEST_DEVICE, TEST_DEVICE, 0, MPI_INT, MPI_SUM, 0, 0);
    expect_way("on the host", TEST_HOST, TEST_HOST, 4000, MPI_INT, MPI_SUM, 0, 0);
    expect_way("the first on the host", TEST_HOST, TEST_DEVICE, 4000, MPI_INT, MPI_SUM, 0, 1);
    expect_way("the second on the host", TEST_DEVICE, TEST_HOST, 4000, MPI_INT, MPI_SUM, 0, 1);
    expect_way("a user's operator", TEST_DEVICE, TEST_DEVICE, 4000, MPI_BYTE, own, 0, 1);
    expect_way("a user's type", TEST_DEVICE, TEST_DEVICE, 4000, pair_of_bytes, own, 0, 1);
    MPI_Type_free(&pair_of_bytes);
    MPI_Op_free(&own);
    test_counters_stop();
    test_end();
}

enum { THREADS = 6 };

struct worker {
    pthread_t thread;
    int number;
};

/* More threads than the GPU has lanes, each with buffers of its own. */
static void *work(void *arg)
{
    static const size_t offsets[] = {0, 4};
    const struct worker *worker = arg;
    const int rounds = test.quick ? 40 : 150;

    test_memory_thread();
    for (int round = 0; round < rounds; round++) {
        uint64_t key = test_mix3(test.seed, (uint64_t)worker->number, (uint64_t)round);
        const enum test_memory kinds[] = {test_memory_kind(key), test_memory_kind(key + 1)};
        struct operands operands;
        operands_make(&operands, kinds, 1 + key % (round % 10 == 0 ? 300000 : 3000), offsets, key);
        test_ok(
            MPI_Reduce_local(operands.in.data, operands.inout.data, (int)operands.bytes, MPI_BYTE, MPI_BXOR),
            "MPI_Reduce_local");
        operands_check(&operands, "in a thread");
        operands_free(&operands);
    }
    return NULL;
}

/* Meanwhile the ranks reduce together: these calls want lanes as well, and hold them while they wait for each other. */
static void reduce_together(void)
{
    struct test_buffer send, recv;

    test_buffer_make(&send, TEST_DEVICE, 4000, 0, false);
    test_buffer_make(&recv, TEST_DEVICE, 4000, 0, false);
    for (int round = 0; round < (test.quick ? 40 : 150); round++) {
        MPI_Request request;
        test_ok(MPI_Iallreduce(send.data, recv.data, 1000, MPI_INT, MPI_BXOR, MPI_COMM_WORLD, &request),
                "MPI_Iallreduce");
        test_ok(MPI_Allreduce(MPI_IN_PLACE, send.data, 0, MPI_INT, MPI_BXOR, MPI_COMM_WORLD),
                "MPI_Allreduce");
        test_ok(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    }
    test_buffer_free(&send);
    test_buffer_free(&recv);
}

static void test_threads(void)
{
    struct worker workers[THREADS];

    if (!test_begin_threaded("reduce_local/threads"))
        return;
    test_memory_thread();
    for (int i = 0; i < THREADS; i++) {
        workers[i].number = test.rank * THREADS + i;
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    reduce_together();
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    test_end();
}

/* Places in it take more than 32 bits. */
static void test_huge(void)
{
    static const enum test_memory kinds[] = {TEST_DEVICE, TEST_DEVICE};
    static const size_t offsets[][2] = {{0, 0}, {0, 8}};

    for (int i = 0; i < 2; i++) {
        const size_t bytes = ((size_t)1 << 32) + 24 + (size_t)i * 8;
        struct operands operands;
        if (!test_begin("reduce_local/huge/%s", i == 0 ? "aligned" : "apart"))
            continue;
        operands_make(&operands, kinds, bytes, offsets[i], 77);
        test_ok(
            MPI_Reduce_local(operands.in.data, operands.inout.data, (int)(bytes / 8), MPI_UINT64_T, MPI_BXOR),
            "MPI_Reduce_local");
        operands_check(&operands, "huge");
        operands_free(&operands);
        test_end();
    }
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv, MPI_THREAD_MULTIPLE, NULL);
    test_layouts_make();
    test_threads();
    for (int op = 0; op < TEST_OPS; op++)
        test_operator((enum test_op)op);
    test_user(TEST_USER_SUM);
    test_user(TEST_USER_COMPOSE);
    test_user(TEST_USER_CLAIM);
    test_alignment();
    test_ways();
    if (test.huge)
        test_huge();
    test_layouts_free();
    return test_finish();
}
