/*
 * MPI's collectives beside NCCL's: in every rank one thread runs all-reduces of NCCL on a stream of its own, another runs collectives of MPI
 * on device buffers, and a third allocates and frees device memory. Kernels of both libraries wait for those of other ranks, and freeing waits
 * for kernels and holds up launches, so that ranks which do all this in different order would wait for each other in a circle if
 * gpucoll's kernels did not make way. Results of both libraries are compared; that the time ends for all ranks in the same call is
 * told by element 0 of the sums.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "bench/nccl_api.h"
#include "test/mpi/counters.h"
#include "test/mpi/memory.h"
#include "test/mpi/support.h"

enum { NCCL_FLOAT = 7, NCCL_SUM = 0 };
enum { FLOATS = 1 << 20, FREED_BYTES = 8 << 20, BATCH_MAX = 16 };
enum { MPI_KEY = 1, NCCL_KEY, FREE_KEY };

static struct bench_nccl_api nccl;

static struct {
    bench_nccl_comm nccl_comm;
    MPI_Comm comm;
    double end;       /* of rank 0's time */
    atomic_bool over; /* this rank's MPI thread has ended */
    int rounds;
    int batches;
    int freed;
} all;

/* Whole numbers, whose sums are exact. Element 0 is for who wants to end. */
static float value(uint64_t key, int rank, size_t i)
{
    return (float)((key + 37u * (unsigned)rank + i) % 251);
}

static void fill(float *image, struct test_buffer *buffer, uint64_t key, size_t count, bool ends)
{
    for (size_t i = 0; i < count; i++)
        image[i] = value(key, test.rank, i);
    image[0] = ends;
    test_buffer_write(buffer, 0, image, count * sizeof *image);
}

/* How many ranks wanted to end; the rest is compared. */
static int check_sum(float *image, const struct test_buffer *buffer, uint64_t key, size_t count,
                     const char *what)
{
    test_buffer_read(buffer, 0, image, count * sizeof *image);
    for (size_t i = 1; i < count; i++) {
        float expected = 0;
        for (int rank = 0; rank < test.size; rank++)
            expected += value(key, rank, i);
        if (image[i] == expected)
            continue;
        test_fail("%s: element %zu of %zu is %g, not %g", what, i, count, image[i], expected);
        break;
    }
    return (int)image[0];
}

/* Most calls are small, where the latency is; few take long. */
static size_t draw_count(uint64_t *state, size_t most)
{
    const int way = test_draw(state, 10);
    const size_t below = way < 6 ? 1024 : way < 9 ? most / 16 : most;
    return 2 + (size_t)test_draw(state, (int)below - 2);
}

static bool nccl_ok(int error, const char *what)
{
    if (error == 0)
        return true;
    test_fail("%s: %s", what, nccl.ncclGetErrorString(error));
    return false;
}

static void *run_nccl(void *unused)
{
    uint64_t state = test_mix2(test.seed, NCCL_KEY);
    float *image = test_alloc(FLOATS * sizeof *image);
    struct test_buffer send, recv;
    void *stream;
    bool more = true;

    (void)unused;
    test_memory_thread();
    stream = test_stream_open();
    test_buffer_make(&send, TEST_DEVICE, FLOATS * sizeof *image, 0, false);
    test_buffer_make(&recv, TEST_DEVICE, FLOATS * sizeof *image, 0, false);
    while (more) {
        size_t count = draw_count(&state, FLOATS);
        int calls = 1 + test_draw(&state, BATCH_MAX);
        uint64_t key = test_next(&state);
        fill(image, &send, key, count, atomic_load(&all.over));
        for (int i = 0; i < calls && more; i++)
            more = nccl_ok(
                nccl.ncclAllReduce(send.data, recv.data, count, NCCL_FLOAT, NCCL_SUM, all.nccl_comm, stream),
                "ncclAllReduce");
        test_stream_wait(stream);
        more = check_sum(image, &recv, key, count, "ncclAllReduce") < test.size && more;
        all.batches++;
    }
    test_buffer_check(&recv, "NCCL's receive buffer");
    test_buffer_free(&send);
    test_buffer_free(&recv);
    test_stream_close(stream);
    free(image);
    return NULL;
}

static bool is_moved(const float *image, uint64_t key, int rank, size_t from, size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++) {
        if (image[i] == value(key, rank, from + i))
            continue;
        test_fail("%s: element %zu of %zu from rank %d is %g, not %g", what, i, count, rank, image[i],
                  value(key, rank, from + i));
        return false;
    }
    return true;
}

static void bcast(float *image, struct test_buffer *buffer, uint64_t key, size_t count)
{
    const int root = (int)(key % (unsigned)test.size);

    for (size_t i = 0; i < count && test.rank == root; i++)
        image[i] = value(key, root, i);
    if (test.rank == root)
        test_buffer_write(buffer, 0, image, count * sizeof *image);
    test_ok(MPI_Bcast(buffer->data, (int)count, MPI_FLOAT, root, all.comm), "MPI_Bcast");
    test_buffer_read(buffer, 0, image, count * sizeof *image);
    is_moved(image, key, root, 0, count, "MPI_Bcast");
}

static void alltoall(float *image, struct test_buffer *send, const struct test_buffer *recv, uint64_t key,
                     size_t count)
{
    const size_t block = 1 + count / (size_t)test.size / 2;

    for (size_t i = 0; i < block * (size_t)test.size; i++)
        image[i] = value(key, test.rank, i);
    test_buffer_write(send, 0, image, block * (size_t)test.size * sizeof *image);
    test_ok(MPI_Alltoall(send->data, (int)block, MPI_FLOAT, recv->data, (int)block, MPI_FLOAT, all.comm),
            "MPI_Alltoall");
    test_buffer_read(recv, 0, image, block * (size_t)test.size * sizeof *image);
    for (int rank = 0; rank < test.size; rank++)
        if (!is_moved(image + (size_t)rank * block, key, rank, (size_t)test.rank * block, block,
                      "MPI_Alltoall"))
            break;
}

static void *run_mpi(void *unused)
{
    uint64_t state = test_mix2(test.seed, MPI_KEY);
    float *image = test_alloc(FLOATS * sizeof *image);
    struct test_buffer send, recv;
    bool more = true;

    (void)unused;
    test_memory_thread();
    test_buffer_make(&send, TEST_DEVICE, FLOATS * sizeof *image, 0, false);
    test_buffer_make(&recv, TEST_DEVICE, FLOATS * sizeof *image, 0, false);
    while (more) {
        size_t count = draw_count(&state, FLOATS);
        uint64_t key = test_next(&state);
        fill(image, &send, key, count, test.rank == 0 && test_seconds() > all.end);
        more = test_ok(MPI_Allreduce(send.data, recv.data, (int)count, MPI_FLOAT, MPI_SUM, all.comm),
                       "MPI_Allreduce") &&
               check_sum(image, &recv, key, count, "MPI_Allreduce") == 0;
        bcast(image, &recv, key + 1, draw_count(&state, FLOATS));
        alltoall(image, &send, &recv, key + 2, draw_count(&state, FLOATS));
        all.rounds++;
    }
    test_buffer_check(&recv, "MPI's receive buffer");
    test_buffer_free(&send);
    test_buffer_free(&recv);
    free(image);
    atomic_store(&all.over, true);
    return NULL;
}

static void *run_frees(void *unused)
{
    uint64_t state = test_mix3(test.seed, FREE_KEY, (uint64_t)test.rank); /* each rank at other times */

    (void)unused;
    test_memory_thread();
    while (!atomic_load(&all.over)) {
        struct test_buffer buffer;
        size_t bytes = 1 + (size_t)test_draw(&state, FREED_BYTES);
        test_buffer_make(&buffer, test_chance(&state, 20) ? TEST_PINNED : TEST_DEVICE, bytes, 0, false);
        test_sleep(test_draw(&state, 1000) * 1e-6);
        test_buffer_free(&buffer);
        test_sleep(test_draw(&state, 2000) * 1e-6);
        all.freed++;
    }
    return NULL;
}

/* Is there what the case needs, on all ranks? */
static bool has_nccl(void)
{
    char reason[1200] = "";
    int without;

    if (test_memory_gpus() < test.size) {
        test_skip("NCCL needs a GPU for each of %d ranks, and there are %d", test.size, test_memory_gpus());
        return false;
    }
    without = !bench_nccl_load(&nccl, "auto", reason, sizeof reason);
    MPI_Allreduce(MPI_IN_PLACE, &without, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (without)
        test_skip("no NCCL: %s", reason[0] != '\0' ? reason : "another rank has none");
    return !without;
}

static bool open_all(void)
{
    struct bench_nccl_id id = {{0}};

    test_memory_thread();
    if (test.rank == 0 && !nccl_ok(nccl.ncclGetUniqueId(&id), "ncclGetUniqueId"))
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Comm_dup(MPI_COMM_WORLD, &all.comm);
    MPI_Comm_set_errhandler(all.comm, MPI_ERRORS_RETURN);
    int failed =
        !nccl_ok(nccl.ncclCommInitRank(&all.nccl_comm, test.size, id, test.rank), "ncclCommInitRank");
    MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    all.end = test_seconds() + (test.quick ? 1 : 4);
    return !failed;
}

static void test_beside(void)
{
    static void *(*const work[])(void *) = {run_nccl, run_mpi, run_frees};
    enum { THREADS = sizeof work / sizeof work[0] };
    pthread_t thread[THREADS];

    if (!test_begin_threaded("beside_nccl"))
        return;
    if (has_nccl() && open_all()) {
        MPI_T_pvar_handle native = test_counter_open("coll_gpucoll_native_calls");
        for (int i = 0; i < THREADS; i++)
            pthread_create(&thread[i], NULL, work[i], NULL);
        for (int i = 0; i < THREADS; i++)
            pthread_join(thread[i], NULL);
        unsigned long long calls = test_counter_close(native);
        if (calls < 3ull * (unsigned)all.rounds)
            test_fail("of %d collectives of MPI on device buffers only %llu ran natively", 3 * all.rounds,
                      calls);
        if (all.rounds < 2 || all.batches < 2 || all.freed < 2)
            test_fail("%d rounds of MPI, %d of NCCL, %d of freeing: that is not beside each other",
                      all.rounds, all.batches, all.freed);
        nccl_ok(nccl.ncclCommDestroy(all.nccl_comm), "ncclCommDestroy");
        MPI_Comm_free(&all.comm);
    }
    test_end();
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv, MPI_THREAD_MULTIPLE, NULL);
    test_counters_start();
    test_beside();
    test_counters_stop();
    return test_finish();
}
