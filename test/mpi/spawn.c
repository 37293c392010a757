/*
 * Processes that start others: collectives on device memory between the two groups, and on the communicator
 * of them all. The ranks of such a communicator belong to different jobs, though they share a host.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/memory.h"
#include "test/mpi/support.h"

enum { CHILDREN = 2, COUNT = 5000, ROUNDS = 5 };

static bool child;
static const struct test_option options[] = {{"child", &child, NULL, "this process was started by another"},
                                             {0}};

/* Rank `rank` of `who` contributes this. */
static float value(int who, int rank, int i)
{
    return (float)(1000 * who + 10 * rank + i % 7);
}

/* A sum over the ranks of one or both groups (`from` to `to`: 0 for parents, 1 for children). */
static void check_sum(MPI_Comm comm, int my_rank, const int sizes[2], int from, int to, const char *what)
{
    struct test_buffer send, recv;
    float *values = test_alloc(COUNT * sizeof *values);

    for (int i = 0; i < COUNT; i++)
        values[i] = value(child, my_rank, i);
    test_buffer_make(&send, TEST_DEVICE, COUNT * sizeof *values, 0, false);
    test_buffer_make(&recv, TEST_DEVICE, COUNT * sizeof *values, 0, false);
    test_buffer_write(&send, 0, values, COUNT * sizeof *values);
    test_ok(MPI_Allreduce(send.data, recv.data, COUNT, MPI_FLOAT, MPI_SUM, comm), what);
    test_buffer_read(&recv, 0, values, COUNT * sizeof *values);
    for (int i = 0; i < COUNT; i++) {
        float expected = 0;
        for (int who = from; who <= to; who++)
            for (int rank = 0; rank < sizes[who]; rank++)
                expected += value(who, rank, i);
        if (values[i] == expected)
            continue;
        test_fail("%s: element %d is %g, not %g", what, i, values[i], expected);
        break;
    }
    test_buffer_check(&recv, what);
    test_buffer_free(&send);
    test_buffer_free(&recv);
    free(values);
}

static void test_groups(MPI_Comm other)
{
    int sizes[2];
    MPI_Comm all;

    MPI_Comm_size(other, &sizes[child ? 1 : 0]);
    MPI_Comm_remote_size(other, &sizes[child ? 0 : 1]);
    test_ok(MPI_Intercomm_merge(other, child, &all), "MPI_Intercomm_merge");
    for (int round = 0; round < ROUNDS; round++) {
        check_sum(all, test.rank, sizes, 0, 1, "of all");
        check_sum(other, test.rank, sizes, child ? 0 : 1, child ? 0 : 1, "of the other group");
        check_sum(MPI_COMM_WORLD, test.rank, sizes, child, child, "of the own group");
    }
    MPI_Comm_free(&all);
}

int main(int argc, char **argv)
{
    MPI_Comm other = MPI_COMM_NULL;
    char *arguments[] = {"--child", NULL};
    int codes[CHILDREN];

    test_start(&argc, &argv, MPI_THREAD_SINGLE, options);
    if (test_begin(child ? "spawn/children" : "spawn/parents")) {
        if (child)
            MPI_Comm_get_parent(&other);
        else
            test_ok(
                MPI_Comm_spawn(argv[0], arguments, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, codes),
                "MPI_Comm_spawn");
        if (other != MPI_COMM_NULL) {
            test_groups(other);
            MPI_Comm_disconnect(&other);
        }
        test_end();
    }
    return test_finish();
}
