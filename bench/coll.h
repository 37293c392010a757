/*
 * The collectives that can be measured, a row each: which way data goes, from which buffers, extents, place and
 * reference result follow, and the MPI call in its three forms. NCCL's calls stand in bench/nccl_coll.c by the same name.
 */
#ifndef BENCH_COLL_H
#define BENCH_COLL_H

#include <stdbool.h>
#include <stddef.h>
#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A vector is one block for each rank, or for each neighbour. Without GATHERS and SCATTERS whole vectors move. */
enum bench_flow {
    BENCH_REDUCES = 1,     /* what arrives is the reduction over all ranks */
    BENCH_GATHERS = 2,     /* a receiver gets a vector: one block from each rank */
    BENCH_SCATTERS = 4,    /* a sender holds a vector: receiver r gets block r */
    BENCH_TO_ROOT = 8,     /* only the root receives */
    BENCH_FROM_ROOT = 16,  /* only the root sends */
    BENCH_ONE_BUFFER = 32, /* what the root sends is taken from where the others receive: no form in place */
    BENCH_SCANS = 64,      /* a receiver gets the reduction over the ranks up to itself */
    BENCH_BEFORE = 128,    /* of a scan: without itself */
    BENCH_UNEVEN = 256,    /* blocks differ in length */
    BENCH_LOCAL =
        512, /* nobody else takes part: what stands in recv is reduced with what is sent, for which rank r + 1 stands */
    BENCH_NEIGHBORS = 1024 /* blocks are of the ranks beside it in a ring, not of all: no form in place */
};

enum { BENCH_ROOT = 0 };

enum bench_form { BENCH_BLOCKING, BENCH_NONBLOCKING, BENCH_PERSISTENT, BENCH_FORM_COUNT };

/* What MPI gets. */
struct bench_args {
    const void *send; /* or MPI_IN_PLACE */
    void *recv;
    int count; /* elements: of this rank's block where the collective gathers or scatters, else of the vector */
    const int *counts; /* of each block, and where it stands */
    const int *displs;
    const int *byte_displs;
    const MPI_Aint *address_displs; /* the same */
    const MPI_Datatype *types;      /* `type` for each block */
    MPI_Datatype type;
    MPI_Op op;
    MPI_Comm comm;
};

struct bench_coll {
    const char *name;
    unsigned flow; /* of enum bench_flow; 0: no data */
    bool has_data;
    bool further; /* measured by "more", not by "all" */
    void (*call)(const struct bench_args *args);
    /* NULL: has no such form. */
    void (*start)(const struct bench_args *args, MPI_Request *request);
    void (*init)(const struct bench_args *args, MPI_Request *request);
};

/* NULL if there is no such row, or past the end. */
const struct bench_coll *bench_coll_find(const char *name);
const struct bench_coll *bench_coll_row(int index);

static inline bool bench_coll_has(const struct bench_coll *coll, unsigned flow)
{
    return (coll->flow & flow) != 0;
}
static inline bool bench_coll_is_alltoall(const struct bench_coll *coll)
{
    return bench_coll_has(coll, BENCH_GATHERS) && bench_coll_has(coll, BENCH_SCATTERS);
}
/* How many blocks a vector has, and who is at the other end of a rank's block `index`: who sends it, or whom it is for. */
int bench_coll_blocks(const struct bench_coll *coll, int ranks);
int bench_coll_peer(const struct bench_coll *coll, int ranks, int rank, int index);
/* Of a ring: what is sent as this block is received as which one, and the other way round? (What goes down comes from above.) */
int bench_coll_opposite(const struct bench_coll *coll, int index);
bool bench_coll_sends(const struct bench_coll *coll, int rank);
bool bench_coll_receives(const struct bench_coll *coll, int rank);
bool bench_coll_has_form(const struct bench_coll *coll, enum bench_form form, int ranks);
/* Whether `rank`, in a call in place, passes MPI_IN_PLACE: with rooted collectives only the root may. */
bool bench_coll_can_be_in_place(const struct bench_coll *coll);
bool bench_coll_is_in_place(const struct bench_coll *coll, int rank);
/* Where block `index` stands in a vector of blocks that `holder` sends or receives: an element. `block` is the mean of their
 * lengths; of the index behind the last, where the vector ends. */
size_t bench_coll_offset(const struct bench_coll *coll, size_t block, int ranks, int holder, int index);
/* Bus bandwidth over algorithm bandwidth, as nccl-tests defines it; of scans and of neighbours, which it lacks, 1, as each rank (of a scan
 * each but the last) has to send a vector's worth. */
double bench_coll_busbw_factor(const struct bench_coll *coll, int ranks);

const char *bench_form_name(enum bench_form form);

#ifdef __cplusplus
}
#endif
#endif
