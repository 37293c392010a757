/*
 * The LL protocol: a pack of 16 bytes travels as two lines of 16 bytes, {data, epoch, data, epoch}. Whoever reads a
 * line sees from the epochs whether it is complete, so data and flag arrive by one store and no fence is needed.
 * ("Demystifying NCCL", table I.) A source's area is two planes, one for each half of the packs, so that the lines which
 * the threads of a warp store together lie next to each other.
 */
#ifndef GPUCOLL_KERNELS_LL_CUH
#define GPUCOLL_KERNELS_LL_CUH

#include "kernels/pack.cuh"
#include "kernels/sync.cuh"

namespace gpucoll {

/* A pack's two lines, `plane` bytes apart. */
struct ll_lines {
    words first, second;

    /* One look. The loads of several packs can be in flight together; then `complete` and `value` say what they brought. */
    static __device__ __forceinline__ ll_lines look(const char *line, size_t plane)
    {
        return {load_words(line), load_words(line + plane)};
    }

    static __device__ __forceinline__ words line(uint32_t low, uint32_t high, uint32_t epoch)
    {
        return {static_cast<uint64_t>(epoch) << 32 | low, static_cast<uint64_t>(epoch) << 32 | high};
    }

    __device__ __forceinline__ bool complete(uint32_t epoch) const
    {
        return first.low >> 32 == epoch && first.high >> 32 == epoch && second.low >> 32 == epoch && second.high >> 32 == epoch;
    }

    __device__ __forceinline__ pack value() const
    {
        return make_uint4(static_cast<uint32_t>(first.low), static_cast<uint32_t>(first.high),
                          static_cast<uint32_t>(second.low), static_cast<uint32_t>(second.high));
    }
};

/* The LL area of one lane. */
class ll_area {
  public:
    __device__ __forceinline__ ll_area(void *lane, uint32_t plane)
        : base_(static_cast<char *>(lane) + GPUCOLL_FLAG_BYTES), plane_(plane)
    {
    }

    __device__ __forceinline__ void store(uint32_t source, uint64_t index, pack value, uint32_t epoch) const
    {
        store_if(true, source, index, value, epoch);
    }

    /* Without a branch. */
    __device__ __forceinline__ void store_if(bool wanted, uint32_t source, uint64_t index, pack value, uint32_t epoch) const
    {
        char *line = first_line(source, index);
        store_words_if(wanted, line, ll_lines::line(value.x, value.y, epoch));
        store_words_if(wanted, line + plane_, ll_lines::line(value.z, value.w, epoch));
    }

    __device__ __forceinline__ ll_lines look(uint32_t source, uint64_t index) const
    {
        return ll_lines::look(first_line(source, index), plane_);
    }

  private:
    __device__ __forceinline__ char *first_line(uint32_t source, uint64_t index) const
    {
        return base_ + source * 2 * plane_ + index * sizeof(words);
    }

    char *base_;
    uint32_t plane_; /* bytes of one of the two planes of a source */
};

} // namespace gpucoll

#endif
