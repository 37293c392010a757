/*
 * MPI collectives beside NCCL's, in one process and in turn, so that both meet the same machine in the same state:
 *
 *   mpirun -n 4 --mca coll gpucoll bench_compare --collectives=all --passes=all --json=result.json
 *
 * As an MPI rank sees it: one process a GPU, blocking; for NCCL that is the call and the wait for its stream. NCCL twice: with
 * plain allocations, and with symmetric windows (bench/contender.h). Where there is no NCCL, or not a GPU for each
 * rank, MPI is measured alone. bench/side_by_side runs this.
 */
#include <stdio.h>
#include <string.h>
#include "bench/contender.h"
#include "bench/overlap.h"

/* The timed calls of a size are split into this many turns of each library: slow drift of clocks meets all alike. */
enum { TURNS = 5, TURN_WARMUP = 2, TRIALS = 2, LEAST_CALLS = 10, OVERRUN = 4 };
/* Shorter communication takes less time than it takes to start the computation beside it. */
enum { OVERLAP_LEAST = 1 << 20 };

/* A way of calling every collective. */
struct pass {
    const char *name;
    enum bench_form form;
    bool in_place;
    bool on_host;
    bool beside; /* computation */
};
static const struct pass passes[] = {
    {"blocking", BENCH_BLOCKING, false, false, false},
    {"overlap", BENCH_NONBLOCKING, false, false, true},
    {"in-place", BENCH_BLOCKING, true, false, false},
    {"nonblocking", BENCH_NONBLOCKING, false, false, false},
    {"persistent", BENCH_PERSISTENT, false, false, false},
    {"host", BENCH_BLOCKING, false, true, false},
};
enum { PASS_COUNT = sizeof(passes) / sizeof(passes[0]) };

struct compare {
    struct bench_options options;
    struct bench_group group;
    struct bench_device device;
    struct bench_report report;
    struct bench_rivals rivals;
    struct bench_compute compute;
    double deadline; /* by MPI_Wtime of rank 0; 0: none */
    bool spent;      /* the deadline has passed */
    int points;      /* still to be measured */
    int wrong;       /* results */
    uint64_t seed;   /* of the data of the present size */
};

static bool is_pass_wanted(const struct compare *compare, int pass)
{
    return bench_is_listed(compare->options.passes, passes[pass].name);
}

/* Beside another pass, only the first is measured at every size; of further collectives none is. */
static bool is_size_wanted(const struct compare *compare, int pass, const struct bench_coll *coll,
                           size_t bytes)
{
    bool sparse = coll->further && !compare->options.doubling;
    if (passes[pass].beside)
        return bytes >= OVERLAP_LEAST || bytes == compare->options.max;
    for (int i = 0; i < pass; i++)
        sparse = sparse || is_pass_wanted(compare, i);
    for (size_t few = 4096; few <= bytes && sparse; few *= 16)
        if (few == bytes)
            return true;
    return !sparse || bytes == compare->options.min;
}

static bool takes_part(const struct bench_contender *contender, const struct pass *pass)
{
    return (contender->kind == BENCH_MPI_HOST) == pass->on_host && bench_contender_can(contender);
}

/* Seconds that are left; the same on every rank. */
static double seconds_left(struct compare *compare)
{
    double left = compare->group.rank == 0 ? compare->deadline - MPI_Wtime() : -1e9;
    return bench_max(&compare->group, left);
}

/* Warms up, and finds how many calls of this contender fit into `seconds`, by trial: at least LEAST_CALLS, unless those would take
 * many times as long. */
static void plan_calls(struct compare *compare, struct bench_contender *contender, size_t bytes,
                       double seconds)
{
    int calls = compare->options.iterations ? compare->options.iterations : bench_iterations(bytes);
    double begin = MPI_Wtime();
    bench_case_warm(&contender->measured, 1);
    double fit = seconds / bench_max(&compare->group, MPI_Wtime() - begin);
    contender->calls = calls;
    contender->warmup = TURN_WARMUP;
    if (compare->deadline > 0 && fit * OVERRUN < LEAST_CALLS) {
        contender->calls = 1;
        contender->warmup = 0;
        return;
    }
    bench_case_warm(&contender->measured, bench_warmup(compare->deadline > 0 ? 0 : calls));
    if (compare->options.iterations || compare->deadline == 0)
        return;
    begin = MPI_Wtime();
    bench_case_warm(&contender->measured, TRIALS);
    fit = seconds * TRIALS / bench_max(&compare->group, MPI_Wtime() - begin);
    if (fit < calls)
        contender->calls = fit > LEAST_CALLS ? (int)fit : LEAST_CALLS;
    bench_case_warm(&contender->measured, contender->calls / 10);
}

static void print_head(const struct compare *compare, const struct bench_coll *coll, const struct pass *pass)
{
    const struct bench_options *options = &compare->options;
    printf("\n%s, %s, %s %s, %d ranks: time of the slowest rank in us, median\n%8s", coll->name, pass->name,
           options->type->name, options->op->name, compare->group.size, "size");
    for (int i = 0; i < compare->rivals.count; i++)
        if (takes_part(&compare->rivals.contender[i], pass))
            printf(" %15s", compare->rivals.contender[i].library);
    printf("  check\n");
}

static void print_rows(const struct compare *compare, const struct pass *pass)
{
    enum bench_check worst = BENCH_RIGHT;
    char size[16];
    bool first = true;
    for (int i = 0; i < compare->rivals.count; i++) {
        const struct bench_contender *contender = &compare->rivals.contender[i];
        if (!takes_part(contender, pass))
            continue;
        if (first)
            printf("%8s", bench_size_text(contender->row.bytes, size));
        first = false;
        printf(" %15.1f", contender->row.times.median_us);
        if (pass->beside)
            printf(" (%2.0f%% hidden)", contender->row.overlap.hidden * 100);
        worst = contender->row.check > worst ? contender->row.check : worst;
    }
    printf("  %s\n", bench_check_name(worst));
    fflush(stdout);
}

/* The trials may have told less than the truth: on a busy machine the turns end early. */
static void time_in_turns(struct compare *compare, struct bench_contender **contender, int count,
                          double seconds)
{
    double begin = MPI_Wtime();
    for (int turn = 0; turn < TURNS; turn++) {
        bool limited = turn > 0 && compare->deadline > 0;
        if (limited && bench_max(&compare->group, MPI_Wtime() - begin) > OVERRUN * seconds)
            return;
        for (int i = 0; i < count; i++) {
            int calls = contender[i]->calls;
            /* Rounded up: each has some in the first turn. */
            int timed = (calls * (turn + 1) + TURNS - 1) / TURNS - (calls * turn + TURNS - 1) / TURNS;
            if (timed > 0)
                bench_case_warm(&contender[i]->measured, contender[i]->warmup);
            for (int j = 0; j < timed; j++)
                bench_case_sample(&contender[i]->measured);
        }
    }
}

static void time_alone(struct compare *compare, struct bench_contender **contender, int count, size_t bytes,
                       double seconds)
{
    for (int i = 0; i < count; i++) {
        bench_case_begin(&contender[i]->measured, bytes, &contender[i]->row);
        plan_calls(compare, contender[i], bytes, seconds / count);
    }
    time_in_turns(compare, contender, count, seconds);
    for (int i = 0; i < count; i++)
        bench_case_end(&contender[i]->measured, &contender[i]->row);
}

static void time_beside(struct compare *compare, struct bench_contender **contender, int count, size_t bytes,
                        double seconds)
{
    struct bench_beside beside;
    if (!compare->compute.device) {
        bench_compute_open(&compare->compute, &compare->group, &compare->device, compare->options.cublas);
        if (compare->group.rank == 0)
            printf("Computation: %s.\n", compare->compute.kind->name);
    }
    for (int i = 0; i < count; i++) {
        bench_contender_overlap(contender[i], &beside);
        beside.calls = compare->options.in_a_row > 1 ? compare->options.in_a_row : 1;
        bench_overlap_measure(&beside, &contender[i]->measured, &compare->compute, bytes,
                              compare->options.iterations, seconds / count, &contender[i]->row);
    }
}

/* One size of one collective in one pass, by all that take part. */
static void measure_point(struct compare *compare, const struct pass *pass, size_t bytes, double seconds)
{
    struct bench_contender *part[BENCH_CONTENDERS];
    int count = 0;
    for (int i = 0; i < compare->rivals.count; i++)
        if (takes_part(&compare->rivals.contender[i], pass))
            part[count++] = &compare->rivals.contender[i];
    /* Some share their send buffer: all have the same data. */
    compare->seed++;
    for (int i = 0; i < count; i++)
        part[i]->measured.key.seed = compare->seed;
    if (pass->beside)
        time_beside(compare, part, count, bytes, seconds);
    else
        time_alone(compare, part, count, bytes, seconds);
    for (int i = 0; i < count; i++) {
        compare->wrong += part[i]->row.check == BENCH_WRONG;
        bench_report_row(&compare->report, &part[i]->measured, part[i]->library, &part[i]->row);
    }
    if (compare->group.rank == 0 && count > 0)
        print_rows(compare, pass);
}

static size_t largest(const struct compare *compare, const struct pass *pass)
{
    for (int i = 0; i < compare->rivals.count; i++)
        if (takes_part(&compare->rivals.contender[i], pass))
            return compare->rivals.contender[i].measured.room;
    return 0;
}

static void set_cases(struct compare *compare, const struct pass *pass, const struct bench_coll *coll,
                      MPI_Comm comm)
{
    for (int i = 0; i < compare->rivals.count; i++) {
        struct bench_case *measured = &compare->rivals.contender[i].measured;
        measured->coll = coll;
        measured->form = pass->form;
        measured->in_place = pass->in_place;
        measured->comm = comm;
    }
}

static int count_sizes(const struct compare *compare, int pass, const struct bench_coll *coll, size_t max,
                       size_t room)
{
    int count = 0;
    for (size_t bytes = compare->options.min; bytes && bytes <= room;
         bytes = bench_next_size(bytes, max, compare->options.doubling))
        count += is_size_wanted(compare, pass, coll, bytes);
    return count;
}

/* All sizes of one collective in one pass; with `count_only`, or when no time is left, they are counted and not measured. */
static void run_sizes(struct compare *compare, int index, const struct bench_coll *coll, bool count_only)
{
    const struct pass *pass = &passes[index];
    const struct bench_options *options = &compare->options;
    MPI_Comm comm;
    set_cases(compare, pass, coll, MPI_COMM_NULL);
    size_t max = coll->has_data ? options->max : options->min;
    size_t room = largest(compare, pass);
    if (room == 0 || (pass->in_place && !bench_coll_can_be_in_place(coll)) ||
        !bench_coll_has_form(coll, pass->form, compare->group.size) ||
        (pass->beside && !bench_overlap_can(coll)))
        return;
    if (count_only || compare->spent) {
        int count = count_sizes(compare, index, coll, max, room);
        *(count_only ? &compare->points : &compare->report.left_out) += count;
        return;
    }
    /* A new one, so that the first call of the first size is the first on a communicator. */
    MPI_Comm_dup(bench_case_comm(&compare->group, coll), &comm);
    set_cases(compare, pass, coll, comm);
    if (compare->group.rank == 0)
        print_head(compare, coll, pass);
    for (size_t bytes = options->min; bytes && bytes <= room;
         bytes = bench_next_size(bytes, max, options->doubling)) {
        if (!is_size_wanted(compare, index, coll, bytes))
            continue;
        double left = compare->deadline > 0 && !compare->spent ? seconds_left(compare) : 0;
        compare->spent = compare->deadline > 0 && left <= 0;
        if (compare->spent)
            compare->report.left_out++;
        else
            measure_point(compare, pass, bytes, left / compare->points);
        compare->points--;
    }
    MPI_Comm_free(&comm);
}

static void run_passes(struct compare *compare, bool count_only)
{
    const struct bench_coll *coll;
    for (int pass = 0; pass < PASS_COUNT; pass++)
        for (int i = 0; is_pass_wanted(compare, pass) && (coll = bench_coll_row(i)) != NULL; i++)
            if (bench_is_wanted(&compare->options, coll))
                run_sizes(compare, pass, coll, count_only);
}

static bool ready(struct compare *compare, int argc, char **argv)
{
    struct bench_group *group = &compare->group;
    struct bench_rivals *rivals = &compare->rivals;
    bool reported = group->rank != 0 || bench_report_open(&compare->report, compare->options.json);
    if (bench_max(group, !reported) > 0 ||
        !bench_device_open(&compare->device, group, compare->options.memory))
        return false;
    bench_nccl_settings(); /* of which the report tells */
    bench_report_common(&compare->report, group, &compare->device, argc, argv);
    rivals->options = &compare->options;
    rivals->group = group;
    rivals->device = &compare->device;
    rivals->report = &compare->report;
    return bench_rivals_open(rivals, bench_is_listed(compare->options.passes, "host"));
}

static int run(struct compare *compare, int argc, char **argv)
{
    double begin = MPI_Wtime();
    if (!ready(compare, argc, argv))
        return 2;
    if (compare->options.budget_s > 0)
        compare->deadline = begin + compare->options.budget_s;
    run_passes(compare, true);
    run_passes(compare, false);
    if (compare->group.rank == 0) {
        if (compare->report.left_out > 0)
            printf("\n%d sizes were left out: the budget of %d s was spent.\n", compare->report.left_out,
                   compare->options.budget_s);
        printf("\nMeasured in %.0f s.\n", MPI_Wtime() - begin);
    }
    bench_compute_close(&compare->compute);
    bench_rivals_close(&compare->rivals);
    bench_device_close(&compare->device);
    bool written = bench_report_close(&compare->report);
    return bench_max(&compare->group, compare->wrong > 0 || !written) > 0;
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
        compare.group.pause_us = compare.options.pause_us;
        status = run(&compare, argc, argv);
        bench_group_close(&compare.group);
    }
    MPI_Finalize();
    return status;
}
