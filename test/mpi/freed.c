/*
 * Datatypes, operators and communicators that the application frees while calls that were given them are under way, or before
 * a persistent request that was made of them is started. Others take their places in memory at once, so that a call which looked
 * at them would go wrong.
 */
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/mpi/form.h"
#include "test/mpi/memory.h"
#include "test/mpi/sums.h"
#include "test/mpi/support.h"

enum {
    COUNT = 50,
    EXTENT = 3,
    ROUNDS = 6,
    CALLS = 3
}; /* elements, integers an element takes, of which two are data */

/* An allreduce, an alltoall and an alltoallw, of elements that are two integers with a gap. */
struct calls {
    MPI_Comm comm;
    uint64_t key;
    struct test_buffer send[CALLS];
    struct test_buffer recv[CALLS];
    MPI_Request requests[CALLS];
    int *counts; /* of the alltoallw, which are to stay */
    int *places;
    MPI_Datatype *types;
};

static void add_elements(void *in, void *inout, int *count, MPI_Datatype *type)
{
    MPI_Aint low, extent;

    MPI_Type_get_extent(*type, &low, &extent);
    if (extent != EXTENT * (MPI_Aint)sizeof(int))
        test_fail("the operator was called with another type, of %ld bytes", (long)extent);
    for (int i = 0; i < *count * EXTENT; i += EXTENT) {
        ((int *)inout)[i] += ((const int *)in)[i];
        ((int *)inout)[i + 2] += ((const int *)in)[i + 2];
    }
}

static void never_called(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)in;
    (void)inout;
    (void)count;
    (void)type;
    test_fail("an operator was called that no call was given");
}

static MPI_Datatype make_type(int gap)
{
    MPI_Datatype type;

    MPI_Type_vector(2, 1, gap, MPI_INT, &type);
    MPI_Type_commit(&type);
    return type;
}

/* What `from` gives `to`, the same to all in the allreduce; -1 in the gap. */
static int value(const struct calls *calls, int call, int from, int to, int i)
{
    if (i % EXTENT == 1)
        return -1;
    return (int)(test_mix3(calls->key + (uint64_t)call, (uint64_t)(from * test.size + to), (uint64_t)i) %
                 1000);
}

static int blocks_of(int call)
{
    return call == 0 ? 1 : test.size;
}

static void fill(struct calls *calls, uint64_t key)
{
    int *image = test_alloc((size_t)test.size * COUNT * EXTENT * sizeof *image);

    calls->key = key;
    for (int call = 0; call < CALLS; call++) {
        int ints = blocks_of(call) * COUNT * EXTENT;
        for (int i = 0; i < ints; i++)
            image[i] = value(calls, call, test.rank, i / (COUNT * EXTENT), i % (COUNT * EXTENT));
        test_buffer_write(&calls->send[call], 0, image, (size_t)ints * sizeof *image);
        for (int i = 0; i < ints; i++)
            image[i] = -1;
        test_buffer_write(&calls->recv[call], 0, image, (size_t)ints * sizeof *image);
    }
    free(image);
}

static int expected(const struct calls *calls, int call, int i)
{
    int sum = 0;

    if (call > 0)
        return value(calls, call, i / (COUNT * EXTENT), test.rank, i % (COUNT * EXTENT));
    for (int rank = 0; rank < test.size && i % EXTENT != 1; rank++)
        sum += value(calls, call, rank, 0, i);
    return i % EXTENT == 1 ? -1 : sum;
}

static void check(const struct calls *calls, const char *what)
{
    int *seen = test_alloc((size_t)test.size * COUNT * EXTENT * sizeof *seen);

    for (int call = 0; call < CALLS; call++) {
        int ints = blocks_of(call) * COUNT * EXTENT;
        test_buffer_read(&calls->recv[call], 0, seen, (size_t)ints * sizeof *seen);
        for (int i = 0; i < ints; i++) {
            if (seen[i] == expected(calls, call, i))
                continue;
            test_fail("%s, call %d: integer %d is %d, not %d", what, call, i, seen[i],
                      expected(calls, call, i));
            break;
        }
        test_buffer_check(&calls->recv[call], what);
    }
    free(seen);
}

static void open_calls(struct calls *calls, uint64_t key)
{
    memset(calls, 0, sizeof *calls);
    for (int call = 0; call < CALLS; call++) {
        size_t bytes = (size_t)(blocks_of(call) * COUNT * EXTENT) * sizeof(int);
        /* With an own operator, host buffers are Open MPI's, which does not keep the operator of a persistent request. */
        bool any = call > 0;
        test_buffer_make(&calls->send[call], any ? test_memory_kind(key + (uint64_t)call) : TEST_DEVICE,
                         bytes, 0, false);
        test_buffer_make(&calls->recv[call], any ? test_memory_kind(key + (uint64_t)call + 1) : TEST_DEVICE,
                         bytes, 0, false);
    }
    calls->counts = test_alloc((size_t)test.size * sizeof *calls->counts);
    calls->places = test_alloc((size_t)test.size * sizeof *calls->places);
    calls->types = test_alloc((size_t)test.size * sizeof *calls->types);
    for (int i = 0; i < test.size; i++) {
        calls->counts[i] = COUNT;
        calls->places[i] = i * COUNT * EXTENT * (int)sizeof(int);
    }
    fill(calls, key);
}

static void close_calls(struct calls *calls)
{
    for (int call = 0; call < CALLS; call++) {
        test_buffer_free(&calls->send[call]);
        test_buffer_free(&calls->recv[call]);
    }
    free(calls->counts);
    free(calls->places);
    free(calls->types);
}

#define ISSUE(Name, IName, ...) test_ok(TEST_ISSUE(form, request, Name, IName, __VA_ARGS__), "MPI_" #IName)

/* Gives the calls a type and an operator, which are freed as soon as they are given, and so is the communicator. */
static void issue(struct calls *calls, enum test_form form)
{
    void *const *send = (void *const[]){calls->send[0].data, calls->send[1].data, calls->send[2].data};
    void *const *recv = (void *const[]){calls->recv[0].data, calls->recv[1].data, calls->recv[2].data};
    MPI_Datatype inner = make_type(2), type, other[4];
    MPI_Request *request = calls->requests;
    MPI_Op op, other_op;

    MPI_Type_create_resized(inner, 0, EXTENT * sizeof(int), &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&inner);
    MPI_Op_create(add_elements, 1, &op);
    for (int i = 0; i < test.size; i++)
        calls->types[i] = type;
    ISSUE(Allreduce, Iallreduce, send[0], recv[0], COUNT, type, op, calls->comm);
    request++;
    ISSUE(Alltoall, Ialltoall, send[1], COUNT, type, recv[1], COUNT, type, calls->comm);
    request++;
    ISSUE(Alltoallw, Ialltoallw, send[2], calls->counts, calls->places, calls->types, recv[2], calls->counts,
          calls->places, calls->types, calls->comm);
    MPI_Op_free(&op);
    MPI_Type_free(&type);
    test_ok(MPI_Comm_free(&calls->comm), "MPI_Comm_free");
    for (int i = 0; i < 4; i++)
        other[i] = make_type(5 + i);
    MPI_Op_create(never_called, 1, &other_op);
    MPI_Op_free(&other_op);
    for (int i = 0; i < 4; i++)
        MPI_Type_free(&other[i]);
}

/* Behind a sum that cannot be decided before the last rank has come. */
static void test_nonblocking(void)
{
    if (!test_begin("freed/nonblocking"))
        return;
    for (int round = 0; round < ROUNDS; round++) {
        struct calls calls;
        struct sum first;
        open_calls(&calls, test_mix2(test.seed, (uint64_t)round));
        sum_open(&first, (uint64_t)round, 100, TEST_DEVICE);
        test_ok(MPI_Comm_dup(MPI_COMM_WORLD, &calls.comm), "MPI_Comm_dup");
        if (test.rank == round % test.size)
            test_sleep(0.005);
        sum_post(&first, calls.comm);
        issue(&calls, TEST_NONBLOCKING);
        test_ok(MPI_Waitall(CALLS, calls.requests, MPI_STATUSES_IGNORE), "MPI_Waitall");
        sum_wait(&first);
        check(&calls, "nonblocking");
        sum_close(&first);
        close_calls(&calls);
    }
    test_end();
}

static long resident_kib(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1)
        test_fail("/proc/self/statm does not tell the resident memory");
    if (file != NULL)
        fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Seconds that a call takes, on the slowest rank. */
static double time_of_call(const struct test_buffer *send, const struct test_buffer *recv)
{
    enum { TIMED = 100 };
    double longest, seconds = MPI_Wtime();

    for (int call = 0; call < TIMED; call++) {
        MPI_Request request;
        test_ok(MPI_Iallreduce(send->data, recv->data, COUNT, MPI_INT, MPI_BOR, MPI_COMM_WORLD, &request),
                "MPI_Iallreduce");
        test_ok(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    }
    seconds = (MPI_Wtime() - seconds) / TIMED;
    test_ok(MPI_Allreduce(&seconds, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
    return longest;
}

/* So many calls, whose requests are freed at once. */
static void forget(struct test_buffer *send, struct test_buffer *recv, int calls, double apart)
{
    for (int call = 0; call < calls; call++) {
        const double begun = MPI_Wtime();
        MPI_Request request;
        test_ok(MPI_Iallreduce(send->data, recv->data, COUNT, MPI_INT, MPI_BOR, MPI_COMM_WORLD, &request),
                "MPI_Iallreduce");
        test_ok(MPI_Request_free(&request), "MPI_Request_free");
        test_ok(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
        while (MPI_Wtime() - begun < apart)
            sched_yield();
    }
}

/* Requests that are freed at once, in a program whose other calls need no progress: those that are over are not to be kept, at some KiB each. Calls come no faster than
 * they end; but on a busy machine many may be under way at once after all, and take as much. What they have taken is there for the calls of the next round, whereas
 * what is kept takes as much more in each. The buffers stay: nobody is told when the last call is over. */
static void test_forgotten(void)
{
    enum { FIRST = 500, MORE = 2000, MOST_KIB = 2500, LOOKS = 3 };
    long grown = LONG_MAX;

    if (!test_begin("freed/forgotten"))
        return;
    struct test_buffer send, recv;
    test_buffer_make(&send, TEST_DEVICE, COUNT * sizeof(int), 0, true);
    test_buffer_make(&recv, TEST_DEVICE, COUNT * sizeof(int), 0, true);
    const double apart = 1.5 * time_of_call(&send, &recv);
    forget(&send, &recv, FIRST, apart);
    /* With nothing between them by which what is over could go. */
    for (int look = 0; look < LOOKS; look++) {
        const long before = resident_kib();
        forget(&send, &recv, MORE, apart);
        const long here = resident_kib() - before;
        grown = here < grown ? here : grown;
    }
    if (grown > MOST_KIB)
        test_fail("%d calls whose requests were freed have taken %ld KiB", MORE, grown);
    test_end();
}

#ifdef TEST_PERSISTENT
static void test_persistent(void)
{
    if (!test_begin("freed/persistent"))
        return;
    for (int round = 0; round < ROUNDS; round++) {
        struct calls calls;
        open_calls(&calls, test_mix2(test.seed, (uint64_t)round + 100));
        test_ok(MPI_Comm_dup(MPI_COMM_WORLD, &calls.comm), "MPI_Comm_dup");
        issue(&calls, TEST_PERSISTENT_FORM);
        for (int start = 0; start < 3; start++) {
            fill(&calls, test_mix3(test.seed, (uint64_t)round, (uint64_t)start));
            test_ok(MPI_Startall(CALLS, calls.requests), "MPI_Startall");
            test_ok(MPI_Waitall(CALLS, calls.requests, MPI_STATUSES_IGNORE), "MPI_Waitall");
            check(&calls, "persistent");
        }
        for (int call = 0; call < CALLS; call++)
            test_ok(MPI_Request_free(&calls.requests[call]), "MPI_Request_free");
        close_calls(&calls);
    }
    test_end();
}
#endif

int main(int argc, char **argv)
{
    test_start(&argc, &argv, MPI_THREAD_SINGLE, NULL);
    test_nonblocking();
    test_forgotten();
#ifdef TEST_PERSISTENT
    test_persistent();
#endif
    return test_finish();
}
