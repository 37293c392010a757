/*
 * Teams of several hosts: how they are made, and who cannot be one.
 */
#include <algorithm>
#include <cstdlib>
#include "test/unit/exchange_part.h"
#include "test/unit/hosts.h"
#include "test/unit/sum.h"

namespace
{
void expect_sum(Rank &rank, size_t count)
{
    Sum sum(rank, count, 1);
    EXPECT_EQ(rank.call(sum.args), GPUCOLL_OK);
    EXPECT_TRUE(sum.right());
}
} // namespace

namespace
{
/* An exchange that takes its time: nothing is there until it has been asked for often. */
struct Slow {
    gpucoll_exchange inner;
    const void *mine = nullptr;
    void *all = nullptr;
    size_t bytes = 0;
    int looks = 0;

    static int start(void *arg, const void *mine, void *all, size_t bytes)
    {
        auto *slow = static_cast<Slow *>(arg);
        *slow = {slow->inner, mine, all, bytes, 5};
        return 0;
    }
    static gpucoll_status test(void *arg)
    {
        auto *slow = static_cast<Slow *>(arg);
        if (slow->looks > 0 && --slow->looks > 0) {
            return GPUCOLL_IN_PROGRESS;
        }
        const void *mine = slow->mine;
        slow->mine = nullptr;
        const bool failed =
            mine != nullptr && slow->inner.allgather(slow->inner.arg, mine, slow->all, slow->bytes) != 0;
        return failed ? GPUCOLL_ERR_EXCHANGE : GPUCOLL_OK;
    }
};
} // namespace

TEST(cluster_team, is_made_by_exchanges_that_take_their_time)
{
    on_hosts(
        hosts_of({2, 1, 2}), {},
        [](Rank &rank) {
            Slow slow = {rank.meeting.exchange(rank.number)};
            gpucoll_exchange exchange = {rank.number, rank.meeting.size, Slow::start, &slow, Slow::test};
            ASSERT_EQ(gpucoll_team_begin(rank.context, &exchange, "slow", true, &rank.team), GPUCOLL_OK);
            gpucoll_status status;
            int looks = 0;
            while ((status = gpucoll_team_test(rank.team)) == GPUCOLL_IN_PROGRESS) {
                looks++;
            }
            ASSERT_EQ(status, GPUCOLL_OK);
            EXPECT_GE(looks, 3 * 4);
            expect_sum(rank, 1000);
        },
        true);
}

TEST(cluster_team, hosts_of_one_machine_by_the_parameter)
{
    for (uint32_t ranks : {2, 5}) {
        for (const char *hosts : {"2", "3", "1024"}) {
            on_hosts(Hosts(ranks, 0), {{"hosts", hosts}}, [&](Rank &rank) {
                const std::string count = std::to_string(std::min(ranks, static_cast<uint32_t>(atoi(hosts))));
                const std::vector<std::string> lines = rank.log.lines();
                EXPECT_NE(lines.back().find("on " + count + " hosts"), std::string::npos) << lines.back();
                expect_sum(rank, 100);
            });
        }
    }
}

/* The ranks of a host, and of several, as though each had a host of its own. */
TEST(cluster_team, rdma_alone_carries_the_data_of_all_ranks)
{
    for (const Hosts &hosts : {hosts_of({3}), hosts_of({2, 2, 1})}) {
        SCOPED_TRACE(text_of(hosts));
        on_hosts(hosts, {{"transports", "rdma"}}, [&](Rank &rank) {
            gpucoll_setups setups = {};
            gpucoll_context_count_setups_in(rank.context, &setups);
            expect_sum(rank, 1000);
            for (const auto &kind : kinds) {
                ExchangeCall call = call_of(kind, 100);
                check(rank, call);
            }
            EXPECT_EQ(setups.links, 0u); /* nothing went within a host */
        });
    }
}

TEST(cluster_team, without_rdma_several_hosts_decline)
{
    on_hosts(
        hosts_of({2, 1}), {{"transports", "p2p,shm"}},
        [](Rank &rank) {
            EXPECT_EQ(rank.make_team(rank.meeting, 0, &rank.team), GPUCOLL_DECLINED);
            EXPECT_NE(rank.log.lines().back().find("leaves out rdma"), std::string::npos)
                << rank.log.lines().back();
        },
        true);
}

TEST(cluster_team, more_ranks_than_a_kernel_takes_on_several_hosts)
{
    on_hosts(hosts_of({20, 16}), {{"lanes", "1"}}, [](Rank &rank) {
        expect_sum(rank, 1000);
        ExchangeCall call = call_of(kinds[0], 100);
        check(rank, call);
    });
}

TEST(cluster_team, one_host_with_more_ranks_than_a_kernel_takes_declines)
{
    on_hosts(
        hosts_of({GPUCOLL_MAX_LOCAL + 1, 1}), {},
        [](Rank &rank) { EXPECT_EQ(rank.make_team(rank.meeting, 0, &rank.team), GPUCOLL_DECLINED); }, true);
}

TEST(cluster_team, no_network_on_one_rank_declines_on_all)
{
    static gpucoll_net_ops none = fake_net;
    none.open = [](const struct gpucoll_config *, const struct gpucoll_log *, gpucoll_net **) {
        return GPUCOLL_DECLINED;
    };
    on_hosts(
        hosts_of({2, 1}), {},
        [](Rank &rank) {
            if (rank.number == 1) {
                gpucoll_context_use_net(rank.context, &none);
            }
            EXPECT_EQ(rank.make_team(rank.meeting, 0, &rank.team), GPUCOLL_DECLINED);
            EXPECT_NE(rank.log.lines().back().find("rank 1: no network to other hosts"), std::string::npos)
                << rank.log.lines().back();
        },
        true);
}
