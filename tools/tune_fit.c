/*
 * Levenberg and Marquardt's method on the logarithms of the constants: times and bandwidths of any magnitude stay positive, and a
 * prediction that is off by a factor counts the same at every size. The algorithms' own shape functions predict, so that a
 * new algorithm or constant needs nothing here.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/plan/selector.h"
#include "tools/tune_fit.h"
#include "ucx_tl/tl.h"

enum { N = GPUCOLL_MODEL_CONSTANTS, STEPS = 100 };
static const double prior = 1e-3;      /* weight of a constant's start: decides only what samples do not */
static const double outlier = 0.2;     /* residuals above count linearly */
static const double little = 0.02;     /* sensitivity below which samples say nothing of a constant */
static const double difference = 1e-4; /* of logarithms, for derivatives */
static const double never_us = 1e9;    /* a launch that costs this much: the plan lingers if it can */

struct problem {
    const struct tune_sample *samples;
    double *weights; /* of the samples */
    int count;
    const struct gpucoll_config *config;
    double start[N];
};

/* Half of the sum of squares, its gradient and second derivatives (Gauss and Newton's part), and what the samples alone say
 * of each constant. */
struct slope {
    double cost;
    double gradient[N];
    double matrix[N][N];
    double sensitivity[N];
};

bool tune_same_choice(const struct tune_sample *a, const struct tune_sample *b)
{
    return a->input.coll == b->input.coll && a->input.bytes == b->input.bytes &&
           (a->input.ways == GPUCOLL_TL_STORES) == (b->input.ways == GPUCOLL_TL_STORES);
}

double tune_predict(const struct tune_sample *sample, const struct gpucoll_config *config,
                    const struct gpucoll_model *model)
{
    struct gpucoll_config settings = *config;
    struct gpucoll_model constants = *model;
    struct gpucoll_plan_input input = sample->input;
    struct gpucoll_plan plan;
    settings.max_ctas = sample->max_ctas;
    if (sample->linger) {
        constants.launch_us = never_us;
    } else {
        settings.linger = 0;
    }
    input.config = &settings;
    input.model = &constants;
    gpucoll_shape(gpucoll_algorithm_row(sample->row), &input, &plan);
    return plan.predicted_us;
}

static void to_model(const double *at, struct gpucoll_model *model)
{
    for (int k = 0; k < N; k++) {
        *gpucoll_model_field(model, gpucoll_model_constant_at(k)) = exp(at[k]);
    }
}

static double residual(const struct problem *problem, int sample, const struct gpucoll_model *model)
{
    const struct tune_sample *one = &problem->samples[sample];
    return log(tune_predict(one, problem->config, model) / one->measured_us);
}

static double cost_of(double off)
{
    const double size = fabs(off);
    return size <= outlier ? off * off / 2 : outlier * (size - outlier / 2);
}

static double cost_at(const struct problem *problem, const double *at)
{
    struct gpucoll_model model;
    double cost = 0;
    to_model(at, &model);
    for (int i = 0; i < problem->count; i++) {
        cost += problem->weights[i] * cost_of(residual(problem, i, &model));
    }
    for (int k = 0; k < N; k++) {
        cost += prior * (at[k] - problem->start[k]) * (at[k] - problem->start[k]) / 2;
    }
    return cost;
}

static void add_sample(const struct problem *problem, int sample, const double *at, struct slope *slope)
{
    struct gpucoll_model model;
    double derivative[N];
    to_model(at, &model);
    const double off = residual(problem, sample, &model);
    const double weight = problem->weights[sample] * (fabs(off) <= outlier ? 1 : outlier / fabs(off));
    for (int k = 0; k < N; k++) {
        double *field = gpucoll_model_field(&model, gpucoll_model_constant_at(k));
        const double value = *field;
        *field = value * exp(difference);
        derivative[k] = (residual(problem, sample, &model) - off) / difference;
        *field = value;
    }
    for (int k = 0; k < N; k++) {
        slope->gradient[k] += weight * derivative[k] * off;
        slope->sensitivity[k] += derivative[k] * derivative[k];
        for (int l = 0; l < N; l++) {
            slope->matrix[k][l] += weight * derivative[k] * derivative[l];
        }
    }
}

static void find_slope(const struct problem *problem, const double *at, struct slope *slope)
{
    memset(slope, 0, sizeof *slope);
    slope->cost = cost_at(problem, at);
    for (int i = 0; i < problem->count; i++) {
        add_sample(problem, i, at, slope);
    }
    for (int k = 0; k < N; k++) {
        slope->gradient[k] += prior * (at[k] - problem->start[k]);
        slope->matrix[k][k] += prior;
    }
}

/* Solves (matrix + damping * its diagonal) step = -gradient. The matrix is positive definite: the prior sees to it. */
static void solve(const struct slope *slope, double damping, double *step)
{
    double a[N][N];
    memcpy(a, slope->matrix, sizeof a);
    for (int k = 0; k < N; k++) {
        a[k][k] *= 1 + damping;
        step[k] = -slope->gradient[k];
    }
    for (int k = 0; k < N; k++) {
        for (int i = k + 1; i < N; i++) {
            const double factor = a[i][k] / a[k][k];
            for (int j = k; j < N; j++) {
                a[i][j] -= factor * a[k][j];
            }
            step[i] -= factor * step[k];
        }
    }
    for (int k = N - 1; k >= 0; k--) {
        for (int j = k + 1; j < N; j++) {
            step[k] -= a[k][j] * step[j];
        }
        step[k] /= a[k][k];
    }
}

/* No constant changes by more than a factor of e in one step: derivatives hold near by only. */
static void shorten(double *step)
{
    double longest = 1;
    for (int k = 0; k < N; k++) {
        longest = fmax(longest, fabs(step[k]));
    }
    for (int k = 0; k < N; k++) {
        step[k] /= longest;
    }
}

static void descend(const struct problem *problem, double *at, struct slope *slope)
{
    double damping = 1e-3;
    for (int i = 0; i < STEPS && damping < 1e9; i++) {
        double step[N];
        double next[N];
        solve(slope, damping, step);
        shorten(step);
        for (int k = 0; k < N; k++) {
            next[k] = at[k] + step[k];
        }
        const double gained = slope->cost - cost_at(problem, next);
        if (gained <= 0) {
            damping *= 4;
            continue;
        }
        memcpy(at, next, sizeof next);
        find_slope(problem, at, slope);
        damping /= 3;
        if (gained < 1e-9 * slope->cost) {
            return;
        }
    }
}

/* A sample counts less the slower it is than the quickest for the same call: predictions matter where they are near to being
 * chosen, and the model need not hold elsewhere. */
static void find_weights(struct problem *problem)
{
    const struct tune_sample *samples = problem->samples;
    for (int i = 0; i < problem->count; i++) {
        double quickest = samples[i].measured_us;
        for (int j = 0; j < problem->count; j++) {
            if (tune_same_choice(&samples[j], &samples[i])) {
                quickest = fmin(quickest, samples[j].measured_us);
            }
        }
        problem->weights[i] = quickest / samples[i].measured_us;
    }
}

bool tune_fit(const struct tune_sample *samples, int count, const struct gpucoll_config *config,
              const struct gpucoll_model *start, struct gpucoll_tuning *fitted)
{
    struct problem problem = {.samples = samples, .count = count, .config = config};
    struct gpucoll_model model = *start;
    struct slope slope;
    double first[N];
    double at[N];
    problem.weights = calloc((size_t)count, sizeof *problem.weights);
    if (problem.weights == NULL) {
        return false;
    }
    find_weights(&problem);
    for (int k = 0; k < N; k++) {
        problem.start[k] = log(*gpucoll_model_field(&model, gpucoll_model_constant_at(k)));
    }
    memcpy(at, problem.start, sizeof at);
    find_slope(&problem, at, &slope);
    memcpy(first, slope.sensitivity, sizeof first);
    descend(&problem, at, &slope);
    fitted->set = 0;
    for (int k = 0; k < N; k++) {
        /* One that was seen to matter and now does not is known to be small. */
        const bool known = fmax(first[k], slope.sensitivity[k]) > little;
        if (!known) {
            at[k] = problem.start[k];
        }
        fitted->set |= (uint32_t)known << k;
    }
    to_model(at, &fitted->model);
    free(problem.weights);
    return true;
}
