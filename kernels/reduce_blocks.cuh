/*
 * Reduces blocks of memory that this GPU reaches, in rank order: what the copy engines of the peers have brought into its scratch, or
 * the two buffers of a reduction of one process. Bound by the GPU's own memory. No kernel of this kind waits for anybody.
 */
#ifndef GPUCOLL_KERNELS_REDUCE_BLOCKS_CUH
#define GPUCOLL_KERNELS_REDUCE_BLOCKS_CUH

#include "kernels/pack.cuh"
#include "kernels/reduce_ops.cuh"
#include "kernels/sync.cuh"

namespace gpucoll {

constexpr uint32_t blocks_unroll = 2; /* packs of each source that a thread has in flight */
constexpr uint32_t blocks_batch = 4;  /* sources */

__device__ __forceinline__ message part_of(const gpucoll_kernel_args &args, uint32_t source)
{
    return message(source == args.rank ? args.send : args.peer[source].lane, args.bytes);
}

/* Pack `index` of what `source` contributes. */
template <bool Fast>
__device__ __forceinline__ pack load_part(const gpucoll_kernel_args &args, uint32_t source, uint64_t index)
{
    const message part = part_of(args, source);
    return Fast ? load_pack(part.at(index)) : part.load(index);
}

/* The packs below are aligned and whole, whatever they are of. */
__device__ __forceinline__ uint64_t fast_end_of_all(const gpucoll_kernel_args &args, const message &recv)
{
    uint64_t end = recv.fast_end();
    for (uint32_t source = 0; source < args.nranks; source++) {
        const uint64_t fast = part_of(args, source).fast_end();
        end = fast < end ? fast : end;
    }
    return end;
}

/* The packs at + i * stride below `end`, of all ranks: the loads of a batch of sources are in flight together. */
template <bool Fast, uint32_t Unroll, typename Op>
__device__ __forceinline__ void reduce_packs(const Op &op, const gpucoll_kernel_args &args, const message &recv, uint64_t at,
                                             uint64_t stride, uint64_t end)
{
    pack sum[Unroll];
    for (uint32_t first = 0; first < args.nranks; first += blocks_batch) {
        pack value[blocks_batch][Unroll];
#pragma unroll
        for (uint32_t j = 0; j < blocks_batch; j++) {
#pragma unroll
            for (uint32_t i = 0; i < Unroll; i++) {
                if (first + j < args.nranks && at + i * stride < end) {
                    value[j][i] = load_part<Fast>(args, first + j, at + i * stride);
                }
            }
        }
#pragma unroll
        for (uint32_t j = 0; j < blocks_batch; j++) {
#pragma unroll
            for (uint32_t i = 0; i < Unroll; i++) {
                if (first + j < args.nranks && at + i * stride < end) {
                    sum[i] = first + j == 0 ? value[j][i] : reduce(op, sum[i], value[j][i]);
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
    const message recv(args.recv, args.bytes);
    const uint64_t end = packs_of(args.bytes);
    const uint64_t fast = fast_end_of_all(args, recv);
    const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    const uint64_t start = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const Op op(args.variant);
    for (uint64_t at = start; at < fast; at += blocks_unroll * stride) {
        reduce_packs<true, blocks_unroll>(op, args, recv, at, stride, fast);
    }
    for (uint64_t at = fast + start; at < end; at += stride) {
        reduce_packs<false, 1>(op, args, recv, at, stride, end);
    }
    finish(args, false);
}

} // namespace gpucoll

#endif
