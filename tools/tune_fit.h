/*
 * The constants of the cost model that fit times which were measured.
 */
#ifndef GPUCOLL_TUNE_FIT_H
#define GPUCOLL_TUNE_FIT_H

#include "core/plan/algorithm.h"
#include "core/plan/model.h"
#include "core/plan/tuning.h"

/* One algorithm at one size: what its plan is made from, and the time it took. */
struct tune_sample {
    struct gpucoll_plan_input input; /* `model` and `config` are set where it is used */
    int row;                         /* of the table of algorithms */
    int max_ctas;
    bool linger; /* given to a kernel that lingers, else launched */
    double measured_us;
};

/* Are both of one call, and would a team choose between them? One that stores over links which need nothing else does not go through host memory, which is
 * timed there only for its constants. */
bool tune_same_choice(const struct tune_sample *a, const struct tune_sample *b);

/* The sample's time by these constants; `config` gives the settings that the sample does not. */
double tune_predict(const struct tune_sample *sample, const struct gpucoll_config *config,
                    const struct gpucoll_model *model);

/* The constants of least squares of the logarithms of predicted over measured time, from `start` on. A constant that the
 * samples say nothing of stays as it was, and is not in `set`. False without memory. */
bool tune_fit(const struct tune_sample *samples, int count, const struct gpucoll_config *config,
              const struct gpucoll_model *start, struct gpucoll_tuning *fitted);

#endif
