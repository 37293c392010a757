/*
 * Reduces what the copy engines of the peers have brought into blocks of this GPU's scratch, in rank order: bound by the GPU's own
 * memory. No kernel of this kind waits for anybody.
 */
#ifndef GPUCOLL_KERNELS_REDUCE_BLOCKS_CUH
#define GPUCOLL_KERNELS_REDUCE_BLOCKS_CUH

#include "kernels/pack.cuh"
#include "kernels/reduce_ops.cuh"
#include "kernels/sync.cuh"

namespace gpucoll {

constexpr uint32_t blocks_unroll = 2; /* packs of each source that a thread has in flight */
constexpr uint32_t blocks_batch = 4;  /* sources */

/* Pack `index` of what `source` contributes. Blocks are aligned, and whole packs long; the own part is a user's buffer. */
template <bool Fast>
__device__ __forceinline__ pack load_part(const gpucoll_kernel_args &args, const message &own, uint32_t source,
                                          uint64_t index)
{
    if (source == args.rank) {
        return Fast ? load_pack(own.at(index)) : own.load(index);
    }
    return load_pack(static_cast<const char *>(args.peer[source].lane) + index * GPUCOLL_PACK_BYTES);
}

/* The packs at + i * stride below `end`, of all ranks: the loads of a batch of sources are in flight together. */
template <typename Op, bool Fast, uint32_t Unroll>
__device__ __forceinline__ void reduce_packs(const gpucoll_kernel_args &args, const message &own, const message &recv,
                                             uint64_t at, uint64_t stride, uint64_t end)
{
    pack sum[Unroll];
    for (uint32_t first = 0; first < args.nranks; first += blocks_batch) {
        pack value[blocks_batch][Unroll];
#pragma unroll
        for (uint32_t j = 0; j < blocks_batch; j++) {
#pragma unroll
            for (uint32_t i = 0; i < Unroll; i++) {
                if (first + j < args.nranks && at + i * stride < end) {
                    value[j][i] = load_part<Fast>(args, own, first + j, at + i * stride);
                }
            }
        }
#pragma unroll
        for (uint32_t j = 0; j < blocks_batch; j++) {
#pragma unroll
            for (uint32_t i = 0; i < Unroll; i++) {
                if (first + j < args.nranks && at + i * stride < end) {
                    sum[i] = first + j == 0 ? value[j][i] : reduce<Op>(sum[i], value[j][i]);
                }
            }
        }
    }
#pragma unroll
    for (uint32_t i = 0; i < Unroll; i++) {
        if (at + i * stride < end) {
            if (Fast) {
                store_pack(recv.at(at + i * stride), sum[i]);
            } else {
                recv.store(at + i * stride, sum[i]);
            }
        }
    }
}

template <typename Op> __device__ __forceinline__ void reduce_blocks(const gpucoll_kernel_args &args)
{
    const message own(args.send, args.bytes);
    const message recv(args.recv, args.bytes);
    const uint64_t end = (args.bytes + GPUCOLL_PACK_BYTES - 1) / GPUCOLL_PACK_BYTES;
    const uint64_t fast = own.fast_end() < recv.fast_end() ? own.fast_end() : recv.fast_end();
    const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    const uint64_t start = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (uint64_t at = start; at < fast; at += blocks_unroll * stride) {
        reduce_packs<Op, true, blocks_unroll>(args, own, recv, at, stride, fast);
    }
    for (uint64_t at = fast + start; at < end; at += stride) {
        reduce_packs<Op, false, 1>(args, own, recv, at, stride, end);
    }
    finish(args, false);
}

} // namespace gpucoll

#endif
