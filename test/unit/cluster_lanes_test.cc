/*
 * Lanes for calls of several hosts: when all have come to one, its local calls and what it packs get them, whatever holds the others.
 */
#include <deque>
#include "test/unit/hosts.h"
#include "test/unit/sum.h"

extern "C" {
#include "test/unit/first_lane.h"
}

namespace
{
/* An all-reduce of a pair of ranks. */
class PairSum
{
  public:
    explicit PairSum(uint32_t number) : send(4 * count), recv(4 * count)
    {
        for (size_t i = 0; i < count; i++) {
            ints(send)[i] = static_cast<int>(i + number);
        }
        args = reduce_all(GPUCOLL_SUM, GPUCOLL_INT32, send.data(), recv.data(), count);
    }

    bool right() const
    {
        for (size_t i = 0; i < count; i++) {
            if (ints(recv)[i] != static_cast<int>(2 * i + 1)) {
                return false;
            }
        }
        return recv.guards_intact();
    }

    gpucoll_coll_args args;
    gpucoll_request *request = nullptr;

  private:
    static constexpr size_t count = 300;
    static int *ints(const Buffer &buffer) { return reinterpret_cast<int *>(buffer.data()); }
    Buffer send;
    Buffer recv;
};
} // namespace

/* As many as there are lanes, made by threads of one rank; the other one makes them after the call of all. */
TEST(cluster_lanes, calls_of_one_host_that_wait_for_a_rank_leave_one)
{
    constexpr size_t calls = 3;
    Meeting pair(2);
    for (const char *lanes : {"1", "2", "3"}) {
        on_hosts(hosts_of({2, 1}), {{"lanes", lanes}, {"carry", "0"}, {"flat", "0"}}, [&](Rank &rank) {
            std::vector<gpucoll_team *> teams(rank.number < 2 ? calls : 0);
            std::deque<PairSum> sums;
            for (uint32_t i = 0; i < teams.size(); i++) {
                ASSERT_EQ(rank.make_team(pair, 1 + i, &teams[i]), GPUCOLL_OK);
                sums.emplace_back(rank.number);
                ASSERT_EQ(Rank::call(teams[i], sums[i].args), GPUCOLL_OK);
            }
            sum_of(rank, 1000);
            for (size_t i = 0; rank.number == 0 && i < calls; i++) {
                ASSERT_EQ(gpucoll_post(teams[i], &sums[i].args, &sums[i].request), GPUCOLL_OK);
            }
            rank.barrier();
            sum_of(rank, 50000);
            for (size_t i = 0; i < teams.size(); i++) {
                EXPECT_EQ(rank.number == 0 ? Rank::finish(sums[i].request)
                                           : Rank::call(teams[i], sums[i].args),
                          GPUCOLL_OK);
                EXPECT_TRUE(sums[i].right());
            }
            EXPECT_TRUE(rank.log.topics().empty());
            rank.barrier();
            for (gpucoll_team *team : teams) {
                gpucoll_team_destroy(team);
            }
        });
    }
}

/* Calls that failed hold them for ever. */
TEST(cluster_lanes, a_call_of_which_one_rank_has_lost_all_is_declined_by_all)
{
    on_hosts(hosts_of({2, 1}), {{"timeout", "60"}}, [](Rank &rank) {
        sum_of(rank, 50000);
        rank.barrier();
        if (rank.number == 1) {
            test_lose_lanes(rank.context);
        }
        for (size_t count : {10, 50000}) {
            Sum sum(rank, count, 3);
            EXPECT_EQ(rank.call(sum.args), GPUCOLL_DECLINED);
            EXPECT_EQ(gpucoll_declined_reason(rank.team), GPUCOLL_REASON_LANES);
        }
        EXPECT_TRUE(rank.log.topics().empty());
    });
}
