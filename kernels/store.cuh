/*
 * Stores what a rank sends straight into the buffers of those that it is for. Waits for nobody: the hosts have met before, and meet afterwards.
 *
 * By the copy engines of the SMs (bulk.cuh), so that few CTAs fill the links: some threads of a CTA, the *movers*, have a ring of stages in shared
 * memory each, load a tile into one after the other, and store those that have come; SPREAD loads a tile once and stores it to all. What does not begin at multiples of 16 bytes, and
 * everything where the SM has no such engine, is moved by all threads.
 */
#ifndef GPUCOLL_KERNELS_STORE_CUH
#define GPUCOLL_KERNELS_STORE_CUH

#include "kernels/bulk.cuh"
#include "kernels/exchange_simple.cuh"
#include "kernels/linger.cuh"

namespace gpucoll {

constexpr uint32_t store_movers = 4; /* of a CTA, the first thread of a warp each */

/* Which runs a call has, by turns: the rank after the own one first, the own one last. Bit t is that of turn t. */
struct store_turns {
    uint32_t in_bulk;
    uint32_t by_threads;
};

/* By all threads of the CTA, of which each begins with another rank. */
__device__ __forceinline__ void store_by_threads(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs, uint32_t turns,
                                                 crew_share share)
{
    for (uint32_t i = 0; i < args.nranks; i++) {
        const uint32_t turn = (i + share.cta) % args.nranks;
        if ((turns >> turn & 1) != 0) {
            const gpucoll_kernel_run &run = runs.run[rank_after(args, turn)];
            store_run(run.send, run.recv, run.send_bytes, share);
        }
    }
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

constexpr uint32_t store_stages = 6; /* of each mover */
constexpr uint32_t store_tile = GPUCOLL_BULK_MAX_TILE;
constexpr uint32_t store_behind = 2; /* tiles whose stores need not be read yet when the next is loaded */
static_assert(store_movers * store_stages * store_tile <= GPUCOLL_BULK_SHARED_BYTES, "all stages have room");

/* A tile that is on its way through a stage. */
struct stage_note {
    uint64_t at; /* in its run */
    uint32_t bytes;
    uint32_t rank; /* whose run it is of */
};

/* In each CTA's shared memory, kept from one call to the next. */
struct store_rings {
    bulk_barrier loaded[store_movers][store_stages];
    stage_note notes[store_movers][store_stages];
    ring_place next[store_movers]; /* of the next call's first tile */
    uint8_t order[store_movers][GPUCOLL_MAX_LOCAL]; /* the ranks whose runs go in bulk */
};

__device__ __forceinline__ store_rings &rings_of_cta()
{
    __shared__ store_rings rings;
    return rings;
}

/* Has the launch given the CTA the memory for stages? */
__device__ __forceinline__ bool has_stages()
{
    uint32_t bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    return bytes >= GPUCOLL_BULK_SHARED_BYTES;
}

/* The runs of a call that go in bulk. */
struct bulk_runs {
    const gpucoll_kernel_runs &runs;
    const uint8_t *order; /* their ranks, */
    uint32_t count;       /* so many */
    bool spread;          /* all send the same, which is loaded once */
};

/*
 * The tiles of a mover, one after the other. A row is the same tile of all runs; of a spread a single one. The movers take the tiles of all
 * rows in turns, and a mover comes one place later each time, so that it does not always get those of the same run: runs differ in length.
 *
 * A mover is a single thread, which has a microsecond for a tile: so rows and columns are counted, not divided for.
 */
class mover_tiles {
  public:
    __device__ __forceinline__ mover_tiles(const gpucoll_kernel_args &args, const bulk_runs &bulk, uint32_t mover, uint32_t movers)
        : bulk_(bulk), each_(bulk.spread ? 1 : bulk.count), movers_(movers), place_(mover),
          end_(static_cast<uint32_t>((args.bytes + store_tile - 1) / store_tile) * each_), row_(mover / each_), column_(mover % each_),
          rows_a_step_((movers + 1) / each_), columns_a_step_((movers + 1) % each_)
    {
        find();
    }

    __device__ __forceinline__ bool any() const
    {
        return first_ < end_;
    }

    __device__ __forceinline__ void next()
    {
        step();
        find();
    }

    __device__ __forceinline__ const char *from() const
    {
        return static_cast<const char *>(bulk_.runs.run[note_.rank].send) + note_.at;
    }

    __device__ __forceinline__ const stage_note &note() const
    {
        return note_;
    }

  private:
    /* All movers' tiles of one step are as many as there are movers, in a row. */
    __device__ __forceinline__ void step()
    {
        const bool back = place_ + 1 == movers_; /* to the first place: that is the next tile but one step */
        first_ += movers_;
        place_ = back ? 0 : place_ + 1;
        row_ += back ? 0 : rows_a_step_;
        column_ += back ? 1 : columns_a_step_;
        if (column_ >= each_) {
            column_ -= each_;
            row_++;
        }
    }

    /* The next that is there, from this step on. */
    __device__ __forceinline__ void find()
    {
        for (; any(); step()) {
            const uint32_t rank = bulk_.order[column_];
            const uint64_t at = static_cast<uint64_t>(row_) * store_tile;
            const uint64_t end = bulk_.runs.run[rank].send_bytes / GPUCOLL_PACK_BYTES * GPUCOLL_PACK_BYTES;
            if (first_ + place_ < end_ && at < end) {
                note_ = {at, end - at < store_tile ? static_cast<uint32_t>(end - at) : store_tile, rank};
                return;
            }
        }
    }

    const bulk_runs &bulk_;
    uint32_t each_; /* tiles of a row */
    uint32_t movers_;
    uint32_t first_ = 0; /* tile of this step of all movers */
    uint32_t place_;
    uint32_t end_;
    uint32_t row_; /* of the tile first_ + place_ */
    uint32_t column_;
    uint32_t rows_a_step_; /* to the next place of the next step */
    uint32_t columns_a_step_;
    stage_note note_ = {};
};

/* From a stage, to where it belongs. */
__device__ __forceinline__ void store_tile_of(const bulk_runs &bulk, const stage_note &note, const char *stage)
{
    const uint32_t count = bulk.spread ? bulk.count : 1;
#pragma unroll 1 /* else the movers' loop is 13 KiB long */
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t rank = bulk.spread ? bulk.order[i] : note.rank;
        store_bulk(static_cast<char *>(bulk.runs.run[rank].recv) + note.at, stage, note.bytes);
    }
}

/* By one thread: moves its tiles through its ring. */
__device__ __forceinline__ void move_tiles(const bulk_runs &bulk, mover_tiles ahead, bulk_barrier *loaded, stage_note *notes, char *shared,
                                           ring_place &next)
{
    ring_place place = next;
    ring_place place_ahead = next;
    uint32_t under_way = 0;
    fence_bulk_global();
#pragma unroll 1
    while (under_way > 0 || ahead.any()) {
#pragma unroll 1
        while (ahead.any() && under_way < store_stages - store_behind) {
            bulk_barrier &come = loaded[place_ahead.stage];
            notes[place_ahead.stage] = ahead.note();
            come.arrive_expecting(ahead.note().bytes);
            load_bulk(shared + place_ahead.stage * store_tile, ahead.from(), ahead.note().bytes, come);
            ahead.next();
            place_ahead.advance(store_stages);
            under_way++;
        }
        loaded[place.stage].wait(place.parity);
        store_tile_of(bulk, notes[place.stage], shared + place.stage * store_tile);
        commit_bulk();
        wait_bulk_read<store_behind>();
        place.advance(store_stages);
        under_way--;
    }
    next = place;
    wait_bulk_complete();
}

/* What is left of the runs that go in bulk: less than a pack of each. */
__device__ __forceinline__ void store_rests(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs, uint32_t turns)
{
    const gpucoll_kernel_run &run = runs.run[rank_after(args, threadIdx.x < args.nranks ? threadIdx.x : 0)];
    if ((turns >> threadIdx.x & 1) != 0 && run.send_bytes % GPUCOLL_PACK_BYTES != 0) {
        const uint64_t last = run.send_bytes / GPUCOLL_PACK_BYTES;
        message(run.recv, run.send_bytes).store(last, message(run.send, run.send_bytes).load(last));
    }
}

/* By a whole warp, whose first thread is a mover. */
__device__ __forceinline__ void store_in_bulk(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs, uint32_t turns,
                                              crew_share share)
{
    store_rings &rings = rings_of_cta();
    const uint32_t own = threadIdx.x / warp_threads;
    const uint32_t lane = threadIdx.x % warp_threads;
    const uint32_t movers = blockDim.x / warp_threads < store_movers ? blockDim.x / warp_threads : store_movers;
    uint8_t *const order = rings.order[own];
    if ((turns >> lane & 1) != 0) {
        order[__popc(turns & ((1u << lane) - 1))] = static_cast<uint8_t>(rank_after(args, lane));
    }
    const bulk_runs bulk = {runs, order, static_cast<uint32_t>(__popc(turns)), args.kernel == GPUCOLL_KERNEL_SPREAD};
    __syncwarp();
    if (lane == 0) {
        const mover_tiles tiles(args, bulk, share.cta * movers + own, share.ctas * movers);
        move_tiles(bulk, tiles, rings.loaded[own], rings.notes[own], shared_of_cta() + own * store_stages * store_tile, rings.next[own]);
    }
    if (own == 0 && share.cta == 0) {
        store_rests(args, runs, turns);
    }
    __syncwarp();
}

/* By one thread, with a barrier of the CTA before the first call. */
__device__ __forceinline__ void prepare_rings()
{
    store_rings &rings = rings_of_cta();
    for (uint32_t i = 0; i < store_movers; i++) {
        for (uint32_t j = 0; j < store_stages; j++) {
            rings.loaded[i][j].init(1);
        }
        rings.next[i] = {0, 0};
    }
    bulk_barriers_ready();
}

#else

__device__ __forceinline__ bool has_stages()
{
    return false;
}

__device__ __forceinline__ void store_in_bulk(const gpucoll_kernel_args &, const gpucoll_kernel_runs &, uint32_t, crew_share)
{
}

__device__ __forceinline__ void prepare_rings()
{
}

#endif

__device__ __forceinline__ store_turns find_turns(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs)
{
    const uint32_t turn = threadIdx.x % warp_threads;
    const gpucoll_kernel_run &run = runs.run[rank_after(args, turn < args.nranks ? turn : 0)];
    const bool any = turn < args.nranks && run.send_bytes > 0 && run.send != run.recv;
    const uintptr_t both = reinterpret_cast<uintptr_t>(run.send) | reinterpret_cast<uintptr_t>(run.recv);
    const bool in_bulk = any && both % GPUCOLL_PACK_BYTES == 0 && has_stages();
    return {__ballot_sync(whole_warp, in_bulk), __ballot_sync(whole_warp, any && !in_bulk)};
}

__device__ __forceinline__ void store_runs(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs, crew_share share)
{
    const store_turns turns = find_turns(args, runs);
    if (turns.in_bulk != 0 && threadIdx.x < store_movers * warp_threads) {
        store_in_bulk(args, runs, turns.in_bulk, share);
    }
    if (turns.by_threads != 0) {
        store_by_threads(args, runs, turns.by_threads, share);
    }
}

/* The calls of a kernel that lingers (linger.cuh). */
struct store_calls : whole_cta_calls {
    static __device__ __forceinline__ bool run(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs, crew_share share)
    {
        store_runs(args, runs, share);
        return true;
    }
};

__device__ __forceinline__ void store_kernel(const gpucoll_kernel_args &args, const gpucoll_kernel_runs &runs)
{
    if (threadIdx.x == 0) {
        prepare_rings();
    }
    crew_kernel<store_calls>(args, &runs);
}

} // namespace gpucoll

#endif
