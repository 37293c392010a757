/*
 * Connections of relays over Simple: slots of memory, a fence and a flag for each piece, waited for and raised by warps of their own
 * (kernels/roles.cuh).
 */
#ifndef GPUCOLL_KERNELS_CONNECTION_SIMPLE_CUH
#define GPUCOLL_KERNELS_CONNECTION_SIMPLE_CUH

#include "kernels/connection.cuh"
#include "kernels/roles.cuh"

namespace gpucoll {

struct over_simple {
    static constexpr uint32_t protocol = GPUCOLL_RELAY_SIMPLE;
    static constexpr uint32_t unroll = 4; /* packs that a thread has in flight */

    static __device__ __forceinline__ uint32_t mover()
    {
        return threadIdx.x - GPUCOLL_SERVICE_THREADS;
    }

    static __device__ __forceinline__ uint32_t movers()
    {
        return blockDim.x - GPUCOLL_SERVICE_THREADS;
    }

    /* Those below `fast` of what the thread takes from `start` on. */
    static __device__ __forceinline__ void load_packs(pack (&value)[unroll], const char *from, uint32_t start, uint32_t fast)
    {
#pragma unroll
        for (uint32_t i = 0; i < unroll; i++) {
            const uint32_t at = start + i * movers();
            value[i] = at < fast ? load_pack(from + static_cast<size_t>(at) * GPUCOLL_PACK_BYTES)
                                 : make_uint4(0, 0, 0, 0);
        }
    }

    static __device__ __forceinline__ void store_packs(char *to, const pack (&value)[unroll], uint32_t start, uint32_t fast)
    {
#pragma unroll
        for (uint32_t i = 0; i < unroll; i++) {
            const uint32_t at = start + i * movers();
            if (at < fast) {
                store_pack(to + static_cast<size_t>(at) * GPUCOLL_PACK_BYTES, value[i]);
            }
        }
    }

    /* The loads of two operands are on their way together; a third one, which only trees have, comes after them. */
    template <typename Op>
    static __device__ __forceinline__ void fast_packs(const Op &op, const relay_channel &channel, const gpucoll_relay_step &step,
                                                      const relay_piece &piece, uint32_t fast)
    {
        const uint32_t operands = step.sources + (step.reads ? 1 : 0);
        const uint32_t results = step.targets + (step.writes ? 1 : 0);
        const uint32_t rank = channel.args.rank;
        const char *const own = piece.own.at(piece.begin);
        const char *const operand[3] = {
            step.sources > 0 ? channel.slot<protocol>(rank, step.from[0].end, step.received) : own,
            step.sources > 1 ? channel.slot<protocol>(rank, step.from[1].end, step.received) : own, own};
        char *const target[2] = {channel.slot<protocol>(step.to[0].peer, step.to[0].end, step.sent),
                                 channel.slot<protocol>(step.to[1].peer, step.to[1].end, step.sent)};
        for (uint32_t start = mover(); start < fast; start += unroll * movers()) {
            pack sum[unroll];
            pack value[unroll];
            load_packs(sum, operand[0], start, fast);
            if (operands > 1) {
                load_packs(value, operand[1], start, fast);
            }
#pragma unroll 1
            for (uint32_t k = 1; k < operands; k++) {
                if (k > 1) {
                    load_packs(value, operand[2], start, fast);
                }
#pragma unroll
                for (uint32_t i = 0; i < unroll; i++) {
                    sum[i] = reduce(op, sum[i], value[i]);
                }
            }
#pragma unroll 1
            for (uint32_t k = 0; k < results; k++) {
                char *const to = k >= step.targets ? piece.user.at(piece.begin) : k == 0 ? target[0] : target[1];
                store_packs(to, sum, start, fast);
            }
        }
    }

    /* What came, as it is: once more from the slot, since all forms of a step would pay for the registers of a result beside the outcome.
     * After the thread has read its own packs, in whose place they may come. */
    static __device__ __forceinline__ void keep_packs(const relay_channel &channel, const gpucoll_relay_step &step,
                                                      const relay_piece &piece, uint32_t fast)
    {
        const char *const source = channel.slot<protocol>(channel.args.rank, step.from[0].end, step.received);
        for (uint32_t start = mover(); start < fast; start += unroll * movers()) {
            pack value[unroll];
            load_packs(value, source, start, fast);
            store_packs(piece.user.at(piece.begin), value, start, fast);
        }
    }

    /* The packs from `first` on, of which the user's may be unaligned or cut short. */
    template <typename Op>
    static __device__ __forceinline__ void slow_packs(const Op &op, const relay_channel &channel, const gpucoll_relay_step &step,
                                                      const relay_piece &piece, uint32_t first)
    {
        for (uint32_t at = first + mover(); at < piece.length; at += movers()) {
            const size_t place = static_cast<size_t>(at) * GPUCOLL_PACK_BYTES;
            pack sum = make_uint4(0, 0, 0, 0);
#pragma unroll 1
            for (uint32_t k = 0; k < step.sources + (step.reads ? 1 : 0); k++) {
                const gpucoll_relay_end &from = k == 0 ? step.from[0] : step.from[1];
                const pack value = k >= step.sources
                                       ? piece.own.load(piece.begin + at)
                                       : load_pack(channel.slot<protocol>(channel.args.rank, from.end, step.received) + place);
                if (step.keeps && k > 0) {
                    piece.user.store(piece.begin + at, sum);
                }
                sum = fold(op, k == 0, sum, value);
            }
#pragma unroll 1
            for (uint32_t k = 0; k < step.targets; k++) {
                const gpucoll_relay_end &to = k == 0 ? step.to[0] : step.to[1];
                store_pack(channel.slot<protocol>(to.peer, to.end, step.sent) + place, sum);
            }
            if (step.writes) {
                piece.user.store(piece.begin + at, sum);
            }
        }
    }

    static __device__ __forceinline__ uint32_t fast_length(const relay_piece &piece, const gpucoll_relay_step &step)
    {
        uint64_t end = piece.begin + piece.length;
        end = step.reads && piece.own.fast_end() < end ? piece.own.fast_end() : end;
        end = (step.writes || step.keeps) && piece.user.fast_end() < end ? piece.user.fast_end() : end;
        return end > piece.begin ? static_cast<uint32_t>(end - piece.begin) : 0;
    }
};

/* Of a channel, for kernels/roles.cuh. */
template <typename Op> struct simple_steps {
    relay_channel channel;
    relay_steps steps;

    __device__ __forceinline__ simple_steps(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs)
        : channel(args), steps(channel, runs)
    {
    }

    __device__ __forceinline__ bool next()
    {
        return steps.next();
    }

    /* Lanes 0 and 1 wait for slots of the targets, lanes 2 and 3 for pieces of the sources. */
    __device__ __forceinline__ bool wait()
    {
        const gpucoll_relay_step &step = steps.step;
        const uint32_t lane = threadIdx.x % warp_threads;
        if (lane < 2) {
            if (lane < step.targets && step.sent >= GPUCOLL_RELAY_SLOTS) {
                channel.wait_flag(PHASE_RESULT, lane == 0 ? step.to[0].peer : step.to[1].peer, step.sent - GPUCOLL_RELAY_SLOTS);
            }
        } else if (lane - 2 < step.sources) {
            channel.wait_flag(PHASE_INPUT, lane == 2 ? step.from[0].peer : step.from[1].peer, step.received);
        }
        return !channel.failed;
    }

    /* Lanes 0 and 1 tell the targets of the piece, lanes 2 and 3 give the sources credits. */
    __device__ __forceinline__ posted_flag flag() const
    {
        const gpucoll_relay_step &step = steps.step;
        const uint32_t lane = threadIdx.x % warp_threads;
        if (lane < 2) {
            return lane < step.targets ? channel.flag(PHASE_INPUT, lane == 0 ? step.to[0].peer : step.to[1].peer, step.sent)
                                       : posted_flag{nullptr, 0};
        }
        return lane - 2 < step.sources && channel.owes_credits(step)
                   ? channel.flag(PHASE_RESULT, lane == 2 ? step.from[0].peer : step.from[1].peer, step.received)
                   : posted_flag{nullptr, 0};
    }

    __device__ __forceinline__ void move() const
    {
        const relay_piece piece = piece_of(channel, steps.runs.run[steps.step.block], steps.step.piece);
        const uint32_t fast = over_simple::fast_length(piece, steps.step);
        const Op op(channel.args.variant);
        over_simple::fast_packs(op, channel, steps.step, piece, fast);
        if (steps.step.keeps) {
            over_simple::keep_packs(channel, steps.step, piece, fast);
        }
        over_simple::slow_packs(op, channel, steps.step, piece, fast);
    }
};

/* False on all threads if a wait was given up. */
template <typename Op>
__device__ __forceinline__ bool relay_over_simple(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs)
{
    simple_steps<Op> steps(args, runs);
    return run_in_roles(steps);
}

} // namespace gpucoll

#endif
