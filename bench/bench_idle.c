/*
 * What an application pays for gpucoll beside its calls: a kernel of its own, before MPI has seen a device buffer, while gpucoll is idle, and right
 * after a small MPI_Allreduce, and after two in a row, the second of which leaves its kernel on the GPU for a third; and how long the driver takes to synchronize with
 * the device and to free memory then, both of which wait for kernels that run. Every sample is the slowest rank's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "bench/compute.h"
#include "bench/device.h"
#include "bench/options.h"
#include "bench/report.h"

enum { FLOATS = 2, FREED_BYTES = 4 << 20, WARMUP_CALLS = 100, ITERATIONS = 200 };
static const double kernel_us = 50;
static const long idle_ns =
    1000000; /* longer than a kernel lingers, unless coll_gpucoll_linger says otherwise */

struct idle {
    struct bench_options options;
    struct bench_group group;
    struct bench_device device;
    struct bench_compute compute;
    struct bench_report report;
    float *send;
    float *recv;
    void *freed;
    double *samples;
};

static void allreduce(struct idle *idle)
{
    if (MPI_Allreduce(idle->send, idle->recv, FLOATS, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS)
        bench_fail("MPI_Allreduce failed");
}

/* Until kernels that linger have left. All moments have it, so that the GPU's clocks are alike in them. */
static void rest(struct idle *idle)
{
    (void)idle;
    nanosleep(&(struct timespec){.tv_nsec = idle_ns}, NULL);
}

static void call_and_rest(struct idle *idle)
{
    allreduce(idle);
    rest(idle);
}

static void rest_and_call(struct idle *idle)
{
    rest(idle);
    allreduce(idle);
}

static void rest_and_call_twice(struct idle *idle)
{
    rest_and_call(idle);
    allreduce(idle);
}

/* By the GPU's clock, without the launch. */
static double time_kernel(struct idle *idle)
{
    bench_compute_launch(&idle->compute);
    return bench_compute_wait(&idle->compute);
}

/* By the host's clock, with the launch. */
static double time_launch(struct idle *idle)
{
    double begin = MPI_Wtime();
    time_kernel(idle);
    return (MPI_Wtime() - begin) * 1e6;
}

static double time_synchronize(struct idle *idle)
{
    double begin = MPI_Wtime();
    bench_device_synchronize(&idle->device);
    return (MPI_Wtime() - begin) * 1e6;
}

static double time_free(struct idle *idle)
{
    double begin = MPI_Wtime();
    bench_device_free(&idle->device, idle->freed);
    double end = MPI_Wtime();
    idle->freed = NULL;
    return (end - begin) * 1e6;
}

static const struct {
    const char *name;
    const char *help;
    double (*time)(struct idle *idle);
    bool frees;
} things[] = {
    {"kernel", "a kernel of the application, by the GPU's clock", time_kernel, false},
    {"kernel_call", "its launch and the wait for it, by the host's", time_launch, false},
    {"synchronize", "cudaDeviceSynchronize", time_synchronize, false},
    {"free", "cudaFree", time_free, true},
};
enum { THINGS = sizeof(things) / sizeof(things[0]) };

/* In this order: only the first is without anything of gpucoll on the GPU. */
static const struct {
    const char *name;
    void (*before)(struct idle *idle);
} moments[] = {{"unused", rest},
               {"idle", call_and_rest},
               {"after_call", rest_and_call},
               {"after_calls", rest_and_call_twice}};
enum { UNUSED, IDLE, MOMENTS = sizeof(moments) / sizeof(moments[0]) };

static struct bench_times measure(struct idle *idle, int thing, int moment)
{
    int iterations = idle->options.iterations > 0 ? idle->options.iterations : ITERATIONS;
    struct bench_times times = {0};
    for (int i = -bench_warmup(iterations); i < iterations; i++) {
        if (things[thing].frees)
            idle->freed = bench_device_alloc(&idle->device, FREED_BYTES);
        bench_barrier(&idle->group);
        moments[moment].before(idle);
        double slowest = bench_max(&idle->group, things[thing].time(idle));
        if (i >= 0)
            idle->samples[i] = slowest;
    }
    bench_statistics(idle->samples, iterations, &times);
    return times;
}

static void measure_all(struct idle *idle)
{
    struct bench_times times[MOMENTS][THINGS];
    for (int moment = 0; moment < MOMENTS; moment++) {
        for (int i = 0; moment == IDLE && i < WARMUP_CALLS; i++)
            allreduce(idle);
        for (int thing = 0; thing < THINGS; thing++) {
            times[moment][thing] = measure(idle, thing, moment);
            bench_report_figure(&idle->report, things[thing].name, moments[moment].name,
                                &times[moment][thing]);
        }
    }
    if (idle->group.rank != 0)
        return;
    printf("%s; times in us, median (99th percentile)\n\n", idle->compute.kind->name);
    printf("  %-12s  %-17s  %-17s  %-17s  %-17s  the last three over unused\n", "", "gpucoll unused", "idle",
           "after a call", "after two calls");
    for (int thing = 0; thing < THINGS; thing++) {
        printf("  %-12s", things[thing].name);
        for (int moment = 0; moment < MOMENTS; moment++)
            printf("  %8.2f (%6.2f)", times[moment][thing].median_us, times[moment][thing].p99_us);
        printf(" ");
        for (int moment = IDLE; moment < MOMENTS; moment++)
            printf(" %.3f", times[moment][thing].median_us / times[UNUSED][thing].median_us);
        printf("\n");
    }
    printf("\n");
    for (int thing = 0; thing < THINGS; thing++)
        printf("  %-12s  %s\n", things[thing].name, things[thing].help);
}

static int run(struct idle *idle, int argc, char **argv)
{
    struct bench_group *group = &idle->group;
    int most = idle->options.iterations > 0 ? idle->options.iterations : ITERATIONS;
    bool reported = group->rank != 0 || bench_report_open(&idle->report, idle->options.json);
    if (bench_max(group, !reported) > 0 || !bench_device_open(&idle->device, group, idle->options.memory))
        return 2;
    bench_report_common(&idle->report, group, &idle->device, argc, argv);
    bench_compute_open(&idle->compute, group, &idle->device, idle->options.cublas);
    bench_compute_fit(&idle->compute, group, kernel_us);
    bench_report_context(&idle->report, "computation", idle->compute.kind->name);
    idle->samples = malloc((size_t)most * sizeof(*idle->samples));
    idle->send = bench_device_alloc(&idle->device, FLOATS * sizeof(float));
    idle->recv = bench_device_alloc(&idle->device, FLOATS * sizeof(float));
    if (!idle->samples)
        bench_fail("no memory for %d samples", most);
    bench_device_fill(&idle->device, idle->send, 0, FLOATS * sizeof(float));
    measure_all(idle);
    bench_device_free(&idle->device, idle->send);
    bench_device_free(&idle->device, idle->recv);
    free(idle->samples);
    bench_compute_close(&idle->compute);
    bench_device_close(&idle->device);
    return bench_max(group, !bench_report_close(&idle->report)) > 0;
}

int main(int argc, char **argv)
{
    static struct idle idle;
    int rank = 0;
    bench_program = "bench_idle";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    enum bench_parsed parsed = bench_options_parse(&idle.options, BENCH_IDLE, argc, argv, rank == 0);
    int status = parsed == BENCH_PARSED_HELP ? 0 : 2;
    if (parsed == BENCH_PARSED_OK) {
        bench_group_open(&idle.group, MPI_COMM_WORLD);
        status = run(&idle, argc, argv);
        bench_group_close(&idle.group);
    }
    MPI_Finalize();
    return status;
}
