#include "bench/overlap.h"

#include <stdlib.h>

enum { MOST_ITERATIONS = 40, LEAST_ITERATIONS = 7, TRIALS = 5, OVERRUN = 4 };

/* What is timed: with `with_comm` the communication, with `with_compute` the work; while the work runs the host waits, or
 * calls MPI_Test. */
struct beside {
    struct bench_contender *contender;
    struct bench_compute *compute;
    bool with_comm;
    bool with_compute;
    bool tests;
    double compute_us; /* the work, by the GPU's clock */
};

/* Samples of one kind. */
struct series {
    double us[MOST_ITERATIONS];
    double compute_us[MOST_ITERATIONS];
};

bool bench_overlap_can(const struct bench_coll *coll)
{
    return coll->has_data && !bench_coll_has(coll, BENCH_TO_ROOT | BENCH_FROM_ROOT);
}

static void run(void *arg)
{
    struct beside *beside = arg;
    struct bench_contender *contender = beside->contender;
    MPI_Request request = MPI_REQUEST_NULL;
    int done = 0;
    if (beside->with_comm && bench_is_nccl(contender->kind))
        bench_contender_start_nccl(contender);
    else if (beside->with_comm)
        bench_case_start(&contender->measured, &request);
    if (beside->with_compute) {
        bench_compute_launch(beside->compute);
        while (beside->tests && !bench_compute_is_done(beside->compute))
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        beside->compute_us = bench_compute_wait(beside->compute);
    }
    if (beside->with_comm && bench_is_nccl(contender->kind))
        bench_stream_wait(contender->rivals->device, contender->rivals->stream);
    else if (beside->with_comm)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* One sample. */
static void sample(struct beside *beside, struct series *series, int index)
{
    struct bench_group *group = beside->contender->measured.group;
    struct bench_call call = {NULL, run, beside};
    series->us[index] = bench_once(group, &call);
    series->compute_us[index] = bench_max(group, beside->compute_us);
}

static double median(double *samples, int count)
{
    struct bench_times times;
    bench_statistics(samples, count, &times);
    return times.median_us;
}

static double share(double value)
{
    return value < 0 ? 0 : value > 1 ? 1 : value;
}

/* How much of the communication's time is hidden when both together take `both_us`. */
static double hidden(double comm_us, double compute_us, double both_us)
{
    return comm_us > 0 ? share(1 - (both_us - compute_us) / comm_us) : 0;
}

/* At least LEAST_ITERATIONS, unless those would take many times as long as there is time for. */
static int iterations_within(double seconds, double comm_us, int asked)
{
    /* Alone, the work, both, both with tests; and some for barriers. */
    double one = comm_us * 1e-6 * 6 + 50e-6;
    double fit = seconds > 0 ? seconds / one : MOST_ITERATIONS;
    int iterations = fit < MOST_ITERATIONS ? (int)fit : MOST_ITERATIONS;
    if (fit * OVERRUN < LEAST_ITERATIONS)
        return 1;
    if (iterations < LEAST_ITERATIONS)
        iterations = LEAST_ITERATIONS;
    return asked > 0 && asked < iterations ? asked : iterations;
}

/* Alone: what the work is to take as long as. */
static double time_comm(struct beside *comm, struct series *series, double seconds)
{
    sample(comm, series, 0);
    if (iterations_within(seconds, series->us[0], 0) == 1)
        return series->us[0];
    for (int i = 0; i < TRIALS; i++)
        sample(comm, series, i);
    return median(series->us, TRIALS);
}

static void digest(struct bench_contender *contender, const char *computation, struct series *alone,
                   struct series *worked, struct series *waited, struct series *polled, int iterations)
{
    struct bench_overlap *overlap = &contender->row.overlap;
    double work_us = median(worked->us, iterations);
    overlap->is_measured = true;
    overlap->computation = computation;
    overlap->comm_us = median(alone->us, iterations);
    overlap->compute_us = median(worked->compute_us, iterations);
    overlap->compute_beside_us = median(waited->compute_us, iterations);
    overlap->compute = overlap->compute_us / overlap->compute_beside_us;
    overlap->hidden = hidden(overlap->comm_us, work_us, median(waited->us, iterations));
    if (bench_is_nccl(contender->kind))
        return;
    overlap->hidden_by_tests = hidden(overlap->comm_us, work_us, median(polled->us, iterations));
    overlap->compute_by_tests = overlap->compute_us / median(polled->compute_us, iterations);
}

void bench_overlap_measure(struct bench_contender *contender, struct bench_compute *compute, size_t bytes,
                           int iterations, double seconds)
{
    struct bench_case *measured = &contender->measured;
    struct beside comm = {.contender = contender, .compute = compute, .with_comm = true};
    struct beside work = {.contender = contender, .compute = compute, .with_compute = true};
    struct beside both = {contender, compute, true, true, false, 0};
    struct beside tested = {contender, compute, true, true, true, 0};
    struct series alone, worked, waited, polled;
    bench_case_begin(measured, bytes, &contender->row);
    double comm_us = time_comm(&comm, &alone, seconds);
    bench_compute_fit(compute, measured->group, comm_us);
    iterations = iterations_within(seconds, comm_us, iterations);
    double begin = MPI_Wtime();
    int done = 0;
    for (; done < iterations; done++) {
        int i = done;
        double passed = bench_max(measured->group, MPI_Wtime() - begin);
        if (i > 0 && seconds > 0 && passed > OVERRUN * seconds)
            break;
        sample(&comm, &alone, i);
        sample(&work, &worked, i);
        sample(&both, &waited, i);
        if (!bench_is_nccl(contender->kind))
            sample(&tested, &polled, i);
        bench_case_keep(measured, waited.us[i]);
    }
    digest(contender, compute->kind->name, &alone, &worked, &waited, &polled, done);
    bench_case_end(measured, &contender->row);
}
