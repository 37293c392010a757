#include "test/mpi/sums.h"

#include <stdlib.h>

#include "test/mpi/support.h"
#include "test/mpi/ways.h"

static int value(uint64_t key, int rank, int i)
{
    return (int)(test_mix3(key, (uint64_t)rank, (uint64_t)i) % 1000);
}

void sum_fill(struct sum *sum, uint64_t key)
{
    int *values = test_alloc((size_t)sum->count * sizeof(int));

    sum->key = key;
    for (int i = 0; i < sum->count; i++)
        values[i] = value(key, test.rank, i);
    test_buffer_write(&sum->send, 0, values, (size_t)sum->count * sizeof(int));
    test_buffer_poison(&sum->recv);
    free(values);
}

void sum_open(struct sum *sum, uint64_t key, int count, enum test_memory kind)
{
    sum->count = count;
    sum->request = MPI_REQUEST_NULL;
    test_buffer_make(&sum->send, kind, (size_t)count * sizeof(int), 0, false);
    test_buffer_make(&sum->recv, kind, (size_t)count * sizeof(int), 0, false);
    sum_fill(sum, key);
}

bool sum_is_right(const struct sum *sum)
{
    int *seen = test_alloc((size_t)sum->count * sizeof(int));
    bool right = true;

    test_buffer_read(&sum->recv, 0, seen, (size_t)sum->count * sizeof(int));
    for (int i = 0; i < sum->count && right; i++) {
        int expected = 0;
        for (int rank = 0; rank < test.size; rank++)
            expected += value(sum->key, rank, i);
        right = seen[i] == expected;
    }
    free(seen);
    return right;
}

void sum_check(const struct sum *sum, const char *what)
{
    if (!sum_is_right(sum))
        test_fail("%s: wrong sum of %d elements", what, sum->count);
    test_buffer_check(&sum->recv, what);
}

void sum_close(struct sum *sum)
{
    test_buffer_free(&sum->send);
    test_buffer_free(&sum->recv);
}

void sum_post(struct sum *sum, MPI_Comm comm)
{
    test_ok(MPI_Iallreduce(sum->send.data, sum->recv.data, sum->count, MPI_INT, MPI_SUM, comm, &sum->request),
            "MPI_Iallreduce");
}

void sum_wait(struct sum *sum)
{
    test_ok(MPI_Wait(&sum->request, MPI_STATUS_IGNORE), "MPI_Wait");
    test_ways_count("allreduce");
    sum_check(sum, "sum");
}
