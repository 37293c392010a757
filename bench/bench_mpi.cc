/*
 * MPI collectives under Google Benchmark, one benchmark for each collective, form, place, kind of buffers, way of calling and size:
 *
 *   mpirun -n 4 --mca coll gpucoll bench_mpi --benchmark_filter=allreduce.*device.steady --benchmark_out=gpucoll.json
 *
 * Every rank runs the same benchmarks the same number of times (fixed by the size), only rank 0 reports. The time
 * of an iteration is the slowest rank's, given to Google Benchmark as manual time; median, 99th percentile and first call
 * are counters, and so is `correct`.
 *
 *   steady   calls one after the other
 *   first    each call is the first on a new communicator
 *   beside   computation of equal length is started after the call; the time is that of both
 */
#define OMPI_SKIP_MPICXX 1 // Open MPI 4.1 would bring the C++ bindings that MPI has removed

#include <benchmark/benchmark.h>
#include <cstring>
#include <string>
#include <vector>
#include "bench/overlap.h"
#include "bench/report.h"

namespace
{

enum calls { STEADY, FIRST, BESIDE, CALLS_COUNT };
const char *const calls_names[CALLS_COUNT] = {"steady", "first", "beside"};
enum { FIRST_CALLS = 10 };

// What one benchmark measures.
struct point {
    const bench_coll *coll;
    bench_form form;
    bool in_place;
    bool on_host;
    calls called;
    size_t bytes;
};

bench_options options;
bench_group group;
bench_device device;
bench_device host_device;
bench_compute compute; // opened when first needed
bench_case cases[2];   // with buffers on the device, in host memory; opened likewise
int wrong_sizes;

// What the ranks other than 0 say.
class silent_reporter : public benchmark::BenchmarkReporter
{
  public:
    bool ReportContext(const Context &) override { return true; }
    void ReportRuns(const std::vector<Run> &) override {}
};

void report_counters(benchmark::State &state, const bench_row &row)
{
    const bench_times &times = row.times;
    state.counters["bytes"] = static_cast<double>(row.bytes);
    state.counters["ranks"] = group.size;
    state.counters["in_place"] = row.in_place;
    state.counters["median_us"] = times.median_us;
    state.counters["p99_us"] = times.p99_us;
    state.counters["min_us"] = times.min_us;
    state.counters["first_call_us"] = times.first_us;
    state.counters["algbw"] = bench_algbw(row.bytes, times.median_us);
    state.counters["busbw"] = bench_row_busbw(&row, group.size);
    state.counters["correct"] = row.check != BENCH_WRONG;
    state.counters["same_bits"] = row.check == BENCH_RIGHT;
}

bench_case &case_of(const point &at)
{
    bench_case &measured = cases[at.on_host];
    if (!measured.group) {
        bench_case_open(&measured, &group, at.on_host ? &host_device : &device, &options, nullptr, nullptr);
        measured.on_host = at.on_host;
    }
    measured.coll = at.coll;
    measured.comm = bench_case_comm(&group, at.coll);
    measured.form = at.form;
    measured.in_place = at.in_place;
    measured.key.seed++;
    return measured;
}

void run_steady(benchmark::State &state, bench_case &measured, const point &at, bench_row &row)
{
    bench_case_begin(&measured, at.bytes, &row);
    bench_case_warm(&measured, bench_warmup(static_cast<int>(state.max_iterations)));
    for (auto _ : state)
        state.SetIterationTime(bench_case_sample(&measured) * 1e-6);
    bench_case_end(&measured, &row);
}

// The communicator is made and freed outside the time that is taken.
void run_first(benchmark::State &state, bench_case &measured, const point &at, bench_row &row)
{
    bench_check worst = BENCH_RIGHT;
    std::vector<double> samples;
    for (auto _ : state) {
        MPI_Comm_dup(bench_case_comm(&group, at.coll), &measured.comm);
        measured.key.seed++;
        bench_case_begin(&measured, at.bytes, &row);
        bench_case_forget(&measured);
        MPI_Comm_free(&measured.comm);
        samples.push_back(row.times.first_us);
        worst = row.check > worst ? row.check : worst;
        state.SetIterationTime(row.times.first_us * 1e-6);
    }
    row.check = worst;
    row.times.first_us = samples.front();
    bench_statistics(samples.data(), static_cast<int>(samples.size()), &row.times);
}

void run_beside(benchmark::State &state, bench_case &measured, const point &at, bench_row &row)
{
    static bench_beside beside;
    if (!compute.device)
        bench_compute_open(&compute, &group, &device, options.cublas);
    bench_overlap_by_mpi(&beside);
    bench_overlap_begin(&beside, &measured, &compute, at.bytes, 0, &row);
    for (auto _ : state)
        state.SetIterationTime(bench_overlap_sample(&beside) * 1e-6);
    bench_overlap_end(&beside, &row);
    state.SetLabel(row.overlap.computation);
    state.counters["comm_us"] = row.overlap.comm_us;
    state.counters["compute_us"] = row.overlap.compute_us;
    state.counters["compute_beside_us"] = row.overlap.compute_beside_us;
    state.counters["hidden"] = row.overlap.hidden;
    state.counters["compute"] = row.overlap.compute;
    state.counters["hidden_by_tests"] = row.overlap.hidden_by_tests;
    state.counters["compute_by_tests"] = row.overlap.compute_by_tests;
}

// Nothing here may differ between ranks but the reporting: they meet in every call.
void run_point(benchmark::State &state, const point &at)
{
    static void (*const runs[])(benchmark::State &, bench_case &, const point &,
                                bench_row &) = {run_steady, run_first, run_beside};
    bench_row row;
    runs[at.called](state, case_of(at), at, row);
    report_counters(state, row);
    if (row.check == BENCH_WRONG) { // no error of Google Benchmark's, with which it would drop the figures that say so
        wrong_sizes++;
        state.SetLabel("WRONG RESULT");
    }
}

int iterations_of(const point &at)
{
    int most = at.called == FIRST    ? FIRST_CALLS
               : at.called == BESIDE ? BENCH_OVERLAP_MOST
                                     : bench_iterations(at.bytes);
    return options.iterations && (at.called == STEADY || options.iterations < most) ? options.iterations
                                                                                    : most;
}

void register_sizes(point at)
{
    size_t max = at.coll->has_data ? options.max : options.min;
    for (at.bytes = options.min; at.bytes; at.bytes = bench_next_size(at.bytes, max, options.doubling)) {
        std::string name = std::string(at.coll->name) + "/" + options.type->name + "/" + options.op->name +
                           "/" + bench_form_name(at.form) + (at.in_place ? "/in_place" : "/out_of_place") +
                           (at.on_host ? "/host/" : "/device/") + calls_names[at.called] + "/" +
                           std::to_string(at.bytes);
        benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State &state) { run_point(state, at); })
            ->UseManualTime()
            ->Iterations(iterations_of(at))
            ->Unit(benchmark::kMicrosecond);
    }
}

// Buffers in host memory are a kind of their own only where others are on GPUs; without data there are none.
bool is_measured(const point &at)
{
    return bench_is_listed(options.forms, bench_form_name(at.form)) &&
           bench_coll_has_form(at.coll, at.form, group.size) &&
           bench_is_listed(options.buffers, at.on_host ? "host" : "device") &&
           bench_is_listed(options.calls, calls_names[at.called]) &&
           (!at.in_place || bench_coll_can_be_in_place(at.coll)) &&
           (!at.on_host || (device.cuda && at.coll->has_data)) &&
           (at.called != BESIDE || (at.form != BENCH_BLOCKING && !at.in_place && bench_overlap_can(at.coll)));
}

void register_all()
{
    const bench_coll *coll;
    for (int i = 0; (coll = bench_coll_row(i)) != nullptr; i++) {
        // Each bit of the number is one of two, what is left of it one of more.
        for (int j = 0; j < BENCH_FORM_COUNT * CALLS_COUNT * 4; j++) {
            point at = {coll,         static_cast<bench_form>(j / 4 / CALLS_COUNT), (j & 1) != 0,
                        (j & 2) != 0, static_cast<calls>(j / 4 % CALLS_COUNT),      0};
            if (bench_is_wanted(&options, coll) && is_measured(at))
                register_sizes(at);
        }
    }
}

// Takes the options that would make ranks other than 0 write files.
std::vector<char *> arguments_of_rank(int argc, char **argv, int rank)
{
    std::vector<char *> kept;
    for (int i = 0; i < argc; i++)
        if (rank == 0 || std::strncmp(argv[i], "--benchmark_out", 15) != 0)
            kept.push_back(argv[i]);
    kept.push_back(nullptr);
    return kept;
}

int run(int argc, char **argv)
{
    if (!bench_device_open(&device, &group, options.memory))
        return 2;
    benchmark::AddCustomContext("library", options.label);
    bench_common_context(
        &group, &device, argc, argv,
        [](void *, const char *key, const char *value) {
            // Google Benchmark writes a date of its own.
            if (std::strcmp(key, "date") != 0)
                benchmark::AddCustomContext(key, value);
        },
        nullptr);
    bench_device_open_host(&host_device);
    register_all();
    silent_reporter silent;
    const size_t ran =
        group.rank == 0 ? benchmark::RunSpecifiedBenchmarks() : benchmark::RunSpecifiedBenchmarks(&silent);
    for (bench_case &measured : cases)
        if (measured.group)
            bench_case_close(&measured);
    bench_compute_close(&compute);
    bench_device_close(&device);
    return ran == 0 ? 2 : wrong_sizes > 0; // none: Google Benchmark has said that the filter matches nothing
}

} // namespace

int main(int argc, char **argv)
{
    int rank = 0;
    bench_program = "bench_mpi";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::vector<char *> arguments = arguments_of_rank(argc, argv, rank);
    int count = static_cast<int>(arguments.size()) - 1;
    bool help = false;
    for (int i = 1; i < count; i++)
        help = help || std::strcmp(arguments[static_cast<size_t>(i)], "--help") == 0;
    if (!help) // Google Benchmark's own help would end the program before MPI_Finalize
        benchmark::Initialize(&count, arguments.data());
    bench_parsed parsed = bench_options_parse(&options, BENCH_GOOGLE, count, arguments.data(), rank == 0);
    int status = parsed == BENCH_PARSED_HELP ? 0 : 2;
    if (parsed == BENCH_PARSED_OK) {
        bench_group_open(&group, MPI_COMM_WORLD);
        status = run(argc, argv);
        bench_group_close(&group);
    }
    if (help && rank == 0)
        std::printf(
            "Options of Google Benchmark are taken too: --benchmark_out=FILE, --benchmark_filter=REGEX.\n");
    MPI_Finalize();
    return status;
}
