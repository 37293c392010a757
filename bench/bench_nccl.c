/*
 * NCCL's all-reduce, measured exactly as gpucoll's is, to be run in the same job on the same GPUs:
 *
 *   mpirun -n 4 bench_nccl --json=nccl.json
 *
 * As an MPI rank sees it: one process a GPU, blocking, that is, the call and the wait for its stream. Twice: with
 * plain allocations, and with buffers registered as symmetric windows (NCCL 2.27 and newer), each on a communicator of its own.
 */
#include <stdio.h>
#include <string.h>
#include "bench/nccl_api.h"
#include "bench/report.h"

struct nccl_run {
    struct bench_options options;
    struct bench_group group;
    struct bench_device device;
    struct bench_report report;
    struct bench_nccl_api api;
    bench_nccl_comm comm;
    void *stream;
};

/* One way of giving buffers to NCCL. */
struct buffers {
    const char *name;    /* for --buffers */
    const char *library; /* in the report */
    bool windows;
};

static const struct buffers kinds[] = {
    {"plain", "nccl", false},
    {"symmetric", "nccl-symmetric", true},
};
enum { KIND_COUNT = sizeof(kinds) / sizeof(kinds[0]) };

static void check(struct nccl_run *run, int error, const char *what)
{
    if (error != 0)
        bench_fail("%s: %s. %s", what, run->api.ncclGetErrorString(error),
                   run->api.ncclGetLastError ? run->api.ncclGetLastError(run->comm) : "");
}

static void reduce(struct bench_allreduce *allreduce)
{
    struct nccl_run *run = allreduce->arg;
    int error = run->api.ncclAllReduce(allreduce->in_place ? allreduce->recv : allreduce->send, allreduce->recv,
                                       allreduce->count, allreduce->type->nccl, allreduce->op->nccl, run->comm,
                                       run->stream);
    if (error != 0)
        check(run, error, "ncclAllReduce");
    bench_stream_wait(&run->device, run->stream);
}

static void open_comm(struct nccl_run *run)
{
    struct bench_nccl_id id;
    memset(&id, 0, sizeof(id));
    if (run->group.rank == 0)
        check(run, run->api.ncclGetUniqueId(&id), "ncclGetUniqueId");
    MPI_Bcast(&id, (int)sizeof(id), MPI_BYTE, 0, run->group.comm);
    check(run, run->api.ncclCommInitRank(&run->comm, run->group.size, id, run->group.rank), "ncclCommInitRank");
}

static void print_row(const struct nccl_run *run, const struct bench_row *row)
{
    char size[16];
    double us = row->times.median_us;
    printf("%8s %11.1f %11.1f %11.3f %11.3f  %s\n", bench_size_text(row->bytes, size), us, row->times.p99_us,
           bench_algbw(row->bytes, us), bench_allreduce_busbw(row->bytes, us, run->group.size),
           bench_check_name(row->check));
    fflush(stdout);
}

/* Returns the number of wrong sizes. */
static int run_sizes(struct nccl_run *run, const struct buffers *kind, void *send, void *recv)
{
    struct bench_allreduce allreduce;
    const struct bench_options *options = &run->options;
    int wrong = 0;
    bench_allreduce_open(&allreduce, &run->group, &run->device, options, send, recv);
    allreduce.reduce = reduce;
    allreduce.arg = run;
    if (run->group.rank == 0)
        printf("\n%s: %s %s%s, %d ranks\n%8s %11s %11s %11s %11s  check\n", kind->library, options->type->name,
               options->op->name, options->in_place ? ", in place" : "", run->group.size, "size", "time us", "99% us",
               "algbw GB/s", "busbw GB/s");
    for (size_t bytes = options->min; bytes; bytes = bench_next_size(bytes, options->max)) {
        struct bench_row row;
        bench_allreduce_measure(&allreduce, bytes, options->iterations, &row);
        wrong += row.check == BENCH_WRONG;
        if (run->group.rank == 0) {
            print_row(run, &row);
            bench_report_row(&run->report, &allreduce, kind->library, &row);
        }
    }
    bench_allreduce_close(&allreduce);
    return wrong;
}

static int run_windows(struct nccl_run *run, const struct buffers *kind)
{
    void *buffer[2] = {NULL, NULL};
    bench_nccl_window window[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        check(run, run->api.ncclMemAlloc(&buffer[i], run->options.max), "ncclMemAlloc");
        check(run,
              run->api.ncclCommWindowRegister(run->comm, buffer[i], run->options.max, &window[i],
                                              BENCH_NCCL_WINDOW_SYMMETRIC),
              "ncclCommWindowRegister");
    }
    int wrong = run_sizes(run, kind, buffer[0], buffer[1]);
    for (int i = 0; i < 2; i++) {
        if (window[i])
            check(run, run->api.ncclCommWindowDeregister(run->comm, window[i]), "ncclCommWindowDeregister");
        check(run, run->api.ncclMemFree(buffer[i]), "ncclMemFree");
    }
    return wrong;
}

static int run_kind(struct nccl_run *run, const struct buffers *kind)
{
    bool asked_for = strcmp(run->options.buffers, kind->name) == 0;
    if (!asked_for && strcmp(run->options.buffers, "all") != 0)
        return 0;
    if (kind->windows && !bench_nccl_has_windows(&run->api)) {
        if (run->group.rank == 0)
            printf("\n%s: this NCCL has no registered windows (they came with 2.27)\n", kind->library);
        return asked_for;
    }
    open_comm(run);
    int wrong = kind->windows ? run_windows(run, kind) : run_sizes(run, kind, NULL, NULL);
    check(run, run->api.ncclCommDestroy(run->comm), "ncclCommDestroy");
    run->comm = NULL;
    return wrong;
}

/* Before anything waits for anything: can every rank take part? */
static bool ready(struct nccl_run *run)
{
    struct bench_group *group = &run->group;
    if (!bench_device_open(&run->device, group, "cuda"))
        return false;
    if (group->local_size > run->device.count) {
        if (group->rank == 0)
            fprintf(stderr, "%s: %d ranks on %d GPUs: NCCL needs a GPU for each rank\n", bench_program,
                    group->local_size, run->device.count);
        return false;
    }
    bool loaded = bench_nccl_load(&run->api, run->options.nccl);
    loaded = (group->rank != 0 || bench_report_open(&run->report, run->options.json)) && loaded;
    return bench_max(group, !loaded) == 0;
}

static int run_all(struct nccl_run *run, int argc, char **argv)
{
    int wrong = 0;
    int version = 0;
    char text[32];
    if (!ready(run))
        return 2;
    run->api.ncclGetVersion(&version);
    snprintf(text, sizeof(text), "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    bench_report_common(&run->report, &run->group, &run->device, argc, argv);
    bench_report_context(&run->report, "nccl_version", text);
    if (run->group.rank == 0)
        printf("NCCL %s, %d GPUs (%s)\n", text, run->device.count, run->device.name);
    run->stream = bench_stream_open(&run->device);
    for (int i = 0; i < KIND_COUNT; i++)
        wrong += run_kind(run, &kinds[i]);
    bench_stream_close(&run->device, run->stream);
    bench_device_close(&run->device);
    bool written = bench_report_close(&run->report);
    return bench_max(&run->group, wrong > 0 || !written) > 0;
}

int main(int argc, char **argv)
{
    static struct nccl_run run;
    int rank = 0;
    bench_program = "bench_nccl";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    enum bench_parsed parsed = bench_options_parse(&run.options, BENCH_NCCL, argc, argv, rank == 0);
    int status = parsed == BENCH_PARSED_HELP ? 0 : 2;
    if (parsed == BENCH_PARSED_OK) {
        bench_group_open(&run.group, MPI_COMM_WORLD);
        status = run_all(&run, argc, argv);
        bench_group_close(&run.group);
    }
    MPI_Finalize();
    return status;
}
