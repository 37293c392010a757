/*
 * Many ranks: two binary trees, each for half of the data, in which no rank is inner twice, so that all send and receive about alike, and
 * segments follow each other along log2 of the ranks instead of all (Sanders, Speck and Traff, "Two-tree algorithms for full bandwidth
 * broadcast, reduction and scan", 2009).
 *
 * A tree is over places 0, 1, 2, ... of which the odd ones are inner: they form a balanced search tree, and the even ones hang in its gaps. Left
 * of a place are lower ones, right of it higher ones. In the second tree the ranks stand such that those of even places have odd
 * ones: mirrored, or if their number is odd, where that would change nothing, one place on.
 *
 * In an allreduce all ranks are in the trees; sums go up, and results down. In a reduce or bcast the root stands above the roots of both trees, in
 * which are the other ranks.
 */
#include "core/base/sizes.h"
#include "core/rail/rail_model.h"
#include "core/rail/rail_run.h"

/* A rank of a tree: ranks, or GPUCOLL_RAIL_NONE. */
struct node {
    uint32_t parent;
    uint32_t child[2];
};

/* ---- one tree, by places ---- */

/* The uppermost of inner places 2 `begin` + 1 to 2 `end` - 1; where there is none, the leaf in that gap. */
static uint32_t top_of(uint32_t count, uint32_t begin, uint32_t end)
{
    const uint32_t place = begin < end ? 2 * ((begin + end) / 2) + 1 : 2 * begin;
    return place < count ? place : GPUCOLL_RAIL_NONE;
}

static struct node find(uint32_t count, uint32_t place)
{
    struct node node = {GPUCOLL_RAIL_NONE, {GPUCOLL_RAIL_NONE, GPUCOLL_RAIL_NONE}};
    uint32_t begin = 0;
    uint32_t end = count / 2;
    while (begin < end) {
        const uint32_t middle = (begin + end) / 2;
        const uint32_t top = 2 * middle + 1;
        if (place == top) {
            node.child[0] = top_of(count, begin, middle);
            node.child[1] = top_of(count, middle + 1, end);
            break;
        }
        node.parent = top;
        if (place < top) {
            end = middle;
        } else {
            begin = middle + 1;
        }
    }
    return node;
}

/* ---- both trees, by members: 0 to count - 1 in the order of ranks ---- */

static uint32_t place_of(int tree, uint32_t count, uint32_t member)
{
    if (tree == 0) {
        return member;
    }
    return count % 2 == 0 ? count - 1 - member : (member + 1) % count;
}

static uint32_t member_at(int tree, uint32_t count, uint32_t place)
{
    if (tree == 0) {
        return place;
    }
    return count % 2 == 0 ? count - 1 - place : (place + count - 1) % count;
}

/* ---- ranks: all, or all but the root ---- */

static uint32_t rank_at(const struct gpucoll_rail_run *run, bool rooted, int tree, uint32_t place)
{
    if (place == GPUCOLL_RAIL_NONE) {
        return GPUCOLL_RAIL_NONE;
    }
    const uint32_t member = member_at(tree, run->rail->size - rooted, place);
    return member + (rooted && member >= run->args.root);
}

static struct node node_of(const struct gpucoll_rail_run *run, bool rooted, int tree)
{
    const uint32_t rank = run->rail->rank;
    const uint32_t count = run->rail->size - rooted;
    struct node node = {GPUCOLL_RAIL_NONE, {GPUCOLL_RAIL_NONE, GPUCOLL_RAIL_NONE}};
    if (rooted && rank == run->args.root) {
        node.child[0] = rank_at(run, rooted, tree, top_of(count, 0, count / 2));
        return node;
    }
    const uint32_t member = rank - (rooted && rank > run->args.root);
    const struct node found = find(count, place_of(tree, count, member));
    node.parent = rank_at(run, rooted, tree, found.parent);
    for (int i = 0; i < 2; i++) {
        node.child[i] = rank_at(run, rooted, tree, found.child[i]);
    }
    if (rooted && node.parent == GPUCOLL_RAIL_NONE) {
        node.parent = run->args.root;
    }
    return node;
}

/* ---- the programs ---- */

/* The part of the data that goes through a tree. */
static struct gpucoll_rail_range part_of(const struct gpucoll_rail_run *run, int tree)
{
    const uint64_t bytes = run->args.bytes;
    const uint64_t first = gpucoll_round_up(bytes / 2, GPUCOLL_RAIL_ALIGN);
    const uint64_t half = gpucoll_smaller(first, bytes);
    if (tree == 0) {
        return (struct gpucoll_rail_range){0, half, 0};
    }
    return (struct gpucoll_rail_range){half, bytes - half,
                                       (uint32_t)((half + run->segment - 1) / run->segment)};
}

static void go_up(struct gpucoll_rail_run *run, uint32_t flow, const struct node *node,
                  struct gpucoll_rail_range range)
{
    for (int i = 0; i < 2; i++) {
        if (node->child[i] != GPUCOLL_RAIL_NONE) {
            gpucoll_rail_receive(run, flow, node->child[i], range, GPUCOLL_RAIL_COMBINE);
        }
    }
    if (node->parent != GPUCOLL_RAIL_NONE) {
        gpucoll_rail_send(run, flow, node->parent, range);
    }
}

static void go_down(struct gpucoll_rail_run *run, uint32_t flow, const struct node *node,
                    struct gpucoll_rail_range range)
{
    if (node->parent != GPUCOLL_RAIL_NONE) {
        gpucoll_rail_receive(run, flow, node->parent, range, GPUCOLL_RAIL_PLACE);
    }
    for (int i = 0; i < 2; i++) {
        if (node->child[i] != GPUCOLL_RAIL_NONE) {
            gpucoll_rail_send(run, flow, node->child[i], range);
        }
    }
}

/* Ranks that a segment passes on its way from a leaf to the root or back. */
static uint32_t hops(uint32_t size)
{
    return gpucoll_rail_rounds(size) + 1;
}

static void program_allreduce(struct gpucoll_rail_run *run)
{
    run->segment = gpucoll_rail_piece(run->args.bytes / 2, 2 * hops(run->rail->size));
    for (uint32_t tree = 0; tree < 2; tree++) {
        const struct node node = node_of(run, false, (int)tree);
        go_up(run, 2 * tree, &node, part_of(run, (int)tree));
        go_down(run, 2 * tree + 1, &node, part_of(run, (int)tree));
    }
}

static void program_reduce(struct gpucoll_rail_run *run)
{
    run->segment = gpucoll_rail_piece(run->args.bytes / 2, hops(run->rail->size));
    for (uint32_t tree = 0; tree < 2; tree++) {
        const struct node node = node_of(run, true, (int)tree);
        go_up(run, tree, &node, part_of(run, (int)tree));
    }
}

static void program_bcast(struct gpucoll_rail_run *run)
{
    run->segment = gpucoll_rail_piece(run->args.bytes / 2, hops(run->rail->size));
    for (uint32_t tree = 0; tree < 2; tree++) {
        const struct node node = node_of(run, true, (int)tree);
        go_down(run, tree, &node, part_of(run, (int)tree));
    }
}

/* ---- what it costs ---- */

/* An inner rank sends its half up once and down twice, and as a leaf the other half up once. */
static uint64_t cost_allreduce(uint32_t size, uint64_t bytes)
{
    return gpucoll_rail_pipeline_ns(bytes / 2, 2 * hops(size), 4, 2);
}

static uint64_t cost_reduce(uint32_t size, uint64_t bytes)
{
    return gpucoll_rail_pipeline_ns(bytes / 2, hops(size), 2, 2);
}

static uint64_t cost_bcast(uint32_t size, uint64_t bytes)
{
    return gpucoll_rail_pipeline_ns(bytes / 2, hops(size), 2, 0);
}

const struct gpucoll_rail_row gpucoll_rail_tree_rows[] = {
    {GPUCOLL_RAIL_ALLREDUCE, GPUCOLL_RAIL_TREE, program_allreduce, cost_allreduce},
    {GPUCOLL_RAIL_REDUCE, GPUCOLL_RAIL_TREE, program_reduce, cost_reduce},
    {GPUCOLL_RAIL_BCAST, GPUCOLL_RAIL_TREE, program_bcast, cost_bcast},
    {0},
};
