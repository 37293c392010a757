/*
 * Makes the all-reduce kernels of a group of suites: gpucoll_lines_<suite> and gpucoll_twoshot_<suite>. The groups of
 * kernels/functors.h are compiled apart, so that they compile side by side.
 */
#ifndef GPUCOLL_KERNELS_INSTANTIATE_CUH
#define GPUCOLL_KERNELS_INSTANTIATE_CUH

#include "kernels/allreduce_ll128.cuh"
#include "kernels/allreduce_oneshot.cuh"
#include "kernels/allreduce_swap.cuh"
#include "kernels/allreduce_twoshot.cuh"
#include "kernels/linger.cuh"

namespace gpucoll {

/* The calls of a kernel that lingers (linger.cuh). */
template <typename Op> struct allreduce_calls {
    static constexpr uint32_t rows = GPUCOLL_BELL_NO_ROWS;
    static constexpr bool reaches_peers = false;
    using bell = bell_by_copies<rows>;

    static __device__ __forceinline__ bool is_small(uint32_t kernel, uint64_t bytes, uint32_t nranks,
                                                    uint32_t threads)
    {
        return (kernel == GPUCOLL_KERNEL_ONESHOT || kernel == GPUCOLL_KERNEL_ONESHOT_EARLY) &&
               gpucoll_leader_suffices(GPUCOLL_KERNEL_ONESHOT, bytes, nranks, threads);
    }

    static __device__ __forceinline__ bool run_by_warp(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &)
    {
        return allreduce_oneshot_at_once<Op>(args, [](bool good) { return good; }); /* a warp's lanes give up together */
    }

    static __device__ __forceinline__ bool run(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &,
                                               crew_share share)
    {
        switch (args.kernel) {
        case GPUCOLL_KERNEL_ONESHOT:
            return allreduce_oneshot<Op>(args, packs_of_share(share));
        case GPUCOLL_KERNEL_ONESHOT_EARLY:
            return allreduce_oneshot_at_once<Op>(args, [](bool good) { return !__syncthreads_or(!good); });
        case GPUCOLL_KERNEL_SWAP_LL128:
            return allreduce_swap<Op>(args, share);
        default:
            return allreduce_ll128<Op>(args, share);
        }
    }
};

} // namespace gpucoll

#define GPUCOLL_KERNELS_OF(name, op, element)                                                                \
    extern "C" __global__ void __launch_bounds__(GPUCOLL_MAX_THREADS)                                        \
        gpucoll_lines_##name(const __grid_constant__ gpucoll_kernel_args args)                               \
    {                                                                                                        \
        gpucoll::crew_kernel<gpucoll::allreduce_calls<gpucoll::op_##op<gpucoll::element>>>(args, nullptr);  \
    }                                                                                                        \
    extern "C" __global__ void __launch_bounds__(GPUCOLL_MAX_THREADS)                                        \
        gpucoll_twoshot_##name(const __grid_constant__ gpucoll_kernel_args args)                             \
    {                                                                                                        \
        if (gpucoll::pass_gate(args)) {                                                                      \
            gpucoll::allreduce_twoshot<gpucoll::op_##op<gpucoll::element>>(args);                            \
        }                                                                                                    \
    }                                                                                                        \
    extern "C" __global__ void __launch_bounds__(GPUCOLL_MAX_THREADS) gpucoll_twoshot_direct_##name(         \
        const __grid_constant__ gpucoll_kernel_args args, const __grid_constant__ gpucoll_kernel_runs runs)  \
    {                                                                                                        \
        if (gpucoll::pass_gate(args)) {                                                                      \
            gpucoll::allreduce_twoshot_direct<gpucoll::op_##op<gpucoll::element>>(args, runs);               \
        }                                                                                                    \
    }

#endif
