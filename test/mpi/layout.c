#include "test/mpi/layout.h"

#include <string.h>

#include "test/mpi/support.h"

enum { LAYOUTS = 32, FAR = 1 << 20 };

static struct test_layout layouts[LAYOUTS];
static enum test_family families[LAYOUTS];
static int layout_count;
static MPI_Op user_ops[TEST_USER_OPS];

static struct test_layout *add(enum test_family family, const char *name, int units, size_t unit_bytes)
{
    struct test_layout *layout = &layouts[layout_count];
    memset(layout, 0, sizeof *layout);
    families[layout_count++] = family;
    layout->name = name;
    layout->units = units;
    layout->unit_bytes = unit_bytes;
    for (int unit = 0; unit < units; unit++)
        layout->offsets[unit] = unit * (ptrdiff_t)unit_bytes;
    layout->extent = units * (ptrdiff_t)unit_bytes;
    return layout;
}

static void find_bounds(struct test_layout *layout)
{
    layout->low = layout->offsets[0];
    layout->high = layout->offsets[0];
    for (int unit = 0; unit < layout->units; unit++) {
        ptrdiff_t end = layout->offsets[unit] + (ptrdiff_t)layout->unit_bytes;
        if (layout->offsets[unit] < layout->low)
            layout->low = layout->offsets[unit];
        if (end > layout->high)
            layout->high = end;
    }
}

/* Four integers at `offsets` bytes; a `resized` type gets that lower bound and extent, others keep MPI's. */
static void add_scattered(const char *name, const ptrdiff_t *offsets, bool resized, ptrdiff_t low,
                          ptrdiff_t extent)
{
    struct test_layout *layout = add(TEST_FOUR_INTS, name, 4, sizeof(int));
    const int lengths[4] = {1, 1, 1, 1};
    MPI_Aint places[4];
    MPI_Datatype type;

    for (int unit = 0; unit < 4; unit++) {
        layout->offsets[unit] = offsets[unit];
        places[unit] = offsets[unit];
    }
    layout->extent = extent;
    find_bounds(layout);
    test_ok(MPI_Type_create_hindexed(4, lengths, places, MPI_INT, &type), "MPI_Type_create_hindexed");
    layout->type = type;
    if (resized) {
        test_ok(MPI_Type_create_resized(type, low, extent, &layout->type), "MPI_Type_create_resized");
        MPI_Type_free(&type);
    }
    MPI_Type_commit(&layout->type);
}

/* A type whose bounds are MPI's own; the units lie at `offsets` bytes. Takes the type over. */
static void add_made(enum test_family family, const char *name, size_t unit_bytes, int units,
                     const ptrdiff_t *offsets, MPI_Datatype type)
{
    struct test_layout *layout = add(family, name, units, unit_bytes);
    MPI_Aint low = 0;
    MPI_Aint extent = 0;

    memcpy(layout->offsets, offsets, (size_t)units * sizeof *offsets);
    find_bounds(layout);
    MPI_Type_commit(&type);
    MPI_Type_get_extent(type, &low, &extent);
    layout->type = type;
    layout->extent = extent;
}

/* Four integers by each of MPI's constructors. */
static void add_four_ints(void)
{
    const int lengths[] = {1, 3}, places[] = {4, 0}, block_places[] = {3, 0};
    const int sizes[] = {3, 4}, parts[] = {2, 2}, starts[] = {1, 1}, members[] = {2, 1, 1};
    const MPI_Aint at[] = {8, 0, 24};
    const MPI_Datatype types[] = {MPI_INT, MPI_INT, MPI_INT};
    MPI_Datatype type, inner;

    MPI_Type_vector(2, 2, 3, MPI_INT, &type);
    add_made(TEST_FOUR_INTS, "vector", 4, 4, (const ptrdiff_t[]){0, 4, 12, 16}, type);
    MPI_Type_create_hvector(4, 1, -8, MPI_INT, &type);
    add_made(TEST_FOUR_INTS, "backward hvector", 4, 4, (const ptrdiff_t[]){0, -8, -16, -24}, type);
    MPI_Type_indexed(2, lengths, places, MPI_INT, &type);
    add_made(TEST_FOUR_INTS, "indexed", 4, 4, (const ptrdiff_t[]){16, 0, 4, 8}, type);
    MPI_Type_create_indexed_block(2, 2, block_places, MPI_INT, &type);
    add_made(TEST_FOUR_INTS, "indexed block", 4, 4, (const ptrdiff_t[]){12, 16, 0, 4}, type);
    MPI_Type_create_struct(3, members, at, types, &type);
    add_made(TEST_FOUR_INTS, "struct", 4, 4, (const ptrdiff_t[]){8, 12, 0, 24}, type);
    MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type);
    add_made(TEST_FOUR_INTS, "subarray", 4, 4, (const ptrdiff_t[]){20, 24, 36, 40}, type);
    MPI_Type_contiguous(2, MPI_INT, &inner);
    MPI_Type_create_hvector(2, 1, 24, inner, &type);
    add_made(TEST_FOUR_INTS, "hvector of contiguous", 4, 4, (const ptrdiff_t[]){0, 4, 24, 28}, type);
    MPI_Type_free(&inner);
}

/* Sixteen blocks of four doubles. */
static void add_many_doubles(void)
{
    const int sizes[] = {3, 9, 6}, parts[] = {2, 8, 4}, starts[] = {1, 0, 1};
    ptrdiff_t offsets[TEST_UNITS_MAX];
    int places[TEST_UNITS_MAX];
    MPI_Datatype type;

    for (int i = 0; i < 16; i++)
        offsets[i] = 32 * i;
    MPI_Type_contiguous(64, MPI_DOUBLE, &type);
    add_made(TEST_MANY_DOUBLES, "64 doubles", 32, 16, offsets, type);
    for (int i = 0; i < 16; i++)
        offsets[i] = 56 * i;
    MPI_Type_vector(16, 4, 7, MPI_DOUBLE, &type);
    add_made(TEST_MANY_DOUBLES, "vector of 64 doubles", 32, 16, offsets, type);
    for (int i = 0; i < 16; i++) {
        places[i] = 5 * (i * 7 % 16) + i % 2;
        offsets[i] = 8 * places[i];
    }
    MPI_Type_create_indexed_block(16, 4, places, MPI_DOUBLE, &type);
    add_made(TEST_MANY_DOUBLES, "scattered 64 doubles", 32, 16, offsets, type);
    for (int i = 0; i < 16; i++)
        offsets[i] = 8 * ((1 + i / 8) * 54 + i % 8 * 6 + 1);
    MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
    add_made(TEST_MANY_DOUBLES, "subarray of 64 doubles", 32, 16, offsets, type);
}

/* A struct of unlike members, the padding that a compiler gives it included: told byte by byte. */
static void add_record(void)
{
    struct record {
        short first;
        double second;
        char third;
    };
    const int members[] = {1, 1, 1};
    const MPI_Aint at[] = {offsetof(struct record, first), offsetof(struct record, second),
                           offsetof(struct record, third)};
    const MPI_Datatype types[] = {MPI_SHORT, MPI_DOUBLE, MPI_CHAR};
    ptrdiff_t offsets[11] = {0, 1};
    MPI_Datatype inner, type;

    for (int i = 0; i < 8; i++)
        offsets[2 + i] = at[1] + i;
    offsets[10] = at[2];
    MPI_Type_create_struct(3, members, at, types, &inner);
    MPI_Type_create_resized(inner, 0, sizeof(struct record), &type);
    add_made(TEST_RECORD, "record", 1, 11, offsets, type);
    MPI_Type_free(&inner);
}

struct test_layout test_layout_plain(const char *name, MPI_Datatype type, size_t bytes)
{
    return (struct test_layout){.name = name,
                                .type = type,
                                .units = 1,
                                .unit_bytes = bytes,
                                .extent = (ptrdiff_t)bytes,
                                .high = (ptrdiff_t)bytes};
}

static void add_plain(enum test_family family, const char *name, MPI_Datatype type, size_t bytes)
{
    struct test_layout *layout = add(family, name, 1, bytes);
    layout->type = type;
    find_bounds(layout);
}

static const struct test_layout *find(MPI_Datatype type)
{
    for (int i = 0; i < layout_count; i++)
        if (layouts[i].type == type)
            return &layouts[i];
    return NULL;
}

static void pack(const struct test_layout *layout, unsigned char *packed, const unsigned char *at)
{
    for (int unit = 0; unit < layout->units; unit++)
        memcpy(packed + (size_t)unit * layout->unit_bytes, at + layout->offsets[unit], layout->unit_bytes);
}

void test_layout_unpack(const struct test_layout *layout, unsigned char *at, const unsigned char *packed,
                        int count)
{
    for (int i = 0; i < count; i++) {
        for (int unit = 0; unit < layout->units; unit++) {
            memcpy(at + layout->offsets[unit], packed, layout->unit_bytes);
            packed += layout->unit_bytes;
        }
        at += layout->extent;
    }
}

void test_user_reduce(enum test_user_op op, uint32_t left[4], const uint32_t right[4])
{
    for (int i = 0; i < 4; i += 2) {
        if (op == TEST_USER_SUM) {
            left[i] += right[i];
            left[i + 1] += right[i + 1];
        } else {
            left[i + 1] += left[i] * right[i + 1];
            left[i] *= right[i];
        }
    }
}

/* What MPI calls: inout = in op inout. */
static void apply(enum test_user_op op, const unsigned char *in, unsigned char *inout, int count,
                  MPI_Datatype type)
{
    const struct test_layout *layout = find(type);
    uint32_t left[4], right[4];

    if (layout == NULL || layout->units != 4) {
        test_fail("the user's operator was called with a type that no call used");
        return;
    }
    for (int i = 0; i < count; i++) {
        pack(layout, (unsigned char *)left, in + i * layout->extent);
        pack(layout, (unsigned char *)right, inout + i * layout->extent);
        test_user_reduce(op, left, right);
        test_layout_unpack(layout, inout + i * layout->extent, (const unsigned char *)left, 1);
    }
}

static void apply_sum(void *in, void *inout, int *count, MPI_Datatype *type)
{
    apply(TEST_USER_SUM, in, inout, *count, *type);
}

static void apply_compose(void *in, void *inout, int *count, MPI_Datatype *type)
{
    apply(TEST_USER_COMPOSE, in, inout, *count, *type);
}

MPI_Op test_user_handle(enum test_user_op op)
{
    return user_ops[op];
}

const char *test_user_name(enum test_user_op op)
{
    static const char *const names[TEST_USER_OPS] = {"user's sum", "user's composition",
                                                     "user's composition that is said to commute"};
    return names[op];
}

void test_layouts_make(void)
{
    struct test_layout *layout;

    layout_count = 0;
    layout = add(TEST_FOUR_INTS, "contiguous", 4, sizeof(int));
    find_bounds(layout);
    MPI_Type_contiguous(4, MPI_INT, &layout->type);
    MPI_Type_commit(&layout->type);
    add_scattered("gaps", (const ptrdiff_t[]){0, 4, 12, 16}, false, 0, 20);
    add_scattered("negative lower bound", (const ptrdiff_t[]){-8, -4, 4, 12}, true, -12, 32);
    /* Size and extent are equal, yet no plain copy will do between this and the first. */
    add_scattered("permuted", (const ptrdiff_t[]){12, 8, 0, 4}, false, 0, 16);
    /* What MPI is told to be the buffer lies a megabyte before it. */
    add_scattered("far from its origin", (const ptrdiff_t[]){FAR, FAR + 4, FAR + 8, FAR + 16}, true, FAR, 24);
    add_four_ints();
    add_many_doubles();
    add_record();
    add_plain(TEST_ONE_INT, "int", MPI_INT, sizeof(int));
    add_plain(TEST_ONE_BYTE, "byte", MPI_BYTE, 1);
    add_plain(TEST_ONE_DOUBLE, "double", MPI_DOUBLE, sizeof(double));
    test_ok(MPI_Op_create(apply_sum, 1, &user_ops[TEST_USER_SUM]), "MPI_Op_create");
    test_ok(MPI_Op_create(apply_compose, 0, &user_ops[TEST_USER_COMPOSE]), "MPI_Op_create");
    test_ok(MPI_Op_create(apply_compose, 1, &user_ops[TEST_USER_CLAIM]), "MPI_Op_create");
}

void test_layouts_free(void)
{
    for (int i = 0; i < layout_count; i++)
        if (layouts[i].units > 1)
            MPI_Type_free(&layouts[i].type);
    for (int op = 0; op < TEST_USER_OPS; op++)
        MPI_Op_free(&user_ops[op]);
}

const struct test_layout *test_layout_pick(enum test_family family, uint64_t key)
{
    int members = 0;
    int chosen;

    for (int i = 0; i < layout_count; i++)
        members += families[i] == family;
    chosen = (int)(test_mix(key) % (unsigned)members);
    for (int i = 0;; i++)
        if (families[i] == family && chosen-- == 0)
            return &layouts[i];
}
