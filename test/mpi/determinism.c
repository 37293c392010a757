/* coll_gpucoll_deterministic: reductions of numbers whose sum depends on the order have the bits of ((r0 + r1) + r2) ..., whatever the
 * message's size, the place of the numbers in it, the kinds of memory and the parameters that this program is run
 * with. And without it (--beside): the bits of a call do not depend on the calls that are under way with it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/memory.h"
#include "test/mpi/support.h"
#include "test/mpi/ways.h"

/* Numbers under test, and how many others stand before and after them. */
enum { NUMBERS = 1000 };
static const struct {
    int before, after;
} places[] = {{0, 0}, {1, 0}, {24, 8000}, {100003, 500}, {700, 300000}};

/* Of very different sizes and both signs: hardly any two orders of their sum agree. */
static double number(int rank, int index)
{
    uint64_t word = test_mix3(17, (uint64_t)rank, (uint64_t)index);
    double value = (double)(word >> 40) / (1 << 24);
    return (word & 1 ? -value : value) * (double)(1u << (word >> 1 & 15));
}

static int embedded(int place, int index)
{
    int inside = index - places[place].before;
    return inside >= 0 && inside < NUMBERS ? inside : NUMBERS + index;
}

static void put(bool wide, void *to, int index, double value)
{
    if (wide)
        ((double *)to)[index] = value;
    else
        ((float *)to)[index] = (float)value;
}

/* The sum over ranks first .. last, rounded as the type is. */
static void expect(bool wide, void *to, int index, int ranks, int what)
{
    double sum = number(0, what);
    float narrow = (float)sum;

    for (int i = 1; i < ranks; i++) {
        sum += number(i, what);
        narrow += (float)number(i, what);
    }
    put(wide, to, index, wide ? sum : narrow);
}

enum which { ALLREDUCE, REDUCE, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, SCAN, EXSCAN, COLLECTIVES };
static const char *const names[] = {"allreduce", "reduce", "reduce_scatter", "reduce_scatter_block",
                                    "scan",      "exscan"};

static int call(enum which which, const void *send, void *recv, int count, MPI_Datatype type)
{
    int counts[64];

    for (int i = 0; i < test.size; i++)
        counts[i] = count / test.size + (i < count % test.size ? 1 : 0);
    switch (which) {
    case ALLREDUCE:
        return MPI_Allreduce(send, recv, count, type, MPI_SUM, MPI_COMM_WORLD);
    case REDUCE:
        return MPI_Reduce(send, recv, count, type, MPI_SUM, test.size - 1, MPI_COMM_WORLD);
    case REDUCE_SCATTER:
        return MPI_Reduce_scatter(send, recv, counts, type, MPI_SUM, MPI_COMM_WORLD);
    case REDUCE_SCATTER_BLOCK:
        return MPI_Reduce_scatter_block(send, recv, count / test.size, type, MPI_SUM, MPI_COMM_WORLD);
    case SCAN:
        return MPI_Scan(send, recv, count, type, MPI_SUM, MPI_COMM_WORLD);
    default:
        return MPI_Exscan(send, recv, count, type, MPI_SUM, MPI_COMM_WORLD);
    }
}

/* What this rank receives: `*count` elements from `*first` on, over `*ranks` ranks. */
static void received(enum which which, int all, int *first, int *count, int *ranks)
{
    int each = all / test.size, rest = all % test.size;

    *first = 0;
    *count = all;
    *ranks = test.size;
    if (which == REDUCE && test.rank != test.size - 1)
        *count = 0;
    if (which == SCAN || which == EXSCAN)
        *ranks = test.rank + (which == SCAN);
    if (*ranks == 0)
        *count = 0;
    if (which == REDUCE_SCATTER) {
        *first = test.rank * each + (test.rank < rest ? test.rank : rest);
        *count = each + (test.rank < rest ? 1 : 0);
    }
    if (which == REDUCE_SCATTER_BLOCK) {
        *first = test.rank * each;
        *count = each;
    }
}

static void run(enum which which, int place, bool wide, bool in_place)
{
    const int all = places[place].before + NUMBERS + places[place].after;
    const size_t element = wide ? sizeof(double) : sizeof(float);
    const size_t bytes = (size_t)all * element;
    struct test_buffer send, recv;
    char *values = test_alloc(bytes), *got = test_alloc(bytes), *wanted = test_alloc(bytes);
    int first, count, ranks;

    for (int i = 0; i < all; i++)
        put(wide, values, i, number(test.rank, embedded(place, i)));
    test_buffer_make(&send, test_memory_kind((uint64_t)(place * 2 + wide)), bytes, 0, false);
    test_buffer_make(&recv, test_memory_kind((uint64_t)(place * 2 + wide)), bytes, 0, false);
    received(which, all, &first, &count, &ranks);
    for (int i = 0; i < count; i++)
        expect(wide, wanted, i, ranks, embedded(place, first + i));
    /* Twice: peers get at buffers themselves from their second use on. */
    for (int use = 0; use < 2; use++) {
        test_buffer_write(in_place ? &recv : &send, 0, values, bytes);
        test_ok(
            call(which, in_place ? MPI_IN_PLACE : send.data, recv.data, all, wide ? MPI_DOUBLE : MPI_FLOAT),
            names[which]);
        test_ways_count(names[which]);
        test_buffer_read(&recv, 0, got, bytes);
        if (memcmp(got, wanted, (size_t)count * element) != 0)
            test_fail("other bits than in rank order, %d elements, %d before", all, places[place].before);
        test_buffer_check(&recv, "recv");
    }
    test_buffer_free(&send);
    test_buffer_free(&recv);
    free(values);
    free(got);
    free(wanted);
}

static int start(enum which which, const struct test_buffer *send, const struct test_buffer *recv, int count,
                 MPI_Request *request)
{
    int counts[64];

    for (int i = 0; i < test.size; i++)
        counts[i] = count / test.size;
    switch (which) {
    case ALLREDUCE:
        return MPI_Iallreduce(send->data, recv->data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, request);
    case REDUCE:
        return MPI_Ireduce(send->data, recv->data, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD, request);
    case REDUCE_SCATTER:
        return MPI_Ireduce_scatter(send->data, recv->data, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                                   request);
    default:
        return MPI_Ireduce_scatter_block(send->data, recv->data, count / test.size, MPI_FLOAT, MPI_SUM,
                                         MPI_COMM_WORLD, request);
    }
}

/* A call by itself, then one behind others of its kind that are under way. Large enough for more CTAs than calls have that overlap. */
static void run_beside(enum which which)
{
    enum { COUNT = 1 << 20, OTHERS = 3, ALONE = 3 };
    const size_t bytes = COUNT * sizeof(float);
    const bool has = which != REDUCE || test.rank == 0;
    const size_t result = !has                                    ? 0
                          : which == ALLREDUCE || which == REDUCE ? bytes
                                                                  : bytes / (size_t)test.size;
    struct test_buffer send, recv, other[OTHERS];
    MPI_Request request[OTHERS + 1];
    float *values = test_alloc(bytes);
    char *alone = test_alloc(bytes), *beside = test_alloc(bytes);

    for (int i = 0; i < COUNT; i++)
        values[i] = (float)number(test.rank, i);
    test_buffer_make(&send, test_memory_kind(0), bytes, 0, false);
    test_buffer_make(&recv, test_memory_kind(1), bytes, 0, false);
    test_buffer_write(&send, 0, values, bytes);
    for (int i = 0; i < OTHERS; i++)
        test_buffer_make(&other[i], test_memory_kind((uint64_t)i), bytes, 0, false);
    for (int use = 0; use < ALONE; use++) { /* the first ones are not yet direct */
        test_ok(start(which, &send, &recv, COUNT, &request[0]), names[which]);
        test_ok(MPI_Wait(&request[0], MPI_STATUS_IGNORE), "MPI_Wait");
        test_ways_count(names[which]);
    }
    test_buffer_read(&recv, 0, alone, result);
    for (int turn = 0; turn < 4; turn++) {
        for (int i = 0; i < OTHERS; i++)
            test_ok(start(which, &send, &other[i], COUNT, &request[i]), names[which]);
        test_ok(start(which, &send, &recv, COUNT, &request[OTHERS]), names[which]);
        test_ok(MPI_Waitall(OTHERS + 1, request, MPI_STATUSES_IGNORE), "MPI_Waitall");
        test_buffer_read(&recv, 0, beside, result);
        if (memcmp(alone, beside, result) != 0)
            test_fail("turn %d: other bits beside %d calls than alone", turn, OTHERS);
    }
    for (int i = 0; i < OTHERS; i++)
        test_buffer_free(&other[i]);
    test_buffer_free(&recv);
    test_buffer_free(&send);
    free(values);
    free(alone);
    free(beside);
}

int main(int argc, char **argv)
{
    bool beside = false;
    const struct test_option own[] = {
        {.name = "beside", .flag = &beside, .help = "calls that overlap, and nothing else"},
        TEST_WAYS_EXPECT,
        {.name = NULL}};

    test_start(&argc, &argv, MPI_THREAD_SINGLE, own);
    test_ways_start();
    for (int which = 0; which < SCAN && beside; which++) {
        if (test_begin("determinism/%s/beside", names[which])) {
            run_beside((enum which)which);
            test_end();
        }
    }
    for (int which = 0; which < COLLECTIVES && !beside; which++) {
        for (int wide = 0; wide < 2; wide++) {
            if (!test_begin("determinism/%s/%s", names[which], wide ? "MPI_DOUBLE" : "MPI_FLOAT"))
                continue;
            for (size_t place = 0; place < sizeof places / sizeof places[0]; place++) {
                run((enum which)which, (int)place, wide, false);
                if (which != REDUCE)
                    run((enum which)which, (int)place, wide, true);
            }
            test_end();
        }
    }
    test_ways_stop();
    return test_finish();
}
