/*
 * Connections of relays (kernels/relay_abi.h): a CTA takes one piece from its sources, reduces it with the own part, and stores the outcome to its
 * targets and to the user's buffer. `carry` of a protocol is one loop for all the forms, from send to recv_reduce_copy_send: which operands
 * and results a step has is known only when it runs, so that there is one loop to compile for each protocol and suite. Here those
 * over LL and LL128; over Simple see kernels/connection_simple.cuh.
 *
 * The threads meet only where a slot is used again. A thread (a warp, in LL128) has the same packs of each piece of a
 * block, so what it reads of the user's buffer it has read before it writes there: in place is right.
 */
#ifndef GPUCOLL_KERNELS_CONNECTION_CUH
#define GPUCOLL_KERNELS_CONNECTION_CUH

#include "kernels/ll.cuh"
#include "kernels/ll128.cuh"
#include "kernels/reduce_ops.cuh"
#include "kernels/relay_abi.h"
#include "kernels/roles.cuh"
#include "kernels/simple.cuh"

namespace gpucoll {

/* What a CTA works on. */
struct relay_channel {
    const gpucoll_kernel_args &args;
    const gpucoll_relay_cut cut;
    waiter wait;
    bool failed; /* this thread gave a wait up: it goes to all barriers, and does nothing else any more */

    __device__ __forceinline__ explicit relay_channel(const gpucoll_kernel_args &args)
        : args(args), cut(gpucoll_relay_cut_of(args.relay_flow, args.relay_protocol, args.nranks, args.bytes, gridDim.x,
                                               args.data_bytes)),
          wait(args.status), failed(false)
    {
    }

    /* The slot of piece `number` over the connection to `receiver`. */
    template <uint32_t Protocol>
    __device__ __forceinline__ char *slot(uint32_t receiver, uint32_t end, uint32_t number) const
    {
        return static_cast<char *>(args.peer[receiver].lane) +
               gpucoll_relay_slot_offset(args.relay_flow, Protocol, blockIdx.x, end, number % GPUCOLL_RELAY_SLOTS,
                                         cut.slot_packs);
    }

    /* What the words of that piece carry. */
    __device__ __forceinline__ uint32_t epoch_of(uint32_t receiver, uint32_t number) const
    {
        return args.peer[receiver].epoch + number / GPUCOLL_RELAY_SLOTS;
    }

    __device__ __forceinline__ bool look_again(uint32_t peer)
    {
        failed = failed || !wait.again(args.peer[peer].number); /* again() asks the host now and then only: once is for good */
        return !failed;
    }

    /* This thread waits until the peer's flag has come to `count`. */
    __device__ __forceinline__ void wait_flag(uint32_t phase, uint32_t peer, uint32_t number)
    {
        (void)wait_for_flag(args, phase, peer, number, [&] { return look_again(peer); });
    }

    __device__ __forceinline__ posted_flag flag(uint32_t phase, uint32_t peer, uint32_t number) const
    {
        return {static_cast<uint64_t *>(args.peer[peer].lane) + gpucoll_flag_index(phase, blockIdx.x, args.rank),
                gpucoll_flag_value(args.peer[peer].epoch, number)};
    }

    /* Threads 0 and 1: are the slots free again that the step will use? To be followed by a barrier. */
    __device__ __forceinline__ void wait_credits(const gpucoll_relay_step &step)
    {
        if (threadIdx.x < step.targets && step.sent >= GPUCOLL_RELAY_SLOTS && !failed) {
            wait_flag(PHASE_RESULT, threadIdx.x == 0 ? step.to[0].peer : step.to[1].peer,
                      step.sent - GPUCOLL_RELAY_SLOTS);
        }
    }

    __device__ __forceinline__ bool owes_credits(const gpucoll_relay_step &step) const
    {
        return step.sources > 0 && step.received + GPUCOLL_RELAY_SLOTS < cut.total;
    }

    /* After a barrier, by threads 0 and 1. */
    __device__ __forceinline__ void give_credits(const gpucoll_relay_step &step) const
    {
        if (threadIdx.x < step.sources) {
            const posted_flag credit = flag(PHASE_RESULT, threadIdx.x == 0 ? step.from[0].peer : step.from[1].peer, step.received);
            fence_system(); /* after a barrier: all that the CTA has read */
            store_relaxed(credit.at, credit.value);
        }
    }
};

/* The user's part of a step: packs [begin, begin + length) of a block. */
struct relay_piece {
    message own;
    message user;
    uint64_t begin;
    uint32_t length;
};

/* The packs of a step, of the channel's share of its block. */
__device__ __forceinline__ relay_piece piece_of(const relay_channel &channel, const gpucoll_kernel_run &run, uint32_t piece)
{
    uint64_t begin, end;
    gpucoll_relay_range(run.send_bytes, gridDim.x, blockIdx.x, &begin, &end);
    const uint64_t at = begin + static_cast<uint64_t>(piece) * channel.cut.piece_packs;
    const uint64_t left = at < end ? end - at : 0;
    return {message(run.send, run.send_bytes), message(run.recv, run.send_bytes), at,
            static_cast<uint32_t>(left < channel.cut.piece_packs ? left : channel.cut.piece_packs)};
}

/* Next steps of a channel and what of the user's buffers belongs to them. */
struct relay_steps {
    const gpucoll_kernel_runs &runs;
    gpucoll_relay_walk walk;
    gpucoll_relay_step step;

    __device__ __forceinline__ relay_steps(const relay_channel &channel, const gpucoll_kernel_runs &runs)
        : runs(runs), walk(gpucoll_relay_begin(channel.args.relay_flow, channel.args.rank, channel.args.nranks, blockIdx.x,
                                               &channel.cut)),
          step() /* places of ends that a step does not have are looked up, too: they must be some rank's */
    {
    }

    /* False: there is none. */
    __device__ __forceinline__ bool next()
    {
        if (!gpucoll_relay_next(&walk, &step)) {
            return false;
        }
        const gpucoll_kernel_run &run = runs.run[step.block];
        step.writes = step.writes && (step.sources > 0 || run.send != run.recv);
        return true;
    }
};

/* With the operand that has come before, if any. */
template <typename Op> __device__ __forceinline__ pack fold(const Op &op, bool first, pack sum, pack value)
{
    return first ? value : reduce(op, sum, value);
}

/* ---- LL: two lines a pack, in two planes of the slot ---- */

struct over_ll {
    static constexpr uint32_t protocol = GPUCOLL_RELAY_LL;

    static __device__ __forceinline__ void store(const relay_channel &channel, const gpucoll_relay_end &to, uint32_t number,
                                                 uint32_t at, pack value)
    {
        const uint32_t epoch = channel.epoch_of(to.peer, number);
        char *const line = channel.slot<protocol>(to.peer, to.end, number) + static_cast<size_t>(at) * sizeof(words);
        store_words(line, ll_lines::line(value.x, value.y, epoch));
        store_words(line + static_cast<size_t>(channel.cut.slot_packs) * sizeof(words),
                    ll_lines::line(value.z, value.w, epoch));
    }

    static __device__ __forceinline__ pack receive(relay_channel &channel, const gpucoll_relay_end &from, uint32_t number,
                                                   uint32_t at)
    {
        const uint32_t rank = channel.args.rank;
        const uint32_t epoch = channel.epoch_of(rank, number);
        const char *const line = channel.slot<protocol>(rank, from.end, number) + static_cast<size_t>(at) * sizeof(words);
        const size_t plane = static_cast<size_t>(channel.cut.slot_packs) * sizeof(words);
        ll_lines lines = ll_lines::look(line, plane);
        while (!lines.complete(epoch) && channel.look_again(from.peer)) {
            lines = ll_lines::look(line, plane);
        }
        return lines.value();
    }

    /* False on all threads if a wait was given up; some threads may find that later than others. */
    template <typename Op>
    static __device__ __forceinline__ bool carry(relay_channel &channel, const gpucoll_relay_step &step,
                                                 const relay_piece &piece)
    {
        if (step.targets > 0 && step.sent >= GPUCOLL_RELAY_SLOTS) {
            channel.wait_credits(step);
            if (__syncthreads_or(channel.failed)) {
                return false;
            }
        }
        const Op op(channel.args.variant);
        for (uint32_t at = threadIdx.x; at < piece.length && !channel.failed; at += blockDim.x) {
            pack sum = make_uint4(0, 0, 0, 0);
#pragma unroll 1
            for (uint32_t k = 0; k < step.sources + (step.reads ? 1 : 0); k++) {
                const gpucoll_relay_end &from = k == 0 ? step.from[0] : step.from[1];
                const pack value = k >= step.sources ? piece.own.load(piece.begin + at)
                                                     : receive(channel, from, step.received, at);
                if (step.keeps && k > 0 && !channel.failed) {
                    piece.user.store(piece.begin + at, sum);
                }
                sum = fold(op, k == 0, sum, value);
            }
            if (channel.failed) {
                break;
            }
#pragma unroll 1
            for (uint32_t k = 0; k < step.targets; k++) {
                store(channel, k == 0 ? step.to[0] : step.to[1], step.sent, at, sum);
            }
            if (step.writes) {
                piece.user.store(piece.begin + at, sum);
            }
        }
        if (channel.owes_credits(step)) {
            if (__syncthreads_or(channel.failed)) {
                return false;
            }
            channel.give_credits(step);
        }
        return true;
    }
};

/* ---- LL128: seven packs a line, by eight threads ---- */

struct over_ll128 {
    static constexpr uint32_t protocol = GPUCOLL_RELAY_LL128;

    static __device__ __forceinline__ char *place(const relay_channel &channel, uint32_t receiver, uint32_t end,
                                                  uint32_t number, uint32_t line)
    {
        return channel.slot<protocol>(receiver, end, number) + static_cast<size_t>(line) * GPUCOLL_LINE_BYTES +
               line_thread() * GPUCOLL_PACK_BYTES;
    }

    /* By whole warps; threads with `present` false only keep step. All of a warp give up, or none. */
    static __device__ __forceinline__ pack receive(relay_channel &channel, const gpucoll_relay_end &from, uint32_t number,
                                                   uint32_t line, bool present)
    {
        const uint32_t rank = channel.args.rank;
        const uint32_t epoch = channel.epoch_of(rank, number);
        const char *const at = place(channel, rank, from.end, number, line);
        for (;;) {
            pack value = make_uint4(0, 0, 0, 0);
            __syncwarp();
            if (present) {
                value = load_line(at);
            }
            const bool missing = present && carries_epoch() && value.x != epoch;
            if (!__any_sync(whole_warp, missing)) {
                __syncwarp();
                return present ? load_line(at) : value; /* see ll128.cuh */
            }
            const bool on = !missing || channel.look_again(from.peer);
            if (!__all_sync(whole_warp, on)) {
                channel.failed = true;
                return value;
            }
        }
    }

    template <typename Op>
    static __device__ __forceinline__ void line(const Op &op, relay_channel &channel, const gpucoll_relay_step &step,
                                                const relay_piece &piece, uint32_t line, bool present)
    {
        const uint32_t at = line * GPUCOLL_LINE_PACKS + line_thread();
        const bool holds_data = present && !carries_epoch() && at < piece.length;
        pack sum = make_uint4(0, 0, 0, 0);
#pragma unroll 1
        for (uint32_t k = 0; k < step.sources + (step.reads ? 1 : 0); k++) {
            pack value = make_uint4(0, 0, 0, 0);
            if (k < step.sources) {
                value = receive(channel, k == 0 ? step.from[0] : step.from[1], step.received, line, present);
            } else if (holds_data) {
                value = piece.own.load(piece.begin + at);
            }
            if (step.keeps && k > 0 && holds_data && !channel.failed) {
                piece.user.store(piece.begin + at, sum);
            }
            sum = fold(op, k == 0, sum, value);
        }
        if (channel.failed) { /* all threads of the warp, or none */
            return;
        }
#pragma unroll 1
        for (uint32_t k = 0; k < step.targets; k++) {
            const gpucoll_relay_end &to = k == 0 ? step.to[0] : step.to[1];
            store_line(place(channel, to.peer, to.end, step.sent, line), sum, channel.epoch_of(to.peer, step.sent), present);
        }
        if (step.writes && holds_data) {
            piece.user.store(piece.begin + at, sum);
        }
    }

    /* As over_ll. */
    template <typename Op>
    static __device__ __forceinline__ bool carry(relay_channel &channel, const gpucoll_relay_step &step,
                                                 const relay_piece &piece)
    {
        if (step.targets > 0 && step.sent >= GPUCOLL_RELAY_SLOTS) {
            channel.wait_credits(step);
            if (__syncthreads_or(channel.failed)) {
                return false;
            }
        }
        const uint32_t lines = (piece.length + GPUCOLL_LINE_PACKS - 1) / GPUCOLL_LINE_PACKS;
        const uint32_t end = whole_warps(lines);
        const Op op(channel.args.variant);
        for (uint32_t next = threadIdx.x / line_threads; next < end && !channel.failed; next += blockDim.x / line_threads) {
            line(op, channel, step, piece, next, next < lines);
        }
        if (channel.owes_credits(step)) {
            if (__syncthreads_or(channel.failed)) {
                return false;
            }
            channel.give_credits(step);
        }
        return true;
    }
};

} // namespace gpucoll

#endif
