/*
 * What a rank has told other hosts and they have not taken yet when it is through with the call, or frees the team.
 */
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <utility>
#include "test/unit/exchange_part.h"
#include "test/unit/hosts.h"
#include "test/unit/sum.h"

extern "C" {
#include "test/unit/failing.h"
}

using Clock = std::chrono::steady_clock;

namespace
{
thread_local gpucoll_net *my_net; /* of the rank that is this thread, */
thread_local uint32_t sends_made; /* by which it has sent so many messages */
/* What it does, once, when it is said that a message has failed. */
thread_local std::function<void()> when_said;

const gpucoll_net_ops &own_net()
{
    static gpucoll_net_ops own = fake_net;
    own.open = [](const struct gpucoll_config *config, const struct gpucoll_log *log,
                  const struct gpucoll_net_place *place, gpucoll_net **net) {
        gpucoll_status status = fake_net.open(config, log, place, net);
        my_net = *net;
        fake_net_lend(*net);
        return status;
    };
    own.send = [](gpucoll_net *net, gpucoll_net_peer *peer, uint64_t tag, const void *data, size_t bytes,
                  gpucoll_net_memory *memory, gpucoll_net_message *message) {
        sends_made++;
        fake_net.send(net, peer, tag, data, bytes, memory, message);
    };
    own.test = [](gpucoll_net *net, gpucoll_net_message *message) {
        const gpucoll_status status = fake_net.test(net, message);
        if (status < 0 && when_said) {
            std::exchange(when_said, nullptr)();
        }
        return status;
    };
    return own;
}

/* Rank 1 stands still once it has told of these calls; then rank 0 passes them as well, is through, and frees the team: of what it has told a part
 * is on its way. */
void free_while_it_stands_still(Rank &rank)
{
    if (rank.number == 1) {
        fake_net_stand_still(my_net, true);
    }
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (int call = 0; call < 20 && turn != rank.number; call++) {
            gpucoll_pass(rank.team);
        }
        rank.barrier();
    }
    if (rank.number == 0) {
        const auto begin = cpu_time();
        gpucoll_team_destroy(rank.team);
        rank.team = nullptr;
        EXPECT_LT(cpu_time() - begin, std::chrono::milliseconds(500));
        EXPECT_TRUE(test_keeps_teams(rank.context));
    }
}

/* Turns the network for so long, or until no freed team is kept. */
void turn_for(Rank &rank, std::chrono::milliseconds time)
{
    const auto begin = Clock::now();
    do {
        gpucoll_context_turn_net(rank.context);
    } while (test_keeps_teams(rank.context) && Clock::now() - begin < time);
}
} // namespace

/* Other teams use the connection, too: it is not closed, not even when calls would have timed out. */
TEST(cluster_leave, a_team_is_freed_while_another_process_stands_still)
{
    for (const char *timeout : {"60", "1"}) {
        on_hosts(
            hosts_of({1, 1}), {{"timeout", timeout}},
            [](Rank &rank) {
                gpucoll_team *other = nullptr;
                ASSERT_EQ(rank.make_team(rank.meeting, 1, &other), GPUCOLL_OK);
                const uint64_t torn = fake_net_torn();
                free_while_it_stands_still(rank);
                if (rank.number == 0) {
                    turn_for(rank, std::chrono::milliseconds(1200));
                    EXPECT_TRUE(test_keeps_teams(rank.context));
                    EXPECT_EQ(fake_net_torn(), torn);
                }
                rank.barrier();
                fake_net_stand_still(my_net, false);
                gpucoll_team_destroy(rank.team);
                rank.team = other;
                turn_for(rank, std::chrono::seconds(20));
                EXPECT_FALSE(test_keeps_teams(rank.context));
                sum_of(rank, 100);
                EXPECT_EQ(fake_net_torn(), torn);
                EXPECT_TRUE(rank.log.topics().empty());
            },
            false, &own_net());
    }
}

/* Then nobody uses it any more. All teams together wait no longer than one. */
TEST(cluster_leave, what_has_not_arrived_is_given_up_with_the_network)
{
    on_hosts(
        hosts_of({1, 1}), {{"timeout", "60"}},
        [](Rank &rank) {
            gpucoll_team *other = nullptr;
            ASSERT_EQ(rank.make_team(rank.meeting, 1, &other), GPUCOLL_OK);
            const uint64_t torn = fake_net_torn();
            free_while_it_stands_still(rank);
            gpucoll_team *first = rank.team;
            rank.team = other;
            free_while_it_stands_still(rank);
            if (rank.number == 0) {
                const auto begin = cpu_time();
                gpucoll_context_destroy(rank.context);
                rank.context = nullptr;
                EXPECT_LT(cpu_time() - begin, std::chrono::milliseconds(1900));
                EXPECT_GT(fake_net_torn(), torn);
            }
            rank.barrier();
            gpucoll_team_destroy(first);
        },
        false, &own_net());
}

/* ---- what fails ---- */

namespace
{
/* The ends of the ranks. */
class Ends
{
  public:
    explicit Ends(Rank &rank)
    {
        gpucoll_net *mine = my_net;
        rank.meeting.allgather(rank.number, &mine, all.data(), sizeof mine);
    }
    gpucoll_net *of(uint32_t rank) const { return all[rank]; }

  private:
    std::array<gpucoll_net *, 8> all{};
};

/* Begins the call, and tests it until this rank has told so much. */
void tell(Rank &rank, const Sum &sum, uint32_t messages, gpucoll_request **request)
{
    gpucoll_status status = GPUCOLL_IN_PROGRESS;
    sends_made = 0;
    ASSERT_EQ(gpucoll_post(rank.team, &sum.args, request), GPUCOLL_OK);
    while (status == GPUCOLL_IN_PROGRESS && sends_made < messages) {
        status = gpucoll_test(*request);
        sched_yield();
    }
    ASSERT_EQ(status, GPUCOLL_IN_PROGRESS);
}

/* Of two hosts. Rank 1 has told what it brings, and rank 0 is through with the call, when the connection is closed on which that is told to rank 1. */
void break_when_rank_0_is_through(Rank &rank, const Ends &ends, bool arrives, int salt)
{
    Sum sum(rank, 10, salt);
    gpucoll_request *request = nullptr;
    if (rank.number == 1) {
        tell(rank, sum, 1, &request);
    }
    rank.barrier();
    if (rank.number == 0) {
        EXPECT_EQ(rank.call(sum.args), GPUCOLL_OK);
        EXPECT_TRUE(sum.right());
        fake_net_break(ends.of(1), arrives);
        for (int turn = 0; turn < 10; turn++) {
            gpucoll_context_turn_net(rank.context); /* as MPI does that waits for something else */
        }
    }
    rank.barrier();
    if (rank.number == 1) {
        ASSERT_EQ(Rank::finish(request), GPUCOLL_OK);
        EXPECT_TRUE(sum.right());
    }
}

/* Of three hosts, rank 2 has told all it has to tell, and stands still; the others are through; and rank 0 cannot tell it what it brings. Returns the
 * call of rank 2. */
gpucoll_request *cut_off_rank_2(Rank &rank, const Sum &sum)
{
    const Ends ends(rank);
    gpucoll_request *request = nullptr;
    if (rank.number != 0) {
        tell(rank, sum, rank.number, &request); /* the second message when it has heard of rank 1 */
    }
    rank.barrier();
    if (rank.number == 0) {
        fake_net_stand_still(ends.of(2), true);
    }
    rank.barrier();
    if (rank.number == 0) {
        EXPECT_EQ(rank.call(sum.args), GPUCOLL_OK);
        fake_net_cut(ends.of(0), ends.of(2));
        fake_net_break(ends.of(2), false);
        fake_net_stand_still(ends.of(2), false);
    } else if (rank.number == 1) {
        EXPECT_EQ(Rank::finish(request), GPUCOLL_OK);
    }
    return request;
}
} // namespace

TEST(cluster_leave, a_message_that_fails_when_its_sender_is_through_goes_once_more)
{
    on_hosts(
        hosts_of({1, 1}), patient,
        [](Rank &rank) {
            const Ends ends(rank);
            break_when_rank_0_is_through(rank, ends, false, 1);
            sum_of(rank, 100);
            EXPECT_TRUE(rank.log.topics().empty());
            rank.barrier();
        },
        false, &own_net());
}

/* Who says that a message has failed may turn MPI's progress, which moves other calls. */
TEST(cluster_leave, a_message_may_fail_while_another_one_is_told)
{
    on_hosts(
        hosts_of({1, 1}), patient,
        [](Rank &rank) {
            const Ends ends(rank);
            gpucoll_team *other = nullptr;
            ASSERT_EQ(rank.make_team(rank.meeting, 1, &other), GPUCOLL_OK);
            when_said = [&] {
                gpucoll_pass(other);
                gpucoll_context_turn_net(rank.context);
            };
            break_when_rank_0_is_through(rank, ends, false, 1);
            EXPECT_EQ(when_said == nullptr, rank.number == 0);
            when_said = nullptr;
            if (rank.number == 1) {
                gpucoll_pass(other);
            }
            gpucoll_team_destroy(std::exchange(rank.team, other));
            rank.barrier();
            sum_of(rank, 100);
            EXPECT_TRUE(rank.log.topics().empty());
            rank.barrier();
        },
        false, &own_net());
}

/* MPI may free another team then, which has told something as well. */
TEST(cluster_leave, a_team_may_be_freed_while_another_one_settles)
{
    on_hosts(
        hosts_of({1, 1}), patient,
        [](Rank &rank) {
            const Ends ends(rank);
            gpucoll_team *other = nullptr;
            ASSERT_EQ(rank.make_team(rank.meeting, 1, &other), GPUCOLL_OK);
            fake_net_stand_still(my_net, rank.number == 1);
            rank.barrier();
            if (rank.number == 0) {
                Sum sum(rank, 10, 1);
                gpucoll_request *request = nullptr;
                gpucoll_pass(other);
                ASSERT_EQ(gpucoll_post(rank.team, &sum.args, &request), GPUCOLL_OK);
                gpucoll_cancel(request);
                gpucoll_team_destroy(std::exchange(rank.team, nullptr));
                ASSERT_TRUE(test_keeps_teams(rank.context)); /* for its alarm */
                /* Of what it brings to the call first, then of the alarm. */
                when_said = [&] { when_said = [&] { gpucoll_team_destroy(std::exchange(other, nullptr)); }; };
                fake_net_break(ends.of(1), false);
                gpucoll_context_turn_net(rank.context);
                EXPECT_TRUE(other == nullptr && when_said == nullptr);
                EXPECT_TRUE(test_keeps_teams(rank.context));
            }
            rank.barrier();
            fake_net_stand_still(my_net, false);
            gpucoll_team_destroy(other);
        },
        false, &own_net());
}

/* A call whose number has the same 13 bits does not take it for its own. */
TEST(cluster_leave, a_message_that_has_arrived_twice_is_dropped)
{
    on_hosts(
        hosts_of({1, 1}), patient,
        [](Rank &rank) {
            const Ends ends(rank);
            rank.barrier();
            const size_t before = fake_net_count().under_way;
            rank.barrier();
            break_when_rank_0_is_through(rank, ends, true, 1);
            rank.barrier();
            EXPECT_EQ(fake_net_count().under_way, before + 1);
            rank.barrier();
            for (int call = 0; call < 8192; call++) {
                Sum sum(rank, 10, call);
                ASSERT_EQ(rank.call(sum.args), GPUCOLL_OK);
                ASSERT_TRUE(sum.right()) << "call " << call;
            }
            rank.barrier();
            EXPECT_EQ(fake_net_count().under_way, before);
            EXPECT_TRUE(rank.log.topics().empty());
            rank.barrier();
        },
        false, &own_net());
}

/* Rank 0 passes the call: then it does not wait for the others either. They do for it. */
TEST(cluster_leave, what_is_told_ahead_goes_once_more)
{
    on_hosts(
        hosts_of({1, 1}), patient,
        [](Rank &rank) {
            const Ends ends(rank);
            if (rank.number == 0) {
                gpucoll_pass(rank.team);
                fake_net_break(ends.of(1), false);
                gpucoll_context_turn_net(rank.context);
            }
            rank.barrier();
            Sum sum(rank, 10, 1);
            if (rank.number == 1) {
                EXPECT_EQ(rank.call(sum.args), GPUCOLL_DECLINED);
            }
            rank.barrier();
            sum_of(rank, 100);
            EXPECT_TRUE(rank.log.topics().empty());
        },
        false, &own_net());
}

/* Rank 2 hears of it by rank 1. */
TEST(cluster_leave, what_fails_twice_is_told_to_all)
{
    on_hosts(
        hosts_of({1, 1, 1}), patient,
        [](Rank &rank) {
            Sum sum(rank, 10, 1);
            gpucoll_request *request = cut_off_rank_2(rank, sum);
            rank.barrier();
            const auto begin = Clock::now();
            if (rank.number == 2) {
                EXPECT_EQ(Rank::finish(request), GPUCOLL_ERR_PEER);
            } else {
                Sum next(rank, 10, 2);
                EXPECT_EQ(rank.call(next.args), GPUCOLL_ERR_PEER);
            }
            EXPECT_LT(Clock::now() - begin, soon);
            const std::string topic = rank.number == 0 ? "peer-lost" : "peer-gave-up";
            EXPECT_EQ(rank.log.topics(), std::vector<std::string>{topic});
            const std::string named = rank.number == 0 ? "rank 2" : "Missing ranks:  2\n";
            EXPECT_NE(rank.log.text_of(topic).find(named), std::string::npos) << rank.log.text_of(topic);
            EXPECT_EQ(rank.call(sum.args), GPUCOLL_DECLINED);
            rank.barrier();
        },
        false, &own_net());
}

/* The same where rank 0 frees the team before it has told of that. */
TEST(cluster_leave, what_fails_twice_is_told_although_the_team_is_freed)
{
    std::atomic<int> heard{0};
    on_hosts(
        hosts_of({1, 1, 1}), patient,
        [&heard](Rank &rank) {
            Sum sum(rank, 10, 1);
            gpucoll_request *request = cut_off_rank_2(rank, sum);
            if (rank.number == 0) {
                /* Until both failures are found, which takes the fake network a second. */
                for (const auto end = Clock::now() + std::chrono::seconds(2); Clock::now() < end;
                     sched_yield()) {
                    gpucoll_context_turn_net(rank.context);
                }
                gpucoll_team_destroy(std::exchange(rank.team, nullptr));
            }
            rank.barrier();
            if (rank.number == 2) {
                EXPECT_EQ(Rank::finish(request), GPUCOLL_ERR_PEER);
            } else if (rank.number == 1) {
                Sum next(rank, 10, 2);
                EXPECT_EQ(rank.call(next.args), GPUCOLL_ERR_PEER);
            }
            if (rank.number != 0) {
                EXPECT_EQ(rank.log.topics(), std::vector<std::string>{"peer-gave-up"});
            }
            heard += rank.number != 0;
            while (heard < 2) {
                gpucoll_context_turn_net(rank.context);
                sched_yield();
            }
            rank.barrier();
        },
        false, &own_net());
}

/* ---- what has not left the process ---- */

/* Of four hosts each tells two others what it brings. What other calls have sent to the third is not this one's business. */
TEST(cluster_leave, a_call_waits_for_what_it_has_sent_itself)
{
    on_hosts(
        hosts_of({1, 1, 1, 1}), {{"timeout", "60"}, {"rail_algorithm", "ring"}},
        [](Rank &rank) {
            const Ends ends(rank);
            const auto expect_asked = [&](bool third) {
                for (uint32_t distance = 1; distance < 4; distance++) {
                    EXPECT_EQ(fake_net_asked(my_net, ends.of((rank.number + distance) % 4)),
                              distance < 3 || third)
                        << "rank " << rank.number << " of the one " << distance << " behind it";
                }
            };
            for (int turn = 0; turn < 3; turn++) {
                sum_of(rank, 10);
                expect_asked(false);
                check(rank, call_of({GPUCOLL_ALLTOALL, ALL_TO_ALL, true, true, false}, 100000));
                expect_asked(true);
            }
            sum_of(rank, 100000); /* round the ring */
            expect_asked(false);
        },
        false, &own_net());
}

/* ---- a connection that fails when all is known ---- */

namespace
{
/* What this rank tells in a barrier of two hosts arrives; but once it has heard the other's, and looked a few times more, its own has failed. */
struct Broken {
    bool watches = false;
    bool heard = false;
    int looks = 0;
    const gpucoll_net_message *told = nullptr;
    const gpucoll_net_message *awaited = nullptr;
    gpucoll_net_message delivered = {};
};
thread_local Broken broken;

const gpucoll_net_ops &breaking_net()
{
    static gpucoll_net_ops breaking = *fake_net_copying();
    static const gpucoll_net_ops &real = *fake_net_copying();
    breaking.send = [](gpucoll_net *net, gpucoll_net_peer *peer, uint64_t tag, const void *data, size_t bytes,
                       gpucoll_net_memory *memory, gpucoll_net_message *message) {
        const bool breaks = broken.watches && broken.told == nullptr;
        real.send(net, peer, tag, data, bytes, memory, breaks ? &broken.delivered : message);
        if (breaks) {
            broken.told = message;
            message->status = GPUCOLL_IN_PROGRESS;
        }
    };
    breaking.receive_up_to = [](gpucoll_net *net, gpucoll_net_peer *from, uint64_t tag, void *data,
                                size_t bytes, gpucoll_net_message *message) {
        broken.awaited = broken.watches ? message : nullptr;
        real.receive_up_to(net, from, tag, data, bytes, message);
    };
    breaking.test = [](gpucoll_net *net, gpucoll_net_message *message) {
        gpucoll_status status = real.test(net, message);
        broken.heard |= message == broken.awaited && status == GPUCOLL_OK;
        if (message == broken.told && broken.heard && status == GPUCOLL_IN_PROGRESS && ++broken.looks == 3) {
            message->status = status = GPUCOLL_ERR_SYSTEM;
        }
        return status;
    };
    return breaking;
}
} // namespace

/* The barrier is met, and ends; what has failed goes once more. */
TEST(cluster_leave, a_barrier_that_is_met_does_not_fail)
{
    on_hosts(
        hosts_of({1, 1}), {},
        [](Rank &rank) {
            EXPECT_EQ(enter_barrier(rank.team), GPUCOLL_OK);
            broken = {.watches = true};
            EXPECT_EQ(enter_barrier(rank.team), GPUCOLL_OK);
            EXPECT_EQ(broken.looks, 3);
            broken.watches = false;
            EXPECT_EQ(enter_barrier(rank.team), GPUCOLL_OK);
            sum_of(rank, 100);
            EXPECT_EQ(rank.log.topics(), std::vector<std::string>());
        },
        false, &breaking_net());
}
