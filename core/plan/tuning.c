#include "core/plan/tuning.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/number.h"

_Static_assert(GPUCOLL_MODEL_CONSTANTS <= 32, "a bit for each constant");

static const char blanks[] = " \t\r\n";

static bool parse_number(const char *text, double *value, char **end)
{
    *value = gpucoll_strtod(text, end);
    return *end != text && isfinite(*value) && *value > 0;
}

static int find(const char *name)
{
    const struct gpucoll_model_constant *constant;
    for (int i = 0; (constant = gpucoll_model_constant_at(i)) != NULL; i++) {
        if (strcmp(constant->name, name) == 0) {
            return i;
        }
    }
    return -1;
}

/* Cuts the blanks at both ends off. */
static char *trim(char *text)
{
    text += strspn(text, blanks);
    size_t length = strlen(text);
    while (length > 0 && strchr(blanks, text[length - 1]) != NULL) {
        length--;
    }
    text[length] = '\0';
    return text;
}

/* Takes one line, without its comment, into `tuning`. False, with what is wrong, if it cannot. */
static bool take_line(char *line, struct gpucoll_tuning *tuning, char *wrong, size_t size)
{
    char *text = trim(line);
    char *equals = strchr(text, '=');
    if (*text == '\0') {
        return true;
    }
    if (equals == NULL) {
        snprintf(wrong, size, "\"%s\" is not of the form NAME = VALUE UNIT", text);
        return false;
    }
    *equals = '\0';
    const char *name = trim(text);
    const int index = find(name);
    if (index < 0) {
        snprintf(wrong, size, "there is no constant \"%s\"", name);
        return false;
    }
    if (tuning->set >> index & 1) {
        snprintf(wrong, size, "%s is given a second time", name);
        return false;
    }
    const struct gpucoll_model_constant *constant = gpucoll_model_constant_at(index);
    const char *given = trim(equals + 1);
    double value = 0;
    char *end;
    if (!parse_number(given, &value, &end)) {
        snprintf(wrong, size, "the value of %s must be a number above 0, not \"%s\"", name, given);
        return false;
    }
    if (strcmp(trim(end), constant->unit) != 0) {
        snprintf(wrong, size, "%s needs %s%s behind its value, not \"%s\"", name,
                 constant->unit[0] != '\0' ? "the unit " : "no unit", constant->unit, trim(end));
        return false;
    }
    *gpucoll_model_field(&tuning->model, constant) = value * constant->scale;
    tuning->set |= UINT32_C(1) << index;
    return true;
}

static gpucoll_status refuse(const struct gpucoll_log *log, const char *path, const char *where,
                             const char *what, struct gpucoll_tuning *tuning)
{
    gpucoll_help(log, "tuning-file", path, where, what);
    memset(tuning, 0, sizeof *tuning);
    return GPUCOLL_ERR_INVALID;
}

gpucoll_status gpucoll_tuning_read(const char *path, const struct gpucoll_log *log,
                                   struct gpucoll_tuning *tuning)
{
    memset(tuning, 0, sizeof *tuning);
    if (path[0] == '\0') {
        return GPUCOLL_OK;
    }
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return refuse(log, path, "opening it", strerror(errno), tuning);
    }
    char *line = NULL;
    size_t line_bytes = 0;
    char wrong[256];
    char where[32];
    bool fine = true;
    int number = 0;
    while (fine && getline(&line, &line_bytes, file) >= 0) {
        number++;
        line[strcspn(line, "#")] = '\0';
        fine = take_line(line, tuning, wrong, sizeof wrong);
    }
    snprintf(where, sizeof where, "line %d", number);
    if (fine && ferror(file)) {
        fine = false;
        snprintf(wrong, sizeof wrong, "%s", strerror(errno));
        snprintf(where, sizeof where, "reading it");
    }
    free(line);
    fclose(file);
    return fine ? GPUCOLL_OK : refuse(log, path, where, wrong, tuning);
}

void gpucoll_tuning_apply(const struct gpucoll_tuning *tuning, struct gpucoll_model *model)
{
    struct gpucoll_model values = tuning->model;
    const struct gpucoll_model_constant *constant;
    for (int i = 0; (constant = gpucoll_model_constant_at(i)) != NULL; i++) {
        if (tuning->set >> i & 1) {
            *gpucoll_model_field(model, constant) = *gpucoll_model_field(&values, constant);
        }
    }
}

void gpucoll_tuning_write(FILE *file, const struct gpucoll_tuning *tuning)
{
    struct gpucoll_model values = tuning->model;
    const struct gpucoll_model_constant *constant;
    for (int i = 0; (constant = gpucoll_model_constant_at(i)) != NULL; i++) {
        if (tuning->set >> i & 1) {
            char text[64];
            snprintf(text, sizeof text, "%s = %.4g %s", constant->name,
                     *gpucoll_model_field(&values, constant) / constant->scale, constant->unit);
            fprintf(file, "%-36s # %s\n", text, constant->help);
        }
    }
}
