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

/* Of a kernel that does not linger. */
__device__ __forceinline__ crew_share share_of_grid()
{
    return {blockIdx.x, gridDim.x};
}

} // namespace gpucoll

#endif
