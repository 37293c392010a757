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
    uint32_t leave;
    uint32_t failed; /* of the leader: a CTA of the crew gave up */
    uint32_t last;   /* of the leader: the done_value of the latest call that succeeded */
};

__device__ __forceinline__ uint64_t clock_ns()
{
    uint64_t value;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value));
    return value;
}

/* The leading warp waits for the call after state.call and puts it there; otherwise sets state.leave. */
__device__ __forceinline__ void poll_bell(linger_state &state)
{
    gpucoll_kernel_args &call = state.call;
    const uint32_t lane = threadIdx.x;
    const uint32_t next = call.done_value + 1;
    const bool used = lane < call.nranks + 2;
    const uint64_t until = clock_ns() + call.linger_ns;
    for (;;) {
        words chunk = {0, static_cast<uint64_t>(next) << 32};
        if (used) {
            chunk = load_words(&call.bell->chunk[lane]);
        }
        if (__all_sync(whole_warp, static_cast<uint32_t>(chunk.high >> 32) == next)) {
            const uint32_t value = static_cast<uint32_t>(chunk.high);
            if (lane == 0) {
                call.send = reinterpret_cast<const void *>(chunk.low);
                call.bytes = value;
                call.done_value = next;
            } else if (lane == 1) {
                call.recv = reinterpret_cast<void *>(chunk.low);
                call.kernel = value;
                state.leave = value == GPUCOLL_BELL_LEAVE;
            } else if (used) {
                call.lane[lane - 2] = reinterpret_cast<void *>(chunk.low);
                call.epoch[lane - 2] = value;
            }
            return;
        }
        const bool late = __shfl_sync(whole_warp, clock_ns() > until, 0);
        if (late) {
            if (lane == 0) {
                state.leave = 1;
            }
            return;
        }
    }
}

template <typename Op> __device__ __forceinline__ bool run_call(const gpucoll_kernel_args &args, crew_share share)
{
    return args.kernel == GPUCOLL_KERNEL_ONESHOT ? allreduce_oneshot<Op>(args, share) : allreduce_ll128<Op>(args, share);
}

/* Is the call done by the leader alone? Up to two packs a thread that takes less time than the crew's two barriers. */
__device__ __forceinline__ bool is_small(const gpucoll_kernel_args &call)
{
    return call.kernel == GPUCOLL_KERNEL_ONESHOT && call.bytes <= 2 * blockDim.x * GPUCOLL_PACK_BYTES;
}

/* The leader's shared call, to all the others, and the barrier that starts it. */
__device__ __forceinline__ void hand_on(linger_state &state)
{
    uint32_t *const call = reinterpret_cast<uint32_t *>(&state.call);
    for (uint32_t cta = 1; cta < cluster_size(); cta++) {
        for (uint32_t i = threadIdx.x; i < call_words; i += blockDim.x) {
            store_cluster(&call[i], cta, call[i]);
        }
        if (threadIdx.x == 0) {
            store_cluster(&state.leave, cta, state.leave);
        }
    }
    cluster_barrier();
}

/* After its part of a call: the leader tells the host, when all are done. False on the leader if anyone gave up. */
__device__ __forceinline__ bool end_call(linger_state &state, bool alone, bool failed)
{
    if (__syncthreads_or(failed) && threadIdx.x == 0) {
        store_cluster(&state.failed, 0, 1);
    }
    if (alone) {
        __syncthreads();
    } else {
        cluster_barrier();
    }
    const bool good = cluster_rank() != 0 || !state.failed;
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
        return !state.leave;
    }
    if (threadIdx.x < warp_threads && good) {
        __syncwarp();
        poll_bell(state);
    } else if (threadIdx.x == 0) {
        state.leave = 1;
    }
    __syncthreads();
    const bool leave = state.leave;
    if (leave && threadIdx.x == 0) {
        store_release(&state.call.status->left, state.last);
    }
    if (leave || !is_small(state.call)) {
        hand_on(state);
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
        state.leave = 0;
        state.failed = 0;
        state.last = 0;
    }
    const bool lingers = args.bell != nullptr;
    if (lingers) {
        cluster_barrier(); /* no CTA writes another's shared memory before that one has started */
    } else {
        __syncthreads();
    }
    bool mine = !lingers || cluster_rank() == 0 || !is_small(state.call); /* the first call came with the launch */
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
