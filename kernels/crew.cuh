/*
 * A crew: the CTAs that work on one call, each for itself. Of an ordinary kernel that is the grid, of one that lingers (linger.cuh) as many
 * of its CTAs as the call asks for. And the packs that each thread has of a message.
 */
#ifndef GPUCOLL_KERNELS_CREW_CUH
#define GPUCOLL_KERNELS_CREW_CUH

#include "kernels/sync.cuh"

namespace gpucoll {

/* Which part of a call's work a CTA does. */
struct crew_share {
    uint32_t cta;
    uint32_t ctas;
};

/* Of a kernel that does not linger. */
__device__ __forceinline__ crew_share share_of_grid()
{
    return {blockIdx.x, gridDim.x};
}

constexpr uint32_t no_pack = 0xffffffffu;

/*
 * The packs of a message that a thread works on: from `begin` on each `step`th, or where that is 0 no other. Warps stay whole: they go on while
 * any of their threads has a pack (`any_of_warp`), and a thread that has none does what the one with the last pack does. It stores
 * nothing to peers, though: nobody waits for a second copy, which could still be under way when the call has ended.
 */
struct pack_share {
    uint32_t begin;
    uint32_t step;

    __device__ __forceinline__ uint32_t next(uint32_t index) const
    {
        return step == 0 ? no_pack : index + step;
    }
};

__device__ __forceinline__ pack_share packs_of_share(crew_share share)
{
    return {share.cta * blockDim.x + threadIdx.x, share.ctas * blockDim.x};
}

/* Of one warp that has no more packs than threads. */
__device__ __forceinline__ pack_share pack_of_lane()
{
    return {threadIdx.x, 0};
}

__device__ __forceinline__ bool any_of_warp(uint32_t index, uint32_t packs)
{
    return index != no_pack && index - threadIdx.x % warp_threads < packs;
}

__device__ __forceinline__ uint32_t own_or_last(uint32_t index, uint32_t packs)
{
    return index < packs ? index : packs - 1;
}

} // namespace gpucoll

#endif
