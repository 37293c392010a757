/*
 * The collectives, element types and reduction operators gpucoll knows, free of MPI and of CUDA.
 * Rows with the names a user can type stand in types.c; which (operator, type) pairs exist is decided by
 * kernels/functors.h, the one list from which device kernels, host kernels and this look-up are made.
 */
#ifndef GPUCOLL_BASE_TYPES_H
#define GPUCOLL_BASE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gpucoll_coll {
    GPUCOLL_ALLREDUCE,
    GPUCOLL_ALLGATHER, /* from here on exchanges: core/exchange.h */
    GPUCOLL_ALLGATHERV,
    GPUCOLL_ALLTOALL,
    GPUCOLL_ALLTOALLV,
    GPUCOLL_ALLTOALLW,
    GPUCOLL_BCAST,
    GPUCOLL_EXSCAN,
    GPUCOLL_GATHER,
    GPUCOLL_GATHERV,
    GPUCOLL_NEIGHBOR_ALLGATHER,
    GPUCOLL_NEIGHBOR_ALLGATHERV,
    GPUCOLL_NEIGHBOR_ALLTOALL,
    GPUCOLL_NEIGHBOR_ALLTOALLV,
    GPUCOLL_NEIGHBOR_ALLTOALLW,
    GPUCOLL_REDUCE,
    GPUCOLL_REDUCE_SCATTER,
    GPUCOLL_REDUCE_SCATTER_BLOCK,
    GPUCOLL_SCAN,
    GPUCOLL_SCATTER,
    GPUCOLL_SCATTERV,
    GPUCOLL_COLL_COUNT,
    GPUCOLL_BARRIER = GPUCOLL_COLL_COUNT, /* a call without buffers; has a name like the others */
    GPUCOLL_WARMUP,   /* likewise, from here on nobody's but gpucoll's own: see gpucoll_can_warm_up */
    GPUCOLL_REHEARSAL /* see gpucoll_team_rehearses */
};

static inline bool gpucoll_coll_has_buffers(enum gpucoll_coll coll)
{
    return (unsigned)coll < GPUCOLL_COLL_COUNT;
}

/* Blocks are of some ranks only, which differ from rank to rank; the engine takes a block for each rank all the same. */
static inline bool gpucoll_coll_is_neighborhood(enum gpucoll_coll coll)
{
    return coll >= GPUCOLL_NEIGHBOR_ALLGATHER && coll <= GPUCOLL_NEIGHBOR_ALLTOALLW;
}

static inline bool gpucoll_coll_is_own(enum gpucoll_coll coll)
{
    return coll == GPUCOLL_WARMUP || coll == GPUCOLL_REHEARSAL;
}

/* Every size divides 16, so that a 16-byte pack always holds whole elements. */
enum gpucoll_type {
    GPUCOLL_INT8,
    GPUCOLL_INT16,
    GPUCOLL_INT32,
    GPUCOLL_INT64,
    GPUCOLL_UINT8,
    GPUCOLL_UINT16,
    GPUCOLL_UINT32,
    GPUCOLL_UINT64,
    GPUCOLL_FLOAT16,
    GPUCOLL_BFLOAT16,
    GPUCOLL_FLOAT32,
    GPUCOLL_FLOAT64,
    GPUCOLL_COMPLEX64,  /* two floats */
    GPUCOLL_COMPLEX128, /* two doubles */
    GPUCOLL_SHORT_INT,  /* pair types: value, then location; C struct layout with its padding */
    GPUCOLL_INT_INT,
    GPUCOLL_LONG_INT,
    GPUCOLL_FLOAT_INT,
    GPUCOLL_DOUBLE_INT,
    GPUCOLL_FLOAT_FLOAT,
    GPUCOLL_DOUBLE_DOUBLE,
    GPUCOLL_TYPE_COUNT
};

enum gpucoll_op {
    GPUCOLL_SUM,
    GPUCOLL_PROD,
    GPUCOLL_MAX,
    GPUCOLL_MIN,
    GPUCOLL_LAND,
    GPUCOLL_LOR,
    GPUCOLL_LXOR,
    GPUCOLL_BAND,
    GPUCOLL_BOR,
    GPUCOLL_BXOR,
    GPUCOLL_MAXLOC,
    GPUCOLL_MINLOC,
    GPUCOLL_OP_COUNT
};

size_t gpucoll_type_size(enum gpucoll_type type); /* bytes, padding included */
const char *gpucoll_type_name(enum gpucoll_type type);
const char *gpucoll_op_name(enum gpucoll_op op);
const char *gpucoll_coll_name(enum gpucoll_coll coll);
bool gpucoll_coll_reduces(enum gpucoll_coll coll); /* has an operator and a type */

static inline bool gpucoll_coll_is_scan(enum gpucoll_coll coll)
{
    return coll == GPUCOLL_SCAN || coll == GPUCOLL_EXSCAN;
}

/* The functor (an index into kernels/functors.h) that does `op` on `type`, or -1 where there is none.
 * Types that an operator cannot tell apart share a functor: signed and unsigned sums, for example. */
int gpucoll_functor(enum gpucoll_op op, enum gpucoll_type type);
const char *gpucoll_functor_name(int functor);
bool gpucoll_functor_is_rare(int functor); /* has no kernels of its own */

#endif
