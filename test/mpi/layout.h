/*
 * Datatypes for the tests of the collectives, each with what the test must know of it independently of MPI:
 * where in memory the parts of an element lie. Types of one family have the same signature, so that a sender
 * and a receiver, or two ranks, may use different ones. Also the user-defined operators that work on them.
 */
#ifndef GPUCOLL_TEST_MPI_LAYOUT_H
#define GPUCOLL_TEST_MPI_LAYOUT_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

enum test_family {
    TEST_FOUR_INTS,
    TEST_ONE_INT,
    TEST_ONE_BYTE,
    TEST_ONE_DOUBLE,
    TEST_MANY_DOUBLES,
    TEST_RECORD,
    TEST_FAMILIES
};

enum { TEST_UNITS_MAX = 16 };

struct test_layout {
    const char *name;
    MPI_Datatype type;
    int units;
    size_t unit_bytes;
    ptrdiff_t offsets[TEST_UNITS_MAX]; /* of the units, in the order of the type's signature */
    ptrdiff_t extent;
    ptrdiff_t
        low; /* an element's first byte, and the one past its last, seen from where MPI is told that it is */
    ptrdiff_t high;
};

void test_layouts_make(void);
void test_layouts_free(void);
const struct test_layout *test_layout_pick(enum test_family family, uint64_t key);
/* An element that lies in one piece, such as one of a predefined type. */
struct test_layout test_layout_plain(const char *name, MPI_Datatype type, size_t bytes);

/* Bytes of an element without its gaps. */
static inline size_t test_layout_packed(const struct test_layout *layout)
{
    return (size_t)layout->units * layout->unit_bytes;
}
/* Where `count` elements at `at` lie: from at + low to the result. */
static inline ptrdiff_t test_layout_end(const struct test_layout *layout, int count)
{
    return (count - 1) * layout->extent + layout->high;
}
void test_layout_unpack(const struct test_layout *layout, unsigned char *at, const unsigned char *packed,
                        int count);

/* Operators on elements of four integers: sums, which commute, and the composition of two affine maps, which is
 * associative and does not commute; and that again, but MPI is told that it commutes, so that only the order of ranks
 * gives the right result. left = left op right, on packed elements. */
enum test_user_op { TEST_USER_SUM, TEST_USER_COMPOSE, TEST_USER_CLAIM, TEST_USER_OPS };
MPI_Op test_user_handle(enum test_user_op op);
const char *test_user_name(enum test_user_op op);
void test_user_reduce(enum test_user_op op, uint32_t left[4], const uint32_t right[4]);

#endif
