/*
 * Two-shot all-reduce over LL128, by stores only: slice p of every message goes to rank p, which reduces its slice over all ranks
 * in rank order and stores the result to everyone (of a reduce, who has no receive buffer leaves it where it has arrived). No flags and no fences: two store latencies in all, for messages that fit
 * the LL128 area whole.
 *
 * The message is n slices of whole lines. Line i of every slice is handled by the same eight threads in all three steps, so a
 * pack of the user's buffers is read and written by one thread only, read first: in place is right. They send some lines ahead of the
 * one that they reduce, and then wait for what has become of one before; nobody waits in a circle, since a line is sent, and reduced, before
 * one of its number is waited for that needs it, and those in ascending order. A call has
 * ended on a rank only when every line that peers store into its lane has arrived, so the lane is then free for reuse.
 */
#ifndef GPUCOLL_KERNELS_ALLREDUCE_LL128_CUH
#define GPUCOLL_KERNELS_ALLREDUCE_LL128_CUH

#include "kernels/crew.cuh"
#include "kernels/ll128.cuh"
#include "kernels/reduce_ops.cuh"

namespace gpucoll {

constexpr uint32_t ll128_batch = 4;  /* lines of different ranks in flight together */
constexpr uint32_t ll128_ahead = 2;  /* lines of a thread's that are sent before the first is waited for */
constexpr uint32_t ll128_behind = 1; /* lines of a thread's that are reduced before what has become of the first is waited for */

enum { LL128_INPUT = 0, LL128_RESULT = 1 };

/* What is the same in all three steps. */
class ll128_call {
  public:
    __device__ __forceinline__ ll128_call(const gpucoll_kernel_args &args, crew_share share)
        : args(args), rank(args.rank), nranks(args.nranks), send(args.send, args.bytes), recv(args.recv, args.bytes),
          inbox{ll128_layout(nranks), args.peer[rank].lane, all_ranks(nranks) & ~(1u << rank), args.peer[rank].epoch,
                waiter(args.status)},
          lines(static_cast<uint32_t>(gpucoll_ll128_lines(args.bytes, nranks))),
          packs(static_cast<uint32_t>(packs_of(args.bytes))),
          begin(lines_of_share(share).begin), step(lines_of_share(share).step),
          end(whole_warps(lines))
    {
    }

    /* This thread's pack of line `line` in the slice of `rank`; may lie past the message. */
    __device__ __forceinline__ uint32_t pack_index(uint32_t slice, uint32_t line) const
    {
        return (slice * lines + line) * GPUCOLL_LINE_PACKS + line_thread();
    }

    __device__ __forceinline__ bool holds_data(uint32_t index) const
    {
        return !carries_epoch() && index < packs;
    }

    __device__ __forceinline__ pack load(uint32_t index) const
    {
        return holds_data(index) ? send.load(index) : make_uint4(0, 0, 0, 0);
    }

    __device__ __forceinline__ void store(uint32_t index, pack value) const
    {
        if (args.recv != nullptr && holds_data(index)) { /* of a reduce, only the root has a place for the result */
            recv.store(index, value);
        }
    }

    __device__ __forceinline__ uint32_t peer(uint32_t turn) const
    {
        return rank + turn < nranks ? rank + turn : rank + turn - nranks;
    }

    /* Stores this rank's line into the lane of `to`. */
    __device__ __forceinline__ void tell(uint32_t to, uint32_t part, uint32_t line, pack value, bool present) const
    {
        store_line(inbox.layout.at(args.peer[to].lane, part, rank, line), value, args.peer[to].epoch, present);
    }

    const gpucoll_kernel_args &args;
    const uint32_t rank;
    const uint32_t nranks;
    const message send;
    const message recv;
    ll128_inbox inbox;
    const uint32_t lines; /* of each slice */
    const uint32_t packs;
    /* The lines of each slice that this thread's warp works on: from `begin` by `step`, up to `end`, which is past `lines`
     * so that warps stay whole. */
    const uint32_t begin;
    const uint32_t step;
    const uint32_t end;
};

/* Line `line` of every peer's slice, to that peer. */
__device__ __forceinline__ void ll128_send(const ll128_call &call, uint32_t line)
{
    const bool present = line < call.lines;
    for (uint32_t first = 1; first < call.nranks; first += ll128_batch) {
        pack value[ll128_batch];
#pragma unroll
        for (uint32_t i = 0; i < ll128_batch; i++) {
            if (first + i < call.nranks) {
                value[i] = present ? call.load(call.pack_index(call.peer(first + i), line)) : make_uint4(0, 0, 0, 0);
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < ll128_batch; i++) {
            if (first + i < call.nranks) {
                call.tell(call.peer(first + i), LL128_INPUT, line, value[i], present);
            }
        }
    }
}

/* Line `line` of the own slice: reduced when it has come from all, and told to all. False if the wait was given up. */
template <typename Op>
__device__ __forceinline__ bool ll128_reduce(const Op &op, ll128_call &call, uint32_t line)
{
    const bool present = line < call.lines;
    const uint32_t index = call.pack_index(call.rank, line);
    const pack own = present ? call.load(index) : make_uint4(0, 0, 0, 0);
    pack sum = own;
    for (uint32_t first = 0; first < call.nranks; first += ll128_batch) {
        pack value[ll128_batch];
        if (!call.inbox.receive(LL128_INPUT, first, line, present, value)) {
            return false;
        }
#pragma unroll
        for (uint32_t i = 0; i < ll128_batch; i++) {
            if (first + i < call.nranks) {
                const pack term = first + i == call.rank ? own : value[i];
                sum = first + i == 0 ? term : reduce(op, sum, term);
            }
        }
    }
    for (uint32_t turn = 1; turn < call.nranks; turn++) {
        call.tell(call.peer(turn), LL128_RESULT, line, sum, present);
    }
    if (present) {
        call.store(index, sum);
    }
    return true;
}

/* Line `line` of every peer's slice, reduced there. False if the wait was given up. */
__device__ __forceinline__ bool ll128_gather(ll128_call &call, uint32_t line)
{
    const bool present = line < call.lines;
    for (uint32_t first = 0; first < call.nranks; first += ll128_batch) {
        pack value[ll128_batch];
        if (!call.inbox.receive(LL128_RESULT, first, line, present, value)) {
            return false;
        }
#pragma unroll
        for (uint32_t i = 0; i < ll128_batch; i++) {
            if (present && first + i < call.nranks && first + i != call.rank) {
                call.store(call.pack_index(first + i, line), value[i]);
            }
        }
    }
    return true;
}

/* False if a wait was given up. */
template <typename Op> __device__ __forceinline__ bool allreduce_ll128(const gpucoll_kernel_args &args, crew_share share)
{
    ll128_call call(args, share);
    const Op op(args.variant);
    uint32_t ahead = call.begin;
    uint32_t gathered = call.begin;
    for (uint32_t line = call.begin; gathered < call.end; line += call.step) {
        for (; ahead < call.end && ahead <= line + ll128_ahead * call.step; ahead += call.step) {
            ll128_send(call, ahead);
        }
        if (line < call.end && !ll128_reduce(op, call, line)) {
            return false;
        }
        if (line >= gathered + ll128_behind * call.step) {
            if (!ll128_gather(call, gathered)) {
                return false;
            }
            gathered += call.step;
        }
    }
    return true;
}

} // namespace gpucoll

#endif
