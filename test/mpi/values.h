/*
 * MPI's predefined operators and types as data, and an independent idea of what a reduction must give. Values
 * are a function of (seed, rank, index), so that every rank can compute what every other rank contributed.
 *
 * Values come in two kinds: `exact` ones, whose reduction is the same in any order also in floating point,
 * and random ones, whose floating-point results are checked against error bounds.
 */
#ifndef GPUCOLL_TEST_MPI_VALUES_H
#define GPUCOLL_TEST_MPI_VALUES_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum test_op {
    TEST_SUM,
    TEST_PROD,
    TEST_MAX,
    TEST_MIN,
    TEST_LAND,
    TEST_LOR,
    TEST_LXOR,
    TEST_BAND,
    TEST_BOR,
    TEST_BXOR,
    TEST_MAXLOC,
    TEST_MINLOC,
    TEST_OPS
};

enum test_format {
    TEST_I8,
    TEST_I16,
    TEST_I32,
    TEST_I64,
    TEST_U8,
    TEST_U16,
    TEST_U32,
    TEST_U64,
    TEST_F16,
    TEST_F32,
    TEST_F64,
    TEST_FLONG, /* long double */
    TEST_FORMATS
};

/* How an element lies in memory: `parts` numbers, the second one at `second`. */
struct test_repr {
    enum { TEST_PLAIN, TEST_LOGICAL, TEST_COMPLEX, TEST_PAIR } shape;
    enum test_format format[2];
    size_t second;
    size_t size; /* also the extent */
    bool
        positive; /* only values without the uppermost bit are drawn for MAX and MIN, unless gpucoll has to reduce */
};

struct test_type {
    const char *name;
    MPI_Datatype handle;
    struct test_repr repr;
    unsigned ops; /* bits 1 << op: the pairs that are tested */
};

/* One operand column: what the ranks contribute at each index. */
struct test_draw {
    enum test_op op;
    const struct test_repr *repr;
    uint64_t seed;
    int ranks;
    bool exact;
    bool native; /* gpucoll has to reduce: all values, of whatever type */
};

extern const struct test_type test_types[]; /* types.c */
extern const int test_type_count;

const char *test_op_name(enum test_op op);
MPI_Op test_op_handle(enum test_op op);
/* False for a type that this Open MPI lacks (Fortran's, in a build without Fortran). */
bool test_type_exists(const struct test_type *type);
static inline bool test_type_allows(const struct test_type *type, enum test_op op)
{
    return (type->ops >> op & 1) != 0;
}

/* Sets `mask[i]` to 1 for each of the `size` bytes that belong to the value, to 0 for padding. */
void test_repr_mask(const struct test_repr *repr, unsigned char *mask);
/* Has a GPU arithmetic for it? */
bool test_repr_is_native(const struct test_repr *repr);
bool test_repr_is_float(const struct test_repr *repr);

void test_value_make(const struct test_draw *draw, int rank, uint64_t index, void *value);
/* left = left op right. In floating point computed wider than the format and rounded: right for exact values.
 */
void test_value_reduce(enum test_op op, const struct test_repr *repr, void *left, const void *right);
/* Is `got` the reduction of the `ranks` values at `inputs`, one behind the other? */
bool test_value_right(const struct test_draw *draw, const void *inputs, const void *got);
void test_value_text(const struct test_repr *repr, const void *value, char *text, size_t bytes);

#endif
