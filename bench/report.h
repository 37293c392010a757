/*
 * Results as JSON, one form for all programs: {"context": {...}, "rows": [{...}, ...]}, one row a line.
 * bench/side_by_side merges such files; gpucoll_demo --compare reads one.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdio.h>
#include "bench/case.h"

#ifdef __cplusplus
extern "C" {
#endif

struct bench_report {
    FILE *file; /* NULL: nothing is written */
    bool rows_begun;
    int entries;
    int left_out; /* rows that the time budget did not allow */
};

/* On rank 0; `path` NULL: a report that writes nothing. False, with a message shown, if it cannot be written. */
bool bench_report_open(struct bench_report *report, const char *path);
/* Context comes before rows. */
void bench_report_context(struct bench_report *report, const char *key, const char *value);
/* What every program reports, each pair passed to `add`: command, ranks, GPUs, versions, MCA settings, time. */
void bench_common_context(const struct bench_group *group, const struct bench_device *device, int argc,
                          char **argv, void (*add)(void *arg, const char *key, const char *value), void *arg);
void bench_report_common(struct bench_report *report, const struct bench_group *group,
                         const struct bench_device *device, int argc, char **argv);
void bench_report_row(struct bench_report *report, const struct bench_case *measured, const char *library,
                      const struct bench_row *row);
/* Of something else than a collective: what was timed, and when. */
void bench_report_figure(struct bench_report *report, const char *what, const char *when,
                         const struct bench_times *times);
bool bench_report_close(struct bench_report *report);

/* From a file written by the above: its first library's name, and the median of the row with this size (0: none). */
struct bench_earlier {
    char library[64];
    int count;
    struct {
        size_t bytes;
        double median_us;
    } row[128];
};
bool bench_earlier_read(struct bench_earlier *earlier, const char *path);
double bench_earlier_us(const struct bench_earlier *earlier, size_t bytes);

/* "Open MPI v4.1.4": the library at run time, up to its first comma. */
const char *bench_mpi_version(char *text, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
