/*
 * One-shot all-reduce over LL: every rank stores its whole message to every peer and reduces all messages itself, in rank
 * order on every rank, so that all get the same bits. One store latency in all.
 *
 * A thread sends all its packs before it waits for the first, so that the packs of a peer travel while others are waited for. It
 * has read a pack of `send` for the last time before it writes that pack of `recv`, and no thread of another warp touches
 * either: in place is right. (Threads past the end have the last pack, too, but send none: crew.cuh, ll_reduce.cuh.)
 *
 * A call that is rung for early (core/early.h) may never be made by all ranks. So nothing is stored into `recv` before every thread has all that it
 * waits for, which shows that all ranks have begun; and if that takes longer than the kernel would wait for a call, it ends as if it had not heard it.
 */
#ifndef GPUCOLL_KERNELS_ALLREDUCE_ONESHOT_CUH
#define GPUCOLL_KERNELS_ALLREDUCE_ONESHOT_CUH

#include "kernels/crew.cuh"
#include "kernels/ll_reduce.cuh"

namespace gpucoll {

__device__ __forceinline__ void send_to_peers(const gpucoll_kernel_args &args, uint32_t plane, uint32_t index, pack value, bool wanted)
{
#pragma unroll 1
    for (uint32_t turn = 0; turn + 1 < args.nranks; turn++) {
        const gpucoll_kernel_peer &peer = args.peer[rank_after(args, turn)];
        ll_area(peer.lane, plane).store_if(wanted, args.rank, index, value, peer.epoch);
    }
}

/* False if the wait was given up. */
template <uint32_t Batch, typename Op>
__device__ __forceinline__ bool allreduce_oneshot_by(const gpucoll_kernel_args &args, pack_share share)
{
    const message send(args.send, args.bytes);
    const message recv(args.recv, args.bytes);
    const uint32_t packs = static_cast<uint32_t>(packs_of(args.bytes));
    const uint32_t plane = gpucoll_oneshot_plane(args.bytes, args.ll_plane);
    const bool sends = (args.stages & GPUCOLL_STAGE_SEND) != 0;
    pack first = make_uint4(0, 0, 0, 0); /* kept: small messages have no other */
    for (uint32_t index = share.begin; any_of_warp(index, packs); index = share.next(index)) {
        const uint32_t at = own_or_last(index, packs);
        const pack own = send.load(at);
        first = index == share.begin ? own : first;
        send_to_peers(args, plane, at, own, sends && index < packs);
    }
    waiter wait(args.status);
    const Op op(args.variant);
    for (uint32_t index = share.begin; any_of_warp(index, packs); index = share.next(index)) {
        const uint32_t at = own_or_last(index, packs);
        pack result;
        if (!reduce_lines<Batch>(op, args, plane, all_ranks(args.nranks), at, index == share.begin ? first : send.load(at), wait,
                                 &result)) {
            return false;
        }
        recv.store(at, result);
    }
    return true;
}

__device__ __forceinline__ bool is_early(const gpucoll_kernel_args &args)
{
    return args.kernel == GPUCOLL_KERNEL_ONESHOT_EARLY;
}

/* A call of no more packs than threads that share it, early or not: a warp, or a CTA, whose threads `agree(x)` tells whether x is true of all. False, and
 * nothing stored, if the wait of one was given up. */
template <uint32_t Batch, typename Op, typename Agree>
__device__ __forceinline__ bool allreduce_oneshot_at_once_by(const gpucoll_kernel_args &args, Agree agree)
{
    const uint32_t packs = static_cast<uint32_t>(packs_of(args.bytes));
    const uint32_t at = own_or_last(threadIdx.x, packs);
    const bool has_part = any_of_warp(threadIdx.x, packs);
    pack result;
    bool good = true;
    if (has_part) {
        const uint32_t plane = gpucoll_oneshot_plane(args.bytes, args.ll_plane);
        const pack own = message(args.send, args.bytes).load(at);
        send_to_peers(args, plane, at, own, threadIdx.x < packs);
        waiter wait(args.status, is_early(args) ? args.linger_clocks : waiter::no_limit);
        good = reduce_lines<Batch>(Op(args.variant), args, plane, all_ranks(args.nranks), at, own, wait, &result);
    }
    if (!agree(good)) {
        if (is_early(args) && threadIdx.x == 0) {
            store_relaxed(&args.status->sent, args.done_value);
        }
        return false;
    }
    if (has_part) {
        message(args.recv, args.bytes).store(at, result);
    }
    return true;
}

template <typename Op, typename Agree>
__device__ __forceinline__ bool allreduce_oneshot_at_once(const gpucoll_kernel_args &args, Agree agree)
{
    return args.nranks == 2 ? allreduce_oneshot_at_once_by<2, Op>(args, agree) : allreduce_oneshot_at_once_by<ll_batch, Op>(args, agree);
}

/* False if the wait was given up. */
template <typename Op> __device__ __forceinline__ bool allreduce_oneshot(const gpucoll_kernel_args &args, pack_share share)
{
    return args.nranks == 2 ? allreduce_oneshot_by<2, Op>(args, share) : allreduce_oneshot_by<ll_batch, Op>(args, share);
}

} // namespace gpucoll

#endif
