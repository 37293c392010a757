/*
 * Exchanges over LL128: each run in one pass, by lines that carry their flags. With each peer they are a stream (line_stream.cuh), in which
 * taking begins while the rest is still sent; so it is, line by line, where what comes from several is reduced. Only a warp that has several peers
 * to look after sends all of its lines before it waits for one. Nobody waits in a circle: of any rank the threads that have a line send it before
 * they wait for one of its number or above.
 *
 * A place that is read and written (kernel_abi.h) is so by one thread, which has read the pack for the last time before it writes it: when
 * moving, a thread has the same lines of a run to send and to receive; when reducing, it has the same lines of all runs.
 */
#ifndef GPUCOLL_KERNELS_EXCHANGE_LL128_CUH
#define GPUCOLL_KERNELS_EXCHANGE_LL128_CUH

#include "kernels/exchange_simple.cuh"
#include "kernels/line_stream.cuh"

namespace gpucoll
{

constexpr uint32_t line_sources = 4; /* of a line, what comes from so many ranks is loaded together */
constexpr uint32_t lines_ahead = 1;  /* of a thread's, that are sent before the first is waited for */

/* ---- moving ---- */

/* Copies the own run, once the first lines are on their way. */
class own_copy
{
  public:
    __device__ __forceinline__ own_copy(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs,
                                        crew_share share)
        : args_(args), runs_(runs), share_(share), done_(false)
    {
    }

    __device__ __forceinline__ void operator()()
    {
        if (!done_) {
            copy_own(args_, runs_, share_);
            done_ = true;
        }
    }

  private:
    const gpucoll_kernel_args &args_;
    const gpucoll_kernel_runs &runs_;
    const crew_share share_;
    bool done_;
};

/* The peers that a warp looks after, one of them where there are warps enough, and its lines of theirs. */
struct peer_share {
    uint32_t turn; /* the first one's; then by `turns` */
    uint32_t turns;
    line_share lines;
};

__device__ __forceinline__ peer_share share_of_peers(uint32_t peers, crew_share share)
{
    const uint32_t warps_of_cta = blockDim.x / warp_threads;
    const uint32_t warps = share.ctas * warps_of_cta;
    const uint32_t warp = share.cta * warps_of_cta + threadIdx.x / warp_threads;
    const uint32_t first = threadIdx.x % warp_threads / line_threads;
    if (warps < peers) {
        return {warp, warps, {first, lines_per_warp}};
    }
    const uint32_t groups = warps / peers;
    const uint32_t group = warp / peers;
    const uint32_t turn =
        group < groups ? warp - group * peers : peers; /* what is left over has nothing to do */
    return {turn, peers, {group * lines_per_warp + first, groups * lines_per_warp}};
}

/* With the peers of this share, one after the other. False if a wait was given up. */
template <bool Sending, bool Taking, typename Beside>
__device__ __forceinline__ bool move_peers(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs,
                                           const peer_share &share, Beside &beside)
{
    for (uint32_t turn = share.turn; turn + 1 < args.nranks; turn += share.turns) {
        const uint32_t peer = rank_after(args, turn);
        const gpucoll_kernel_run &run = runs.run[peer];
        const line_message send(run.send, Sending ? run.send_bytes : 0);
        const line_message recv(run.recv, Taking ? run.recv_bytes : 0);
        line_stream stream(args, peer, send, recv, share.lines);
        if (!run_stream(stream, taking_as_is(), beside)) {
            return false;
        }
    }
    return true;
}

/* False if a wait was given up. */
__device__ __forceinline__ bool move_ll128(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs,
                                           crew_share share)
{
    const uint32_t peers = args.nranks - 1;
    const peer_share mine = peers == 1 ? peer_share{0, 1, lines_of_share(share)} : share_of_peers(peers, share);
    own_copy beside(args, runs, share);
    if (mine.turns < peers) {
        nothing idle;
        move_peers<true, false>(args, runs, mine, idle);
        beside();
        return move_peers<false, true>(args, runs, mine, idle);
    }
    const bool done = move_peers<true, true>(args, runs, mine, beside);
    beside();
    return done;
}

/* ---- reducing ---- */

/* The own run alone is the result. By the threads that have sent these lines. */
__device__ __forceinline__ void keep_own(const gpucoll_kernel_run &mine, line_share share)
{
    const line_message send(mine.send, mine.send_bytes);
    const line_message recv(mine.recv, mine.recv_bytes);
    for (uint32_t line = share.begin; line < recv.lines; line += share.step) {
        recv.store<false>(line, send.load<false>(line));
    }
}

template <typename Op>
__device__ __forceinline__ bool reduce_two(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs,
                                           line_share share)
{
    const uint32_t peer = 1 - args.rank;
    const gpucoll_kernel_run &mine = runs.run[args.rank];
    const bool taken = runs.run[peer].recv_bytes > 0;
    const line_message send(runs.run[peer].send, runs.run[peer].send_bytes);
    const line_message recv(mine.recv, taken ? mine.recv_bytes : 0);
    line_stream stream(args, peer, send, recv, share);
    nothing beside;
    if (!run_stream(stream, taking_reduced<Op>(args, mine.send, mine.send_bytes, args.rank == 0), beside)) {
        return false;
    }
    if (!taken && mine.send_bytes > 0 && mine.send != mine.recv) {
        keep_own(mine, share);
    }
    return true;
}

/* A line of this rank's to every peer that gets one; by whole warps. */
__device__ __forceinline__ void send_to_all(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs,
                                            const ll128_layout &layout, uint32_t line)
{
    for (uint32_t first = 0; first + 1 < args.nranks; first += line_sources) {
        pack value[line_sources];
        uint32_t sent = 0; /* the turns that have such a line, a bit each */
#pragma unroll
        for (uint32_t i = 0; i < line_sources; i++) {
            if (first + i + 1 < args.nranks) {
                const gpucoll_kernel_run &run = runs.run[rank_after(args, first + i)];
                const line_message send(run.send, run.send_bytes);
                value[i] = send.load<false>(line);
                sent |= line < send.lines ? 1u << i : 0;
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < line_sources; i++) {
            if (first + i + 1 < args.nranks) {
                const gpucoll_kernel_peer &peer = args.peer[rank_after(args, first + i)];
                store_line(layout.at(peer.lane, 0, args.rank, line), value[i], peer.epoch, (sent >> i & 1) != 0);
            }
        }
    }
}

/* A line of all sources, reduced in rank order; by whole warps. False if the wait was given up. */
template <typename Op>
__device__ __forceinline__ bool reduce_line(const Op &op, const gpucoll_kernel_args &args, ll128_inbox &inbox,
                                            uint32_t sources, uint32_t line, bool present, pack own,
                                            pack *result)
{
    pack sum = own;
    bool any = false;
    for (uint32_t first = 0; first < args.nranks; first += line_sources) {
        pack value[line_sources];
        if (!inbox.receive(0, first, line, present, value)) {
            return false;
        }
#pragma unroll
        for (uint32_t i = 0; i < line_sources; i++) {
            if (is_in(sources, first + i)) {
                const pack term = first + i == args.rank ? own : value[i];
                sum = any ? reduce(op, sum, term) : term;
                any = true;
            }
        }
    }
    *result = sum;
    return true;
}

template <typename Op>
__device__ __forceinline__ bool reduce_many(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs,
                                            line_share share)
{
    const gpucoll_kernel_run &mine = runs.run[args.rank];
    const uint32_t sources = sources_of(args, runs);
    const line_message send(mine.send, mine.send_bytes);
    const line_message recv(mine.recv, mine.recv_bytes);
    ll128_inbox inbox{ll128_layout(args.nranks), args.peer[args.rank].lane, sources & ~(1u << args.rank),
                      args.peer[args.rank].epoch, waiter(args.status)};
    const Op op(args.variant);
    const uint32_t sends_end = whole_warps(static_cast<uint32_t>(gpucoll_ll128_lines(args.bytes, 1)));
    const uint32_t takes_end = whole_warps(recv.lines);
    uint32_t ahead = share.begin;
    for (uint32_t line = share.begin; line < sends_end || line < takes_end; line += share.step) {
        for (; ahead < sends_end && ahead <= line + lines_ahead * share.step; ahead += share.step) {
            send_to_all(args, runs, inbox.layout, ahead);
        }
        if (line < takes_end) {
            const bool present = line < recv.lines;
            pack result;
            if (!reduce_line(op, args, inbox, sources, line, present, send.load<false>(line), &result)) {
                return false;
            }
            recv.store<false>(line, result);
        }
    }
    return true;
}

/* False if a wait was given up. */
template <typename Op>
__device__ __forceinline__ bool reduce_ll128(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs,
                                             crew_share share)
{
    const line_share lines = lines_of_share(share);
    return args.nranks == 2 ? reduce_two<Op>(args, runs, lines) : reduce_many<Op>(args, runs, lines);
}

} // namespace gpucoll

#endif
