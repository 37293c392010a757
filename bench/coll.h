/*
 * The collectives that can be measured: one row and one file each. A row says how MPI is called, how a result is
 * checked and what its bus bandwidth is; NCCL's calls stand in bench/bench_compare.c under the same name.
 */
#ifndef BENCH_COLL_H
#define BENCH_COLL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bench_case;

enum bench_check { BENCH_RIGHT, BENCH_RIGHT_BITS_DIFFER, BENCH_WRONG };

struct bench_coll {
    const char *name;
    /* The blocking MPI call on case->count elements; `send` may be MPI_IN_PLACE. */
    void (*call)(const struct bench_case *measured, const void *send, void *recv);
    /* Collective: compares what the latest call left in case->recv with the reference. */
    enum bench_check (*check)(struct bench_case *measured);
    /* Bus bandwidth over algorithm bandwidth, as nccl-tests defines it. */
    double (*busbw_factor)(int ranks);
};

extern const struct bench_coll bench_allreduce;

/* NULL if there is no such row, or past the end. */
const struct bench_coll *bench_coll_find(const char *name);
const struct bench_coll *bench_coll_row(int index);

const char *bench_check_name(enum bench_check check);

#ifdef __cplusplus
}
#endif
#endif
