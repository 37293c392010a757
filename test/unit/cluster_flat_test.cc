/*
 * All-reduce, reduce and broadcast of several hosts with few bytes, but more than go along with what the hosts tell each other: from rank to rank.
 */
#include "test/unit/few_bytes.h"
#include "test/unit/sum.h"

namespace
{
std::function<void(Rank &)> sum(size_t count)
{
    return [=](Rank &rank) { sum_of(rank, count); };
}
} // namespace

/* A sum of two hosts of two ranks: four messages of their agreement, then one along each of two rails, both ways, or two of each rank. */
TEST(cluster_flat, few_bytes_go_from_rank_to_rank)
{
    const Hosts pairs = hosts_of({2, 2});
    const auto by_stages = [&](const Hosts &hosts, size_t count) {
        return messages_of(hosts, {{"flat", "0"}}, sum(count));
    };
    EXPECT_EQ(by_stages(pairs, 2000), 4u + 4u);
    EXPECT_EQ(messages_of(pairs, {}, sum(1025)), 4u + 8u);
    EXPECT_EQ(messages_of(pairs, {{"carry", "256"}}, sum(65)), 4u + 8u);
    EXPECT_EQ(messages_of(pairs, {}, sum(4096)), 4u + 8u);
    EXPECT_EQ(messages_of(pairs, {}, sum(4097)), by_stages(pairs, 4097));
    EXPECT_EQ(messages_of(pairs, {{"flat", "16384"}}, sum(2048)), 4u + 8u);
    EXPECT_EQ(messages_of(pairs, {{"flat", "16384"}}, sum(2049)), 4u + 4u);
    /* A host of one rank has no local calls that it would spare, one of many ranks would send much. */
    for (const Hosts &hosts : {hosts_of({1, 1}), hosts_of({1, 5})}) {
        EXPECT_EQ(messages_of(hosts, {}, sum(1500)), by_stages(hosts, 1500));
    }
    EXPECT_GT(messages_of(hosts_of({1, 4}), {}, sum(1500)), by_stages(hosts_of({1, 4}), 1500));
    /* From one rank to three others, one message each; from three to one. */
    EXPECT_EQ(messages_of(pairs, {}, [](Rank &rank) { check(rank, call_of(bcast_kind, 5000)); }), 4u + 3u);
    EXPECT_EQ(messages_of(pairs, {}, [](Rank &rank) { check(rank, call_of(reduce_kind, 1500)); }), 4u + 3u);
}

TEST(cluster_flat, all_shapes_roots_and_sizes)
{
    for (const Hosts &hosts : few_shapes) {
        on_hosts(hosts, {{"flat", "1048576"}, {"carry", "256"}}, [](Rank &rank) {
            for (size_t count : {129, 1000, 2049, 8192}) {
                check_reductions(rank, GPUCOLL_SUM, GPUCOLL_FLOAT16, count, count % 2 * 2);
                check_rooted(rank, reduce_kind, count);
                check_rooted(rank, bcast_kind, count);
            }
        });
    }
}

/* The rail's runs of several calls are under way at once, and their units are many. */
TEST(cluster_flat, several_units_by_every_algorithm)
{
    for (const char *algorithm : {"doubling", "ring", "tree"}) {
        for (const Hosts &hosts : few_shapes) {
            on_hosts(hosts, {{"flat", "1048576"}, {"chunk", "4K"}, {"rail_algorithm", algorithm}},
                     [](Rank &rank) {
                         check_reductions(rank, GPUCOLL_SUM, GPUCOLL_FLOAT32, 20001, 0);
                         check_rooted(rank, reduce_kind, 20001);
                         check_rooted(rank, bcast_kind, 20001);
                     });
        }
    }
}
