/*
 * The ranks of a call: their order, and sets of them.
 */
#ifndef GPUCOLL_KERNELS_RANKS_CUH
#define GPUCOLL_KERNELS_RANKS_CUH

#include <cstdint>
#include "kernels/kernel_abi.h"

namespace gpucoll
{

constexpr uint32_t no_rank = GPUCOLL_MAX_LOCAL;

/* Sets of ranks, a bit each. */
__device__ __forceinline__ bool is_in(uint32_t set, uint32_t rank)
{
    static_assert(GPUCOLL_MAX_LOCAL <= 32, "a set of ranks is one word");
    return rank < GPUCOLL_MAX_LOCAL && (set >> rank & 1) != 0;
}

__device__ __forceinline__ uint32_t all_ranks(uint32_t nranks)
{
    return nranks < 32 ? (1u << nranks) - 1 : 0xffffffffu;
}

/* The next rank but `turn` after this one. */
__device__ __forceinline__ uint32_t rank_after(const gpucoll_kernel_args &args, uint32_t turn)
{
    const uint32_t next = args.rank + 1 + turn;
    return next < args.nranks ? next : next - args.nranks;
}

/* Whose runs are reduced on this rank. */
__device__ __forceinline__ uint32_t sources_of(const gpucoll_kernel_args &args,
                                               const gpucoll_kernel_runs &runs)
{
    uint32_t set = 0;
    for (uint32_t i = 0; i < args.nranks; i++) {
        const gpucoll_kernel_run &run = runs.run[i];
        set |= (i == args.rank ? run.send_bytes : run.recv_bytes) > 0 ? 1u << i : 0;
    }
    return set;
}

} // namespace gpucoll

#endif
