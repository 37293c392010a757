/*
 * Programs that go wrong while the other ranks are in a collective on device memory; test/mpi/faults.sh runs
 * them and looks at what they leave behind and at what is said.
 *
 *   --mode=abort     a rank calls MPI_Abort           --mode=kill   a rank kills itself
 *   --mode=inside, moving: a rank is killed in the middle of a large MPI_Allreduce, MPI_Allgather, after many
 *   --mode=exit      a rank ends without a word       --mode=late   a rank never makes the call
 *   --mode=differ    a rank passes another count      --mode=none   nothing is wrong
 *   --mode=wait      no rank goes on, ever: the last one waits for a message, and in a second thread for a signal; the others wait for it
 *   --mode=late_team, late_staged: a rank comes late to the first call on a communicator, to a nonblocking one
 *   --mode=first_killed, first_revoked: with fault tolerance, the first call on a communicator, a nonblocking one, meets a rank that kills itself
 *                    before it, or one that revokes the communicator
 *   --mode=late_freed: it never comes to a nonblocking one, whose communicator is freed before the call fails
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/mpi/memory.h"
#include "test/mpi/support.h"

enum { COUNT = 1000, LARGE = 1 << 20, ROUNDS = 20, LATE_S = 12, DELAY_S = 8, PATIENCE_S = 25, IDLE_S = 10 };

static const char *mode = "none";
static const struct test_option options[] = {{"mode", NULL, &mode, "what goes wrong, in the last rank"}, {0}};

/* The sum of rank + 1 in every element. */
static int reduce(struct test_buffer *send, struct test_buffer *recv, int count)
{
    size_t bytes = (size_t)count * sizeof(float);
    float *values = test_alloc(bytes);
    int code;

    for (int i = 0; i < count; i++)
        values[i] = (float)(test.rank + 1);
    test_buffer_write(send, 0, values, bytes);
    code = MPI_Allreduce(send->data, recv->data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    test_buffer_read(recv, 0, values, bytes);
    for (int i = 0; i < count && code == MPI_SUCCESS; i++)
        if (values[i] != (float)(test.size * (test.size + 1) / 2))
            code = MPI_ERR_UNKNOWN;
    free(values);
    return code;
}

static void go_wrong(MPI_Comm comm)
{
    printf("REPORT rank %d goes wrong\n", test.rank);
    fflush(stdout);
    test_sleep(0.2); /* it has to pass mpirun */
    if (strcmp(mode, "abort") == 0) {
        MPI_Abort(MPI_COMM_WORLD, 7);
    } else if (strcmp(mode, "kill") == 0 || strcmp(mode, "first_killed") == 0) {
        raise(SIGKILL);
    } else if (strcmp(mode, "first_revoked") == 0) {
#ifdef OMPI_HAVE_MPI_EXT_FTMPI
        MPIX_Comm_revoke(comm);
#else
        (void)comm;
#endif
    } else if (strcmp(mode, "exit") == 0) {
        _Exit(0);
    } else if (strcmp(mode, "late") == 0) {
        test_sleep(LATE_S);
        printf("REPORT rank %d slept and leaves\n", test.rank);
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
}

static bool is_killed_inside(void)
{
    return strcmp(mode, "inside") == 0 || strcmp(mode, "moving") == 0;
}

static double after; /* seconds, until this process is killed */

static void *kill_later(void *nothing)
{
    (void)nothing;
    test_sleep(after);
    raise(SIGKILL);
    return NULL;
}

/* Calls without an end, in the middle of one of which the last rank is killed: half of a call's time after it has begun one. */
static int calls_until_killed(const struct test_buffer *send, struct test_buffer *recv)
{
    double began = test_seconds();
    int code = MPI_SUCCESS;

    for (int round = 0; code == MPI_SUCCESS; round++) {
        if (round == ROUNDS && test.rank == test.size - 1) {
            pthread_t thread;
            after = (test_seconds() - began) / ROUNDS / 2;
            pthread_create(&thread, NULL, kill_later, NULL);
        }
        code = strcmp(mode, "moving") == 0
                   ? MPI_Allgather(send->data, LARGE / test.size, MPI_FLOAT, recv->data, LARGE / test.size,
                                   MPI_FLOAT, MPI_COMM_WORLD)
                   : MPI_Allreduce(send->data, recv->data, LARGE, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
    return code;
}

static atomic_int idle = -1; /* from then on not negative: an error of the driver, or none */

static void *await_device(void *nothing)
{
    atomic_store(&idle, test_memory_synchronize());
    return nothing;
}

/* After an error nothing may be left on the device that waits for the dead: who synchronises with it, as an application does that frees memory,
 * would wait for ever. */
static void report_device(void)
{
    double until = test_seconds() + IDLE_S;
    pthread_t thread;

    pthread_create(&thread, NULL, await_device, NULL);
    while (atomic_load(&idle) < 0 && test_seconds() < until)
        test_sleep(0.01);
    if (atomic_load(&idle) < 0)
        printf("REPORT rank %d: its device is still busy after %d s\n", test.rank, IDLE_S);
    else
        printf("REPORT rank %d: its device has no work left (error %d)\n", test.rank, atomic_load(&idle));
}

/* Open MPI 5.0 has a class of errors for the end of a process. */
static const char *name_result(int code)
{
    int class = MPI_SUCCESS;

    MPI_Error_class(code, &class);
#ifdef MPI_ERR_PROC_FAILED
    if (class == MPI_ERR_PROC_FAILED)
        return "an error: MPI_ERR_PROC_FAILED";
#endif
#ifdef MPI_ERR_REVOKED
    if (class == MPI_ERR_REVOKED)
        return "an error: MPI_ERR_REVOKED";
#endif
    return class == MPI_SUCCESS ? "success" : class == MPI_ERR_OTHER ? "an error: MPI_ERR_OTHER" : "an error";
}

/* Without gpucoll, Open MPI takes device memory only if it was built for it. */
static bool has_gpucoll(void)
{
    const char *accelerator = getenv("OMPI_MCA_coll_gpucoll_accelerator");
    const char *enable = getenv("OMPI_MCA_coll_gpucoll_enable");
    return (accelerator == NULL || strcmp(accelerator, "none") != 0) &&
           (enable == NULL || strcmp(enable, "0") != 0);
}

/* Calls of the error handler: Open MPI 4.1 calls MPI_COMM_WORLD's instead for a collective's request. */
static int handled;

static void handle(MPI_Comm *comm, int *code, ...)
{
    handled += *comm != MPI_COMM_NULL && *code != MPI_SUCCESS;
}

/* The request is the last that knows the communicator, whose error handler is called for it. */
static void fail_freed(const struct test_buffer *send, struct test_buffer *recv, MPI_Comm comm)
{
    MPI_Errhandler handler;
    MPI_Request request;
    int code;

    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Errhandler_free(&handler);
    MPI_Iallreduce(send->data, recv->data, COUNT, MPI_FLOAT, MPI_SUM, comm, &request);
    MPI_Comm_free(&comm);
    code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS || handled > 1)
        printf("REPORT rank %d: wrong result of a call that fails: %d, the handler was called %d times\n",
               test.rank, code, handled);
}

/* Does the first call on a communicator go wrong? */
static bool is_first(void)
{
    return strncmp(mode, "first_", 6) == 0;
}

static int call_first(const struct test_buffer *send, struct test_buffer *recv, MPI_Comm comm)
{
    MPI_Request request;
    int code = MPI_Iallreduce(send->data, recv->data, COUNT, MPI_FLOAT, MPI_SUM, comm, &request);

    return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
}

/* Waits that gpucoll does not end, but tells of; or, of `late_freed`, ends. */
static void come_late(const struct test_buffer *send, struct test_buffer *recv)
{
    bool late = test.rank == test.size - 1;
    MPI_Comm comm;
    MPI_Request request;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (strcmp(mode, "late_freed") == 0) {
        MPI_Allreduce(send->data, recv->data, COUNT, MPI_FLOAT, MPI_SUM, comm);
        if (!late) {
            fail_freed(send, recv, comm);
            return;
        }
    }
    if (late)
        test_sleep(DELAY_S);
    if (strcmp(mode, "late_team") == 0) {
        MPI_Allreduce(send->data, recv->data, COUNT, MPI_FLOAT, MPI_SUM, comm);
    } else if (strcmp(mode, "late_staged") == 0) {
        MPI_Iallreduce(send->data, recv->data, COUNT, MPI_FLOAT, MPI_SUM, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&comm);
}

static void *pause_for_ever(void *nothing)
{
    for (;;)
        pause();
    return nothing;
}

/* Until the watchdog or the time limit of the run ends it (test/mpi/stacks.sh). */
static void wait_for_ever(void)
{
    pthread_t thread;
    char token;

    test_progress("waiting for ever");
    if (test.rank < test.size - 1)
        MPI_Barrier(MPI_COMM_WORLD); /* which the last rank never enters */
    pthread_create(&thread, NULL, pause_for_ever, NULL);
    MPI_Recv(&token, 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* So that none is ended before its report: rank 0 hears of those of the first `count` ranks, the others wait for it to end the job. */
static void await_reports(int count)
{
    double until = test_seconds() + PATIENCE_S;
    char token = 0;

    if (test.rank != 0)
        MPI_Send(&token, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
    for (int rank = 1; rank < (test.rank == 0 ? count : 1); rank++) {
        MPI_Request request;
        int done = 0;
        MPI_Irecv(&token, 1, MPI_CHAR, rank, 0, MPI_COMM_WORLD, &request);
        while (!done && test_seconds() < until)
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
    /* What was printed has to pass mpirun, too. */
    test_sleep(test.rank == 0 ? 0.5 : PATIENCE_S);
}

int main(int argc, char **argv)
{
    struct test_buffer send, recv;
    MPI_Comm comm = MPI_COMM_NULL;
    bool wrong, waits;
    int code;

    test_start(&argc, &argv, MPI_THREAD_SINGLE, options);
    if (strcmp(mode, "wait") == 0)
        wait_for_ever();
    wrong = test.rank == test.size - 1 && strcmp(mode, "none") != 0;
    waits = strncmp(mode, "late_", 5) == 0;
    const enum test_memory kind = has_gpucoll() ? TEST_DEVICE : TEST_HOST;
    const size_t bytes = (is_killed_inside() ? LARGE : COUNT) * sizeof(float);
    test_buffer_make(&send, kind, bytes, 0, false);
    test_buffer_make(&recv, kind, bytes, 0, false);
    for (int round = 0; round < ROUNDS; round++) {
        code = reduce(&send, &recv, COUNT);
        if (code != MPI_SUCCESS)
            printf("REPORT rank %d: wrong result in round %d (%d)\n", test.rank, round, code);
    }
    if (is_first())
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (waits)
        come_late(&send, &recv);
    if (wrong && !waits && strcmp(mode, "differ") != 0)
        go_wrong(comm);
    if (!waits && strcmp(mode, "none") != 0) {
        code = is_killed_inside() ? calls_until_killed(&send, &recv)
               : is_first()       ? call_first(&send, &recv, comm)
                                  : reduce(&send, &recv, wrong ? COUNT / 2 : COUNT);
        printf("REPORT rank %d: the call returned %s\n", test.rank, name_result(code));
        report_device();
        fflush(stdout);
        await_reports(strcmp(mode, "differ") == 0 ? test.size : test.size - 1);
        MPI_Abort(MPI_COMM_WORLD, 8);
    }
    printf("REPORT rank %d: all is well\n", test.rank);
    test_buffer_free(&send);
    test_buffer_free(&recv);
    MPI_Finalize();
    test_memory_stop();
    return 0;
}
