/*
 * Sums in the order of ranks, ((r0 + r1) + r2) ..., so to the bit as one rank alone would make them, whatever the message's size: what
 * coll_gpucoll_deterministic asks for. A chain of ranks upwards, as for scans; the last rank has the sums, and they go back:
 *   allreduce        down the same chain, so that each link is used both ways and each rank sends the data twice, as round a ring
 *   reduce           to the root
 *   reduce_scatter   down the chain, each rank keeping its own block
 * Segments follow each other, so all of this overlaps.
 */
#include "core/rail/rail_model.h"
#include "core/rail/rail_run.h"

enum { SUMS, RESULTS }; /* flows */

static bool is_first(const struct gpucoll_rail_run *run)
{
    return run->rail->rank == 0;
}

static bool is_last(const struct gpucoll_rail_run *run)
{
    return run->rail->rank + 1 == run->rail->size;
}

static void sum_upwards(struct gpucoll_rail_run *run, struct gpucoll_rail_range range)
{
    const uint32_t rank = run->rail->rank;
    if (!is_first(run)) {
        gpucoll_rail_receive(run, SUMS, rank - 1, range, GPUCOLL_RAIL_COMBINE);
    }
    if (!is_last(run)) {
        gpucoll_rail_send(run, SUMS, rank + 1, range);
    }
}

/* Those of ranks up to `to` go on below this one. */
static void pass_downwards(struct gpucoll_rail_run *run, struct gpucoll_rail_range range, uint32_t to)
{
    const uint32_t rank = run->rail->rank;
    if (!is_last(run) && to <= rank) {
        gpucoll_rail_receive(run, RESULTS, rank + 1, range, GPUCOLL_RAIL_PLACE);
    }
    if (to < rank) {
        gpucoll_rail_send(run, RESULTS, rank - 1, range);
    }
}

static void program_allreduce(struct gpucoll_rail_run *run)
{
    const struct gpucoll_rail_range all = gpucoll_rail_all(run);
    run->segment = gpucoll_rail_piece(all.bytes, 2 * (run->rail->size - 1));
    sum_upwards(run, all);
    pass_downwards(run, all, 0);
}

static void program_reduce(struct gpucoll_rail_run *run)
{
    const struct gpucoll_rail_range all = gpucoll_rail_all(run);
    const uint32_t last = run->rail->size - 1;
    const uint32_t root = run->args.root;
    run->segment = gpucoll_rail_piece(all.bytes, run->rail->size);
    sum_upwards(run, all);
    if (is_last(run) && root != last) {
        gpucoll_rail_send(run, RESULTS, root, all);
    }
    if (run->rail->rank == root && root != last) {
        gpucoll_rail_receive(run, RESULTS, last, all, GPUCOLL_RAIL_PLACE);
    }
}

static uint64_t bytes_of_blocks(const struct gpucoll_rail_run *run)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < run->rail->size; i++) {
        bytes += run->args.blocks[i];
    }
    return bytes;
}

static void program_reduce_scatter(struct gpucoll_rail_run *run)
{
    run->segment = gpucoll_rail_piece(bytes_of_blocks(run), 2 * (run->rail->size - 1));
    if (!gpucoll_rail_cut(run)) {
        return;
    }
    for (uint32_t i = 0; i < run->rail->size; i++) {
        sum_upwards(run, run->ranges[i]);
    }
    for (uint32_t i = 0; i < run->rail->size; i++) {
        pass_downwards(run, run->ranges[i], i);
    }
}

/* Never cheapest: for those that ask for the order. */
static uint64_t cost(uint32_t size, uint64_t bytes)
{
    (void)size;
    (void)bytes;
    return UINT64_MAX;
}

const struct gpucoll_rail_row gpucoll_rail_ordered_rows[] = {
    {GPUCOLL_RAIL_ALLREDUCE, GPUCOLL_RAIL_ORDERED, program_allreduce, cost},
    {GPUCOLL_RAIL_REDUCE, GPUCOLL_RAIL_ORDERED, program_reduce, cost},
    {GPUCOLL_RAIL_REDUCE_SCATTER, GPUCOLL_RAIL_ORDERED, program_reduce_scatter, cost},
    {0},
};
