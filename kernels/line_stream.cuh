/*
 * What two ranks have for each other, over LL128: each stores a message to the other, and takes what comes from there line by line.
 *
 * There is one peer to wait for, so a thread works on several lines at once, a batch: their loads are in flight together. It sends a batch, and
 * takes one; of two batches it sends the second before it waits for the first, of more that takes longer; where a batch is a line, it sends as
 * many lines ahead as make one else. Nobody waits in a circle:
 * of either rank the same threads, one warp, send and take a line, both in ascending order, and a line is sent before one of its
 * number or above is waited for; so of two such warps that wait for each other one waits for a line that has been sent.
 *
 * A warp's lines take the places of its lines of rows before (kernel_abi.h), and carry beside the epoch how many those were, the wave. No place is
 * used again before the peer has taken what was there, and no flag tells of that: a line of row k is sent when all of the rows up to k - 8 have
 * been taken, in whichever batches, and waited for before row k + 8 is sent. So who sends row k knows that the peer has taken row k - 16. Where one
 * message is shorter than the other, or there is none, its rows go on with nothing but a line in every fourth row, a credit: then it is row
 * k - 19 that is known of. For that both ranks must have the same rows, so no kernel lingers for a message that does not find room at once; of one
 * that does, each line has a place of its own, whatever the rows.
 *
 * Lines with packs that are not aligned or not whole come last, and one at a time: what loads those is called, and costs a batch its registers.
 */
#ifndef GPUCOLL_KERNELS_LINE_STREAM_CUH
#define GPUCOLL_KERNELS_LINE_STREAM_CUH

#include "kernels/ll128.cuh"

namespace gpucoll
{

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

/* A line of this thread's, and where it lies. */
struct line_cursor {
    uint32_t line;
    uint32_t place; /* in the area, in lines */
    uint32_t wave;  /* the lines that have been there before */

    __device__ __forceinline__ void advance(uint32_t lines, uint32_t window)
    {
        line += lines;
        place += lines;
        if (place >= window) {
            place -= window;
            wave++;
        }
    }
};

struct line_stream {
    __device__ __forceinline__ line_stream(const gpucoll_kernel_args &args, uint32_t peer,
                                           const line_message &send, const line_message &recv,
                                           line_share share)
        : send(send), recv(recv), share(share), peer(peer), window(gpucoll_stream_rows(share.step) * share.step),
          credits(max(send.lines, recv.lines) > window ? max(send.lines, recv.lines) : 0),
          to_epoch(args.peer[peer].epoch), epoch(args.peer[args.rank].epoch),
          to(ll128_layout(args.nranks).at(args.peer[peer].lane, 0, args.nranks > 2 ? args.rank : 0, 0)),
          from(ll128_layout(args.nranks).at(args.peer[args.rank].lane, 0, args.nranks > 2 ? peer : 0, 0)), wait(args.status)
    {
    }

    /* The thread's first line at or above `line`. */
    __device__ __forceinline__ line_cursor at(uint32_t line) const
    {
        const uint32_t row = line > share.begin ? (line - share.begin + share.step - 1) / share.step : 0;
        const uint32_t rows = window / share.step;
        return {share.begin + row * share.step, share.begin + row % rows * share.step, row / rows};
    }

    /* Up to which line there is something to send or to take, of those below `end`, credits among it. */
    __device__ __forceinline__ uint32_t end_of(const line_message &message, uint32_t end) const
    {
        return min(max(message.lines, credits), end);
    }

    /* A batch: `Lines` rows from where `next` is, lines below `end`. */
    template <uint32_t Lines, bool Plain>
    __device__ __forceinline__ void send_batch(const line_cursor &next, uint32_t end) const
    {
        const uint32_t data = min(send.lines, end);
        pack value[Lines];
#pragma unroll
        for (uint32_t i = 0; i < Lines; i++) {
            const uint32_t line = next.line + i * share.step;
            value[i] = line < data ? send.load<Plain>(line) : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (uint32_t i = 0; i < Lines; i++) {
            store_line_of_wave(to + (next.place + i * share.step) * GPUCOLL_LINE_BYTES, value[i], to_epoch, next.wave,
                               is_sent<Lines>(next, i, data, end));
        }
    }

    /* Loads a batch when it is complete; to be called by whole warps. False if the wait was given up. */
    template <uint32_t Lines>
    __device__ __forceinline__ bool receive(const line_cursor &next, uint32_t end, pack (&value)[Lines])
    {
        const uint32_t data = min(recv.lines, end);
        for (;;) {
            bool complete = true;
            look(next, value);
#pragma unroll
            for (uint32_t i = 0; i < Lines; i++) {
                if (is_sent<Lines>(next, i, data, end) && carries_epoch() &&
                    (value[i].x != epoch || value[i].y != next.wave)) {
                    complete = false;
                }
            }
            if (__all_sync(whole_warp, complete)) {
                look(next, value);
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
    const uint32_t window;  /* lines that find room */
    const uint32_t credits; /* if there are more: how many the longer message has; else 0 */
    const uint32_t to_epoch;
    const uint32_t epoch;
    char *const to; /* this thread's 16 bytes of line 0, in the peer's lane and in the own one */
    char *const from;
    waiter wait;

  private:
    /* Data; or where a message has ended and the other goes on, a credit of each fourth row: the same for who sends and who takes, in whichever
     * batches. */
    template <uint32_t Lines>
    __device__ __forceinline__ bool is_sent(const line_cursor &next, uint32_t i, uint32_t data, uint32_t end) const
    {
        const uint32_t line = next.line + i * share.step;
        if (line < data) {
            return true;
        }
        const bool fourth = Lines == GPUCOLL_STREAM_BATCH ? i == 0 : next.place / share.step % GPUCOLL_STREAM_BATCH == 0;
        return line < min(credits, end) && fourth;
    }

    /* Also where nothing is sent, since a branch could part the threads of a line. */
    template <uint32_t Lines>
    __device__ __forceinline__ void look(const line_cursor &next, pack (&value)[Lines]) const
    {
        __syncwarp();
#pragma unroll
        for (uint32_t i = 0; i < Lines; i++) {
            value[i] = load_line(from + (next.place + i * share.step) * GPUCOLL_LINE_BYTES);
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
        : op(args.variant), own(base, bytes), first(first)
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
__device__ __forceinline__ bool take_batch(line_stream &stream, const Taking &taking, const line_cursor &next,
                                           uint32_t end)
{
    const uint32_t step = stream.share.step;
    const uint32_t data = min(stream.recv.lines, end);
    pack own[Lines];
    pack other[Lines];
#pragma unroll
    for (uint32_t i = 0; i < Lines; i++) {
        const uint32_t line = next.line + i * step;
        own[i] = line < data ? taking.template load<Plain>(line) : make_uint4(0, 0, 0, 0);
    }
    if (!stream.receive(next, end, other)) {
        return false;
    }
#pragma unroll
    for (uint32_t i = 0; i < Lines; i++) {
        const uint32_t line = next.line + i * step;
        const pack value = taking.result(own[i], other[i]);
        if (line < data) {
            stream.recv.store<Plain>(line, value);
        }
    }
    asm volatile("" ::: "memory"); /* these stores stay before the lines that tell of them */
    return true;
}

/* The thread's lines from `line` on and below `end`. */
template <uint32_t Lines, bool Plain, typename Taking, typename Beside>
__device__ __forceinline__ bool stream_part(line_stream &stream, const Taking &taking, Beside &beside,
                                            uint32_t line, uint32_t end)
{
    const uint32_t batch = Lines * stream.share.step;
    const uint32_t sends_end = whole_warps(stream.end_of(stream.send, end));
    const uint32_t takes_end = whole_warps(stream.end_of(stream.recv, end));
    line_cursor next = stream.at(line);
    line_cursor ahead = next;
    const uint32_t lead = Lines == 1                           ? (GPUCOLL_STREAM_BATCH - 1) * batch
                          : next.line + 2 * batch >= sends_end ? batch
                                                               : 0;
    for (; next.line < sends_end || next.line < takes_end; next.advance(batch, stream.window)) {
        for (; ahead.line < sends_end && ahead.line <= next.line + lead;
             ahead.advance(batch, stream.window)) {
            stream.send_batch<Lines, Plain>(ahead, end);
        }
        beside();
        if (next.line < takes_end && !take_batch<Lines, Plain>(stream, taking, next, end)) {
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
    if (!stream_part<GPUCOLL_STREAM_BATCH, true>(stream, taking, beside, 0, batched)) {
        return false;
    }
    return batched == no_line || stream_part<1, false>(stream, taking, beside, batched, no_line);
}

/* Nothing to do beside. */
struct nothing {
    __device__ __forceinline__ void operator()() {}
};

} // namespace gpucoll

#endif
