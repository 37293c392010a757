/*
 * The LL128 protocol: a line of 128 bytes, seven packs of data and one that carries the epoch, stored and loaded by eight
 * neighbouring threads of one warp at once. Where the link keeps such a store whole, a line whose epoch has arrived is complete:
 * the latency of LL with 7/8 of the link's bandwidth instead of half. (Thread 7 of each eight carries the epoch.)
 *
 * "At once" is one instruction of all eight. Some of them may have been elsewhere before, since thread 7 has no data to load and a
 * pack of an unaligned buffer is loaded out of line. They are brought together before each store and each load; but a barrier of a warp's
 * threads only has them wait for each other, it does not promise that they go on as one (docs/design-protocols.md, "Lines that are torn"). So who
 * stores looks whether they do, and who loads does so again once the epoch has been seen.
 */
#ifndef GPUCOLL_KERNELS_LL128_CUH
#define GPUCOLL_KERNELS_LL128_CUH

#include "kernels/crew.cuh"
#include "kernels/pack.cuh"
#include "kernels/ranks.cuh"
#include "kernels/sync.cuh"

namespace gpucoll {

constexpr uint32_t line_threads = 8;
constexpr uint32_t lines_per_warp = 4;

/* This thread's place in its line. */
__device__ __forceinline__ uint32_t line_thread()
{
    return threadIdx.x % line_threads;
}

/* The threads of this thread's line, as a mask of its warp. */
__device__ __forceinline__ uint32_t line_mask()
{
    return 0xffu << (threadIdx.x % warp_threads / line_threads * line_threads);
}

__device__ __forceinline__ bool carries_epoch()
{
    return line_thread() == GPUCOLL_LINE_PACKS;
}

/* So many lines and those beside them, so that warps stay whole. */
__device__ __forceinline__ uint32_t whole_warps(uint32_t lines)
{
    return (lines + lines_per_warp - 1) / lines_per_warp * lines_per_warp;
}

/* Which lines are a thread's: every `step`-th from `begin` on. The threads of a warp have neighbouring ones. */
struct line_share {
    uint32_t begin;
    uint32_t step;
};

__device__ __forceinline__ line_share lines_of_share(crew_share share)
{
    return {(share.cta * blockDim.x + threadIdx.x) / line_threads, share.ctas * blockDim.x / line_threads};
}

__device__ __forceinline__ pack load_line(const char *from)
{
    const words value = load_words(from);
    return make_uint4(static_cast<uint32_t>(value.low), static_cast<uint32_t>(value.low >> 32),
                      static_cast<uint32_t>(value.high), static_cast<uint32_t>(value.high >> 32));
}

/* Of threads that do not go on as one: the epoch by itself, after the rest. */
static __device__ __noinline__ void store_parted_line(char *to, words line)
{
    if (!carries_epoch()) {
        store_words(to, line);
        fence_system();
    }
    __syncwarp(line_mask());
    if (carries_epoch()) {
        fence_system();
        store_words(to, line);
    }
}

/* By whole warps; threads whose line is not `present` only keep step. `wave`: what goes with the epoch. */
__device__ __forceinline__ void store_line_of_wave(char *to, pack value, uint32_t epoch, uint32_t wave, bool present)
{
    const pack out = carries_epoch() ? make_uint4(epoch, wave, epoch, epoch) : value;
    const words line = {static_cast<uint64_t>(out.y) << 32 | out.x, static_cast<uint64_t>(out.w) << 32 | out.z};
    __syncwarp();
    if (__activemask() == whole_warp) {
        store_words_if(present, to, line);
    } else if (present) {
        store_parted_line(to, line);
    }
}

__device__ __forceinline__ void store_line(char *to, pack value, uint32_t epoch, bool present)
{
    store_line_of_wave(to, value, epoch, epoch, present);
}

/* Where the lines lie in a lane, the same in every lane. */
class ll128_layout {
  public:
    __device__ __forceinline__ explicit ll128_layout(uint32_t nranks)
        : nranks_(nranks), block_(gpucoll_ll128_capacity(nranks) * GPUCOLL_LINE_BYTES),
          mine_(static_cast<uint32_t>(gpucoll_ll128_offset(nranks, 0, 0)) + line_thread() * GPUCOLL_PACK_BYTES)
    {
    }

    /* This thread's 16 bytes of line `line` in the block (part, source). */
    __device__ __forceinline__ char *at(void *lane, uint32_t part, uint32_t source, uint32_t line) const
    {
        return static_cast<char *>(lane) + mine_ + (part * nranks_ + source) * block_ + line * GPUCOLL_LINE_BYTES;
    }

  private:
    uint32_t nranks_;
    uint32_t block_;
    uint32_t mine_;
};

/* The lines that peers store into the lane of this rank. */
struct ll128_inbox {
    ll128_layout layout;
    void *lane;
    uint32_t sources; /* who stores lines here: a set without this rank */
    uint32_t epoch;
    waiter wait;

    /* Loads line `line` of those of `Count` ranks from `first` on that are sources, when all of them are complete; to be called
     * by whole warps. Threads with `present` false only keep step. False if the wait was given up. */
    template <uint32_t Count>
    __device__ __forceinline__ bool receive(uint32_t part, uint32_t first, uint32_t line, bool present, pack (&value)[Count])
    {
        for (;;) {
            uint32_t missing = no_rank;
            look(part, first, line, present, value);
#pragma unroll
            for (uint32_t i = 0; i < Count; i++) {
                if (present && is_in(sources, first + i) && carries_epoch() && value[i].x != epoch) {
                    missing = first + i;
                }
            }
            if (__all_sync(whole_warp, missing == no_rank)) {
                look(part, first, line, present, value);
                return true;
            }
            const bool on = missing == no_rank || wait.again(missing);
            if (!__all_sync(whole_warp, on)) {
                return false;
            }
        }
    }

  private:
    template <uint32_t Count>
    __device__ __forceinline__ void look(uint32_t part, uint32_t first, uint32_t line, bool present, pack (&value)[Count]) const
    {
        __syncwarp();
        if (present) {
#pragma unroll
            for (uint32_t i = 0; i < Count; i++) {
                if (is_in(sources, first + i)) {
                    value[i] = load_line(layout.at(lane, part, first + i, line));
                }
            }
        }
    }
};

} // namespace gpucoll

#endif
