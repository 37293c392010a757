/*
 * How ranks see each other's stores: the one place with inline PTX. Everything here has system scope, since the
 * other side is another GPU or the host.
 *
 *   flags        written by the source rank after a release, read by the owner of the lane with acquire
 *   LL lines     carry their own epoch in every 8-byte word, so they need neither release nor acquire
 *   status       host memory: `done` released by the kernel, what the host wrote read relaxed, the rest written relaxed
 */
#ifndef GPUCOLL_KERNELS_SYNC_CUH
#define GPUCOLL_KERNELS_SYNC_CUH

#include <cstddef>
#include <cstdint>
#include "kernels/kernel_abi.h"

namespace gpucoll {

constexpr uint32_t warp_threads = 32;
constexpr uint32_t whole_warp = 0xffffffffu;

/* Orders everything this thread has written, or has seen written across a CTA barrier, before what it writes next. */
__device__ __forceinline__ void fence_system()
{
    asm volatile("fence.acq_rel.sys;" ::: "memory");
}

/* The same for what was written to this GPU's own memory: whoever looks there later, copy engines and other GPUs as well, does so through the
 * second-level cache, where it then is. The fence of the system waits for loads of host memory besides, also those of other SMs, and PTX
 * promises the order to the host of that one only: so this is for results that the host does not read itself (docs/design-linger.md). */
__device__ __forceinline__ void fence_device()
{
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

__device__ __forceinline__ void store_relaxed(uint64_t *to, uint64_t value)
{
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}

__device__ __forceinline__ void store_relaxed(uint32_t *to, uint32_t value)
{
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

__device__ __forceinline__ void store_release(uint32_t *to, uint32_t value)
{
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

__device__ __forceinline__ uint32_t load_relaxed(const uint32_t *from)
{
    uint32_t value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}

__device__ __forceinline__ uint64_t load_relaxed(const uint64_t *from)
{
    uint64_t value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
    return value;
}

__device__ __forceinline__ uint64_t load_acquire(const uint64_t *from)
{
    uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
    return value;
}

/* Counts CTAs of one kernel, or of one call: device scope is enough, what follows it releases to the system. */
__device__ __forceinline__ uint32_t fetch_add_device(uint32_t *counter, uint32_t value)
{
    uint32_t old;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(counter), "r"(value) : "memory");
    return old;
}

/* Two words of 8 bytes in one 16-byte access. Each word arrives whole; the two may arrive apart. They say themselves whether they
 * have arrived, and nothing else is ordered by them: so there is no "memory" here, which would make the compiler load
 * everything else anew after each. */
struct words {
    uint64_t low, high;
};

__device__ __forceinline__ void store_words(void *to, words value)
{
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(value.low), "l"(value.high));
}

/* Without a branch, which could part the threads of a warp. */
__device__ __forceinline__ void store_words_if(bool wanted, void *to, words value)
{
    asm volatile("{\n\t"
                 ".reg .pred wanted;\n\t"
                 "setp.ne.u32 wanted, %3, 0;\n\t"
                 "@wanted st.relaxed.sys.global.v2.u64 [%0], {%1, %2};\n\t"
                 "}" ::"l"(to), "l"(value.low), "l"(value.high), "r"(static_cast<uint32_t>(wanted)));
}

__device__ __forceinline__ words load_words(const void *from)
{
    words value;
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(value.low), "=l"(value.high)
                 : "l"(from));
    return value;
}

/* Was the kernel given up before it began? Some microsecond of PCIe, in which who need not know at once does other things. */
__device__ __forceinline__ uint32_t ask_whether_given_up(const gpucoll_kernel_status *status)
{
    return load_relaxed(&status->begin[blockIdx.x % GPUCOLL_BEGIN_LINES].abort);
}

/* A wait for one peer at a time, bounded by the host: every few thousand looks it asks whether the host wants kernels to give
 * up. A look takes about half a microsecond, the question crosses PCIe and takes two. Where `clocks` are given, it gives up by itself after so many. */
class waiter {
  public:
    static constexpr int64_t no_limit = INT64_MAX;

    __device__ __forceinline__ explicit waiter(gpucoll_kernel_status *status, int64_t clocks = no_limit)
        : status_(status), looks_(0), end_(clocks == no_limit ? no_limit : clock64() + clocks)
    {
    }

    /* To be called after each look that found nothing; false: give up, the kernel's result is void. */
    __device__ __forceinline__ bool again(uint32_t source)
    {
        if (end_ != no_limit && clock64() > end_) {
            return false;
        }
        if (++looks_ % looks_per_question != 0) {
            return true;
        }
        if (load_relaxed(&status_->abort) == 0) {
            return true;
        }
        store_relaxed(&status_->stuck_rank, source + 1);
        return false;
    }

  private:
    static constexpr uint32_t looks_per_question = 4096;

    gpucoll_kernel_status *status_;
    uint32_t looks_;
    int64_t end_;
};

/* Ends what `ctas` CTAs have shared, of arguments that have `status`, `arrived` and `done_value`: to be called by all threads of each of them once,
 * `failed` where the thread gave up a wait; `retreated` is the same on all. The last CTA tells the host. The CTA barrier, the acq_rel count and the
 * release make every CTA's stores visible to whoever reads `done` with acquire. The counter is left at zero for what the stream runs next. False if
 * a thread of this CTA failed. */
template <typename Args>
__device__ __forceinline__ bool finish_shared(const Args &args, uint32_t ctas, bool failed, bool retreated = false)
{
    constexpr uint32_t one_failed = 1u << 16; /* above the largest count of CTAs */
    static_assert(GPUCOLL_MAX_CHANNELS < one_failed, "a count of CTAs fits below the count of failures");
    const bool any = __syncthreads_or(failed);
    if (threadIdx.x != 0) {
        return !any;
    }
    uint32_t total = any ? one_failed + 1 : 1;
    if (ctas > 1) {
        total += fetch_add_device(args.arrived, total);
        if (total % one_failed != ctas) {
            return !any;
        }
        store_relaxed(args.arrived, 0);
    }
    if (total < one_failed) {
        store_release(retreated ? &args.status->retreated : &args.status->done, args.done_value);
    }
    return !any;
}

/* Ends a kernel. */
template <typename Args> __device__ __forceinline__ void finish(const Args &args, bool failed, bool retreated = false)
{
    (void)finish_shared(args, gridDim.x, failed, retreated);
}

/* What the host has said, in the gate's word GPUCOLL_GATE_SAID. */
enum : uint32_t { GATE_SHUT, GATE_OPEN, GATE_LEAVE, GATE_ABORT };

/* What the host says to the kernel now. One look for all of it: each crosses PCIe. */
__device__ __forceinline__ uint32_t ask_host(const gpucoll_kernel_args &args)
{
    static_assert(offsetof(gpucoll_kernel_status, abort) == 0 && offsetof(gpucoll_kernel_status, go) == 4 &&
                      offsetof(gpucoll_kernel_status, leave) == 8,
                  "read together");
    const words said = load_words(args.status);
    if (static_cast<uint32_t>(said.low >> 32) == args.done_value) {
        return GATE_OPEN;
    }
    if (static_cast<uint32_t>(said.high) == args.done_value) {
        return GATE_LEAVE;
    }
    return static_cast<uint32_t>(said.low) != 0 ? GATE_ABORT : GATE_SHUT;
}

/* By a thread of the CTA that came first: tells the host who has come, and returns what it says. It may tell the kernel to leave before all of
 * its CTAs have found a place. */
__device__ __forceinline__ uint32_t mind_gate(const gpucoll_kernel_args &args)
{
    constexpr uint32_t looks_a_question = 64; /* the other CTAs come within a microsecond or two, if there is room */
    bool ready = false;
    uint32_t said;
    store_relaxed(&args.status->began, args.done_value);
    do {
#pragma unroll 1 /* else it is sixty-four times in every kernel */
        for (uint32_t look = 0; !ready && look < looks_a_question; look++) {
            ready = load_relaxed(&args.gate[GPUCOLL_GATE_RESIDENT]) == gridDim.x;
            if (ready) {
                store_relaxed(&args.status->ready, args.done_value);
            }
        }
        said = ask_host(args);
    } while (said == GATE_SHUT);
    return said;
}

/* By one thread of each CTA. */
__device__ __forceinline__ uint32_t wait_at_gate(const gpucoll_kernel_args &args)
{
    uint32_t said = GATE_SHUT;
    if (fetch_add_device(&args.gate[GPUCOLL_GATE_RESIDENT], 1) == 0) {
        said = mind_gate(args);
        store_relaxed(&args.gate[GPUCOLL_GATE_SAID], said);
    }
    while (said == GATE_SHUT) {
        said = load_relaxed(&args.gate[GPUCOLL_GATE_SAID]);
    }
    /* The last to have heard it, when all have come, shuts the gate for the next kernel of the stream. */
    if (fetch_add_device(&args.gate[GPUCOLL_GATE_HEARD], 1) + 1 == gridDim.x) {
        store_relaxed(&args.gate[GPUCOLL_GATE_RESIDENT], 0);
        store_relaxed(&args.gate[GPUCOLL_GATE_SAID], GATE_SHUT);
        store_relaxed(&args.gate[GPUCOLL_GATE_HEARD], 0);
    }
    return said;
}

/*
 * The gate of a kernel that waits for those of other ranks: before it stores anything, all of its CTAs are to be resident, and the host, told so,
 * says whether to go on. So of all ranks either every kernel goes on, and then none lacks a CTA, or none does: a kernel whose peers cannot start
 * ends, and is launched again (core/gate.h says why it must). To be called first, by all threads; false: the kernel has ended, there is
 * nothing to do.
 */
__device__ __forceinline__ bool pass_gate(const gpucoll_kernel_args &args)
{
    if (args.gate == nullptr) {
        return true;
    }
    __shared__ uint32_t heard;
    if (threadIdx.x == 0) {
        heard = wait_at_gate(args);
    }
    __syncthreads();
    const uint32_t said = heard;
    if (said != GATE_OPEN) {
        finish(args, said == GATE_ABORT, said == GATE_LEAVE);
    }
    return said == GATE_OPEN;
}

} // namespace gpucoll

#endif
