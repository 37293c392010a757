/*
 * Exchanges: every rank stores a run of bytes for each peer into that peer's lane, and takes what the peers
 * have stored into its own: copies it to where it belongs, or reduces it in rank order. All collectives but
 * all-reduce are exchanges; kernel_abi.h says what a run is. Run[p] of one rank has the length of run[rank]
 * of p, but runs of different pairs differ, and some are empty.
 *
 * LL: one pass. A place that is read and written (kernel_abi.h) is so by one thread, which has read the pack
 * for the last time before it writes it: when moving, a thread has the same packs of a run to send and to
 * receive; when reducing, it has the same packs of all runs.
 *
 * Warps stay whole, which is faster (docs/design-protocols.md, "Whole warps").
 */
#ifndef GPUCOLL_KERNELS_EXCHANGE_CUH
#define GPUCOLL_KERNELS_EXCHANGE_CUH

#include "kernels/exchange_ll128.cuh"
#include "kernels/exchange_simple.cuh"
#include "kernels/laid.cuh"
#include "kernels/linger.cuh"
#include "kernels/ll_reduce.cuh"
#include "kernels/reduce_blocks.cuh"
#include "kernels/reduce_bulk.cuh"

namespace gpucoll
{

/* The turn that an item of the packs of all peers' runs belongs to. A division takes some hundred cycles, and with one peer says nothing. */
__device__ __forceinline__ uint32_t turn_of(const gpucoll_kernel_args &args, uint32_t item, uint32_t packs)
{
    return args.nranks == 2 ? 0 : item / packs;
}

/* The ends of runs that have no layouts, and what a rank keeps for itself. (With layouts: laid.cuh.) */
struct plain_runs {
    static __device__ __forceinline__ pack load(const gpucoll_kernel_runs &runs, uint32_t peer, uint64_t index)
    {
        return message(runs.run[peer].send, runs.run[peer].send_bytes).load(index);
    }

    class place {
      public:
        __device__ __forceinline__ place(const gpucoll_kernel_runs &runs, uint32_t peer, uint64_t index)
            : run_(runs.run[peer]), index_(index)
        {
        }

        __device__ __forceinline__ void store(pack value) const
        {
            message(run_.recv, run_.recv_bytes).store(index_, value);
        }

      private:
        const gpucoll_kernel_run &run_;
        const uint64_t index_;
    };

    static __device__ __forceinline__ void keep(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs, crew_share share, pack_share,
                                                uint32_t)
    {
        copy_own(args, runs, share);
    }
};

/* False if the wait was given up. */
template <typename Runs>
__device__ __forceinline__ bool move_ll(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs,
                                        crew_share share, pack_share mine)
{
    const uint32_t packs = static_cast<uint32_t>(packs_of(args.bytes));
    const uint32_t items =
        (args.nranks - 1) * packs; /* packs of all peers' runs, as if all were of full length */
    for (uint32_t item = mine.begin; any_of_warp(item, items); item = mine.next(item)) {
        const uint32_t own = own_or_last(item, items);
        const uint32_t turn = turn_of(args, own, packs);
        const uint32_t index = own - turn * packs;
        const uint32_t peer = rank_after(args, turn);
        const gpucoll_kernel_run &run = runs.run[peer];
        if (item < items && index < packs_of(run.send_bytes)) {
            const pack value = Runs::load(runs, peer, index);
            ll_area(args.peer[peer].lane, args.ll_plane).store(args.rank, index, value, args.peer[peer].epoch);
        }
    }
    __syncwarp(); /* in place, all have read what is sent before anything is received */
    Runs::keep(args, runs, share, mine, items);
    const ll_area inbox(args.peer[args.rank].lane, args.ll_plane);
    const uint32_t epoch = args.peer[args.rank].epoch;
    waiter wait(args.status);
    for (uint32_t item = mine.begin; any_of_warp(item, items); item = mine.next(item)) {
        const uint32_t own = own_or_last(item, items);
        const uint32_t turn = turn_of(args, own, packs);
        const uint32_t index = own - turn * packs;
        const uint32_t source = rank_after(args, turn);
        const gpucoll_kernel_run &run = runs.run[source];
        const bool wanted = index < packs_of(run.recv_bytes);
        const typename Runs::place to(runs, source, wanted ? index : 0);
        ll_lines lines;
        for (;;) {
            lines = inbox.look(source, index);
            const bool there = !wanted || lines.complete(epoch);
            if (__all_sync(whole_warp, there)) {
                break;
            }
            const bool on = there || wait.again(source);
            if (!__all_sync(whole_warp, on)) {
                return false;
            }
        }
        if (wanted) {
            to.store(lines.value());
        }
    }
    return true;
}

/* Pack `index` of what is sent to each peer. */
template <uint32_t Peers>
__device__ __forceinline__ void send_lines(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs,
                                           uint32_t index)
{
    for (uint32_t first = 0; first + 1 < args.nranks; first += Peers) {
        pack value[Peers];
        uint32_t sent = 0; /* the turns that have such a pack, a bit each */
#pragma unroll
        for (uint32_t i = 0; i < Peers; i++) {
            if (first + i + 1 < args.nranks) {
                const gpucoll_kernel_run &run = runs.run[rank_after(args, first + i)];
                if (index < packs_of(run.send_bytes)) {
                    value[i] = message(run.send, run.send_bytes).load(index);
                    sent |= 1u << i;
                }
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < Peers; i++) {
            if ((sent >> i & 1) != 0) {
                const gpucoll_kernel_peer &peer = args.peer[rank_after(args, first + i)];
                ll_area(peer.lane, args.ll_plane).store(args.rank, index, value[i], peer.epoch);
            }
        }
    }
}

/* False if the wait was given up. */
template <uint32_t Batch, typename Op>
__device__ __forceinline__ bool reduce_ll_by(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs,
                                             pack_share share)
{
    const gpucoll_kernel_run &mine = runs.run[args.rank];
    const message send(mine.send, mine.send_bytes);
    const message recv(mine.recv, mine.recv_bytes);
    const uint32_t sources = sources_of(args, runs);
    const uint32_t packs = static_cast<uint32_t>(packs_of(args.bytes));
    const uint32_t taken = static_cast<uint32_t>(packs_of(mine.recv_bytes));
    for (uint32_t index = share.begin; any_of_warp(index, packs); index = share.next(index)) {
        send_lines<Batch - 1>(args, runs, index);
    }
    __syncwarp(); /* in place, all have read what is sent before anything is received */
    waiter wait(args.status);
    const Op op(args.variant);
    for (uint32_t index = share.begin; any_of_warp(index, taken); index = share.next(index)) {
        const uint32_t at = own_or_last(index, taken);
        const pack own = is_in(sources, args.rank) ? send.load(at) : make_uint4(0, 0, 0, 0);
        pack result;
        if (!reduce_lines<Batch>(op, args, args.ll_plane, sources, at, own, wait, &result)) {
            return false;
        }
        recv.store(at, result);
    }
    return true;
}

/* False if the wait was given up. */
template <typename Op>
__device__ __forceinline__ bool reduce_ll(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs, pack_share share)
{
    return args.nranks == 2 ? reduce_ll_by<2, Op>(args, runs, share) : reduce_ll_by<ll_batch, Op>(args, runs, share);
}

/* The calls of a kernel that lingers (linger.cuh). */
struct exchange_calls {
    static constexpr uint32_t rows = GPUCOLL_BELL_RUN_ROWS;
    static constexpr bool reaches_peers = false;
    using bell = bell_by_copies<rows>;

    static __device__ __forceinline__ bool is_small(uint32_t kernel, uint64_t bytes, uint32_t nranks,
                                                    uint32_t threads)
    {
        return gpucoll_leader_suffices(kernel, bytes, nranks, threads);
    }
};

struct move_calls : exchange_calls {
    static __device__ __forceinline__ bool run_by_warp(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs)
    {
        return move_ll<plain_runs>(args, runs, crew_share{0, 1}, pack_of_lane());
    }

    static __device__ __forceinline__ bool run(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs,
                                               crew_share share)
    {
        return args.kernel == GPUCOLL_KERNEL_MOVE_LL ? move_ll<plain_runs>(args, runs, share, packs_of_share(share)) : move_ll128(args, runs, share);
    }
};

/* Of runs that have layouts: by whole CTAs, of which other warps look for what the rank keeps while the first look for what it sends. */
struct laid_calls : whole_cta_calls {
    static constexpr uint32_t rows = GPUCOLL_BELL_LAYOUT_ROWS;
    static constexpr bool reaches_peers = false;
    using bell = bell_by_copies<rows>;

    static __device__ __forceinline__ bool run(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs,
                                               crew_share share)
    {
        return move_ll<laid_runs>(args, runs, share, packs_of_share(share));
    }
};

template <typename Op> struct reduce_calls : exchange_calls {
    static __device__ __forceinline__ bool run_by_warp(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs)
    {
        return reduce_ll<Op>(args, runs, pack_of_lane());
    }

    static __device__ __forceinline__ bool run(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs,
                                               crew_share share)
    {
        return args.kernel == GPUCOLL_KERNEL_REDUCE_LL ? reduce_ll<Op>(args, runs, packs_of_share(share))
                                                       : reduce_ll128<Op>(args, runs, share);
    }
};

template <typename Op>
__device__ __forceinline__ void exchange_and_reduce(const gpucoll_kernel_args &args,
                                                    const gpucoll_kernel_runs &runs)
{
    if (pass_gate(args)) {
        finish(args, !exchange_simple<reducing<Op>>(args, runs));
    }
}

__device__ __forceinline__ void exchange_and_move(const gpucoll_kernel_args &args,
                                                  const gpucoll_kernel_runs &runs)
{
    if (pass_gate(args)) {
        finish(args, !exchange_simple<moving>(args, runs));
    }
}

} // namespace gpucoll

#define GPUCOLL_EXCHANGE_OF(name, op, element)                                                               \
    extern "C" __global__ void __launch_bounds__(GPUCOLL_MAX_THREADS) gpucoll_exchange_lines_##name(         \
        const __grid_constant__ gpucoll_kernel_args args, const __grid_constant__ gpucoll_kernel_runs runs)  \
    {                                                                                                        \
        gpucoll::crew_kernel<gpucoll::reduce_calls<gpucoll::op_##op<gpucoll::element>>>(args, &runs);       \
    }                                                                                                        \
    extern "C" __global__ void __launch_bounds__(GPUCOLL_MAX_THREADS) gpucoll_exchange_##name(               \
        const __grid_constant__ gpucoll_kernel_args args, const __grid_constant__ gpucoll_kernel_runs runs)  \
    {                                                                                                        \
        gpucoll::exchange_and_reduce<gpucoll::op_##op<gpucoll::element>>(args, runs);                        \
    }                                                                                                        \
    extern "C" __global__ void __launch_bounds__(GPUCOLL_MAX_THREADS)                                        \
        gpucoll_blocks_##name(const __grid_constant__ gpucoll_kernel_args args)                              \
    {                                                                                                        \
        gpucoll::reduce_blocks<gpucoll::op_##op<gpucoll::element>>(args);                                    \
    }                                                                                                        \
    extern "C" __global__ void __launch_bounds__(GPUCOLL_BULK_THREADS, 1) gpucoll_bulk_##name(               \
        const __grid_constant__ gpucoll_kernel_args args, const __grid_constant__ gpucoll_kernel_runs runs)  \
    {                                                                                                        \
        gpucoll::bulk_kernel<gpucoll::op_##op<gpucoll::element>>(args, runs);                                \
    }

#endif
