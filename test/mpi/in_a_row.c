/*
 * Many small calls one straight after the other, as a program's inner loop makes them, with a pause of a rank now and then that is about as
 * long as kernels linger: what the kernels that take them and the host agree on is wrong, if at all, once in many thousand calls.
 *
 * A call's data differ from those of the call before. Nobody looks at results before the last call, which would be a pause for all; each
 * call leaves its own in one of several places.
 */
#include <stdlib.h>

#include "test/mpi/memory.h"
#include "test/mpi/support.h"

enum { PLACES = 16, SHIFTS = 61, MOST_BYTES = 64 << 10 };

typedef void issue_function(const uint32_t *send, uint32_t *recv, int count);

/* Words of result of one call, by how many words each rank brings. */
typedef int size_function(int count);
typedef uint32_t value_function(int count, int index, int shift);

/* Word `index` of what `rank` sends, where the call begins `shift` words further. */
static uint32_t sent(int rank, int index, int shift)
{
    return (uint32_t)test_mix3(test.seed, (uint64_t)rank, (uint64_t)(index + shift));
}

static void issue_bcast(const uint32_t *send, uint32_t *recv, int count)
{
    test_ok(MPI_Bcast(test.rank == 0 ? (void *)send : recv, count, MPI_UINT32_T, 0, MPI_COMM_WORLD),
            "MPI_Bcast");
}

static void issue_allreduce(const uint32_t *send, uint32_t *recv, int count)
{
    test_ok(MPI_Allreduce(send, recv, count, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
}

static void issue_allgather(const uint32_t *send, uint32_t *recv, int count)
{
    test_ok(MPI_Allgather(send, count, MPI_UINT32_T, recv, count, MPI_UINT32_T, MPI_COMM_WORLD),
            "MPI_Allgather");
}

static void issue_reduce(const uint32_t *send, uint32_t *recv, int count)
{
    test_ok(MPI_Reduce(send, recv, count, MPI_UINT32_T, MPI_SUM, 0, MPI_COMM_WORLD), "MPI_Reduce");
}

static int size_at_root(int count)
{
    return test.rank == 0 ? count : 0;
}

static int size_but_root(int count)
{
    return test.rank == 0 ? 0 : count;
}

static int size_same(int count)
{
    return count;
}

static int size_of_all(int count)
{
    return count * test.size;
}

static uint32_t value_of_root(int count, int index, int shift)
{
    (void)count;
    return sent(0, index, shift);
}

static uint32_t value_of_block(int count, int index, int shift)
{
    return sent(index / count, index % count, shift);
}

static uint32_t value_of_sum(int count, int index, int shift)
{
    uint32_t sum = 0;

    (void)count;
    for (int rank = 0; rank < test.size; rank++)
        sum += sent(rank, index, shift);
    return sum;
}

static const struct row {
    const char *name;
    issue_function *issue;
    size_function *size;
    value_function *value;
} rows[] = {
    {"bcast", issue_bcast, size_but_root, value_of_root},
    {"allreduce", issue_allreduce, size_same, value_of_sum},
    {"allgather", issue_allgather, size_of_all, value_of_block},
    {"reduce", issue_reduce, size_at_root, value_of_sum},
};

static void fill(struct test_buffer *send)
{
    uint32_t *words = test_alloc(send->bytes);

    for (size_t i = 0; i < send->bytes / sizeof(uint32_t); i++)
        words[i] = sent(test.rank, (int)i, 0);
    test_buffer_write(send, 0, words, send->bytes);
    free(words);
}

/* Of the last call into each place. */
static void verify(const struct row *row, const struct test_buffer *recv, int count, int calls)
{
    uint32_t *words = test_alloc(recv->bytes);
    const int words_each = (int)(recv->bytes / sizeof(uint32_t)) / PLACES;

    test_buffer_read(recv, 0, words, recv->bytes);
    for (int call = calls < PLACES ? 0 : calls - PLACES; call < calls; call++) {
        const uint32_t *place = words + call % PLACES * words_each;
        for (int i = 0; i < row->size(count); i++) {
            if (place[i] != row->value(count, i, call % SHIFTS)) {
                test_fail("call %d: word %d is wrong", call, i);
                i = words_each;
            }
        }
    }
    free(words);
}

static void run(const struct row *row, int count, int calls)
{
    struct test_buffer send;
    struct test_buffer recv;
    const size_t words_each = (size_t)count * (size_t)test.size;
    uint64_t state = test_mix2(test.seed, (uint64_t)test.rank);

    if (!test_begin("%s of %d bytes, %d calls", row->name, count * 4, calls))
        return;
    test_buffer_make(&send, TEST_DEVICE, ((size_t)count + SHIFTS) * sizeof(uint32_t), 0, false);
    test_buffer_make(&recv, TEST_DEVICE, PLACES * words_each * sizeof(uint32_t), 0, false);
    fill(&send);
    for (int call = 0; call < calls; call++) {
        const double until = test_seconds() + (test_draw(&state, 64) == 0 ? test_draw(&state, 60) * 1e-6 : 0);
        while (test_seconds() < until)
            continue;
        row->issue((const uint32_t *)send.data + call % SHIFTS,
                   (uint32_t *)recv.data + (size_t)(call % PLACES) * words_each, count);
    }
    verify(row, &recv, count, calls);
    test_buffer_check(&recv, "the receive buffer");
    test_buffer_free(&recv);
    test_buffer_free(&send);
    test_end();
}

int main(int argc, char **argv)
{
    const char *number = NULL;
    const struct test_option own[] = {
        {"calls", NULL, &number, "calls of each collective and size (20000; without GPUs 500)"},
        {NULL, NULL, NULL, NULL}};

    test_start(&argc, &argv, MPI_THREAD_SINGLE, own);
    test_memory_start();
    const int calls = number != NULL ? atoi(number) : test_memory_has_gpu() ? 20000 : 500;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        run(&rows[i], 2, calls);
        run(&rows[i], 1000, calls);
        run(&rows[i], MOST_BYTES / 4, calls);
    }
    test_memory_stop();
    return test_finish();
}
