/*
 * An MPI collective beside NCCL's, in one process and in turn, so that both meet the same machine in the same state:
 *
 *   mpirun -n 4 --mca coll gpucoll bench_compare --json=result.json
 *
 * As an MPI rank sees it: one process a GPU, blocking; for NCCL that is the call and the wait for its stream. NCCL twice: with
 * plain allocations, and with buffers registered as symmetric windows (NCCL 2.27 and newer), each on a communicator of
 * its own. Where there is no NCCL, or not a GPU for each rank, MPI is measured alone. bench/side_by_side runs this.
 */
#include <stdio.h>
#include <string.h>
#include "bench/nccl_api.h"
#include "bench/report.h"

/* The timed calls of a size are split into this many turns of each library: slow drift of clocks meets all alike. */
enum { TURNS = 5, TURN_WARMUP = 2 };

enum kind { KIND_MPI, KIND_NCCL, KIND_NCCL_WINDOWS, KIND_COUNT };

struct compare;

/* One library under measurement. */
struct contender {
    enum kind kind;
    const char *library; /* in the report */
    struct compare *compare;
    struct bench_case measured;
    struct bench_row row;
    bench_nccl_comm comm;
    bench_nccl_window window[2];
};

struct compare {
    struct bench_options options;
    struct bench_group group;
    struct bench_device device;
    struct bench_report report;
    struct bench_nccl_api api;
    bool with_nccl;
    void *stream;
    struct contender contenders[KIND_COUNT];
    int count;
};

static void check(struct contender *contender, int error, const char *what)
{
    const struct bench_nccl_api *api = &contender->compare->api;
    if (error != 0)
        bench_fail("%s: %s. %s", what, api->ncclGetErrorString(error),
                   api->ncclGetLastError ? api->ncclGetLastError(contender->comm) : "");
}

static int nccl_allreduce(const struct contender *contender, const void *send)
{
    const struct bench_case *measured = &contender->measured;
    return contender->compare->api.ncclAllReduce(send, measured->recv, measured->count, measured->type->nccl,
                                                 measured->op->nccl, contender->comm,
                                                 contender->compare->stream);
}

/* By the name of the collective's row in bench/coll.c. */
static const struct {
    const char *coll;
    int (*call)(const struct contender *contender, const void *send);
} nccl_calls[] = {
    {"allreduce", nccl_allreduce},
};
enum { NCCL_CALLS = sizeof(nccl_calls) / sizeof(nccl_calls[0]) };

static void call_nccl(struct bench_case *measured)
{
    struct contender *contender = measured->arg;
    for (int i = 0; i < NCCL_CALLS; i++) {
        if (strcmp(nccl_calls[i].coll, measured->coll->name) != 0)
            continue;
        int error = nccl_calls[i].call(contender, measured->in_place ? measured->recv : measured->send);
        if (error != 0)
            check(contender, error, measured->coll->name);
    }
    bench_stream_wait(measured->device, contender->compare->stream);
}

static void open_comm(struct contender *contender)
{
    struct compare *compare = contender->compare;
    struct bench_group *group = &compare->group;
    struct bench_nccl_id id;
    char key[48];
    char text[32];
    memset(&id, 0, sizeof(id));
    if (group->rank == 0)
        check(contender, compare->api.ncclGetUniqueId(&id), "ncclGetUniqueId");
    MPI_Bcast(&id, (int)sizeof(id), MPI_BYTE, 0, group->comm);
    double begin = MPI_Wtime();
    check(contender, compare->api.ncclCommInitRank(&contender->comm, group->size, id, group->rank),
          "ncclCommInitRank");
    snprintf(text, sizeof(text), "%.1f", bench_max(group, (MPI_Wtime() - begin) * 1e3));
    snprintf(key, sizeof(key), "%s_comm_ms", contender->library);
    bench_report_context(&compare->report, key, text);
}

static void open_windows(struct contender *contender, void *buffer[2])
{
    const struct bench_nccl_api *api = &contender->compare->api;
    size_t bytes = contender->compare->options.max;
    for (int i = 0; i < 2; i++) {
        check(contender, api->ncclMemAlloc(&buffer[i], bytes), "ncclMemAlloc");
        check(contender,
              api->ncclCommWindowRegister(contender->comm, buffer[i], bytes, &contender->window[i],
                                          BENCH_NCCL_WINDOW_SYMMETRIC),
              "ncclCommWindowRegister");
    }
}

/* `buffer` NULL: the contender's own. */
static void open_contender(struct compare *compare, enum kind kind, const char *library, void *send,
                           void *recv)
{
    struct contender *contender = &compare->contenders[compare->count++];
    void *buffer[2] = {send, recv};
    *contender = (struct contender){.kind = kind, .library = library, .compare = compare};
    if (kind != KIND_MPI)
        open_comm(contender);
    if (kind == KIND_NCCL_WINDOWS)
        open_windows(contender, buffer);
    bench_case_open(&contender->measured, &compare->group, &compare->device, &compare->options, buffer[0],
                    buffer[1]);
    if (kind != KIND_MPI) {
        contender->measured.call = call_nccl;
        contender->measured.arg = contender;
    }
}

static void close_contender(struct contender *contender)
{
    const struct bench_nccl_api *api = &contender->compare->api;
    void *buffer[2] = {contender->measured.send, contender->measured.recv};
    bench_case_close(&contender->measured);
    for (int i = 0; i < 2 && contender->kind == KIND_NCCL_WINDOWS; i++) {
        if (contender->window[i])
            check(contender, api->ncclCommWindowDeregister(contender->comm, contender->window[i]),
                  "ncclCommWindowDeregister");
        check(contender, api->ncclMemFree(buffer[i]), "ncclMemFree");
    }
    if (contender->comm)
        check(contender, api->ncclCommDestroy(contender->comm), "ncclCommDestroy");
}

static void open_contenders(struct compare *compare)
{
    const char *libraries = compare->options.libraries;
    bool mpi = strcmp(libraries, "nccl") != 0;
    if (mpi)
        open_contender(compare, KIND_MPI, compare->options.label, NULL, NULL);
    if (!compare->with_nccl)
        return;
    const struct bench_case *first = mpi ? &compare->contenders[0].measured : NULL;
    open_contender(compare, KIND_NCCL, "nccl", first ? first->send : NULL, first ? first->recv : NULL);
    if (bench_nccl_has_windows(&compare->api))
        open_contender(compare, KIND_NCCL_WINDOWS, "nccl-symmetric", NULL, NULL);
    else if (compare->group.rank == 0)
        printf("This NCCL has no symmetric windows (they came with 2.27): plain buffers only.\n");
}

static void print_head(const struct compare *compare)
{
    const struct bench_options *options = &compare->options;
    printf("%s, %s %s%s, %d ranks: time of the slowest rank in us, median\n%8s", options->coll->name,
           options->type->name, options->op->name, options->in_place ? ", in place" : "", compare->group.size,
           "size");
    for (int i = 0; i < compare->count; i++)
        printf(" %15s", compare->contenders[i].library);
    printf("  check\n");
}

static void print_rows(const struct compare *compare)
{
    const struct contender *contenders = compare->contenders;
    char size[16];
    printf("%8s", bench_size_text(contenders[0].row.bytes, size));
    for (int i = 0; i < compare->count; i++)
        printf(" %15.1f", contenders[i].row.times.median_us);
    enum bench_check worst = BENCH_RIGHT;
    for (int i = 0; i < compare->count; i++)
        if (contenders[i].row.check > worst)
            worst = contenders[i].row.check;
    printf("  %s\n", bench_check_name(worst));
    fflush(stdout);
}

/* Returns the number of libraries with wrong results. */
static int measure_size(struct compare *compare, size_t bytes)
{
    struct contender *contenders = compare->contenders;
    int calls = compare->options.iterations ? compare->options.iterations : bench_iterations(bytes);
    int wrong = 0;
    for (int i = 0; i < compare->count; i++) {
        bench_case_begin(&contenders[i].measured, bytes, &contenders[i].row);
        bench_case_warm(&contenders[i].measured, bench_warmup(calls));
    }
    for (int turn = 0; turn < TURNS; turn++) {
        int timed = calls * (turn + 1) / TURNS - calls * turn / TURNS;
        for (int i = 0; i < compare->count && timed > 0; i++) {
            bench_case_warm(&contenders[i].measured, TURN_WARMUP);
            for (int j = 0; j < timed; j++)
                bench_case_sample(&contenders[i].measured);
        }
    }
    for (int i = 0; i < compare->count; i++) {
        bench_case_end(&contenders[i].measured, &contenders[i].row);
        wrong += contenders[i].row.check == BENCH_WRONG;
        bench_report_row(&compare->report, &contenders[i].measured, contenders[i].library,
                         &contenders[i].row);
    }
    if (compare->group.rank == 0)
        print_rows(compare);
    return wrong;
}

/* Why NCCL cannot be measured on this rank; NULL if it can. */
static const char *nccl_refusal(struct compare *compare, char *reason, size_t bytes)
{
    if (!compare->device.cuda) {
        snprintf(reason, bytes, "the buffers are not on GPUs");
    } else if (compare->group.local_size > compare->device.count) {
        snprintf(reason, bytes, "%d ranks on %d GPUs, and NCCL needs a GPU for each rank",
                 compare->group.local_size, compare->device.count);
    } else if (bench_nccl_load(&compare->api, compare->options.nccl, reason, bytes)) {
        return NULL;
    }
    return reason;
}

/* Collective. False, with a message, if NCCL was asked for by name and cannot be had. */
static bool ready_nccl(struct compare *compare)
{
    char reason[512] = "another rank cannot";
    if (strcmp(compare->options.libraries, "mpi") == 0)
        return true;
    bool refused = nccl_refusal(compare, reason, sizeof(reason)) != NULL;
    compare->with_nccl = bench_max(&compare->group, refused) == 0;
    if (compare->with_nccl)
        return true;
    bool needed =
        strcmp(compare->options.libraries, "nccl") == 0 || strcmp(compare->options.nccl, "auto") != 0;
    if (refused && (needed || compare->group.rank == 0))
        fprintf(stderr, "%s: rank %d: NCCL is not measured: %s\n", bench_program, compare->group.rank,
                reason);
    return !needed;
}

static bool ready(struct compare *compare)
{
    struct bench_group *group = &compare->group;
    bool reported = group->rank != 0 || bench_report_open(&compare->report, compare->options.json);
    if (bench_max(group, !reported) > 0 ||
        !bench_device_open(&compare->device, group, compare->options.memory))
        return false;
    return ready_nccl(compare);
}

static void report_nccl(struct compare *compare)
{
    int version = 0;
    char text[32];
    compare->api.ncclGetVersion(&version);
    snprintf(text, sizeof(text), "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    bench_report_context(&compare->report, "nccl_version", text);
    if (compare->group.rank == 0)
        printf("NCCL %s from %s\n", text, compare->api.path);
}

static int run(struct compare *compare, int argc, char **argv)
{
    int wrong = 0;
    if (!ready(compare))
        return 2;
    bench_report_common(&compare->report, &compare->group, &compare->device, argc, argv);
    if (compare->with_nccl)
        report_nccl(compare);
    compare->stream = bench_stream_open(&compare->device);
    open_contenders(compare);
    if (compare->group.rank == 0)
        print_head(compare);
    for (size_t bytes = compare->options.min; bytes; bytes = bench_next_size(bytes, compare->options.max))
        wrong += measure_size(compare, bytes);
    /* In reverse: later contenders may use the first one's buffers. */
    while (compare->count > 0)
        close_contender(&compare->contenders[--compare->count]);
    bench_stream_close(&compare->device, compare->stream);
    bench_device_close(&compare->device);
    bool written = bench_report_close(&compare->report);
    return bench_max(&compare->group, wrong > 0 || !written) > 0;
}

int main(int argc, char **argv)
{
    static struct compare compare;
    int rank = 0;
    bench_program = "bench_compare";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    enum bench_parsed parsed = bench_options_parse(&compare.options, BENCH_COMPARE, argc, argv, rank == 0);
    int status = parsed == BENCH_PARSED_HELP ? 0 : 2;
    if (parsed == BENCH_PARSED_OK) {
        bench_group_open(&compare.group, MPI_COMM_WORLD);
        status = run(&compare, argc, argv);
        bench_group_close(&compare.group);
    }
    MPI_Finalize();
    return status;
}
