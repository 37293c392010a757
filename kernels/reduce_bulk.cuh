/*
 * Reduces what lies in the buffers of all ranks, in rank order, and stores the result into the buffers of those that want it: all by bulk
 * copies of the SM's own copy engine, so that few CTAs fill the links (docs/design-direct.md). Waits for nobody: all ranks have arrived before it is
 * launched or rung for, and each element is read and then written by one rank alone, in place too.
 *
 * Shared memory is a ring of stages, each with a tile of every rank. A tile goes through three hands:
 *
 *   loader    a warp: waits until a stage is free, asks for the tiles of all ranks
 *   groups    of four warps, in turns: wait until the tiles have come, and reduce them in the place of the first; tiles come in any order, but a
 *             stage is always the same group's (gpucoll_bulk_stages)
 *   storer    a warp: asks for the result to be stored to all, and frees a stage whose stores are read
 *
 * The stages go round and round, from one call to the next of a kernel that lingers.
 */
#ifndef GPUCOLL_KERNELS_REDUCE_BULK_CUH
#define GPUCOLL_KERNELS_REDUCE_BULK_CUH

#include "kernels/bulk.cuh"
#include "kernels/linger.cuh"
#include "kernels/pack.cuh"
#include "kernels/ranks.cuh"
#include "kernels/reduce_ops.cuh"
#include "kernels/sync.cuh"

namespace gpucoll {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

constexpr uint32_t bulk_service_threads = 64;      /* a warp for the loader, one for the storer */
constexpr uint32_t bulk_group_threads = 128;
constexpr uint32_t bulk_unroll = 4;                /* packs of a thread */
static_assert(GPUCOLL_BULK_MAX_STAGES % GPUCOLL_BULK_GROUPS == 0, "a stage is always the same group's");
static_assert(GPUCOLL_BULK_THREADS == bulk_service_threads + GPUCOLL_BULK_GROUPS * bulk_group_threads, "");
constexpr uint32_t bulk_behind = 2;                /* tiles whose stores need not be read yet when the next are asked for */

/* In each CTA's shared memory, kept from one call to the next. */
struct bulk_stages {
    bulk_barrier loaded[GPUCOLL_BULK_MAX_STAGES];
    bulk_barrier reduced[GPUCOLL_BULK_MAX_STAGES];
    bulk_barrier unused[GPUCOLL_BULK_MAX_STAGES];
    ring_place next; /* of the next call's first tile */
};

__device__ __forceinline__ bulk_stages &stages_of_cta()
{
    __shared__ bulk_stages stages;
    return stages;
}

/* The tiles of this CTA, one after the other, and the stage that each takes. */
class bulk_tiles {
  public:
    __device__ __forceinline__ bulk_tiles(const gpucoll_kernel_args &args, crew_share share, ring_place first)
        : tile_(gpucoll_bulk_tile_bytes(args.nranks)), stages_(gpucoll_bulk_stages(args.nranks)), nranks_(args.nranks),
          ctas_(share.ctas), end_(args.bytes / GPUCOLL_PACK_BYTES * GPUCOLL_PACK_BYTES),
          at_(static_cast<uint64_t>(share.cta) * tile_), place_(first)
    {
    }

    __device__ __forceinline__ bool any() const
    {
        return at_ < end_;
    }

    __device__ __forceinline__ void next()
    {
        at_ += static_cast<uint64_t>(ctas_) * tile_;
        count_++;
        place_.advance(stages_);
    }

    /* Where in the message, and how long. */
    __device__ __forceinline__ uint64_t at() const
    {
        return at_;
    }

    __device__ __forceinline__ uint32_t bytes() const
    {
        return end_ - at_ < tile_ ? static_cast<uint32_t>(end_ - at_) : tile_;
    }

    __device__ __forceinline__ uint32_t count() const
    {
        return count_;
    }

    __device__ __forceinline__ uint32_t stage() const
    {
        return place_.stage;
    }

    /* Of the turn of a barrier of the stage. */
    __device__ __forceinline__ uint32_t parity() const
    {
        return place_.parity;
    }

    __device__ __forceinline__ ring_place in_ring() const
    {
        return place_;
    }

    __device__ __forceinline__ char *place(char *shared, uint32_t rank) const
    {
        return shared + (place_.stage * nranks_ + rank) * tile_;
    }

  private:
    uint32_t tile_;
    uint32_t stages_;
    uint32_t nranks_;
    uint32_t ctas_;
    uint64_t end_;
    uint64_t at_;
    ring_place place_;
    uint32_t count_ = 0;
};

/* By the first warp, a lane for each rank. */
__device__ __forceinline__ void load_tiles(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs, bulk_tiles tile,
                                           bulk_stages &stages, char *shared)
{
    const uint32_t rank = threadIdx.x % warp_threads;
    const bool loads = rank < args.nranks;
    const uint32_t nranks = args.nranks;
    const char *const from = loads ? static_cast<const char *>(runs.run[rank].send) : nullptr;
    fence_bulk_global();
    for (; tile.any(); tile.next()) {
        bulk_barrier &loaded = stages.loaded[tile.stage()];
        if (rank == 0) {
            stages.unused[tile.stage()].wait(tile.parity() ^ 1);
            loaded.arrive_expecting(tile.bytes() * nranks);
        }
        __syncwarp();
        if (loads) {
            load_bulk(tile.place(shared, rank), from + tile.at(), tile.bytes(), loaded);
        }
    }
    if (rank == 0) {
        stages.next = tile.in_ring();
    }
}

template <typename Op>
__device__ __forceinline__ void reduce_tile(const Op &op, const bulk_tiles &tile, uint32_t nranks, char *shared, uint32_t thread)
{
    const uint32_t packs = tile.bytes() / GPUCOLL_PACK_BYTES;
    pack *const first = reinterpret_cast<pack *>(tile.place(shared, 0));
    for (uint32_t at = thread; at < packs; at += bulk_unroll * bulk_group_threads) {
        pack sum[bulk_unroll];
#pragma unroll
        for (uint32_t i = 0; i < bulk_unroll; i++) {
            sum[i] = at + i * bulk_group_threads < packs ? first[at + i * bulk_group_threads] : make_uint4(0, 0, 0, 0);
        }
        for (uint32_t rank = 1; rank < nranks; rank++) {
            const pack *const from = reinterpret_cast<const pack *>(tile.place(shared, rank));
#pragma unroll
            for (uint32_t i = 0; i < bulk_unroll; i++) {
                if (at + i * bulk_group_threads < packs) {
                    sum[i] = reduce(op, sum[i], from[at + i * bulk_group_threads]);
                }
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < bulk_unroll; i++) {
            if (at + i * bulk_group_threads < packs) {
                first[at + i * bulk_group_threads] = sum[i];
            }
        }
    }
}

template <typename Op>
__device__ __forceinline__ void reduce_tiles(const gpucoll_kernel_args &args, bulk_tiles tile, bulk_stages &stages, char *shared)
{
    const uint32_t group = (threadIdx.x - bulk_service_threads) / bulk_group_threads;
    const uint32_t thread = (threadIdx.x - bulk_service_threads) % bulk_group_threads;
    const Op op(args.variant);
    for (; tile.any(); tile.next()) {
        if (tile.stage() % GPUCOLL_BULK_GROUPS != group) {
            continue;
        }
        stages.loaded[tile.stage()].wait(tile.parity());
        reduce_tile(op, tile, args.nranks, shared, thread);
        fence_bulk();
        __syncwarp();
        if (threadIdx.x % warp_threads == 0) {
            stages.reduced[tile.stage()].arrive();
        }
    }
}

/* All lanes' stores of the tile are read. */
__device__ __forceinline__ void free_stage(bulk_stages &stages, bulk_tiles &read, uint32_t lane)
{
    __syncwarp();
    if (lane == 0) {
        stages.unused[read.stage()].arrive();
    }
    read.next();
}

/* By the second warp, a lane for each rank. */
__device__ __forceinline__ void store_tiles(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs, bulk_tiles tile,
                                            bulk_stages &stages, char *shared)
{
    const uint32_t lane = threadIdx.x % warp_threads;
    char *const to = lane < args.nranks ? static_cast<char *>(runs.run[rank_after(args, lane)].recv) : nullptr;
    bulk_tiles read = tile; /* the oldest tile whose stores may not be read yet */
    for (; tile.any(); tile.next()) {
        stages.reduced[tile.stage()].wait(tile.parity());
        if (to != nullptr) {
            store_bulk(to + tile.at(), tile.place(shared, 0), tile.bytes());
        }
        commit_bulk();
        if (tile.count() >= bulk_behind) {
            wait_bulk_read<bulk_behind>();
            free_stage(stages, read, lane);
        }
    }
    wait_bulk_complete();
    while (read.any()) {
        free_stage(stages, read, lane);
    }
}

/* The last elements, less than a pack of them. */
template <typename Op>
__device__ __forceinline__ void reduce_rest(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs)
{
    const uint64_t last = args.bytes / GPUCOLL_PACK_BYTES;
    const Op op(args.variant);
    pack sum = message(runs.run[0].send, args.bytes).load(last);
    for (uint32_t rank = 1; rank < args.nranks; rank++) {
        sum = reduce(op, sum, message(runs.run[rank].send, args.bytes).load(last));
    }
    for (uint32_t rank = 0; rank < args.nranks; rank++) {
        if (runs.run[rank].recv != nullptr) {
            message(runs.run[rank].recv, args.bytes).store(last, sum);
        }
    }
}

/* A CTA's part. */
template <typename Op>
__device__ __forceinline__ void reduce_bulk(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs, crew_share share)
{
    bulk_stages &stages = stages_of_cta();
    char *const shared = shared_of_cta();
    const bulk_tiles tile(args, share, stages.next);
    __syncthreads(); /* all have read where the stages go on */
    if (threadIdx.x < warp_threads) {
        load_tiles(args, runs, tile, stages, shared);
    } else if (threadIdx.x < bulk_service_threads) {
        store_tiles(args, runs, tile, stages, shared);
    } else {
        reduce_tiles<Op>(args, tile, stages, shared);
    }
    if (threadIdx.x == bulk_service_threads && share.cta == 0 && args.bytes % GPUCOLL_PACK_BYTES != 0) {
        reduce_rest<Op>(args, runs);
    }
}

/* By one thread, with a barrier of the CTA before the first call. */
__device__ __forceinline__ void prepare_stages(const gpucoll_kernel_args &args)
{
    bulk_stages &stages = stages_of_cta();
    for (uint32_t i = 0; i < gpucoll_bulk_stages(args.nranks); i++) {
        stages.loaded[i].init(1);
        stages.reduced[i].init(bulk_group_threads / warp_threads);
        stages.unused[i].init(1);
    }
    bulk_barriers_ready();
    stages.next = {0, 0};
}

#else

/* Never launched: the host asks the device first. */
template <typename Op>
__device__ __forceinline__ void reduce_bulk(const gpucoll_kernel_args &, const gpucoll_kernel_runs &, crew_share)
{
}

__device__ __forceinline__ void prepare_stages(const gpucoll_kernel_args &)
{
}

#endif

/* The calls of a kernel that lingers (linger.cuh). */
template <typename Op> struct bulk_calls : whole_cta_calls {
    static __device__ __forceinline__ bool run(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs, crew_share share)
    {
        reduce_bulk<Op>(args, runs, share);
        return true;
    }
};

template <typename Op> __device__ __forceinline__ void bulk_kernel(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs)
{
    if (threadIdx.x == 0) {
        prepare_stages(args);
    }
    crew_kernel<bulk_calls<Op>>(args, &runs);
}

} // namespace gpucoll

#endif
