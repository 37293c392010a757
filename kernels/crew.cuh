/*
 * A crew: the CTAs that work on one call. Of an ordinary kernel that is the grid. A lingering kernel, which waits for further
 * calls, is one cluster of CTAs (one CTA where the GPU has no clusters), since it needs a barrier that costs little.
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

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

__device__ __forceinline__ uint32_t cluster_rank()
{
    uint32_t value;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(value));
    return value;
}

__device__ __forceinline__ uint32_t cluster_size()
{
    uint32_t value;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(value));
    return value;
}

/* All threads of the cluster; what was written before is visible after. */
__device__ __forceinline__ void cluster_barrier()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* Writes a word of another CTA's shared memory: `word` names it by its address in this CTA. */
__device__ __forceinline__ void store_cluster(uint32_t *word, uint32_t cta, uint32_t value)
{
    const uint32_t local = static_cast<uint32_t>(__cvta_generic_to_shared(word));
    asm volatile("{\n\t.reg .u32 remote;\n\t"
                 "mapa.shared::cluster.u32 remote, %0, %1;\n\t"
                 "st.shared::cluster.u32 [remote], %2;\n\t}" ::"r"(local),
                 "r"(cta), "r"(value)
                 : "memory");
}

#else

__device__ __forceinline__ uint32_t cluster_rank()
{
    return 0;
}

__device__ __forceinline__ uint32_t cluster_size()
{
    return 1;
}

__device__ __forceinline__ void cluster_barrier()
{
    __syncthreads();
}

__device__ __forceinline__ void store_cluster(uint32_t *word, uint32_t, uint32_t value)
{
    *word = value;
}

#endif

} // namespace gpucoll

#endif
