/*
 * The main job of gpucoll: a plain MPI program that knows nothing of it. Every rank holds its data on a GPU (without one,
 * in host memory) and calls MPI_Allreduce; the results are checked and timed.
 *
 *   mpirun -n 4 --mca coll gpucoll gpucoll_demo
 */
#include <stdio.h>
#include "bench/report.h"

struct demo {
    struct bench_options options;
    struct bench_group group;
    struct bench_device device;
    struct bench_case allreduce;
    struct bench_report report;
    struct bench_earlier earlier;
};

static void print_head(const struct demo *demo)
{
    const struct bench_options *options = &demo->options;
    char version[64];
    printf("MPI_Allreduce, %s %s%s, %d ranks, ", options->type->name, options->op->name,
           options->in_place ? ", in place" : "", demo->group.size);
    if (demo->device.cuda)
        printf("%d GPU%s (%s)", demo->device.count, demo->device.count > 1 ? "s" : "", demo->device.name);
    else
        printf("host memory");
    printf(", %s\n", bench_mpi_version(version, sizeof(version)));
    printf("%s: time of the slowest rank, median.\n", options->label);
    if (options->stage && demo->device.cuda)
        printf("The program copies its data through host memory around each call, as an MPI without GPU "
               "support needs.\n");
    printf("\n");
    printf("%8s %11s %11s %11s %11s", "size", "time us", "99% us", "algbw GB/s", "busbw GB/s");
    if (demo->earlier.count)
        printf(" %14.14s %8s", demo->earlier.library, "faster");
    printf("  check\n");
}

static void print_row(const struct demo *demo, const struct bench_row *row)
{
    char size[16];
    double us = row->times.median_us;
    double earlier_us = bench_earlier_us(&demo->earlier, row->bytes);
    printf("%8s %11.1f %11.1f %11.3f %11.3f", bench_size_text(row->bytes, size), us, row->times.p99_us,
           bench_algbw(row->bytes, us), bench_row_busbw(row, demo->group.size));
    if (earlier_us > 0)
        printf(" %11.1f us %7.2fx", earlier_us, earlier_us / us);
    else if (demo->earlier.count)
        printf(" %14s %8s", "-", "-");
    printf("  %s\n", bench_check_name(row->check));
    fflush(stdout);
}

/* Returns the number of sizes with a wrong result. */
static int run_sizes(struct demo *demo)
{
    int wrong = 0;
    double first_us = 0;
    for (size_t bytes = demo->options.min; bytes;
         bytes = bench_next_size(bytes, demo->options.max, demo->options.doubling)) {
        struct bench_row row;
        bench_case_measure(&demo->allreduce, bytes, demo->options.iterations, &row);
        wrong += row.check == BENCH_WRONG;
        if (bytes == demo->options.min)
            first_us = row.times.first_us;
        if (demo->group.rank == 0) {
            print_row(demo, &row);
            bench_report_row(&demo->report, &demo->allreduce, demo->options.label, &row);
        }
    }
    if (demo->group.rank == 0) {
        printf("\nThe first call took %.1f us. ", first_us);
        if (wrong)
            printf("WRONG RESULTS at %d sizes.\n", wrong);
        else
            printf("All results are right.\n");
    }
    return wrong;
}

static int run(struct demo *demo, int argc, char **argv)
{
    bool root = demo->group.rank == 0;
    bool ready = !root || !demo->options.compare || bench_earlier_read(&demo->earlier, demo->options.compare);
    ready = (!root || bench_report_open(&demo->report, demo->options.json)) && ready;
    if (bench_max(&demo->group, !ready) > 0 ||
        !bench_device_open(&demo->device, &demo->group, demo->options.memory))
        return 2;
    bench_report_common(&demo->report, &demo->group, &demo->device, argc, argv);
    bench_case_open(&demo->allreduce, &demo->group, &demo->device, &demo->options, NULL, NULL);
    if (root)
        print_head(demo);
    int wrong = run_sizes(demo);
    bench_case_close(&demo->allreduce);
    bench_device_close(&demo->device);
    bool written = bench_report_close(&demo->report);
    return bench_max(&demo->group, wrong > 0 || !written) > 0;
}

int main(int argc, char **argv)
{
    static struct demo demo;
    int rank = 0;
    bench_program = "gpucoll_demo";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    enum bench_parsed parsed = bench_options_parse(&demo.options, BENCH_DEMO, argc, argv, rank == 0);
    int status = parsed == BENCH_PARSED_HELP ? 0 : 2;
    if (parsed == BENCH_PARSED_OK) {
        bench_group_open(&demo.group, MPI_COMM_WORLD);
        status = run(&demo, argc, argv);
        bench_group_close(&demo.group);
    }
    MPI_Finalize();
    return status;
}
