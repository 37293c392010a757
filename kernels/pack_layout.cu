/*
 * Packs and unpacks elements of a layout (layout_abi.h). Threads take packed positions one after the other, so the packed side
 * is always accessed in order and the user's side as far as its runs go. What a thread moves at once is as wide as all
 * addresses, lengths and strides allow: so it never crosses the end of a run.
 */
#include "kernels/layout_abi.h"
#include "kernels/sync.cuh"

namespace gpucoll {

/* Moves that a thread has under way at once: enough to hide the latency of memory. */
constexpr uint32_t pack_batch = 4;

struct place {
    char *user;
    char *packed;
};

/* Where unit `position` of all jobs together is. `job` only grows. */
__device__ __forceinline__ place find_place(const gpucoll_pack_args &args, uint64_t position, uint32_t &job)
{
    while (position >= args.job[job].end) {
        job++;
    }
    const uint64_t at = position - (job == 0 ? 0 : args.job[job - 1].end);
    uint64_t left;
    const int64_t offset = gpucoll_layout_find(&args.view, at, &left);
    return {static_cast<char *>(args.job[job].user) + offset, static_cast<char *>(args.job[job].packed) + at};
}

template <typename Unit, bool unpack> __device__ __forceinline__ void move_units(const gpucoll_pack_args &args)
{
    const uint64_t end = args.job[args.jobs - 1].end;
    const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x * sizeof(Unit);
    const uint64_t start = (static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * sizeof(Unit);
    uint32_t job = 0;
    for (uint64_t first = start; first < end; first += pack_batch * stride) {
        Unit value[pack_batch];
        char *to[pack_batch];
#pragma unroll
        for (uint32_t i = 0; i < pack_batch; i++) {
            const uint64_t position = first + i * stride;
            if (position < end) {
                const place found = find_place(args, position, job);
                value[i] = *reinterpret_cast<const Unit *>(unpack ? found.packed : found.user);
                to[i] = unpack ? found.user : found.packed;
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < pack_batch; i++) {
            if (first + i * stride < end) {
                *reinterpret_cast<Unit *>(to[i]) = value[i];
            }
        }
    }
}

template <typename Unit> __device__ __forceinline__ void move_all(const gpucoll_pack_args &args)
{
    if (args.unpack != 0) {
        move_units<Unit, true>(args);
    } else {
        move_units<Unit, false>(args);
    }
}

} // namespace gpucoll

extern "C" __global__ void __launch_bounds__(GPUCOLL_MAX_THREADS, 1)
    gpucoll_pack_layout(const __grid_constant__ gpucoll_pack_args args)
{
    switch (args.width) {
    case 16:
        gpucoll::move_all<uint4>(args);
        break;
    case 8:
        gpucoll::move_all<uint2>(args);
        break;
    case 4:
        gpucoll::move_all<uint32_t>(args);
        break;
    case 2:
        gpucoll::move_all<uint16_t>(args);
        break;
    default:
        gpucoll::move_all<unsigned char>(args);
        break;
    }
    gpucoll::finish(args, false);
}
