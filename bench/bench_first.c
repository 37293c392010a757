/*
 * What the first MPI_Allreduce of a program takes, right after MPI_Init, and what later ones take: in a row, and after pauses. The GPU is chosen and
 * the buffers are made before MPI_Init, so that nothing but MPI_Init and messages among the ranks comes before the call. Each time is the
 * slowest rank's. One process has one first call: bench/first_calls runs this program several times.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/device.h"
#include "bench/options.h"
#include "bench/report.h"

enum { FLOATS = 2, LATER = 200, TAG = 7, MEETINGS = 5 };

struct first {
    struct bench_options options;
    struct bench_group group;
    struct bench_device device;
    struct bench_report report;
    float *buffer;
};

/* By messages of host memory alone: no collective, and nothing of gpucoll. Several times, since the first message to a rank takes longer. */
static void meet(void)
{
    int rank, size;
    char token = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < MEETINGS; i++)
        for (int step = 1; step < size; step *= 2)
            MPI_Sendrecv(&token, 1, MPI_CHAR, (rank + step) % size, TAG, &token, 1, MPI_CHAR,
                         (rank + size - step) % size, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static double time_call(struct first *first)
{
    meet();
    const double begin = bench_now_us();
    if (MPI_Allreduce(MPI_IN_PLACE, first->buffer, FLOATS, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS)
        bench_fail("MPI_Allreduce failed");
    return bench_now_us() - begin;
}

static void rest(double us)
{
    for (const double begin = bench_now_us(); bench_now_us() - begin < us;)
        ;
}

static void report(struct first *first, const char *when, double *samples, int count)
{
    struct bench_times times = {0};
    for (int i = 0; i < count; i++)
        samples[i] = bench_max(&first->group, samples[i]);
    bench_statistics(samples, count, &times);
    bench_report_figure(&first->report, "allreduce", when, &times);
    if (first->group.rank == 0)
        printf("  %-15s %10.1f\n", when, times.median_us);
}

static void measure(struct first *first, double init_us, double first_us)
{
    static const struct {
        const char *when;
        double us;
        int count;
    } pauses[] = {{"after_0.1_ms", 100, 20},
                  {"after_1_ms", 1e3, 20},
                  {"after_10_ms", 1e4, 10},
                  {"after_100_ms", 1e5, 5}};
    static double samples[LATER];
    report(first, "mpi_init", &init_us, 1);
    report(first, "first", &first_us, 1);
    for (int i = 0; i < LATER; i++)
        samples[i] = time_call(first);
    report(first, "later", samples, LATER);
    for (size_t pause = 0; pause < sizeof(pauses) / sizeof(pauses[0]); pause++) {
        for (int i = 0; i < pauses[pause].count; i++) {
            rest(pauses[pause].us);
            samples[i] = time_call(first);
        }
        report(first, pauses[pause].when, samples, pauses[pause].count);
    }
}

/* Before MPI_Init a rank knows its number on its host by the launcher's word alone. */
static void open_device(struct first *first, int local_rank)
{
    char reason[256] = "";
    if (strcmp(first->options.memory, "host") == 0 ||
        !bench_device_open_cuda(&first->device, local_rank, reason, sizeof(reason))) {
        if (strcmp(first->options.memory, "cuda") == 0) {
            fprintf(stderr, "bench_first: --memory=cuda: %s\n", reason);
            exit(2);
        }
        bench_device_open_host(&first->device);
    }
    first->buffer = bench_device_alloc(&first->device, FLOATS * sizeof(float));
    bench_device_fill(&first->device, first->buffer, 0, FLOATS * sizeof(float));
    bench_device_synchronize(&first->device);
}

int main(int argc, char **argv)
{
    static struct first first;
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    const int local_rank = local ? atoi(local) : 0;
    bench_program = "bench_first";
    enum bench_parsed parsed = bench_options_parse(&first.options, BENCH_IDLE, argc, argv, local_rank == 0);
    if (parsed != BENCH_PARSED_OK)
        return parsed == BENCH_PARSED_HELP ? 0 : 2;
    open_device(&first, local_rank);
    const double begin = bench_now_us();
    MPI_Init(&argc, &argv);
    const double init_us = bench_now_us() - begin;
    const double first_us = time_call(&first);
    bench_group_open(&first.group, MPI_COMM_WORLD);
    bool reported = first.group.rank != 0 || bench_report_open(&first.report, first.options.json);
    int status = bench_max(&first.group, !reported) > 0 ? 2 : 0;
    if (status == 0) {
        bench_report_common(&first.report, &first.group, &first.device, argc, argv);
        measure(&first, init_us, first_us);
        status = bench_max(&first.group, !bench_report_close(&first.report)) > 0;
    }
    bench_device_free(&first.device, first.buffer);
    bench_device_close(&first.device);
    bench_group_close(&first.group);
    MPI_Finalize();
    return status;
}
