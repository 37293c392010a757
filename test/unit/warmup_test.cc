/*
 * The call that warms a team up: what it leaves for later calls to do, and that nobody who passes it is waited for.
 */
#include <algorithm>
#include <chrono>
#include <vector>
#include "test/unit/hosts.h"
#include "test/unit/sum.h"

extern "C" {
#include "test/unit/failing.h"
}

namespace
{
const gpucoll_coll_args warm_up = [] {
    gpucoll_coll_args args = {};
    args.coll = GPUCOLL_WARMUP;
    args.form = GPUCOLL_FORM_NONBLOCKING;
    return args;
}();

const gpucoll_coll_args rehearsal = [] {
    gpucoll_coll_args args = {};
    args.coll = GPUCOLL_REHEARSAL;
    args.op = GPUCOLL_SUM;
    args.type = GPUCOLL_FLOAT32;
    args.count = 64;
    args.form = GPUCOLL_FORM_BLOCKING;
    return args;
}();

/* A team whose ranks had their GPUs before it was made. */
void with_team(Rank &rank, Meeting &members, const std::function<void(gpucoll_team *)> &body)
{
    gpucoll_team *team = nullptr;
    EXPECT_TRUE(gpucoll_context_bind_ahead(rank.context));
    ASSERT_EQ(rank.make_team(members, rank.number, &team), GPUCOLL_OK);
    EXPECT_TRUE(gpucoll_team_rehearses(team));
    body(team);
    rank.barrier();
    gpucoll_team_destroy(team);
}

/* A warm-up and three rehearsals. */
using Requests = std::vector<gpucoll_request *>;

void post_all(gpucoll_team *team, Requests &requests)
{
    for (gpucoll_request *&request : requests) {
        const bool first = &request == &requests.front();
        ASSERT_EQ(gpucoll_post(team, first ? &warm_up : &rehearsal, &request), GPUCOLL_OK);
    }
}

/* Posted at once, on two teams one after the other: the pool has room for three blocks (of 64 KiB), so nothing that was lent may be kept. `refuses` may
 * refuse some. What became of the rehearsals is the same on all ranks, and later calls are as ever. */
void rehearse(gpucoll_status expected, const std::function<void(Rank &, const Requests &)> &refuses)
{
    constexpr uint32_t ranks = 3;
    Meeting members(ranks);
    const auto body = [&](Rank &rank, gpucoll_team *team) {
        Requests requests(4, nullptr);
        ASSERT_NO_FATAL_FAILURE(post_all(team, requests));
        refuses(rank, requests);
        for (gpucoll_request *const &request : requests) {
            EXPECT_EQ(Rank::finish(request), &request == &requests.front() ? GPUCOLL_OK : expected);
        }
        /* The plan that a program's first call is to find made. */
        const bool planned =
            rank.log.text().find("allreduce of 256 bytes with sum_f32:") != std::string::npos;
        EXPECT_EQ(planned, rank.number == 0 && expected == GPUCOLL_OK);
        Sum sum(rank, 100, 1);
        EXPECT_EQ(Rank::call(team, sum.args), GPUCOLL_OK);
        EXPECT_TRUE(sum.right());
    };
    on_threads(ranks, {{"pack_bytes", "192K"}}, [&](Rank &rank) {
        for (int round = 0; round < 2; round++) {
            with_team(rank, members, [&](gpucoll_team *team) { body(rank, team); });
        }
    });
}
} // namespace

TEST(warmup, rehearsals_run)
{
    rehearse(GPUCOLL_OK, [](Rank &, const Requests &) {});
}

/* Else it would be said that it cannot be, of a call that is not the application's, and not again. */
TEST(warmup, nothing_is_rehearsed_where_something_is_forced)
{
    for (const Settings &settings :
         {Settings{{"protocol", "direct"}}, Settings{{"allreduce_algorithm", "oneshot:4K,auto"}},
          Settings{{"allreduce_algorithm", "auto:8K,ring"}}}) {
        on_threads(2, settings, [&](Rank &rank) {
            EXPECT_TRUE(gpucoll_context_bind_ahead(rank.context));
            gpucoll_team *team = nullptr;
            ASSERT_EQ(rank.make_team(rank.meeting, 1, &team), GPUCOLL_OK);
            EXPECT_EQ(gpucoll_team_rehearses(team), settings[0].second == std::string("auto:8K,ring"));
            rank.barrier();
            gpucoll_team_destroy(team);
        });
    }
}

/* Each would take a lane of its own, and spoil it for all communicators. */
TEST(warmup, rehearsals_behind_one_that_fails_take_no_lanes)
{
    Meeting members(2);
    Meeting others(2);
    on_threads(2, {{"lanes", "3"}, {"timeout", "60"}}, [&](Rank &rank) {
        with_team(rank, members, [&](gpucoll_team *team) {
            Requests requests(4, nullptr);
            ASSERT_NO_FATAL_FAILURE(post_all(team, requests));
            if (rank.number == 1) {
                test_fail_device(rank.context, false);
            }
            const auto begin = std::chrono::steady_clock::now();
            std::vector<gpucoll_status> ends(requests.size(), GPUCOLL_IN_PROGRESS);
            while (std::count(ends.begin(), ends.end(), GPUCOLL_IN_PROGRESS) >
                   0) { /* in turn, as a queue does */
                for (size_t i = 0; i < ends.size(); i++) {
                    ends[i] = ends[i] == GPUCOLL_IN_PROGRESS ? gpucoll_test(requests[i]) : ends[i];
                }
                sched_yield();
            }
            EXPECT_EQ(ends[0], GPUCOLL_OK);
            EXPECT_LT(ends[1], 0);
            EXPECT_EQ(std::count(ends.begin(), ends.end(), GPUCOLL_OK), 1);
            EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(25));
            rank.barrier();
            if (rank.number == 1) {
                test_mend_device(rank.context);
            }
        });
        EXPECT_EQ(rank.log.topics().size(), 1u);
        gpucoll_team *next = nullptr;
        ASSERT_EQ(rank.make_team(others, 2, &next), GPUCOLL_OK);
        for (int turn = 0; turn < 3; turn++) {
            Sum sum(rank, 100, turn);
            EXPECT_EQ(Rank::call(next, sum.args), GPUCOLL_OK);
            EXPECT_TRUE(sum.right());
        }
        rank.barrier();
        gpucoll_team_destroy(next);
    });
}

/* A rank that has left MPI_Init brings what cannot run. */
TEST(warmup, a_rehearsal_that_one_does_not_attend_is_declined_by_all)
{
    Meeting members(2);
    on_threads(2, {}, [&](Rank &rank) {
        with_team(rank, members, [&](gpucoll_team *team) {
            EXPECT_EQ(Rank::call(team, warm_up), GPUCOLL_OK);
            gpucoll_coll_args args = rehearsal;
            args.unable = rank.number == 1;
            EXPECT_EQ(Rank::call(team, args), GPUCOLL_DECLINED);
            EXPECT_EQ(Rank::call(team, rehearsal), GPUCOLL_OK);
        });
    });
}

/* What is counted by all ranks alike can be made sure of before the first is counted. */
TEST(warmup, memory_for_calls_can_be_reserved)
{
    on_threads(1, {}, [](Rank &rank) {
        constexpr uint32_t calls = 4;
        test_no_memory_from(256);
        EXPECT_FALSE(gpucoll_reserve(rank.team, calls));
        test_no_memory_from(0);
        EXPECT_FALSE(gpucoll_reserve(rank.team, calls + 1));
        EXPECT_TRUE(gpucoll_reserve(rank.team, calls));
        EXPECT_TRUE(gpucoll_reserve(rank.team, calls));
        gpucoll_request *request[calls + 1] = {};
        test_no_memory_from(256);
        for (uint32_t i = 0; i < calls; i++) {
            EXPECT_EQ(gpucoll_post(rank.team, &warm_up, &request[i]), GPUCOLL_OK);
        }
        EXPECT_EQ(gpucoll_post(rank.team, &warm_up, &request[calls]), GPUCOLL_ERR_NO_MEMORY);
        test_no_memory_from(0);
        for (uint32_t i = 0; i < calls; i++) {
            gpucoll_cancel(request[i]);
        }
    });
}

/* Who has offered to take part stays with it until all have, or one has not. */
TEST(warmup, a_rehearsal_is_refused_in_time_or_not_at_all)
{
    Meeting members(2);
    on_threads(2, {}, [&](Rank &rank) {
        with_team(rank, members, [&](gpucoll_team *team) {
            EXPECT_EQ(Rank::call(team, warm_up), GPUCOLL_OK);
            gpucoll_request *request = nullptr;
            for (uint32_t turn : {1u, 0u}) { /* the first can be seen by the other, which then offers */
                if (rank.number == turn) {
                    ASSERT_EQ(gpucoll_post(team, &rehearsal, &request), GPUCOLL_OK);
                    EXPECT_EQ(gpucoll_test(request), GPUCOLL_IN_PROGRESS);
                }
                rank.barrier();
            }
            EXPECT_EQ(gpucoll_refuse(request), rank.number == 1);
            EXPECT_EQ(Rank::finish(request), GPUCOLL_DECLINED);
        });
    });
}

/* Refused before they can be seen by others, or when they have been; in that case the warm-up may be under way, too. */
TEST(warmup, rehearsals_that_one_refuses_are_declined_by_all)
{
    for (const bool seen : {false, true}) {
        rehearse(GPUCOLL_DECLINED, [seen](Rank &rank, const Requests &requests) {
            for (size_t i = 0; seen && i < requests.size() && rank.number == 1; i++) {
                EXPECT_EQ(gpucoll_test(requests[i]), GPUCOLL_IN_PROGRESS);
            }
            for (size_t i = 1; i < requests.size() && rank.number == 1; i++) {
                EXPECT_TRUE(gpucoll_refuse(requests[i]));
                EXPECT_TRUE(gpucoll_refuse(requests[i]));
            }
        });
    }
}

TEST(warmup, later_calls_find_the_links_made)
{
    on_threads(3, {}, [](Rank &rank) {
        gpucoll_setups setups = {};
        gpucoll_context_count_setups_in(rank.context, &setups);
        EXPECT_TRUE(gpucoll_can_warm_up(rank.team));
        EXPECT_EQ(rank.call(warm_up), GPUCOLL_OK);
        EXPECT_EQ(setups.links, 1u);
        for (int i = 0; i < 3; i++) {
            Sum sum(rank, 100, i);
            EXPECT_EQ(rank.call(sum.args), GPUCOLL_OK);
            EXPECT_TRUE(sum.right());
        }
        EXPECT_EQ(setups.links, 1u);
    });
}

TEST(warmup, a_rank_that_passes_it_leaves_the_links_to_the_first_call)
{
    on_threads(3, {}, [](Rank &rank) {
        gpucoll_setups setups = {};
        gpucoll_context_count_setups_in(rank.context, &setups);
        if (rank.number == 1) {
            gpucoll_pass(rank.team);
        } else {
            EXPECT_EQ(rank.call(warm_up), GPUCOLL_DECLINED);
        }
        EXPECT_EQ(setups.links, 0u);
        Sum sum(rank, 100, 1);
        EXPECT_EQ(rank.call(sum.args), GPUCOLL_OK);
        EXPECT_TRUE(sum.right());
        EXPECT_EQ(setups.links, 1u);
    });
}

/* Who binds before the team is made tells all, so that they know whether a wait for the warm-up is worth while. */
TEST(warmup, ranks_know_whether_all_have_a_gpu)
{
    for (const bool all : {true, false}) {
        Meeting members(3);
        on_threads(3, {}, [&](Rank &rank) {
            gpucoll_setups setups = {};
            gpucoll_context_count_setups_in(rank.context, &setups);
            EXPECT_FALSE(gpucoll_team_is_bound(rank.team));
            if (all || rank.number != 1) {
                EXPECT_TRUE(gpucoll_context_bind_ahead(rank.context));
            }
            gpucoll_team *team = nullptr;
            ASSERT_EQ(rank.make_team(members, rank.number, &team), GPUCOLL_OK);
            EXPECT_EQ(gpucoll_team_is_bound(team), all);
            EXPECT_EQ(Rank::call(team, warm_up), GPUCOLL_OK);
            EXPECT_EQ(setups.links, 1u);
            rank.barrier();
            gpucoll_team_destroy(team);
        });
    }
}

/* Somebody may compute for hours before the first call. */
TEST(warmup, the_watchdog_lets_it_wait)
{
    on_threads(2, {{"timeout", "1"}}, [](Rank &rank) {
        gpucoll_request *request = nullptr;
        if (rank.number == 0) {
            ASSERT_EQ(gpucoll_post(rank.team, &warm_up, &request), GPUCOLL_OK);
            for (int i = 0; i < 200; i++) {
                for (int look = 0; look < 1024; look++) {
                    ASSERT_EQ(gpucoll_test(request), GPUCOLL_IN_PROGRESS);
                }
                usleep(10000);
            }
        }
        rank.barrier();
        if (rank.number == 1) {
            ASSERT_EQ(gpucoll_post(rank.team, &warm_up, &request), GPUCOLL_OK);
        }
        EXPECT_EQ(Rank::finish(request), GPUCOLL_OK);
        EXPECT_TRUE(rank.log.topics().empty());
    });
}

/* Of several hosts: nor does it hurry who connects the ranks of one host, of which one has posted and then looks no more. */
TEST(warmup, the_watchdog_lets_the_ranks_of_a_host_wait)
{
    on_hosts(hosts_of({2, 1}), {{"timeout", "1"}}, [](Rank &rank) {
        gpucoll_request *request = nullptr;
        ASSERT_EQ(gpucoll_post(rank.team, &warm_up, &request), GPUCOLL_OK);
        if (rank.number == 1) { /* until its post can be seen */
            ASSERT_EQ(gpucoll_test(request), GPUCOLL_IN_PROGRESS);
        }
        rank.barrier();
        for (int i = 0; i < 200 && rank.number != 1; i++) {
            for (int look = 0; look < 1024; look++) {
                ASSERT_EQ(gpucoll_test(request), GPUCOLL_IN_PROGRESS);
            }
            usleep(10000);
        }
        rank.barrier();
        EXPECT_EQ(Rank::finish(request), GPUCOLL_OK);
        EXPECT_TRUE(rank.log.topics().empty());
    });
}

/* Nor in the middle of that: rank 1 looks so many times more often, and no more, so that the other rank of its host has gone on as far as it can. */
TEST(warmup, the_watchdog_lets_a_host_wait_that_is_being_connected)
{
    for (const int looks : {2, 3, 4, 6}) {
        on_hosts(hosts_of({2, 1}), {{"timeout", "1"}}, [looks](Rank &rank) {
            gpucoll_request *request = nullptr;
            gpucoll_status status = GPUCOLL_IN_PROGRESS;
            ASSERT_EQ(gpucoll_post(rank.team, &warm_up, &request), GPUCOLL_OK);
            for (int look = 0; look < looks; look++) {
                for (int i = 0; i < 1000 && rank.number != 1 && status == GPUCOLL_IN_PROGRESS; i++) {
                    status = gpucoll_test(request);
                }
                rank.barrier();
                if (rank.number == 1 && status == GPUCOLL_IN_PROGRESS) {
                    status = gpucoll_test(request);
                }
                rank.barrier();
            }
            for (int i = 0; i < 150 && rank.number != 1; i++) {
                for (int look = 0; look < 1024 && status == GPUCOLL_IN_PROGRESS; look++) {
                    status = gpucoll_test(request);
                }
                usleep(10000);
            }
            rank.barrier();
            EXPECT_EQ(status == GPUCOLL_IN_PROGRESS ? Rank::finish(request) : status, GPUCOLL_OK);
            EXPECT_TRUE(rank.log.topics().empty()) << looks;
        });
    }
}

/* Its error is nobody's but the rank's own, and nobody waits in a warm-up: so the others hear of it in their first call, long before the timeout. */
TEST(warmup, one_that_fails_is_told_to_all_hosts)
{
    for (const Hosts &hosts : {hosts_of({2, 2}), hosts_of({1, 2, 1, 2})}) {
        on_hosts(hosts, {{"timeout", "60"}}, [](Rank &rank) {
            constexpr uint32_t failing = 1; /* it cannot connect to the other rank of its host */
            gpucoll_request *request = nullptr;
            ASSERT_EQ(gpucoll_post(rank.team, &warm_up, &request), GPUCOLL_OK);
            if (rank.number == failing) {
                test_no_memory_from(256);
                EXPECT_EQ(Rank::finish(request), GPUCOLL_ERR_NO_MEMORY);
                EXPECT_GT(test_memory_refused(), 0u);
                test_no_memory_from(0);
            }
            const auto begin = std::chrono::steady_clock::now();
            Sum sum(rank, 100, 1);
            if (rank.number != failing) {
                EXPECT_EQ(gpucoll_test(request), GPUCOLL_IN_PROGRESS);
                EXPECT_EQ(rank.call(sum.args), GPUCOLL_ERR_TIMEOUT);
                EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(25));
                EXPECT_EQ(rank.log.topics(), std::vector<std::string>{"peer-gave-up"});
                gpucoll_cancel(request);
            }
            EXPECT_EQ(rank.call(sum.args), GPUCOLL_DECLINED);
            EXPECT_EQ(gpucoll_declined_reason(rank.team), GPUCOLL_REASON_GIVEN_UP);
            rank.barrier();
        });
    }
}
