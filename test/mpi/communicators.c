/*
 * A thousand communicators, all kept open, a call on each: what a communicator costs in time, and what it holds that belongs to the
 * process. Prints `each communicator took X us, half of them at most Y us`, of the slowest rank, for test/mpi/communicators.sh to compare.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "test/mpi/counters.h"
#include "test/mpi/memory.h"
#include "test/mpi/support.h"

enum { FIRST = 20, DUPS = 1000, COUNT = 64 };

struct held {
    int descriptors;
    int mappings;
    size_t gpu;
};

static struct held look(void)
{
    struct held held = {.gpu = test_memory_gpu_used()};
    DIR *folder = opendir("/proc/self/fd");
    FILE *maps = fopen("/proc/self/maps", "re");

    if (folder == NULL || maps == NULL) {
        test_fail("/proc/self cannot be read");
        return held;
    }
    while (readdir(folder) != NULL)
        held.descriptors++;
    for (int c = getc(maps); c != EOF; c = getc(maps))
        held.mappings += c == '\n';
    closedir(folder);
    fclose(maps);
    return held;
}

/* Seconds that each took, with its call, in `took`. */
static void dup_and_call(MPI_Comm *dups, double *took, int count, struct test_buffer *buffer)
{
    float ones[COUNT];

    for (int i = 0; i < count; i++) {
        for (int j = 0; j < COUNT; j++)
            ones[j] = 1;
        test_buffer_write(buffer, 0, ones, sizeof ones);
        took[i] = test_seconds();
        test_ok(MPI_Comm_dup(MPI_COMM_WORLD, &dups[i]), "MPI_Comm_dup");
        test_ok(MPI_Allreduce(MPI_IN_PLACE, buffer->data, COUNT, MPI_FLOAT, MPI_SUM, dups[i]),
                "MPI_Allreduce");
        took[i] = test_seconds() - took[i];
        test_buffer_read(buffer, 0, ones, sizeof ones);
        if (ones[COUNT - 1] != (float)test.size)
            test_fail("on communicator %d the sum is %g", i, ones[COUNT - 1]);
    }
}

/* Descriptors and mappings may come and go by themselves, but not for each communicator. */
static void compare(const struct held *before, const struct held *after)
{
    const size_t gpu_most = (size_t)16 << 20;

    if (after->descriptors > before->descriptors + DUPS / 50)
        test_fail("%d descriptors, %d before", after->descriptors, before->descriptors);
    if (after->mappings > before->mappings + DUPS / 10)
        test_fail("%d mappings, %d before", after->mappings, before->mappings);
    if (after->gpu > before->gpu + gpu_most)
        test_fail("%zu MiB of GPU memory are used, %zu before", after->gpu >> 20, before->gpu >> 20);
    if (test.rank == 0)
        printf("descriptors %d to %d, mappings %d to %d, GPU memory %zu to %zu KiB\n", before->descriptors,
               after->descriptors, before->mappings, after->mappings, before->gpu >> 10, after->gpu >> 10);
}

static int in_order(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Something else that runs takes from the mean, but hardly from the median. */
static void print_times(double mean, double *took)
{
    double own[2] = {mean * 1e6}, slowest[2];

    qsort(took, DUPS, sizeof *took, in_order);
    own[1] = took[DUPS / 2] * 1e6;
    MPI_Reduce(own, slowest, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (test.rank == 0)
        printf("each communicator took %.1f us, half of them at most %.1f us\n", slowest[0], slowest[1]);
}

static void test_many(void)
{
    struct test_buffer buffer;
    MPI_Comm *dups = test_alloc((FIRST + DUPS) * sizeof *dups);
    double *took = test_alloc((FIRST + DUPS) * sizeof *took);
    MPI_T_pvar_handle native = NULL;

    if (!test_begin("communicators/thousand"))
        return;
    test_buffer_make(&buffer, test.loaded == 0 ? TEST_HOST : TEST_DEVICE, COUNT * sizeof(float), 0, false);
    dup_and_call(dups, took, FIRST, &buffer);
    if (test.loaded == 1)
        native = test_counter_open("coll_gpucoll_native_calls");
    struct held before = look();
    double begin = test_seconds();
    dup_and_call(dups + FIRST, took + FIRST, DUPS, &buffer);
    double mean = (test_seconds() - begin) / DUPS;
    struct held after = look();
    compare(&before, &after);
    if (test.loaded == 1 && test_counter_close(native) < DUPS)
        test_fail("not every call ran natively");
    print_times(mean, took + FIRST);
    for (int i = 0; i < FIRST + DUPS; i++)
        MPI_Comm_free(&dups[i]);
    test_buffer_free(&buffer);
    free(dups);
    free(took);
    test_end();
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv, MPI_THREAD_SINGLE, NULL);
    test_counters_start();
    test_many();
    test_counters_stop();
    return test_finish();
}
