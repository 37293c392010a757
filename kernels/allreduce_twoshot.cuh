/*
 * Two-shot all-reduce by stores only (push), over the Simple protocol. A channel (CTA) cuts its packs into rounds and each round
 * into one slice a rank:
 *
 *   SEND    store slice p into the input block that rank p keeps for us
 *   REDUCE  reduce the own slice over the inputs of all ranks, in rank order; store it to recv and into the result block
 *           that every peer keeps for us
 *   COPY    copy the peers' slices from our result blocks to recv
 *
 * Round r uses slot r % 2. There are no credits; the order of the steps, the same on every rank, makes reuse safe:
 * send(0), send(1), then for each k: reduce(k), copy(k), send(k + 2).
 *   - send(k + 2) overwrites what a peer reads in its reduce(k). Before it, our copy(k) has waited for the peer's result flag
 *     of round k, which the peer raises after its reduce(k).
 *   - reduce(k + 2) overwrites what a peer reads in its copy(k). Before it, we have waited for the peer's input flag of round
 *     k + 2, which the peer raises after its send(k + 2), which follows its copy(k).
 *   - The last rounds are overwritten by no later round; the next call's lane is free only when this kernel has finished, which
 *     is when its last copy has seen every peer's last store.
 * Nobody waits for what comes later in this order, so there is no cycle.
 *
 * In place: a slice of a round is written (reduce, copy) after the same CTA has read it (send, or reduce itself); other rounds
 * and other CTAs touch other packs.
 *
 * Direct: the reduced slice goes to where it belongs in the buffers of all ranks, so there is nothing to COPY, and the blocks of results serve as
 * slots of input: four, of which a rank fills three before it reduces the first round. So it waits for what its peers did a round ago.
 *   - send(k + 4) overwrites what a peer reads in its reduce(k). Before it, we wait for the peer's result flag of round k.
 *   - A peer's result of a slice of round k overwrites, in place, what we have read in our send(k), which it has waited for.
 *
 * Stages launched one by one behave as if the flags had been waited for: barriers of the hosts stand in for them.
 */
#ifndef GPUCOLL_KERNELS_ALLREDUCE_TWOSHOT_CUH
#define GPUCOLL_KERNELS_ALLREDUCE_TWOSHOT_CUH

#include "kernels/ranks.cuh"
#include "kernels/reduce_ops.cuh"
#include "kernels/roles.cuh"
#include "kernels/simple.cuh"

namespace gpucoll {

constexpr uint32_t move_unroll = 8;   /* packs a thread has in flight while it sends or copies */
constexpr uint32_t reduce_unroll = 2; /* packs a thread reduces together, each with reduce_batch loads in flight */
constexpr uint32_t reduce_batch = 4;

/* One round of one channel: packs [begin, begin + length) of the message; rank p's slice starts at pack p * each of it. */
struct round_view {
    uint64_t begin;
    uint32_t length;
    uint32_t each;
    uint32_t input; /* which of a channel's 2 * GPUCOLL_SLOTS sets of blocks take the inputs, */
    uint32_t result; /* and which the results */

    /* How many of the round's packs, from its first, are aligned and whole. */
    __device__ __forceinline__ uint32_t fast_length(const message &user) const
    {
        const uint64_t end = user.fast_end();
        return end <= begin ? 0 : end - begin < length ? static_cast<uint32_t>(end - begin) : length;
    }
};

/* What a CTA works on. */
class channel_view {
  public:
    /* `depth`: slots of input; `service`: threads that do not move data, the first ones. */
    __device__ __forceinline__ channel_view(const gpucoll_kernel_args &args, uint32_t depth, uint32_t service)
        : args_(args), depth_(depth), service_(service), block_(gpucoll_block_bytes(args.data_bytes, args.nranks, gridDim.x))
    {
        first_block_ = gpucoll_block_offset(args.data_bytes, args.nranks, gridDim.x, blockIdx.x, 0, 0, 0);
        gpucoll_channel_range(args.bytes, gridDim.x, blockIdx.x, &begin_, &end_);
        const uint64_t most = args.nranks * (block_ / GPUCOLL_PACK_BYTES); /* packs of one round */
        const uint64_t packs = end_ - begin_;
        rounds_ = (packs + most - 1) / most;
        per_round_ = rounds_ == 0 ? 0 : (packs + rounds_ - 1) / rounds_;
    }

    /* Of those that move data: this one, and how many. */
    __device__ __forceinline__ uint32_t thread() const
    {
        return threadIdx.x - service_;
    }

    __device__ __forceinline__ uint32_t threads() const
    {
        return blockDim.x - service_;
    }

    __device__ __forceinline__ uint64_t rounds() const
    {
        return rounds_;
    }

    __device__ __forceinline__ round_view round(uint64_t index) const
    {
        const uint64_t at = begin_ + index * per_round_;
        const uint64_t begin = at < end_ ? at : end_;
        const uint64_t left = end_ - begin;
        const uint32_t length = static_cast<uint32_t>(left < per_round_ ? left : per_round_);
        const uint32_t slot = static_cast<uint32_t>(index % depth_);
        const uint32_t parts = 2 * GPUCOLL_SLOTS / depth_; /* of a slot */
        return {begin, length, (length + args_.nranks - 1) / args_.nranks, slot * parts + PART_INPUT, slot * parts + PART_RESULT};
    }

    /* The block for `source` in the lane of `owner`, of a set that a round_view names. */
    __device__ __forceinline__ char *block(uint32_t owner, uint32_t set, uint32_t source) const
    {
        const uint32_t index = set * args_.nranks + source;
        return static_cast<char *>(args_.peer[owner].lane) + first_block_ + index * block_;
    }

    /* Peers in the order in which this channel serves them: each rank and each channel starts elsewhere. */
    __device__ __forceinline__ uint32_t first_turn() const
    {
        return args_.nranks > 1 ? blockIdx.x % (args_.nranks - 1) : 0;
    }

    __device__ __forceinline__ uint32_t next_turn(uint32_t turn) const
    {
        return turn + 2 < args_.nranks ? turn + 1 : 0;
    }

    __device__ __forceinline__ uint32_t peer(uint32_t turn) const
    {
        return rank_after(args_, turn);
    }

  private:
    const gpucoll_kernel_args &args_;
    uint32_t depth_;
    uint32_t service_;
    size_t block_; /* bytes */
    size_t first_block_; /* where the channel's blocks start in a lane */
    uint64_t begin_, end_;
    uint64_t rounds_;
    uint64_t per_round_;
};

/* SEND (from the user's buffer into peers' lanes) and COPY (from the own lane to the user's buffer): the packs of all peers'
 * slices, one of each peer in turn so that all links are busy, with move_unroll loads in flight whatever the number of peers. */
template <bool Sending>
__device__ __forceinline__ void move_slices(const gpucoll_kernel_args &args, const channel_view &channel,
                                            const round_view &round, const message &user)
{
    const auto block = [&](uint32_t peer) {
        return Sending ? channel.block(peer, round.input, args.rank) : channel.block(args.rank, round.result, peer);
    };
    const uint32_t fast = round.fast_length(user);
    const uint32_t columns = (round.each + channel.threads() - 1) / channel.threads();
    const uint32_t steps = fast == 0 ? 0 : columns * (args.nranks - 1);
    char *const base = user.at(round.begin);
    uint32_t turn = channel.first_turn();
    uint32_t offset = channel.thread(); /* in the slice */
    for (uint32_t step = 0; step < steps; step += move_unroll) {
        pack value[move_unroll];
        char *to[move_unroll];
#pragma unroll
        for (uint32_t i = 0; i < move_unroll; i++) {
            const uint32_t peer = channel.peer(turn);
            const uint32_t at = peer * round.each + offset;
            to[i] = nullptr;
            if (step + i < steps && offset < round.each && at < fast) {
                char *const outside = base + static_cast<size_t>(at) * GPUCOLL_PACK_BYTES;
                char *const inside = block(peer) + static_cast<size_t>(offset) * GPUCOLL_PACK_BYTES;
                value[i] = load_pack(Sending ? outside : inside);
                to[i] = Sending ? inside : outside;
            }
            turn = channel.next_turn(turn);
            offset += turn == channel.first_turn() ? channel.threads() : 0;
        }
#pragma unroll
        for (uint32_t i = 0; i < move_unroll; i++) {
            if (to[i] != nullptr) {
                store_pack(to[i], value[i]);
            }
        }
    }
    for (uint32_t at = fast + channel.thread(); at < round.length; at += channel.threads()) {
        const uint32_t peer = at / round.each;
        if (peer != args.rank) {
            char *const inside = block(peer) + static_cast<size_t>(at - peer * round.each) * GPUCOLL_PACK_BYTES;
            if (Sending) {
                store_pack(inside, user.load(round.begin + at));
            } else {
                user.store(round.begin + at, load_pack(inside));
            }
        }
    }
}

/* Reduces `Count` packs of the own slice, at `offset`, `offset` + channel.threads(), ..., as far as they are below `limit`, and gives them to
 * `store(peer, at, result)` for each peer. `sum` brings the own packs and takes the results. */
template <typename Op, uint32_t Count, typename Store>
__device__ __forceinline__ void reduce_packs(const Op &op, const gpucoll_kernel_args &args, const channel_view &channel, uint32_t input,
                                             uint32_t offset, uint32_t limit, pack (&sum)[Count], const Store &store)
{
    pack own[Count];
#pragma unroll
    for (uint32_t k = 0; k < Count; k++) {
        own[k] = sum[k];
    }
    for (uint32_t first = 0; first < args.nranks; first += reduce_batch) {
        pack value[reduce_batch][Count];
#pragma unroll
        for (uint32_t i = 0; i < reduce_batch; i++) {
            const char *const from = channel.block(args.rank, input, first + i);
#pragma unroll
            for (uint32_t k = 0; k < Count; k++) {
                const uint32_t at = offset + k * channel.threads();
                value[i][k] = own[k];
                if (first + i < args.nranks && first + i != args.rank && at < limit) {
                    value[i][k] = load_pack(from + static_cast<size_t>(at) * GPUCOLL_PACK_BYTES);
                }
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < reduce_batch; i++) {
            if (first + i < args.nranks) {
#pragma unroll
                for (uint32_t k = 0; k < Count; k++) {
                    sum[k] = first + i == 0 ? value[i][k] : reduce(op, sum[k], value[i][k]);
                }
            }
        }
    }
    uint32_t turn = channel.first_turn();
#pragma unroll 1
    for (uint32_t i = 1; i < args.nranks; i++, turn = channel.next_turn(turn)) {
        const uint32_t peer = channel.peer(turn);
#pragma unroll
        for (uint32_t k = 0; k < Count; k++) {
            const uint32_t at = offset + k * channel.threads();
            if (at < limit) {
                store(peer, at, sum[k]);
            }
        }
    }
}

/* Where the results for peers go, those of the own slice of a round, which begins at pack `begin` of the message: into their blocks, */
struct results_in_blocks {
    const gpucoll_kernel_args &args;
    const channel_view &channel;

    __device__ __forceinline__ char *at(const round_view &round, uint32_t peer, uint64_t) const
    {
        return channel.block(peer, round.result, args.rank);
    }

    /* The pack `offset` of it, which may be the message's last, and cut short. */
    __device__ __forceinline__ void store_any(const round_view &round, uint32_t peer, uint64_t begin, uint32_t offset, pack value) const
    {
        store_pack(at(round, peer, begin) + static_cast<size_t>(offset) * GPUCOLL_PACK_BYTES, value);
    }
};

/* or to where they belong. */
struct results_in_place {
    const gpucoll_kernel_args &args;
    const gpucoll_kernel_runs &runs;

    __device__ __forceinline__ char *at(const round_view &, uint32_t peer, uint64_t begin) const
    {
        return static_cast<char *>(runs.run[peer].recv) + begin * GPUCOLL_PACK_BYTES;
    }

    __device__ __forceinline__ void store_any(const round_view &, uint32_t peer, uint64_t begin, uint32_t offset, pack value) const
    {
        message(runs.run[peer].recv, args.bytes).store(begin + offset, value);
    }
};

template <typename Op, typename Results>
__device__ __forceinline__ void reduce_slice(const gpucoll_kernel_args &args, const channel_view &channel,
                                             const round_view &round, const message &send, const message &recv,
                                             const Results &results)
{
    const uint32_t start = args.rank * round.each; /* of the slice in the round */
    if (start >= round.length) {
        return;
    }
    const uint32_t left = round.length - start;
    const uint32_t length = left < round.each ? left : round.each;
    const uint32_t from_send = round.fast_length(send);
    const uint32_t from_recv = round.fast_length(recv);
    const uint32_t both = from_send < from_recv ? from_send : from_recv;
    const uint32_t fast = both <= start ? 0 : both - start < length ? both - start : length;
    const uint64_t begin = round.begin + start;
    const auto store = [&](uint32_t peer, uint32_t at, pack value) {
        store_pack(results.at(round, peer, begin) + static_cast<size_t>(at) * GPUCOLL_PACK_BYTES, value);
    };
    const auto store_any = [&](uint32_t peer, uint32_t at, pack value) { results.store_any(round, peer, begin, at, value); };

    const Op op(args.variant);
    for (uint32_t offset = channel.thread(); offset < fast; offset += reduce_unroll * channel.threads()) {
        pack sum[reduce_unroll];
#pragma unroll
        for (uint32_t k = 0; k < reduce_unroll; k++) {
            const uint32_t at = offset + k * channel.threads();
            sum[k] = make_uint4(0, 0, 0, 0);
            if (at < fast) {
                sum[k] = load_pack(send.at(begin + at));
            }
        }
        reduce_packs(op, args, channel, round.input, offset, fast, sum, store);
#pragma unroll
        for (uint32_t k = 0; k < reduce_unroll; k++) {
            const uint32_t at = offset + k * channel.threads();
            if (at < fast) {
                store_pack(recv.at(begin + at), sum[k]);
            }
        }
    }
    for (uint32_t offset = fast + channel.thread(); offset < length; offset += channel.threads()) {
        pack sum[1] = {send.load(begin + offset)};
        reduce_packs(op, args, channel, round.input, offset, length, sum, store_any);
        recv.store(begin + offset, sum[0]);
    }
}

template <typename Op> __device__ __forceinline__ void allreduce_twoshot(const gpucoll_kernel_args &args)
{
    const message send(args.send, args.bytes);
    const message recv(args.recv, args.bytes);
    const channel_view channel(args, GPUCOLL_SLOTS, 0);
    const bool whole = args.stages == GPUCOLL_STAGE_ALL;
    const uint64_t begin = args.round_begin;
    const uint64_t end = args.round_end < channel.rounds() ? args.round_end : channel.rounds();

    bool failed = false;
    for (uint64_t next = begin; begin < end && next < end + GPUCOLL_SLOTS; next++) {
        if (next >= begin + GPUCOLL_SLOTS) {
            const uint64_t index = next - GPUCOLL_SLOTS;
            const round_view round = channel.round(index);
            if (whole && !wait_for_peers(args, PHASE_INPUT, index)) {
                failed = true;
                break;
            }
            if (args.stages & GPUCOLL_STAGE_REDUCE) {
                reduce_slice<Op>(args, channel, round, send, recv, results_in_blocks{args, channel});
            }
            if (whole) {
                signal_peers(args, PHASE_RESULT, index);
                if (!wait_for_peers(args, PHASE_RESULT, index)) {
                    failed = true;
                    break;
                }
            }
            if (args.stages & GPUCOLL_STAGE_COPY) {
                move_slices<false>(args, channel, round, recv);
            }
        }
        if (next < end) {
            if (args.stages & GPUCOLL_STAGE_SEND) {
                move_slices<true>(args, channel, channel.round(next), send);
            }
            if (whole) {
                signal_peers(args, PHASE_INPUT, next);
            }
        }
    }
    finish(args, failed);
}

/* Of the direct form, for kernels/roles.cuh: three rounds are sent, then by turns one is reduced and another one sent. */
template <typename Op> class direct_steps {
  public:
    __device__ __forceinline__ direct_steps(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs)
        : args_(args), runs_(runs), channel_(args, depth, GPUCOLL_SERVICE_THREADS), send_(args.send, args.bytes),
          recv_(args.recv, args.bytes), wait_(args.status), turn_(0), sends_(true), index_(0), reduces_(false)
    {
    }

    __device__ __forceinline__ uint64_t rounds() const
    {
        return channel_.rounds();
    }

    __device__ __forceinline__ bool next()
    {
        while (rounds() > 0 && turn_ < rounds() + ahead) {
            reduces_ = !sends_ && turn_ >= ahead;
            const bool sends = sends_ && turn_ < rounds();
            index_ = reduces_ ? turn_ - ahead : turn_;
            turn_ += sends_ ? 1 : 0; /* in a turn a round is reduced, then one is sent */
            sends_ = !sends_;
            if (reduces_ || sends) {
                return true;
            }
        }
        return false;
    }

    /* Each lane for a peer: its input, or that it has reduced what is in the slot. */
    __device__ __forceinline__ bool wait()
    {
        const uint32_t peer = threadIdx.x;
        if (peer >= args_.nranks || peer == args_.rank || (!reduces_ && index_ < depth)) {
            return true;
        }
        return wait_for_peer(args_, wait_, reduces_ ? PHASE_INPUT : PHASE_RESULT, peer, reduces_ ? index_ : index_ - depth);
    }

    __device__ __forceinline__ posted_flag flag() const
    {
        const uint32_t peer = threadIdx.x % warp_threads;
        if (peer >= args_.nranks || peer == args_.rank) {
            return {nullptr, 0};
        }
        return {static_cast<uint64_t *>(args_.peer[peer].lane) +
                    gpucoll_flag_index(reduces_ ? PHASE_RESULT : PHASE_INPUT, blockIdx.x, args_.rank),
                gpucoll_flag_value(args_.peer[peer].epoch, index_)};
    }

    __device__ __forceinline__ void move() const
    {
        if (reduces_) {
            reduce_slice<Op>(args_, channel_, channel_.round(index_), send_, recv_, results_in_place{args_, runs_});
        } else {
            move_slices<true>(args_, channel_, channel_.round(index_), send_);
        }
    }

  private:
    static constexpr uint32_t depth = 2 * GPUCOLL_SLOTS;
    static constexpr uint32_t ahead = depth - 1; /* rounds that are sent before the first is reduced */

    const gpucoll_kernel_args &args_;
    const gpucoll_kernel_runs &runs_;
    const channel_view channel_;
    const message send_;
    const message recv_;
    waiter wait_;
    uint64_t turn_;
    bool sends_; /* the next step of the turn, if it has one, is to send */
    uint64_t index_;
    bool reduces_;
};

template <typename Op>
__device__ __forceinline__ void allreduce_twoshot_direct(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs)
{
    direct_steps<Op> steps(args, runs);
    const uint64_t rounds = steps.rounds();
    const bool good = run_in_roles(steps);
    /* The own buffer is complete when the peers' last results are there. */
    finish(args, !good || (rounds > 0 && !wait_for_peers(args, PHASE_RESULT, rounds - 1)));
}

} // namespace gpucoll

#endif
