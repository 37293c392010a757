/*
 * One-shot all-reduce over LL: every rank stores its whole message to every peer and reduces all messages itself, in rank
 * order on every rank, so that all get the same bits. One store latency in all.
 *
 * A thread sends all its packs before it waits for the first, so that the packs of a peer travel while others are waited for. It
 * has read a pack of `send` for the last time before it writes that pack of `recv`, and no thread of another warp touches
 * either: in place is right. (Threads past the end have the last pack, too, but send none: crew.cuh, ll_reduce.cuh.)
 */
#ifndef GPUCOLL_KERNELS_ALLREDUCE_ONESHOT_CUH
#define GPUCOLL_KERNELS_ALLREDUCE_ONESHOT_CUH

#include "kernels/crew.cuh"
#include "kernels/ll_reduce.cuh"

namespace gpucoll {

__device__ __forceinline__ void send_to_peers(const gpucoll_kernel_args &args, uint32_t index, pack value, bool wanted)
{
#pragma unroll 1
    for (uint32_t turn = 0; turn + 1 < args.nranks; turn++) {
        const gpucoll_kernel_peer &peer = args.peer[rank_after(args, turn)];
        ll_area(peer.lane, args.ll_plane).store_if(wanted, args.rank, index, value, peer.epoch);
    }
}

/* False if the wait was given up. */
template <uint32_t Batch, typename Op>
__device__ __forceinline__ bool allreduce_oneshot_by(const gpucoll_kernel_args &args, pack_share share)
{
    const message send(args.send, args.bytes);
    const message recv(args.recv, args.bytes);
    const uint32_t packs = static_cast<uint32_t>(packs_of(args.bytes));
    pack first = make_uint4(0, 0, 0, 0); /* kept: small messages have no other */
    for (uint32_t index = share.begin; any_of_warp(index, packs); index = share.next(index)) {
        const uint32_t at = own_or_last(index, packs);
        const pack own = send.load(at);
        first = index == share.begin ? own : first;
        send_to_peers(args, at, own, index < packs);
    }
    waiter wait(args.status);
    const Op op(args.variant);
    for (uint32_t index = share.begin; any_of_warp(index, packs); index = share.next(index)) {
        const uint32_t at = own_or_last(index, packs);
        pack result;
        if (!reduce_lines<Batch>(op, args, all_ranks(args.nranks), at, index == share.begin ? first : send.load(at), wait, &result)) {
            return false;
        }
        recv.store(at, result);
    }
    return true;
}

/* False if the wait was given up. */
template <typename Op> __device__ __forceinline__ bool allreduce_oneshot(const gpucoll_kernel_args &args, pack_share share)
{
    return args.nranks == 2 ? allreduce_oneshot_by<2, Op>(args, share) : allreduce_oneshot_by<ll_batch, Op>(args, share);
}

} // namespace gpucoll

#endif
