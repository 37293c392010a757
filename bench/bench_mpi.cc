/*
 * MPI collectives under Google Benchmark, one benchmark for each collective, form, place and size:
 *
 *   mpirun -n 4 --mca coll gpucoll bench_mpi --benchmark_out=gpucoll.json
 *
 * Every rank runs the same benchmarks the same number of times (fixed by the size), only rank 0 reports. The time
 * of an iteration is the slowest rank's, given to Google Benchmark as manual time; median, 99th percentile and first call
 * are counters, and so is `correct`.
 */
#define OMPI_SKIP_MPICXX 1 // Open MPI 4.1 would bring the C++ bindings that MPI has removed

#include <benchmark/benchmark.h>
#include <cstring>
#include <string>
#include <vector>
#include "bench/report.h"

namespace
{

bench_options options;
bench_group group;
bench_device device;
bench_case measured;
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

// Nothing here may differ between ranks but the reporting: they meet in every call.
void run_size(benchmark::State &state, const bench_coll *coll, bench_form form, bool in_place, size_t bytes)
{
    bench_row row;
    measured.coll = coll;
    measured.form = form;
    measured.in_place = in_place;
    measured.key.seed++;
    bench_case_begin(&measured, bytes, &row);
    bench_case_warm(&measured, bench_warmup(static_cast<int>(state.max_iterations)));
    for (auto _ : state)
        state.SetIterationTime(bench_case_sample(&measured) * 1e-6);
    bench_case_end(&measured, &row);
    report_counters(state, row);
    if (row.check == BENCH_WRONG) {
        wrong_sizes++;
        state.SkipWithError("wrong result");
    }
}

void register_sizes(const bench_coll *coll, bench_form form, bool in_place)
{
    size_t max = coll->has_data ? options.max : options.min;
    for (size_t bytes = options.min; bytes; bytes = bench_next_size(bytes, max, options.doubling)) {
        std::string name = std::string(coll->name) + "/" + options.type->name + "/" + options.op->name + "/" +
                           bench_form_name(form) + (in_place ? "/in_place" : "/out_of_place") + "/" +
                           std::to_string(bytes);
        int iterations = options.iterations ? options.iterations : bench_iterations(bytes);
        auto body = [=](benchmark::State &state) { run_size(state, coll, form, in_place, bytes); };
        benchmark::RegisterBenchmark(name.c_str(), body)
            ->UseManualTime()
            ->Iterations(iterations)
            ->Unit(benchmark::kMicrosecond);
    }
}

void register_all()
{
    const bench_coll *coll;
    for (int i = 0; (coll = bench_coll_row(i)) != nullptr; i++) {
        for (int j = 0; bench_is_listed(options.collectives, coll->name) && j < BENCH_FORM_COUNT; j++) {
            bench_form form = static_cast<bench_form>(j);
            if (!bench_is_listed(options.forms, bench_form_name(form)))
                continue;
            register_sizes(coll, form, false);
            if (bench_coll_can_be_in_place(coll))
                register_sizes(coll, form, true);
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
    bench_case_open(&measured, &group, &device, &options, nullptr, nullptr);
    register_all();
    silent_reporter silent;
    if (group.rank == 0)
        benchmark::RunSpecifiedBenchmarks();
    else
        benchmark::RunSpecifiedBenchmarks(&silent);
    bench_case_close(&measured);
    bench_device_close(&device);
    return wrong_sizes > 0;
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
