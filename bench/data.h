/*
 * The data of the benchmarks: what element i of rank r is follows from a seed, so that any rank can compute in
 * higher precision what any call must give, without talking to the others.
 */
#ifndef BENCH_DATA_H
#define BENCH_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

enum bench_op_id { BENCH_SUM, BENCH_PROD, BENCH_MAX, BENCH_MIN };

struct bench_key {
    uint64_t seed;
    enum bench_op_id op;
    int first_rank; /* what arrives is made of the data of the `ranks` ranks from this one */
    int ranks;
};

/* The first element that is wrong, if any. */
struct bench_mismatch {
    bool found;
    uint64_t index;
    double got;
    double expected;
};

struct bench_type {
    const char *name;
    size_t size;      /* from one element to the next */
    MPI_Datatype mpi; /* MPI_DATATYPE_NULL: a derived type, which bench_type_mpi makes */
    int nccl;         /* ncclDataType_t; of a derived type no number */
    /* Elements [first, first + count) of what `rank` contributes. */
    void (*fill)(void *to, uint64_t first, size_t count, const struct bench_key *key, int rank);
    /* Compares elements [first, first + count) of a result with the reference, which is computed in a wider type. */
    void (*check)(const void *result, uint64_t first, size_t count, const struct bench_key *key,
                  struct bench_mismatch *mismatch);
};

struct bench_op {
    const char *name;
    enum bench_op_id id;
    MPI_Op mpi;
    int nccl; /* ncclRedOp_t */
};

extern const struct bench_type bench_types[];
extern const int bench_type_count;
extern const struct bench_op bench_ops[];
extern const int bench_op_count;

static inline bool bench_type_is_derived(const struct bench_type *type)
{
    return type->mpi == MPI_DATATYPE_NULL;
}
/* MPI's type, committed; a derived one stays for as long as MPI does. After MPI_Init. */
MPI_Datatype bench_type_mpi(const struct bench_type *type);

/* NULL if there is no such row. */
const struct bench_type *bench_type_find(const char *name);
const struct bench_op *bench_op_find(const char *name);

/* Goes on with a digest over `bytes` of memory; results with equal bits have equal digests. */
uint64_t bench_digest(uint64_t digest, const void *data, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
