#include "core/plan/forced.h"

#include <stdio.h>
#include <string.h>

/* One of a value's names, with the sizes it is for. */
struct item {
    char name[GPUCOLL_FORCED_NAME];
    uint64_t most; /* bytes; UINT64_MAX: no limit */
};

/* Takes the item at `*at` and moves behind it and its comma. False if it is not of the form NAME or NAME:SIZE. */
static bool next_item(const char **at, struct item *item)
{
    char size[GPUCOLL_FORCED_NAME];
    const size_t length = strcspn(*at, ",");
    const size_t name = strcspn(*at, ":,");
    const size_t digits = name < length ? length - name - 1 : 0;
    if (name == 0 || name >= sizeof item->name || digits >= sizeof size) {
        return false;
    }
    snprintf(item->name, sizeof item->name, "%.*s", (int)name, *at);
    snprintf(size, sizeof size, "%.*s", (int)digits, *at + name + 1);
    item->most = UINT64_MAX;
    if (name < length && !gpucoll_config_parse_size(size, &item->most)) {
        return false;
    }
    *at += length;
    *at += **at == ',' && (*at)[1] != '\0'; /* an item follows */
    return true;
}

void gpucoll_forced_name(const char *value, uint64_t bytes, char *name)
{
    struct item item;
    snprintf(name, GPUCOLL_FORCED_NAME, "auto");
    for (const char *at = value; *at != '\0' && next_item(&at, &item);) {
        if (bytes <= item.most) {
            snprintf(name, GPUCOLL_FORCED_NAME, "%s", item.name);
            return;
        }
    }
}

bool gpucoll_forced_alike(const char *value, uint64_t low, uint64_t high)
{
    struct item item;
    for (const char *at = value; *at != '\0' && next_item(&at, &item);) {
        if (low <= item.most && item.most < high) {
            return false;
        }
    }
    return true;
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

/* Are all names of the table, and do their sizes rise? */
static bool is_accepted(const struct gpucoll_config_row *row, const char *value)
{
    struct item item = {.most = 0};
    uint64_t before = 0;
    const char *at = value;
    do {
        before = item.most;
        if (before == UINT64_MAX || !next_item(&at, &item) || item.most <= before ||
            (gpucoll_forces(item.name) && gpucoll_algorithm_row(first_of(row, item.name)) == NULL)) {
            return false;
        }
    } while (*at != '\0');
    return true;
}

static bool has_names(const struct gpucoll_config_row *row)
{
    return coll_of(row) != GPUCOLL_COLL_COUNT || is_protocol(row);
}

const char *gpucoll_forced_values(const struct gpucoll_config_row *row, char *text)
{
    if (!has_names(row)) {
        return row->values;
    }
    const struct gpucoll_algorithm *algorithm;
    int used = snprintf(text, GPUCOLL_FORCED_VALUES, "auto");
    for (int i = 0; (algorithm = gpucoll_algorithm_row(i)) != NULL; i++) {
        const char *name = name_for(row, algorithm);
        if (name != NULL && first_of(row, name) == i && used < GPUCOLL_FORCED_VALUES) {
            used += snprintf(text + used, (size_t)(GPUCOLL_FORCED_VALUES - used), "|%s", name);
        }
    }
    return text;
}

bool gpucoll_forced_check(struct gpucoll_config *config, const struct gpucoll_log *log)
{
    bool fine = true;
    for (int i = 0; i < gpucoll_config_row_count; i++) {
        const struct gpucoll_config_row *row = &gpucoll_config_rows[i];
        char **value = (char **)((char *)config + row->offset);
        if (!has_names(row) || is_accepted(row, *value)) {
            continue;
        }
        char names[GPUCOLL_FORCED_VALUES];
        char accepted[GPUCOLL_FORCED_VALUES + 64];
        snprintf(accepted, sizeof accepted, "%s, or by size: NAME:SIZE,...,NAME",
                 gpucoll_forced_values(row, names));
        gpucoll_help(log, "bad-parameter", row->name, *value, accepted, row->initial);
        *value = (char *)row->initial;
        fine = false;
    }
    return fine;
}
