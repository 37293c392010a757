/*
 * The Simple protocol: plain stores into the slots of peers' lanes, then one fence and a flag for each peer. A channel is
 * one CTA on every rank; CTA c of a rank talks only to the CTAs c of the others, so that a grid makes progress however few of
 * its CTAs are resident.
 */
#ifndef GPUCOLL_KERNELS_SIMPLE_CUH
#define GPUCOLL_KERNELS_SIMPLE_CUH

#include "kernels/sync.cuh"

namespace gpucoll {

/* Phases of a round: whose data a flag announces. */
enum { PHASE_INPUT = 0, PHASE_RESULT = 1, PART_INPUT = 0, PART_RESULT = 1 };

/* After all threads of the CTA have stored to the peers' lanes: tells each peer so. The barrier puts those stores before the
 * fence of the one warp that writes the flags. `mine`: thread p says whether rank p is to be told. */
__device__ __forceinline__ void signal_peers(const gpucoll_kernel_args &args, uint32_t phase, uint64_t round,
                                             bool mine = true)
{
    __syncthreads();
    const uint32_t peer = threadIdx.x;
    if (mine && peer < args.nranks && peer != args.rank) {
        uint64_t *flags = static_cast<uint64_t *>(args.peer[peer].lane);
        fence_system();
        store_relaxed(&flags[gpucoll_flag_index(phase, blockIdx.x, args.rank)],
                      gpucoll_flag_value(args.peer[peer].epoch, round));
    }
}

/* By one thread: until the peer has signalled this round; its stores are seen by whoever meets this thread at a barrier. Only a flag of this very epoch
 * counts, so an epoch that wraps around does no harm. False if the wait was given up: `again` says after each look whether to go on. */
template <typename Again>
__device__ __forceinline__ bool wait_for_flag(const gpucoll_kernel_args &args, uint32_t phase, uint32_t peer, uint64_t round,
                                              Again again)
{
    const uint64_t *flag =
        static_cast<const uint64_t *>(args.peer[args.rank].lane) + gpucoll_flag_index(phase, blockIdx.x, peer);
    const uint64_t wanted = gpucoll_flag_value(args.peer[args.rank].epoch, round);
    for (;;) {
        const uint64_t seen = load_acquire(flag);
        if (seen >> 32 == wanted >> 32 && static_cast<uint32_t>(seen) >= static_cast<uint32_t>(wanted)) {
            return true;
        }
        if (!again()) {
            return false;
        }
    }
}

__device__ __forceinline__ bool wait_for_peer(const gpucoll_kernel_args &args, waiter &wait, uint32_t phase, uint32_t peer,
                                              uint64_t round)
{
    return wait_for_flag(args, phase, peer, round, [&] { return wait.again(peer); });
}

/* Waits until every peer has signalled this round. False on all threads if the wait was given up. The flags'
 * acquire and the barrier make the peers' stores visible to all threads of the CTA. `mine`: thread p says whether rank p is waited for. `failed`:
 * one says that it has given up already. */
__device__ __forceinline__ bool wait_for_peers(const gpucoll_kernel_args &args, uint32_t phase, uint64_t round,
                                               bool mine = true, bool failed = false)
{
    const uint32_t peer = threadIdx.x;
    if (mine && peer < args.nranks && peer != args.rank) {
        waiter wait(args.status);
        failed |= !wait_for_peer(args, wait, phase, peer, round);
    }
    return !__syncthreads_or(failed);
}

} // namespace gpucoll

#endif
