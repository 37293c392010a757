/* MPI_Reduce_local, which belongs to no communicator: every operator on every type, in memory of two kinds.
 */
#include <stdlib.h>
#include <string.h>

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

int main(int argc, char **argv)
{
    test_start(&argc, &argv, MPI_THREAD_SINGLE, NULL);
    test_layouts_make();
    for (int op = 0; op < TEST_OPS; op++)
        test_operator((enum test_op)op);
    test_user(TEST_USER_SUM);
    test_user(TEST_USER_COMPOSE);
    test_layouts_free();
    return test_finish();
}
