#include "test/mpi/side.h"

#include <stdlib.h>
#include <string.h>

#include "test/mpi/support.h"

static void find_bounds(struct test_side *side, const struct test_block *blocks, int count)
{
    ptrdiff_t low = 0;
    ptrdiff_t end = 0;
    bool any = false;

    for (int i = 0; i < count; i++) {
        const struct test_block *block = &blocks[i];
        if (block->count == 0)
            continue;
        if (!any || block->at + block->layout->low < low)
            low = block->at + block->layout->low;
        if (!any || block->at + test_layout_end(block->layout, block->count) > end)
            end = block->at + test_layout_end(block->layout, block->count);
        any = true;
    }
    side->low = low;
    side->bytes = (size_t)(end - low);
}

/* What it must hold, before there is a buffer. */
static void open_image(struct test_side *side, const struct test_block *blocks, int count)
{
    memset(side, 0, sizeof *side);
    find_bounds(side, blocks, count);
    side->expected = test_alloc(side->bytes);
    side->ignored = test_alloc(side->bytes);
    memset(side->ignored, 0, side->bytes);
    test_side_clear(side);
}

static void set_origin(struct test_side *side)
{
    side->origin = (void *)((uintptr_t)side->buffer.data - (uintptr_t)side->low);
}

static void open_buffer(struct test_side *side, enum test_memory kind, size_t offset)
{
    test_buffer_make(&side->buffer, kind, side->bytes, offset, false);
    set_origin(side);
}

void test_side_open(struct test_side *side, const struct test_block *blocks, int count, enum test_memory kind,
                    uint64_t key)
{
    static const size_t offsets[] = {0, 0, 0, 8, 4, 16, 1, 3};

    open_image(side, blocks, count);
    if (side->bytes != 0 || key % 2 != 0)
        open_buffer(side, kind, offsets[test_mix(key) % (sizeof offsets / sizeof offsets[0])]);
}

void test_side_open_at(struct test_side *side, const struct test_block *blocks, int count,
                       enum test_memory kind, size_t offset)
{
    open_image(side, blocks, count);
    open_buffer(side, kind, offset);
}

/* New buffers in one allocation, which `first` has, with the data of the second `distance` bytes behind those of the first. */
static void join(struct test_buffer *first, struct test_buffer *second, size_t distance)
{
    const enum test_memory kind = first->kind;
    const size_t offset = (uintptr_t)first->data % TEST_GUARD_BYTES;
    const size_t bytes = first->bytes, behind = second->bytes;
    unsigned char *guard = test_alloc(distance - bytes);
    size_t rear;

    test_buffer_free(first);
    test_buffer_free(second);
    test_buffer_make(first, kind, distance + behind, offset, false);
    memset(guard, TEST_GUARD, distance - bytes);
    test_buffer_write(first, bytes, guard, distance - bytes);
    free(guard);
    rear = first->total - first->front - first->bytes;
    *second = (struct test_buffer){.data = first->data + distance,
                                   .bytes = behind,
                                   .base = first->data + distance - TEST_GUARD_BYTES,
                                   .front = TEST_GUARD_BYTES,
                                   .total = TEST_GUARD_BYTES + behind + rear,
                                   .kind = kind,
                                   .is_part = true};
    first->bytes = bytes;
    first->total = first->front + bytes + TEST_GUARD_BYTES;
}

/* As close as the guard between them allows where the second keeps its offset from a boundary. */
static size_t least_distance(const struct test_buffer *first, const struct test_buffer *second)
{
    const size_t least = first->bytes + TEST_GUARD_BYTES;

    return least + ((uintptr_t)second->data - (uintptr_t)first->data - least) % TEST_GUARD_BYTES;
}

void test_sides_join(struct test_side *a, struct test_side *b, bool same_origin)
{
    struct test_side *first = a->low <= b->low ? a : b, *second = first == a ? b : a;
    const size_t least = least_distance(&first->buffer, &second->buffer);
    const size_t apart = (size_t)(second->low - first->low);

    join(&first->buffer, &second->buffer, same_origin && apart >= least ? apart : least);
    set_origin(first);
    set_origin(second);
}

void test_sides_part(struct test_side *a, struct test_side *b)
{
    struct test_buffer old = b->buffer;

    if (a->buffer.base == NULL || old.base == NULL || a->origin != b->origin)
        return;
    test_buffer_make(&b->buffer, old.kind, old.bytes, (uintptr_t)old.data % TEST_GUARD_BYTES, false);
    set_origin(b);
    test_buffer_free(&old);
}

void test_side_expect(struct test_side *side, const struct test_block *block, const unsigned char *packed)
{
    if (block->count > 0)
        test_layout_unpack(block->layout, side->expected + (block->at - side->low), packed, block->count);
}

void test_side_ignore(struct test_side *side, const struct test_block *block, const unsigned char *flags)
{
    size_t size = test_layout_packed(block->layout);
    unsigned char *packed = test_alloc((size_t)block->count * size);

    memset(packed, 1, (size_t)block->count * size);
    for (size_t i = 0; flags != NULL && i < (size_t)block->count; i++)
        memcpy(packed + i * size, flags, size);
    if (block->count > 0)
        test_layout_unpack(block->layout, side->ignored + (block->at - side->low), packed, block->count);
    free(packed);
}

void test_side_clear(struct test_side *side)
{
    memset(side->expected, TEST_POISON, side->bytes);
    memset(side->ignored, 0, side->bytes);
}

void test_side_write(struct test_side *side)
{
    test_buffer_write(&side->buffer, 0, side->expected, side->bytes);
}

/* The first byte that is not as expected though it counts; side->bytes if there is none. */
static size_t first_wrong(const struct test_side *side, const unsigned char *seen)
{
    size_t i = 0;

    /* Nearly all sides are right, and take most of the time of some tests. */
    if (memcmp(seen, side->expected, side->bytes) == 0)
        return side->bytes;
    while (i < side->bytes && (seen[i] == side->expected[i] || side->ignored[i] != 0))
        i++;
    return i;
}

bool test_side_check(const struct test_side *side, const char *what, const char *call)
{
    unsigned char *seen;
    size_t wrong;

    if (side->buffer.base == NULL)
        return true;
    seen = test_alloc(side->bytes);
    test_buffer_read(&side->buffer, 0, seen, side->bytes);
    wrong = first_wrong(side, seen);
    if (wrong < side->bytes)
        test_fail("%s: %s buffer (%s memory): byte %zu of %zu is 0x%02x, not 0x%02x%s", call, what,
                  test_memory_name(side->buffer.kind), wrong, side->bytes, seen[wrong], side->expected[wrong],
                  seen[wrong] == TEST_POISON ? " (it was not written)" : "");
    free(seen);
    return test_buffer_check(&side->buffer, call) && wrong == side->bytes;
}

void test_side_close(struct test_side *side)
{
    test_buffer_free(&side->buffer);
    free(side->expected);
    free(side->ignored);
    memset(side, 0, sizeof *side);
}
