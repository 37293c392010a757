/*
 * The collectives of bench/coll.h as NCCL has or expresses them, on the buffers of a case. What NCCL lacks (the v forms and neighbours; all of
 * alltoall, gather and scatter before 2.28) is a group of sends and receives; a barrier is an all-reduce of one element.
 */
#ifndef BENCH_NCCL_COLL_H
#define BENCH_NCCL_COLL_H

#include "bench/case.h"
#include "bench/nccl_api.h"

/* Puts the call on the stream; an ncclResult_t. */
int bench_nccl_call(const struct bench_nccl_api *api, const struct bench_case *measured, bench_nccl_comm comm,
                    void *stream);
/* Whether NCCL can run the case as it is: an alltoall in place, a scan and MPI_Reduce_local it cannot. */
bool bench_nccl_can(const struct bench_case *measured);
/* The element of recv at which NCCL leaves the result. */
size_t bench_nccl_result_at(const struct bench_case *measured);

#endif
