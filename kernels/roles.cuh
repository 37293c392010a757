/*
 * Steps of a CTA that are waited for and flagged. A fence takes microseconds, and the data of a step some twenty or less, so those who move
 * data do not wait for it. The warps have three roles, and meet twice a step at barriers of their own:
 *
 *   waiter   waits for what the step needs: input that is there, slots that are free     GO
 *   movers   wait at GO, move the step's data, and go on                                 GO, DONE
 *   poster   waits at DONE; then a fence, and the flags that tell of the step            DONE, GO
 *
 * The poster has part in GO before its fence of the step before: so the movers are one step ahead of its flags, at most, and no barrier is
 * arrived at twice in a turn. The waiter, one step ahead of the movers, waits for no barrier of the poster: what it waits for may depend
 * on flags of earlier steps. If it gives up it says in which step, the first being 1, since the others may be a step behind it
 * when they look; they end with that step.
 */
#ifndef GPUCOLL_KERNELS_ROLES_CUH
#define GPUCOLL_KERNELS_ROLES_CUH

#include "kernels/sync.cuh"

namespace gpucoll {

/* Barriers of a CTA; number 0 is that of __syncthreads. `threads` are those that sync and arrive together. */
enum : uint32_t { BARRIER_GO = 1, BARRIER_DONE = 2 };

__device__ __forceinline__ void barrier_sync(uint32_t barrier, uint32_t threads)
{
    asm volatile("barrier.cta.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ void barrier_arrive(uint32_t barrier, uint32_t threads)
{
    asm volatile("barrier.cta.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/* A flag that a lane of the poster raises. */
struct posted_flag {
    uint64_t *at; /* NULL: none */
    uint64_t value;
};

/*
 * `Steps` has
 *   bool next()            to the next step, of which there may be none: on all threads alike, before all that follows
 *   bool wait()            by the waiter's lanes; false on a lane that has given up
 *   posted_flag flag()     by the poster's lanes
 *   void move()            by the movers, threads from GPUCOLL_SERVICE_THREADS on, each in step with the others only by these steps
 */
template <typename Steps> __device__ __forceinline__ void wait_for_steps(Steps &steps, volatile uint32_t &given_up)
{
    bool good = true;
    for (uint32_t number = 1; good && steps.next(); number++) {
        good = __all_sync(whole_warp, steps.wait());
        if (!good && threadIdx.x == 0) {
            given_up = number;
        }
        barrier_sync(BARRIER_GO, blockDim.x);
    }
}

template <typename Steps> __device__ __forceinline__ void post_steps(Steps &steps, volatile uint32_t &given_up)
{
    const uint32_t threads = blockDim.x - warp_threads; /* all but the waiter's */
    bool more = steps.next();
    if (more) {
        barrier_arrive(BARRIER_GO, blockDim.x);
    }
    for (uint32_t number = 1; more; number++) {
        const posted_flag flag = steps.flag();
        barrier_sync(BARRIER_DONE, threads);
        if (given_up == number) {
            return;
        }
        more = steps.next();
        if (more) {
            barrier_arrive(BARRIER_GO, blockDim.x);
        }
        if (flag.at != nullptr) {
            fence_system();
            store_relaxed(flag.at, flag.value);
        }
    }
}

template <typename Steps> __device__ __forceinline__ void move_steps(Steps &steps, volatile uint32_t &given_up)
{
    const uint32_t threads = blockDim.x - warp_threads;
    for (uint32_t number = 1; steps.next(); number++) {
        barrier_sync(BARRIER_GO, blockDim.x);
        if (given_up != number) {
            steps.move();
        }
        barrier_arrive(BARRIER_DONE, threads);
        if (given_up == number) {
            return;
        }
    }
}

/* By all threads of a CTA, at least GPUCOLL_SERVICE_THREADS + 32. False on all of them if a wait was given up. */
template <typename Steps> __device__ __forceinline__ bool run_in_roles(Steps &steps)
{
    __shared__ volatile uint32_t given_up;
    if (threadIdx.x == 0) {
        given_up = 0;
    }
    __syncthreads();
    if (threadIdx.x < warp_threads) {
        wait_for_steps(steps, given_up);
    } else if (threadIdx.x < GPUCOLL_SERVICE_THREADS) {
        post_steps(steps, given_up);
    } else {
        move_steps(steps, given_up);
    }
    __syncthreads();
    return given_up == 0;
}

} // namespace gpucoll

#endif
