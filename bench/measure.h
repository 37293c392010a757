/*
 * How every benchmark here times a blocking collective, so that libraries are compared by one method:
 * all ranks meet at a barrier and go on at a moment that its last one names, each takes the time of its own call, and the slowest rank's time is the
 * iteration's. Barrier and exchange of times go through shared memory of the host, never through the
 * library that is measured; only ranks on several hosts fall back to MPI's collectives on host memory, outside the timed part.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { BENCH_EXCHANGE_BYTES = 64, BENCH_MAX_ITERATIONS = 1 << 20 };

struct bench_shared;

/* The ranks that measure together. */
struct bench_group {
    MPI_Comm comm; /* our own: its traffic never mixes with the measured communicator's */
    int rank;
    int size;
    int local_rank; /* among the ranks of this host */
    int local_size;
    MPI_Comm ring; /* the same ranks as neighbours (bench/case.h); MPI_COMM_NULL until it is needed */
    MPI_Win window;
    struct bench_shared *shared; /* NULL when the ranks are on several hosts */
    int pause_us; /* 0 as opened; else each iteration begins a random time of up to this after its barrier */
    unsigned short drawn[3]; /* state of those times: the same on every rank */
};

/* What one measured call is. `prepare`, if not NULL, runs before the barrier of each iteration. */
struct bench_call {
    void (*prepare)(void *arg);
    void (*run)(void *arg); /* blocking; ends the program on error */
    void *arg;
};

struct bench_times {
    double first_us; /* the first call of this size; for the first size of a run: on the communicator */
    double median_us;
    double p99_us;
    double min_us;
    int iterations;
};

/* Collective over `comm`. */
void bench_group_open(struct bench_group *group, MPI_Comm comm);
void bench_group_close(struct bench_group *group);
void bench_barrier(struct bench_group *group);
/* All-gather of at most BENCH_EXCHANGE_BYTES of host memory; `all` is in rank order. */
void bench_exchange(struct bench_group *group, const void *mine, void *all, size_t bytes);
double bench_max(struct bench_group *group, double mine);
double bench_now_us(void); /* by the host's clock; also before MPI_Init */

/* One iteration; returns the slowest rank's time in microseconds, the same number on every rank. */
double bench_once(struct bench_group *group, const struct bench_call *call);
/* Sorts the samples; first_us is left alone. */
void bench_statistics(double *samples, int count, struct bench_times *times);

/* Fixed by size alone, so that every rank does the same number. */
int bench_iterations(size_t bytes);
int bench_warmup(int iterations);
/* The size after `bytes` on the way to `max`: 8 B x8 .. 32 KiB, 64 KiB, 256 KiB x4 .., or every power of two; 0 when done. */
size_t bench_next_size(size_t bytes, size_t max, bool doubling);

double bench_algbw(size_t bytes, double us); /* GB/s */

/* Prints "program: rank N: message" and ends all ranks. */
void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
extern const char *bench_program; /* set by main */

#ifdef __cplusplus
}
#endif
#endif
