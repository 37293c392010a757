#include "core/selector.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool is_any(const char *forced)
{
    return strcmp(forced, "auto") == 0;
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

/* The collective whose algorithm the parameter sets; GPUCOLL_COLL_COUNT if it is another parameter. */
static enum gpucoll_coll coll_of(const struct gpucoll_config_row *row)
{
    const size_t first = offsetof(struct gpucoll_config, algorithm);
    const size_t index = (row->offset - first) / sizeof(char *);
    return row->offset >= first && index < GPUCOLL_COLL_COUNT ? (enum gpucoll_coll)index : GPUCOLL_COLL_COUNT;
}

static bool is_protocol(const struct gpucoll_config_row *row)
{
    return row->offset == offsetof(struct gpucoll_config, protocol);
}

/* The name by which the parameter can force the algorithm; NULL if it cannot. */
static const char *name_for(const struct gpucoll_config_row *row, const struct gpucoll_algorithm *algorithm)
{
    if (is_protocol(row)) {
        return algorithm->protocol;
    }
    return gpucoll_algorithm_runs(algorithm, coll_of(row)) ? algorithm->name : NULL;
}

/* The index of the first algorithm that the parameter can force by this name, or that of none: past the end. */
static int first_of(const struct gpucoll_config_row *row, const char *name)
{
    const struct gpucoll_algorithm *algorithm;
    int i = 0;
    for (; (algorithm = gpucoll_algorithm_row(i)) != NULL; i++) {
        const char *other = name_for(row, algorithm);
        if (other != NULL && strcmp(other, name) == 0) {
            break;
        }
    }
    return i;
}

const char *gpucoll_select_values(const struct gpucoll_config_row *row, char *text, size_t size)
{
    if (coll_of(row) == GPUCOLL_COLL_COUNT && !is_protocol(row)) {
        return row->values;
    }
    const struct gpucoll_algorithm *algorithm;
    snprintf(text, size, "auto");
    for (int i = 0; (algorithm = gpucoll_algorithm_row(i)) != NULL; i++) {
        const char *name = name_for(row, algorithm);
        if (name != NULL && first_of(row, name) == i) {
            append(text, size, "|%s", name);
        }
    }
    return text;
}

bool gpucoll_select_check(struct gpucoll_config *config, const struct gpucoll_log *log)
{
    bool fine = true;
    for (int i = 0; i < gpucoll_config_row_count; i++) {
        const struct gpucoll_config_row *row = &gpucoll_config_rows[i];
        char text[256];
        const char *values = gpucoll_select_values(row, text, sizeof text);
        if (values != text) {
            continue;
        }
        char **name = (char **)((char *)config + row->offset);
        if (!is_any(*name) && gpucoll_algorithm_row(first_of(row, *name)) == NULL) {
            gpucoll_help(log, "bad-parameter", row->name, *name, values, row->initial);
            *name = (char *)row->initial;
            fine = false;
        }
    }
    return fine;
}

static void shape(const struct gpucoll_algorithm *algorithm, const struct gpucoll_plan_input *input,
                  struct gpucoll_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->algorithm = algorithm;
    algorithm->shape(input, plan);
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
    const char *name = input->config->algorithm[input->coll];
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

void gpucoll_select_explain(const struct gpucoll_plan_input *input, char *text, size_t size)
{
    text[0] = '\0';
    const struct gpucoll_algorithm *row;
    for (int i = 0; (row = gpucoll_algorithm_row(i)) != NULL; i++) {
        if (!gpucoll_algorithm_runs(row, input->coll)) {
            continue;
        }
        append(text, size, "%s%s/%s ", text[0] != '\0' ? ", " : "", row->name, row->protocol);
        const char *unusable = row->unusable(input);
        if (unusable != NULL) {
            append(text, size, "cannot (%s)", unusable);
            continue;
        }
        struct gpucoll_plan candidate;
        shape(row, input, &candidate);
        append(text, size, "%.1f us", candidate.predicted_us);
    }
    const char *name = input->config->algorithm[input->coll];
    const char *protocol = input->config->protocol;
    if (!is_any(name) || !is_any(protocol)) {
        append(text, size, "; set: algorithm %s, protocol %s", name, protocol);
    }
}
