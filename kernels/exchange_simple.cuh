/*
 * An exchange over Simple. A channel (CTA) has its share of the packs of every run, and cuts each share into
 * rounds of one block; a short run has fewer rounds than a long one, an empty run has none. Round r uses slot
 * r % 2. Two flags for a pair, both of them only for rounds that the pair has:
 *
 *   input    source to receiver: the block of this round is there
 *   credit   receiver to source, where an all-reduce has results: the block of this round has been taken;
 * only for rounds that are followed by another in the same slot
 *
 * The order of the steps is the same on every rank: send(0), send(1), then for each k: take(k), send(k + 2).
 *   - send(k + 2) overwrites what a peer reads in its take(k): it waits for the peer's credit of round k,
 * which the peer gives after that.
 *   - Nobody waits for what comes later in this order: take(k) waits for the peers' send(k), send(k + 2) for
 * the peers' take(k), both of which are earlier steps. So there is no cycle, whoever has runs for whom.
 *   - When a kernel has finished, nothing of this call can still be on its way to its lane: it has waited for
 * every input that a peer sends it, and a credit is given only to who waits for it.
 *
 * In place (kernel_abi.h): packs are sent in the round in which they are received, by the same CTA, and sent
 * before.
 *
 * Stages launched one by one behave as if the flags had been waited for: barriers of the hosts stand in for
 * them.
 */
#ifndef GPUCOLL_KERNELS_EXCHANGE_SIMPLE_CUH
#define GPUCOLL_KERNELS_EXCHANGE_SIMPLE_CUH

#include "kernels/crew.cuh"
#include "kernels/ranks.cuh"
#include "kernels/reduce_ops.cuh"
#include "kernels/simple.cuh"

namespace gpucoll
{

constexpr uint32_t exchange_unroll = 8; /* packs that a thread has in flight while it moves */
constexpr uint32_t source_batch = 4;    /* and while it reduces */

/* What a CTA works on. */
class exchange_view
{
  public:
    /* The packs of one run in one round of the channel. */
    struct piece {
        uint64_t begin;
        uint32_t length;
    };

    __device__ __forceinline__ explicit exchange_view(const gpucoll_kernel_args &args)
        : args_(args), block_(gpucoll_exchange_block_bytes(args.data_bytes, args.nranks, gridDim.x)),
          first_block_(
              gpucoll_exchange_block_offset(args.data_bytes, args.nranks, gridDim.x, blockIdx.x, 0, 0))
    {
    }

    __device__ __forceinline__ uint64_t rounds(uint64_t bytes) const
    {
        uint64_t begin, end;
        gpucoll_channel_range(bytes, gridDim.x, blockIdx.x, &begin, &end);
        const uint64_t most = block_ / GPUCOLL_PACK_BYTES;
        return (end - begin + most - 1) / most;
    }

    __device__ __forceinline__ piece of_round(uint64_t bytes, uint64_t round) const
    {
        uint64_t begin, end;
        gpucoll_channel_range(bytes, gridDim.x, blockIdx.x, &begin, &end);
        const uint64_t most = block_ / GPUCOLL_PACK_BYTES;
        const uint64_t at = begin + round * most;
        const uint64_t left = at < end ? end - at : 0;
        return {at, static_cast<uint32_t>(left < most ? left : most)};
    }

    /* The block for `source` in the lane of `owner`. */
    __device__ __forceinline__ char *block(uint32_t owner, uint64_t round, uint32_t source) const
    {
        const uint32_t index = static_cast<uint32_t>(round % GPUCOLL_SLOTS) * args_.nranks + source;
        return static_cast<char *>(args_.peer[owner].lane) + first_block_ + index * block_;
    }

    /* Peers in the order in which this channel serves them: each rank and each channel starts elsewhere. */
    __device__ __forceinline__ uint32_t peer(uint32_t turn) const
    {
        return rank_after(args_, (turn + blockIdx.x) % (args_.nranks - 1));
    }

  private:
    const gpucoll_kernel_args &args_;
    size_t block_;       /* bytes */
    size_t first_block_; /* where the channel's blocks start in a lane */
};

/* Packs [begin, begin + length) of the user's run to or from a block. */
template <bool Sending>
__device__ __forceinline__ void move_piece(const message &user, exchange_view::piece piece, char *inside)
{
    const uint64_t end = user.fast_end();
    const uint64_t left = end > piece.begin ? end - piece.begin : 0;
    const uint32_t fast = left < piece.length ? static_cast<uint32_t>(left) : piece.length;
    char *const outside = user.at(piece.begin);
    const char *const from = Sending ? outside : inside;
    char *const to = Sending ? inside : outside;
    for (uint32_t first = threadIdx.x; first < fast; first += exchange_unroll * blockDim.x) {
        pack value[exchange_unroll];
#pragma unroll
        for (uint32_t i = 0; i < exchange_unroll; i++) {
            const uint32_t at = first + i * blockDim.x;
            if (at < fast) {
                value[i] = load_pack(from + static_cast<size_t>(at) * GPUCOLL_PACK_BYTES);
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < exchange_unroll; i++) {
            const uint32_t at = first + i * blockDim.x;
            if (at < fast) {
                store_pack(to + static_cast<size_t>(at) * GPUCOLL_PACK_BYTES, value[i]);
            }
        }
    }
    for (uint32_t at = fast + threadIdx.x; at < piece.length; at += blockDim.x) {
        char *const place = inside + static_cast<size_t>(at) * GPUCOLL_PACK_BYTES;
        if (Sending) {
            store_pack(place, user.load(piece.begin + at));
        } else {
            user.store(piece.begin + at, load_pack(place));
        }
    }
}

/* A CTA's share of a run, straight from one user's buffer to another. */
__device__ __forceinline__ void store_run(const void *from, void *to, uint64_t bytes, crew_share share)
{
    const message send(from, bytes);
    const message recv(to, bytes);
    uint64_t begin, end;
    gpucoll_channel_range(bytes, share.ctas, share.cta, &begin, &end);
    uint64_t fast = send.fast_end() < recv.fast_end() ? send.fast_end() : recv.fast_end();
    fast = fast < begin ? begin : fast < end ? fast : end;
    for (uint64_t first = begin + threadIdx.x; first < fast; first += exchange_unroll * blockDim.x) {
        pack value[exchange_unroll];
#pragma unroll
        for (uint32_t i = 0; i < exchange_unroll; i++) {
            if (first + i * blockDim.x < fast) {
                value[i] = load_pack(send.at(first + i * blockDim.x));
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < exchange_unroll; i++) {
            if (first + i * blockDim.x < fast) {
                store_pack(recv.at(first + i * blockDim.x), value[i]);
            }
        }
    }
    for (uint64_t at = fast + threadIdx.x; at < end; at += blockDim.x) {
        recv.store(at, send.load(at));
    }
}

/* The own run, which goes nowhere else. */
__device__ __forceinline__ void copy_own(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs,
                                         crew_share share)
{
    const gpucoll_kernel_run &run = runs.run[args.rank];
    if (run.send != run.recv && run.recv_bytes > 0) {
        store_run(run.send, run.recv, run.recv_bytes, share);
    }
}

/* What is done with what has arrived, and whether that may go into the buffer of a peer, as of a reduction for a root. */
struct moving {
    static constexpr bool reaches_peers = false;

    static __device__ __forceinline__ void begin(const gpucoll_kernel_args &args,
                                                 const gpucoll_kernel_runs &runs)
    {
        copy_own(args, runs, share_of_grid());
    }

    static __device__ __forceinline__ void take(const gpucoll_kernel_args &args,
                                                const gpucoll_kernel_runs &runs, const exchange_view &channel,
                                                uint64_t round)
    {
        for (uint32_t turn = 0; turn + 1 < args.nranks; turn++) {
            const uint32_t source = channel.peer(turn);
            const gpucoll_kernel_run &run = runs.run[source];
            move_piece<false>(message(run.recv, run.recv_bytes), channel.of_round(run.recv_bytes, round),
                              channel.block(args.rank, round, source));
        }
    }
};

template <typename Op> struct reducing {
    static constexpr bool reaches_peers = true;

    static __device__ __forceinline__ void begin(const gpucoll_kernel_args &, const gpucoll_kernel_runs &)
    {
    }

    static __device__ __forceinline__ void take(const gpucoll_kernel_args &args,
                                                const gpucoll_kernel_runs &runs, const exchange_view &channel,
                                                uint64_t round)
    {
        const uint32_t sources = sources_of(args, runs);
        const gpucoll_kernel_run &mine = runs.run[args.rank];
        const message send(mine.send, mine.send_bytes);
        const message recv(mine.recv, mine.recv_bytes);
        const exchange_view::piece piece = channel.of_round(mine.recv_bytes, round);
        const Op op(args.variant);
        for (uint32_t at = threadIdx.x; at < piece.length; at += blockDim.x) {
            const pack own = is_in(sources, args.rank) ? send.load(piece.begin + at) : make_uint4(0, 0, 0, 0);
            pack sum = own;
            bool any = false;
            for (uint32_t first = 0; first < args.nranks; first += source_batch) {
                pack value[source_batch];
#pragma unroll
                for (uint32_t i = 0; i < source_batch; i++) {
                    value[i] = own;
                    if (is_in(sources, first + i) && first + i != args.rank) {
                        const char *const block = channel.block(args.rank, round, first + i);
                        value[i] = load_pack(block + static_cast<size_t>(at) * GPUCOLL_PACK_BYTES);
                    }
                }
#pragma unroll
                for (uint32_t i = 0; i < source_batch; i++) {
                    if (is_in(sources, first + i)) {
                        sum = any ? reduce(op, sum, value[i]) : value[i];
                        any = true;
                    }
                }
            }
            recv.store(piece.begin + at, sum);
        }
    }
};

__device__ __forceinline__ void send_round(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs,
                                           const exchange_view &channel, uint64_t round)
{
    for (uint32_t turn = 0; turn + 1 < args.nranks; turn++) {
        const uint32_t peer = channel.peer(turn);
        const gpucoll_kernel_run &run = runs.run[peer];
        move_piece<true>(message(run.send, run.send_bytes), channel.of_round(run.send_bytes, round),
                         channel.block(peer, round, args.rank));
    }
}

/* False if a wait was given up. */
template <typename What>
__device__ __forceinline__ bool exchange_simple(const gpucoll_kernel_args &args,
                                                const gpucoll_kernel_runs &runs)
{
    const exchange_view channel(args);
    const bool whole = args.stages == GPUCOLL_STAGE_ALL;
    const uint64_t all = channel.rounds(args.bytes);
    const uint64_t begin = args.round_begin;
    const uint64_t end = args.round_end < all ? args.round_end : all;
    uint64_t sends = 0; /* rounds of the runs between this rank and the one that this thread looks after */
    uint64_t takes = 0;
    if (threadIdx.x < args.nranks && threadIdx.x != args.rank) {
        sends = channel.rounds(runs.run[threadIdx.x].send_bytes);
        takes = channel.rounds(runs.run[threadIdx.x].recv_bytes);
    }
    const bool asks = What::reaches_peers && whole && threadIdx.x == args.rank; /* this thread waits for nobody */
    const uint32_t given_up = asks ? ask_whether_given_up(args.status) : 0;
    for (uint64_t next = begin; next < end + GPUCOLL_SLOTS; next++) {
        if (next >= begin + GPUCOLL_SLOTS) {
            const uint64_t index = next - GPUCOLL_SLOTS;
            if (whole && !wait_for_peers(args, PHASE_INPUT, index, index < takes, given_up != 0)) {
                return false;
            }
            if (args.stages & GPUCOLL_STAGE_REDUCE) {
                What::take(args, runs, channel, index);
            }
            if (whole) {
                signal_peers(args, PHASE_RESULT, index, next < takes);
            }
        }
        if (next < end) {
            if (whole && next >= GPUCOLL_SLOTS &&
                !wait_for_peers(args, PHASE_RESULT, next - GPUCOLL_SLOTS, next < sends)) {
                return false;
            }
            if (args.stages & GPUCOLL_STAGE_SEND) {
                send_round(args, runs, channel, next);
            }
            if (whole) {
                signal_peers(args, PHASE_INPUT, next, next < sends);
            }
        }
        if (next == 0 && (args.stages & GPUCOLL_STAGE_SEND)) {
            What::begin(args, runs);
        }
    }
    return true;
}

} // namespace gpucoll

#endif
