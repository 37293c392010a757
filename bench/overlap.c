#include "bench/overlap.h"

enum { LEAST_ITERATIONS = 7, TRIALS = 5, OVERRUN = 4 };

/* Seconds that a point may take in any case, so that a median is one of several samples. */
static const double granted = 1;

/* What is timed: with `with_comm` the communication, with `with_compute` the work; while the work runs the host waits, or
 * calls MPI_Test. */
struct timed {
    struct bench_beside *beside;
    bool with_comm;
    bool with_compute;
    bool tests;
    double compute_us; /* the work, by the GPU's clock */
};

bool bench_overlap_can(const struct bench_coll *coll)
{
    return coll->has_data;
}

static void start_mpi(void *arg)
{
    struct bench_beside *beside = arg;
    bench_case_start(beside->measured, &beside->starter.request);
}

static void wait_mpi(void *arg)
{
    struct bench_beside *beside = arg;
    MPI_Wait(&beside->starter.request, MPI_STATUS_IGNORE);
}

void bench_overlap_by_mpi(struct bench_beside *beside)
{
    beside->starter = (struct bench_starter){start_mpi, wait_mpi, beside, true, MPI_REQUEST_NULL};
    beside->calls = 1;
}

/* Several calls are waited for one by one, by a thread that has nothing else to do. */
static bool has_tests(const struct bench_beside *beside)
{
    return beside->starter.has_request && beside->calls == 1;
}

static void run(void *arg)
{
    struct timed *timed = arg;
    struct bench_starter *starter = &timed->beside->starter;
    struct bench_compute *compute = timed->beside->compute;
    int done = 0;
    if (timed->with_compute)
        bench_compute_shut(compute);
    if (timed->with_comm)
        starter->start(starter->arg);
    if (timed->with_compute)
        bench_compute_launch(compute);
    for (int call = 1; timed->with_comm && call < timed->beside->calls; call++) {
        starter->wait(starter->arg);
        starter->start(starter->arg);
    }
    if (timed->with_compute) {
        while (timed->tests && !bench_compute_is_done(compute))
            MPI_Test(&starter->request, &done, MPI_STATUS_IGNORE);
        timed->compute_us = bench_compute_wait(compute);
    }
    if (timed->with_comm)
        starter->wait(starter->arg);
}

/* One sample. */
static void sample(struct timed *timed, struct bench_series *series, int index)
{
    struct bench_group *group = timed->beside->measured->group;
    struct bench_call call = {NULL, run, timed};
    series->us[index] = bench_once(group, &call) / timed->beside->calls;
    series->compute_us[index] = bench_max(group, timed->compute_us) / timed->beside->calls;
}

static void poison(void *arg)
{
    const struct timed *timed = arg;
    bench_case_poison(timed->beside->measured);
}

/* Are results right beside the work? Of one more sample, which is not kept. */
static void check_beside(struct bench_beside *beside, struct bench_row *row)
{
    struct timed both = {beside, true, true, false, 0};
    struct bench_call call = {poison, run, &both};
    bench_once(beside->measured->group, &call);
    bench_case_check(beside->measured, row);
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

static double longest(double seconds)
{
    return OVERRUN * seconds > granted ? OVERRUN * seconds : granted;
}

/* At least LEAST_ITERATIONS, unless those would take many times as long as there is time for. */
static int iterations_within(const struct bench_beside *beside, double seconds, double comm_us, int asked)
{
    /* Alone, the work, both, both with tests; and some for barriers. */
    double one = beside->calls * comm_us * 1e-6 * 6 + 50e-6;
    double fit = seconds > 0 ? seconds / one : BENCH_OVERLAP_MOST;
    int iterations = fit < BENCH_OVERLAP_MOST ? (int)fit : BENCH_OVERLAP_MOST;
    if (seconds > 0 && one * LEAST_ITERATIONS > longest(seconds))
        return 1;
    if (iterations < LEAST_ITERATIONS)
        iterations = LEAST_ITERATIONS;
    return asked > 0 && asked < iterations ? asked : iterations;
}

/* Alone: what the work is to take as long as. */
static double time_comm(struct bench_beside *beside, double seconds)
{
    struct timed comm = {.beside = beside, .with_comm = true};
    sample(&comm, &beside->alone, 0);
    if (iterations_within(beside, seconds, beside->alone.us[0], 0) == 1)
        return beside->alone.us[0];
    for (int i = 0; i < TRIALS; i++)
        sample(&comm, &beside->alone, i);
    return median(beside->alone.us, TRIALS);
}

void bench_overlap_begin(struct bench_beside *beside, struct bench_case *measured,
                         struct bench_compute *compute, size_t bytes, double seconds, struct bench_row *row)
{
    beside->measured = measured;
    beside->compute = compute;
    beside->count = 0;
    bench_case_begin(measured, bytes, row);
    beside->comm_us = time_comm(beside, seconds);
    bench_compute_fit(compute, measured->group, beside->calls * beside->comm_us);
}

double bench_overlap_sample(struct bench_beside *beside)
{
    struct timed comm = {.beside = beside, .with_comm = true};
    struct timed work = {.beside = beside, .with_compute = true};
    struct timed both = {beside, true, true, false, 0};
    struct timed tested = {beside, true, true, true, 0};
    int i = beside->count++;
    /* By turns, since after work the GPU may be slower, and after communication faster, than after the other. */
    sample(&comm, &beside->alone, i);
    if (i % 2 == 0)
        sample(&work, &beside->worked, i);
    sample(&both, &beside->waited, i);
    if (i % 2 != 0)
        sample(&work, &beside->worked, i);
    if (has_tests(beside))
        sample(&tested, &beside->polled, i);
    bench_case_keep(beside->measured, beside->waited.us[i]);
    return beside->waited.us[i];
}

void bench_overlap_end(struct bench_beside *beside, struct bench_row *row)
{
    struct bench_overlap *overlap = &row->overlap;
    int count = beside->count;
    double work_us = median(beside->worked.us, count);
    overlap->is_measured = true;
    overlap->computation = beside->compute->kind->name;
    overlap->calls = beside->calls;
    overlap->comm_us = median(beside->alone.us, count);
    overlap->compute_us = median(beside->worked.compute_us, count);
    overlap->compute_beside_us = median(beside->waited.compute_us, count);
    overlap->compute = overlap->compute_us / overlap->compute_beside_us;
    overlap->hidden = hidden(overlap->comm_us, work_us, median(beside->waited.us, count));
    if (has_tests(beside)) {
        overlap->hidden_by_tests = hidden(overlap->comm_us, work_us, median(beside->polled.us, count));
        overlap->compute_by_tests = overlap->compute_us / median(beside->polled.compute_us, count);
    }
    check_beside(beside, row);
    bench_case_end(beside->measured, row);
}

void bench_overlap_measure(struct bench_beside *beside, struct bench_case *measured,
                           struct bench_compute *compute, size_t bytes, int iterations, double seconds,
                           struct bench_row *row)
{
    bench_overlap_begin(beside, measured, compute, bytes, seconds, row);
    iterations = iterations_within(beside, seconds, beside->comm_us, iterations);
    double begin = MPI_Wtime();
    while (beside->count < iterations) {
        double passed = bench_max(measured->group, MPI_Wtime() - begin);
        if (beside->count > 0 && seconds > 0 && passed > longest(seconds))
            break;
        bench_overlap_sample(beside);
    }
    bench_overlap_end(beside, row);
}
