/*
 * Exchanges: every collective but all-reduce. Each is a set of runs, bytes that one rank sends to another, of
 * which what arrives is copied or reduced in rank order (kernels/kernel_abi.h). The difference between the
 * collectives is which ranks have runs for which, a row each in exchange.c; the kernels, and the algorithms
 * in exchange_*.c, know runs only.
 */
#ifndef GPUCOLL_EXCHANGE_H
#define GPUCOLL_EXCHANGE_H

#include "core/plan/algorithm.h"
#include "core/request.h"

static inline bool gpucoll_is_exchange(enum gpucoll_coll coll)
{
    return coll > GPUCOLL_ALLREDUCE && coll < GPUCOLL_COLL_COUNT;
}

/* Bytes of a block where MPI wants them equal on all ranks, else 0. */
uint64_t gpucoll_exchange_even_bytes(const struct gpucoll_coll_args *args);

/* The block that rank `own` sends to `peer`, or receives from it; NULL: none. */
const struct gpucoll_block *gpucoll_exchange_send_block(const struct gpucoll_coll_args *args, uint32_t own,
                                                        uint32_t peer);
const struct gpucoll_block *gpucoll_exchange_recv_block(const struct gpucoll_coll_args *args, uint32_t own,
                                                        uint32_t peer);

/* The runs of rank `own`, one for each of all ranks. Those of a request are of the ranks of one host; those of a call of several hosts
 * (core/cluster/cluster_pairs.h) are of the communicator's. */
struct gpucoll_run_list {
    struct gpucoll_kernel_run *run; /* by rank */
    uint32_t own;
    uint32_t size;
};

/* Fills them in. Returns the bytes of the longest. */
uint64_t gpucoll_exchange_list_runs(const struct gpucoll_coll_args *args,
                                    const struct gpucoll_run_list *runs);
/* Fills request->runs, idle, and bytes, for now of this rank's longest run. */
void gpucoll_exchange_runs(struct gpucoll_request *request, const struct gpucoll_coll_args *args);

/* Is this place device memory, of the GPU of `buffer` if `*pointer` is not NULL? Then these two are of it; else `buffer` says host memory. */
bool gpucoll_exchange_joins(struct gpucoll_accel *accel, const void *place, struct gpucoll_buffer *buffer,
                            const void **pointer);
/* Can the runs be exchanged by kernels: device memory of one GPU, and no place that is read and written
 * otherwise than kernel_abi.h allows? Then `buffer` describes the GPU's memory and `*pointer` is of it; NULL
 * if the rank is idle. */
bool gpucoll_exchange_runs_are_able(const struct gpucoll_request *request,
                                    const struct gpucoll_run_list *runs, struct gpucoll_buffer *buffer,
                                    const void **pointer);
/* The request's own. */
bool gpucoll_exchange_is_able(struct gpucoll_request *request, struct gpucoll_buffer *buffer,
                              const void **pointer);

/* Does this rank's result of a reduction overwrite, in place, something that is still to be read? So it is with MPI_Reduce_scatter of unequal
 * counts: the result takes the beginning of the buffer, where blocks of other ranks are. */
bool gpucoll_exchange_overwrites(struct gpucoll_request *request);

/* Does the rank send the same bytes to all that it sends to? */
bool gpucoll_exchange_sends_same(enum gpucoll_coll coll);

/* Has each rank a block of its own for each other one, which may be of any length? */
bool gpucoll_exchange_is_uneven(enum gpucoll_coll coll);

/* Does what the rank sends to itself have the length that it expects of itself, if it names both? */
bool gpucoll_exchange_own_fits(const struct gpucoll_coll_args *args, uint32_t own);
/* Is it moved by counts that ranks give for each other? (Of other collectives the signatures are compared.) */
bool gpucoll_exchange_has_counts(enum gpucoll_coll coll);
/* A number for so many bytes from one rank to another, numbers below 2^8; 0 for none. Added by senders and taken away by receivers, the sum over all ranks
 * is 0 if what each sends is as long as the other expects, and else, but for one case of 2^64, is not: it is not linear, so two mistakes do not cancel
 * each other. */
uint64_t gpucoll_exchange_weight(uint32_t from, uint32_t to, uint64_t bytes);

/* The longest run of any rank, from the posts: the same on every rank. */
uint64_t gpucoll_exchange_longest(const struct gpucoll_request *request);

/* The plan's shape for runs of up to input->bytes over Simple; predicted_us is the time of the transfers
 * alone. */
void gpucoll_exchange_shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan);

/* The plan's shape and time of a call by GPUCOLL_KERNEL_STORE, for runs of up to input->bytes, of `steps` kernels one after the other, which all
 * together take `times` as long as the first. */
void gpucoll_store_shape(const struct gpucoll_plan_input *input, unsigned steps, double times,
                         struct gpucoll_plan *plan);

/* Launches the whole exchange by one kernel, `reduces` or `moves` as the collective wants; a rank without runs launches
 * nothing. Then waits for it, as gpucoll_kernel_wait. */
gpucoll_status gpucoll_exchange_start(struct gpucoll_request *request, enum gpucoll_kernel reduces,
                                      enum gpucoll_kernel moves) GPUCOLL_CHECKED;
gpucoll_status gpucoll_exchange_wait(struct gpucoll_request *request) GPUCOLL_CHECKED;

#endif
