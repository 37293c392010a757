/*
 * Few bytes: as few messages one after the other as can be, log2 of the ranks.
 *   allreduce        recursive doubling; ranks beyond a power of two fold theirs into a neighbour's first (Rabenseifner 2004)
 *   reduce, bcast    a binomial tree
 *   the others       dissemination, for any number of ranks, to and from ranks at distances 1, 2, 4, ... (Bruck et al. 1997); a
 *                    reduce_scatter is its allgather backwards
 */
#include "core/rail/rail_model.h"
#include "core/rail/rail_run.h"

/* ---- allreduce ---- */

/* Ranks 2 i and 2 i + 1 are one of the doubling, for i below `folded`: so each stands for neighbours, and the order of ranks stays. */
static uint32_t rank_in(uint32_t place, uint32_t folded)
{
    return place < folded ? 2 * place + 1 : place + folded;
}

static void program_allreduce(struct gpucoll_rail_run *run)
{
    const struct gpucoll_rail_range all = gpucoll_rail_all(run);
    const uint32_t rank = run->rail->rank;
    uint32_t places = 1;
    while (places <= run->rail->size / 2) {
        places *= 2;
    }
    const uint32_t folded = run->rail->size - places;
    const bool pair = rank < 2 * folded;
    if (pair && rank % 2 == 0) {
        gpucoll_rail_send(run, 0, rank + 1, all);
        gpucoll_rail_receive(run, 0, rank + 1, all, GPUCOLL_RAIL_PLACE);
        return;
    }
    if (pair) {
        gpucoll_rail_receive(run, 0, rank - 1, all, GPUCOLL_RAIL_COMBINE);
    }
    const uint32_t place = pair ? rank / 2 : rank - folded;
    for (uint32_t distance = 1; distance < places; distance *= 2) {
        const uint32_t peer = rank_in(place ^ distance, folded);
        gpucoll_rail_send(run, 0, peer, all);
        gpucoll_rail_receive(run, 0, peer, all, GPUCOLL_RAIL_COMBINE);
    }
    if (pair) {
        gpucoll_rail_send(run, 0, rank - 1, all);
    }
}

static uint64_t cost_allreduce(uint32_t size, uint64_t bytes)
{
    const uint32_t rounds = gpucoll_rail_rounds(size);
    const uint64_t far = gpucoll_rail_far(size, bytes);
    const bool fold = ((uint64_t)1 << rounds) != size;
    /* Then there is a round less of doubling, but one of folding before it, and one after it. */
    return rounds * gpucoll_rail_step_ns(far, 1) + (fold ? gpucoll_rail_step_ns(bytes, 0) : 0);
}

/* ---- binomial trees ---- */

/* Ranks as the root counts them, itself 0; `place` is the parent of place + distance for each distance below its lowest bit. */
static uint32_t peer_at(const struct gpucoll_rail_run *run, uint32_t place)
{
    return (uint32_t)(((uint64_t)run->args.root + place) % run->rail->size);
}

static uint32_t own_place(const struct gpucoll_rail_run *run)
{
    const struct gpucoll_rail *rail = run->rail;
    return rail->rank >= run->args.root ? rail->rank - run->args.root
                                        : rail->rank + rail->size - run->args.root;
}

static void program_reduce(struct gpucoll_rail_run *run)
{
    const struct gpucoll_rail_range all = gpucoll_rail_all(run);
    const uint32_t place = own_place(run);
    for (uint32_t distance = 1; distance < run->rail->size; distance *= 2) {
        if (place & distance) {
            gpucoll_rail_send(run, 0, peer_at(run, place - distance), all);
            return;
        }
        if (distance < run->rail->size - place) {
            gpucoll_rail_receive(run, 0, peer_at(run, place + distance), all, GPUCOLL_RAIL_COMBINE);
        }
    }
}

static void program_bcast(struct gpucoll_rail_run *run)
{
    const struct gpucoll_rail_range all = gpucoll_rail_all(run);
    const uint32_t place = own_place(run);
    uint32_t distance = 1;
    while (distance < run->rail->size && !(place & distance)) {
        distance *= 2;
    }
    if (place != 0) {
        gpucoll_rail_receive(run, 0, peer_at(run, place - distance), all, GPUCOLL_RAIL_FRESH);
    }
    /* The child with the most ranks below it first. */
    while ((distance /= 2) > 0) {
        if (distance < run->rail->size - place) {
            gpucoll_rail_send(run, 0, peer_at(run, place + distance), all);
        }
    }
}

static uint64_t cost_reduce(uint32_t size, uint64_t bytes)
{
    const uint32_t rounds = gpucoll_rail_rounds(size);
    return gpucoll_rail_pipeline_ns(bytes, rounds, rounds, rounds);
}

static uint64_t cost_bcast(uint32_t size, uint64_t bytes)
{
    const uint32_t rounds = gpucoll_rail_rounds(size);
    return gpucoll_rail_pipeline_ns(bytes, rounds, rounds, 0);
}

/* ---- dissemination ---- */

static uint32_t rank_ahead(const struct gpucoll_rail_run *run, uint32_t distance)
{
    return (uint32_t)(((uint64_t)run->rail->rank + distance) % run->rail->size);
}

static uint32_t rank_behind(const struct gpucoll_rail_run *run, uint32_t distance)
{
    return rank_ahead(run, run->rail->size - distance);
}

/* Blocks first, first + 1, ... of `blocks` ranks, round the end: at most two ranges, the second perhaps empty. */
struct ranges {
    struct gpucoll_rail_range part[2];
};

static struct ranges ranges_of(const struct gpucoll_rail_run *run, uint32_t first, uint32_t blocks)
{
    const struct gpucoll_rail_range *block = run->ranges;
    const uint32_t size = run->rail->size;
    const uint32_t end = blocks < size - first ? first + blocks : size;
    const uint32_t rest = blocks - (end - first);
    const uint64_t wrapped = rest > 0 ? block[rest - 1].offset + block[rest - 1].bytes : 0;
    const uint64_t bytes = block[end - 1].offset + block[end - 1].bytes - block[first].offset;
    return (struct ranges){{{block[first].offset, bytes, 0}, {0, wrapped, 0}}};
}

/* In a round, this many of the blocks from a rank's own on go back by `distance`. */
static uint32_t blocks_in_round(const struct gpucoll_rail_run *run, uint32_t distance)
{
    const uint32_t left = run->rail->size - distance;
    return distance < left ? distance : left;
}

static void program_allgather(struct gpucoll_rail_run *run)
{
    if (!gpucoll_rail_cut(run)) {
        return;
    }
    run->one_cell = true;
    for (uint32_t distance = 1; distance < run->rail->size; distance *= 2) {
        const uint32_t ahead = rank_ahead(run, distance);
        const uint32_t blocks = blocks_in_round(run, distance);
        const struct ranges own = ranges_of(run, run->rail->rank, blocks);
        const struct ranges theirs = ranges_of(run, ahead, blocks);
        for (int i = 0; i < 2; i++) {
            gpucoll_rail_send(run, 0, rank_behind(run, distance), own.part[i]);
        }
        for (int i = 0; i < 2; i++) {
            gpucoll_rail_receive(run, 0, ahead, theirs.part[i], GPUCOLL_RAIL_FRESH);
        }
    }
}

/* The sums of blocks go the way that the blocks come in an allgather, backwards, and meet on it. */
static void program_reduce_scatter(struct gpucoll_rail_run *run)
{
    if (!gpucoll_rail_cut(run)) {
        return;
    }
    run->one_cell = true;
    for (uint32_t round = gpucoll_rail_rounds(run->rail->size); round-- > 0;) {
        const uint32_t distance = (uint32_t)1 << round;
        const uint32_t ahead = rank_ahead(run, distance);
        const uint32_t blocks = blocks_in_round(run, distance);
        const struct ranges theirs = ranges_of(run, ahead, blocks);
        const struct ranges own = ranges_of(run, run->rail->rank, blocks);
        for (int i = 0; i < 2; i++) {
            gpucoll_rail_send(run, 0, ahead, theirs.part[i]);
        }
        for (int i = 0; i < 2; i++) {
            gpucoll_rail_receive(run, 0, rank_behind(run, distance), own.part[i], GPUCOLL_RAIL_COMBINE);
        }
    }
}

static void program_barrier(struct gpucoll_rail_run *run)
{
    for (uint32_t distance = 1; distance < run->rail->size; distance *= 2) {
        gpucoll_rail_signal(run, rank_ahead(run, distance));
        gpucoll_rail_await(run, rank_behind(run, distance));
    }
}

/* In the rounds together a rank sends all blocks but one. */
static uint64_t cost(uint32_t size, uint64_t bytes, uint32_t reduces)
{
    const uint32_t rounds = gpucoll_rail_rounds(size);
    return rounds * gpucoll_rail_step_ns(gpucoll_rail_far(size, (bytes - bytes / size) / rounds), reduces);
}

static uint64_t cost_allgather(uint32_t size, uint64_t bytes)
{
    return cost(size, bytes, 0);
}

static uint64_t cost_reduce_scatter(uint32_t size, uint64_t bytes)
{
    return cost(size, bytes, 1);
}

const struct gpucoll_rail_row gpucoll_rail_doubling_rows[] = {
    {GPUCOLL_RAIL_ALLREDUCE, GPUCOLL_RAIL_DOUBLING, program_allreduce, cost_allreduce},
    {GPUCOLL_RAIL_REDUCE, GPUCOLL_RAIL_DOUBLING, program_reduce, cost_reduce},
    {GPUCOLL_RAIL_BCAST, GPUCOLL_RAIL_DOUBLING, program_bcast, cost_bcast},
    {GPUCOLL_RAIL_ALLGATHER, GPUCOLL_RAIL_DOUBLING, program_allgather, cost_allgather},
    {GPUCOLL_RAIL_REDUCE_SCATTER, GPUCOLL_RAIL_DOUBLING, program_reduce_scatter, cost_reduce_scatter},
    {GPUCOLL_RAIL_BARRIER, GPUCOLL_RAIL_DOUBLING, program_barrier, cost_allgather},
    {0},
};
