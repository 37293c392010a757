/*
 * gpucoll_info --tune: measures the constants of the cost model. Ranks are processes of this machine that run the engine on
 * its GPUs, without MPI (tune_ranks.c); they time every algorithm by itself over sizes and numbers of CTAs (tune_measure.c);
 * the constants are those whose predictions come closest (tune_fit.c).
 */
#ifndef GPUCOLL_TUNE_H
#define GPUCOLL_TUNE_H

#include <stdatomic.h>
#include <stdio.h>
#include "core/gpucoll.h"
#include "tools/device.h"
#include "tools/tune_fit.h"

enum { TUNE_SAMPLES = 1024, TUNE_CALLS = 256, TUNE_SLOT_BYTES = 1024 };

/* What the ranks share; from mmap, zeroed. */
struct tune_shared {
    atomic_uint arrived;
    atomic_uint generation;
    atomic_bool failed;
    char reason[256]; /* of the first rank that failed */
    char gpu[64];
    char slots[GPUCOLL_MAX_LOCAL][TUNE_SLOT_BYTES];
    double times[GPUCOLL_MAX_LOCAL][TUNE_CALLS];
    int count;
    struct tune_sample samples[TUNE_SAMPLES];
};

struct tune_options {
    uint32_t ranks; /* 0: one for each GPU */
    size_t most_bytes;
    double seconds; /* about as long */
    const char *output;
    FILE *file;   /* of `output`, opened before anything is measured */
    bool created; /* it was not there before */
};

struct tune_rank {
    struct tune_shared *shared;
    const struct tune_options *options;
    uint32_t rank;
    struct device device;
    struct gpucoll_config config;
    struct gpucoll_log log;
    struct gpucoll_context *context;
    char *send;
    char *recv;
};

/* Waits for all ranks; false if one has failed or does not come. */
bool tune_barrier(struct tune_rank *rank);
int tune_allgather(void *rank, const void *mine, void *all, size_t bytes);
/* Says why, for all ranks; the first reason counts. */
void tune_failed(struct tune_rank *rank, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Runs the ranks and waits for them. False, with the reason in `shared`, if one failed. */
bool tune_run_ranks(struct tune_shared *shared, const struct tune_options *options, bool host,
                    const struct gpucoll_config *config, const struct gpucoll_log *log);

/* What a rank does: fills shared->samples (rank 0). Collective. */
void tune_measure(struct tune_rank *rank);

#endif
