/*
 * One case under measurement, whatever library runs it: a collective in one form, a type and a size. Fresh random data, a
 * timed first call, a check, the timed calls, and a check of one more call into a poisoned buffer. The parts can be
 * interleaved with those of another case, so that two libraries are measured in turn.
 */
#ifndef BENCH_CASE_H
#define BENCH_CASE_H

#include <stdint.h>
#include "bench/check.h"
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
    struct bench_device *device; /* of the buffers */
    /* May be changed between measurements. */
    const struct bench_coll *coll;
    enum bench_form form;
    bool in_place;
    bool on_host; /* for the row: buffers in host memory, in a run that has GPUs */
    const struct bench_type *type;
    const struct bench_op *op;
    bool check_all; /* every element, however large the message */
    void *send;     /* the contribution; `call` never writes it, so an in-place run restores `recv` from it */
    void *recv;
    size_t count;     /* elements of the present size's vector: a block for each rank */
    size_t block;     /* the mean, where blocks are uneven */
    size_t result_at; /* element of recv at which the result begins */
    /* The library's own answer to that; NULL: 0, as in MPI. */
    size_t (*place_of_result)(const struct bench_case *measured);
    /* The measured call, blocking, on `count` elements from send (in place: recv) to recv; ends the program on error. */
    void (*call)(struct bench_case *measured);
    void *arg;     /* for `call` */
    void *staging; /* host memory through which data is filled and checked */
    void *host[2]; /* --stage: what MPI works on instead */
    size_t room;   /* bytes of each buffer */
    bool own;      /* send and recv were allocated here */
    int *counts;   /* an entry for each block, as the four that follow */
    int *displs;
    int *byte_displs;
    MPI_Aint *address_displs;
    MPI_Datatype *types;
    struct bench_args args;
    MPI_Comm comm; /* what MPI is called on */
    MPI_Request persistent;
    struct bench_key key; /* a new seed for each size: the same on all ranks */
    double *samples;
    int sample_count;
    int sample_room;
};

/* Communication beside computation (bench/overlap.h). */
struct bench_overlap {
    bool is_measured;
    const char *computation;
    int calls;      /* one after the other; all times are those of one */
    double comm_us; /* alone, as all that follows: median, of the slowest rank */
    double compute_us;
    double compute_beside_us;
    double hidden;  /* share of comm_us that the computation hides */
    double compute; /* its speed beside communication over its speed alone */
    /* With MPI_Test called while the computation runs; not for NCCL. */
    double hidden_by_tests;
    double compute_by_tests;
};

struct bench_row {
    const struct bench_coll *coll;
    enum bench_form form;
    bool on_host;
    bool in_place;
    size_t bytes;
    struct bench_times times; /* of an overlap: of both together */
    struct bench_overlap overlap;
    enum bench_check check;
};

/* Collective: what the collective is called on, or duplicates of it. MPI_COMM_WORLD, or its ranks as a ring. */
MPI_Comm bench_case_comm(struct bench_group *group, const struct bench_coll *coll);

/* Bytes of each buffer: the largest message, and at least an element for each block. */
size_t bench_case_room(const struct bench_group *group, const struct bench_options *options);
/* For the MPI call (`call` may be changed afterwards), with collective, type, op, place, sizes and staging from the
 * options. A library that wants buffers of its own kind brings both; else they are NULL. */
void bench_case_open(struct bench_case *measured, struct bench_group *group, struct bench_device *device,
                     const struct bench_options *options, void *send, void *recv);
void bench_case_close(struct bench_case *measured);

/* The parts of a measurement: begin, then any number of warm-up and of timed calls, then end. Collective. `bytes` is
 * rounded to whole blocks, of at least an element. */
void bench_case_begin(struct bench_case *measured, size_t bytes, struct bench_row *row);
void bench_case_warm(struct bench_case *measured, int calls);
/* One timed call; returns the slowest rank's time in microseconds, and keeps it for the statistics. */
double bench_case_sample(struct bench_case *measured);
/* Keeps a time that the caller has measured. */
void bench_case_keep(struct bench_case *measured, double us);
void bench_case_end(struct bench_case *measured, struct bench_row *row);
/* Of calls that are made otherwise: before one, and after it; the row has the worse of its check and this one. */
void bench_case_poison(struct bench_case *measured);
void bench_case_check(struct bench_case *measured, struct bench_row *row);
/* Instead of the end, for who wants the first call alone: frees what the case has on the communicator. */
void bench_case_forget(struct bench_case *measured);
/* All of it. `iterations` 0: bench_iterations(bytes). */
void bench_case_measure(struct bench_case *measured, size_t bytes, int iterations, struct bench_row *row);

/* The call's parts, for a caller that does something in between: starts it (nonblocking or persistent form). */
void bench_case_start(struct bench_case *measured, MPI_Request *request);

size_t bench_case_bytes(const struct bench_case *measured);
/* Block `index` of a vector that `holder` sends or receives: an element, elements. */
size_t bench_case_offset(const struct bench_case *measured, int holder, int index);
size_t bench_case_length(const struct bench_case *measured, int holder, int index);
size_t bench_case_send_extent(const struct bench_case *measured);
size_t bench_case_recv_extent(const struct bench_case *measured);
/* Whether this rank passes MPI_IN_PLACE. */
bool bench_case_is_in_place(const struct bench_case *measured);
/* Where in recv, in place, this rank's contribution stands: an element. */
size_t bench_case_contribution_at(const struct bench_case *measured);
double bench_row_busbw(const struct bench_row *row, int ranks);

#ifdef __cplusplus
}
#endif
#endif
