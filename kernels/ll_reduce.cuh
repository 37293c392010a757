/*
 * Reduction over LL: one pack of what a set of ranks contribute, of this rank its own, of the others what they have sent.
 */
#ifndef GPUCOLL_KERNELS_LL_REDUCE_CUH
#define GPUCOLL_KERNELS_LL_REDUCE_CUH

#include "kernels/ll.cuh"
#include "kernels/ranks.cuh"
#include "kernels/reduce_ops.cuh"

namespace gpucoll {

constexpr uint32_t ll_batch = 4; /* ranks whose lines are loaded together; of calls of two ranks, those two */

/*
 * The packs `index` of `sources`, reduced in rank order; by whole warps. False if the wait was given up. When it returns, all lanes have read
 * what they contribute: then they may store the result in its place.
 *
 * Lines are loaded without asking whether there are any, in place of those that a batch has none of some other rank's: behind a condition each
 * would be waited for before the next.
 */
template <uint32_t Batch, typename Op>
__device__ __forceinline__ bool reduce_lines(const Op &op, const gpucoll_kernel_args &args, uint32_t plane, uint32_t sources, uint64_t index,
                                             pack own, waiter &wait, pack *result)
{
    const ll_area inbox(args.peer[args.rank].lane, plane);
    const uint32_t epoch = args.peer[args.rank].epoch;
    const uint32_t others = sources & ~(1u << args.rank);
    const uint32_t other = __ffs(static_cast<int>(others)) - 1;
    const auto source_of = [&](uint32_t rank) { return is_in(others, rank) ? rank : other; };
    pack sum = own;
    bool any = false;
    for (uint32_t first = 0; others != 0 && first < args.nranks; first += Batch) {
        ll_lines lines[Batch];
        for (;;) {
#pragma unroll
            for (uint32_t i = 0; i < Batch; i++) {
                lines[i] = inbox.look(source_of(first + i), index);
            }
            uint32_t missing = args.nranks;
#pragma unroll
            for (uint32_t i = 0; i < Batch; i++) {
                if (!lines[i].complete(epoch)) {
                    missing = source_of(first + i);
                }
            }
            if (__all_sync(whole_warp, missing == args.nranks)) {
                break;
            }
            const bool on = missing == args.nranks || wait.again(missing);
            if (!__all_sync(whole_warp, on)) {
                return false;
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < Batch; i++) {
            if (is_in(sources, first + i)) {
                const pack value = first + i == args.rank ? own : lines[i].value();
                sum = any ? reduce(op, sum, value) : value;
                any = true;
            }
        }
    }
    __syncwarp();
    *result = sum;
    return true;
}

} // namespace gpucoll

#endif
