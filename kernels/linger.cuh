/*
 * Kernels that linger: after a call the kernel stays for a bounded time and takes further calls from a bell in host memory
 * (kernel_abi.h), which spares each of them the launch. The first CTA of the crew leads: its first warp polls the bell, copies the
 * call into every CTA's shared memory, and the crew's barrier starts it. A call small enough for the leader's threads is done
 * by the leader alone, while the others sleep in the barrier.
 *
 * Leaving: the leader alone decides, and says in status->left which call was its last. The host, having rung the bell, looks at
 * `done` and at `left`; if the kernel left before it heard the bell, the host launches it anew with the call.
 */
#ifndef GPUCOLL_KERNELS_LINGER_CUH
#define GPUCOLL_KERNELS_LINGER_CUH

#include "kernels/allreduce_ll128.cuh"
#include "kernels/allreduce_oneshot.cuh"

namespace gpucoll {

constexpr uint32_t warp_threads = 32;
constexpr uint32_t call_words = sizeof(gpucoll_kernel_args) / sizeof(uint32_t);
static_assert(sizeof(gpucoll_kernel_args) % sizeof(uint32_t) == 0, "a call is copied by words");
static_assert(GPUCOLL_BELL_CHUNKS == warp_threads, "a chunk for each lane of the leading warp");

/* In each CTA's shared memory. */
struct linger_state {
    gpucoll_kernel_args call;
    uint32_t failed; /* of the leader: a CTA of the crew gave up */
    uint32_t last;   /* of the leader: the done_value of the latest call that succeeded */
};

/* Is the call done by the leader alone? Up to a pack a thread that takes less time than the crew's two barriers. */
__device__ __forceinline__ bool is_small(uint32_t kernel, uint64_t bytes)
{
    return kernel == GPUCOLL_KERNEL_ONESHOT && bytes <= blockDim.x * GPUCOLL_PACK_BYTES;
}

__device__ __forceinline__ bool is_small(const gpucoll_kernel_args &call)
{
    return is_small(call.kernel, call.bytes);
}

/* What lane `lane` of the leading warp has heard, into the call of CTA `cta`. */
__device__ __forceinline__ void put_chunk(linger_state &state, uint32_t cta, uint32_t lane, words chunk)
{
    static_assert(offsetof(gpucoll_kernel_args, bytes) == 8 && offsetof(gpucoll_kernel_args, recv) == 16 &&
                      offsetof(gpucoll_kernel_args, kernel) == 24,
                  "a call begins with two chunks");
    char *const head = reinterpret_cast<char *>(&state.call) + lane * sizeof(gpucoll_bell_chunk);
    char *const to = lane < 2 ? head : reinterpret_cast<char *>(&state.call.peer[lane - 2]);
    store_cluster(reinterpret_cast<uint64_t *>(to), cta, chunk.low);
    store_cluster(reinterpret_cast<uint32_t *>(to) + 2, cta, static_cast<uint32_t>(chunk.high));
}

/* The leading warp waits for the call after the latest: each lane gets its chunk, or one that says leave if none came. */
__device__ __forceinline__ words hear_bell(const gpucoll_kernel_args &call)
{
    const uint32_t lane = threadIdx.x;
    const uint32_t next = call.done_value + 1;
    const bool used = lane < call.nranks + 2;
    const int64_t begin = clock64();
    for (;;) {
        words chunk = {0, static_cast<uint64_t>(next) << 32};
        if (used) {
            chunk = load_words(&call.bell->chunk[lane]);
        }
        if (__all_sync(whole_warp, static_cast<uint32_t>(chunk.high >> 32) == next)) {
            return chunk;
        }
        if (__any_sync(whole_warp, clock64() - begin > call.linger_clocks)) {
            return {0, GPUCOLL_BELL_LEAVE};
        }
    }
}

/* The leading warp gives the call that it heard to the whole crew, or to the leader alone if it is small. */
__device__ __forceinline__ void give_call(linger_state &state, words chunk)
{
    const uint32_t lane = threadIdx.x;
    const uint32_t next = state.call.done_value + 1;
    const uint32_t bytes = __shfl_sync(whole_warp, static_cast<uint32_t>(chunk.high), 0);
    const uint32_t kernel = __shfl_sync(whole_warp, static_cast<uint32_t>(chunk.high), 1);
    const uint32_t ctas = is_small(kernel, bytes) ? 1 : cluster_size();
    if (lane < state.call.nranks + 2) {
        for (uint32_t cta = 0; cta < ctas; cta++) {
            put_chunk(state, cta, lane, chunk);
        }
    }
    __syncwarp();
    if (lane == 0) {
        state.call.done_value = next;
    }
}

template <typename Op> __device__ __forceinline__ bool run_call(const gpucoll_kernel_args &args, crew_share share)
{
    return args.kernel == GPUCOLL_KERNEL_ONESHOT ? allreduce_oneshot<Op>(args, share) : allreduce_ll128<Op>(args, share);
}

/* After its part of a call: the leader tells the host, when all are done. False on the leader if anyone gave up. */
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
        fence_system();
        store_relaxed(&state.call.status->done, state.call.done_value);
        state.last = state.call.done_value;
    }
    return good;
}

/* Waits for the next call; false: there is none, the crew ends. */
__device__ __forceinline__ bool next_call(linger_state &state, bool good)
{
    if (cluster_rank() != 0) {
        cluster_barrier();
        return state.call.kernel != GPUCOLL_BELL_LEAVE;
    }
    if (threadIdx.x < warp_threads) {
        __syncwarp();
        give_call(state, good ? hear_bell(state.call) : words{0, GPUCOLL_BELL_LEAVE});
    }
    __syncthreads();
    const bool leave = state.call.kernel == GPUCOLL_BELL_LEAVE;
    if (leave && threadIdx.x == 0) {
        store_release(&state.call.status->left, state.last);
    }
    if (leave || !is_small(state.call)) {
        cluster_barrier();
    }
    return !leave;
}

/* The kernel of the LL and LL128 calls: ends after one call, or lingers if it was given a bell. */
template <typename Op> __device__ __forceinline__ void lines_kernel(const gpucoll_kernel_args &args)
{
    __shared__ linger_state state;
    for (uint32_t i = threadIdx.x; i < call_words; i += blockDim.x) {
        reinterpret_cast<uint32_t *>(&state.call)[i] = reinterpret_cast<const uint32_t *>(&args)[i];
    }
    if (threadIdx.x == 0) {
        state.failed = 0;
        state.last = 0;
    }
    const bool lingers = args.bell != nullptr;
    if (lingers) {
        cluster_barrier(); /* no CTA writes another's shared memory before that one has started */
    } else {
        __syncthreads();
    }
    /* The first call came with the launch. (Not state.call: the leader may be at the second already.) */
    bool mine = !lingers || cluster_rank() == 0 || !is_small(args);
    for (;;) {
        bool good = true;
        if (mine) {
            const bool alone = lingers && (cluster_size() == 1 || is_small(state.call));
            const crew_share crew = {lingers ? cluster_rank() : blockIdx.x, lingers ? cluster_size() : gridDim.x};
            const bool failed = !run_call<Op>(state.call, alone ? crew_share{0, 1} : crew);
            if (!lingers) {
                finish(args, failed);
                return;
            }
            good = end_call(state, alone, failed);
        }
        mine = true;
        if (!next_call(state, good)) {
            return;
        }
    }
}

} // namespace gpucoll

#endif
