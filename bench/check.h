/*
 * Data of a case and its check. Small messages are filled afresh and compared whole. Of large ones, windows spread over
 * the vector are: their data is fresh for each measurement, and so cannot be right by being left over; the rest of the
 * vector keeps older values. --check all compares everything.
 */
#ifndef BENCH_CHECK_H
#define BENCH_CHECK_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bench_case;

enum bench_check { BENCH_RIGHT, BENCH_RIGHT_BITS_DIFFER, BENCH_WRONG };

/* Once, when the buffers are new: `bytes` of valid elements. */
void bench_check_prime(struct bench_case *measured, size_t bytes);
/* What `rank` contributes, by the case's key, to a buffer of this rank's. */
void bench_check_fill(struct bench_case *measured, void *buffer, int rank);
/* Collective: compares what the latest call left in the case's recv with the reference. */
enum bench_check bench_check_result(struct bench_case *measured);

const char *bench_check_name(enum bench_check check);

#ifdef __cplusplus
}
#endif
#endif
