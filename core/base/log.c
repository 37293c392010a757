/*
 * Formatting of log lines, and the log that tools and tests use: standard error, with the texts of the help
 * file that the MPI component also uses.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* vasprintf */
#endif
#include "core/base/log.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the build installs the texts; a build that does not say looks in the current folder. */
#if !defined(GPUCOLL_HELP_FILE) && defined(GPUCOLL_PKGDATADIR)
#define GPUCOLL_HELP_FILE GPUCOLL_PKGDATADIR "/help-mpi-coll-gpucoll.txt"
#elif !defined(GPUCOLL_HELP_FILE)
#define GPUCOLL_HELP_FILE "help-mpi-coll-gpucoll.txt"
#endif

enum { LINE_BYTES = 4096 };

void gpucoll_log(const struct gpucoll_log *log, int level, const char *format, ...)
{
    if (level > log->verbosity) {
        return;
    }
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    log->print(log->arg, level, line);
}

void gpucoll_help(const struct gpucoll_log *log, const char *topic, ...)
{
    va_list args;
    va_start(args, topic);
    log->help(log->arg, topic, args);
    va_end(args);
}

void gpucoll_help_slow(const struct gpucoll_log *log, const char *topic, ...)
{
    if (GPUCOLL_LOG_WARN > log->verbosity) {
        return;
    }
    va_list args;
    va_start(args, topic);
    log->help(log->arg, topic, args);
    va_end(args);
}

static void stderr_print(void *arg, int level, const char *line)
{
    (void)arg;
    (void)level;
    fprintf(stderr, "gpucoll: %s\n", line);
}

/* Is `line` the heading of `topic`? */
static bool is_heading(const char *line, const char *topic)
{
    size_t length = strlen(topic);
    return line[0] == '[' && strncmp(line + 1, topic, length) == 0 && line[1 + length] == ']';
}

/* The text below [topic], comment lines left out; NULL if there is none. The caller frees it. */
static char *read_topic(const char *path, const char *topic)
{
    FILE *file = fopen(path, "re");
    if (!file) {
        return NULL;
    }
    char *text = NULL;
    size_t text_bytes = 0;
    FILE *out = NULL;
    char *line = NULL;
    size_t line_bytes = 0;
    while (getline(&line, &line_bytes, file) >= 0) {
        if (line[0] == '[' && out) {
            break;
        }
        if (line[0] == '[' && is_heading(line, topic)) {
            out = open_memstream(&text, &text_bytes);
            if (!out) {
                break;
            }
        } else if (out && line[0] != '#') {
            fputs(line, out);
        }
    }
    free(line);
    fclose(file);
    if (out) {
        fclose(out);
    }
    return text;
}

char *gpucoll_help_text(const char *path, const char *topic, va_list args)
{
    char *format = read_topic(path, topic);
    char *text = NULL;
    if (format && vasprintf(&text, format, args) < 0) {
        text = NULL;
    }
    free(format);
    return text;
}

static void stderr_help(void *arg, const char *topic, va_list args)
{
    const char *path = arg ? arg : GPUCOLL_HELP_FILE;
    char *text = gpucoll_help_text(path, topic, args);
    if (!text) {
        fprintf(stderr, "gpucoll: error \"%s\" (its text was not found in %s)\n", topic, path);
        return;
    }
    /* One write, so that the messages of several processes do not mix. */
    static const char rule[] = "--------------------------------------------------------------------------";
    fprintf(stderr, "%s\n%s%s\n", rule, text, rule);
    free(text);
}

static void silent_print(void *arg, int level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

static void silent_help(void *arg, const char *topic, va_list args)
{
    (void)arg;
    (void)topic;
    (void)args;
}

const struct gpucoll_log gpucoll_log_silent = {.verbosity = -1, .print = silent_print, .help = silent_help};

void gpucoll_log_stderr(struct gpucoll_log *log, int verbosity, const char *path)
{
    *log = (struct gpucoll_log){
        .verbosity = verbosity,
        .print = stderr_print,
        .help = stderr_help,
        .arg = (void *)path,
    };
}
