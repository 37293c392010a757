/*
 * What a rank has told other hosts and they have not taken yet when it is through with the call, or frees the team.
 */
#include <chrono>
#include "test/unit/hosts.h"
#include "test/unit/sum.h"

extern "C" {
#include "test/unit/failing.h"
}

using Clock = std::chrono::steady_clock;

namespace
{
thread_local gpucoll_net *my_net; /* of the rank that is this thread */

const gpucoll_net_ops &own_net()
{
    static gpucoll_net_ops own = fake_net;
    own.open = [](const struct gpucoll_config *config, const struct gpucoll_log *log,
                  const struct gpucoll_net_place *place, gpucoll_net **net) {
        gpucoll_status status = fake_net.open(config, log, place, net);
        my_net = *net;
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
        const auto begin = Clock::now();
        gpucoll_team_destroy(rank.team);
        rank.team = nullptr;
        EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(500));
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
                const auto begin = Clock::now();
                gpucoll_context_destroy(rank.context);
                rank.context = nullptr;
                EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(1900));
                EXPECT_GT(fake_net_torn(), torn);
            }
            rank.barrier();
            gpucoll_team_destroy(first);
        },
        false, &own_net());
}
