/*
 * Reduces what lies in the buffers of all ranks, in rank order, and stores the result into the buffers of those that want it: all by bulk
 * copies of the SM's own copy engine, so that few CTAs fill the links (docs/design.md). Waits for nobody: all ranks have arrived before it is
 * launched, and each element is read and then written by one rank alone, in place too.
 *
 * Shared memory is a ring of stages, each with a tile of every rank. A tile goes through three hands:
 *
 *   loader    one thread: waits until a stage is free, asks for the tiles of all ranks
 *   groups    of four warps, in turns: wait until the tiles have come, and reduce them in the place of the first; tiles come in any order, but a
 *             stage is always the same group's (gpucoll_bulk_stages)
 *   storer    one thread: asks for the result to be stored to all, and frees a stage whose stores are read
 */
#ifndef GPUCOLL_KERNELS_REDUCE_BULK_CUH
#define GPUCOLL_KERNELS_REDUCE_BULK_CUH

#include "kernels/bulk.cuh"
#include "kernels/pack.cuh"
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

struct bulk_stages {
    bulk_barrier loaded[GPUCOLL_BULK_MAX_STAGES];
    bulk_barrier reduced[GPUCOLL_BULK_MAX_STAGES];
    bulk_barrier unused[GPUCOLL_BULK_MAX_STAGES];
};

/* The tiles of this CTA, one after the other, and the stage that each takes. */
class bulk_tiles {
  public:
    __device__ __forceinline__ explicit bulk_tiles(const gpucoll_kernel_args &args)
        : tile_(gpucoll_bulk_tile_bytes(args.nranks)), stages_(gpucoll_bulk_stages(args.nranks)), nranks_(args.nranks),
          end_(args.bytes / GPUCOLL_PACK_BYTES * GPUCOLL_PACK_BYTES), at_(static_cast<uint64_t>(blockIdx.x) * tile_)
    {
    }

    __device__ __forceinline__ bool any() const
    {
        return at_ < end_;
    }

    __device__ __forceinline__ void next()
    {
        at_ += static_cast<uint64_t>(gridDim.x) * tile_;
        count_++;
        if (++stage_ == stages_) {
            stage_ = 0;
            parity_ ^= 1;
        }
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
        return stage_;
    }

    /* Of the turn of a barrier of the stage. */
    __device__ __forceinline__ uint32_t parity() const
    {
        return parity_;
    }

    __device__ __forceinline__ char *place(char *shared, uint32_t rank) const
    {
        return shared + (stage_ * nranks_ + rank) * tile_;
    }

  private:
    uint32_t tile_;
    uint32_t stages_;
    uint32_t nranks_;
    uint64_t end_;
    uint64_t at_;
    uint32_t count_ = 0;
    uint32_t stage_ = 0;
    uint32_t parity_ = 0;
};

__device__ __forceinline__ void load_tiles(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs,
                                           bulk_stages &stages, char *shared)
{
    for (bulk_tiles tile(args); tile.any(); tile.next()) {
        stages.unused[tile.stage()].wait(tile.parity() ^ 1);
        bulk_barrier &loaded = stages.loaded[tile.stage()];
        loaded.arrive_expecting(tile.bytes() * args.nranks);
        for (uint32_t rank = 0; rank < args.nranks; rank++) {
            load_bulk(tile.place(shared, rank), static_cast<const char *>(runs.run[rank].send) + tile.at(), tile.bytes(),
                      loaded);
        }
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
__device__ __forceinline__ void reduce_tiles(const gpucoll_kernel_args &args, bulk_stages &stages, char *shared)
{
    const uint32_t group = (threadIdx.x - bulk_service_threads) / bulk_group_threads;
    const uint32_t thread = (threadIdx.x - bulk_service_threads) % bulk_group_threads;
    const Op op(args.variant);
    for (bulk_tiles tile(args); tile.any(); tile.next()) {
        if (tile.count() % GPUCOLL_BULK_GROUPS != group) {
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

__device__ __forceinline__ void store_tiles(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs,
                                            bulk_stages &stages, char *shared)
{
    bulk_tiles read(args); /* the oldest tile whose stores may not be read yet */
    for (bulk_tiles tile(args); tile.any(); tile.next()) {
        stages.reduced[tile.stage()].wait(tile.parity());
        for (uint32_t turn = 1; turn <= args.nranks; turn++) {
            const uint32_t next = args.rank + turn;
            char *const to = static_cast<char *>(runs.run[next < args.nranks ? next : next - args.nranks].recv);
            if (to != nullptr) {
                store_bulk(to + tile.at(), tile.place(shared, 0), tile.bytes());
            }
        }
        commit_bulk();
        if (tile.count() >= bulk_behind) {
            wait_bulk_read<bulk_behind>();
            stages.unused[read.stage()].arrive();
            read.next();
        }
    }
    wait_bulk_complete();
    fence_system();
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

/* `shared` is all of the CTA's dynamic shared memory. */
template <typename Op>
__device__ __forceinline__ void reduce_bulk(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs, char *shared)
{
    __shared__ bulk_stages stages;
    __shared__ bool given_up;
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < gpucoll_bulk_stages(args.nranks); i++) {
            stages.loaded[i].init(1);
            stages.reduced[i].init(bulk_group_threads / warp_threads);
            stages.unused[i].init(1);
        }
        bulk_barriers_ready();
        /* While it stood behind a kernel of the application: then the buffers are their owners' again, or gone with them. */
        given_up = load_relaxed(&args.status->abort) != 0;
    }
    __syncthreads();
    if (given_up) {
        finish(args, true);
        return;
    }
    if (threadIdx.x == 0) {
        load_tiles(args, runs, stages, shared);
    } else if (threadIdx.x == warp_threads) {
        store_tiles(args, runs, stages, shared);
    } else if (threadIdx.x >= bulk_service_threads) {
        reduce_tiles<Op>(args, stages, shared);
    } else if (threadIdx.x == 1 && blockIdx.x == 0 && args.bytes % GPUCOLL_PACK_BYTES != 0) {
        reduce_rest<Op>(args, runs);
    }
    finish(args, false);
}

#else

/* Never launched: the host asks the device first. */
template <typename Op>
__device__ __forceinline__ void reduce_bulk(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &, char *)
{
    finish(args, true);
}

#endif

} // namespace gpucoll

#endif
