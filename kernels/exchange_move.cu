#include "kernels/courier.cuh"
#include "kernels/exchange.cuh"
#include "kernels/store.cuh"

extern "C" __global__ void __launch_bounds__(GPUCOLL_MAX_THREADS, 1)
    gpucoll_exchange_lines_move(const __grid_constant__ gpucoll_kernel_args args,
                                const __grid_constant__ gpucoll_kernel_runs runs)
{
    gpucoll::crew_kernel<gpucoll::move_calls>(args, &runs);
}

extern "C" __global__ void __launch_bounds__(GPUCOLL_MAX_THREADS, 1)
    gpucoll_exchange_lines_laid(const __grid_constant__ gpucoll_kernel_args args,
                                const __grid_constant__ gpucoll_kernel_runs runs)
{
    gpucoll::crew_kernel<gpucoll::laid_calls>(args, &runs);
}

extern "C" __global__ void __launch_bounds__(GPUCOLL_MAX_THREADS)
    gpucoll_exchange_move(const __grid_constant__ gpucoll_kernel_args args,
                          const __grid_constant__ gpucoll_kernel_runs runs)
{
    gpucoll::exchange_and_move(args, runs);
}

extern "C" __global__ void __launch_bounds__(GPUCOLL_MAX_THREADS, 1)
    gpucoll_store(const __grid_constant__ gpucoll_kernel_args args,
                  const __grid_constant__ gpucoll_kernel_runs runs)
{
    gpucoll::store_kernel(args, runs);
}

extern "C" __global__ void __launch_bounds__(gpucoll::warp_threads)
    gpucoll_courier(const __grid_constant__ gpucoll_kernel_args args)
{
    gpucoll::crew_kernel<gpucoll::courier_calls>(args, nullptr);
}
