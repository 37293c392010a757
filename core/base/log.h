/*
 * Where gpucoll's words go. The engine prints nothing itself: the embedding program (the MPI component, a
 * tool, a test) supplies two functions. `print` takes finished lines; `help` takes a topic of
 * help-mpi-coll-gpucoll.txt and its arguments, in Open MPI's show_help manner.
 * Rule: the function that calls `gpucoll_help` is the first that knows the exact cause; callers above it
 * pass the status on and print nothing.
 * Thread safety: both callbacks may be called from any thread.
 */
#ifndef GPUCOLL_BASE_LOG_H
#define GPUCOLL_BASE_LOG_H

#include <stdarg.h>

enum gpucoll_log_level {
    GPUCOLL_LOG_WARN = 0,  /* said once, always shown: a slower path than expected */
    GPUCOLL_LOG_SETUP = 1, /* what was found and chosen at set-up */
    GPUCOLL_LOG_PLAN = 5,  /* each new plan, and why */
    GPUCOLL_LOG_CALL = 20  /* every call that runs natively or is staged */
};

struct gpucoll_log {
    int verbosity; /* lines above this level are dropped before they are formatted */
    void (*print)(void *arg, int level, const char *line);
    void (*help)(void *arg, const char *topic, va_list args);
    void *arg;
};

void gpucoll_log(const struct gpucoll_log *log, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Shows the topic's text with its arguments filled in. */
void gpucoll_help(const struct gpucoll_log *log, const char *topic, ...);
/* The same of what is no error, but a slower path than expected: at level WARN, so a log that has less drops it. */
void gpucoll_help_slow(const struct gpucoll_log *log, const char *topic, ...);

/* The topic's text in the help file at `path`, with its arguments filled in; NULL if it is not there. The caller frees it. */
char *gpucoll_help_text(const char *path, const char *topic, va_list args);

/* Says nothing: for what may fail without harm. */
extern const struct gpucoll_log gpucoll_log_silent;

/* Fills `log` with functions that write to standard error, the texts taken from the help file at `path`
 * (or, if that is NULL, where the build installs it). For tools and tests. */
void gpucoll_log_stderr(struct gpucoll_log *log, int verbosity, const char *path);

#endif
