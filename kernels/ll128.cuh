/*
 * The LL128 protocol: a line of 128 bytes, seven packs of data and one that carries the epoch, stored and loaded by eight
 * neighbouring threads of one warp at once. Where the link keeps such a store whole, a line whose epoch has arrived is complete:
 * the latency of LL with 7/8 of the link's bandwidth instead of half. (Thread 7 of each eight carries the epoch.)
 *
 * "At once" is one instruction of all eight. Some of them may have been elsewhere before, since thread 7 has no data to load and a
 * pack of an unaligned buffer is loaded out of line. They are brought together before each store and each load; but a barrier of a warp's
 * threads only has them wait for each other, it does not promise that they go on as one (docs/design.md, "Lines that are torn"). So who
 * stores looks whether they do, and who loads does so again once the epoch has been seen.
 */
#ifndef GPUCOLL_KERNELS_LL128_CUH
#define GPUCOLL_KERNELS_LL128_CUH

#include "kernels/pack.cuh"
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

__device__ __forceinline__ pack load_line(const char *from)
{
    const words value = load_words(from);
    return make_uint4(static_cast<uint32_t>(value.low), static_cast<uint32_t>(value.low >> 32),
                      static_cast<uint32_t>(value.high), static_cast<uint32_t>(value.high >> 32));
}

/* By all threads of a line. If they do not go on as one, the epoch is stored by itself, after the rest. */
__device__ __forceinline__ void store_line(char *to, pack value, uint32_t epoch)
{
    const pack out = carries_epoch() ? make_uint4(epoch, epoch, epoch, epoch) : value;
    const words line = {static_cast<uint64_t>(out.y) << 32 | out.x, static_cast<uint64_t>(out.w) << 32 | out.z};
    __syncwarp(line_mask());
    if ((__activemask() & line_mask()) == line_mask()) {
        store_words(to, line);
        return;
    }
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
    uint32_t rank;
    uint32_t nranks;
    uint32_t epoch;
    waiter wait;

    /* Loads line `line` of `Count` sources from `first` on, skipping the own rank, when all of them are complete; to be called
     * by whole warps. Threads with `present` false only keep step. False if the wait was given up. */
    template <uint32_t Count>
    __device__ __forceinline__ bool receive(uint32_t part, uint32_t first, uint32_t line, bool present, pack (&value)[Count])
    {
        for (;;) {
            uint32_t missing = nranks;
            look(part, first, line, present, value);
#pragma unroll
            for (uint32_t i = 0; i < Count; i++) {
                if (present && first + i < nranks && first + i != rank && carries_epoch() && value[i].x != epoch) {
                    missing = first + i;
                }
            }
            if (__all_sync(whole_warp, missing == nranks)) {
                look(part, first, line, present, value);
                return true;
            }
            const bool on = missing == nranks || wait.again(missing);
            if (!__all_sync(whole_warp, on)) {
                return false;
            }
        }
    }

    /* Likewise `Count` lines of one source that has the area to itself, from `line` on by `step`, of which those past `lines` are not waited for:
     * the last one is loaded in their place, since a branch could part the threads of a line. */
    template <uint32_t Count>
    __device__ __forceinline__ bool receive_lines(uint32_t source, uint32_t line, uint32_t step, uint32_t lines,
                                                  pack (&value)[Count])
    {
        for (;;) {
            bool complete = true;
            look_along(line, step, lines, value);
#pragma unroll
            for (uint32_t i = 0; i < Count; i++) {
                if (line + i * step < lines && carries_epoch() && value[i].x != epoch) {
                    complete = false;
                }
            }
            if (__all_sync(whole_warp, complete)) {
                look_along(line, step, lines, value);
                return true;
            }
            const bool on = complete || wait.again(source);
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
                if (first + i < nranks && first + i != rank) {
                    value[i] = load_line(layout.at(lane, part, first + i, line));
                }
            }
        }
    }

    template <uint32_t Count>
    __device__ __forceinline__ void look_along(uint32_t line, uint32_t step, uint32_t lines, pack (&value)[Count]) const
    {
        __syncwarp();
#pragma unroll
        for (uint32_t i = 0; i < Count; i++) {
            const uint32_t at = line + i * step < lines ? line + i * step : lines - 1;
            value[i] = load_line(layout.at(lane, 0, 0, at));
        }
    }
};

} // namespace gpucoll

#endif
