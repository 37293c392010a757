/*
 * coll_gpucoll_warmup: what the first call on a communicator still has to set up, and its time beside that of later calls.
 * `--warm=world|all|none` is what the run's parameter says; with `--context-first` GPUs are in use before MPI_Init.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/counters.h"
#include "test/mpi/memory.h"
#include "test/mpi/support.h"

enum { COUNT = 64, CALLS = 101, ROUNDS = 100, DUPS = 40, TAG = 5 };
/* The 0.1 s since MPI_Init, in which this program gets ready, are a pause: on 2 H100 160 us, 30 times as long as later calls, as after any such
 * pause (docs/design-calls.md; bench/first_calls measures right after MPI_Init); without the warm-up 65 ms. */
enum { TIMES_MAX = 100 };

static const char *warm = "none";

/* Everybody hears of everybody, by messages alone. */
static void meet(void)
{
    char token = 0;
    for (int step = 1; step < test.size; step *= 2) {
        int to = (test.rank + step) % test.size, from = (test.rank + test.size - step) % test.size;
        MPI_Sendrecv(&token, 1, MPI_CHAR, to, TAG, &token, 1, MPI_CHAR, from, TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    }
}

/* Time for the background, which is every call of MPI, on all ranks however loaded the machine is. */
static void wait_for_background(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        meet();
        test_sleep(0.001);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double timed(struct test_buffer *buffer, MPI_Comm comm)
{
    meet();
    double begin = test_seconds();
    test_ok(MPI_Allreduce(MPI_IN_PLACE, buffer->data, COUNT, MPI_FLOAT, MPI_SUM, comm), "MPI_Allreduce");
    return (test_seconds() - begin) * 1e6;
}

static void check_sum(struct test_buffer *buffer)
{
    float seen[COUNT];
    test_buffer_read(buffer, 0, seen, sizeof seen);
    for (int i = 0; i < COUNT; i++)
        if (seen[i] != (float)(test.size * i))
            test_fail("element %d is %g, not %d", i, seen[i], test.size * i);
}

/* The first call on the communicator has to make a team, or links, or neither. Returns how many times as long it takes as later ones. */
static double first_call(MPI_Comm comm, bool makes_team, bool makes_links)
{
    struct test_buffer buffer;
    float values[COUNT];
    double steady[CALLS];

    for (int i = 0; i < COUNT; i++)
        values[i] = (float)i;
    test_buffer_make(&buffer, TEST_DEVICE, sizeof values, 0, false);
    test_buffer_write(&buffer, 0, values, sizeof values);
    MPI_T_pvar_handle native = test_counter_open("coll_gpucoll_native_calls");
    MPI_T_pvar_handle teams = test_counter_open("coll_gpucoll_teams");
    MPI_T_pvar_handle links = test_counter_open("coll_gpucoll_links");
    double first = timed(&buffer, comm);
    unsigned long long made_teams = test_counter_close(teams), made_links = test_counter_close(links);
    check_sum(&buffer);
    for (int i = 0; i < CALLS; i++)
        steady[i] = timed(&buffer, comm);
    qsort(steady, CALLS, sizeof steady[0], by_value);
    unsigned long long ran = test_counter_close(native);
    if (made_teams != makes_team || made_links != makes_links)
        test_fail("the first call made %llu teams and %llu links, not %d and %d", made_teams, made_links,
                  makes_team, makes_links);
    if (ran != CALLS + 1)
        test_fail("%llu of %d calls ran natively", ran, CALLS + 1);
    if (test.rank == 0)
        printf("first call %.1f us, later ones %.1f us: %.1f times\n", first, steady[CALLS / 2],
               first / steady[CALLS / 2]);
    test_buffer_free(&buffer);
    return first / steady[CALLS / 2];
}

/* MPI_Init has connected all if it could know which GPUs will be used: nothing is left for the background. Of times, those on GPUs alone are
 * looked at: the cores of a host accelerator may have something else to do. */
static void test_world(void)
{
    if (!test_begin("warmup/world"))
        return;
    bool none = strcmp(warm, "none") == 0, ready = !none && test_memory_gpu_is_clear();
    double times = first_call(MPI_COMM_WORLD, none, !ready);
    if (ready && test_memory_has_gpu() && times > TIMES_MAX)
        test_fail("the first call takes %.1f times as long as later ones, not at most %d", times, TIMES_MAX);
    test_end();
}

static void test_new(void)
{
    MPI_Comm made[3];

    if (!test_begin("warmup/new"))
        return;
    bool none = strcmp(warm, "all") != 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &made[0]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -test.rank, &made[1]);
    MPI_Comm_split(MPI_COMM_WORLD, test.rank / 100, test.rank, &made[2]);
    wait_for_background();
    for (int i = 0; i < 3; i++) {
        first_call(made[i], none, none);
        MPI_Comm_free(&made[i]);
    }
    test_end();
}

/* Communicators that are used at once, or freed before they are warm, or both. */
static void test_hurried(void)
{
    struct test_buffer buffer;
    MPI_Comm kept[DUPS];
    uint64_t state = test.seed;

    if (!test_begin("warmup/hurried"))
        return;
    test_buffer_make(&buffer, TEST_DEVICE, COUNT * sizeof(float), 0, false);
    for (int i = 0; i < DUPS; i++) {
        MPI_Comm dup;
        int way = test_draw(&state, 4);
        MPI_Comm_dup(MPI_COMM_WORLD, &dup);
        if (way & 1) {
            float one[COUNT];
            for (int j = 0; j < COUNT; j++)
                one[j] = (float)j;
            test_buffer_write(&buffer, 0, one, sizeof one);
            timed(&buffer, dup);
            check_sum(&buffer);
        }
        if (way == 1)
            test_ok(MPI_Barrier(dup), "MPI_Barrier");
        kept[i] = dup;
        if (way & 2)
            MPI_Comm_free(&kept[i]);
    }
    for (int i = DUPS - 1; i >= 0; i--)
        if (kept[i] != MPI_COMM_NULL && i % 3 != 0) /* the rest is left to MPI_Finalize */
            MPI_Comm_free(&kept[i]);
    test_buffer_free(&buffer);
    test_end();
}

int main(int argc, char **argv)
{
    const struct test_option own[] = {{"warm", NULL, &warm, "world, all or none"}, {NULL, NULL, NULL, NULL}};
    test_start(&argc, &argv, MPI_THREAD_SINGLE, own);
    test_counters_start();
    test_world();
    test_new();
    test_hurried();
    test_counters_stop();
    return test_finish();
}
