/*
 * What an application pays for gpucoll beside its calls: a kernel of its own, before MPI has seen a device buffer, while gpucoll is idle, and right
 * after an MPI_Allreduce, and after two in a row, the second of which leaves its kernel on the GPU for a third; and how long the driver takes to synchronize with
 * the device and to free memory then, both of which wait for kernels that run. Every sample is the slowest rank's. A small call (the default) leaves one CTA behind,
 * larger ones (--bytes) up to coll_gpucoll_linger_ctas of them, which in bulk hold nearly all of an SM's shared memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "bench/compute.h"
#include "bench/device.h"
#include "bench/options.h"
#include "bench/report.h"

enum { FREED_BYTES = 4 << 20, WARMUP_CALLS = 100, ITERATIONS = 200 };
/* The samples of a moment are taken in so many turns, so that slow drift of clocks meets all moments alike. Turns are not shorter, as whether a kernel
 * lingers goes by the latest few calls (core/habit.h): those that warm up come before each. */
enum { ROUNDS = 5 };
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
    int iterations;
    double *samples; /* iterations of each thing at each moment */
};

static void allreduce(struct idle *idle)
{
    int count = (int)(idle->options.bytes / sizeof(float));
    if (MPI_Allreduce(idle->send, idle->recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS)
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

static double *samples_of(struct idle *idle, int moment, int thing)
{
    return idle->samples + (size_t)(moment * THINGS + thing) * (size_t)idle->iterations;
}

/* One turn of a thing at a moment: samples [from, to). */
static void measure(struct idle *idle, int moment, int thing, int from, int to)
{
    double *samples = samples_of(idle, moment, thing);
    for (int i = from - bench_warmup(to - from); i < to; i++) {
        if (things[thing].frees)
            idle->freed = bench_device_alloc(&idle->device, FREED_BYTES);
        bench_barrier(&idle->group);
        moments[moment].before(idle);
        double slowest = bench_max(&idle->group, things[thing].time(idle));
        if (i >= from)
            samples[i] = slowest;
    }
}

static void measure_moments(struct idle *idle, int first, int end)
{
    for (int round = 0; round < ROUNDS; round++) {
        int from = idle->iterations * round / ROUNDS;
        int to = idle->iterations * (round + 1) / ROUNDS;
        for (int moment = first; moment < end && from < to; moment++)
            for (int thing = 0; thing < THINGS; thing++)
                measure(idle, moment, thing, from, to);
    }
}

static void print_table(const struct idle *idle, struct bench_times times[MOMENTS][THINGS])
{
    char size[16];
    printf("MPI_Allreduce of %s bytes, %s; times in us, median (99th percentile)\n\n",
           bench_size_text(idle->options.bytes, size), idle->compute.kind->name);
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

static void measure_all(struct idle *idle)
{
    struct bench_times times[MOMENTS][THINGS] = {0};
    measure_moments(idle, UNUSED, IDLE);
    for (int i = 0; i < WARMUP_CALLS; i++)
        allreduce(idle);
    measure_moments(idle, IDLE, MOMENTS);
    for (int moment = 0; moment < MOMENTS; moment++)
        for (int thing = 0; thing < THINGS; thing++) {
            bench_statistics(samples_of(idle, moment, thing), idle->iterations, &times[moment][thing]);
            bench_report_figure(&idle->report, things[thing].name, moments[moment].name,
                                &times[moment][thing]);
        }
    if (idle->group.rank == 0)
        print_table(idle, times);
}

static int run(struct idle *idle, int argc, char **argv)
{
    struct bench_group *group = &idle->group;
    char bytes[24];
    bool reported = group->rank != 0 || bench_report_open(&idle->report, idle->options.json);
    if (bench_max(group, !reported) > 0 || !bench_device_open(&idle->device, group, idle->options.memory))
        return 2;
    bench_report_common(&idle->report, group, &idle->device, argc, argv);
    bench_compute_open(&idle->compute, group, &idle->device, idle->options.cublas);
    bench_compute_fit(&idle->compute, group, kernel_us);
    bench_report_context(&idle->report, "computation", idle->compute.kind->name);
    snprintf(bytes, sizeof(bytes), "%zu", idle->options.bytes);
    bench_report_context(&idle->report, "bytes", bytes);
    idle->iterations = idle->options.iterations > 0 ? idle->options.iterations : ITERATIONS;
    idle->samples = calloc((size_t)idle->iterations * MOMENTS * THINGS, sizeof(*idle->samples));
    idle->send = bench_device_alloc(&idle->device, idle->options.bytes);
    idle->recv = bench_device_alloc(&idle->device, idle->options.bytes);
    if (!idle->samples)
        bench_fail("no memory for %d samples of each kind", idle->iterations);
    bench_device_fill(&idle->device, idle->send, 0, idle->options.bytes);
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
