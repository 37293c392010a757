/*
 * Processes with sessions (MPI 4) and no MPI_COMM_WORLD: sums on device memory, blocking and not, on communicators that are made from groups
 * and freed, in a session and in a second one within it; waits give their core away (yields.c). Without the harness of the other tests, which
 * is for MPI_Init.
 *
 * `--lives=N`: MPI is finalised and initialised again, N times in all, so that the component is closed and opened, and what it keeps must not
 * be what the life before has freed. Open MPI 5.0.7 itself ends with a segmentation fault there (opal_accelerator_base_select, gpucoll or not),
 * so no row of tests.list asks for it.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/mpi/memory.h"

#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)

enum { ROUNDS = 4, REQUESTS = 3, COUNT = 1000, LIMIT_S = 120 };

static struct {
    int rank;
    int size;
    int failures; /* of the life, on this rank */
    int failed;   /* lives */
} state;

static void say(const char *format, ...)
{
    const char *path = getenv("GPUCOLL_TEST_RESULTS");
    const int file = path != NULL ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
    char line[400];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    printf("%s\n", line);
    fflush(stdout);
    if (file >= 0 && (write(file, line, strlen(line)) < 0 || write(file, "\n", 1) < 0))
        printf("FAIL results: %s cannot be written\n", path);
    if (file >= 0)
        close(file);
}

static void expect(int good, const char *what)
{
    if (!good && state.failures++ == 0)
        printf("rank %d: %s\n", state.rank, what);
}

struct pair {
    struct test_buffer send, recv;
    int sent;
};

static void pair_make(struct pair *pair, int value)
{
    int values[COUNT];

    pair->sent = value;
    for (int i = 0; i < COUNT; i++)
        values[i] = value + i;
    test_buffer_make(&pair->send, TEST_DEVICE, sizeof values, 0, false);
    test_buffer_make(&pair->recv, TEST_DEVICE, sizeof values, 0, false);
    test_buffer_write(&pair->send, 0, values, sizeof values);
}

/* Every rank has sent its value plus its number. */
static void pair_check(struct pair *pair, const char *what)
{
    int values[COUNT];
    int good = 1;

    test_buffer_read(&pair->recv, 0, values, sizeof values);
    for (int i = 0; i < COUNT; i++)
        good &= values[i] == state.size * (pair->sent - state.rank + i) + state.size * (state.size - 1) / 2;
    expect(good, what);
    test_buffer_free(&pair->send);
    test_buffer_free(&pair->recv);
}

static void sums(MPI_Comm comm)
{
    MPI_Request request[REQUESTS];
    struct pair pair[REQUESTS + 1];

    for (int i = 0; i <= REQUESTS; i++)
        pair_make(&pair[i], 100 * i + state.rank);
    for (int i = 0; i < REQUESTS; i++)
        expect(MPI_Iallreduce(pair[i].send.data, pair[i].recv.data, COUNT, MPI_INT, MPI_SUM, comm,
                              &request[i]) == MPI_SUCCESS,
               "MPI_Iallreduce failed");
    expect(MPI_Allreduce(pair[REQUESTS].send.data, pair[REQUESTS].recv.data, COUNT, MPI_INT, MPI_SUM, comm) ==
               MPI_SUCCESS,
           "MPI_Allreduce failed");
    expect(MPI_Waitall(REQUESTS, request, MPI_STATUSES_IGNORE) == MPI_SUCCESS, "MPI_Waitall failed");
    for (int i = 0; i <= REQUESTS; i++)
        pair_check(&pair[i], i < REQUESTS ? "MPI_Iallreduce: a wrong sum" : "MPI_Allreduce: a wrong sum");
}

static void live(MPI_Group group, const char *name)
{
    MPI_Comm comm;
    int failures = 0;

    state.failures = 0;
    for (int round = 0; round < ROUNDS; round++) {
        expect(MPI_Comm_create_from_group(group, name, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) ==
                   MPI_SUCCESS,
               "MPI_Comm_create_from_group failed");
        MPI_Comm_rank(comm, &state.rank);
        MPI_Comm_size(comm, &state.size);
        if (round == 0)
            test_memory_start();
        sums(comm);
        expect(test_memory_yields(), "a wait keeps its core");
        if (round + 1 == ROUNDS)
            MPI_Reduce(&state.failures, &failures, 1, MPI_INT, MPI_SUM, 0, comm);
        expect(MPI_Comm_free(&comm) == MPI_SUCCESS, "MPI_Comm_free failed");
    }
    state.failed += failures > 0;
    if (state.rank == 0)
        say(failures == 0 ? "PASS %s" : "FAIL %s: %d failures", name, failures);
}

static MPI_Group begin(MPI_Session *session)
{
    MPI_Group group;

    if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, session) != MPI_SUCCESS ||
        MPI_Group_from_session_pset(*session, "mpi://WORLD", &group) != MPI_SUCCESS) {
        say("FAIL session: it cannot be begun");
        exit(1);
    }
    return group;
}

static void end(MPI_Session *session, MPI_Group *group)
{
    MPI_Group_free(group);
    MPI_Session_finalize(session);
}

static void live_once(int life)
{
    MPI_Session outer, inner;
    MPI_Group of_outer = begin(&outer), of_inner;
    char name[40];

    snprintf(name, sizeof name, "session %d", life);
    live(of_outer, name);
    of_inner = begin(&inner);
    snprintf(name, sizeof name, "session within %d", life);
    live(of_inner, name);
    end(&inner, &of_inner);
    snprintf(name, sizeof name, "session %d goes on", life);
    live(of_outer, name);
    end(&outer, &of_outer);
}

int main(int argc, char **argv)
{
    int lives = 1;

    if (argc > 1 && sscanf(argv[1], "--lives=%d", &lives) != 1) {
        fprintf(stderr, "%s [--lives=N]\n", argv[0]);
        return 2;
    }
    alarm(LIMIT_S);
    for (int life = 1; life <= lives; life++)
        live_once(life);
    return state.failed > 0;
}

#else

int main(void)
{
    printf("SKIP sessions: this MPI has none\n");
    return 0;
}

#endif
