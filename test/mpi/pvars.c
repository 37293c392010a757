/* The component's counters, read as MPI_T performance variables: what ran natively, what was staged, what was
 * passed on. */
#include <stdio.h>
#include <string.h>

#include "test/mpi/comms.h"
#include "test/mpi/counters.h"
#include "test/mpi/form.h"
#include "test/mpi/memory.h"
#include "test/mpi/support.h"

enum { CALLS = 10, COUNT = 100 };

static void allreduces(enum test_memory kind)
{
    struct test_buffer send, recv;
    test_buffer_make(&send, kind, COUNT * sizeof(float), 0, false);
    test_buffer_make(&recv, kind, COUNT * sizeof(float), 0, false);
    for (int i = 0; i < CALLS; i++)
        test_ok(MPI_Allreduce(send.data, recv.data, COUNT, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD),
                "MPI_Allreduce");
    test_buffer_free(&send);
    test_buffer_free(&recv);
}

static void own_sum(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((float *)inout)[i] += ((const float *)in)[i];
}

/* No kernel knows the operator. */
static void own_sums(void)
{
    struct test_buffer buffer;
    MPI_Op op;
    MPI_Op_create(own_sum, 1, &op);
    test_buffer_make(&buffer, TEST_DEVICE, COUNT * sizeof(float), 0, false);
    for (int i = 0; i < CALLS; i++) {
        MPI_Request request;
        test_ok(MPI_Iallreduce(MPI_IN_PLACE, buffer.data, COUNT, MPI_FLOAT, op, MPI_COMM_WORLD, &request),
                "MPI_Iallreduce");
        test_ok(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    }
    test_buffer_free(&buffer);
    MPI_Op_free(&op);
}

static void neighbors(enum test_topology topology)
{
    MPI_Comm ring = test_comm_ring(topology);
    struct test_buffer send, recv;

    test_buffer_make(&send, TEST_DEVICE, COUNT * sizeof(float), 0, false);
    test_buffer_make(&recv, TEST_DEVICE, 2 * COUNT * sizeof(float), 0, false);
    for (int i = 0; i < CALLS; i++)
        test_ok(MPI_Neighbor_allgather(send.data, COUNT, MPI_FLOAT, recv.data, COUNT, MPI_FLOAT, ring),
                "MPI_Neighbor_allgather");
    MPI_Comm_free(&ring);
    test_buffer_free(&send);
    test_buffer_free(&recv);
}

static void grid_neighbors(void)
{
    neighbors(TEST_CART);
}

/* Of a graph no rank knows whether others have no edges. */
static void graph_neighbors(void)
{
    neighbors(TEST_DIST_GRAPH);
}

static void local_reductions(void)
{
    struct test_buffer in, inout;
    test_buffer_make(&in, TEST_DEVICE, COUNT * sizeof(float), 0, false);
    test_buffer_make(&inout, TEST_DEVICE, COUNT * sizeof(float), 0, false);
    for (int i = 0; i < CALLS; i++)
        test_ok(MPI_Reduce_local(in.data, inout.data, COUNT, MPI_FLOAT, MPI_MAX), "MPI_Reduce_local");
    test_buffer_free(&in);
    test_buffer_free(&inout);
}

#define RUN(Name, IName, ...) TEST_RUN(form, 2, Name, IName, __VA_ARGS__)

/* Every collective once, or twice: each runs natively. */
enum { COLLECTIVES = 17 };
static void run_all(enum test_form form)
{
    struct test_buffer send, recv;
    MPI_Comm world = MPI_COMM_WORLD;
    int ones[64], places[64], bytes[64], size;
    MPI_Datatype types[64];

    MPI_Comm_size(world, &size);
    for (int i = 0; i < 64; i++) {
        ones[i] = 1;
        places[i] = i;
        bytes[i] = i * (int)sizeof(float);
        types[i] = MPI_FLOAT;
    }
    test_buffer_make(&send, TEST_DEVICE, (size_t)(size + 1) * sizeof(float), 0, false);
    test_buffer_make(&recv, TEST_DEVICE, (size_t)(size + 1) * sizeof(float), 0, false);
    void *from = send.data, *to = recv.data;
    RUN(Allreduce, Iallreduce, from, to, 1, MPI_FLOAT, MPI_SUM, world);
    RUN(Allgather, Iallgather, from, 1, MPI_FLOAT, to, 1, MPI_FLOAT, world);
    RUN(Allgatherv, Iallgatherv, from, 1, MPI_FLOAT, to, ones, places, MPI_FLOAT, world);
    RUN(Alltoall, Ialltoall, from, 1, MPI_FLOAT, to, 1, MPI_FLOAT, world);
    RUN(Alltoallv, Ialltoallv, from, ones, places, MPI_FLOAT, to, ones, places, MPI_FLOAT, world);
    RUN(Alltoallw, Ialltoallw, from, ones, bytes, types, to, ones, bytes, types, world);
    RUN(Bcast, Ibcast, from, 2, MPI_FLOAT, 0, world); /* MPI_Ibcast of four bytes is left to Open MPI */
    RUN(Gather, Igather, from, 1, MPI_FLOAT, to, 1, MPI_FLOAT, 0, world);
    RUN(Gatherv, Igatherv, from, 1, MPI_FLOAT, to, ones, places, MPI_FLOAT, 0, world);
    RUN(Scatter, Iscatter, from, 1, MPI_FLOAT, to, 1, MPI_FLOAT, 0, world);
    RUN(Scatterv, Iscatterv, from, ones, places, MPI_FLOAT, to, 1, MPI_FLOAT, 0, world);
    RUN(Reduce, Ireduce, from, to, 1, MPI_FLOAT, MPI_SUM, 0, world);
    RUN(Reduce_scatter, Ireduce_scatter, from, to, ones, MPI_FLOAT, MPI_SUM, world);
    RUN(Reduce_scatter_block, Ireduce_scatter_block, from, to, 1, MPI_FLOAT, MPI_SUM, world);
    RUN(Scan, Iscan, from, to, 1, MPI_FLOAT, MPI_SUM, world);
    RUN(Exscan, Iexscan, from, to, 1, MPI_FLOAT, MPI_SUM, world);
    RUN(Barrier, Ibarrier, world);
    test_buffer_free(&send);
    test_buffer_free(&recv);
}

static void blocking(void)
{
    run_all(TEST_BLOCKING);
}

static void nonblocking(void)
{
    run_all(TEST_NONBLOCKING);
}

static void persistent(void)
{
    run_all(TEST_PERSISTENT_FORM);
}

/* Runs `calls`; then the counter must have gone up by `more`. */
static void expect(const char *name, void (*calls)(void), unsigned long long more)
{
    MPI_T_pvar_handle handle = test_counter_open(name);
    unsigned long long counted;

    calls();
    counted = test_counter_close(handle);
    if (counted != more)
        test_fail("%s went up by %llu, not by %llu", name, counted, more);
}

/* The same for an element of an array. */
static void expect_element(const char *name, const char *element, void (*calls)(void),
                           unsigned long long more)
{
    unsigned long long values[TEST_VALUES_MAX] = {0};
    MPI_T_pvar_handle handle = test_variable_open(name);
    int index;

    if (handle == NULL)
        return;
    index = test_opened_index(element);
    calls();
    if (MPI_T_pvar_read(test_counters_session, handle, values) != MPI_SUCCESS)
        test_fail("%s cannot be read", name);
    MPI_T_pvar_handle_free(test_counters_session, &handle);
    if (values[index] != more)
        test_fail("%s of %s went up by %llu, not by %llu", name, element, values[index], more);
}

/* Seconds of an element: more than none and less than the calls took. */
static void expect_time(const char *name, const char *element, void (*calls)(void))
{
    double values[TEST_VALUES_MAX] = {0}, began;
    MPI_T_pvar_handle handle = test_variable_open(name);
    int index;

    if (handle == NULL)
        return;
    index = test_opened_index(element);
    began = test_seconds();
    calls();
    began = test_seconds() - began;
    if (MPI_T_pvar_read(test_counters_session, handle, values) != MPI_SUCCESS)
        test_fail("%s cannot be read", name);
    MPI_T_pvar_handle_free(test_counters_session, &handle);
    if (values[index] <= 0 || values[index] > began)
        test_fail("%s of %s is %g s of %g s", name, element, values[index], began);
}

/* The way that the latest call of a collective went, by the list of values at the end of the variable's description. NULL: by any
 * algorithm. */
static void expect_plan(const char *collective, void (*calls)(void), const char *wanted)
{
    int values[TEST_VALUES_MAX] = {0};
    char plan[100] = "";
    MPI_T_pvar_handle handle = test_variable_open("coll_gpucoll_collective_plan");
    int index;

    if (handle == NULL)
        return;
    index = test_opened_index(collective);
    calls();
    if (MPI_T_pvar_read(test_counters_session, handle, values) != MPI_SUCCESS)
        test_fail("the plan cannot be read");
    MPI_T_pvar_handle_free(test_counters_session, &handle);
    if (!test_opened_state(values[index], plan, sizeof plan))
        test_fail("value %d has no name in: %s", values[index], test_opened.help);
    if (wanted != NULL ? strcmp(plan, wanted) != 0 : strchr(plan, '/') == NULL)
        test_fail("the plan of %s is %d '%s'", collective, values[index], plan);
}

static void device_allreduces(void)
{
    allreduces(TEST_DEVICE);
}

static void host_allreduces(void)
{
    allreduces(TEST_HOST);
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv, MPI_THREAD_SINGLE, NULL);
    test_counters_start();
    device_allreduces(); /* sets up what is set up once */
    if (test_begin("pvars/native_calls")) {
        expect("coll_gpucoll_native_calls", device_allreduces, CALLS);
        expect("coll_gpucoll_native_bytes", device_allreduces, CALLS * COUNT * sizeof(float));
        expect("coll_gpucoll_staged_calls", device_allreduces, 0);
        expect("coll_gpucoll_native_calls", local_reductions, CALLS);
        expect("coll_gpucoll_native_bytes", local_reductions, CALLS * COUNT * sizeof(float));
        test_end();
    }
    for (int form = 0; form < TEST_FORMS; form++) {
        static void (*const runs[])(void) = {blocking, nonblocking, persistent};
        if (!test_form_exists((enum test_form)form) ||
            !test_begin("pvars/native_%s", test_form_name((enum test_form)form)))
            continue;
        expect("coll_gpucoll_native_calls", runs[form], COLLECTIVES * (form == TEST_PERSISTENT_FORM ? 2 : 1));
        expect("coll_gpucoll_staged_calls", runs[form], 0);
        test_end();
    }
    if (test_begin("pvars/staged_calls")) {
        expect("coll_gpucoll_staged_calls", own_sums, CALLS);
        /* In place: out of the device and back. */
        expect("coll_gpucoll_staged_bytes", own_sums, 2 * CALLS * COUNT * sizeof(float));
        test_end();
    }
    if (test_begin("pvars/passed_calls")) {
        expect("coll_gpucoll_native_calls", host_allreduces, 0);
        expect("coll_gpucoll_staged_calls", host_allreduces, 0);
        test_end();
    }
    if (test_begin("pvars/by_collective")) {
        expect_element("coll_gpucoll_collective_calls", "allreduce", device_allreduces, CALLS);
        expect_element("coll_gpucoll_collective_calls", "bcast", device_allreduces, 0);
        expect_element("coll_gpucoll_collective_bytes", "allreduce", device_allreduces,
                       CALLS * COUNT * sizeof(float));
        expect_element("coll_gpucoll_collective_native_calls", "allreduce", device_allreduces, CALLS);
        expect_element("coll_gpucoll_collective_staged_calls", "allreduce", device_allreduces, 0);
        expect_element("coll_gpucoll_collective_staged_calls", "neighbor_allgather", graph_neighbors, CALLS);
        expect_element("coll_gpucoll_collective_native_calls", "neighbor_allgather", grid_neighbors, CALLS);
        expect_element("coll_gpucoll_collective_native_calls", "reduce_local", local_reductions, CALLS);
        expect_element("coll_gpucoll_collective_bytes", "reduce_local", local_reductions,
                       CALLS * COUNT * sizeof(float));
        expect_element("coll_gpucoll_collective_native_calls", "barrier", blocking, 1);
        expect_element("coll_gpucoll_collective_native_calls", "barrier", nonblocking, 1);
        expect_element("coll_gpucoll_collective_native_calls", "barrier", persistent, 2);
        expect_element("coll_gpucoll_plan_calls", "oneshot/ll", device_allreduces, CALLS);
        test_end();
    }
    if (test_begin("pvars/times")) {
        expect_time("coll_gpucoll_collective_waiting", "allreduce", device_allreduces);
        expect_time("coll_gpucoll_collective_running", "allreduce", device_allreduces);
        expect_time("coll_gpucoll_collective_running", "neighbor_allgather", graph_neighbors);
        test_end();
    }
    if (test_begin("pvars/plan")) {
        expect_plan("allreduce", device_allreduces, NULL);
        expect_plan("neighbor_allgather", graph_neighbors, "staged");
        expect_plan("reduce_local", local_reductions, "local");
        expect_plan("barrier", nonblocking, "board");
        test_end();
    }
    test_counters_stop();
    return test_finish();
}
