#include "core/selector.h"

#include <string.h>

const char *gpucoll_forced_algorithm(const struct gpucoll_config *config, enum gpucoll_coll coll)
{
    return coll == GPUCOLL_ALLREDUCE ? config->allreduce_algorithm : "auto";
}

static void shape(const struct gpucoll_algorithm *algorithm, const struct gpucoll_plan_input *input,
                  struct gpucoll_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->algorithm = algorithm;
    algorithm->shape(input, plan);
}

static bool select_forced(const struct gpucoll_plan_input *input, const char *name, const struct gpucoll_log *log,
                          bool *said, struct gpucoll_plan *plan)
{
    const char *why = "there is no such algorithm";
    const struct gpucoll_algorithm *row;
    for (int i = 0; (row = gpucoll_algorithm_row(i)) != NULL; i++) {
        if (row->coll == input->coll && strcmp(row->name, name) == 0) {
            why = row->unusable(input);
            if (why == NULL) {
                shape(row, input, plan);
                return true;
            }
        }
    }
    if (!*said) {
        *said = true;
        gpucoll_help(log, "algorithm-unusable", name, gpucoll_coll_name(input->coll), (size_t)input->bytes,
                     (unsigned)input->nranks, why);
    }
    return false;
}

gpucoll_status gpucoll_select(const struct gpucoll_plan_input *input, const struct gpucoll_log *log, bool *said,
                              struct gpucoll_plan *plan)
{
    const char *forced = gpucoll_forced_algorithm(input->config, input->coll);
    if (strcmp(forced, "auto") != 0 && select_forced(input, forced, log, said, plan)) {
        return GPUCOLL_OK;
    }
    plan->algorithm = NULL;
    const struct gpucoll_algorithm *row;
    for (int i = 0; (row = gpucoll_algorithm_row(i)) != NULL; i++) {
        if (row->coll != input->coll || row->unusable(input) != NULL) {
            continue;
        }
        struct gpucoll_plan candidate;
        shape(row, input, &candidate);
        if (plan->algorithm == NULL || candidate.predicted_us < plan->predicted_us) {
            *plan = candidate;
        }
    }
    return plan->algorithm != NULL ? GPUCOLL_OK : GPUCOLL_DECLINED;
}
