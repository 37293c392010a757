/*
 * Communication beside computation: MPI_I<collective> (or another library's call) is started, then work of equal length for the GPU;
 * the host waits for the work, then for the communication. Alone, the work alone and both are measured in turn. Or several calls, each
 * started when the one before has ended, beside work as long as all of them; all times are then divided by their number.
 */
#ifndef BENCH_OVERLAP_H
#define BENCH_OVERLAP_H

#include "bench/case.h"
#include "bench/compute.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { BENCH_OVERLAP_MOST = 40 /* iterations of one measurement */ };

/* How a library's call is started and waited for. */
struct bench_starter {
    void (*start)(void *arg);
    void (*wait)(void *arg);
    void *arg;
    bool has_request;    /* an MPI request: MPI_Test may turn its progress */
    MPI_Request request; /* of the call that is under way */
};

/* Samples of one kind. */
struct bench_series {
    double us[BENCH_OVERLAP_MOST];
    double compute_us[BENCH_OVERLAP_MOST]; /* of the work, by the GPU's clock */
};

struct bench_beside {
    struct bench_case *measured;
    struct bench_compute *compute;
    struct bench_starter starter;
    int calls; /* one after the other */
    struct bench_series alone, worked, waited, polled;
    double comm_us; /* about, alone */
    int count;      /* iterations so far */
};

/* Sets the starter to MPI's call of the case, whose form is nonblocking or persistent; one call. */
void bench_overlap_by_mpi(struct bench_beside *beside);

/* Whether this collective is measured so: what has data. A barrier is over before a computation has begun. Of rooted ones, too, each rank computes, and
 * all times are those of the slowest rank, be it the root or another. */
bool bench_overlap_can(const struct bench_coll *coll);

/* All are collective. Begins the case, and fits the work to the time that communication takes. At most
 * BENCH_OVERLAP_MOST samples follow. */
void bench_overlap_begin(struct bench_beside *beside, struct bench_case *measured,
                         struct bench_compute *compute, size_t bytes, double seconds, struct bench_row *row);
/* One iteration: alone, the work, both, and both with tests. Returns the time of both. */
double bench_overlap_sample(struct bench_beside *beside);
/* What was found, with the case's own result, is in `row`. */
void bench_overlap_end(struct bench_beside *beside, struct bench_row *row);

/* All of it, by the starter that is set in `beside`. `seconds` 0: no limit. */
void bench_overlap_measure(struct bench_beside *beside, struct bench_case *measured,
                           struct bench_compute *compute, size_t bytes, int iterations, double seconds,
                           struct bench_row *row);

#ifdef __cplusplus
}
#endif
#endif
