/*
 * Communication beside computation: MPI_I<collective> (or NCCL's call) is started, then work of equal length for the GPU;
 * the host waits for the work, then for the communication. Alone, beside and alone again are measured in turn.
 */
#ifndef BENCH_OVERLAP_H
#define BENCH_OVERLAP_H

#include "bench/compute.h"
#include "bench/contender.h"

/* Whether this collective is measured so: those in which every rank communicates. */
bool bench_overlap_can(const struct bench_coll *coll);
/* Collective. `seconds` 0: no limit. The result, and what stands in row.overlap, is in contender->row. */
void bench_overlap_measure(struct bench_contender *contender, struct bench_compute *compute, size_t bytes,
                           int iterations, double seconds);

#endif
