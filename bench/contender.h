/*
 * The libraries under comparison, each with its case: MPI on device buffers, NCCL on the same buffers, NCCL on buffers
 * registered as symmetric windows (NCCL 2.27 and newer), and MPI on host buffers. NCCL's two have a communicator each.
 */
#ifndef BENCH_CONTENDER_H
#define BENCH_CONTENDER_H

#include "bench/nccl_api.h"
#include "bench/overlap.h"
#include "bench/report.h"

enum bench_contender_kind { BENCH_MPI, BENCH_NCCL, BENCH_NCCL_WINDOWS, BENCH_MPI_HOST, BENCH_CONTENDERS };

static inline bool bench_is_nccl(enum bench_contender_kind kind)
{
    return kind == BENCH_NCCL || kind == BENCH_NCCL_WINDOWS;
}

struct bench_contender {
    enum bench_contender_kind kind;
    const char *library; /* in the report */
    struct bench_rivals *rivals;
    struct bench_case measured;
    struct bench_row row;
    int calls;  /* timed, of the present size */
    int warmup; /* before each turn */
    bench_nccl_comm comm;
    bench_nccl_window window[2];
};

struct bench_rivals {
    struct bench_options *options;
    struct bench_group *group;
    struct bench_device *device;
    struct bench_device host_device;
    struct bench_report *report;
    struct bench_nccl_api api;
    bool with_nccl;
    void *stream;
    struct bench_contender contender[BENCH_CONTENDERS];
    int count;
};

/* Collective. Those that the options ask for and this machine has; what cannot be is said. False, with a message, if NCCL was
 * asked for by name and cannot be had. Writes to the report's context. */
bool bench_rivals_open(struct bench_rivals *rivals, bool with_host);
void bench_rivals_close(struct bench_rivals *rivals);

/* Whether the contender can run its case as it is set. */
bool bench_contender_can(const struct bench_contender *contender);
/* Sets how the contender's call is started and waited for beside computation. */
void bench_contender_overlap(struct bench_contender *contender, struct bench_beside *beside);

#endif
