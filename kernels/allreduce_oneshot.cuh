/*
 * One-shot all-reduce over LL: every rank stores its whole message to every peer and reduces all messages itself, in rank
 * order on every rank, so that all get the same bits. One store latency in all.
 *
 * A thread sends all its packs before it waits for the first, so that the packs of a peer travel while others are waited for. It
 * reads a pack of `send` for the second time before it writes that pack of `recv`, and no other thread touches
 * either: in place is right.
 */
#ifndef GPUCOLL_KERNELS_ALLREDUCE_ONESHOT_CUH
#define GPUCOLL_KERNELS_ALLREDUCE_ONESHOT_CUH

#include "kernels/crew.cuh"
#include "kernels/ll.cuh"
#include "kernels/reduce_ops.cuh"

namespace gpucoll {

/* Peers whose lines are loaded together. */
constexpr uint32_t oneshot_batch = 4;

/* One pack of every rank, reduced. False if the wait was given up. */
template <typename Op>
__device__ __forceinline__ bool gather_and_reduce(const gpucoll_kernel_args &args, uint64_t index, pack own, waiter &wait,
                                                  pack *result)
{
    const uint32_t epoch = args.epoch[args.rank];
    pack sum = own;
    for (uint32_t first = 0; first < args.nranks; first += oneshot_batch) {
        ll_area::lines lines[oneshot_batch];
        for (;;) {
#pragma unroll
            for (uint32_t i = 0; i < oneshot_batch; i++) {
                if (first + i < args.nranks && first + i != args.rank) {
                    lines[i] = ll_area(args.lane[args.rank], args.nranks, first + i).look(index);
                }
            }
            uint32_t missing = args.nranks;
#pragma unroll
            for (uint32_t i = 0; i < oneshot_batch; i++) {
                if (first + i < args.nranks && first + i != args.rank && !lines[i].complete(epoch)) {
                    missing = first + i;
                }
            }
            if (missing == args.nranks) {
                break;
            }
            if (!wait.again(missing)) {
                return false;
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < oneshot_batch; i++) {
            const uint32_t source = first + i;
            if (source < args.nranks) {
                const pack value = source == args.rank ? own : lines[i].value();
                sum = source == 0 ? value : reduce<Op>(sum, value);
            }
        }
    }
    *result = sum;
    return true;
}

/* False if the wait was given up. */
template <typename Op> __device__ __forceinline__ bool allreduce_oneshot(const gpucoll_kernel_args &args, crew_share share)
{
    const message send(args.send, args.bytes);
    const message recv(args.recv, args.bytes);
    const uint32_t nranks = args.nranks;
    const uint32_t rank = args.rank;
    const uint64_t packs = (args.bytes + GPUCOLL_PACK_BYTES - 1) / GPUCOLL_PACK_BYTES;
    const uint64_t start = static_cast<uint64_t>(share.cta) * blockDim.x + threadIdx.x;
    const uint64_t stride = static_cast<uint64_t>(share.ctas) * blockDim.x;

    for (uint64_t index = start; index < packs; index += stride) {
        const pack own = send.load(index);
        for (uint32_t i = 1; i < nranks; i++) {
            const uint32_t peer = rank + i < nranks ? rank + i : rank + i - nranks;
            ll_area(args.lane[peer], nranks, rank).store(index, own, args.epoch[peer]);
        }
    }
    waiter wait(args.status);
    for (uint64_t index = start; index < packs; index += stride) {
        pack result;
        if (!gather_and_reduce<Op>(args, index, send.load(index), wait, &result)) {
            return false;
        }
        recv.store(index, result);
    }
    return true;
}

} // namespace gpucoll

#endif
