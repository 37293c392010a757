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

static bool is_any(const char *forced)
{
    return strcmp(forced, "auto") == 0;
}

/* The row of the least predicted time among those of the named algorithm and protocol. False if none can be used; then
 * `why` says what stood against the last one of that name. */
static bool choose(const struct gpucoll_plan_input *input, const char *name, const char *protocol, const char **why,
                   struct gpucoll_plan *plan)
{
    plan->algorithm = NULL;
    *why = "there is no such algorithm with this protocol";
    const struct gpucoll_algorithm *row;
    for (int i = 0; (row = gpucoll_algorithm_row(i)) != NULL; i++) {
        if (!gpucoll_algorithm_runs(row, input->coll) || (!is_any(name) && strcmp(row->name, name) != 0) ||
            (!is_any(protocol) && strcmp(row->protocol, protocol) != 0)) {
            continue;
        }
        const char *unusable = row->unusable(input);
        if (unusable != NULL) {
            *why = unusable;
            continue;
        }
        struct gpucoll_plan candidate;
        shape(row, input, &candidate);
        if (plan->algorithm == NULL || candidate.predicted_us < plan->predicted_us) {
            *plan = candidate;
        }
    }
    return plan->algorithm != NULL;
}

gpucoll_status gpucoll_select(const struct gpucoll_plan_input *input, const struct gpucoll_log *log, bool *said,
                              struct gpucoll_plan *plan)
{
    const char *name = gpucoll_forced_algorithm(input->config, input->coll);
    const char *protocol = input->config->protocol;
    const char *why = NULL;
    if (choose(input, name, protocol, &why, plan)) {
        return GPUCOLL_OK;
    }
    if (is_any(name) && is_any(protocol)) {
        return GPUCOLL_DECLINED;
    }
    if (!*said) {
        *said = true;
        gpucoll_help(log, "algorithm-unusable", name, protocol, gpucoll_coll_name(input->coll), (size_t)input->bytes,
                     (unsigned)input->nranks, why);
    }
    return choose(input, "auto", "auto", &why, plan) ? GPUCOLL_OK : GPUCOLL_DECLINED;
}
