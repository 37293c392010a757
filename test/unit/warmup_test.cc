/*
 * The call that warms a team up: what it leaves for later calls to do, and that nobody who passes it is waited for.
 */
#include "test/unit/hosts.h"
#include "test/unit/sum.h"

namespace
{
const gpucoll_coll_args warm_up = [] {
    gpucoll_coll_args args = {};
    args.coll = GPUCOLL_WARMUP;
    args.form = GPUCOLL_FORM_NONBLOCKING;
    return args;
}();
} // namespace

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
