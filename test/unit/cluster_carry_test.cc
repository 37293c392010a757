/*
 * Calls of several hosts with few bytes, that go along with what the hosts tell each other: which do, that they are right,
 * and what happens when a host cannot run one or gives it up.
 */
#include <array>
#include <set>
#include "test/unit/few_bytes.h"
#include "test/unit/sum.h"

namespace
{
const Kind allgather_kind = {GPUCOLL_ALLGATHER, ALL_TO_ALL, false, true, false};
const Kind allgatherv_kind = {GPUCOLL_ALLGATHERV, ALL_TO_ALL, false, true, true}; /* with gaps */
const Kind scatter_kind = {GPUCOLL_REDUCE_SCATTER, ALL_TO_ALL, true, false, true};
const Kind scatter_block_kind = {GPUCOLL_REDUCE_SCATTER_BLOCK, ALL_TO_ALL, true, false, false};
const Kind alltoall_kind = {GPUCOLL_ALLTOALL, ALL_TO_ALL, true, true, false};
const Kind to_root_kind = {GPUCOLL_GATHER, TO_ROOT, false, true, false};
const Kind from_root_kind = {GPUCOLL_SCATTER, FROM_ROOT, true, false, false};
const Kind block_kinds[] = {allgather_kind, allgatherv_kind, scatter_kind, scatter_block_kind, alltoall_kind};
/* What a rank has for another only these two know. */
const Kind private_kinds[] = {
    {GPUCOLL_ALLTOALLV, ALL_TO_ALL, true, true, true},
    {GPUCOLL_ALLTOALLW, ALL_TO_ALL, true, true, true},
};

unsigned messages_of(const char *carry, const Body &body)
{
    return messages_of(hosts_of({2, 2}), {{"carry", carry}}, body);
}
} // namespace

TEST(cluster_carry, needs_one_message_a_rank)
{
    EXPECT_EQ(messages_of("256", [](Rank &rank) { sum_of(rank, 2); }), 4u);
    EXPECT_EQ(messages_of("256", [](Rank &rank) { sum_of(rank, 64); }), 4u);
    EXPECT_EQ(messages_of("256", [](Rank &rank) { check(rank, call_of(reduce_kind, 8)); }), 4u);
    EXPECT_EQ(messages_of("256", [](Rank &rank) { check(rank, call_of(bcast_kind, 256)); }), 4u);
    /* What is too long goes by the stages, as does what goes neither from one rank nor to all or one as a sum. */
    EXPECT_GT(messages_of("256", [](Rank &rank) { sum_of(rank, 65); }), 4u);
    EXPECT_GT(messages_of("8", [](Rank &rank) { sum_of(rank, 3); }), 4u);
    EXPECT_EQ(messages_of("8", [](Rank &rank) { sum_of(rank, 2); }), 4u);
    EXPECT_GT(messages_of("0", [](Rank &rank) { sum_of(rank, 2); }), 4u);
    EXPECT_GT(messages_of("7", [](Rank &rank) { sum_of(rank, 1); }), 4u);
    const Kind scan = {GPUCOLL_SCAN, UPWARDS, false, false, false};
    EXPECT_GT(messages_of("256", [&](Rank &rank) { check(rank, call_of(scan, 8)); }), 4u);
    EXPECT_EQ(messages_of("4096", [](Rank &rank) { sum_of(rank, 1024); }), 4u);
    EXPECT_GT(messages_of("4096", [](Rank &rank) { sum_of(rank, 1025); }), 4u);
    EXPECT_EQ(messages_of("4096", [](Rank &rank) { check(rank, call_of(bcast_kind, 4096)); }), 4u);
    EXPECT_EQ(messages_of("4096", [](Rank &rank) { check(rank, call_of(reduce_kind, 1024)); }), 4u);
    EXPECT_GT(messages_of("4096", [](Rank &rank) { check(rank, call_of(bcast_kind, 4097)); }), 4u);
}

/* Of the blocks of all ranks together no more than of a sum. */
TEST(cluster_carry, blocks_need_one_message_a_rank)
{
    const auto messages = [](const Kind &kind, size_t count) {
        return messages_of("4096", [=](Rank &rank) { check(rank, call_of(kind, count)); });
    };
    EXPECT_EQ(messages(allgather_kind, 1), 4u);
    EXPECT_EQ(messages(allgather_kind, 1024), 4u);
    EXPECT_GT(messages(allgather_kind, 1025), 4u);
    EXPECT_EQ(messages(allgatherv_kind, 700), 4u);
    EXPECT_EQ(messages(scatter_kind, 100), 4u);
    EXPECT_EQ(messages(scatter_block_kind, 256), 4u);
    EXPECT_GT(messages(scatter_block_kind, 257), 4u);
    EXPECT_EQ(messages(to_root_kind, 1024), 4u);
    EXPECT_GT(messages(to_root_kind, 1025), 4u);
    EXPECT_EQ(messages(from_root_kind, 1024), 4u);
    EXPECT_GT(messages(from_root_kind, 1025), 4u);
    EXPECT_EQ(messages(alltoall_kind, 512), 4u); /* for four ranks, of two */
    EXPECT_GT(messages(alltoall_kind, 513), 4u);
    for (const Kind &kind : private_kinds) {
        EXPECT_GT(messages(kind, 8), 4u) << gpucoll_coll_name(kind.coll);
    }
    EXPECT_GT(messages_of("0", [](Rank &rank) { check(rank, call_of(allgather_kind, 1)); }), 4u);
}

/* Of three blocks one is empty, and hosts bring unequally much. */
TEST(cluster_carry, blocks_of_all_shapes_and_sizes)
{
    for (const Hosts &hosts : few_shapes) {
        on_hosts(hosts, {}, [](Rank &rank) {
            for (const Kind &kind : block_kinds) {
                for (size_t count : {1, 3, 8, 65, 146, 300, 585}) {
                    check_both_places(rank, call_of(kind, count));
                }
            }
            for (size_t count : {1, 65, 585}) {
                check_rooted(rank, to_root_kind, count);
                check_rooted(rank, from_root_kind, count);
            }
        });
    }
}

/* 16 KiB of all hosts together, in whole words of 8 bytes each. */
TEST(cluster_carry, many_hosts_have_less_room_each)
{
    const std::pair<uint32_t, size_t> room[] = {{3, 4096}, {4, 4096}, {5, 3272}, {7, 2336}};
    for (const auto &[hosts, bytes] : room) {
        const Hosts shape = hosts_of(std::vector<uint32_t>(hosts, 1));
        const auto sum = [](size_t count) { return [=](Rank &rank) { sum_of(rank, count); }; };
        const unsigned alone = messages_of(shape, {}, [](Rank &rank) { enter_barrier(rank.team); });
        EXPECT_EQ(messages_of(shape, {}, sum(bytes / 4)), alone) << hosts;
        EXPECT_GT(messages_of(shape, {}, sum(bytes / 4 + 1)), alone) << hosts;
        for (const Hosts &each : {shape, hosts_of(std::vector<uint32_t>(hosts, 2))}) {
            on_hosts(
                each, {},
                [bytes = bytes](Rank &rank) {
                    check_reductions(rank, GPUCOLL_SUM, GPUCOLL_FLOAT16, bytes / 2, 2);
                    check_rooted(rank, reduce_kind, bytes / 4);
                    check_rooted(rank, bcast_kind, bytes);
                },
                false, fake_net_shaken());
        }
    }
}

/* Hosts that are to agree on a barrier tell each other verdicts and nothing else. */
TEST(cluster_carry, messages_have_what_is_carried_and_no_more)
{
    const auto alltoall = [](Rank &rank) { check(rank, call_of(private_kinds[0], 100)); };
    const auto sum = [](Rank &rank) { sum_of(rank, 2); };
    for (const Hosts &hosts : {hosts_of({2, 2}), hosts_of({1, 1, 1, 1, 1}), hosts_of({1, 2, 3})}) {
        const Traffic bare = traffic_of(hosts, {}, [](Rank &rank) { enter_barrier(rank.team); });
        const Traffic with_none = traffic_of(hosts, {{"carry", "0"}}, alltoall);
        EXPECT_EQ(traffic_of(hosts, {}, alltoall).bytes, with_none.bytes);
        EXPECT_EQ(traffic_of(hosts, {{"carry", "0"}}, [](Rank &rank) { enter_barrier(rank.team); }).bytes,
                  bare.bytes);
        /* Every rank hears of every other host once, and from one rank of it. */
        const std::set<uint32_t> different(hosts.begin(), hosts.end());
        EXPECT_EQ(traffic_of(hosts, {}, sum).bytes, bare.bytes + hosts.size() * (different.size() - 1) * 8);
    }
}

/* Ranks of a host have room for more than 256 bytes on 64 communicators at once. */
TEST(cluster_carry, what_communicators_have_no_room_for_goes_by_stages)
{
    on_hosts(
        hosts_of({2, 1}), {},
        [](Rank &rank) {
            std::vector<gpucoll_team *> teams = {rank.team};
            const auto messages = [&](gpucoll_team *team, size_t count) {
                const auto call = [&] {
                    Sum sum(rank, count, 3);
                    EXPECT_EQ(Rank::call(team, sum.args), GPUCOLL_OK);
                    EXPECT_TRUE(sum.right());
                };
                call();
                return traffic_in(rank, call).messages;
            };
            const auto make = [&](uint32_t number) {
                teams.push_back(nullptr);
                ASSERT_EQ(rank.make_team(rank.meeting, number, &teams.back()), GPUCOLL_OK);
            };
            for (uint32_t number = 1; number < 65; number++) {
                make(number);
            }
            EXPECT_EQ(messages(teams[0], 1024), 3u);
            EXPECT_EQ(messages(teams[63], 1024), 3u);
            EXPECT_EQ(messages(teams[64], 64), 3u);
            EXPECT_GT(messages(teams[64], 65), 3u);
            gpucoll_team_destroy(teams[10]);
            teams.erase(teams.begin() + 10);
            rank.barrier();
            make(65);
            EXPECT_EQ(messages(teams.back(), 1024), 3u);
            for (size_t i = 1; i < teams.size(); i++) {
                gpucoll_team_destroy(teams[i]);
            }
        },
        false, counting_net());
}

TEST(cluster_carry, all_shapes_roots_and_sizes)
{
    for (const Hosts &hosts : few_shapes) {
        on_hosts(hosts, {}, [](Rank &rank) {
            for (size_t count : {1, 7, 8, 64, 128, 171, 256, 257, 2048, 2049}) {
                check_reductions(rank, GPUCOLL_SUM, GPUCOLL_FLOAT16, count, count % 2 * 2);
                check_rooted(rank, reduce_kind, count);
                check_rooted(rank, bcast_kind, count);
            }
        });
    }
}

TEST(cluster_carry, every_operator_and_type)
{
    on_hosts(hosts_of({2, 1, 1}), {}, [](Rank &rank) {
        for (const NativePair &pair : native_pairs()) {
            check_reductions(rank, pair.op, pair.type, 5, 0);
            ExchangeCall call = call_of(scatter_block_kind, 5);
            call.op = pair.op;
            call.type = pair.type;
            check_both_places(rank, call);
        }
    });
}

namespace
{
/* Tests all of them in turn until each is complete. */
void finish_all(std::vector<gpucoll_request *> &requests)
{
    for (size_t open = requests.size(); open > 0;) {
        for (gpucoll_request *&request : requests) {
            if (request == nullptr) {
                continue;
            }
            const gpucoll_status status = gpucoll_test(request);
            if (status != GPUCOLL_IN_PROGRESS) {
                EXPECT_EQ(status, GPUCOLL_OK);
                request = nullptr;
                open--;
            }
        }
        sched_yield();
    }
}
} // namespace

/* Calls that wait for others in their stages, and calls that need none, at once: more than there are entries of the ring. */
TEST(cluster_carry, several_at_once_beside_long_ones)
{
    for (const Hosts &hosts : {hosts_of({2, 2}), hosts_of({1, 2, 3})}) {
        on_hosts(
            hosts, {{"chunk", "4K"}},
            [](Rank &rank) {
                for (int turn = 0; turn < 20; turn++) {
                    std::vector<std::unique_ptr<Sum>> sums;
                    std::vector<gpucoll_request *> requests;
                    for (size_t count : {1, 5000, 2, 3, 4, 3000, 5, 6, 7, 8}) {
                        sums.push_back(std::make_unique<Sum>(rank, count, turn));
                        requests.push_back(nullptr);
                        ASSERT_EQ(gpucoll_post(rank.team, &sums.back()->args, &requests.back()), GPUCOLL_OK);
                    }
                    finish_all(requests);
                    for (const auto &sum : sums) {
                        EXPECT_TRUE(sum->right());
                    }
                }
            },
            false, fake_net_shaken());
    }
}

/* All at once, of any length: those that go along, those that do not, and those that ranks have in another order on their way. */
TEST(cluster_carry, lengths_at_random)
{
    constexpr size_t at_once = 6;
    for (const Hosts &hosts : few_shapes) {
        on_hosts(
            hosts, {},
            [](Rank &rank) {
                Random random(77);
                for (int turn = 0; turn < 18; turn++) {
                    std::vector<std::unique_ptr<Sum>> sums;
                    std::vector<gpucoll_request *> requests(at_once, nullptr);
                    for (gpucoll_request *&request : requests) {
                        sums.push_back(std::make_unique<Sum>(rank, 1 + random.below(1250), turn));
                        ASSERT_EQ(gpucoll_post(rank.team, &sums.back()->args, &request), GPUCOLL_OK);
                    }
                    const size_t bytes = 1 + random.below(5000);
                    const size_t share =
                        bytes / rank.meeting.size + 3; /* so that no kind has nothing at all */
                    const std::pair<Kind, size_t> calls[] = {
                        {bcast_kind, bytes},           {reduce_kind, (bytes + 3) / 4},
                        {allgather_kind, share},       {allgatherv_kind, share},
                        {scatter_kind, share / 4 + 3}, {scatter_block_kind, share / 4 + 1},
                        {to_root_kind, share},         {from_root_kind, share},
                        {alltoall_kind, share / 2},
                    };
                    const auto &[kind, count] = calls[turn % std::size(calls)];
                    ExchangeCall call = call_of(kind, count);
                    call.root = static_cast<uint32_t>(random.below(rank.meeting.size));
                    ExchangePart part(call, rank.number, rank.meeting.size);
                    const gpucoll_coll_args args = part.args();
                    requests.push_back(nullptr);
                    ASSERT_EQ(gpucoll_post(rank.team, &args, &requests.back()), GPUCOLL_OK);
                    finish_all(requests);
                    for (const auto &sum : sums) {
                        EXPECT_TRUE(sum->right());
                    }
                    EXPECT_TRUE(part.right()) << part.text();
                }
            },
            false, fake_net_shaken());
    }
}

/* ---- what differs ---- */

TEST(cluster_carry, a_host_that_cannot_makes_all_decline)
{
    for (const Hosts &hosts : few_shapes) {
        on_hosts(hosts, {}, [](Rank &rank) {
            for (uint32_t turn = 0; turn < 3 * rank.meeting.size; turn++) {
                const uint32_t odd = turn / 3;
                const size_t count = std::array<size_t, 3>{3, 584, 1024}[turn % 3];
                const gpucoll_memory memory =
                    rank.number == odd ? GPUCOLL_MEMORY_HOST : GPUCOLL_MEMORY_DEVICE;
                Sum sum(rank, count, 1, memory, memory);
                EXPECT_EQ(rank.call(sum.args), GPUCOLL_DECLINED) << "rank " << rank.number << " odd " << odd;
                EXPECT_EQ(gpucoll_declined_reason(rank.team), GPUCOLL_REASON_MEMORY);
                EXPECT_TRUE(sum.untouched());
                sum_of(rank, count);
            }
        });
    }
}

TEST(cluster_carry, counts_that_differ_are_an_error_on_all)
{
    for (const Hosts &hosts : {hosts_of({2, 2}), hosts_of({1, 1}), hosts_of({1, 2, 3})}) {
        on_hosts(hosts, {}, [&](Rank &rank) {
            Sum sum(rank, 3 + hosts[rank.number], 1);
            EXPECT_EQ(rank.call(sum.args), GPUCOLL_ERR_MISMATCH);
            EXPECT_EQ(rank.log.topics(), std::vector<std::string>{"arguments-differ"});
            Sum one_rank(rank, rank.number == 1 ? 5 : 3000,
                         1); /* which alone takes it for one of few bytes */
            EXPECT_EQ(rank.call(one_rank.args), GPUCOLL_ERR_MISMATCH);
            sum_of(rank, 3);
            for (const Kind &kind : {allgather_kind, to_root_kind, from_root_kind, alltoall_kind}) {
                for (uint32_t odd = 0; odd < rank.meeting.size; odd++) {
                    ExchangePart part(call_of(kind, rank.number == odd ? 8 : 4), rank.number,
                                      rank.meeting.size);
                    EXPECT_EQ(rank.call(part.args()), GPUCOLL_ERR_MISMATCH) << part.text();
                }
                check(rank, call_of(kind, 8));
            }
        });
    }
}

TEST(cluster_carry, ranks_that_pass_make_all_decline)
{
    for (const Hosts &hosts : few_shapes) {
        on_hosts(hosts, {}, [](Rank &rank) {
            for (int turn = 0; turn < 10; turn++) {
                if (rank.number == 0) {
                    gpucoll_pass(rank.team);
                } else {
                    Sum sum(rank, 4, turn);
                    EXPECT_EQ(rank.call(sum.args), GPUCOLL_DECLINED);
                    EXPECT_EQ(gpucoll_declined_reason(rank.team), GPUCOLL_REASON_PASSED);
                    EXPECT_TRUE(sum.untouched());
                }
            }
            sum_of(rank, 4);
            rank.barrier();
        });
    }
}

TEST(cluster_carry, a_call_that_is_given_up_ends_on_all)
{
    for (const Hosts &hosts : {hosts_of({2, 1}), hosts_of({1, 3, 1, 2})}) {
        on_hosts(hosts, {{"timeout", "60"}}, [](Rank &rank) {
            sum_of(rank, 4);
            Sum sum(rank, 4, 1);
            gpucoll_request *request = nullptr;
            ASSERT_EQ(gpucoll_post(rank.team, &sum.args, &request), GPUCOLL_OK);
            if (rank.number == 2) {
                gpucoll_cancel(request);
            } else {
                EXPECT_EQ(Rank::finish(request), GPUCOLL_ERR_TIMEOUT);
                EXPECT_EQ(rank.log.topics(), std::vector<std::string>{"peer-gave-up"});
            }
            EXPECT_EQ(rank.call(sum.args), GPUCOLL_DECLINED);
            rank.barrier();
        });
    }
}

TEST(cluster_carry, a_rank_that_does_not_come_is_named)
{
    on_hosts(hosts_of({2, 1}), {{"timeout", "16"}}, [](Rank &rank) {
        sum_of(rank, 4);
        rank.barrier();
        if (rank.number != 1) {
            Sum sum(rank, 4, 1);
            EXPECT_EQ(rank.call(sum.args), GPUCOLL_ERR_TIMEOUT);
            const std::string topic = rank.number == 0 ? "timeout" : "peer-gave-up";
            EXPECT_EQ(rank.log.topics(), std::vector<std::string>{topic});
            EXPECT_NE(rank.log.text_of(topic).find("Missing ranks:  1\n"), std::string::npos)
                << rank.log.text_of(topic);
            EXPECT_TRUE(sum.untouched());
        }
        rank.barrier();
    });
}
