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

/* Peers whose lines are loaded together. */
constexpr uint32_t oneshot_batch = 4;

/* One pack of every rank, reduced. False if the wait was given up. */
template <typename Op>
__device__ __forceinline__ bool gather_and_reduce(const Op &op, const ll_area &inbox, uint32_t rank, uint32_t nranks, uint32_t epoch,
                                                  uint64_t index, pack own, waiter &wait, pack *result)
{
    pack sum = own;
    for (uint32_t first = 0; first < nranks; first += oneshot_batch) {
        ll_area::lines lines[oneshot_batch];
        for (;;) {
#pragma unroll
            for (uint32_t i = 0; i < oneshot_batch; i++) {
                if (first + i < nranks && first + i != rank) {
                    lines[i] = inbox.look(first + i, index);
                }
            }
            uint32_t missing = nranks;
#pragma unroll
            for (uint32_t i = 0; i < oneshot_batch; i++) {
                if (first + i < nranks && first + i != rank && !lines[i].complete(epoch)) {
                    missing = first + i;
                }
            }
            if (missing == nranks) {
                break;
            }
            if (!wait.again(missing)) {
                return false;
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < oneshot_batch; i++) {
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
            ll_area(args.peer[peer].lane, nranks).store(rank, index, own, args.peer[peer].epoch);
        }
    }
    const ll_area inbox(args.peer[rank].lane, nranks);
    const uint32_t epoch = args.peer[rank].epoch;
    waiter wait(args.status);
    const Op op(args);
    for (uint64_t index = start; index < packs; index += stride) {
        const pack own = index == start ? first : send.load(index);
        pack result;
        if (!gather_and_reduce(op, inbox, rank, nranks, epoch, index, own, wait, &result)) {
            return false;
        }
        recv.store(index, result);
    }
    return true;
}

} // namespace gpucoll

#endif
