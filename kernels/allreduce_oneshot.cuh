/*
 * One-shot all-reduce over LL: every rank stores its whole message to every peer and reduces all messages itself, in rank
 * order on every rank, so that all get the same bits. One store latency in all.
 *
 * A thread sends all its packs before it waits for the first, so that the packs of a peer travel while others are waited for. It
 * has read a pack of `send` for the last time before it writes that pack of `recv`, and no other thread touches
 * either: in place is right.
 */
#ifndef GPUCOLL_KERNELS_ALLREDUCE_ONESHOT_CUH
#define GPUCOLL_KERNELS_ALLREDUCE_ONESHOT_CUH

#include "kernels/crew.cuh"
#include "kernels/ll.cuh"
#include "kernels/reduce_ops.cuh"

namespace gpucoll {

/* Ranks whose lines are loaded together. */
constexpr uint32_t oneshot_batch = 4;

/* One pack of every rank, reduced. False if the wait was given up. Lines are loaded without asking whether there are any, in place of those
 * that a batch has none of some other rank's: behind a condition each would be waited for before the next. */
template <uint32_t Batch, typename Op>
__device__ __forceinline__ bool gather_and_reduce(const Op &op, const gpucoll_kernel_args &args, uint64_t index, pack own,
                                                  waiter &wait, pack *result)
{
    const uint32_t rank = args.rank;
    const uint32_t nranks = args.nranks;
    const uint32_t other = rank == 0 ? 1 : 0;
    const ll_area inbox(args.peer[rank].lane, args.ll_plane);
    const uint32_t epoch = args.peer[rank].epoch;
    pack sum = own;
    for (uint32_t first = 0; nranks > 1 && first < nranks; first += Batch) {
        ll_area::lines lines[Batch];
        uint32_t missing;
        do {
            missing = nranks;
#pragma unroll
            for (uint32_t i = 0; i < Batch; i++) {
                const uint32_t source = first + i;
                lines[i] = inbox.look(source == rank || source >= nranks ? other : source, index);
            }
#pragma unroll
            for (uint32_t i = 0; i < Batch; i++) {
                const uint32_t source = first + i;
                if (!lines[i].complete(epoch)) {
                    missing = source == rank || source >= nranks ? other : source;
                }
            }
            if (missing != nranks && !wait.again(missing)) {
                return false;
            }
        } while (missing != nranks);
#pragma unroll
        for (uint32_t i = 0; i < Batch; i++) {
            const uint32_t source = first + i;
            if (source < nranks) {
                const pack value = source == rank ? own : lines[i].value();
                sum = source == 0 ? value : reduce(op, sum, value);
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
    const uint64_t packs = packs_of(args.bytes);
    const uint64_t start = static_cast<uint64_t>(share.cta) * blockDim.x + threadIdx.x;
    const uint64_t stride = static_cast<uint64_t>(share.ctas) * blockDim.x;

    pack first = make_uint4(0, 0, 0, 0); /* kept: small messages have no other */
    for (uint64_t index = start; index < packs; index += stride) {
        const pack own = send.load(index);
        first = index == start ? own : first;
        for (uint32_t i = 1; i < nranks; i++) {
            const uint32_t peer = rank + i < nranks ? rank + i : rank + i - nranks;
            ll_area(args.peer[peer].lane, args.ll_plane).store(rank, index, own, args.peer[peer].epoch);
        }
    }
    waiter wait(args.status);
    const Op op(args);
    for (uint64_t index = start; index < packs; index += stride) {
        const pack own = index == start ? first : send.load(index);
        pack result;
        if (!gather_and_reduce<oneshot_batch>(op, args, index, own, wait, &result)) {
            return false;
        }
        recv.store(index, result);
    }
    return true;
}

/* A call of a pack for each thread of one warp at most. The threads past the end do what the last one does, so that they all go on as one. */
template <uint32_t Batch, typename Op>
__device__ __forceinline__ bool oneshot_of_warp(const gpucoll_kernel_args &args)
{
    if (args.bytes == 0) { /* there is no last one */
        return true;
    }
    const uint32_t last = static_cast<uint32_t>(packs_of(args.bytes)) - 1;
    const uint32_t index = threadIdx.x < last ? threadIdx.x : last;
    const uint32_t rank = args.rank;
    const pack own = message(args.send, args.bytes).load(index);
#pragma unroll 1
    for (uint32_t turn = 1; turn < args.nranks; turn++) {
        const uint32_t peer = rank + turn < args.nranks ? rank + turn : rank + turn - args.nranks;
        ll_area(args.peer[peer].lane, args.ll_plane).store(rank, index, own, args.peer[peer].epoch);
    }
    __syncwarp(); /* in place, all have read what is sent before anything is stored */
    waiter wait(args.status);
    pack result;
    if (!gather_and_reduce<Batch>(Op(args), args, index, own, wait, &result)) {
        return false;
    }
    message(args.recv, args.bytes).store(index, result);
    return true;
}

} // namespace gpucoll

#endif
