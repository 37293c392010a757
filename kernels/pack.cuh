/*
 * Packs of 16 bytes, the unit of work of one thread, between registers and memory. Scratch memory is always aligned
 * and whole. The user's buffers may start at any byte, and the last pack of a message may be partial: there a pack goes
 * by words or by bytes. Callers run an unrolled loop over the packs below `fast_end` and a plain one over the rest.
 */
#ifndef GPUCOLL_KERNELS_PACK_CUH
#define GPUCOLL_KERNELS_PACK_CUH

#include <cstdint>
#include "kernels/kernel_abi.h"

namespace gpucoll {

using pack = uint4;
static_assert(sizeof(pack) == GPUCOLL_PACK_BYTES, "a pack is one vector access");

__device__ __forceinline__ uint64_t packs_of(uint64_t bytes)
{
    return (bytes + GPUCOLL_PACK_BYTES - 1) / GPUCOLL_PACK_BYTES;
}

/* How many bytes pack `index` of a message has. */
__device__ __forceinline__ uint32_t bytes_of_pack(uint64_t bytes, uint64_t index)
{
    const uint64_t left = bytes - index * GPUCOLL_PACK_BYTES;
    return left < GPUCOLL_PACK_BYTES ? static_cast<uint32_t>(left) : GPUCOLL_PACK_BYTES;
}

/* Past L1: scratch is written by peers and each pack is read once. */
__device__ __forceinline__ pack load_pack(const void *from)
{
    return __ldcg(static_cast<const pack *>(from));
}

__device__ __forceinline__ void store_pack(void *to, pack value)
{
    *static_cast<pack *>(to) = value;
}

/* A pack of `bytes`, 4 to 16, that lie in whole words: the others come as zero. In line, so that several of them are on their way at once
 * and a message of a few elements, which has no whole pack, takes no longer than one that has. */
__device__ __forceinline__ pack load_whole_words(const char *from, uint32_t bytes)
{
    const uint32_t *const at = reinterpret_cast<const uint32_t *>(from);
    return make_uint4(__ldcg(at), bytes > 4 ? __ldcg(at + 1) : 0, bytes > 8 ? __ldcg(at + 2) : 0, bytes > 12 ? __ldcg(at + 3) : 0);
}

__device__ __forceinline__ void store_whole_words(char *to, pack value, uint32_t bytes)
{
    const uint32_t word[4] = {value.x, value.y, value.z, value.w};
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        if (4 * i < bytes) {
            reinterpret_cast<uint32_t *>(to)[i] = word[i];
        }
    }
}

/* Rarely run, and the same for every kernel: kept out of line for the size of the code. `bytes`: 1 to 16 that exist; the
 * others come as zero. Past L1 as well, where a kernel that lingers might find what an earlier call has read. */
static __device__ __noinline__ pack load_bytes(const char *from, uint32_t bytes)
{
    uint32_t word[4] = {0, 0, 0, 0};
    const bool aligned = reinterpret_cast<uintptr_t>(from) % 4 == 0;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        if (aligned && 4 * i + 4 <= bytes) {
            word[i] = __ldcg(reinterpret_cast<const uint32_t *>(from + 4 * i));
            continue;
        }
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            if (4 * i + j < bytes) {
                const uint32_t byte = __ldcg(reinterpret_cast<const unsigned char *>(from + 4 * i + j));
                word[i] |= byte << (8 * j);
            }
        }
    }
    return make_uint4(word[0], word[1], word[2], word[3]);
}

static __device__ __noinline__ void store_bytes(char *to, pack value, uint32_t bytes)
{
    const uint32_t word[4] = {value.x, value.y, value.z, value.w};
    const bool aligned = reinterpret_cast<uintptr_t>(to) % 4 == 0;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        if (aligned && 4 * i + 4 <= bytes) {
            *reinterpret_cast<uint32_t *>(to + 4 * i) = word[i];
            continue;
        }
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            if (4 * i + j < bytes) {
                to[4 * i + j] = static_cast<char>(word[i] >> (8 * j));
            }
        }
    }
}

/* A user's buffer as packs; pack i starts at byte 16 i of the message, wherever the buffer starts. */
class message {
  public:
    __device__ __forceinline__ message(const void *base, uint64_t bytes)
        : base_(static_cast<char *>(const_cast<void *>(base))), bytes_(bytes),
          fast_end_(reinterpret_cast<uintptr_t>(base) % GPUCOLL_PACK_BYTES == 0 ? bytes / GPUCOLL_PACK_BYTES : 0),
          whole_words_((reinterpret_cast<uintptr_t>(base) | bytes) % 4 == 0)
    {
    }

    /* Packs below this are aligned and whole: `at` gives an address for load_pack and store_pack. */
    __device__ __forceinline__ uint64_t fast_end() const
    {
        return fast_end_;
    }

    __device__ __forceinline__ char *at(uint64_t index) const
    {
        return base_ + index * GPUCOLL_PACK_BYTES;
    }

    __device__ __forceinline__ pack load(uint64_t index) const
    {
        if (index < fast_end_) {
            return load_pack(at(index));
        }
        return whole_words_ ? load_whole_words(at(index), valid(index)) : load_bytes(at(index), valid(index));
    }

    __device__ __forceinline__ void store(uint64_t index, pack value) const
    {
        if (index < fast_end_) {
            store_pack(at(index), value);
        } else if (whole_words_) {
            store_whole_words(at(index), value, valid(index));
        } else {
            store_bytes(at(index), value, valid(index));
        }
    }

  private:
    __device__ __forceinline__ uint32_t valid(uint64_t index) const
    {
        return bytes_of_pack(bytes_, index);
    }

    char *base_;
    uint64_t bytes_;
    uint64_t fast_end_;
    bool whole_words_; /* all packs */
};

} // namespace gpucoll

#endif
