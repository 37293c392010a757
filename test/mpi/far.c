/*
 * Displacements, and with --huge counts, whose bytes are more than 31 bits can say, in the three forms. Without a GPU the buffers are
 * address space of which only the places in use have memory; with --huge all of a block but its end is the same few MiB
 * again and again, with the same content.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/mpi/counters.h"
#include "test/mpi/form.h"
#include "test/mpi/memory.h"
#include "test/mpi/support.h"

enum { COUNT = 20, APART = (1 << 28) + 5, EDGE = 8, MOST = 8 }; /* elements of 8 bytes */
enum { PIECE = 4 << 20, PIECES = 513 };                         /* bytes, and of a block with --huge */

/* Device memory; `mapped`, that counts as such. */
struct span {
    struct test_buffer buffer;
    bool mapped;
};

static void span_open(struct span *span, size_t bytes)
{
    memset(span, 0, sizeof *span);
    if (test_memory_has_gpu()) {
        test_buffer_make(&span->buffer, TEST_DEVICE, bytes, 0, false);
        return;
    }
    span->mapped = true;
    span->buffer.kind = TEST_DEVICE;
    span->buffer.bytes = bytes;
    span->buffer.data =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (span->buffer.data == MAP_FAILED)
        test_fail("no address space of %zu bytes", bytes);
}

/* The pieces of each block are the same memory, but for the last. */
static void span_fold(struct span *span)
{
    const size_t blocks = span->buffer.bytes / PIECE / PIECES;
    int file = memfd_create("pieces", MFD_CLOEXEC);

    if (ftruncate(file, (off_t)(2 * blocks * PIECE)) != 0)
        test_fail("no memory for %zu blocks", blocks);
    for (size_t i = 0; i < blocks * PIECES; i++) {
        size_t slot = 2 * (i / PIECES) + (i % PIECES == PIECES - 1);
        if (mmap(span->buffer.data + i * PIECE, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                 (off_t)(slot * PIECE)) == MAP_FAILED)
            test_fail("piece %zu cannot be mapped", i);
    }
    close(file);
}

static void span_close(struct span *span)
{
    if (span->mapped)
        munmap(span->buffer.data, span->buffer.bytes);
    else
        test_buffer_free(&span->buffer);
}

#define RUN(Name, IName, ...) TEST_RUN(form, 1, Name, IName, __VA_ARGS__)

/* ---- displacements ---- */

enum move { ALLGATHERV, GATHERV, SCATTERV, ALLTOALLV, ALLTOALLV_PACKED, MOVES };
static const char *const move_names[] = {"allgatherv", "gatherv", "scatterv", "alltoallv",
                                         "alltoallv_packed"};

static uint64_t value(int from, int to, int i)
{
    return test_mix3(test.seed + (uint64_t)i, (uint64_t)from, (uint64_t)to);
}

/* Element i of block `block` of what is far apart; the elements of the packed one have gaps. */
static size_t place_of(enum move move, int block, int i)
{
    size_t stride = move == ALLTOALLV_PACKED ? 3 : 1;
    return ((size_t)block * (stride > 1 ? APART / 4 : APART) + (size_t)i) * stride;
}

static size_t span_bytes(enum move move)
{
    return 8 * (place_of(move, test.size - 1, COUNT) + EDGE);
}

/* Blocks, each with poison around it: as sent, or none yet. */
static void write_blocks(struct span *span, enum move move, bool sent)
{
    uint64_t around[3 * COUNT + 2 * EDGE];
    int stride = move == ALLTOALLV_PACKED ? 3 : 1;

    for (int block = 0; block < test.size; block++) {
        size_t edge = block > 0 ? EDGE : 0;
        memset(around, TEST_POISON, sizeof around);
        for (int i = 0; i < COUNT && sent; i++)
            around[edge + (size_t)(i * stride)] = value(test.rank, block, i);
        test_buffer_write(&span->buffer, 8 * (place_of(move, block, 0) - edge), around,
                          8 * (edge + (size_t)(COUNT * stride) + EDGE));
    }
}

static void check_blocks(const struct span *span, enum move move, const char *what)
{
    uint64_t seen[3 * COUNT + 2 * EDGE], poison;
    size_t stride = move == ALLTOALLV_PACKED ? 3 : 1;

    memset(&poison, TEST_POISON, sizeof poison);
    for (int block = 0; block < test.size; block++) {
        size_t edge = block > 0 ? EDGE : 0;
        size_t length = edge + COUNT * stride + EDGE;
        test_buffer_read(&span->buffer, 8 * (place_of(move, block, 0) - edge), seen, 8 * length);
        for (size_t at = 0; at < length; at++) {
            bool data = at >= edge && at < edge + COUNT * stride && (at - edge) % stride == 0;
            int to = move == ALLTOALLV || move == ALLTOALLV_PACKED ? test.rank : 0;
            uint64_t wanted = data ? value(block, to, (int)((at - edge) / stride)) : poison;
            if (seen[at] == wanted)
                continue;
            test_fail("%s: word %zu of block %d is wrong", what, at, block);
            break;
        }
    }
}

/* The side that is not far apart: what a rank sends to all or the root, or gets from the root. */
static void check_near(const struct test_buffer *near, const char *what)
{
    uint64_t seen[COUNT];

    test_buffer_read(near, 0, seen, sizeof seen);
    for (int i = 0; i < COUNT; i++)
        if (seen[i] != value(0, test.rank, i))
            test_fail("%s: element %d is wrong", what, i);
}

static void run_move(enum move move, enum test_form form)
{
    const bool all = move >= ALLTOALLV;
    const int last = test.size - 1;
    int counts[MOST], places[MOST];
    uint64_t mine[COUNT];
    struct span from, to;
    struct test_buffer near;
    MPI_Datatype type = MPI_UINT64_T;

    if (move == ALLTOALLV_PACKED) {
        MPI_Type_create_resized(MPI_UINT64_T, 0, 24, &type);
        MPI_Type_commit(&type);
    }
    for (int i = 0; i < test.size; i++) {
        counts[i] = COUNT;
        places[i] = i * (type == MPI_UINT64_T ? APART : APART / 4);
    }
    for (int i = 0; i < COUNT; i++)
        mine[i] = value(test.rank, 0, i);
    test_buffer_make(&near, TEST_DEVICE, sizeof mine, 0, false);
    test_buffer_write(&near, 0, mine, sizeof mine);
    span_open(&from, span_bytes(move));
    span_open(&to, span_bytes(move));
    write_blocks(&from, move, true);
    write_blocks(&to, move, false);
    void *s = from.buffer.data, *r = to.buffer.data, *n = near.data;
    if (move == ALLGATHERV)
        RUN(Allgatherv, Iallgatherv, n, COUNT, type, r, counts, places, type, MPI_COMM_WORLD);
    else if (move == GATHERV)
        RUN(Gatherv, Igatherv, n, COUNT, type, r, counts, places, type, last, MPI_COMM_WORLD);
    else if (move == SCATTERV)
        RUN(Scatterv, Iscatterv, s, counts, places, type, n, COUNT, type, 0, MPI_COMM_WORLD);
    else
        RUN(Alltoallv, Ialltoallv, s, counts, places, type, r, counts, places, type, MPI_COMM_WORLD);
    if (move == SCATTERV)
        check_near(&near, move_names[move]);
    else if (all || move == ALLGATHERV || test.rank == last)
        check_blocks(&to, move, move_names[move]);
    test_buffer_check(&near, move_names[move]);
    if (type != MPI_UINT64_T)
        MPI_Type_free(&type);
    span_close(&from);
    span_close(&to);
    test_buffer_free(&near);
}

static bool staged; /* what runs natively otherwise: no transport is there */

static MPI_T_pvar_handle open_counter(void)
{
    return test_counter_open(staged ? "coll_gpucoll_staged_calls" : "coll_gpucoll_native_calls");
}

/* One call was made since the counter was opened. */
static void check_way(MPI_T_pvar_handle counter)
{
    if (test_counter_close(counter) != 1)
        test_fail("the call %s", staged ? "was not staged" : "did not run natively");
}

static void test_displacements(void)
{
    for (int move = 0; move < MOVES; move++) {
        for (int form = 0; form < TEST_FORMS; form++) {
            MPI_T_pvar_handle counter;
            if (!test_form_exists((enum test_form)form) ||
                !test_begin("displacements/%s/%s", move_names[move], test_form_name((enum test_form)form)))
                continue;
            counter = open_counter();
            run_move((enum move)move, (enum test_form)form);
            check_way(counter);
            test_end();
        }
    }
}

/* ---- counts ---- */

enum { LONG = PIECE / 8 * PIECES }; /* elements of a block: 2 GiB and a piece */

/* The content of a piece: all but the last of a block are alike. */
static void make_piece(uint64_t *piece, int from, int to, bool last)
{
    for (int i = 0; i < PIECE / 8; i++)
        piece[i] = value(from, to, last ? -1 - i : i);
}

static void check_piece(const struct span *span, size_t index, const uint64_t *wanted, uint64_t *seen)
{
    test_buffer_read(&span->buffer, index * PIECE, seen, PIECE);
    if (memcmp(seen, wanted, PIECE) != 0)
        test_fail("piece %zu differs", index);
}

enum long_coll {
    BCAST,
    REDUCE,
    ALLREDUCE,
    SCAN,
    EXSCAN,
    REDUCE_SCATTER,
    REDUCE_SCATTER_BLOCK,
    GATHER,
    LONG_GATHERV,
    SCATTER,
    LONG_SCATTERV,
    ALLGATHER,
    LONG_ALLGATHERV,
    ALLTOALL,
    LONG_ALLTOALLV,
    ALLTOALLW,
    ALLREDUCE_IN_PLACE,
    ALLGATHER_IN_PLACE
};

enum who { ALL, FIRST, LAST };

/* Who sends one block or one for each rank, and who gets one or one from each. */
struct long_row {
    const char *name;
    enum test_form form;
    enum who senders, receivers;
    bool sends_each, gets_each;
    bool reduces;
    bool in_place;
    bool seldom; /* only with GPUs, or if asked for: without one each takes many seconds */
};

static const struct long_row long_rows[] = {
    [BCAST] = {.name = "bcast", .senders = FIRST},
    [REDUCE] = {.name = "reduce", .receivers = LAST, .reduces = true},
    [ALLREDUCE] = {.name = "allreduce", .form = TEST_NONBLOCKING, .reduces = true, .seldom = true},
    [SCAN] = {.name = "scan", .form = TEST_NONBLOCKING, .reduces = true},
    [EXSCAN] = {.name = "exscan", .reduces = true},
    [REDUCE_SCATTER] = {.name = "reduce_scatter", .sends_each = true, .reduces = true, .seldom = true},
    [REDUCE_SCATTER_BLOCK] = {.name = "reduce_scatter_block",
                              .form = TEST_NONBLOCKING,
                              .sends_each = true,
                              .reduces = true,
                              .seldom = true},
    [GATHER] = {.name = "gather", .receivers = LAST, .gets_each = true},
    [LONG_GATHERV] =
        {.name = "gatherv", .form = TEST_NONBLOCKING, .receivers = LAST, .gets_each = true, .seldom = true},
    [SCATTER] =
        {.name = "scatter", .form = TEST_NONBLOCKING, .senders = FIRST, .sends_each = true, .seldom = true},
    [LONG_SCATTERV] = {.name = "scatterv", .senders = FIRST, .sends_each = true},
    [ALLGATHER] = {.name = "allgather", .form = TEST_NONBLOCKING, .gets_each = true},
    [LONG_ALLGATHERV] = {.name = "allgatherv", .gets_each = true, .seldom = true},
    [ALLTOALL] = {.name = "alltoall", .sends_each = true, .gets_each = true},
    [LONG_ALLTOALLV] = {.name = "alltoallv",
                        .form = TEST_NONBLOCKING,
                        .sends_each = true,
                        .gets_each = true,
                        .seldom = true},
    /* Its places are bytes: 2 GiB are behind nothing. So the first rank sends to the last, and that is all. */
    [ALLTOALLW] = {.name = "alltoallw", .senders = FIRST, .receivers = LAST},
    /* That the pieces are the same memory does not matter to MPI_BOR: what was reduced already may be reduced again. */
    [ALLREDUCE_IN_PLACE] = {.name = "in_place/allreduce", .reduces = true, .in_place = true},
    [ALLGATHER_IN_PLACE] = {.name = "in_place/allgather", .gets_each = true, .in_place = true},
};

static bool is_one(enum who who)
{
    return who == ALL || test.rank == (who == FIRST ? 0 : test.size - 1);
}

struct long_call {
    const struct long_row *row;
    struct span send, recv;
    uint64_t *piece, *other;
};

/* Puts what this rank sends from piece `first` of the span on, `blocks` blocks. */
static void long_fill(struct long_call *call, struct span *span, size_t first, size_t blocks)
{
    for (size_t i = 0; i < blocks * PIECES; i++) {
        bool last = i % PIECES == PIECES - 1;
        bool as_before = !last && i % PIECES > 0;
        if (span->mapped && as_before)
            continue;
        if (!as_before)
            make_piece(call->piece, test.rank, (int)(i / PIECES), last);
        test_buffer_write(&span->buffer, (first + i) * PIECE, call->piece, PIECE);
    }
}

/* What a rank has no part in is a piece that MPI does not look at. */
static void long_open(struct long_call *call, const struct long_row *row)
{
    size_t sent = row->in_place || !is_one(row->senders) ? 0 : row->sends_each ? (size_t)test.size : 1;
    size_t got = !is_one(row->receivers) ? 0 : row->gets_each ? (size_t)test.size : 1;

    call->row = row;
    call->piece = test_alloc(PIECE);
    call->other = test_alloc(PIECE);
    span_open(&call->send, sent > 0 ? sent * PIECES * PIECE : PIECE);
    span_open(&call->recv, got > 0 ? got * PIECES * PIECE : PIECE);
    if (call->send.mapped) {
        span_fold(&call->send);
        span_fold(&call->recv);
    }
    if (row->in_place)
        long_fill(call, &call->recv, row->gets_each ? (size_t)test.rank * PIECES : 0, 1);
    else
        long_fill(call, &call->send, 0, sent);
}

/* As MPI is told. */
static void *send_buffer(const struct long_call *call)
{
    return call->row->in_place ? MPI_IN_PLACE : call->send.buffer.data;
}

static void long_close(struct long_call *call)
{
    span_close(&call->send);
    span_close(&call->recv);
    free(call->piece);
    free(call->other);
}

/* Block `block` of what was received is block `to` of what rank `from` sent, and with `more` ranks behind it their reduction. */
static void long_check(struct long_call *call, size_t block, int from, int to, int more)
{
    for (size_t i = 0; i < PIECES; i++) {
        bool last = i == PIECES - 1;
        bool as_before = !last && i > 0;
        if (call->recv.mapped && as_before)
            continue;
        if (!as_before)
            make_piece(call->piece, from, to, last);
        for (int rank = from + 1; !as_before && rank <= from + more; rank++)
            for (int j = 0; j < PIECE / 8; j++)
                call->piece[j] |= value(rank, to, last ? -1 - j : j);
        check_piece(&call->recv, block * PIECES + i, call->piece, call->other);
    }
}

static void long_reduce(enum long_coll coll, const struct long_call *call)
{
    const enum test_form form = call->row->form;
    void *s = send_buffer(call), *r = call->recv.buffer.data;
    MPI_Datatype type = MPI_UINT64_T;
    int counts[MOST];

    for (int i = 0; i < test.size; i++)
        counts[i] = LONG;
    if (coll == REDUCE)
        RUN(Reduce, Ireduce, s, r, LONG, type, MPI_BOR, test.size - 1, MPI_COMM_WORLD);
    else if (coll == ALLREDUCE || coll == ALLREDUCE_IN_PLACE)
        RUN(Allreduce, Iallreduce, s, r, LONG, type, MPI_BOR, MPI_COMM_WORLD);
    else if (coll == SCAN)
        RUN(Scan, Iscan, s, r, LONG, type, MPI_BOR, MPI_COMM_WORLD);
    else if (coll == EXSCAN)
        RUN(Exscan, Iexscan, s, r, LONG, type, MPI_BOR, MPI_COMM_WORLD);
    else if (coll == REDUCE_SCATTER)
        RUN(Reduce_scatter, Ireduce_scatter, s, r, counts, type, MPI_BOR, MPI_COMM_WORLD);
    else
        RUN(Reduce_scatter_block, Ireduce_scatter_block, s, r, LONG, type, MPI_BOR, MPI_COMM_WORLD);
}

static void long_move(enum long_coll coll, const struct long_call *call)
{
    const enum test_form form = call->row->form;
    void *s = send_buffer(call), *r = call->recv.buffer.data;
    MPI_Datatype type = MPI_UINT64_T;

    if (coll == BCAST)
        RUN(Bcast, Ibcast, test.rank == 0 ? s : r, LONG, type, 0, MPI_COMM_WORLD);
    else if (coll == GATHER)
        RUN(Gather, Igather, s, LONG, type, r, LONG, type, test.size - 1, MPI_COMM_WORLD);
    else if (coll == SCATTER)
        RUN(Scatter, Iscatter, s, LONG, type, r, LONG, type, 0, MPI_COMM_WORLD);
    else if (coll == ALLGATHER || coll == ALLGATHER_IN_PLACE)
        RUN(Allgather, Iallgather, s, LONG, type, r, LONG, type, MPI_COMM_WORLD);
    else
        RUN(Alltoall, Ialltoall, s, LONG, type, r, LONG, type, MPI_COMM_WORLD);
}

static void long_move_v(enum long_coll coll, const struct long_call *call)
{
    const enum test_form form = call->row->form;
    const int last = test.size - 1;
    void *s = send_buffer(call), *r = call->recv.buffer.data;
    MPI_Datatype type = MPI_UINT64_T, types[MOST];
    int counts[MOST], places[MOST], sent[MOST] = {0}, got[MOST] = {0}, none[MOST] = {0};

    for (int i = 0; i < test.size; i++) {
        counts[i] = LONG;
        places[i] = i * LONG;
        types[i] = type;
    }
    sent[last] = test.rank == 0 ? LONG : 0;
    got[0] = test.rank == last ? LONG : 0;
    if (coll == LONG_GATHERV)
        RUN(Gatherv, Igatherv, s, LONG, type, r, counts, places, type, last, MPI_COMM_WORLD);
    else if (coll == LONG_SCATTERV)
        RUN(Scatterv, Iscatterv, s, counts, places, type, r, LONG, type, 0, MPI_COMM_WORLD);
    else if (coll == LONG_ALLGATHERV)
        RUN(Allgatherv, Iallgatherv, s, LONG, type, r, counts, places, type, MPI_COMM_WORLD);
    else if (coll == LONG_ALLTOALLV)
        RUN(Alltoallv, Ialltoallv, s, counts, places, type, r, counts, places, type, MPI_COMM_WORLD);
    else
        RUN(Alltoallw, Ialltoallw, s, sent, none, types, r, got, none, types, MPI_COMM_WORLD);
}

/* The blocks that this rank has got, from whom, which of theirs, and how many ranks behind these are in a reduction. */
static void long_check_all(enum long_coll coll, struct long_call *call)
{
    const struct long_row *row = call->row;
    int mine = row->sends_each ? test.rank : 0;

    if (!is_one(row->receivers) || (coll == BCAST && test.rank == 0) || (coll == EXSCAN && test.rank == 0))
        return;
    if (coll == ALLTOALLW)
        long_check(call, 0, 0, 0, 0);
    else if (row->reduces)
        long_check(call, 0, 0, mine,
                   coll == SCAN     ? test.rank
                   : coll == EXSCAN ? test.rank - 1
                                    : test.size - 1);
    else
        for (int from = 0; from < (row->gets_each ? test.size : 1); from++)
            long_check(call, (size_t)from, from, mine, 0);
}

static void test_counts(bool all)
{
    for (size_t i = 0; i < sizeof long_rows / sizeof long_rows[0]; i++) {
        const struct long_row *row = &long_rows[i];
        enum long_coll coll = (enum long_coll)i;
        MPI_T_pvar_handle counter;
        struct long_call call;

        if ((row->seldom && !all && !test_memory_has_gpu()) || !test_begin("counts/%s", row->name))
            continue;
        long_open(&call, row);
        counter = open_counter();
        if (row->reduces)
            long_reduce(coll, &call);
        else if (row->name[strlen(row->name) - 1] == 'v' || coll == ALLTOALLW)
            long_move_v(coll, &call);
        else
            long_move(coll, &call);
        check_way(counter);
        long_check_all(coll, &call);
        long_close(&call);
        test_end();
    }
}

int main(int argc, char **argv)
{
    static bool all;
    static const struct test_option own[] = {
        {.name = "staged", .flag = &staged, .help = "calls are expected to be staged"},
        {.name = "all", .flag = &all, .help = "with --huge: without a GPU, too, every collective"},
        {.name = NULL}};

    test_start(&argc, &argv, MPI_THREAD_SINGLE, own);
    test_counters_start();
    test_displacements();
    if (test.huge)
        test_counts(all);
    test_counters_stop();
    return test_finish();
}
