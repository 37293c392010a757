#include "core/selector.h"

#include <stdarg.h>
#include <stdio.h>
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
static bool choose(const struct gpucoll_plan_input *input, const char *name, const char *protocol,
                   const char **why, struct gpucoll_plan *plan)
{
    plan->algorithm = NULL;
    *why = "there is no such algorithm with this protocol";
    const struct gpucoll_algorithm *row;
    for (int i = 0; (row = gpucoll_algorithm_row(i)) != NULL; i++) {
        if (!gpucoll_algorithm_runs(row, input->coll) || (!is_any(name) && strcmp(row->name, name) != 0) ||
            (!is_any(protocol) && strcmp(row->protocol, protocol) != 0)) {
            continue;
        }
        const char *unusable = gpucoll_algorithm_unusable(row, input);
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

/* A protocol that is forced for all collectives binds those that have it. */
static const char *forced_protocol(const struct gpucoll_plan_input *input)
{
    const struct gpucoll_algorithm *row;
    for (int i = 0; (row = gpucoll_algorithm_row(i)) != NULL; i++) {
        if (gpucoll_algorithm_runs(row, input->coll) && strcmp(row->protocol, input->config->protocol) == 0) {
            return row->protocol;
        }
    }
    return "auto";
}

gpucoll_status gpucoll_select(const struct gpucoll_plan_input *input, const struct gpucoll_log *log,
                              bool *said, struct gpucoll_plan *plan)
{
    const char *name = gpucoll_forced_algorithm(input->config, input->coll);
    const char *protocol = forced_protocol(input);
    const char *why = NULL;
    if (choose(input, name, protocol, &why, plan)) {
        return GPUCOLL_OK;
    }
    if (is_any(name) && is_any(protocol)) {
        return GPUCOLL_DECLINED;
    }
    if (!*said) {
        *said = true;
        gpucoll_help(log, "algorithm-unusable", name, protocol, gpucoll_coll_name(input->coll),
                     (size_t)input->bytes, (unsigned)input->nranks, why);
    }
    return choose(input, "auto", "auto", &why, plan) ? GPUCOLL_OK : GPUCOLL_DECLINED;
}

static void append(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void append(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

void gpucoll_select_explain(const struct gpucoll_plan_input *input, char *text, size_t size)
{
    text[0] = '\0';
    const struct gpucoll_algorithm *row;
    for (int i = 0; (row = gpucoll_algorithm_row(i)) != NULL; i++) {
        if (!gpucoll_algorithm_runs(row, input->coll)) {
            continue;
        }
        append(text, size, "%s%s/%s ", text[0] != '\0' ? ", " : "", row->name, row->protocol);
        const char *unusable = gpucoll_algorithm_unusable(row, input);
        if (unusable != NULL) {
            append(text, size, "cannot (%s)", unusable);
            continue;
        }
        struct gpucoll_plan candidate;
        shape(row, input, &candidate);
        append(text, size, "%.1f us", candidate.predicted_us);
    }
    const char *name = gpucoll_forced_algorithm(input->config, input->coll);
    const char *protocol = input->config->protocol;
    if (!is_any(name) || !is_any(protocol)) {
        append(text, size, "; set: algorithm %s, protocol %s", name, protocol);
    }
}
