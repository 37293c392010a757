/*
 * The form of rings, chains and trees: who is whose neighbour, where pieces lie, how blocks are cut.
 */
#include <algorithm>
#include <vector>
#include "test/unit/unit.h"

extern "C" {
#include "core/topology/ring.h"
#include "kernels/relay_abi.h"
}

namespace
{
template <typename Body> void for_all_ways(const Body &body)
{
    for (int flow = 0; flow < GPUCOLL_RELAY_FLOWS; flow++) {
        for (int protocol = 0; protocol < GPUCOLL_RELAY_PROTOCOLS; protocol++) {
            body(static_cast<gpucoll_relay_flow>(flow), static_cast<gpucoll_relay_protocol>(protocol));
        }
    }
}
} // namespace

/* ---- the trees ---- */

TEST(trees, reach_every_rank_and_have_no_rank_inner_in_both)
{
    for (uint32_t n = 1; n <= GPUCOLL_MAX_LOCAL; n++) {
        std::vector<int> inner(n, 0);
        for (uint32_t tree = 0; tree < 2; tree++) {
            uint32_t roots = 0;
            for (uint32_t rank = 0; rank < n; rank++) {
                const uint32_t node = gpucoll_tree_node(rank, tree, n);
                ASSERT_TRUE(node >= 1 && node <= n);
                EXPECT_EQ(gpucoll_tree_rank(node, tree, n), rank);
                const uint32_t left = gpucoll_tree_left(node);
                const uint32_t right = gpucoll_tree_right(node, n);
                EXPECT_TRUE(left == 0 || gpucoll_tree_above(left, n) == node) << node << " of " << n;
                EXPECT_TRUE(right == 0 || gpucoll_tree_above(right, n) == node) << node << " of " << n;
                inner[rank] += left != 0 || right != 0;
                uint32_t depth = 0;
                for (uint32_t at = node; (at = gpucoll_tree_above(at, n)) != 0;) {
                    ASSERT_LE(++depth, 5u) << node << " of " << n;
                }
                EXPECT_TRUE(1u << depth <= n);
                roots += depth == 0;
                const uint32_t above = gpucoll_tree_above(node, n);
                EXPECT_TRUE(above == 0 || gpucoll_tree_left(above) == node ||
                            gpucoll_tree_right(above, n) == node)
                    << node << " of " << n;
            }
            EXPECT_EQ(roots, 1u);
        }
        for (uint32_t rank = 0; rank < n; rank++) {
            EXPECT_LE(inner[rank], 1) << "rank " << rank << " of " << n;
        }
    }
}

TEST(relays, slots_stay_inside_their_areas)
{
    for_all_ways([](gpucoll_relay_flow flow, gpucoll_relay_protocol protocol) {
        for (uint32_t channels : {1u, 7u, 64u, 128u}) {
            const uint32_t packs = gpucoll_relay_slot_packs(flow, protocol, channels, 4 << 20);
            const uint32_t ends = gpucoll_relay_connections(flow);
            const size_t first = gpucoll_relay_slot_offset(flow, protocol, 0, 0, 0, packs);
            const size_t last = gpucoll_relay_slot_offset(flow, protocol, channels - 1, ends - 1,
                                                          GPUCOLL_RELAY_SLOTS - 1, packs);
            const size_t room = gpucoll_relay_slot_offset(flow, protocol, 0, 0, 1, packs) - first;
            const size_t begin = GPUCOLL_FLAG_BYTES + (protocol == GPUCOLL_RELAY_LL ? 0 : GPUCOLL_LL_BYTES) +
                                 (protocol == GPUCOLL_RELAY_SIMPLE ? GPUCOLL_LL128_BYTES : 0);
            const size_t bytes = protocol == GPUCOLL_RELAY_LL      ? GPUCOLL_LL_BYTES
                                 : protocol == GPUCOLL_RELAY_LL128 ? GPUCOLL_LL128_BYTES
                                                                   : size_t{4} << 20;
            ASSERT_GT(packs, 0u);
            EXPECT_EQ(first, begin);
            EXPECT_EQ(room % 128, 0u);
            EXPECT_LE(last + room, begin + bytes);
        }
    });
}

/* ---- the order of the ring ---- */

namespace
{
/* All pairs of `edges` have good links. */
std::vector<uint32_t> order_of(uint32_t ranks, const std::vector<std::pair<uint32_t, uint32_t>> &edges,
                               bool *found)
{
    std::vector<uint32_t> near(ranks, 0);
    std::vector<uint32_t> order(ranks, 99);
    for (const auto &[a, b] : edges) {
        near[a] |= 1u << b;
        near[b] |= 1u << a;
    }
    *found = gpucoll_ring_order(near.data(), ranks, order.data());
    return order;
}
} // namespace

TEST(ring_order, is_along_good_links_where_there_is_such_a_ring)
{
    using Order = std::vector<uint32_t>;
    bool found;
    EXPECT_EQ(order_of(1, {}, &found), Order{0});
    EXPECT_EQ(order_of(2, {{0, 1}}, &found), (Order{0, 1}));
    EXPECT_TRUE(found);
    EXPECT_EQ(order_of(4, {{0, 2}, {2, 1}, {1, 3}, {3, 0}}, &found), (Order{0, 2, 1, 3}));
    EXPECT_TRUE(found);
    /* The first way leads nowhere: 0 1 2 has no way on. */
    EXPECT_EQ(order_of(5, {{0, 1}, {1, 2}, {1, 3}, {3, 4}, {4, 2}, {2, 0}}, &found), (Order{0, 1, 3, 4, 2}));
    EXPECT_TRUE(found);
    EXPECT_EQ(order_of(4, {{0, 2}, {2, 1}, {1, 3}}, &found), (Order{0, 1, 2, 3})) << "a chain";
    EXPECT_FALSE(found);
    EXPECT_EQ(order_of(3, {}, &found), (Order{0, 1, 2}));
    EXPECT_FALSE(found);
    const uint32_t one_sided[] = {2, 0};
    uint32_t order[2];
    EXPECT_FALSE(gpucoll_ring_order(one_sided, 2, order));
}

TEST(ring_order, is_that_of_the_ranks_where_all_links_are_good_and_is_found_soon)
{
    std::vector<uint32_t> near(32, UINT32_MAX);
    std::vector<uint32_t> order(32);
    EXPECT_TRUE(gpucoll_ring_order(near.data(), 32, order.data()));
    for (uint32_t i = 0; i < 32; i++) {
        EXPECT_EQ(order[i], i);
    }
    /* Two halves that one link joins: no ring, but very many ways to look for one. */
    for (uint32_t i = 0; i < 32; i++) {
        near[i] = i < 16 ? 0xffffu : 0xffff0000u;
    }
    near[15] |= 1u << 16;
    near[16] |= 1u << 15;
    EXPECT_FALSE(gpucoll_ring_order(near.data(), 32, order.data()));
    EXPECT_EQ(order[31], 31u);
}

/* ---- how blocks are cut ---- */

/* Each pack is some channel's, once, and goes the same way with any number of channels above one. */
TEST(relays, channels_share_a_block_by_halves)
{
    for (uint32_t channels : {1u, 2u, 3u, 6u, 7u, 64u}) {
        for (uint64_t packs : {0u, 1u, 2u, 3u, 127u, 1000u}) {
            std::vector<int> way(packs, -1);
            uint64_t longest = 0;
            for (uint32_t channel = 0; channel < channels; channel++) {
                uint64_t begin, end;
                gpucoll_relay_range(packs * GPUCOLL_PACK_BYTES, channels, channel, &begin, &end);
                longest = std::max(longest, end - begin);
                for (uint64_t pack = begin; pack < end; pack++) {
                    ASSERT_LT(pack, packs);
                    EXPECT_EQ(way[pack], -1) << "pack " << pack << " is of two channels";
                    way[pack] = static_cast<int>(channel % 2);
                }
            }
            for (uint64_t pack = 0; pack < packs; pack++) {
                EXPECT_EQ(way[pack], channels > 1 && pack >= (packs + 1) / 2 ? 1 : 0)
                    << pack << " of " << packs << " packs, " << channels << " channels";
            }
            EXPECT_LE(longest, gpucoll_relay_share(packs, channels));
        }
    }
}

/* Sizes at which sums of 32 bits would wrap among them. */
TEST(relays, pieces_cover_the_longest_block)
{
    for_all_ways([](gpucoll_relay_flow flow, gpucoll_relay_protocol protocol) {
        for (uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 20, (uint64_t{1} << 36) - 512,
                               (uint64_t{1} << 36) - 16, uint64_t{1} << 36, (uint64_t{1} << 36) + 16}) {
            for (uint32_t channels : {1u, 7u, 64u}) {
                const gpucoll_relay_cut cut =
                    gpucoll_relay_cut_of(flow, protocol, 4, bytes, channels, 64 << 20);
                const uint64_t packs = (bytes + GPUCOLL_PACK_BYTES - 1) / GPUCOLL_PACK_BYTES;
                EXPECT_GE(uint64_t{cut.pieces} * cut.piece_packs * channels, packs)
                    << bytes << " bytes, " << channels << " channels, flow " << flow << ", protocol "
                    << protocol;
            }
        }
    });
}
