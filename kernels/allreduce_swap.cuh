/*
 * One-shot all-reduce of two ranks over LL128: each stores its whole message to the other and reduces both itself, in rank order, so that
 * both get the same bits. Between two ranks that is as many bytes as two-shot stores (allreduce_ll128.cuh), with one store latency
 * instead of two.
 *
 * There is one peer to wait for, so a thread works on several lines at once, a batch: their loads are in flight together. It sends some batches
 * ahead of the one that it waits for, so that the links are busy from the start and reducing goes on beside them. Nobody waits in a circle:
 * every warp of either rank sends and waits for its lines in ascending order, so whoever has not sent a line waits for a lower one.
 *
 * A pack of the user's buffers is read and written by one thread only, read for the last time first: in place is right. The peer alone stores
 * into the lane, so its lines have the LL128 area to themselves. A call has ended on a rank only when all of them have arrived.
 */
#ifndef GPUCOLL_KERNELS_ALLREDUCE_SWAP_CUH
#define GPUCOLL_KERNELS_ALLREDUCE_SWAP_CUH

#include "kernels/crew.cuh"
#include "kernels/ll128.cuh"
#include "kernels/reduce_ops.cuh"

namespace gpucoll {

constexpr uint32_t swap_batch = 4; /* lines */
constexpr uint32_t swap_ahead = 1; /* batches that are sent before the first is waited for */

class swap_call {
  public:
    __device__ __forceinline__ swap_call(const gpucoll_kernel_args &args, crew_share share)
        : args(args), peer(1 - args.rank), send(args.send, args.bytes), recv(args.recv, args.bytes),
          inbox{ll128_layout(args.nranks), args.peer[args.rank].lane, args.rank, args.nranks,
                args.peer[args.rank].epoch, waiter(args.status)},
          lines(static_cast<uint32_t>(gpucoll_ll128_lines(args.bytes, 1))),
          packs(static_cast<uint32_t>((args.bytes + GPUCOLL_PACK_BYTES - 1) / GPUCOLL_PACK_BYTES)),
          begin((share.cta * blockDim.x + threadIdx.x) / line_threads), step(share.ctas * blockDim.x / line_threads)
    {
    }

    /* Up to which line all packs of both buffers are aligned and whole, if any are. */
    __device__ __forceinline__ uint32_t plain_lines() const
    {
        const uint64_t fast = send.fast_end() < recv.fast_end() ? send.fast_end() : recv.fast_end();
        return fast == packs ? lines : static_cast<uint32_t>(fast) / GPUCOLL_LINE_PACKS;
    }

    /* This thread's pack of a line, of those below plain_lines if Plain. */
    template <bool Plain> __device__ __forceinline__ pack load(uint32_t line) const
    {
        if (!holds_data(line)) {
            return make_uint4(0, 0, 0, 0);
        }
        return Plain ? load_pack(send.at(pack_index(line))) : send.load(pack_index(line));
    }

    template <bool Plain> __device__ __forceinline__ void store(uint32_t line, pack value) const
    {
        if (!holds_data(line)) {
            return;
        }
        if (Plain) {
            store_pack(recv.at(pack_index(line)), value);
        } else {
            recv.store(pack_index(line), value);
        }
    }

    __device__ __forceinline__ void tell(uint32_t line, pack value) const
    {
        store_line(inbox.layout.at(args.peer[peer].lane, 0, 0, line), value, args.peer[peer].epoch);
    }

    const gpucoll_kernel_args &args;
    const uint32_t peer;
    const message send;
    const message recv;
    ll128_inbox inbox;
    const uint32_t lines;
    const uint32_t packs;
    const uint32_t begin; /* of the lines that this thread's line works on: every `step`-th */
    const uint32_t step;

  private:
    static __device__ __forceinline__ uint32_t pack_index(uint32_t line)
    {
        return line * GPUCOLL_LINE_PACKS + line_thread();
    }

    __device__ __forceinline__ bool holds_data(uint32_t line) const
    {
        return !carries_epoch() && pack_index(line) < packs;
    }
};

/* A batch: `Lines` lines from `line` on, of those below `end`. */
template <uint32_t Lines, bool Plain>
__device__ __forceinline__ void swap_send(const swap_call &call, uint32_t line, uint32_t end)
{
    pack value[Lines];
#pragma unroll
    for (uint32_t i = 0; i < Lines; i++) {
        const uint32_t at = line + i * call.step;
        value[i] = at < end ? call.load<Plain>(at) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (uint32_t i = 0; i < Lines; i++) {
        if (line + i * call.step < end) {
            call.tell(line + i * call.step, value[i]);
        }
    }
}

template <typename Op, uint32_t Lines, bool Plain>
__device__ __forceinline__ bool swap_reduce(swap_call &call, uint32_t line, uint32_t end)
{
    const bool first = call.args.rank == 0;
    pack own[Lines];
    pack other[Lines];
#pragma unroll
    for (uint32_t i = 0; i < Lines; i++) {
        const uint32_t at = line + i * call.step;
        own[i] = at < end ? call.load<Plain>(at) : make_uint4(0, 0, 0, 0);
    }
    if (!call.inbox.receive_lines(call.peer, line, call.step, end, other)) {
        return false;
    }
#pragma unroll
    for (uint32_t i = 0; i < Lines; i++) {
        const uint32_t at = line + i * call.step;
        const pack sum = reduce<Op>(first ? own[i] : other[i], first ? other[i] : own[i]);
        if (at < end) {
            call.store<Plain>(at, sum);
        }
    }
    return true;
}

/* The lines of this thread's warp from `line` on and below `end`. */
template <typename Op, uint32_t Lines, bool Plain>
__device__ __forceinline__ bool swap_lines(swap_call &call, uint32_t line, uint32_t end)
{
    const uint32_t batch = Lines * call.step;
    const uint32_t warps_end = (end + lines_per_warp - 1) / lines_per_warp * lines_per_warp; /* warps stay whole */
    uint32_t ahead = line;
    for (; line < warps_end; line += batch) {
        for (; ahead < warps_end && ahead <= line + swap_ahead * batch; ahead += batch) {
            swap_send<Lines, Plain>(call, ahead, end);
        }
        if (!swap_reduce<Op, Lines, Plain>(call, line, end)) {
            return false;
        }
    }
    return true;
}

/* False if a wait was given up. */
template <typename Op> __device__ __forceinline__ bool allreduce_swap(const gpucoll_kernel_args &args, crew_share share)
{
    swap_call call(args, share);
    const uint32_t plain = call.plain_lines();
    const uint32_t batched = plain == call.lines ? plain : plain / lines_per_warp * lines_per_warp;
    if (!swap_lines<Op, swap_batch, true>(call, call.begin, batched)) {
        return false;
    }
    uint32_t rest = call.begin;
    if (rest < batched) {
        rest += (batched - rest + call.step - 1) / call.step * call.step;
    }
    return batched == call.lines || swap_lines<Op, 1, false>(call, rest, call.lines);
}

} // namespace gpucoll

#endif
