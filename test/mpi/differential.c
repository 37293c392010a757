/*
 * The differential test: collectives drawn at random (which one, form, communicator, root, counts, places, types, operators, kinds
 * of memory, alignment, in place) and compared byte by byte with what MPI says must come out, which is computed here on the host
 * from what the ranks pass. The same draw runs without gpucoll too, on host memory (tests.list): so Open MPI's own collectives are
 * compared with the same bytes. Several calls may be under way at once and are completed in any order.
 *
 * What is drawn depends on --seed and the number of a call alone. A failure says how to repeat it: --seed=S --from=N --calls=M.
 * GPUCOLL_DIFFERENTIAL_CALLS and GPUCOLL_DIFFERENTIAL_SEED in the environment go before the options.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/mpi/differential.h"
#include "test/mpi/interrupt.h"
#include "test/mpi/memory.h"
#include "test/mpi/support.h"
#include "test/mpi/ways.h"

enum { CALLS = 10000, CHUNK = 2000, COMPLAINTS = 10 };

/* How the requests of a window are completed. */
enum { ALL_AT_ONCE, ANY_OF_THEM, SOME_OF_THEM, ONE_BY_ONE, POLLED, COMPLETIONS };

/* Which barrier each rank of the world has entered last, where all share memory: what a barrier promises. */
static _Atomic uint64_t *arrivals; /* NULL where the ranks share no memory */

static bool on_one_host(void)
{
    MPI_Comm host;
    int size;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &size);
    MPI_Comm_free(&host);
    return size == test.size;
}

/* Anonymous memory of rank 0, which the others map as well: nothing that could be left behind. */
static void arrivals_make(void)
{
    size_t bytes = sizeof *arrivals * (size_t)test.size;
    int where[2] = {(int)getpid(), -1}; /* process and file descriptor */
    int file = -1, mapped, all_mapped;
    char path[64];
    void *memory = MAP_FAILED;

    if (test.rank == 0)
        where[1] = memfd_create("arrivals", MFD_CLOEXEC);
    if (where[1] >= 0 && ftruncate(where[1], (off_t)bytes) != 0)
        test_fail("no memory for what the barriers are checked with");
    MPI_Bcast(where, 2, MPI_INT, 0, MPI_COMM_WORLD);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", where[0], where[1]);
    if (on_one_host())
        file = open(path, O_RDWR | O_CLOEXEC);
    if (file >= 0)
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    mapped = memory != MAP_FAILED;
    MPI_Allreduce(&mapped, &all_mapped, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (all_mapped)
        arrivals = memory;
    else if (test.rank == 0)
        test_say("SKIP barriers: what they promise is not checked, as the ranks share no memory\n");
    if (file >= 0)
        close(file);
}

/* Grows from call to call on every rank. */
static uint64_t stamp_of(const struct window *window, int i, int round)
{
    return (window->number + 1) * 2 * WINDOW_MAX + (uint64_t)(round * WINDOW_MAX + window->index[i]);
}

/* After a barrier: every rank on the other side must have entered it, and of one group all are there. */
static bool all_entered(const struct window *window, int i, int round)
{
    const struct test_comm *comm = window->calls[i].comm;

    /* The barrier of Open MPI's libnbc lets ranks of an intercommunicator go when some of the other group are there. */
    if (comm->inter && window->calls[i].form != TEST_BLOCKING)
        return true;
    for (int rank = 0; arrivals != NULL && rank < comm->remote_size; rank++) {
        if (atomic_load(&arrivals[comm->remote[rank]]) >= stamp_of(window, i, round))
            continue;
        test_fail("%s: it ended before rank %d entered it", window->calls[i].text, rank);
        return false;
    }
    return true;
}

static void check_call(const struct window *window, int i, int round)
{
    static int complaints;
    const struct test_call *call = &window->calls[i];
    bool right = test_side_check(&call->recv.side, "receive", call->text);

    right = test_side_check(&call->send.side, "send", call->text) && right;
    right = test_reduce_near(call, round) && right;
    if (call->row->has_no_data)
        right = all_entered(window, i, round) && right;
    if (!right && complaints++ < COMPLAINTS)
        printf("rank %d: wrong in round %d: %s. Repeat it: --seed=%llu --from=%llu --calls=1\n", test.rank,
               round, call->text, (unsigned long long)test.seed, (unsigned long long)window->number);
}

/* Some ranks come late now and then. */
static void dawdle(const struct test_call *call)
{
    uint64_t state = test_mix3(call->key, (uint64_t)test.rank, 0xdaa);
    if (test_chance(&state, 3))
        test_sleep(1e-6 * test_draw(&state, 500));
}

static bool start_call(const struct window *window, struct test_call *call, int i, int round)
{
    dawdle(call);
    if (call->row->has_no_data && arrivals != NULL)
        atomic_store(&arrivals[test.rank], stamp_of(window, i, round));
    return test_ok(call->form == TEST_PERSISTENT_FORM ? MPI_Start(&call->request) : test_issue(call),
                   call->text);
}

/* One or more of the active requests are done: their places into `done`, how many is returned. */
static int complete_some(MPI_Request *requests, int count, int how, uint64_t *state, int *done)
{
    int finished = 0;
    int first = test_draw(state, count);

    switch (how) {
    case ALL_AT_ONCE:
        test_ok(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE), "MPI_Waitall");
        for (int i = 0; i < count; i++)
            done[i] = i;
        return count;
    case ANY_OF_THEM:
        test_ok(MPI_Waitany(count, requests, done, MPI_STATUS_IGNORE), "MPI_Waitany");
        return 1;
    case SOME_OF_THEM:
        while (finished == 0)
            test_ok(MPI_Testsome(count, requests, &finished, done, MPI_STATUSES_IGNORE), "MPI_Testsome");
        return finished;
    case ONE_BY_ONE:
        test_ok(MPI_Wait(&requests[first], MPI_STATUS_IGNORE), "MPI_Wait");
        *done = first;
        return 1;
    default:
        for (*done = first; finished == 0; *done = finished != 0 ? *done : (*done + 1) % count)
            test_ok(MPI_Test(&requests[*done], &finished, MPI_STATUS_IGNORE), "MPI_Test");
        return 1;
    }
}

/* Completes the calls under way, `members` of the window, and checks each as soon as it is done. */
static void complete_calls(struct window *window, const int *members, int count, int round)
{
    uint64_t state = test_mix3(window->calls[0].key, (uint64_t)test.rank, (uint64_t)round);
    int how = test_draw(&state, COMPLETIONS);
    MPI_Request requests[WINDOW_MAX];
    int left[WINDOW_MAX], done[WINDOW_MAX];

    memcpy(left, members, (size_t)count * sizeof *left);
    while (count > 0) {
        int finished, kept = 0;
        bool gone[WINDOW_MAX] = {false};
        for (int i = 0; i < count; i++)
            requests[i] = window->calls[left[i]].request;
        finished = complete_some(requests, count, how, &state, done);
        if (finished < 0 || finished > count) {
            test_fail("%s: no request of the window is under way", window->calls[left[0]].text);
            return;
        }
        for (int i = 0; i < finished; i++)
            gone[done[i]] = true;
        for (int i = 0; i < count; i++) {
            window->calls[left[i]].request = requests[i];
            if (gone[i])
                check_call(window, left[i], round);
            else
                left[kept++] = left[i];
        }
        count = kept;
    }
}

/* A call that can run natively has to have done so. Of several at once, on communicators that hold each other's last lanes, the ranks may
 * decline some. */
static void check_way(const struct test_call *call, int round)
{
    if (!call->alone || (round > 0 && call->form != TEST_PERSISTENT_FORM) || !test_call_is_native(call))
        return;
    test_ways_after(1, call->text);
    test_ways_count(call->row->name);
}

/* The first round starts all calls, the second the persistent ones again. False if a call returned an error. */
static bool run_round(struct window *window, int round)
{
    int under_way[WINDOW_MAX];
    int count = 0;

    for (int i = 0; i < window->count; i++)
        if (round == 0 || window->calls[i].form == TEST_PERSISTENT_FORM)
            (window->calls[i].row->reduces ? test_reduce_fill : test_move_fill)(&window->calls[i], round);
    test_ways_before();
    for (int i = 0; i < window->count; i++) {
        struct test_call *call = &window->calls[i];
        if (round > 0 && call->form != TEST_PERSISTENT_FORM)
            continue;
        if (!start_call(window, call, i, round))
            return false;
        if (call->form == TEST_BLOCKING)
            check_call(window, i, round);
        else
            under_way[count++] = i;
    }
    if (count > 0)
        complete_calls(window, under_way, count, round);
    if (window->count > 0)
        check_way(&window->calls[0], round);
    return true;
}

static bool run_window(struct window *window)
{
    int persistent = 0;

    if (window->count == 0)
        return true;
    test_progress("--seed=%llu --from=%llu --calls=1, begins with %.200s", (unsigned long long)test.seed,
                  (unsigned long long)window->number, window->calls[0].text);
    for (int i = 0; i < window->count; i++) {
        struct test_call *call = &window->calls[i];
        if (call->form == TEST_PERSISTENT_FORM && !test_ok(test_issue(call), call->text))
            return false;
        persistent += call->form == TEST_PERSISTENT_FORM;
    }
    for (int round = 0; round < (persistent > 0 ? 2 : 1); round++)
        if (!run_round(window, round))
            return false;
    for (int i = 0; i < window->count; i++)
        if (window->calls[i].form == TEST_PERSISTENT_FORM)
            test_ok(MPI_Request_free(&window->calls[i].request), "MPI_Request_free");
    return true;
}

/* Calls from `number` on, on communicators of their own; the number behind them is returned. */
static uint64_t run_chunk(uint64_t number, uint64_t end)
{
    struct test_comm comms[TEST_COMMS_MAX];
    int comm_count;
    bool going = true;

    if (!test_begin("calls_from_%llu", (unsigned long long)number))
        return end;
    comm_count = test_comms_make(comms);
    while (number < end && going) {
        struct window window;
        window_open(&window, number, comms, comm_count);
        going = run_window(&window);
        window_close(&window);
        number += (uint64_t)window.length;
    }
    test_comms_free(comms, comm_count);
    test_end();
    return going ? number : end;
}

/* From the environment, else the option, else `otherwise`. */
static uint64_t setting(const char *variable, const char *option, uint64_t otherwise)
{
    const char *text = getenv(variable) != NULL ? getenv(variable) : option;
    return text != NULL ? strtoull(text, NULL, 0) : otherwise;
}

int main(int argc, char **argv)
{
    static const char *calls_text, *from_text;
    static bool interrupted;
    static const struct test_option own[] = {
        {.name = "calls", .text = &calls_text, .help = "how many calls"},
        {.name = "from",
         .text = &from_text,
         .help = "the number of the first call, one that begins a window"},
        {.name = "interrupted", .flag = &interrupted, .help = "stop the thread at random moments"},
        TEST_WAYS_NATIVE,
        TEST_WAYS_EXPECT,
        {.name = NULL}};
    double began;
    uint64_t from, number, end;

    test_memory_parse("drawn");
    test_start(&argc, &argv, MPI_THREAD_SINGLE, own);
    test_ways_start();
    test.seed = setting("GPUCOLL_DIFFERENTIAL_SEED", NULL, test.seed);
    from = number = from_text != NULL ? strtoull(from_text, NULL, 0) : 0;
    end = from + setting("GPUCOLL_DIFFERENTIAL_CALLS", calls_text, CALLS);
    if (test.rank == 0)
        printf("seed %llu, %d ranks\n", (unsigned long long)test.seed, test.size);
    test_layouts_make();
    arrivals_make();
    began = test_seconds();
    interrupted = interrupted && test_interrupt_start(test_mix3(test.seed, 0x1e, (uint64_t)test.rank));
    while (number < end)
        number = run_chunk(number, number + CHUNK < end ? number + CHUNK : end);
    if (interrupted)
        test_interrupt_stop();
    if (test.rank == 0)
        printf("%llu calls in %.1f s\n", (unsigned long long)(number - from), test_seconds() - began);
    test_layouts_free();
    test_ways_stop();
    return test_finish();
}
