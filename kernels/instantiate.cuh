/*
 * Makes the kernels of a group of functors: gpucoll_lines_<functor> and gpucoll_twoshot_<functor>. The groups of
 * kernels/functors.h are compiled apart, so that they compile side by side.
 */
#ifndef GPUCOLL_KERNELS_INSTANTIATE_CUH
#define GPUCOLL_KERNELS_INSTANTIATE_CUH

#include "kernels/allreduce_twoshot.cuh"
#include "kernels/linger.cuh"

#define GPUCOLL_KERNELS_OF(name, op, element)                                                                \
    extern "C" __global__ void __launch_bounds__(GPUCOLL_MAX_THREADS)                                        \
        gpucoll_lines_##name(const __grid_constant__ gpucoll_kernel_args args)                               \
    {                                                                                                        \
        gpucoll::lines_kernel<gpucoll::op_##op<gpucoll::element>>(args);                                     \
    }                                                                                                        \
    extern "C" __global__ void __launch_bounds__(GPUCOLL_MAX_THREADS)                                        \
        gpucoll_twoshot_##name(const __grid_constant__ gpucoll_kernel_args args)                             \
    {                                                                                                        \
        gpucoll::allreduce_twoshot<gpucoll::op_##op<gpucoll::element>>(args);                                \
    }

#endif
