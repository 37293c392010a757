/*
 * Kernels that linger: after a call the kernel stays for a bounded time and takes further calls from bells in host memory
 * (bell_abi.h), which spares each of them the launch. Each CTA of the crew has a bell of its own, hears it by its first warp, does
 * its part of the call and tells the host of its end: the CTAs never wait for each other, which would take longer than to
 * hear. A call may ask for fewer CTAs than there are, and is heard by those alone; one that the threads of one warp can do is done by the
 * first CTA's first warp without a barrier, while the other warps sleep. Calls that reach into peers' buffers end otherwise: their CTAs
 * count themselves, and the last one tells.
 *
 * Leaving: the first CTA, which has a part in every call, decides, and says in status->left which call was its last. The host, having
 * rung, looks at `done` and at `left`; if the kernel left before it heard the bell, the host launches it anew with the call. So
 * no CTA may take a call that another one will not: see `parting`.
 *
 * Which calls a kernel takes its `Calls` say:
 *   rows                             of the bell behind that of the lanes: exchanges have their runs there, too, and maybe the layouts of these
 *   reaches_peers                    they read and write peers' buffers, where nobody waits for them: what they store is to have arrived when the
 *                                    host sees the end, and one that was given up before its kernel began is not run. They are those that
 *                                    have tiles (gpucoll_kernel_has_tiles), by which the host knows who tells the end
 *   bell                             how a bell is looked at (bell.cuh)
 *   is_small(kernel, bytes, nranks, threads)
 *                                    have so many threads no more than a pack each?
 *   run(args, runs, share)           a CTA's part of the call, by all of its threads
 *   run_by_warp(args, runs)          a call that is small for the threads of one warp, by the first one, which stays whole
 *                                    Both: false if a wait was given up
 */
#ifndef GPUCOLL_KERNELS_LINGER_CUH
#define GPUCOLL_KERNELS_LINGER_CUH

#include "kernels/bell.cuh"
#include "kernels/crew.cuh"
#include "kernels/sync.cuh"

namespace gpucoll {

static_assert(offsetof(gpucoll_kernel_args, peer) % sizeof(uint64_t) == 0 &&
                  sizeof(gpucoll_kernel_peer) % sizeof(uint64_t) == 0 && sizeof(gpucoll_kernel_run) % sizeof(uint64_t) == 0,
              "a call is copied by words");
static_assert(GPUCOLL_CREW_CTAS <= warp_threads, "a CTA's answer for each lane of the leading warp");

/* What the Calls of exchanges that always need whole CTAs have in common. */
struct whole_cta_calls {
    static constexpr uint32_t rows = GPUCOLL_BELL_RUN_ROWS;
    static constexpr bool reaches_peers = true;
    using bell = bell_by_copies<rows, looks_after_others>;

    static __device__ __forceinline__ bool is_small(uint32_t, uint64_t, uint32_t, uint32_t)
    {
        return false;
    }

    static __device__ __forceinline__ bool run_by_warp(const gpucoll_kernel_args &, const gpucoll_kernel_runs &)
    {
        return false;
    }
};

/* In each CTA's shared memory. */
template <typename Calls> struct linger_state {
    gpucoll_kernel_args call;
    gpucoll_kernel_runs runs; /* of an exchange */
    uint32_t last;            /* the done_value of the latest call that succeeded */
    bool given_up;            /* the call that came with the launch, before it began */
    bell_looks<Calls::rows> looks;
};

/*
 * How the CTAs of a crew leave so that no call is taken by some of those that it asks for: by a word of each in device memory, which names
 * the first one's latest call. When its time is over the first one asks the others. One that has not heard a call newer than that answers,
 * and then takes none before the first has said whether they stay or leave. If all have answered, they leave. If one does not, it has
 * heard a newer call; then the first hears that, too, and they stay. (What the first said to an earlier kernel, or before a call that this
 * CTA has done since, names a call older than the CTA's latest.)
 *
 * A CTA that answers must have looked at its bell after it was asked: it may have no part in the first one's latest call, or one that it has
 * not heard of yet. The host rings for the first one last, so such a look tells which. By the leading warp of each CTA, all lanes alike.
 */
class parting {
  public:
    __device__ __forceinline__ explicit parting(const gpucoll_kernel_args &call)
        : words_(call.crew), latest_(call.done_value), asked_(false)
    {
    }

    /* The first CTA, whose time is over: do they leave? To be asked again until a call is heard. */
    __device__ __forceinline__ bool all_leave()
    {
        const uint32_t lane = threadIdx.x;
        if (gridDim.x > 1 && !asked_) {
            fence_system(); /* who sees the question finds what was rung before that latest call */
            say(0, word(ASKS));
            asked_ = true;
            return false;
        }
        const bool others = lane == 0 || lane >= gridDim.x || load_relaxed(&words_[lane]) == word(ASKS);
        const bool leave = __all_sync(whole_warp, others);
        if (leave) {
            say(0, word(LEAVES));
        }
        return leave;
    }

    /* The first CTA has heard a call, or has failed at one. */
    __device__ __forceinline__ void end(bool leave)
    {
        if (leave || asked_) {
            say(0, word(leave ? LEAVES : STAYS));
        }
    }

    /* Another CTA, with what it has read of the first one's word before it looked at its bell. */
    __device__ __forceinline__ bool leaves(uint64_t said)
    {
        said = __shfl_sync(whole_warp, said, 0);
        if (is(said, ASKS)) {
            const uint64_t asked = said;
            say(blockIdx.x, asked);
            while (said == asked) {
                said = __shfl_sync(whole_warp, load_relaxed(words_), 0);
            }
        }
        return is(said, LEAVES);
    }

  private:
    enum : uint32_t { ASKS = 1, STAYS, LEAVES };

    __device__ __forceinline__ uint64_t word(uint32_t what) const
    {
        return static_cast<uint64_t>(latest_) << 32 | what;
    }

    /* Is that what was said, and after no call older than this CTA's latest? */
    __device__ __forceinline__ bool is(uint64_t said, uint32_t what) const
    {
        return static_cast<uint32_t>(said) == what && static_cast<int32_t>(static_cast<uint32_t>(said >> 32) - latest_) >= 0;
    }

    __device__ __forceinline__ void say(uint32_t cta, uint64_t what) const
    {
        if (threadIdx.x == 0) {
            store_relaxed(&words_[cta], what);
        }
    }

    uint64_t *words_;
    uint32_t latest_;
    bool asked_;
};

template <uint32_t Rows> __device__ __forceinline__ heard_chunks<Rows> told_to_leave()
{
    heard_chunks<Rows> heard = {};
    heard.head.high = GPUCOLL_BELL_LEAVE;
    return heard;
}

/* The leading warp waits for a call after the latest: each lane gets its chunks, or such that say leave if none came, or if the latest
 * was not done. */
template <typename Calls>
__device__ __forceinline__ heard_chunks<Calls::rows> hear_bell(const gpucoll_kernel_args &call, bell_looks<Calls::rows> &looks, bool good)
{
    const bool first = blockIdx.x == 0;
    parting party(call);
    typename Calls::bell bell(call, looks);
    const int64_t begin = clock64();
    bool leave = !good;
    if (leave && first) {
        party.end(true);
    }
    while (!leave) {
        heard_chunks<Calls::rows> heard;
        uint64_t said;
        bell.ask();
        if (!bell.next(heard, said)) {
            continue;
        }
        if (is_whole(call, heard)) {
            party.end(false);
            bell.end();
            return heard;
        }
        const bool over = __any_sync(whole_warp, clock64() - begin > call.linger_clocks);
        leave = first ? over && party.all_leave() : party.leaves(said);
    }
    bell.end();
    return told_to_leave<Calls::rows>();
}

__device__ __forceinline__ bool is_leave(const gpucoll_kernel_args &call)
{
    return call.kernel == GPUCOLL_BELL_LEAVE;
}

/* The leading warp puts what it has heard into the call. */
template <typename Calls> __device__ __forceinline__ void take_call(linger_state<Calls> &state, const heard_chunks<Calls::rows> &heard)
{
    static_assert(offsetof(gpucoll_kernel_args, bytes) == 8 && offsetof(gpucoll_kernel_args, recv) == 16 &&
                      offsetof(gpucoll_kernel_args, kernel) == 24 && offsetof(gpucoll_kernel_args, crew_ctas) == 26 &&
                      offsetof(gpucoll_kernel_args, variant) == 27,
                  "a call begins with two chunks");
    const uint32_t lane = threadIdx.x;
    const uint32_t nranks = state.call.nranks;
    if (lane < nranks + 2) {
        char *const head = reinterpret_cast<char *>(&state.call) + lane * sizeof(gpucoll_bell_chunk);
        char *const to = lane < 2 ? head : reinterpret_cast<char *>(&state.call.peer[lane - 2]);
        *reinterpret_cast<uint64_t *>(to) = heard.head.low;
        *(reinterpret_cast<uint32_t *>(to) + 2) = value_of(heard.head);
    }
    if constexpr (Calls::rows >= GPUCOLL_BELL_RUN_ROWS) {
        if (lane < nranks) {
            gpucoll_kernel_run &run = state.runs.run[lane];
            run.send = reinterpret_cast<const void *>(heard.row[GPUCOLL_BELL_SEND].low);
            run.recv = reinterpret_cast<void *>(heard.row[GPUCOLL_BELL_RECV].low);
            run.send_bytes = value_of(heard.row[GPUCOLL_BELL_SEND]);
            run.recv_bytes = value_of(heard.row[GPUCOLL_BELL_RECV]);
        }
    }
    if constexpr (Calls::rows >= GPUCOLL_BELL_LAYOUT_ROWS) {
        if (lane < nranks) {
            gpucoll_run_layouts &layouts = state.runs.layouts[lane];
            layouts.send = reinterpret_cast<const gpucoll_layout_view *>(heard.row[GPUCOLL_BELL_SEND_LAYOUT].low);
            layouts.recv = reinterpret_cast<const gpucoll_layout_view *>(heard.row[GPUCOLL_BELL_RECV_LAYOUT].low);
        }
    }
    __syncwarp();
    if (lane == 0 && !is_leave(state.call)) {
        state.call.done_value = heard.sequence;
        state.call.stages = GPUCOLL_STAGE_ALL; /* what the kernel was launched for may have been begun by another */
    }
    __syncwarp();
}

/* This CTA's part of the latest call is done: by one thread, to which the others' stores are visible. The host lets no kernel linger whose own results
 * may lie elsewhere than in the GPU's memory. */
template <typename Calls> __device__ __forceinline__ void tell_end(linger_state<Calls> &state)
{
    fence_device();
    gpucoll_kernel_status *const status = state.call.status;
    store_relaxed(blockIdx.x == 0 ? &status->done : &status->done_beside[blockIdx.x - 1], state.call.done_value);
    state.last = state.call.done_value;
}

/* After its part of a call a CTA tells the host. Where what was stored to peers is to have arrived, which a fence of the system waits for, the last CTA
 * does for all: no fence more than are needed, and the end of a launched kernel. False if anyone of the CTA gave up. */
template <typename Calls> __device__ __forceinline__ bool end_call(linger_state<Calls> &state, bool failed)
{
    if (Calls::reaches_peers) {
        const bool good = finish_shared(state.call, state.call.crew_ctas, failed);
        if (good && threadIdx.x == 0) {
            state.last = state.call.done_value;
        }
        return good;
    }
    const bool good = !__syncthreads_or(failed);
    if (good && threadIdx.x == 0) {
        tell_end(state);
    }
    return good;
}

/* The first warp waits for the next call that is not for it alone. A loop of its own, so that little has to be kept across what all threads
 * do: it was kept in memory, and read again with each small call. */
template <typename Calls> __device__ __forceinline__ void lead(linger_state<Calls> &state, bool good)
{
    const gpucoll_kernel_args &call = state.call;
    for (;;) {
        take_call<Calls>(state, hear_bell<Calls>(call, state.looks, good));
        if (is_leave(call) || call.crew_ctas != 1 || !Calls::is_small(call.kernel, call.bytes, call.nranks, warp_threads)) {
            return;
        }
        good = __all_sync(whole_warp, Calls::run_by_warp(call, state.runs));
        __syncwarp(); /* a vote orders no memory: what the other lanes have stored is before the fence below */
        if (good && threadIdx.x == 0) {
            tell_end(state);
        }
        __syncwarp();
    }
}

/* Waits for the next call; false: there is none, and the CTA ends. */
template <typename Calls> __device__ __forceinline__ bool next_call(linger_state<Calls> &state, bool good)
{
    if (threadIdx.x < warp_threads) {
        __syncwarp();
        lead<Calls>(state, good);
    }
    __syncthreads();
    if (!is_leave(state.call)) {
        return true;
    }
    if (threadIdx.x == 0) {
        if (blockIdx.x == 0) {
            store_release(&state.call.status->left, state.last);
        }
        close_looks(state.looks);
    }
    return false;
}

__device__ __forceinline__ void copy_words(void *to, const void *from, uint32_t bytes)
{
    for (uint32_t i = threadIdx.x; i < bytes / sizeof(uint64_t); i += blockDim.x) {
        static_cast<uint64_t *>(to)[i] = static_cast<const uint64_t *>(from)[i];
    }
}

/* What came with the launch, into shared memory: no more than is filled, since constant memory is read one word after the other
 * where threads read different ones. */
template <typename Calls>
__device__ __forceinline__ void take_first_call(linger_state<Calls> &state, const gpucoll_kernel_args &args,
                                                const gpucoll_kernel_runs *runs)
{
    copy_words(&state.call, &args, static_cast<uint32_t>(gpucoll_kernel_args_bytes(args.nranks)));
    if (Calls::rows >= GPUCOLL_BELL_RUN_ROWS) {
        copy_words(&state.runs, runs, static_cast<uint32_t>(gpucoll_kernel_runs_bytes(args.nranks)));
    }
    if (Calls::rows >= GPUCOLL_BELL_LAYOUT_ROWS) {
        copy_words(&state.runs.layouts, &runs->layouts, static_cast<uint32_t>(gpucoll_run_layouts_bytes(args.kernel, args.nranks)));
    }
    if (threadIdx.x == 0) {
        state.last = 0;
        state.given_up = Calls::reaches_peers && ask_whether_given_up(args.status) != 0;
        if (args.bell != nullptr) {
            open_looks(state.looks);
        }
    }
    __syncthreads();
}

/* A kernel that ends after one call, or lingers if it was given a bell. The call that it was launched for may have been given up while the kernel stood
 * behind one of the application: then buffers are their owners' again, or gone with them. One that is rung for has just been made. */
template <typename Calls>
__device__ __forceinline__ void crew_kernel(const gpucoll_kernel_args &args, const gpucoll_kernel_runs *runs)
{
    __shared__ linger_state<Calls> state;
    if (!pass_gate(args)) { /* such a kernel does not linger */
        return;
    }
    take_first_call<Calls>(state, args, runs);
    const bool lingers = args.bell != nullptr;
    bool mine = !lingers || blockIdx.x < args.crew_ctas;
    bool good = true;
    do {
        if (mine) {
            const crew_share share = lingers ? crew_share{blockIdx.x, state.call.crew_ctas} : share_of_grid();
            const bool failed = state.given_up || !Calls::run(state.call, state.runs, share);
            if (!lingers) {
                finish(args, failed);
                return;
            }
            good = end_call<Calls>(state, failed);
        }
        mine = true;
    } while (next_call<Calls>(state, good));
}

} // namespace gpucoll

#endif
