/*
 * Calls whose result peers write straight into the application's buffers, by copies: every collective that can, in buffers that are
 * used again and again, freed and made anew, too many for the table, or that cannot be mapped.
 */
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include "test/unit/reducer.h"

extern "C" {
#include "test/unit/failing.h"
#include "test/unit/queued_copies.h"
}

namespace
{
/* The largest count of a sweep: with many ranks, whose blocks add up, a third of it. */
size_t most(uint32_t ranks, size_t count)
{
    return count / (ranks > 4 ? 3 : 1) / amounts_divisor | 1;
}

/* Small messages are direct too, and nothing else is if it can be. */
Settings forced(const char *protocol)
{
    return {{"zero_copy", "1"}, {"protocol", protocol}, {"verbose", "5"}};
}

std::string said(const Rank &rank)
{
    return rank.log.text();
}

/* An all-reduce of ranks' numbers, `count` ints, by buffers that stay. */
struct Sum {
    Sum(size_t count, size_t offset) : count(count), send(count * 4, offset), recv(count * 4, offset) {}

    void check(Rank &rank, bool in_place)
    {
        auto *in = reinterpret_cast<char *>(in_place ? recv.data() : send.data());
        const uint32_t size = rank.meeting.size;
        for (size_t i = 0; i < count; i++) {
            const auto value = static_cast<int32_t>(i * 7 + rank.number * (i % 13) + round);
            memcpy(in + 4 * i, &value, 4);
        }
        if (!in_place) {
            recv.poison();
        }
        ASSERT_EQ(rank.call(reduce_all(GPUCOLL_SUM, GPUCOLL_INT32, in_place ? GPUCOLL_IN_PLACE : send.data(),
                                       recv.data(), count)),
                  GPUCOLL_OK);
        for (size_t i = 0; i < count; i++) {
            int32_t value;
            memcpy(&value, recv.data() + 4 * i, 4);
            const auto wanted =
                static_cast<int32_t>(size * (i * 7 + round) + (size * (size - 1) / 2) * (i % 13));
            ASSERT_EQ(value, wanted) << "element " << i << " of " << count << " in round " << round;
        }
        EXPECT_TRUE(recv.guards_intact());
        round++;
    }

    size_t count;
    Buffer send;
    Buffer recv;
    size_t round = 0;
};

/* May it be repeated in place? The others move or reduce what they have sent. */
bool is_kept_in_place(gpucoll_coll coll)
{
    return coll == GPUCOLL_ALLGATHER || coll == GPUCOLL_ALLGATHERV || coll == GPUCOLL_GATHER ||
           coll == GPUCOLL_GATHERV || coll == GPUCOLL_SCATTER || coll == GPUCOLL_SCATTERV;
}

void exchange_thrice(Rank &rank, const Kind &kind, size_t count, size_t offset, bool in_place = false)
{
    ExchangeCall call = call_of(kind, count);
    call.in_place = in_place;
    call.root = 1 % rank.meeting.size;
    call.offset = offset;
    ExchangePart part(call, rank.number, rank.meeting.size);
    for (int use = 0; use < 3; use++) {
        EXPECT_EQ(rank.call(part.args()), GPUCOLL_OK) << part.text() << " use " << use;
        EXPECT_TRUE(part.right()) << part.text() << " use " << use;
        part.poison();
    }
    rank.log.topics();
}
} // namespace

class direct : public testing::TestWithParam<std::tuple<uint32_t, const char *>>
{
};

TEST_P(direct, every_exchange)
{
    const auto [ranks, protocol] = GetParam();
    on_threads(ranks, forced(protocol), [protocol = protocol](Rank &rank) {
        for (const Kind &kind : kinds) {
            for (size_t count : {size_t{1}, 70000 / amounts_divisor, most(rank.meeting.size, 300007)}) {
                exchange_thrice(rank, kind, count, count % 2 ? 3 : 0);
            }
            if (is_kept_in_place(kind.coll)) {
                exchange_thrice(rank, kind, 70000 / amounts_divisor, 0, true);
            }
        }
        if (rank.number == 0) {
            EXPECT_NE(said(rank).find(std::string("exchange by ") + protocol), std::string::npos);
        }
    });
}

TEST_P(direct, algorithms_that_share_the_work)
{
    const auto [ranks, protocol] = GetParam();
    Settings settings = forced(protocol);
    const std::string way = std::string(protocol) == "copy" ? "chain" : "scatter_allgather";
    settings.push_back({"bcast_algorithm", way.c_str()});
    settings.push_back({"chunk", "16K"});
    settings.push_back({"reduce_algorithm", "scatter_gather"});
    on_threads(ranks, settings, [protocol = protocol, way](Rank &rank) {
        for (const Kind &kind : kinds) {
            for (size_t count : {70, 70000, 300007}) {
                if (kind.coll == GPUCOLL_BCAST || kind.coll == GPUCOLL_REDUCE) {
                    exchange_thrice(rank, kind, count, count % 2 ? 3 : 0);
                }
            }
        }
        if (rank.number == 0 && rank.meeting.size > 2) {
            EXPECT_NE(said(rank).find(way + " by " + protocol), std::string::npos);
            EXPECT_NE(said(rank).find(std::string("scatter_gather by ") + protocol), std::string::npos);
        }
    });
}

TEST_P(direct, every_root)
{
    const auto [ranks, protocol] = GetParam();
    on_threads(ranks, forced(protocol), [](Rank &rank) {
        for (const Kind &kind : kinds) {
            if (kind.shape != TO_ROOT && kind.shape != FROM_ROOT) {
                continue;
            }
            ExchangeCall call = call_of(kind, 66000);
            for (call.root = 0; call.root < rank.meeting.size; call.root++) {
                ExchangePart part(call, rank.number, rank.meeting.size);
                for (int use = 0; use < 2; use++) {
                    EXPECT_EQ(rank.call(part.args()), GPUCOLL_OK) << part.text();
                    EXPECT_TRUE(part.right()) << part.text();
                    part.poison();
                }
            }
        }
    });
}

TEST_P(direct, allreduce_in_place_or_not_at_any_alignment)
{
    const auto [ranks, protocol] = GetParam();
    on_threads(ranks, forced(protocol), [protocol = protocol](Rank &rank) {
        for (size_t count : {size_t{17000}, size_t{70001}, most(rank.meeting.size, 1500003)}) {
            Sum sum(count, count % 2 ? 4 : 0);
            for (int use = 0; use < 3; use++) {
                sum.check(rank, use % 2 == 1);
                sum.check(rank, false);
            }
        }
        if (rank.number == 0 && std::string(protocol) == "copy") {
            EXPECT_NE(said(rank).find("twoshot by copy"), std::string::npos);
        }
    });
}

INSTANTIATE_TEST_SUITE_P(ranks, direct,
                         testing::Combine(testing::Values(2, 3, 4, 7), testing::Values("copy", "direct")),
                         [](const auto &info) {
                             return std::to_string(std::get<0>(info.param)) + "_" + std::get<1>(info.param);
                         });

namespace
{
/* One batch to all peers, by each rank, where a copy for each would do as well; and `within` copies within the GPU. */
void check_batches(Rank &rank, const Kind &kind, bool in_place, uint64_t within)
{
    ExchangeCall call = call_of(kind, 70000);
    call.in_place = in_place;
    ExchangePart part(call, rank.number, rank.meeting.size);
    for (int use = 0; use < 3; use++) { /* then all know the buffers */
        part.poison();
        EXPECT_EQ(rank.call(part.args()), GPUCOLL_OK);
    }
    const uint64_t batches = test_queued_batches(rank.context);
    const uint64_t copies = test_queued_copies(rank.context);
    for (uint64_t use = 1; use <= 3; use++) {
        part.poison();
        EXPECT_EQ(rank.call(part.args()), GPUCOLL_OK);
        EXPECT_TRUE(part.right());
        EXPECT_EQ(test_queued_batches(rank.context), batches + use);
        EXPECT_EQ(test_queued_copies(rank.context), copies + use * within);
    }
}
} // namespace

TEST(direct_copies, to_several_peers_are_queued_together)
{
    on_threads(4, forced("copy"), [](Rank &rank) {
        check_batches(rank, {GPUCOLL_ALLTOALL, ALL_TO_ALL, true, true, false}, false, 1);
        check_batches(rank, {GPUCOLL_ALLGATHER, ALL_TO_ALL, false, true, false}, false, 1);
        check_batches(rank, {GPUCOLL_ALLGATHER, ALL_TO_ALL, false, true, false}, true, 0);
    });
}

/* Of ranks 0 and 3 the longest block that goes to another is more than half as long again as the mean, so each of two is queued by itself, and
 * the own one. Rank 1 sends one, and rank 2 three that differ less, in a batch; its own is empty. */
TEST(direct_copies, that_are_of_different_length_are_queued_each)
{
    on_threads(4, forced("copy"), [](Rank &rank) {
        const uint64_t expected[] = {3, 2, 1, 3};
        ExchangePart part({.kind = kind_of(GPUCOLL_ALLTOALLV), .count = 25 << 20}, rank.number,
                          rank.meeting.size);
        uint64_t before = 0;
        for (int use = 0; use < 3; use++) { /* then all know the buffers */
            before = use > 0 ? test_queued(rank.context) : 0;
            part.poison();
            EXPECT_EQ(rank.call(part.args()), GPUCOLL_OK);
            EXPECT_TRUE(part.right()) << part.text();
        }
        EXPECT_EQ(test_queued(rank.context), before + expected[rank.number]) << part.text();
    });
}

/* Which is the application's error: who expects nothing has told no place. Before, both have used their buffers as they should; then all leave the call to
 * others. */
TEST(direct_buffers, of_ranks_that_expect_nothing_are_left_alone)
{
    for (const char *protocol : {"copy", "direct"}) {
        on_threads(2, forced(protocol), [&](Rank &rank) {
            const size_t bytes = 1 << 20;
            const uint32_t peer = 1 - rank.number;
            Buffer send(bytes);
            Buffer recv(bytes);
            struct gpucoll_block blocks[2] = {};
            const struct gpucoll_block none[2] = {};
            blocks[peer].bytes = bytes;
            struct gpucoll_coll_args args = {};
            args.coll = GPUCOLL_ALLTOALLV;
            args.send = send.data();
            args.recv = recv.data();
            args.send_blocks = blocks;
            for (int use = 0; use < 5; use++) {
                const bool fits = use != 3;
                args.recv_blocks = fits || rank.number == 0 ? blocks : none;
                memset(send.data(), use + 1, bytes);
                recv.poison();
                Bytes wanted(recv.data(), recv.data() + bytes);
                if (fits) {
                    std::fill(wanted.begin(), wanted.end(), static_cast<char>(use + 1));
                }
                EXPECT_EQ(rank.call(args), fits ? GPUCOLL_OK : GPUCOLL_DECLINED);
                EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), recv.data())) << "use " << use;
            }
            EXPECT_NE(said(rank).find("call 5, alltoallv of 1048576 bytes: ran natively by exchange/" +
                                      std::string(protocol)),
                      std::string::npos);
            EXPECT_NE(said(rank).find("call 4: all decline: what is sent to a rank"), std::string::npos);
            rank.log.topics();
        });
    }
}

TEST(direct_processes, map_each_others_buffers)
{
    for (const char *protocol : {"copy", "direct"})
        on_processes(4, forced(protocol), [](Rank &rank) {
            for (const Kind &kind : kinds) {
                exchange_thrice(rank, kind, 100003, 1);
            }
            Sum sum(200001, 4);
            for (int use = 0; use < 3; use++) {
                sum.check(rank, use == 1);
            }
            EXPECT_EQ(shm_traces(), std::vector<std::string>());
        });
}

TEST(direct_buffers, are_freed_and_made_again)
{
    on_threads(3, forced("copy"), [](Rank &rank) {
        for (int life = 0; life < 150; life++) { /* two buffers each: more than the table holds */
            Sum sum(16500 + static_cast<size_t>(life), 0);
            sum.check(rank, false);
            sum.check(rank, false);
        }
    });
}

/* As many as a program with a bucket of gradients for each of its layers has: none drives another out. */
TEST(direct_buffers, stay_known_while_the_table_holds_them)
{
    on_threads(2, forced("copy"), [](Rank &rank) {
        std::vector<std::unique_ptr<Sum>> sums;
        for (int i = 0; i < 60; i++) { /* two buffers each */
            sums.push_back(std::make_unique<Sum>(16500, 0));
        }
        for (int use = 0; use < 4; use++) {
            for (auto &sum : sums) {
                sum->check(rank, false);
            }
        }
        EXPECT_EQ(runs_by(rank, "twoshot/copy"), 3 * sums.size());
    });
}

/* Once peers have mapped them: whose memory it is and which allocation are one question. */
TEST(direct_buffers, are_looked_up_once_a_call)
{
    on_threads(2, forced("copy"), [](Rank &rank) {
        Sum sum(16500, 0);
        for (int i = 0; i < 4; i++) {
            sum.check(rank, false);
        }
        test_count_classified(rank.context);
        sum.check(rank, false);
        EXPECT_EQ(test_classified(), 2u);
        sum.check(rank, true);
        EXPECT_EQ(test_classified(), 3u);
    });
}

TEST(direct_buffers, may_be_more_than_the_table_holds)
{
    on_threads(2, forced("copy"), [](Rank &rank) {
        std::vector<std::unique_ptr<Sum>> sums;
        for (int i = 0; i < 70; i++) { /* two buffers each */
            sums.push_back(std::make_unique<Sum>(16500, 0));
        }
        for (int use = 0; use < 3; use++) {
            for (auto &sum : sums) {
                sum->check(rank, false);
            }
        }
    });
}

TEST(direct_buffers, that_one_rank_cannot_share_go_another_way)
{
    on_threads(3, {{"zero_copy", "1"}, {"verbose", "5"}}, [](Rank &rank) {
        Sum sum(100, 0); /* too small to be mapped */
        sum.check(rank, false);
        sum.check(rank, false);
        sum.check(rank, true);
        EXPECT_EQ(said(rank).find("by copy,"), std::string::npos);
    });
}

/* A rank that has no memory to note what the team has met; whether it has some again later, all decide alike. */
TEST(direct_buffers, go_another_way_where_one_rank_has_no_memory_for_its_table)
{
    on_threads(3, {{"zero_copy", "64K"}, {"protocol", "copy"}, {"verbose", "5"}}, [](Rank &rank) {
        Sum small(100, 0);
        small.check(rank, false);
        Sum first(50000, 0);
        Sum second(50000, 0);
        test_no_memory_from(rank.number == 1 ? 4096 : 0);
        for (int use = 0; use < 3; use++) {
            first.check(rank, false);
        }
        EXPECT_EQ(test_memory_refused(), rank.number == 1 ? 3u : 0u);
        EXPECT_EQ(said(rank).find("by copy,"), std::string::npos);
        test_no_memory_from(0);
        for (int use = 0; use < 3; use++) {
            first.check(rank, false);
            second.check(rank, false);
        }
        EXPECT_EQ(rank.number == 0, said(rank).find("by copy,") != std::string::npos);
    });
}

TEST(direct_buffers, serve_several_teams)
{
    on_threads(3, forced("copy"), [](Rank &rank) {
        gpucoll_team *second = nullptr;
        ASSERT_EQ(rank.make_team(rank.meeting, rank.number, &second), GPUCOLL_OK);
        Sum sum(50000, 0);
        for (int use = 0; use < 4; use++) {
            std::swap(rank.team, second);
            sum.check(rank, use % 2 == 0);
        }
        rank.barrier();
        gpucoll_team_destroy(second == rank.team ? nullptr : second);
    });
}

/* Copies of several milliseconds are on their way when both ranks give the call up. */
TEST(direct_buffers, are_left_alone_once_a_call_is_given_up)
{
    std::atomic<int> given_up{0};
    on_threads(2, forced("copy"), [&](Rank &rank) {
        constexpr size_t bytes = size_t{16} << 20;
        Buffer send(bytes);
        Buffer recv(2 * bytes);
        const gpucoll_block sent = {0, bytes};
        const gpucoll_block received[] = {{0, bytes}, {static_cast<ptrdiff_t>(bytes), bytes}};
        gpucoll_coll_args args = {};
        args.coll = GPUCOLL_ALLGATHER;
        args.send = send.data();
        args.recv = recv.data();
        args.send_blocks = &sent;
        args.recv_blocks = received;
        memset(send.data(), 1, bytes);
        for (int use = 0; use < 2; use++) {
            ASSERT_EQ(rank.call(args), GPUCOLL_OK);
        }
        gpucoll_request *request = nullptr;
        gpucoll_status status = GPUCOLL_OK;
        for (int turn = 0; turn < 100 && status == GPUCOLL_OK; turn++) { /* until it has not ended so soon */
            ASSERT_EQ(gpucoll_post(rank.team, &args, &request), GPUCOLL_OK);
            status = GPUCOLL_IN_PROGRESS;
            const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
            while (status == GPUCOLL_IN_PROGRESS && std::chrono::steady_clock::now() < until) {
                status = gpucoll_test(request);
            }
        }
        if (status == GPUCOLL_IN_PROGRESS) {
            gpucoll_cancel(request);
            given_up++;
        }
        rank.barrier();
        memset(recv.data(), 2, 2 * bytes);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        EXPECT_TRUE(std::all_of(recv.data(), recv.data() + 2 * bytes, [](char byte) { return byte == 2; }));
        rank.barrier();
    });
    EXPECT_GT(given_up.load(), 0);
}

TEST(direct_buffers, are_left_alone_below_the_threshold_and_when_turned_off)
{
    for (const char *least : {"0", "1G"}) {
        on_threads(2, {{"zero_copy", least}, {"verbose", "5"}}, [](Rank &rank) {
            Sum sum(300000, 0);
            for (int use = 0; use < 3; use++) {
                sum.check(rank, false);
            }
            EXPECT_EQ(said(rank).find("by copy,"), std::string::npos);
        });
    }
}
