/*
 * A few bytes between the memory of the GPU and its host, by a kernel of one warp that lingers (linger.cuh): a bell heard and an answer seen take
 * 2.5 us, where a copy engine takes 6 to 7. What is fetched goes to the host in words that say themselves whose they are, as those of LL do, so nothing
 * has to be waited for but the words; what is delivered has come with the bell.
 */
#ifndef GPUCOLL_KERNELS_COURIER_CUH
#define GPUCOLL_KERNELS_COURIER_CUH

#include "kernels/linger.cuh"
#include "kernels/pack.cuh"

namespace gpucoll {

static_assert(GPUCOLL_COURIER_CHUNKS <= GPUCOLL_BELL_MAX_RANKS, "the bytes come in the chunks of ranks");
static_assert(GPUCOLL_COURIER_CHUNK % sizeof(uint32_t) == 0 &&
                  offsetof(gpucoll_kernel_peer, epoch) + sizeof(uint32_t) == GPUCOLL_COURIER_CHUNK,
              "a chunk is a peer's lane and epoch");

struct courier_calls {
    static constexpr uint32_t rows = GPUCOLL_BELL_NO_ROWS;
    static constexpr bool reaches_peers = false;
    using bell = bell_by_loads<rows>; /* its calls are short */

    static __device__ __forceinline__ bool is_small(uint32_t, uint64_t, uint32_t, uint32_t)
    {
        return true;
    }

    static __device__ __forceinline__ bool run_by_warp(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs)
    {
        return run(args, runs, crew_share{0, 1});
    }

    static __device__ __forceinline__ bool run(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &, crew_share)
    {
        const uint32_t bytes = static_cast<uint32_t>(args.bytes);
        for (uint32_t i = threadIdx.x; i * sizeof(uint32_t) < bytes; i += warp_threads) {
            const uint32_t left = bytes - i * static_cast<uint32_t>(sizeof(uint32_t));
            if (args.kernel == GPUCOLL_KERNEL_FETCH) {
                const uint32_t data = load(static_cast<const char *>(args.send) + i * sizeof(uint32_t), left);
                store_relaxed(&args.status->fetched[i], static_cast<uint64_t>(args.done_value) << 32 | data);
            } else {
                store(static_cast<char *>(args.recv) + i * sizeof(uint32_t), delivered(args, i), left);
            }
        }
        return true;
    }

  private:
    static __device__ __forceinline__ bool is_word(const char *at, uint32_t left)
    {
        return left >= sizeof(uint32_t) && reinterpret_cast<uintptr_t>(at) % sizeof(uint32_t) == 0;
    }

    static __device__ __forceinline__ uint32_t load(const char *from, uint32_t left)
    {
        return is_word(from, left) ? __ldcg(reinterpret_cast<const uint32_t *>(from))
                                   : load_bytes(from, left < sizeof(uint32_t) ? left : static_cast<uint32_t>(sizeof(uint32_t))).x;
    }

    static __device__ __forceinline__ void store(char *to, uint32_t value, uint32_t left)
    {
        if (is_word(to, left)) {
            *reinterpret_cast<uint32_t *>(to) = value;
        } else {
            store_bytes(to, make_uint4(value, 0, 0, 0), left < sizeof(uint32_t) ? left : static_cast<uint32_t>(sizeof(uint32_t)));
        }
    }

    static __device__ __forceinline__ uint32_t delivered(const gpucoll_kernel_args &args, uint32_t index)
    {
        constexpr uint32_t of_a_chunk = GPUCOLL_COURIER_CHUNK / sizeof(uint32_t);
        return reinterpret_cast<const uint32_t *>(&args.peer[index / of_a_chunk])[index % of_a_chunk];
    }
};

} // namespace gpucoll

#endif
