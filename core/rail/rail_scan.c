/*
 * Scan and exscan, of which the operands have an order: that of ranks.
 *   chain      each rank adds its own to what the rank before it sends, and sends that on; segments follow each other. Sums from left to
 *              right, so to the bit as one rank alone would
 *   doubling   ranks at distances 1, 2, 4, ... send what they have summed so far upwards (Hillis and Steele 1986)
 * For exscan each rank first has what the rank before it brings, in the second half of the data; what follows is the scan of the ranks from 1 on.
 */
#include "core/rail/rail_model.h"
#include "core/rail/rail_run.h"

enum { SUMS, SHIFT }; /* flows */

static bool is_exclusive(const struct gpucoll_rail_run *run)
{
    return run->args.coll == GPUCOLL_RAIL_EXSCAN;
}

/* First of those that scan. */
static uint32_t first_rank(const struct gpucoll_rail_run *run)
{
    return is_exclusive(run) ? 1 : 0;
}

/* Where the sums are made. Before that, of exscan, the operand is brought there. */
static struct gpucoll_rail_range place_sums(struct gpucoll_rail_run *run)
{
    const struct gpucoll_rail_range own = gpucoll_rail_all(run);
    const uint32_t rank = run->rail->rank;
    if (!is_exclusive(run)) {
        return own;
    }
    const struct gpucoll_rail_range sums = {
        .offset = gpucoll_rail_second(own.bytes),
        .bytes = own.bytes,
        .cell = (uint32_t)((own.bytes + run->segment - 1) / run->segment),
    };
    if (rank > 0) {
        gpucoll_rail_receive(run, SHIFT, rank - 1, sums, GPUCOLL_RAIL_FRESH);
    }
    if (rank + 1 < run->rail->size) {
        gpucoll_rail_send(run, SHIFT, rank + 1, own);
    }
    return sums;
}

static void program_chain(struct gpucoll_rail_run *run)
{
    const uint32_t rank = run->rail->rank;
    run->segment = gpucoll_rail_piece(run->args.bytes, run->rail->size - 1);
    const struct gpucoll_rail_range sums = place_sums(run);
    if (rank > first_rank(run)) {
        gpucoll_rail_receive(run, SUMS, rank - 1, sums, GPUCOLL_RAIL_COMBINE);
    }
    if (rank >= first_rank(run) && rank + 1 < run->rail->size) {
        gpucoll_rail_send(run, SUMS, rank + 1, sums);
    }
}

static void program_doubling(struct gpucoll_rail_run *run)
{
    const struct gpucoll_rail_range sums = place_sums(run);
    const uint32_t rank = run->rail->rank;
    if (rank < first_rank(run)) {
        return;
    }
    for (uint32_t distance = 1; distance < run->rail->size; distance *= 2) {
        if (distance < run->rail->size - rank) {
            gpucoll_rail_send(run, SUMS, rank + distance, sums);
        }
        if (distance <= rank - first_rank(run)) {
            gpucoll_rail_receive(run, SUMS, rank - distance, sums, GPUCOLL_RAIL_COMBINE);
        }
    }
}

/* What brings the operands of exscan comes before both alike. */
static uint64_t cost_chain(uint32_t size, uint64_t bytes)
{
    return gpucoll_rail_pipeline_ns(bytes, size - 1, 1, 1);
}

static uint64_t cost_doubling(uint32_t size, uint64_t bytes)
{
    return gpucoll_rail_rounds(size) * gpucoll_rail_step_ns(gpucoll_rail_far(size, bytes), 1);
}

const struct gpucoll_rail_row gpucoll_rail_scan_rows[] = {
    {GPUCOLL_RAIL_SCAN, GPUCOLL_RAIL_DOUBLING, program_doubling, cost_doubling},
    {GPUCOLL_RAIL_SCAN, GPUCOLL_RAIL_RING, program_chain, cost_chain},
    {GPUCOLL_RAIL_EXSCAN, GPUCOLL_RAIL_DOUBLING, program_doubling, cost_doubling},
    {GPUCOLL_RAIL_EXSCAN, GPUCOLL_RAIL_RING, program_chain, cost_chain},
    {0},
};
