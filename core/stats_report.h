/*
 * Statistics as a user reads them: a table, or JSON for programs.
 */
#ifndef GPUCOLL_STATS_REPORT_H
#define GPUCOLL_STATS_REPORT_H

#include <stdio.h>
#include "core/stats.h"

/* Whose statistics, and the names of the collectives by number, those of the engine included. */
struct gpucoll_stats_source {
    const struct gpucoll_stats *stats;
    const char *const *names;
    uint32_t rank;
    uint32_t ranks;
    const char *host;
};

/* A line of totals, then one for each kind of call, those that took the most time first. */
void gpucoll_stats_print(const struct gpucoll_stats_source *source, FILE *out);

/* One object with the same contents: docs/tuning.md names its members. */
void gpucoll_stats_print_json(const struct gpucoll_stats_source *source, FILE *out);

#endif
