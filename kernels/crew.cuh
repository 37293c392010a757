/*
 * A crew: the CTAs that work on one call, each for itself. Of an ordinary kernel that is the grid, of one that lingers (linger.cuh) as many
 * of its CTAs as the call asks for.
 */
#ifndef GPUCOLL_KERNELS_CREW_CUH
#define GPUCOLL_KERNELS_CREW_CUH

#include <cstdint>

namespace gpucoll {

/* Which part of a call's work a CTA does. */
struct crew_share {
    uint32_t cta;
    uint32_t ctas;
};

/* Of packs that are worked on each by itself those that a CTA has: in a row, whole warps of them. Few packs are spread over all CTAs, which store side by
 * side what would keep one busy for longer. */
struct crew_packs {
    uint32_t begin;
    uint32_t end;
};

__device__ __forceinline__ crew_packs packs_of_share(crew_share share, uint32_t packs)
{
    constexpr uint32_t warp = 32;
    if (share.ctas == 1) {
        return {0, packs};
    }
    const uint32_t warps = (packs + warp - 1) / warp;
    const uint32_t each = (warps + share.ctas - 1) / share.ctas * warp;
    const uint32_t begin = share.cta * each;
    return {begin, begin + each < packs ? begin + each : packs};
}

/* Of a kernel that does not linger. */
__device__ __forceinline__ crew_share share_of_grid()
{
    return {blockIdx.x, gridDim.x};
}

} // namespace gpucoll

#endif
