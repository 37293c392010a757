/*
 * One all-reduce under measurement, whatever library runs it: fresh random data, a timed first call, a check, the
 * timed iterations, and a check of one more call into a poisoned buffer.
 */
#ifndef BENCH_ALLREDUCE_H
#define BENCH_ALLREDUCE_H

#include "bench/data.h"
#include "bench/device.h"
#include "bench/measure.h"
#include "bench/options.h"

#ifdef __cplusplus
extern "C" {
#endif

struct bench_allreduce {
    struct bench_group *group;
    struct bench_device *device;
    const struct bench_type *type;
    const struct bench_op *op;
    bool in_place;
    void *send; /* the contribution; `reduce` never writes it, so an in-place run restores `recv` from it */
    void *recv;
    size_t count; /* elements of the present size */
    /* Reduces `count` elements from send (in place: recv) to recv, blocking; ends the program on error. */
    void (*reduce)(struct bench_allreduce *allreduce);
    void *arg;      /* for `reduce` */
    void *staging;  /* host memory through which data is filled and checked */
    void *host[2];  /* --stage: what MPI_Allreduce works on instead */
    bool own;       /* send and recv were allocated here */
    struct bench_key key;
};

enum bench_check { BENCH_RIGHT, BENCH_RIGHT_BITS_DIFFER, BENCH_WRONG };

struct bench_row {
    size_t bytes;
    bool in_place;
    struct bench_times times;
    enum bench_check check;
};

/* For MPI_Allreduce (`reduce` may be changed afterwards), with type, op, place, sizes and staging from the options. A library
 * that wants buffers of its own kind brings both; else they are NULL. */
void bench_allreduce_open(struct bench_allreduce *allreduce, struct bench_group *group, struct bench_device *device,
                          const struct bench_options *options, void *send, void *recv);
void bench_allreduce_close(struct bench_allreduce *allreduce);

/* The parts of a measurement, in order. `iterations` 0: bench_iterations(bytes). */
void bench_allreduce_begin(struct bench_allreduce *allreduce, size_t bytes, struct bench_row *row);
double bench_allreduce_once(struct bench_allreduce *allreduce);
void bench_allreduce_end(struct bench_allreduce *allreduce, struct bench_row *row);
/* All of it. */
void bench_allreduce_measure(struct bench_allreduce *allreduce, size_t bytes, int iterations, struct bench_row *row);

const char *bench_check_name(enum bench_check check);

#ifdef __cplusplus
}
#endif
#endif
