/*
 * Many bytes: every rank sends to the next one only, and each byte crosses each link as seldom as can be (Patarasu and Yuan 2009).
 *   allreduce        the data is cut in a part for each rank; sums of a part go round until all ranks are in it, which is at the rank
 *                    that the part belongs to, then the result goes round
 *   reduce_scatter   the first half of that, allgather the second, with the call's blocks
 *   reduce, bcast    a chain along the ring which ends, or begins, with the root; segments follow each other
 */
#include "core/rail/rail_model.h"
#include "core/rail/rail_run.h"

static uint32_t behind(const struct gpucoll_rail_run *run, uint32_t distance)
{
    const uint32_t rank = run->rail->rank;
    return rank >= distance ? rank - distance : rank + run->rail->size - distance;
}

static uint32_t next_rank(const struct gpucoll_rail_run *run)
{
    return run->rail->rank + 1 < run->rail->size ? run->rail->rank + 1 : 0;
}

/* ---- around ---- */

static void scatter_sums(struct gpucoll_rail_run *run)
{
    const uint32_t size = run->rail->size;
    for (uint32_t distance = 1; distance < size; distance++) {
        gpucoll_rail_send(run, 0, next_rank(run), run->ranges[behind(run, distance)]);
        gpucoll_rail_receive(run, 0, behind(run, 1), run->ranges[behind(run, (distance + 1) % size)],
                             GPUCOLL_RAIL_COMBINE);
    }
}

static void gather(struct gpucoll_rail_run *run)
{
    for (uint32_t distance = 0; distance + 1 < run->rail->size; distance++) {
        gpucoll_rail_send(run, 0, next_rank(run), run->ranges[behind(run, distance)]);
        gpucoll_rail_receive(run, 0, behind(run, 1), run->ranges[behind(run, distance + 1)],
                             GPUCOLL_RAIL_PLACE);
    }
}

static void program_allreduce(struct gpucoll_rail_run *run)
{
    if (gpucoll_rail_cut(run)) {
        scatter_sums(run);
        gather(run);
    }
}

static void program_reduce_scatter(struct gpucoll_rail_run *run)
{
    if (gpucoll_rail_cut(run)) {
        scatter_sums(run);
    }
}

static void program_allgather(struct gpucoll_rail_run *run)
{
    if (gpucoll_rail_cut(run)) {
        gather(run);
    }
}

static uint64_t cost_allgather(uint32_t size, uint64_t bytes)
{
    return (size - 1) * gpucoll_rail_step_ns(bytes / size, 0);
}

static uint64_t cost_reduce_scatter(uint32_t size, uint64_t bytes)
{
    return (size - 1) * gpucoll_rail_step_ns(bytes / size, 1);
}

static uint64_t cost_allreduce(uint32_t size, uint64_t bytes)
{
    return cost_reduce_scatter(size, bytes) + cost_allgather(size, bytes);
}

/* ---- along a chain ---- */

static void program_reduce(struct gpucoll_rail_run *run)
{
    const uint32_t root = run->args.root;
    const struct gpucoll_rail_range all = gpucoll_rail_all(run);
    run->segment = gpucoll_rail_piece(all.bytes, run->rail->size - 1);
    if (behind(run, 1) != root) {
        gpucoll_rail_receive(run, 0, behind(run, 1), all, GPUCOLL_RAIL_COMBINE);
    }
    if (run->rail->rank != root) {
        gpucoll_rail_send(run, 0, next_rank(run), all);
    }
}

static void program_bcast(struct gpucoll_rail_run *run)
{
    const uint32_t root = run->args.root;
    const struct gpucoll_rail_range all = gpucoll_rail_all(run);
    run->segment = gpucoll_rail_piece(all.bytes, run->rail->size - 1);
    if (run->rail->rank != root) {
        gpucoll_rail_receive(run, 0, behind(run, 1), all, GPUCOLL_RAIL_FRESH);
    }
    if (next_rank(run) != root) {
        gpucoll_rail_send(run, 0, next_rank(run), all);
    }
}

static uint64_t cost_reduce(uint32_t size, uint64_t bytes)
{
    return gpucoll_rail_pipeline_ns(bytes, size - 1, 1, 1);
}

static uint64_t cost_bcast(uint32_t size, uint64_t bytes)
{
    return gpucoll_rail_pipeline_ns(bytes, size - 1, 1, 0);
}

const struct gpucoll_rail_row gpucoll_rail_ring_rows[] = {
    {GPUCOLL_RAIL_ALLREDUCE, GPUCOLL_RAIL_RING, program_allreduce, cost_allreduce},
    {GPUCOLL_RAIL_REDUCE, GPUCOLL_RAIL_RING, program_reduce, cost_reduce},
    {GPUCOLL_RAIL_BCAST, GPUCOLL_RAIL_RING, program_bcast, cost_bcast},
    {GPUCOLL_RAIL_ALLGATHER, GPUCOLL_RAIL_RING, program_allgather, cost_allgather},
    {GPUCOLL_RAIL_REDUCE_SCATTER, GPUCOLL_RAIL_RING, program_reduce_scatter, cost_reduce_scatter},
    {0},
};
