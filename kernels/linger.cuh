/*
 * Kernels that linger: after a call the kernel stays for a bounded time and takes further calls from a bell in host memory
 * (kernel_abi.h), which spares each of them the launch. Of each cluster of the crew the first CTA leads: its first warp polls the bell,
 * copies the call into every CTA's shared memory, and the cluster's barrier starts it. The clusters hear the bell and end their parts
 * by themselves, since telling each other would take longer than PCIe. A call small enough for the threads of one CTA is done
 * by the first cluster's leader alone, while the others sleep in the barrier; and one may ask for fewer clusters than there are.
 *
 * Leaving: the first cluster decides, and says in status->left which call was its last. The host, having rung the bell, looks at
 * `done` and at `left`; if the kernel left before it heard the bell, the host launches it anew with the call. So all clusters must
 * leave after the same call: see `parting`.
 *
 * Which calls a kernel takes its `Calls` say:
 *   has_runs                        they are exchanges: the bell has their runs, too
 *   is_small(kernel, bytes, nranks) is the call done by the leader alone, since that takes less time than the crew's two
 *                                   barriers?
 *   run(args, runs, share)          a CTA's part of the call; false if a wait was given up
 */
#ifndef GPUCOLL_KERNELS_LINGER_CUH
#define GPUCOLL_KERNELS_LINGER_CUH

#include "kernels/crew.cuh"
#include "kernels/sync.cuh"

namespace gpucoll {

static_assert(offsetof(gpucoll_kernel_args, peer) % sizeof(uint64_t) == 0 &&
                  sizeof(gpucoll_kernel_peer) % sizeof(uint64_t) == 0 && sizeof(gpucoll_kernel_run) % sizeof(uint64_t) == 0,
              "a call is copied by words");
static_assert(GPUCOLL_BELL_CHUNKS == warp_threads, "a chunk of each row for each lane of the leading warp");
static_assert(GPUCOLL_BELL_CHUNKS >= GPUCOLL_MAX_LOCAL, "a run for each lane of the leading warp");

/* In each CTA's shared memory. */
struct linger_state {
    gpucoll_kernel_args call;
    gpucoll_kernel_runs runs; /* of an exchange */
    uint32_t failed;          /* of a leader: a CTA of its cluster gave up */
    uint32_t last;            /* of a leader: the done_value of the latest call that succeeded */
};

template <typename Calls> __device__ __forceinline__ bool is_small(const gpucoll_kernel_args &call)
{
    return Calls::is_small(call.kernel, call.bytes, call.nranks);
}

/* What a lane of the leading warp has heard: its chunk of the first row, and of an exchange the runs of rank `lane`. */
struct heard_chunks {
    words head;
    words send;
    words recv;
    uint32_t sequence;
};

__device__ __forceinline__ uint32_t value_of(words chunk)
{
    return static_cast<uint32_t>(chunk.high);
}

__device__ __forceinline__ uint32_t sequence_of(words chunk)
{
    return static_cast<uint32_t>(chunk.high >> 32);
}

/* What lane `lane` of the leading warp has heard, into the call of CTA `cta`. */
__device__ __forceinline__ void put_head(linger_state &state, uint32_t cta, uint32_t lane, words chunk)
{
    static_assert(offsetof(gpucoll_kernel_args, bytes) == 8 && offsetof(gpucoll_kernel_args, recv) == 16 &&
                      offsetof(gpucoll_kernel_args, kernel) == 24,
                  "a call begins with two chunks");
    char *const head = reinterpret_cast<char *>(&state.call) + lane * sizeof(gpucoll_bell_chunk);
    char *const to = lane < 2 ? head : reinterpret_cast<char *>(&state.call.peer[lane - 2]);
    store_cluster(reinterpret_cast<uint64_t *>(to), cta, chunk.low);
    store_cluster(reinterpret_cast<uint32_t *>(to) + 2, cta, value_of(chunk));
}

__device__ __forceinline__ void put_run(linger_state &state, uint32_t cta, uint32_t rank, const heard_chunks &heard)
{
    static_assert(sizeof(gpucoll_kernel_run) == 4 * sizeof(uint64_t), "a run is four words");
    uint64_t *const run = reinterpret_cast<uint64_t *>(&state.runs.run[rank]);
    store_cluster(run, cta, heard.send.low);
    store_cluster(run + 1, cta, heard.recv.low);
    store_cluster(run + 2, cta, static_cast<uint64_t>(value_of(heard.send)));
    store_cluster(run + 3, cta, static_cast<uint64_t>(value_of(heard.recv)));
}

/* All rows are asked for at once: one after another they would take two round trips. */
template <bool Runs> __device__ __forceinline__ heard_chunks look_at_bell(const gpucoll_kernel_args &call)
{
    const uint32_t lane = threadIdx.x;
    heard_chunks heard = {};
    if (lane < call.nranks + 2) {
        heard.head = load_words(&call.bell->chunk[lane]);
    }
    if (Runs && lane < call.nranks) {
        heard.send = load_words(&call.bell->send[lane]);
        heard.recv = load_words(&call.bell->recv[lane]);
    }
    return heard;
}

/* Is that all of a call that is newer than the latest? (A cluster that a small call does not need may hear only the next.) */
template <bool Runs> __device__ __forceinline__ bool is_whole(const gpucoll_kernel_args &call, heard_chunks &heard)
{
    const uint32_t lane = threadIdx.x;
    const uint32_t sequence = __shfl_sync(whole_warp, sequence_of(heard.head), 0);
    heard.sequence = sequence;
    bool whole = static_cast<int32_t>(sequence - call.done_value) > 0 &&
                 __all_sync(whole_warp, lane >= call.nranks + 2 || sequence_of(heard.head) == sequence);
    if (Runs && whole && __shfl_sync(whole_warp, value_of(heard.head), 1) != GPUCOLL_BELL_LEAVE) {
        whole = __all_sync(whole_warp, lane >= call.nranks ||
                                           (sequence_of(heard.send) == sequence && sequence_of(heard.recv) == sequence));
    }
    return whole;
}

/*
 * How the clusters of a crew leave after the same call, by a word of each in device memory. When its time is over the first one asks the
 * others. One that has not heard a newer call answers, and then takes none before the first has said whether they stay or leave. If all
 * have answered, they leave. If one does not, it has heard a newer call; then the first hears that, too, and they stay. By the leading
 * warp of each cluster, all lanes alike.
 */
class parting {
  public:
    __device__ __forceinline__ explicit parting(const gpucoll_kernel_args &call)
        : words_(call.crew), latest_(call.done_value), asked_(false)
    {
    }

    /* The first cluster, whose time is over: do they leave? To be asked again until a call is heard. */
    __device__ __forceinline__ bool all_leave()
    {
        const uint32_t lane = threadIdx.x;
        const uint32_t clusters = cluster_count();
        if (clusters > 1 && !asked_) {
            say(0, ASKS);
            asked_ = true;
            return false;
        }
        const bool others = lane == 0 || lane >= clusters || load_relaxed(&words_[lane]) == word(ASKS);
        const bool leave = __all_sync(whole_warp, others);
        if (leave) {
            say(0, LEAVES);
        }
        return leave;
    }

    /* The first cluster has heard a call, or has failed at one. */
    __device__ __forceinline__ void end(bool leave)
    {
        if (leave || asked_) {
            say(0, leave ? LEAVES : STAYS);
        }
    }

    /* Another cluster, with what it has read of the first one's word. */
    __device__ __forceinline__ bool leaves(uint64_t said)
    {
        said = __shfl_sync(whole_warp, said, 0);
        if (said == word(ASKS)) {
            say(cluster_index(), ASKS);
            while (said == word(ASKS)) {
                said = __shfl_sync(whole_warp, load_relaxed(words_), 0);
            }
        }
        return said == word(LEAVES);
    }

  private:
    enum : uint32_t { ASKS = 1, STAYS, LEAVES };

    __device__ __forceinline__ uint64_t word(uint32_t what) const
    {
        return static_cast<uint64_t>(latest_) << 32 | what;
    }

    __device__ __forceinline__ void say(uint32_t cluster, uint32_t what) const
    {
        if (threadIdx.x == 0) {
            store_relaxed(&words_[cluster], word(what));
        }
    }

    uint64_t *words_;
    uint32_t latest_;
    bool asked_;
};

__device__ __forceinline__ heard_chunks told_to_leave()
{
    heard_chunks heard = {};
    heard.head.high = GPUCOLL_BELL_LEAVE;
    return heard;
}

/* The leading warp waits for a call after the latest: each lane gets its chunks, or such that say leave if none came. */
template <bool Runs> __device__ __forceinline__ heard_chunks hear_bell(const gpucoll_kernel_args &call)
{
    const bool first = cluster_index() == 0;
    parting party(call);
    const int64_t begin = clock64();
    for (;;) {
        heard_chunks heard = look_at_bell<Runs>(call);
        const uint64_t said = first ? 0 : load_relaxed(call.crew); /* is under way together with the chunks */
        if (is_whole<Runs>(call, heard)) {
            party.end(false);
            return heard;
        }
        const bool over = __any_sync(whole_warp, clock64() - begin > call.linger_clocks);
        if (first ? over && party.all_leave() : party.leaves(said)) {
            return told_to_leave();
        }
    }
}

/* Does this cluster have a part in the call? */
template <typename Calls>
__device__ __forceinline__ bool is_asked(const gpucoll_kernel_args &call, const heard_chunks &heard)
{
    const uint32_t bytes = __shfl_sync(whole_warp, value_of(heard.head), 0);
    const uint32_t kernel = __shfl_sync(whole_warp, value_of(heard.head), 1);
    return cluster_index() == 0 || kernel == GPUCOLL_BELL_LEAVE ||
           (cluster_index() < kernel >> 16 && !Calls::is_small(kernel & 0xffff, bytes, call.nranks));
}

/* The leading warp waits for a call that its cluster has a part in. */
template <typename Calls> __device__ __forceinline__ heard_chunks hear_call(linger_state &state, bool good)
{
    if (!good) {
        if (cluster_index() == 0) {
            parting(state.call).end(true);
        }
        return told_to_leave();
    }
    heard_chunks heard = hear_bell<Calls::has_runs>(state.call);
    while (!is_asked<Calls>(state.call, heard)) {
        __syncwarp();
        if (threadIdx.x == 0) {
            state.call.done_value = heard.sequence;
        }
        __syncwarp();
        heard = hear_bell<Calls::has_runs>(state.call);
    }
    return heard;
}

/* The leading warp gives the call that it heard to its whole cluster, or keeps it if it is small. */
template <typename Calls> __device__ __forceinline__ void give_call(linger_state &state, const heard_chunks &heard)
{
    const uint32_t lane = threadIdx.x;
    const uint32_t nranks = state.call.nranks;
    const uint32_t bytes = __shfl_sync(whole_warp, value_of(heard.head), 0);
    const uint32_t kernel = __shfl_sync(whole_warp, value_of(heard.head), 1);
    const bool leave = kernel == GPUCOLL_BELL_LEAVE;
    const uint32_t ctas = !leave && Calls::is_small(kernel & 0xffff, bytes, nranks) ? 1 : cluster_size();
    for (uint32_t cta = 0; cta < ctas; cta++) {
        if (lane < nranks + 2) {
            put_head(state, cta, lane, heard.head);
        }
        if (Calls::has_runs && !leave && lane < nranks) {
            put_run(state, cta, lane, heard);
        }
    }
    __syncwarp();
    if (lane == 0 && !leave) {
        state.call.done_value = heard.sequence;
    }
}

/* After its part of a call: the leader of each cluster tells the host, when all of that are done. False on a leader if anyone gave up. */
__device__ __forceinline__ bool end_call(linger_state &state, bool alone, bool failed)
{
    bool good = !__syncthreads_or(failed);
    if (!alone) {
        if (!good && threadIdx.x == 0) {
            store_cluster(&state.failed, 0, 1u);
        }
        cluster_barrier();
        good = !state.failed;
    }
    if (good && cluster_rank() == 0 && threadIdx.x == 0) {
        gpucoll_kernel_status *const status = state.call.status;
        fence_system();
        store_relaxed(cluster_index() == 0 ? &status->done : &status->done_beside[cluster_index() - 1], state.call.done_value);
        state.last = state.call.done_value;
    }
    return good;
}

/* Waits for the next call; false: there is none, the cluster ends. */
template <typename Calls> __device__ __forceinline__ bool next_call(linger_state &state, bool good)
{
    if (cluster_rank() != 0) {
        cluster_barrier();
        return state.call.kernel != GPUCOLL_BELL_LEAVE;
    }
    if (threadIdx.x < warp_threads) {
        __syncwarp();
        give_call<Calls>(state, hear_call<Calls>(state, good));
    }
    __syncthreads();
    const bool leave = state.call.kernel == GPUCOLL_BELL_LEAVE;
    if (leave && cluster_index() == 0 && threadIdx.x == 0) {
        store_release(&state.call.status->left, state.last);
    }
    if (leave || cluster_index() != 0 || !is_small<Calls>(state.call)) {
        cluster_barrier();
    }
    return !leave;
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
__device__ __forceinline__ void take_first_call(linger_state &state, const gpucoll_kernel_args &args,
                                                const gpucoll_kernel_runs *runs)
{
    copy_words(&state.call, &args, static_cast<uint32_t>(gpucoll_kernel_args_bytes(args.nranks)));
    if (Calls::has_runs) {
        copy_words(&state.runs, runs, static_cast<uint32_t>(gpucoll_kernel_runs_bytes(args.nranks)));
    }
    if (threadIdx.x == 0) {
        state.failed = 0;
        state.last = 0;
    }
    if (args.bell != nullptr) {
        cluster_barrier(); /* no CTA writes another's shared memory before that one has started */
    } else {
        __syncthreads();
    }
}

/* The kernel of the LL and LL128 calls: ends after one call, or lingers if it was given a bell. */
template <typename Calls>
__device__ __forceinline__ void lines_kernel(const gpucoll_kernel_args &args, const gpucoll_kernel_runs *runs)
{
    __shared__ linger_state state;
    if (!pass_gate(args)) { /* such a kernel does not linger */
        return;
    }
    take_first_call<Calls>(state, args, runs);
    const bool lingers = args.bell != nullptr;
    /* The first call came with the launch. (Not state.call: the leader may be at the second already.) */
    bool mine = !lingers || (cluster_rank() == 0 && cluster_index() == 0) || !is_small<Calls>(args);
    for (;;) {
        bool good = true;
        if (mine) {
            const bool alone = lingers && (cluster_size() == 1 || is_small<Calls>(state.call));
            const crew_share crew =
                lingers ? crew_share{cluster_index() * cluster_size() + cluster_rank(), state.call.clusters * cluster_size()}
                        : share_of_grid();
            const bool failed = !Calls::run(state.call, state.runs, alone ? crew_share{0, 1} : crew);
            if (!lingers) {
                finish(args, failed);
                return;
            }
            good = end_call(state, alone, failed);
        }
        mine = true;
        if (!next_call<Calls>(state, good)) {
            return;
        }
    }
}

} // namespace gpucoll

#endif
