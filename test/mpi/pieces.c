/*
 * Buffers that lie in several pieces of memory (cuMemCreate, cuMemMap), call after call, and with other pieces at the same addresses
 * on all ranks or on one: peers write to them directly where they can be exported, and never to what was there before. `--by=P`: calls are
 * made to go by protocol P, which is one that writes directly, and have to do so from the second on that finds the buffers unchanged.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test/mpi/counters.h"
#include "test/mpi/memory.h"
#include "test/mpi/support.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

enum { LIVES = 4, USES = 3 };

enum collective { ALLREDUCE, ALLGATHER, BCAST, COLLECTIVES };
static const char *const collective_names[COLLECTIVES] = {"allreduce", "allgather", "bcast"};

static const char *by; /* NULL: any way will do */
static int trouble;    /* not 0: why the kernel lets this process take no descriptor of another */

static int value(uint64_t key, int rank, size_t i)
{
    return (int)((key + (uint64_t)rank * 1000003 + i * (i % 7 + 1)) % 1000000);
}

/* `count` elements of each rank. */
struct call {
    enum collective collective;
    size_t count;
    struct test_buffer send, recv;
    int *image;
};

static size_t received(const struct call *call)
{
    return call->collective == ALLGATHER ? call->count * (size_t)test.size : call->count;
}

static void call_open(struct call *call, enum collective collective, enum test_memory kind, size_t bytes)
{
    call->collective = collective;
    call->count = bytes / sizeof(int);
    call->image = test_alloc(received(call) * sizeof(int));
    test_buffer_make(&call->send, kind, call->count * sizeof(int), 0, false);
    test_buffer_make(&call->recv, kind, received(call) * sizeof(int), 0, false);
}

static void call_close(struct call *call)
{
    test_buffer_free(&call->send);
    test_buffer_free(&call->recv);
    free(call->image);
}

/* A broadcast has one buffer. */
static void fill(struct call *call, uint64_t key)
{
    const size_t bytes = call->count * sizeof(int);

    for (size_t i = 0; i < call->count; i++)
        call->image[i] = value(key, test.rank, i);
    test_buffer_poison(&call->recv);
    if (call->collective != BCAST)
        test_buffer_write(&call->send, 0, call->image, bytes);
    else if (test.rank == 0)
        test_buffer_write(&call->recv, 0, call->image, bytes);
}

static void run(struct call *call)
{
    const int count = (int)call->count;

    if (call->collective == ALLREDUCE)
        test_ok(MPI_Allreduce(call->send.data, call->recv.data, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD),
                "MPI_Allreduce");
    else if (call->collective == ALLGATHER)
        test_ok(
            MPI_Allgather(call->send.data, count, MPI_INT, call->recv.data, count, MPI_INT, MPI_COMM_WORLD),
            "MPI_Allgather");
    else
        test_ok(MPI_Bcast(call->recv.data, count, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
}

static int expected(const struct call *call, uint64_t key, size_t i)
{
    int sum = 0;

    if (call->collective == ALLGATHER)
        return value(key, (int)(i / call->count), i % call->count);
    if (call->collective == BCAST)
        return value(key, 0, i);
    for (int rank = 0; rank < test.size; rank++)
        sum += value(key, rank, i);
    return sum;
}

static void check(struct call *call, uint64_t key, const char *what)
{
    test_buffer_read(&call->recv, 0, call->image, received(call) * sizeof(int));
    for (size_t i = 0; i < received(call); i++) {
        if (call->image[i] == expected(call, key, i))
            continue;
        test_fail("%s: element %zu of %zu is %d, not %d", what, i, received(call), call->image[i],
                  expected(call, key, i));
        break;
    }
    test_buffer_check(&call->send, what);
    test_buffer_check(&call->recv, what);
}

/* How many calls went by plans of protocol `by`, by the list of plans at the end of the variable's description. */
static unsigned long long direct_calls(MPI_T_pvar_handle handle)
{
    unsigned long long values[TEST_VALUES_MAX] = {0}, sum = 0;
    const char *list = strrchr(test_opened.help, ':');

    if (handle == NULL || list == NULL ||
        MPI_T_pvar_read(test_counters_session, handle, values) != MPI_SUCCESS) {
        test_fail("the calls of each plan cannot be read");
        return 0;
    }
    for (const char *at = list; at != NULL; at = strchr(at + 1, ',')) {
        char protocol[20] = "";
        int index = -1;
        if (sscanf(at + 1, " %d %*[^/,]/%19[a-z0-9]", &index, protocol) == 2 && strcmp(protocol, by) == 0)
            sum += values[index];
    }
    MPI_T_pvar_handle_free(test_counters_session, &handle);
    return sum;
}

/* After the first life all ranks get other pieces, after the second one rank, after the third the others. */
static bool gets_other_pieces(int life)
{
    return life == 0 || (life == 1 && test.rank == test.size - 1) ||
           (life == 2 && test.rank != test.size - 1);
}

static void test_lives(enum collective collective, enum test_memory kind, size_t bytes)
{
    MPI_T_pvar_handle plans = NULL;
    struct call call;
    unsigned long long direct;

    if (!test_begin("pieces/%s_%s_%zu", collective_names[collective], test_memory_name(kind), bytes))
        return;
    call_open(&call, collective, kind, bytes);
    if (by != NULL)
        plans = test_variable_open("coll_gpucoll_plan_calls");
    for (int life = 0; life < LIVES; life++) {
        for (int use = 0; use < USES; use++) {
            const uint64_t key = test_mix3(test.seed, (uint64_t)life, (uint64_t)use) % 1000;
            char what[60];
            fill(&call, key);
            run(&call);
            snprintf(what, sizeof what, "life %d, use %d", life, use);
            check(&call, key, what);
        }
        if (kind == TEST_PIECES && gets_other_pieces(life)) {
            test_buffer_remap(&call.send);
            test_buffer_remap(&call.recv);
        }
    }
    direct = by != NULL ? direct_calls(plans) : 0;
    if (by != NULL && kind == TEST_PIECES && trouble == 0 && test.size > 1 && direct < LIVES * (USES - 1))
        test_fail("%llu calls went by %s, not %d or more", direct, by, LIVES * (USES - 1));
    if (by != NULL && kind == TEST_VMM && direct > 0)
        test_fail("%llu calls went by %s, in memory that cannot be exported", direct, by);
    call_close(&call);
    test_end();
}

/* May ranks take descriptors of each other, as containers may not? Gpucoll does what it can for that once it shares the first piece. */
static int find_trouble(void)
{
    int own = (int)getpid(), next = own, mine = 0, all;

    MPI_Sendrecv(&own, 1, MPI_INT, (test.rank + 1) % test.size, 1, &next, 1, MPI_INT,
                 (test.rank + test.size - 1) % test.size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    int process = (int)syscall(SYS_pidfd_open, next, 0);
    int fd = process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, STDERR_FILENO, 0);
    if (fd < 0 && errno != EBADF)
        mine = errno;
    if (fd >= 0)
        close(fd);
    if (process >= 0)
        close(process);
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

static void warm(void)
{
    struct call call;

    if (!test_begin("pieces/warm"))
        return;
    call_open(&call, ALLREDUCE, TEST_PIECES, 300000);
    for (int use = 0; use < USES; use++) {
        fill(&call, (uint64_t)use);
        run(&call);
        check(&call, (uint64_t)use, "warm");
    }
    call_close(&call);
    test_end();
}

int main(int argc, char **argv)
{
    const struct test_option own[] = {{"by", NULL, &by, "the protocol that direct calls have to take"},
                                      {NULL, NULL, NULL, NULL}};

    test_start(&argc, &argv, MPI_THREAD_SINGLE, own);
    test_counters_start();
    warm();
    trouble = find_trouble();
    /* Ranks that share a GPU have no kernels that wait for each other. */
    if (by != NULL && strcmp(by, "direct") == 0 && test_memory_has_gpu() && test_memory_gpus() < test.size)
        by = NULL;
    const size_t sizes[] = {200004,
                            test_memory_has_gpu() ? 5000004 : 800004}; /* in two pieces, and in more */
    if (trouble != 0 && test.rank == 0)
        printf("descriptors of other ranks are not to be had: %s\n", strerror(trouble));
    for (int collective = 0; collective < COLLECTIVES; collective++) {
        for (int size = 0; size < 2; size++) {
            test_lives((enum collective)collective, TEST_PIECES, sizes[size]);
            if (test_memory_has_gpu())
                test_lives((enum collective)collective, TEST_VMM, sizes[size]);
        }
    }
    test_counters_stop();
    return test_finish();
}
