/*
 * The parameters, from the table in core/base/config.c: as a listing with present values, and as docs/parameters.md.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/plan/forced.h"
#include "tools/gpucoll_info.h"
#include "ucx_tl/tl.h"

extern char **environ;

enum { WIDTH = 110 };

static const char *type_name(enum gpucoll_config_type type)
{
    switch (type) {
    case GPUCOLL_CONFIG_BOOL:
        return "true or false";
    case GPUCOLL_CONFIG_INT:
        return "number";
    case GPUCOLL_CONFIG_SIZE:
        return "bytes, such as 4096, 64K, 16M";
    case GPUCOLL_CONFIG_STRING:
        return "text";
    }
    return "";
}

static const char *environment_value(const struct gpucoll_config_row *row)
{
    char name[96];
    snprintf(name, sizeof(name), "OMPI_MCA_coll_gpucoll_%s", row->name);
    return getenv(name);
}

static void silent(void *arg, const char *topic, va_list args)
{
    (void)arg;
    (void)topic;
    (void)args;
}

/* False, and the field as it was or at its default, if the value is not accepted. */
static bool accept(struct gpucoll_config *config, const struct gpucoll_config_row *row, const char *value)
{
    const struct gpucoll_log nowhere = {.help = silent};
    return gpucoll_config_set(config, row->name, value) == GPUCOLL_OK &&
           gpucoll_forced_check(config, &nowhere);
}

void info_read_environment(struct info *info)
{
    for (int i = 0; i < gpucoll_config_row_count; i++) {
        const struct gpucoll_config_row *row = &gpucoll_config_rows[i];
        const char *value = environment_value(row);
        if (value) {
            (void)accept(&info->config, row, value);
        }
    }
}

static bool is_parameter(const char *name, size_t length)
{
    for (int i = 0; i < gpucoll_config_row_count; i++) {
        const char *known = gpucoll_config_rows[i].name;
        if (strlen(known) == length && strncmp(known, name, length) == 0) {
            return true;
        }
    }
    return false;
}

/* Names in the environment that are no parameter's, as when one is misspelt: each to `file`. Returns how many. */
static int say_unknown(FILE *file, const char *before)
{
    static const char prefix[] = "OMPI_MCA_coll_gpucoll_";
    int count = 0;
    for (char **at = environ; *at != NULL; at++) {
        const size_t length = strcspn(*at, "=");
        if (strncmp(*at, prefix, strlen(prefix)) == 0 &&
            !is_parameter(*at + strlen(prefix), length - strlen(prefix))) {
            fprintf(file, "%s%.*s: there is no such parameter; --parameters lists them\n", before,
                    (int)length, *at);
            count++;
        }
    }
    return count;
}

static void say_unknown_transport(const char *transports)
{
    if (!gpucoll_tl_all_known(transports)) {
        fprintf(stderr,
                "gpucoll_info: coll_gpucoll_transports=%s: there is no such transport; --transports lists "
                "them\n",
                transports);
    }
}

void info_say_unaccepted(const struct info *info)
{
    (void)say_unknown(stderr, "gpucoll_info: ");
    say_unknown_transport(info->config.transports);
    for (int i = 0; i < gpucoll_config_row_count; i++) {
        const struct gpucoll_config_row *row = &gpucoll_config_rows[i];
        struct gpucoll_config scratch;
        char text[GPUCOLL_FORCED_VALUES];
        const char *value = environment_value(row);
        gpucoll_config_init(&scratch);
        if (value && !accept(&scratch, row, value)) {
            const char *values = gpucoll_forced_values(row, text);
            fprintf(stderr,
                    "gpucoll_info: OMPI_MCA_coll_gpucoll_%s=%s is not accepted (%s%s%s): the default is "
                    "taken, %s\n",
                    row->name, value, type_name(row->type), values ? ": " : "", values ? values : "",
                    row->initial[0] ? row->initial : "\"\"");
        }
    }
}

/* "NAME = VALUE", and where the value comes from if it is not the default. */
static bool print_value(const struct gpucoll_config_row *row)
{
    struct gpucoll_config scratch;
    const char *value = environment_value(row);
    gpucoll_config_init(&scratch);
    if (!value) {
        printf("  coll_gpucoll_%s = %s\n", row->name, row->initial[0] ? row->initial : "\"\"");
        return true;
    }
    bool accepted = accept(&scratch, row, value);
    if (accepted) {
        printf("  coll_gpucoll_%s = %s (from the environment; default %s)\n", row->name, value,
               row->initial[0] ? row->initial : "\"\"");
    } else {
        printf("  coll_gpucoll_%s = %s (the environment's \"%s\" is not accepted)\n", row->name, row->initial,
               value);
    }
    return accepted;
}

bool info_parameters(struct info *info)
{
    bool fine = true;
    (void)info;
    for (int i = 0; i < gpucoll_config_row_count; i++) {
        const struct gpucoll_config_row *row = &gpucoll_config_rows[i];
        char text[GPUCOLL_FORCED_VALUES];
        const char *values = gpucoll_forced_values(row, text);
        fine &= print_value(row);
        printf("      %s%s%s\n", type_name(row->type), values ? ": " : "", values ? values : "");
        info_print_wrapped(row->help, 6, WIDTH);
    }
    return say_unknown(stdout, "  ") == 0 && fine;
}

/* In a table, "|" would end the cell. */
static void print_cell(const char *text)
{
    for (; *text; text++) {
        if (*text == '|') {
            fputs(" \\| ", stdout);
        } else {
            putchar(*text);
        }
    }
}

void info_parameters_markdown(void)
{
    printf("# Parameters\n\n"
           "Printed by `gpucoll_info --markdown` from the tables in `core/base/config.c` and, for names of "
           "algorithms and protocols,\n"
           "`core/algorithms/algorithms.c`; `make check` compares. To change this page, change the table, then `make "
           "update-docs`.\n"
           "What each algorithm does: `gpucoll_info --algorithms`.\n\n"
           "Set a parameter as any other of Open MPI: `mpirun --mca coll_gpucoll_NAME VALUE`, the "
           "environment variable\n"
           "`OMPI_MCA_coll_gpucoll_NAME`, or a line `coll_gpucoll_NAME = VALUE` in "
           "`$HOME/.openmpi/mca-params.conf`. A value that is not accepted\n"
           "is named in a message, and the default is used. `gpucoll_info --parameters` shows what the "
           "environment sets,\n"
           "`ompi_info --param coll gpucoll --level 9` what Open MPI sees. Ranks of one job should have the "
           "same values: a communicator whose\n"
           "ranks differ in what plans depend on is not run natively, and a message says so.\n\n"
           "| parameter | default | accepted | level | meaning |\n"
           "|---|---|---|---|---|\n");
    for (int i = 0; i < gpucoll_config_row_count; i++) {
        const struct gpucoll_config_row *row = &gpucoll_config_rows[i];
        char text[GPUCOLL_FORCED_VALUES];
        const char *values = gpucoll_forced_values(row, text);
        printf("| `coll_gpucoll_%s` | %s%s%s | ", row->name, row->initial[0] ? "`" : "",
               row->initial[0] ? row->initial : "empty", row->initial[0] ? "`" : "");
        print_cell(values ? values : type_name(row->type));
        printf(" | %d | ", row->level);
        print_cell(row->help);
        printf(" |\n");
    }
    printf("\nLevel is the MPI_T verbosity level, 1 for every user to 9 for developers: `ompi_info --level "
           "N` shows those up to N.\n");
}
