/* The component's counters, read as MPI_T performance variables: what ran natively, what was staged, what was passed on. */
#include <stdio.h>
#include <string.h>

#include "test/mpi/memory.h"
#include "test/mpi/support.h"

enum { CALLS = 10, COUNT = 100 };

static MPI_T_pvar_session session;

/* False if there is no such variable. */
static bool find(const char *wanted, MPI_T_pvar_handle *handle)
{
    int variables = 0;

    MPI_T_pvar_get_num(&variables);
    for (int i = 0; i < variables; i++) {
        char name[200], help[2000];
        int name_length = sizeof name, help_length = sizeof help, verbosity, class, bind, readonly, continuous, atomic;
        int values = 0;
        MPI_Datatype type;
        MPI_T_enum enumeration;
        if (MPI_T_pvar_get_info(i, name, &name_length, &verbosity, &class, &type, &enumeration, help, &help_length, &bind,
                                &readonly, &continuous, &atomic) != MPI_SUCCESS ||
            strcmp(name, wanted) != 0)
            continue;
        return MPI_T_pvar_handle_alloc(session, i, NULL, handle, &values) == MPI_SUCCESS && values == 1;
    }
    return false;
}

static unsigned long long value_of(const char *name)
{
    MPI_T_pvar_handle handle;
    unsigned long long value = 0;

    if (!find(name, &handle)) {
        test_fail("there is no performance variable %s", name);
        return 0;
    }
    if (MPI_T_pvar_read(session, handle, &value) != MPI_SUCCESS)
        test_fail("%s cannot be read", name);
    MPI_T_pvar_handle_free(session, &handle);
    return value;
}

static void allreduces(enum test_memory kind)
{
    struct test_buffer send, recv;
    test_buffer_make(&send, kind, COUNT * sizeof(float), 0, false);
    test_buffer_make(&recv, kind, COUNT * sizeof(float), 0, false);
    for (int i = 0; i < CALLS; i++)
        test_ok(MPI_Allreduce(send.data, recv.data, COUNT, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
    test_buffer_free(&send);
    test_buffer_free(&recv);
}

static void bcasts(void)
{
    struct test_buffer buffer;
    test_buffer_make(&buffer, TEST_DEVICE, COUNT * sizeof(float), 0, false);
    for (int i = 0; i < CALLS; i++)
        test_ok(MPI_Bcast(buffer.data, COUNT, MPI_FLOAT, 0, MPI_COMM_WORLD), "MPI_Bcast");
    test_buffer_free(&buffer);
}

static void expect(const char *name, unsigned long long before, unsigned long long more)
{
    unsigned long long now = value_of(name);
    if (now != before + more)
        test_fail("%s went from %llu to %llu, not up by %llu", name, before, now, more);
}

int main(int argc, char **argv)
{
    unsigned long long native, staged, passed;
    int provided;

    test_start(&argc, &argv, MPI_THREAD_SINGLE, NULL);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&session);
    if (test_begin("pvars/native_calls")) {
        native = value_of("coll_gpucoll_native_calls");
        staged = value_of("coll_gpucoll_staged_calls");
        allreduces(TEST_DEVICE);
        expect("coll_gpucoll_native_calls", native, test.size > 1 ? CALLS : value_of("coll_gpucoll_native_calls") - native);
        if (test.size > 1)
            expect("coll_gpucoll_staged_calls", staged, 0);
        test_end();
    }
    if (test_begin("pvars/staged_calls")) {
        staged = value_of("coll_gpucoll_staged_calls");
        bcasts();
        expect("coll_gpucoll_staged_calls", staged, CALLS);
        test_end();
    }
    if (test_begin("pvars/passed_calls")) {
        passed = value_of("coll_gpucoll_passed_calls");
        native = value_of("coll_gpucoll_native_calls");
        allreduces(TEST_HOST);
        if (value_of("coll_gpucoll_native_calls") != native)
            test_fail("calls on host memory ran natively");
        if (value_of("coll_gpucoll_passed_calls") > passed + CALLS)
            test_fail("more calls were counted than were made");
        test_end();
    }
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    return test_finish();
}
