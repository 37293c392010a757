/*
 * One case under measurement, whatever library runs it: a collective, a type and a size. Fresh random data, a
 * timed first call, a check, the timed calls, and a check of one more call into a poisoned buffer. The parts can be
 * interleaved with those of another case, so that two libraries are measured in turn.
 */
#ifndef BENCH_CASE_H
#define BENCH_CASE_H

#include "bench/coll.h"
#include "bench/data.h"
#include "bench/device.h"
#include "bench/measure.h"
#include "bench/options.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { BENCH_STAGING_BYTES = 4 << 20 };

struct bench_case {
    struct bench_group *group;
    struct bench_device *device;
    const struct bench_coll *coll;
    const struct bench_type *type;
    const struct bench_op *op;
    bool in_place;
    void *send; /* the contribution; `call` never writes it, so an in-place run restores `recv` from it */
    void *recv;
    size_t count; /* elements of the present size */
    /* The measured call on `count` elements from send (in place: recv) to recv, blocking; ends the program on error. */
    void (*call)(struct bench_case *measured);
    void *arg;     /* for `call` */
    void *staging; /* host memory through which data is filled and checked */
    void *host[2]; /* --stage: what MPI works on instead */
    bool own;      /* send and recv were allocated here */
    struct bench_key key;
    double *samples;
    int sample_count;
    int sample_room;
};

struct bench_row {
    const struct bench_coll *coll;
    size_t bytes;
    bool in_place;
    struct bench_times times;
    enum bench_check check;
};

/* For the MPI call (`call` may be changed afterwards), with collective, type, op, place, sizes and staging from the
 * options. A library that wants buffers of its own kind brings both; else they are NULL. */
void bench_case_open(struct bench_case *measured, struct bench_group *group, struct bench_device *device,
                     const struct bench_options *options, void *send, void *recv);
void bench_case_close(struct bench_case *measured);

/* The parts of a measurement: begin, then any number of warm-up and of timed calls, then end. Collective. */
void bench_case_begin(struct bench_case *measured, size_t bytes, struct bench_row *row);
void bench_case_warm(struct bench_case *measured, int calls);
/* One timed call; returns the slowest rank's time in microseconds, and keeps it for the statistics. */
double bench_case_sample(struct bench_case *measured);
void bench_case_end(struct bench_case *measured, struct bench_row *row);
/* All of it. `iterations` 0: bench_iterations(bytes). */
void bench_case_measure(struct bench_case *measured, size_t bytes, int iterations, struct bench_row *row);

size_t bench_case_bytes(const struct bench_case *measured);
double bench_row_busbw(const struct bench_row *row, int ranks);

#ifdef __cplusplus
}
#endif
#endif
