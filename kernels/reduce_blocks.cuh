/*
 * Reduces what the copy engines of the peers have brought, in rank order: bound by the GPU's own memory. No kernel of this kind
 * waits for anybody.
 */
#ifndef GPUCOLL_KERNELS_REDUCE_BLOCKS_CUH
#define GPUCOLL_KERNELS_REDUCE_BLOCKS_CUH

#include "kernels/pack.cuh"
#include "kernels/reduce_ops.cuh"
#include "kernels/sync.cuh"

namespace gpucoll {

constexpr uint32_t blocks_unroll = 2; /* packs of each source that a thread has in flight */
constexpr uint32_t blocks_batch = 4;  /* sources */

/* Sources [first, first + batch) of the packs at + i * stride, reduced onto `sum`. */
template <typename Op>
__device__ __forceinline__ void reduce_batch(const gpucoll_kernel_args &args, const message &own, uint32_t first,
                                             uint64_t at, uint64_t stride, uint64_t end, pack (&sum)[blocks_unroll])
{
    pack value[blocks_batch][blocks_unroll];
#pragma unroll
    for (uint32_t j = 0; j < blocks_batch; j++) {
        const uint32_t source = first + j;
#pragma unroll
        for (uint32_t i = 0; i < blocks_unroll; i++) {
            const uint64_t index = at + i * stride;
            if (source >= args.nranks || index >= end) {
                continue;
            }
            value[j][i] = source == args.rank
                              ? own.load(index)
                              : load_pack(static_cast<const char *>(args.peer[source].lane) + index * GPUCOLL_PACK_BYTES);
        }
    }
#pragma unroll
    for (uint32_t j = 0; j < blocks_batch; j++) {
        const uint32_t source = first + j;
#pragma unroll
        for (uint32_t i = 0; i < blocks_unroll; i++) {
            if (source < args.nranks && at + i * stride < end) {
                sum[i] = source == 0 ? value[j][i] : reduce<Op>(sum[i], value[j][i]);
            }
        }
    }
}

template <typename Op> __device__ __forceinline__ void reduce_blocks(const gpucoll_kernel_args &args)
{
    const message send(args.send, args.bytes);
    const message recv(args.recv, args.bytes);
    const uint64_t end = (args.bytes + GPUCOLL_PACK_BYTES - 1) / GPUCOLL_PACK_BYTES;
    const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    const uint64_t start = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (uint64_t at = start; at < end; at += blocks_unroll * stride) {
        pack sum[blocks_unroll];
        for (uint32_t first = 0; first < args.nranks; first += blocks_batch) {
            reduce_batch<Op>(args, send, first, at, stride, end, sum);
        }
#pragma unroll
        for (uint32_t i = 0; i < blocks_unroll; i++) {
            if (at + i * stride < end) {
                recv.store(at + i * stride, sum[i]);
            }
        }
    }
    finish(args, false);
}

} // namespace gpucoll

#endif
