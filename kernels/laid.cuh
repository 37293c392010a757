/*
 * Packs of a run whose bytes lie apart in the user's memory, as a layout says (layout_abi.h), for kernels of which each thread has few packs: then
 * finding the bytes takes less than a kernel that packs them before (docs/design-calls.md, "Small calls are not packed").
 *
 * Layouts come and go in memory of the GPU while a kernel lingers, so they are read past L1, as messages are.
 */
#ifndef GPUCOLL_KERNELS_LAID_CUH
#define GPUCOLL_KERNELS_LAID_CUH

#include "kernels/crew.cuh"
#include "kernels/layout_abi.h"
#include "kernels/pack.cuh"

namespace gpucoll
{

constexpr uint32_t laid_words = GPUCOLL_PACK_BYTES / GPUCOLL_LAID_BYTES;

__device__ __forceinline__ ulonglong2 load_two(const void *from)
{
    return __ldcg(static_cast<const ulonglong2 *>(from));
}

/* Two words at a time; all are on their way at once, and stay in registers. */
__device__ __forceinline__ gpucoll_layout_view load_view(const gpucoll_layout_view *from)
{
    static_assert(offsetof(gpucoll_layout_dim, stride) == 16 && offsetof(gpucoll_layout_dim, shift) == 24 &&
                      sizeof(gpucoll_layout_dim) == 32 && offsetof(gpucoll_layout_view, dims) % 16 == 0 &&
                      offsetof(gpucoll_layout_view, bytes) % 16 == 0,
                  "words stand in twos");
    gpucoll_layout_view view;
    const ulonglong2 mean = load_two(&from->mean.bytes);
    const ulonglong2 mean_shift = load_two(&from->mean.stride);
    const ulonglong2 counts = load_two(&from->dims);
    const ulonglong2 runs = load_two(&from->bytes);
#pragma unroll
    for (uint32_t i = 0; i < GPUCOLL_LAYOUT_DIMS; i++) {
        const ulonglong2 low = load_two(&from->dim[i].bytes);
        const ulonglong2 high = load_two(&from->dim[i].stride);
        view.dim[i] = {low.x, low.y, static_cast<int64_t>(high.x), static_cast<uint32_t>(high.y), 0};
    }
    view.mean = {mean.x, mean.y, 0, static_cast<uint32_t>(mean_shift.y), 0};
    view.dims = static_cast<uint32_t>(counts.x);
    view.runs = static_cast<uint32_t>(counts.x >> 32);
    view.offset = static_cast<int64_t>(counts.y);
    view.bytes = runs.x;
    view.list = reinterpret_cast<const gpucoll_layout_run *>(runs.y);
    return view;
}

/* The bytes of one pack, in their order. */
class laid_pack
{
  public:
    __device__ __forceinline__ laid_pack(char *user, uint64_t bytes, const gpucoll_layout_view *layout,
                                         uint64_t index)
        : view_(load_view(layout)), user_(user), position_(index * GPUCOLL_PACK_BYTES),
          valid_(bytes_of_pack(bytes, index))
    {
        find();
    }

    /* They lie together, so many from `at` on. */
    __device__ __forceinline__ bool together() const { return left_ >= valid_; }

    __device__ __forceinline__ char *at() const { return at_; }

    __device__ __forceinline__ uint32_t valid() const { return valid_; }

    /* Word i of it, or nothing; i goes up. */
    __device__ __forceinline__ uint32_t *word(uint32_t i)
    {
        if (i * GPUCOLL_LAID_BYTES >= valid_) {
            return nullptr;
        }
        if (left_ == 0) {
            find();
        }
        uint32_t *const found = reinterpret_cast<uint32_t *>(at_);
        at_ += GPUCOLL_LAID_BYTES;
        left_ -= GPUCOLL_LAID_BYTES;
        position_ += GPUCOLL_LAID_BYTES;
        return found;
    }

  private:
    __device__ __forceinline__ void find()
    {
        uint64_t position = position_;
        at_ = user_;
#pragma unroll
        for (uint32_t i = 0; i < GPUCOLL_LAYOUT_DIMS; i++) {
            at_ += i < view_.dims ? gpucoll_layout_step(&view_.dim[i], &position) : 0;
        }
        at_ += gpucoll_layout_find_inside(&view_, position, true, &left_);
    }

    const gpucoll_layout_view view_;
    char *const user_;
    uint64_t position_; /* of the next word, packed */
    uint64_t left_;     /* bytes that lie together from at_ on */
    char *at_;
    const uint32_t valid_;
};

/* Out of line: the same for what is sent, received and kept. */
static __device__ __noinline__ pack load_laid(const void *user, uint64_t bytes,
                                              const gpucoll_layout_view *layout, uint64_t index)
{
    laid_pack from(static_cast<char *>(const_cast<void *>(user)), bytes, layout, index);
    if (from.together()) {
        return message(from.at(), from.valid()).load(0);
    }
    uint32_t word[laid_words];
#pragma unroll
    for (uint32_t i = 0; i < laid_words; i++) {
        const uint32_t *const at = from.word(i);
        word[i] = at != nullptr ? __ldcg(at) : 0;
    }
    return make_uint4(word[0], word[1], word[2], word[3]);
}

/* Where a pack of what is received belongs: found before the pack is there, so that nobody waits for it. */
class laid_place
{
  public:
    __device__ __forceinline__ laid_place(void *user, uint64_t bytes, const gpucoll_layout_view *layout,
                                          uint64_t index)
    {
        if (layout == nullptr) {
            at_[0] = static_cast<char *>(user) + index * GPUCOLL_PACK_BYTES;
            valid_ = bytes_of_pack(bytes, index);
            return;
        }
        laid_pack to(static_cast<char *>(user), bytes, layout, index);
        valid_ = to.together() ? to.valid() : 0;
        at_[0] = to.at();
#pragma unroll
        for (uint32_t i = 0; i < laid_words && valid_ == 0; i++) {
            at_[i] = reinterpret_cast<char *>(to.word(i));
        }
    }

    __device__ __forceinline__ void store(pack value) const
    {
        if (valid_ > 0) {
            message(at_[0], valid_).store(0, value);
            return;
        }
        const uint32_t word[laid_words] = {value.x, value.y, value.z, value.w};
#pragma unroll
        for (uint32_t i = 0; i < laid_words; i++) {
            if (at_[i] != nullptr) {
                *reinterpret_cast<uint32_t *>(at_[i]) = word[i];
            }
        }
    }

  private:
    char *at_[laid_words]; /* of each word */
    uint32_t valid_;       /* so many bytes lie together from the first on; 0: they lie apart */
};

/* The ends of runs that may have layouts, and what a rank keeps for itself. */
struct laid_runs {
    static __device__ __forceinline__ pack load(const gpucoll_kernel_runs &runs, uint32_t peer,
                                                uint64_t index)
    {
        const gpucoll_kernel_run &run = runs.run[peer];
        const gpucoll_layout_view *const layout = runs.layouts[peer].send;
        return layout != nullptr ? load_laid(run.send, run.send_bytes, layout, index)
                                 : message(run.send, run.send_bytes).load(index);
    }

    class place : public laid_place
    {
      public:
        __device__ __forceinline__ place(const gpucoll_kernel_runs &runs, uint32_t peer, uint64_t index)
            : laid_place(runs.run[peer].recv, runs.run[peer].recv_bytes, runs.layouts[peer].recv, index)
        {
        }
    };

    /* By the warps that come after those with the `sent` packs for peers, since it takes as long again. */
    static __device__ __forceinline__ void keep(const gpucoll_kernel_args &args,
                                                const gpucoll_kernel_runs &runs, crew_share, pack_share mine,
                                                uint32_t sent)
    {
        const gpucoll_kernel_run &own = runs.run[args.rank];
        const gpucoll_run_layouts &layouts = runs.layouts[args.rank];
        const uint32_t packs = own.send == own.recv && layouts.send == layouts.recv
                                   ? 0
                                   : static_cast<uint32_t>(packs_of(own.recv_bytes));
        const uint32_t after = (sent + warp_threads - 1) / warp_threads * warp_threads % mine.step;
        for (uint32_t index = (mine.begin + mine.step - after) % mine.step; index < packs;
             index += mine.step) {
            place(runs, args.rank, index).store(load(runs, args.rank, index));
        }
    }
};

} // namespace gpucoll

#endif
