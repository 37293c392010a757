/*
 * Teams of several hosts: how they are made, and who cannot be one.
 */
#include <algorithm>
#include <cstdlib>
#include <chrono>
#include <deque>
#include <thread>
#include "test/unit/exchange_part.h"
#include "test/unit/hosts.h"
#include "test/unit/sum.h"

extern "C" {
#include "test/unit/failing.h"
}

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
            sum_of(rank, 1000);
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
                sum_of(rank, 100);
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
            sum_of(rank, 1000);
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
        sum_of(rank, 1000);
        ExchangeCall call = call_of(kinds[0], 100);
        check(rank, call);
    });
}

/* How the team is said to be made, and whether rank 0, and no other, says that a machine counts as several hosts. */
static void expect_divided(Rank &rank, const std::string &made, const std::string &why)
{
    EXPECT_NE(rank.log.lines().back().find(made), std::string::npos) << rank.log.lines().back();
    const bool says = rank.number == 0 && !why.empty();
    EXPECT_EQ(rank.log.topics(), std::vector<std::string>(says ? 1 : 0, "host-divided"));
    if (says) {
        EXPECT_NE(rank.log.text_of("host-divided").find(why), std::string::npos)
            << rank.log.text_of("host-divided");
    }
}

/* 17 + 16, and another host; 22 + 22 + 21; on two hosts in turns, 17 + 16 each. */
TEST(cluster_team, a_host_with_more_ranks_than_a_kernel_takes_counts_as_several)
{
    Hosts in_turns(66);
    for (uint32_t i = 0; i < in_turns.size(); i++) {
        in_turns[i] = i % 2;
    }
    const struct {
        Hosts hosts;
        const char *made;
    } rows[] = {
        {hosts_of({GPUCOLL_MAX_LOCAL + 1, 1}), "34 ranks on 3 hosts, 1 rails"},
        {hosts_of({65}), "65 ranks on 3 hosts, 21 rails"},
        {in_turns, "66 ranks on 4 hosts, 16 rails"},
    };
    for (const auto &row : rows) {
        on_hosts(row.hosts, {{"lanes", "1"}}, [&](Rank &rank) {
            expect_divided(rank, row.made, "more than can run a call together");
            for (int turn = 0; turn < 3; turn++) {
                if (turn ==
                    static_cast<int>(rank.number)) { /* ranks that know it by themselves do not wait */
                    std::this_thread::sleep_for(std::chrono::milliseconds(20));
                }
                for (size_t count : {5, 1000}) {
                    Sum small(rank, count, turn);
                    EXPECT_EQ(rank.call(small.args), GPUCOLL_DECLINED);
                    EXPECT_EQ(gpucoll_declined_reason(rank.team), GPUCOLL_REASON_SMALL);
                }
                check(rank, call_of(kinds[1], 10)); /* goes along with what the hosts agree on */
                ExchangePart uneven(call_of(kinds[1], 300), rank.number, rank.meeting.size);
                EXPECT_EQ(rank.call(uneven.args()),
                          GPUCOLL_DECLINED); /* after the hosts have agreed on its size */
                EXPECT_EQ(gpucoll_declined_reason(rank.team), GPUCOLL_REASON_SMALL);
                sum_of(rank, 40000);
                check(rank, call_of(kinds[0], 4000));
                check(rank, call_of(kinds[1], 8000));
            }
            gpucoll_team *again = nullptr;
            EXPECT_EQ(rank.make_team(rank.meeting, 1, &again), GPUCOLL_OK);
            gpucoll_team_destroy(again);
            expect_divided(rank, row.made, "more than can run a call together"); /* not said again */
        });
    }
}

TEST(cluster_team, as_many_ranks_as_a_kernel_takes_are_one_host)
{
    on_hosts(hosts_of({GPUCOLL_MAX_LOCAL, 1}), {{"lanes", "1"}}, [&](Rank &rank) {
        expect_divided(rank, "33 ranks on 2 hosts, 1 rails", "");
        sum_of(rank, 100);
    });
}

/* Containers of one machine that do not share their processes. */
TEST(cluster_team, ranks_in_several_pid_namespaces_are_on_several_hosts)
{
    constexpr size_t pid_space_offset = 48; /* of the owner's PID namespace, in a card */
    const Hosts spaces = hosts_of({2, 1});
    on_hosts(
        Hosts(3, 0), {},
        [&](Rank &rank) {
            rank.meeting.barrier();
            if (rank.number == 0) {
                rank.meeting.tamper = [&](uint32_t reader, char *all, size_t bytes) {
                    for (uint32_t i = 0; i < spaces.size() && bytes > 100 && bytes < 1000; i++) {
                        all[i * bytes + pid_space_offset] ^= spaces[i] != spaces[reader];
                    }
                };
            }
            rank.meeting.barrier();
            ASSERT_EQ(rank.make_team(rank.meeting, 0, &rank.team), GPUCOLL_OK);
            expect_divided(rank, "3 ranks on 2 hosts, 1 rails", "several PID namespaces");
            sum_of(rank, 1000);
        },
        true);
}

/* Of several teams at once, whatever was made and is gone in between: with equal ids they would take each other's messages. */
TEST(cluster_team, ids_that_come_again_are_not_those_in_use)
{
    on_hosts(hosts_of({2, 1}), {}, [](Rank &rank) {
        gpucoll_team *teams[3] = {};
        for (uint32_t i = 0; i < 3; i++) {
            ASSERT_EQ(rank.make_team(rank.meeting, i + 1, &teams[i]), GPUCOLL_OK);
            rank.barrier();
            test_net_ids_again(rank.context);
            rank.barrier();
        }
        gpucoll_team_destroy(teams[1]);
        ASSERT_EQ(rank.make_team(rank.meeting, 4, &teams[1]), GPUCOLL_OK);
        for (int turn = 0; turn < 10; turn++) {
            std::deque<Sum> sums;
            gpucoll_request *request[3];
            for (uint32_t i = 0; i < 3; i++) { /* begun in another order on each rank */
                const uint32_t which = (i + rank.number) % 3;
                sums.emplace_back(rank, 1000 + which, turn + static_cast<int>(which));
                ASSERT_EQ(gpucoll_post(teams[which], &sums.back().args, &request[which]), GPUCOLL_OK);
            }
            gpucoll_status status[3] = {GPUCOLL_IN_PROGRESS, GPUCOLL_IN_PROGRESS, GPUCOLL_IN_PROGRESS};
            for (int open = 3; open > 0;) {
                for (uint32_t i = 0; i < 3; i++) {
                    if (status[i] == GPUCOLL_IN_PROGRESS &&
                        (status[i] = gpucoll_test(request[i])) != GPUCOLL_IN_PROGRESS) {
                        EXPECT_EQ(status[i], GPUCOLL_OK);
                        open--;
                    }
                }
            }
            for (const Sum &sum : sums) {
                EXPECT_TRUE(sum.right());
            }
        }
        rank.barrier();
        for (gpucoll_team *team : teams) {
            gpucoll_team_destroy(team);
        }
    });
}

namespace
{
/* What the rank that is this thread told its network. */
thread_local gpucoll_net_place told;
thread_local gpucoll_device_id told_gpu;

const gpucoll_net_ops *asking_net()
{
    static gpucoll_net_ops asking = fake_net;
    asking.open = [](const struct gpucoll_config *config, const struct gpucoll_log *log,
                     const struct gpucoll_net_place *place, gpucoll_net **net) {
        told = *place;
        told_gpu = place->gpu ? *place->gpu : gpucoll_device_id{};
        return fake_net.open(config, log, place, net);
    };
    return &asking;
}
} // namespace

TEST(cluster_team, the_network_is_told_the_gpu_in_use_and_the_number_on_the_host)
{
    Meeting members(3);
    spread(members, hosts_of({2, 1}));
    on_hosts(
        hosts_of({2, 1}), {},
        [&](Rank &rank) {
            if (rank.number < 2) {
                gpucoll_context_share_host(rank.context, 2, rank.number);
            }
            if (rank.number == 1) { /* in use, but not bound */
                test_device_in_use(rank.context, 7);
            } else if (rank.number == 2) {
                EXPECT_TRUE(gpucoll_context_bind_ahead(rank.context));
            }
            gpucoll_team *team = nullptr;
            ASSERT_EQ(rank.make_team(members, rank.number, &team), GPUCOLL_OK);
            EXPECT_EQ(told.local_rank, rank.number < 2 ? static_cast<int>(rank.number) : -1);
            EXPECT_EQ(told.gpu != nullptr, rank.number > 0);
            if (rank.number == 1) {
                EXPECT_EQ(told_gpu.uuid[0], 7);
            }
            rank.barrier();
            gpucoll_team_destroy(team);
        },
        true, asking_net());
}

TEST(cluster_team, no_network_on_one_rank_declines_on_all)
{
    static gpucoll_net_ops none = fake_net;
    none.open = [](const struct gpucoll_config *, const struct gpucoll_log *,
                   const struct gpucoll_net_place *, gpucoll_net **) { return GPUCOLL_DECLINED; };
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
