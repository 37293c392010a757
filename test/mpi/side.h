/*
 * One side of a collective call, what it sends or what it receives: a buffer, and beside it in host memory
 * what the buffer must hold, byte for byte: gaps of a type and holes between blocks included.
 */
#ifndef GPUCOLL_TEST_MPI_SIDE_H
#define GPUCOLL_TEST_MPI_SIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "test/mpi/layout.h"
#include "test/mpi/memory.h"

/* `count` elements of one type, `at` bytes from what MPI is told to be the buffer. */
struct test_block {
    const struct test_layout *layout;
    int count;
    ptrdiff_t at;
};

struct test_side {
    void *origin; /* what MPI is told to be the buffer: NULL for some empty ones */
    struct test_buffer buffer;
    unsigned char *expected;
    unsigned char *ignored; /* 1 for bytes whose value is nobody's business */
    ptrdiff_t low;          /* of the buffer's first byte, seen from the origin */
    size_t bytes;
};

/* A buffer that covers the blocks, filled with poison; `key` decides its alignment and, if it is empty,
 * whether it is NULL. */
void test_side_open(struct test_side *side, const struct test_block *blocks, int count, enum test_memory kind,
                    uint64_t key);
/* The same at `offset` behind a 256-byte boundary, never NULL. */
void test_side_open_at(struct test_side *side, const struct test_block *blocks, int count,
                       enum test_memory kind, size_t offset);
/* Gives the buffers of two sides, both TEST_HOST, TEST_DEVICE or TEST_POOL, one allocation; with `same_origin`, and if what they cover allows it,
 * MPI is told one address for both. */
void test_sides_join(struct test_side *a, struct test_side *b, bool same_origin);
/* Gives the second a new buffer if by chance MPI would be told one address for both. */
void test_sides_part(struct test_side *a, struct test_side *b);
/* From now on the buffer must hold the packed elements in this block. */
void test_side_expect(struct test_side *side, const struct test_block *block, const unsigned char *packed);
/* The value of the block does not matter; with `flags`, that of the bytes of each packed element whose flag
 * is 1. */
void test_side_ignore(struct test_side *side, const struct test_block *block, const unsigned char *flags);
/* Expects poison again, everywhere. */
void test_side_clear(struct test_side *side);
/* Makes the buffer hold what is expected. */
void test_side_write(struct test_side *side);
/* False, with a failure noted, if the buffer does not hold what is expected. `what` and `call` name it. */
bool test_side_check(const struct test_side *side, const char *what, const char *call);
void test_side_close(struct test_side *side); /* harmless on a zeroed struct */

#endif
