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

void gpucoll_shape(const struct gpucoll_algorithm *algorithm, const struct gpucoll_plan_input *input,
                   struct gpucoll_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->algorithm = algorithm;
    algorithm->shape(input, plan);
}

const char *gpucoll_unusable(const struct gpucoll_algorithm *row, const struct gpucoll_plan_input *input)
{
    if (input->config->deterministic && gpucoll_coll_reduces(input->coll) && !row->rank_order) {
        return "it does not reduce in rank order, which coll_gpucoll_deterministic asks for";
    }
    const char *lack = gpucoll_algorithm_lacks(row, input);
    return lack != NULL ? lack : row->unusable(input);
}

/* The row of the least predicted time among those of the named algorithm and protocol. NULL if none can be used; then
 * `why` says what stood against the last one of that name. */
static const struct gpucoll_algorithm *cheapest(const struct gpucoll_plan_input *input, const char *name,
                                                const char *protocol, const char **why)
{
    const struct gpucoll_algorithm *best = NULL;
    const struct gpucoll_algorithm *row;
    double least_us = 0;
    *why = "there is no such algorithm with this protocol";
    for (int i = 0; (row = gpucoll_algorithm_row(i)) != NULL; i++) {
        if (!gpucoll_algorithm_runs(row, input->coll) || (!is_any(name) && strcmp(row->name, name) != 0) ||
            (!is_any(protocol) && strcmp(row->protocol, protocol) != 0)) {
            continue;
        }
        const char *unusable = gpucoll_unusable(row, input);
        if (unusable != NULL) {
            *why = unusable;
            continue;
        }
        struct gpucoll_plan plan;
        gpucoll_shape(row, input, &plan);
        if (best == NULL || plan.predicted_us < least_us) {
            best = row;
            least_us = plan.predicted_us;
        }
    }
    return best;
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

/* The bounds of a size's class: sixteen to an octave, none narrower than a pack, each with its upper end. */
static void find_class(uint64_t bytes, struct gpucoll_choice *choice)
{
    uint64_t step = GPUCOLL_PACK_BYTES;
    for (uint64_t octave = 16 * step; octave < bytes; octave *= 2) {
        step = octave / 16;
    }
    uint64_t number = bytes == 0 ? 0 : (bytes - 1) / step;
    choice->low = number == 0 ? 0 : number * step + 1;
    choice->high = (number + 1) * step;
}

/* Can the same algorithms run the whole class? */
static bool is_uniform(const struct gpucoll_plan_input *input, const struct gpucoll_choice *choice)
{
    struct gpucoll_plan_input low = *input;
    struct gpucoll_plan_input high = *input;
    const struct gpucoll_algorithm *row;
    low.bytes = choice->low;
    high.bytes = choice->high;
    for (int i = 0; (row = gpucoll_algorithm_row(i)) != NULL; i++) {
        if (gpucoll_algorithm_runs(row, input->coll) &&
            (gpucoll_unusable(row, &low) == NULL) != (gpucoll_unusable(row, &high) == NULL)) {
            return false;
        }
    }
    return true;
}

gpucoll_status gpucoll_choose(const struct gpucoll_plan_input *input, const struct gpucoll_log *log,
                              bool *said, struct gpucoll_choice *choice)
{
    const char *name = input->config->algorithm[input->coll];
    const char *protocol = forced_protocol(input);
    const char *why = NULL;
    struct gpucoll_plan_input at = *input;
    find_class(input->bytes, choice);
    if (!is_uniform(input, choice)) {
        choice->low = choice->high = input->bytes;
    }
    at.bytes = choice->high;
    choice->algorithm = cheapest(&at, name, protocol, &why);
    if (choice->algorithm != NULL) {
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
    choice->algorithm = cheapest(&at, "auto", "auto", &why);
    return choice->algorithm != NULL ? GPUCOLL_OK : GPUCOLL_DECLINED;
}

gpucoll_status gpucoll_select(const struct gpucoll_plan_input *input, const struct gpucoll_log *log,
                              bool *said, struct gpucoll_plan *plan)
{
    struct gpucoll_choice choice;
    gpucoll_status status = gpucoll_choose(input, log, said, &choice);
    if (status == GPUCOLL_OK) {
        gpucoll_shape(choice.algorithm, input, plan);
    }
    return status;
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
        const char *unusable = gpucoll_unusable(row, input);
        if (unusable != NULL) {
            append(text, size, "cannot (%s)", unusable);
            continue;
        }
        struct gpucoll_plan candidate;
        gpucoll_shape(row, input, &candidate);
        append(text, size, "%.1f us", candidate.predicted_us);
    }
    const char *name = input->config->algorithm[input->coll];
    const char *protocol = input->config->protocol;
    if (!is_any(name) || !is_any(protocol)) {
        append(text, size, "; set: algorithm %s, protocol %s", name, protocol);
    }
}
