/*
 * What two ranks have for each other, over LL128: each stores a message to the other, and takes what comes from there line by line.
 *
 * There is one peer to wait for, so a thread works on several lines at once, a batch: their loads are in flight together. It sends some batches
 * ahead of the one that it waits for, so that the links are busy from the start and taking goes on beside them. Nobody waits in a circle:
 * of either rank the same threads, one warp, send and take a line, both in ascending order, and a line is sent before one of its
 * number or above is waited for; so of two such warps that wait for each other one waits for a line that has been sent.
 *
 * Lines with packs that are not aligned or not whole come last, and one at a time: what loads those is called, and costs a batch its registers.
 */
#ifndef GPUCOLL_KERNELS_LINE_STREAM_CUH
#define GPUCOLL_KERNELS_LINE_STREAM_CUH

#include "kernels/ll128.cuh"

namespace gpucoll
{

constexpr uint32_t stream_batch = 4; /* lines */
constexpr uint32_t stream_ahead = 1; /* batches that are sent before the first is waited for */
constexpr uint32_t no_line = 0xffffffffu;

/* A user's buffer as lines. */
class line_message
{
  public:
    __device__ __forceinline__ line_message(const void *base, uint64_t bytes)
        : lines(static_cast<uint32_t>(gpucoll_ll128_lines(bytes, 1))), message_(base, bytes),
          packs_(static_cast<uint32_t>(packs_of(bytes)))
    {
    }

    /* Below this all lines have aligned, whole packs only; no_line if all have. */
    __device__ __forceinline__ uint32_t plain() const
    {
        const uint32_t fast = static_cast<uint32_t>(message_.fast_end());
        return fast == packs_ ? no_line : fast / GPUCOLL_LINE_PACKS;
    }

    /* This thread's pack of a line, Plain: of one below plain(). */
    template <bool Plain> __device__ __forceinline__ pack load(uint32_t line) const
    {
        if (!holds_data(line)) {
            return make_uint4(0, 0, 0, 0);
        }
        return Plain ? load_pack(message_.at(index(line))) : message_.load(index(line));
    }

    template <bool Plain> __device__ __forceinline__ void store(uint32_t line, pack value) const
    {
        if (!holds_data(line)) {
            return;
        }
        if (Plain) {
            store_pack(message_.at(index(line)), value);
        } else {
            message_.store(index(line), value);
        }
    }

    const uint32_t lines;

  private:
    static __device__ __forceinline__ uint32_t index(uint32_t line)
    {
        return line * GPUCOLL_LINE_PACKS + line_thread();
    }

    __device__ __forceinline__ bool holds_data(uint32_t line) const
    {
        return !carries_epoch() && index(line) < packs_;
    }

    const message message_;
    const uint32_t packs_;
};

struct line_stream {
    __device__ __forceinline__ line_stream(const gpucoll_kernel_args &args, uint32_t peer,
                                           const line_message &send, const line_message &recv,
                                           line_share share)
        : send(send), recv(recv), share(share), peer(peer), to_epoch(args.peer[peer].epoch),
          epoch(args.peer[args.rank].epoch),
          to(ll128_layout(args.nranks)
                 .at(args.peer[peer].lane, 0, gpucoll_ll128_run_place(args.nranks, args.rank), 0)),
          from(ll128_layout(args.nranks)
                   .at(args.peer[args.rank].lane, 0, gpucoll_ll128_run_place(args.nranks, peer), 0)),
          wait(args.status)
    {
    }

    /* A batch: `Lines` lines from `line` on, of those below `end`. */
    template <uint32_t Lines, bool Plain>
    __device__ __forceinline__ void send_batch(uint32_t line, uint32_t end) const
    {
        pack value[Lines];
#pragma unroll
        for (uint32_t i = 0; i < Lines; i++) {
            const uint32_t at = line + i * share.step;
            value[i] = at < end ? send.load<Plain>(at) : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (uint32_t i = 0; i < Lines; i++) {
            const uint32_t at = line + i * share.step;
            store_line(to + at * GPUCOLL_LINE_BYTES, value[i], to_epoch, at < end);
        }
    }

    /* Loads a batch when it is complete; to be called by whole warps. False if the wait was given up. */
    template <uint32_t Lines>
    __device__ __forceinline__ bool receive(uint32_t line, uint32_t end, pack (&value)[Lines])
    {
        for (;;) {
            bool complete = true;
            look(line, end, value);
#pragma unroll
            for (uint32_t i = 0; i < Lines; i++) {
                if (line + i * share.step < end && carries_epoch() && value[i].x != epoch) {
                    complete = false;
                }
            }
            if (__all_sync(whole_warp, complete)) {
                look(line, end, value);
                return true;
            }
            const bool on = complete || wait.again(peer);
            if (!__all_sync(whole_warp, on)) {
                return false;
            }
        }
    }

    const line_message &send;
    const line_message &recv;
    const line_share share;
    const uint32_t peer;
    const uint32_t to_epoch;
    const uint32_t epoch;
    char *const to; /* this thread's 16 bytes of line 0, in the peer's lane and in the own one */
    const char *const from;
    waiter wait;

  private:
    /* The last line in place of those from `end` on, since a branch could part the threads of a line. */
    template <uint32_t Lines>
    __device__ __forceinline__ void look(uint32_t line, uint32_t end, pack (&value)[Lines]) const
    {
        __syncwarp();
#pragma unroll
        for (uint32_t i = 0; i < Lines; i++) {
            value[i] = load_line(from + min(line + i * share.step, end - 1) * GPUCOLL_LINE_BYTES);
        }
    }
};

/* What is done with lines that have arrived. */
struct taking_as_is {
    static __device__ __forceinline__ uint32_t plain() { return no_line; }

    template <bool Plain> static __device__ __forceinline__ pack load(uint32_t)
    {
        return make_uint4(0, 0, 0, 0);
    }

    static __device__ __forceinline__ pack result(pack, pack other) { return other; }
};

/* They are reduced with the own ones, which are the left operand if `first`; no bytes: there are no own ones. */
template <typename Op> struct taking_reduced {
    __device__ __forceinline__ taking_reduced(const gpucoll_kernel_args &args, const void *base, uint64_t bytes, bool first)
        : op(args), own(base, bytes), first(first)
    {
    }

    __device__ __forceinline__ uint32_t plain() const { return own.plain(); }

    template <bool Plain> __device__ __forceinline__ pack load(uint32_t line) const
    {
        return own.load<Plain>(line);
    }

    __device__ __forceinline__ pack result(pack mine, pack other) const
    {
        return own.lines == 0 ? other : reduce(op, first ? mine : other, first ? other : mine);
    }

    const Op op;
    const line_message own;
    const bool first;
};

template <uint32_t Lines, bool Plain, typename Taking>
__device__ __forceinline__ bool take_batch(line_stream &stream, const Taking &taking, uint32_t line,
                                           uint32_t end)
{
    const uint32_t step = stream.share.step;
    pack own[Lines];
    pack other[Lines];
#pragma unroll
    for (uint32_t i = 0; i < Lines; i++) {
        const uint32_t at = line + i * step;
        own[i] = at < end ? taking.template load<Plain>(at) : make_uint4(0, 0, 0, 0);
    }
    if (!stream.receive(line, end, other)) {
        return false;
    }
#pragma unroll
    for (uint32_t i = 0; i < Lines; i++) {
        const uint32_t at = line + i * step;
        const pack value = taking.result(own[i], other[i]);
        if (at < end) {
            stream.recv.store<Plain>(at, value);
        }
    }
    return true;
}

/* The lines from `line` on, this thread's first, and below `end`. */
template <uint32_t Lines, bool Plain, typename Taking, typename Beside>
__device__ __forceinline__ bool stream_part(line_stream &stream, const Taking &taking, Beside &beside,
                                            uint32_t line, uint32_t end)
{
    const uint32_t batch = Lines * stream.share.step;
    const uint32_t sends = min(stream.send.lines, end);
    const uint32_t takes = min(stream.recv.lines, end);
    const uint32_t sends_end = whole_warps(sends);
    const uint32_t takes_end = whole_warps(takes);
    uint32_t ahead = line;
    for (; line < sends_end || line < takes_end; line += batch) {
        for (; ahead < sends_end && ahead <= line + stream_ahead * batch; ahead += batch) {
            stream.send_batch<Lines, Plain>(ahead, sends);
        }
        beside();
        if (line < takes_end && !take_batch<Lines, Plain>(stream, taking, line, takes)) {
            return false;
        }
    }
    return true;
}

/* Sends and takes this thread's share of a stream; `beside` is called whenever a batch has been sent. False if a wait was given up. */
template <typename Taking, typename Beside>
__device__ __forceinline__ bool run_stream(line_stream &stream, const Taking &taking, Beside &beside)
{
    const uint32_t plain = min(min(stream.send.plain(), stream.recv.plain()), taking.plain());
    const uint32_t batched = plain == no_line ? no_line : plain / lines_per_warp * lines_per_warp;
    if (!stream_part<stream_batch, true>(stream, taking, beside, stream.share.begin, batched)) {
        return false;
    }
    if (batched == no_line) {
        return true;
    }
    uint32_t rest = stream.share.begin;
    if (rest < batched) {
        rest += (batched - rest + stream.share.step - 1) / stream.share.step * stream.share.step;
    }
    return stream_part<1, false>(stream, taking, beside, rest, no_line);
}

/* Nothing to do beside. */
struct nothing {
    __device__ __forceinline__ void operator()() {}
};

} // namespace gpucoll

#endif
