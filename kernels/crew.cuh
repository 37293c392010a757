/*
 * A crew: the CTAs that work on one call. Of an ordinary kernel that is the grid. A lingering kernel, which waits for further
 * calls, is made of clusters of CTAs (one CTA where the GPU has no clusters), since it needs a barrier that costs little. The
 * clusters do not wait for each other: each has its part of a call and ends it by itself.
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

/* Which cluster of the grid this is, and of how many. */
__device__ __forceinline__ uint32_t cluster_index()
{
    uint32_t value;
    asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(value));
    return value;
}

__device__ __forceinline__ uint32_t cluster_count()
{
    uint32_t value;
    asm volatile("mov.u32 %0, %%nclusterid.x;" : "=r"(value));
    return value;
}

/* All threads of the cluster; what was written before is visible after. (Not the .aligned form: threads of a warp may come
 * apart.) */
__device__ __forceinline__ void cluster_barrier()
{
    asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}

/* Writes into the shared memory of a CTA of the cluster: `at` names the place by its address in this one. */
template <typename T> __device__ __forceinline__ void store_cluster(T *at, uint32_t cta, T value)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "words of 4 and 8 bytes");
    if (cta == cluster_rank()) {
        *at = value;
        return;
    }
    const uint32_t local = static_cast<uint32_t>(__cvta_generic_to_shared(at));
    uint32_t remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(cta));
    if constexpr (sizeof(T) == 4) {
        asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(remote), "r"(value) : "memory");
    } else {
        asm volatile("st.shared::cluster.u64 [%0], %1;" ::"r"(remote), "l"(value) : "memory");
    }
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

__device__ __forceinline__ uint32_t cluster_index()
{
    return 0;
}

__device__ __forceinline__ uint32_t cluster_count()
{
    return 1;
}

__device__ __forceinline__ void cluster_barrier()
{
    __syncthreads();
}

template <typename T> __device__ __forceinline__ void store_cluster(T *at, uint32_t, T value)
{
    *at = value;
}

#endif

} // namespace gpucoll

#endif
