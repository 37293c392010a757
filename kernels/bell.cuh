/*
 * Hearing a bell (bell_abi.h): by the leading warp of a CTA, which looks at it in host memory until it finds a call newer than the latest.
 *
 * A look takes 1.2 us of PCIe. By loads there is one at a time, since a warp waits for what it loads. By copies into shared memory two are on their
 * way, half a look apart, so that a call is heard sooner, and most so by the last of several CTAs or ranks (docs/design-linger.md, "Two looks at a time").
 * Copies need compute capability 9.0; and a fence of the GPU waits for those that are on their way, so calls shorter than a look are heard by loads.
 */
#ifndef GPUCOLL_KERNELS_BELL_CUH
#define GPUCOLL_KERNELS_BELL_CUH

#include "kernels/bell_abi.h"
#include "kernels/bulk.cuh"
#include "kernels/sync.cuh"

namespace gpucoll {

static_assert(GPUCOLL_BELL_MAX_RANKS + 2 <= warp_threads, "a chunk of each row for each lane of the leading warp");
static_assert(2 + (GPUCOLL_BELL_LAYOUT_ROWS + 1) * GPUCOLL_BELL_MAX_RANKS <= GPUCOLL_BELL_CHUNKS, "room for all rows");
static_assert(GPUCOLL_BELL_MAX_RANKS <= GPUCOLL_MAX_LOCAL, "a run and a peer for each rank that a bell can name");

constexpr bool looks_after_others = true;

/* What a lane of the leading warp has found: its chunk of the first row, and of those that follow the ones of rank `lane`. */
template <uint32_t Rows> struct heard_chunks {
    words head;
    words row[Rows > 0 ? Rows : 1];
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

/* A lane's chunks of a bell, or of a copy of one. All rows are loaded before one is used: one after another they would take several round trips. */
template <uint32_t Rows, typename Load>
__device__ __forceinline__ heard_chunks<Rows> chunks_of_lane(uint32_t nranks, const gpucoll_bell_chunk *chunk, Load load)
{
    const uint32_t lane = threadIdx.x;
    heard_chunks<Rows> heard = {};
    if (lane < nranks + 2) {
        heard.head = load(&chunk[lane]);
    }
    if constexpr (Rows > 0) {
#pragma unroll
        for (uint32_t i = 0; i < Rows && lane < nranks; i++) {
            heard.row[i] = load(&chunk[gpucoll_bell_chunk_of(nranks, i, lane)]);
        }
    }
    return heard;
}

/* What the first CTA has said of leaving; it does not read that itself. */
__device__ __forceinline__ uint64_t said_by_first(const gpucoll_kernel_args &call)
{
    return blockIdx.x == 0 ? 0 : load_acquire(call.crew);
}

/* Are the chunks of all rows of that call? */
template <uint32_t Rows> __device__ __forceinline__ bool has_rows(const heard_chunks<Rows> &heard, uint32_t sequence)
{
    bool whole = true;
    if constexpr (Rows > 0) {
#pragma unroll
        for (uint32_t i = 0; i < Rows; i++) {
            whole &= sequence_of(heard.row[i]) == sequence;
        }
    }
    return whole;
}

/* Is that all of a call that is newer than the latest? */
template <uint32_t Rows> __device__ __forceinline__ bool is_whole(const gpucoll_kernel_args &call, heard_chunks<Rows> &heard)
{
    const uint32_t lane = threadIdx.x;
    const uint32_t sequence = __shfl_sync(whole_warp, sequence_of(heard.head), 0);
    heard.sequence = sequence;
    bool whole = static_cast<int32_t>(sequence - call.done_value) > 0 &&
                 __all_sync(whole_warp, lane >= call.nranks + 2 || sequence_of(heard.head) == sequence);
    if (Rows > 0 && whole && __shfl_sync(whole_warp, value_of(heard.head), 1) != GPUCOLL_BELL_LEAVE) {
        whole = __all_sync(whole_warp, lane >= call.nranks || has_rows(heard, sequence));
    }
    return whole;
}

template <uint32_t Rows> struct bell_looks;

/*
 * How a bell is looked at, by one object for each wait for a call:
 *   ask()              one more look, if it is time for one
 *   next(heard, said)  has a look come that was not given out yet? What it has found, and what lane 0 knew before it was asked of what the
 *                      first CTA says (linger.cuh)
 *   end()              the last
 */
template <uint32_t Rows> class bell_by_loads {
  public:
    __device__ __forceinline__ bell_by_loads(const gpucoll_kernel_args &call, bell_looks<Rows> &) : call_(call), before_(0), said_(0)
    {
    }

    __device__ __forceinline__ void ask()
    {
        heard_ = chunks_of_lane<Rows>(call_.nranks, call_.bell[blockIdx.x].chunk, load_words);
        before_ = said_;
        said_ = said_by_first(call_);
    }

    __device__ __forceinline__ bool next(heard_chunks<Rows> &heard, uint64_t &said)
    {
        heard = heard_;
        said = before_;
        return true;
    }

    __device__ __forceinline__ void end()
    {
    }

  private:
    const gpucoll_kernel_args &call_;
    heard_chunks<Rows> heard_;
    uint64_t before_;
    uint64_t said_;
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/* Measured (docs/design-linger.md): more looks hinder each other, first those of large crews and of ranks that share a GPU. */
constexpr uint32_t looks_under_way = 2;
constexpr int64_t clocks_between_looks = 1200;
/* After a call that ends with a fence of the system by its last CTA: the fence waits for looks of all others (docs/design-direct.md). */
constexpr int64_t clocks_before_looks = 3600;

/* In each CTA's shared memory, kept from one wait to the next. */
template <uint32_t Rows> struct bell_looks {
    __align__(16) gpucoll_bell_chunk chunk[looks_under_way][2 + (Rows + 1) * GPUCOLL_BELL_MAX_RANKS];
    bulk_barrier come[looks_under_way];
    uint64_t said[looks_under_way];
    uint32_t asked; /* looks, in all */
    uint32_t taken;
};

/* By one thread, before a barrier of the CTA. */
template <uint32_t Rows> __device__ __forceinline__ void open_looks(bell_looks<Rows> &looks)
{
    for (uint32_t i = 0; i < looks_under_way; i++) {
        looks.come[i].init(1);
    }
    bulk_barriers_ready();
    looks.asked = 0;
    looks.taken = 0;
}

template <uint32_t Rows> __device__ __forceinline__ bool has_come(bell_looks<Rows> &looks, uint32_t look)
{
    return looks.come[look % looks_under_way].has_ended_by_now(look / looks_under_way & 1);
}

/* By one thread of a CTA that ends, which it must not before what is copied into its memory has come. */
template <uint32_t Rows> __device__ __forceinline__ void close_looks(bell_looks<Rows> &looks)
{
    while (looks.taken != looks.asked) {
        looks.taken += has_come(looks, looks.taken) ? 1 : 0;
    }
}

/* Looks that were under way when the call before was heard are still there, and find nothing: a call is rung after the end of the one before. `After`: the
 * first look waits, for other CTAs have not ended yet. */
template <uint32_t Rows, bool After = false> class bell_by_copies {
  public:
    __device__ __forceinline__ bell_by_copies(const gpucoll_kernel_args &call, bell_looks<Rows> &looks)
        : call_(call), looks_(looks), asked_(looks.asked), taken_(looks.taken), asked_at_(clock64() + (After ? clocks_before_looks : 0) - clocks_between_looks),
          said_(0)
    {
    }

    __device__ __forceinline__ void ask()
    {
        const int64_t now = clock64();
        const bool due = asked_ - taken_ < looks_under_way && now - asked_at_ >= clocks_between_looks;
        if (!__any_sync(whole_warp, due)) { /* the lanes' clocks may differ */
            return;
        }
        if (threadIdx.x == 0) {
            const uint32_t slot = asked_ % looks_under_way;
            const uint32_t bytes = gpucoll_bell_chunks(call_.nranks, Rows) * static_cast<uint32_t>(sizeof(gpucoll_bell_chunk));
            looks_.said[slot] = said_;
            looks_.come[slot].arrive_expecting(bytes);
            load_bulk(looks_.chunk[slot], call_.bell[blockIdx.x].chunk, bytes, looks_.come[slot]);
        }
        asked_++;
        asked_at_ = now;
        said_ = said_by_first(call_);
    }

    __device__ __forceinline__ bool next(heard_chunks<Rows> &heard, uint64_t &said)
    {
        const uint32_t slot = taken_ % looks_under_way;
        if (asked_ == taken_ || !__all_sync(whole_warp, has_come(looks_, taken_))) {
            return false;
        }
        heard = chunks_of_lane<Rows>(call_.nranks, looks_.chunk[slot], load_copied);
        said = looks_.said[slot];
        taken_++;
        __syncwarp(); /* all have read the slot before it is asked for again */
        return true;
    }

    __device__ __forceinline__ void end()
    {
        __syncwarp(); /* all have read them */
        if (threadIdx.x == 0) {
            looks_.asked = asked_;
            looks_.taken = taken_;
        }
    }

  private:
    static __device__ __forceinline__ words load_copied(const void *from)
    {
        const ulonglong2 pair = *static_cast<const ulonglong2 *>(from);
        return {pair.x, pair.y};
    }

    const gpucoll_kernel_args &call_;
    bell_looks<Rows> &looks_;
    uint32_t asked_;
    uint32_t taken_;
    int64_t asked_at_;
    uint64_t said_;
};

#else

template <uint32_t Rows> struct bell_looks {};

template <uint32_t Rows> __device__ __forceinline__ void open_looks(bell_looks<Rows> &)
{
}

template <uint32_t Rows> __device__ __forceinline__ void close_looks(bell_looks<Rows> &)
{
}

template <uint32_t Rows, bool After = false> using bell_by_copies = bell_by_loads<Rows>;

#endif

} // namespace gpucoll

#endif
