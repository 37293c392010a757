/*
 * Derived datatypes of device memory in blocking collectives: each of MPI's constructors on either side, what MPI itself packs
 * and unpacks being the reference. Every byte of a receive buffer that its type does not name must stay as it was. With
 * `--native` all have to run natively, of which derived.sh asks the component's summary, too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/memory.h"
#include "test/mpi/support.h"
#include "test/mpi/ways.h"

enum { INTS = 12, MOST_RANKS = 16 };

/* A type of 12 integers. */
struct kind {
    const char *name;
    MPI_Datatype type;
};

enum { KINDS = 12 };
static struct kind kinds[KINDS];
static int kind_count;

static void add(const char *name, MPI_Datatype type)
{
    MPI_Type_commit(&type);
    kinds[kind_count++] = (struct kind){name, type};
}

static MPI_Datatype resized(MPI_Datatype type, MPI_Aint low, MPI_Aint extent)
{
    MPI_Datatype made;
    MPI_Type_create_resized(type, low, extent, &made);
    MPI_Type_free(&type);
    return made;
}

static void make_irregular(void)
{
    const int lengths[] = {1, 5, 2, 4}, places[] = {20, 0, 9, 13};
    const MPI_Aint bytes[] = {90, 3, 47, 59};
    MPI_Datatype type;

    MPI_Type_indexed(4, lengths, places, MPI_INT, &type);
    add("indexed", type);
    MPI_Type_create_hindexed(4, lengths, bytes, MPI_INT, &type);
    add("hindexed at odd bytes", type);
    MPI_Type_dup(kinds[kind_count - 1].type, &type);
    add("hindexed with a negative lower bound", resized(type, -20, 131));
}

static void make_nested(void)
{
    const int members[] = {2, 4}, sizes[] = {4, 5, 6}, parts[] = {2, 3, 2}, starts[] = {1, 1, 3};
    const MPI_Aint at[] = {64, -16};
    MPI_Datatype pair, inner, type;

    MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type);
    add("subarray", type);
    MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_FORTRAN, MPI_INT, &type);
    add("subarray in Fortran's order", type);
    MPI_Type_vector(2, 2, 3, MPI_INT, &pair);
    const MPI_Datatype types[] = {pair, MPI_INT};
    MPI_Type_create_struct(2, members, at, types, &type);
    add("struct", type);
    MPI_Type_contiguous(3, MPI_INT, &inner);
    inner = resized(inner, 0, 20);
    MPI_Type_create_hvector(2, 2, 100, inner, &type);
    add("hvector of resized", type);
    MPI_Type_free(&pair);
    MPI_Type_free(&inner);
}

static void make_kinds(void)
{
    int places[INTS];
    MPI_Datatype type;

    MPI_Type_contiguous(INTS, MPI_INT, &type);
    add("contiguous", type);
    MPI_Type_vector(4, 3, 5, MPI_INT, &type);
    add("vector", type);
    MPI_Type_create_hvector(6, 2, 21, MPI_INT, &type);
    add("hvector", type);
    for (int i = 0; i < INTS; i++)
        places[i] = 2 * i;
    MPI_Type_create_indexed_block(INTS, 1, places, MPI_INT, &type);
    add("indexed_block", type);
    MPI_Type_vector(INTS, 1, 1000, MPI_INT, &type);
    add("columns", resized(type, 0, sizeof(int)));
    make_irregular();
    make_nested();
}

/* A buffer for `count` elements: device memory, and the same on the host as MPI sees it. */
struct place {
    struct test_buffer buffer;
    unsigned char *image;
    ptrdiff_t low; /* of the first byte, from the address that MPI gets */
    size_t bytes;
};

static void *on_device(const struct place *place)
{
    return place->buffer.data - place->low;
}

static void *on_host(const struct place *place)
{
    return place->image - place->low;
}

static void open_place(struct place *place, MPI_Datatype type, int count, size_t offset)
{
    MPI_Aint low, extent, true_low, true_extent;

    MPI_Type_get_extent(type, &low, &extent);
    MPI_Type_get_true_extent(type, &true_low, &true_extent);
    place->low = true_low;
    place->bytes = (size_t)(true_extent + (count - 1) * extent);
    place->image = test_alloc(place->bytes);
    memset(place->image, TEST_POISON, place->bytes);
    test_buffer_make(&place->buffer, TEST_DEVICE, place->bytes, offset, false);
}

static void close_place(struct place *place)
{
    test_buffer_free(&place->buffer);
    free(place->image);
}

/* What `from` sends `to`: packed integers. */
static void make_data(uint64_t key, int from, int to, int *data, int ints)
{
    uint64_t state = test_mix3(key, (uint64_t)from, (uint64_t)to);
    for (int i = 0; i < ints; i++)
        data[i] = (int)test_next(&state);
}

/* Puts the packed integers where elements `first` and following of the type have them. */
static void put(const struct place *place, MPI_Datatype type, int first, int count, int *data)
{
    MPI_Aint low, extent;
    int position = 0;

    MPI_Type_get_extent(type, &low, &extent);
    test_ok(MPI_Unpack(data, count * INTS * (int)sizeof(int), &position,
                       (char *)on_host(place) + first * extent, count, type, MPI_COMM_SELF),
            "MPI_Unpack");
}

static void check(const struct place *place, const char *what)
{
    unsigned char *seen = test_alloc(place->bytes);
    test_buffer_read(&place->buffer, 0, seen, place->bytes);
    for (size_t i = 0; i < place->bytes; i++) {
        if (seen[i] != place->image[i]) {
            test_fail("%s: byte %zu of %zu is 0x%02x, not 0x%02x", what, i, place->bytes, seen[i],
                      place->image[i]);
            break;
        }
    }
    test_buffer_check(&place->buffer, what);
    free(seen);
}

enum coll { BCAST, GATHER, SCATTER, ALLGATHER, ALLTOALL, ALLTOALLV, ALLTOALLW, COLLS };
static const char *const coll_names[] = {"bcast",    "gather",    "scatter",  "allgather",
                                         "alltoall", "alltoallv", "alltoallw"};

struct side {
    struct place place;
    const struct kind *kind;
    int blocks;
};

static int call(enum coll coll, struct side *send, struct side *recv, int count, int root)
{
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Datatype st = send->kind->type, rt = recv->kind->type;
    void *from = on_device(&send->place), *to = on_device(&recv->place);
    int counts[MOST_RANKS], places[MOST_RANKS], sbytes[MOST_RANKS], rbytes[MOST_RANKS];
    MPI_Datatype stypes[MOST_RANKS], rtypes[MOST_RANKS];
    MPI_Aint low, sextent, rextent;

    MPI_Type_get_extent(st, &low, &sextent);
    MPI_Type_get_extent(rt, &low, &rextent);
    for (int i = 0; i < test.size; i++) {
        counts[i] = count;
        places[i] = i * count;
        sbytes[i] = i * count * (int)sextent;
        rbytes[i] = i * count * (int)rextent;
        stypes[i] = st;
        rtypes[i] = rt;
    }
    switch (coll) {
    case BCAST:
        return MPI_Bcast(test.rank == root ? from : to, count, test.rank == root ? st : rt, root, world);
    case GATHER:
        return MPI_Gather(from, count, st, to, count, rt, root, world);
    case SCATTER:
        return MPI_Scatter(from, count, st, to, count, rt, root, world);
    case ALLGATHER:
        return MPI_Allgather(from, count, st, to, count, rt, world);
    case ALLTOALL:
        return MPI_Alltoall(from, count, st, to, count, rt, world);
    case ALLTOALLV:
        return MPI_Alltoallv(from, counts, places, st, to, counts, places, rt, world);
    default:
        return MPI_Alltoallw(from, counts, sbytes, stypes, to, counts, rbytes, rtypes, world);
    }
}

/* One call in which every rank takes types of its own. */
static void run(enum coll coll, int turn, int count, const struct kind *all, int known)
{
    const uint64_t key = test_mix3(test.seed, (uint64_t)coll, (uint64_t)turn);
    const int root = turn % test.size;
    const bool many_sent = coll == SCATTER || coll >= ALLTOALL;
    const bool many_received = coll == GATHER || coll >= ALLGATHER;
    const bool receives = coll == GATHER ? test.rank == root : coll != BCAST || test.rank != root;
    struct side send = {.kind = &all[(turn + 5 * test.rank) % known], .blocks = many_sent ? test.size : 1};
    struct side recv = {.kind = &all[(turn * 7 + test.rank) % known],
                        .blocks = many_received ? test.size : 1};
    int *data = test_alloc((size_t)count * INTS * sizeof(int));
    char text[200];

    snprintf(text, sizeof text, "%s of %d, turn %d, %s to %s", coll_names[coll], count, turn, send.kind->name,
             recv.kind->name);
    open_place(&send.place, send.kind->type, count * send.blocks, (size_t)(turn % 3) * 4);
    open_place(&recv.place, recv.kind->type, count * recv.blocks, (size_t)(turn % 5) * 3);
    for (int i = 0; i < send.blocks; i++) {
        make_data(key, test.rank, many_sent ? i : 0, data, count * INTS);
        put(&send.place, send.kind->type, i * count, count, data);
    }
    test_buffer_write(&send.place.buffer, 0, send.place.image, send.place.bytes);
    test_ways_before();
    test_ok(call(coll, &send, &recv, count, root), text);
    test_ways_after(coll == BCAST && test.size == 1 ? 0 : 1, text); /* it has nobody to send to */
    test_ways_count(coll_names[coll]);
    for (int i = 0; i < recv.blocks && receives; i++) {
        make_data(key, many_received ? i : root, many_sent ? test.rank : 0, data, count * INTS);
        put(&recv.place, recv.kind->type, i * count, count, data);
    }
    check(&send.place, text);
    check(&recv.place, text);
    close_place(&send.place);
    close_place(&recv.place);
    free(data);
}

static void test_kinds(void)
{
    for (int coll = 0; coll < COLLS; coll++) {
        if (!test_begin("derived/%s", coll_names[coll]))
            continue;
        for (int turn = 0; turn < 2 * KINDS; turn++)
            run((enum coll)coll, turn, 1 + turn % 7, kinds, kind_count);
        run((enum coll)coll, 1, 60, kinds, kind_count);
        test_end();
    }
}

/* Types that are made, used and freed: a new one at the address of an old one is not taken for it. */
static void test_remade(void)
{
    if (!test_begin("derived/remade"))
        return;
    for (int turn = 0; turn < (test.quick ? 30 : 200); turn++) {
        int places[INTS];
        struct kind kind = {.name = "remade"};
        for (int i = 0; i < INTS; i++)
            places[i] = 3 * i + (int)(test_mix2((uint64_t)turn, (uint64_t)i) % 3);
        MPI_Type_create_indexed_block(INTS, 1, places, MPI_INT, &kind.type);
        MPI_Type_commit(&kind.type);
        run(ALLTOALL, turn, 3, &kind, 1);
        MPI_Type_free(&kind.type);
    }
    test_end();
}

/* More types alive at once than are remembered. */
static void test_many(void)
{
    enum { MANY = 100 };
    struct kind many[MANY];

    if (!test_begin("derived/many"))
        return;
    for (int i = 0; i < MANY; i++) {
        MPI_Type_vector(INTS / 2, 2, 3 + i, MPI_INT, &many[i].type);
        MPI_Type_commit(&many[i].type);
        many[i].name = "one of many";
    }
    for (int turn = 0; turn < 2 * MANY; turn++)
        run(ALLGATHER, turn, 2, many, MANY);
    for (int i = 0; i < MANY; i++)
        MPI_Type_free(&many[i].type);
    test_end();
}

/* More irregular runs than the device gets a list of: right all the same. */
static void test_irregular(void)
{
    enum { RUNS = 70000 };
    int *places = test_alloc(RUNS * sizeof *places);
    MPI_Datatype type;
    struct test_buffer buffer;

    for (int i = 0; i < RUNS; i++)
        places[i] = 4 * i + (int)(test_mix((uint64_t)i) % 3);
    MPI_Type_create_indexed_block(RUNS, 1, places, MPI_INT, &type);
    MPI_Type_commit(&type);
    int *image = test_alloc(4 * RUNS * sizeof *image);
    for (int i = 0; i < 4 * RUNS; i++)
        image[i] = test.rank == 0 ? i : -i;
    test_buffer_make(&buffer, TEST_DEVICE, 4 * RUNS * sizeof *image, 0, false);
    test_buffer_write(&buffer, 0, image, buffer.bytes);
    test_ok(MPI_Bcast(buffer.data, 1, type, 0, MPI_COMM_WORLD), "MPI_Bcast");
    for (int i = 0; i < RUNS; i++)
        image[places[i]] = places[i];
    int *seen = test_alloc(buffer.bytes);
    test_buffer_read(&buffer, 0, seen, buffer.bytes);
    if (memcmp(seen, image, buffer.bytes) != 0)
        test_fail("what was received differs");
    test_buffer_free(&buffer);
    MPI_Type_free(&type);
    free(seen);
    free(image);
    free(places);
}

int main(int argc, char **argv)
{
    bool irregular = false;
    const struct test_option options[] = {{.name = "irregular",
                                           .flag = &irregular,
                                           .help = "a type with too many irregular runs, and nothing else"},
                                          TEST_WAYS_NATIVE,
                                          TEST_WAYS_EXPECT,
                                          {.name = NULL}};

    test_start(&argc, &argv, MPI_THREAD_SINGLE, options);
    test_ways_start();
    if (irregular) {
        if (test_begin("derived/irregular")) {
            test_irregular();
            test_end();
        }
        test_ways_stop();
        return test_finish();
    }
    make_kinds();
    test_kinds();
    test_remade();
    test_many();
    for (int i = 0; i < kind_count; i++)
        MPI_Type_free(&kinds[i].type);
    test_ways_stop();
    return test_finish();
}
