/*
 * Bulk asynchronous copies between global and shared memory, by the copy engine of the SM (compute capability 9.0 and up): one thread
 * asks for many KiB at once, so that one CTA keeps enough bytes in flight to fill a good part of a link. The one place with their inline PTX.
 *
 *   loads    end at an mbarrier in shared memory, which counts the bytes that have come; whoever has waited for it sees them
 *   stores   are counted in groups of the thread that asks for them: that a group is read means that its shared memory may be used again,
 *            that it is complete, that what it has stored is visible to that thread; that it has arrived takes a fence of the system besides
 *   fence    the engine does not see what threads have stored into shared memory before each of them has passed `fence_bulk`
 */
#ifndef GPUCOLL_KERNELS_BULK_CUH
#define GPUCOLL_KERNELS_BULK_CUH

#include "kernels/sync.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

namespace gpucoll {

__device__ __forceinline__ uint32_t shared_address(const void *pointer)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/* A place in shared memory that is filled and emptied in turns, and how often: an mbarrier. */
class bulk_barrier {
  public:
    /* By one thread, with `bulk_barriers_ready` after the last. `arrivals` end a turn, and the bytes that they expect. */
    __device__ __forceinline__ void init(uint32_t arrivals)
    {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&word_)), "r"(arrivals) : "memory");
    }

    __device__ __forceinline__ void arrive()
    {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&word_)) : "memory");
    }

    __device__ __forceinline__ void arrive_expecting(uint32_t bytes)
    {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&word_)), "r"(bytes)
                     : "memory");
    }

    /* Has the turn of this parity ended? The first has parity 0; before it, that of parity 1 counts as ended. */
    __device__ __forceinline__ bool has_ended(uint32_t parity)
    {
        uint32_t ended;
        asm volatile("{\n\t.reg .pred p;\n\t"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, p;\n\t}"
                     : "=r"(ended)
                     : "r"(shared_address(&word_)), "r"(parity)
                     : "memory");
        return ended != 0;
    }

    /* The same without waiting for a moment whether it does. */
    __device__ __forceinline__ bool has_ended_by_now(uint32_t parity)
    {
        uint32_t ended;
        asm volatile("{\n\t.reg .pred p;\n\t"
                     "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, p;\n\t}"
                     : "=r"(ended)
                     : "r"(shared_address(&word_)), "r"(parity)
                     : "memory");
        return ended != 0;
    }

    /* Not given up: nothing but a fault of the device keeps a turn from ending, and a CTA must not end while copies into its shared memory are
     * on their way. */
    __device__ __forceinline__ void wait(uint32_t parity)
    {
        while (!has_ended(parity)) {
        }
    }

    __device__ __forceinline__ uint32_t address() const
    {
        return shared_address(&word_);
    }

  private:
    uint64_t word_;
};

/* Makes barriers that this thread has set up known to the copy engine; threads learn of them by a barrier of the CTA. */
__device__ __forceinline__ void bulk_barriers_ready()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* Addresses and bytes are multiples of 16. */
__device__ __forceinline__ void load_bulk(void *shared, const void *from, uint32_t bytes, const bulk_barrier &loaded)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(shared)),
                 "l"(from), "r"(bytes), "r"(loaded.address())
                 : "memory");
}

__device__ __forceinline__ void store_bulk(void *to, const void *shared, uint32_t bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(shared)),
                 "r"(bytes)
                 : "memory");
}

/* Ends a group of stores. */
__device__ __forceinline__ void commit_bulk()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Waits until all groups of this thread but the latest `Behind` are read. */
template <uint32_t Behind> __device__ __forceinline__ void wait_bulk_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Behind) : "memory");
}

/* Waits until all groups of this thread are complete. At peers they have arrived when a fence of the system has passed after that: by this thread, or by
 * another after a barrier, or after CTAs have counted each other (docs/design-direct.md, "When bulk stores have arrived"). */
__device__ __forceinline__ void wait_bulk_complete()
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/* Puts what this thread has stored into shared memory before what the copy engine is asked for later. Of shared memory alone: the fence of all memory
 * would wait for global stores as well. */
__device__ __forceinline__ void fence_bulk()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Lets it see what other threads, also of other devices, have stored before this one learned of it. Within a kernel: its beginning does as much. */
__device__ __forceinline__ void fence_bulk_global()
{
    asm volatile("fence.proxy.async.global;" ::: "memory");
}

/* A place in a ring of stages, and the parity of the turn there. */
struct ring_place {
    uint32_t stage;
    uint32_t parity;

    __device__ __forceinline__ void advance(uint32_t stages)
    {
        if (++stage == stages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

/* All of the CTA's dynamic shared memory. */
__device__ __forceinline__ char *shared_of_cta()
{
    extern __shared__ __align__(128) char gpucoll_shared[];
    return gpucoll_shared;
}

} // namespace gpucoll

#endif

#endif
