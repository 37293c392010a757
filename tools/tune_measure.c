/*
 * What a rank of --tune does. For each collective, algorithm and way of starting its kernel a team is made whose parameters force
 * them, and calls are timed: all ranks start together, and the slowest counts.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/clock.h"
#include "core/context.h"
#include "core/request.h"
#include "core/team.h"
#include "tools/tune.h"
#include "ucx_tl/tl.h"

enum { WARM_UP = 3, LEAST_CALLS = 7, FEW_CTAS = 4, POINTS = 160 /* about; shares the time out */ };
static const double longest_us = 100000; /* a call that takes longer is the largest of its kind */
static const double never_us = 1e9;

/* What is timed together. */
struct series {
    enum gpucoll_coll coll;
    int row;
    int max_ctas;
    bool linger;
};

/* Collectives by which algorithms are timed that run any. */
static bool stands_for_all(enum gpucoll_coll coll)
{
    return coll == GPUCOLL_ALLGATHER || coll == GPUCOLL_REDUCE_SCATTER_BLOCK;
}

static bool is_timed(const struct gpucoll_algorithm *row, enum gpucoll_coll coll)
{
    return gpucoll_algorithm_runs(row, coll) && (coll == GPUCOLL_ALLREDUCE || stands_for_all(coll) ||
                                                 (coll == GPUCOLL_BCAST && row->coll == GPUCOLL_BCAST));
}

/* Fills the arguments for `bytes` of the plan's measure: the message, or one rank's part of it. */
static void fill_args(const struct tune_rank *rank, enum gpucoll_coll coll, size_t bytes,
                      struct gpucoll_block *blocks, struct gpucoll_coll_args *args)
{
    const uint32_t ranks = rank->options->ranks;
    for (uint32_t i = 0; i < ranks; i++) {
        blocks[i] = (struct gpucoll_block){.offset = (ptrdiff_t)(i * bytes), .bytes = bytes};
    }
    *args = (struct gpucoll_coll_args){
        .coll = coll, .op = GPUCOLL_SUM, .type = GPUCOLL_FLOAT32, .send = rank->send, .recv = rank->recv};
    switch (coll) {
    case GPUCOLL_ALLREDUCE:
        args->count = bytes / sizeof(float);
        break;
    case GPUCOLL_BCAST:
        *(rank->rank == args->root ? &args->send_blocks : &args->recv_blocks) = blocks;
        break;
    default:
        args->send_blocks = blocks;
        args->recv_blocks = blocks;
    }
}

static gpucoll_status call(const struct tune_rank *rank, struct gpucoll_team *team,
                           const struct gpucoll_coll_args *args)
{
    struct gpucoll_request *request = NULL;
    gpucoll_status status = gpucoll_post(team, args, &request);
    while (status == GPUCOLL_OK && (status = gpucoll_test(request)) == GPUCOLL_IN_PROGRESS) {
        status = GPUCOLL_OK;
        if (rank->device.host) {
            sched_yield(); /* its kernels run on the same cores */
        }
    }
    return status;
}

static bool timed_call(struct tune_rank *rank, struct gpucoll_team *team,
                       const struct gpucoll_coll_args *args, double *us)
{
    if (!tune_barrier(rank)) {
        return false;
    }
    const uint64_t begin = gpucoll_now_ns();
    gpucoll_status status = call(rank, team, args);
    *us = (double)(gpucoll_now_ns() - begin) / 1e3;
    if (status != GPUCOLL_OK) {
        tune_failed(rank, "%s failed: %s", gpucoll_coll_name(args->coll), gpucoll_status_name(status));
    }
    return status == GPUCOLL_OK;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median of the slowest rank's times. */
static double median_us(const struct tune_rank *rank, int calls)
{
    double slowest[TUNE_CALLS] = {0};
    for (int i = 0; i < calls; i++) {
        for (uint32_t r = 0; r < rank->options->ranks; r++) {
            const double us = rank->shared->times[r][i];
            slowest[i] = us > slowest[i] ? us : slowest[i];
        }
    }
    qsort(slowest, (size_t)calls, sizeof slowest[0], by_value);
    return slowest[calls / 2];
}

/* The time of one call, known to rank 0; `*about_us` is known to all. False if something failed. */
static bool time_calls(struct tune_rank *rank, struct gpucoll_team *team,
                       const struct gpucoll_coll_args *args, double *about_us, double *us)
{
    double all[GPUCOLL_MAX_LOCAL];
    double mine = 0;
    for (int i = 0; i < WARM_UP; i++) {
        if (!timed_call(rank, team, args, &mine)) {
            return false;
        }
    }
    if (tune_allgather(rank, &mine, all, sizeof mine) != 0) {
        return false;
    }
    *about_us = 0;
    for (uint32_t r = 0; r < rank->options->ranks; r++) {
        *about_us = all[r] > *about_us ? all[r] : *about_us;
    }
    const double calls = rank->options->seconds * 1e6 / POINTS / *about_us;
    const int count = calls < LEAST_CALLS ? LEAST_CALLS : calls > TUNE_CALLS ? TUNE_CALLS : (int)calls;
    for (int i = 0; i < count; i++) {
        if (!timed_call(rank, team, args, &rank->shared->times[rank->rank][i])) {
            return false;
        }
    }
    if (!tune_barrier(rank)) {
        return false;
    }
    *us = rank->rank == 0 ? median_us(rank, count) : 0;
    return tune_barrier(rank);
}

static void keep(struct tune_rank *rank, const struct series *series, const struct gpucoll_plan_input *input,
                 double us)
{
    struct tune_shared *shared = rank->shared;
    if (rank->rank == 0 && shared->count < TUNE_SAMPLES) {
        struct tune_sample *sample = &shared->samples[shared->count++];
        *sample = (struct tune_sample){.input = *input,
                                       .row = series->row,
                                       .max_ctas = series->max_ctas,
                                       .linger = series->linger,
                                       .measured_us = us};
        sample->input.model = NULL;
        sample->input.config = NULL;
    }
}

/* Would the team run this input by the algorithm of the series, started as the series says? */
static bool is_of(const struct series *series, const struct gpucoll_plan_input *input)
{
    const struct gpucoll_algorithm *row = gpucoll_algorithm_row(series->row);
    struct gpucoll_plan plan;
    if (gpucoll_unusable(row, input) != NULL) {
        return false;
    }
    gpucoll_shape(row, input, &plan);
    return plan.linger == series->linger && (series->max_ctas != FEW_CTAS || plan.ctas == FEW_CTAS);
}

/* Did it? A call that was to be direct may turn out not to be possible as one. */
static bool was_of(const struct series *series, const struct gpucoll_team *team)
{
    return team->spare != NULL && team->spare->plan.algorithm == gpucoll_algorithm_row(series->row);
}

static bool time_sizes(struct tune_rank *rank, const struct series *series, struct gpucoll_team *team)
{
    const struct gpucoll_algorithm *row = gpucoll_algorithm_row(series->row);
    struct gpucoll_block blocks[GPUCOLL_MAX_LOCAL];
    struct gpucoll_coll_args args;
    const size_t most =
        rank->options->most_bytes / (series->coll == GPUCOLL_ALLREDUCE ? 1 : rank->options->ranks);
    double about_us = 0;
    double us = 0;
    const int functor =
        gpucoll_coll_reduces(series->coll) ? gpucoll_functor(GPUCOLL_SUM, GPUCOLL_FLOAT32) : 0;
    fill_args(rank, series->coll, 16, blocks, &args);
    if (!timed_call(rank, team, &args, &us)) { /* makes the connections, which the plans are made from */
        return false;
    }
    for (size_t bytes = 16; bytes <= most && about_us < longest_us; bytes *= 8) {
        const struct gpucoll_plan_call call = {
            .coll = series->coll,
            .functor = functor,
            .bytes = bytes,
            .direct = gpucoll_algorithm_direct(row),
            .room = series->coll == GPUCOLL_ALLREDUCE,
        };
        const struct gpucoll_plan_input input = gpucoll_team_input(team, team->links, &call);
        if (!is_of(series, &input)) {
            continue;
        }
        fill_args(rank, series->coll, bytes, blocks, &args);
        if (!time_calls(rank, team, &args, &about_us, &us)) {
            return false;
        }
        if (was_of(series, team)) {
            keep(rank, series, &input, us);
        }
    }
    return true;
}

/* A launch that costs for ever makes the plans of lingering kernels. */
static void force_linger(bool linger, struct gpucoll_tuning *tuning)
{
    const struct gpucoll_model_constant *constant;
    memset(tuning, 0, sizeof *tuning);
    tuning->model.launch_us = never_us;
    for (int i = 0; linger && (constant = gpucoll_model_constant_at(i)) != NULL; i++) {
        if (constant->offset == offsetof(struct gpucoll_model, launch_us)) {
            tuning->set = UINT32_C(1) << i;
        }
    }
}

/* What leaves the ranks no other way than those that the row needs. What goes through host memory is timed also where it would not be taken, since no
 * GPU tells its constants. NULL: the user does not allow it. */
static const char *transports_of(const struct gpucoll_algorithm *row, const char *allowed)
{
    const struct gpucoll_tl_ops *tl;
    for (int i = 0; row->needs != 0 && (tl = gpucoll_tl_row(i)) != NULL; i++) {
        const bool suits = (tl->does & row->needs) == row->needs && (tl->does & GPUCOLL_TL_STORES) == 0;
        if (suits && gpucoll_tl_is_allowed(allowed, tl)) {
            return tl->name;
        }
    }
    return row->needs == 0 ? allowed : NULL;
}

static bool time_series(struct tune_rank *rank, const struct series *series)
{
    const struct gpucoll_algorithm *row = gpucoll_algorithm_row(series->row);
    const char *transports = transports_of(row, rank->config.transports);
    const struct gpucoll_exchange exchange = {
        .rank = rank->rank, .size = rank->options->ranks, .allgather = tune_allgather, .arg = rank};
    struct gpucoll_team *team = NULL;
    struct gpucoll_config own = rank->config;
    if (transports == NULL) {
        return true;
    }
    rank->config.transports = (char *)transports;
    rank->config.algorithm[series->coll] = (char *)row->name;
    rank->config.protocol = (char *)row->protocol;
    rank->config.max_ctas = series->max_ctas;
    rank->config.zero_copy = row->direct;
    if (!series->linger &&
        row->needs == 0) { /* else it is the courier of few bytes that lingers (core/courier.h) */
        rank->config.linger = 0;
    }
    force_linger(series->linger, &rank->context->tuning);
    gpucoll_status status = gpucoll_team_create(rank->context, &exchange, "the tuned team", &team);
    if (status != GPUCOLL_OK) {
        tune_failed(rank, "making a team: %s", gpucoll_status_name(status));
        return false;
    }
    bool fine = time_sizes(rank, series, team);
    fine = tune_barrier(rank) && fine; /* a peer may read this rank's board to the end */
    gpucoll_team_destroy(team);
    rank->config = own;
    return fine;
}

void tune_measure(struct tune_rank *rank)
{
    const struct gpucoll_algorithm *row;
    for (int i = 0; (row = gpucoll_algorithm_row(i)) != NULL; i++) {
        for (enum gpucoll_coll coll = 0; coll < GPUCOLL_COLL_COUNT; coll++) {
            if (!is_timed(row, coll)) {
                continue;
            }
            const int most = rank->config.max_ctas;
            const struct series all[] = {
                {coll, i, most, false}, {coll, i, FEW_CTAS, false}, {coll, i, most, true}};
            for (size_t j = 0; j < sizeof all / sizeof all[0]; j++) {
                /* What goes by copy engines alone does not depend on CTAs. */
                const bool senseless = all[j].linger ? rank->config.linger == 0 : j > 0 && row->spares_sms;
                if (!senseless && !time_series(rank, &all[j])) {
                    return;
                }
            }
        }
    }
}
