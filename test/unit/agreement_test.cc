/*
 * What ranks agree on before a call starts: buffers of different kinds, ranks that pass, arguments that differ, several
 * calls under way, lanes that run out.
 */
#include <chrono>
#include <sched.h>
#include <thread>
#include "test/unit/ranks.h"
#include "test/unit/sum.h"

namespace
{
void expect_native(Rank &rank, int salt = 0)
{
    Sum sum(rank, 100, salt);
    gpucoll_status status = rank.call(sum.args);
    EXPECT_EQ(status, GPUCOLL_OK) << gpucoll_status_name(status);
    EXPECT_TRUE(sum.right());
}

/* Posts that are tested together. */
class Flight
{
  public:
    void post(gpucoll_team *team, const Sum &sum)
    {
        gpucoll_request *request = nullptr;
        ASSERT_EQ(gpucoll_post(team, &sum.args, &request), GPUCOLL_OK);
        requests.push_back(request);
        results.push_back(GPUCOLL_IN_PROGRESS);
    }

    /* Tests each that is not final once; backwards if `reverse`. True when all are final. */
    bool test(bool reverse)
    {
        bool all = true;
        for (size_t k = 0; k < requests.size(); k++) {
            size_t i = reverse ? requests.size() - 1 - k : k;
            if (results[i] == GPUCOLL_IN_PROGRESS) {
                results[i] = gpucoll_test(requests[i]);
            }
            all = all && results[i] != GPUCOLL_IN_PROGRESS;
        }
        sched_yield();
        return all;
    }

    void finish(bool reverse)
    {
        while (!test(reverse)) {
        }
    }

    std::vector<gpucoll_status> results;

  private:
    std::vector<gpucoll_request *> requests;
};
} // namespace

/* ---- kinds ---- */

TEST(kinds, a_rank_with_host_memory_makes_all_decline)
{
    for (uint32_t odd = 0; odd < 3; odd++) {
        for (int which = 0; which < 3; which++) {
            on_threads(3, {}, [=](Rank &rank) {
                bool host = rank.number == odd;
                for (int i = 0; i < 5; i++) {
                    Sum sum(rank, 10, i, host && which != 1 ? GPUCOLL_MEMORY_HOST : GPUCOLL_MEMORY_DEVICE,
                            host && which != 0 ? GPUCOLL_MEMORY_HOST : GPUCOLL_MEMORY_DEVICE);
                    EXPECT_EQ(rank.call(sum.args), GPUCOLL_DECLINED);
                    EXPECT_TRUE(sum.untouched());
                    expect_native(rank, i);
                }
                EXPECT_TRUE(rank.log.topics().empty());
            });
        }
    }
}

TEST(kinds, host_memory_everywhere_is_declined)
{
    on_threads(2, {{"host_memory", "host"}}, [](Rank &rank) {
        int plain_in = 1;
        int plain_out = 0;
        gpucoll_coll_args args = reduce_all(GPUCOLL_SUM, GPUCOLL_INT32, &plain_in, &plain_out, 1);
        EXPECT_EQ(rank.call(args), GPUCOLL_DECLINED);
        args.send = GPUCOLL_IN_PLACE;
        EXPECT_EQ(rank.call(args), GPUCOLL_DECLINED);
        EXPECT_EQ(plain_out, 0);
        expect_native(rank);
    });
}

TEST(kinds, null_buffers_are_declined)
{
    on_threads(2, {}, [](Rank &rank) {
        gpucoll_coll_args args = reduce_all(GPUCOLL_SUM, GPUCOLL_INT32, nullptr, nullptr, 0);
        EXPECT_EQ(rank.call(args), GPUCOLL_DECLINED);
        expect_native(rank);
    });
}

TEST(kinds, an_operator_without_the_type_is_invalid_and_counts_for_nothing)
{
    on_threads(2, {}, [](Rank &rank) {
        float value = 0;
        gpucoll_coll_args args = reduce_all(GPUCOLL_BAND, GPUCOLL_FLOAT32, GPUCOLL_IN_PLACE, &value, 1);
        if (rank.number == 0) {
            EXPECT_EQ(rank.call(args), GPUCOLL_ERR_INVALID);
        }
        expect_native(rank);
    });
}

/* ---- passing ---- */

TEST(pass, others_decline_until_the_rank_takes_part)
{
    for (uint32_t passer = 0; passer < 3; passer++) {
        on_threads(3, {}, [=](Rank &rank) {
            for (int i = 0; i < 20; i++) {
                if (rank.number == passer) {
                    gpucoll_pass(rank.team);
                } else {
                    Sum sum(rank, 10, i);
                    EXPECT_EQ(rank.call(sum.args), GPUCOLL_DECLINED);
                    EXPECT_TRUE(sum.untouched());
                }
            }
            for (int i = 0; i < 20; i++) {
                expect_native(rank, i);
            }
        });
    }
}

/* A rank that passes does not wait, so it may be far ahead when it first posts. */
TEST(pass, a_rank_far_ahead_waits_for_the_others_when_it_posts)
{
    on_threads(3, {}, [](Rank &rank) {
        if (rank.number == 1) {
            for (int i = 0; i < 1000; i++) {
                gpucoll_pass(rank.team);
            }
        } else {
            if (rank.number == 0) {
                std::this_thread::sleep_for(std::chrono::milliseconds(30));
            }
            for (int i = 0; i < 1000; i++) {
                Sum sum(rank, 1, i);
                EXPECT_EQ(rank.call(sum.args), GPUCOLL_DECLINED);
            }
        }
        expect_native(rank);
    });
}

TEST(pass, all_ranks_may_pass)
{
    on_threads(2, {}, [](Rank &rank) {
        for (int i = 0; i < 100; i++) {
            gpucoll_pass(rank.team);
        }
        expect_native(rank);
    });
}

/* ---- arguments ---- */

TEST(mismatch, every_rank_gets_the_error_and_the_team_goes_on)
{
    const struct {
        gpucoll_op op;
        gpucoll_type type;
        size_t count;
        gpucoll_form form;
    } others[] = {{GPUCOLL_SUM, GPUCOLL_INT32, 9, GPUCOLL_FORM_BLOCKING},
                  {GPUCOLL_MAX, GPUCOLL_INT32, 10, GPUCOLL_FORM_BLOCKING},
                  {GPUCOLL_SUM, GPUCOLL_FLOAT32, 10, GPUCOLL_FORM_BLOCKING},
                  {GPUCOLL_SUM, GPUCOLL_INT32, 10, GPUCOLL_FORM_NONBLOCKING}};
    on_threads(3, {}, [&](Rank &rank) {
        for (int turn = 0; turn < 4; turn++) { /* more often than there are lanes: none is lost */
            for (const auto &other : others) {
                Sum sum(rank, 10, 0);
                if (rank.number == 2) {
                    sum.args.op = other.op;
                    sum.args.type = other.type;
                    sum.args.count = other.count;
                    sum.args.form = other.form;
                }
                EXPECT_EQ(rank.call(sum.args), GPUCOLL_ERR_MISMATCH);
                EXPECT_TRUE(sum.untouched());
                expect_native(rank);
            }
        }
        std::string text = rank.log.text_of("arguments-differ");
        for (const char *word : {"allreduce", "team 0", "2"}) {
            EXPECT_NE(text.find(word), std::string::npos) << text;
        }
        EXPECT_EQ(rank.log.topics(), std::vector<std::string>(16, "arguments-differ"));
    });
}

/* ---- several calls under way ---- */

TEST(outstanding, complete_in_any_order_of_testing)
{
    on_threads(3, {{"lanes", "4"}}, [](Rank &rank) {
        for (int turn = 0; turn < 20; turn++) {
            std::vector<std::unique_ptr<Sum>> sums;
            Flight flight;
            for (int i = 0; i < 4; i++) {
                sums.push_back(std::make_unique<Sum>(rank, 1 + static_cast<size_t>(i * 5000), turn * 4 + i));
                flight.post(rank.team, *sums.back());
            }
            flight.finish((rank.number + static_cast<uint32_t>(turn)) % 2 == 1);
            for (int i = 0; i < 4; i++) {
                EXPECT_EQ(flight.results[static_cast<size_t>(i)], GPUCOLL_OK);
                EXPECT_TRUE(sums[static_cast<size_t>(i)]->right());
            }
        }
    });
}

/* The first calls of a team under way at once: one connects, the others wait for it, on every rank the same one. */
TEST(outstanding, first_calls_connect_once)
{
    for (int turn = 0; turn < 20; turn++) {
        on_threads(4, {{"lanes", "3"}}, [=](Rank &rank) {
            Sum a(rank, 10, 1);
            Sum b(rank, 2000, 2);
            Sum c(rank, 1, 3);
            Flight flight;
            flight.post(rank.team, a);
            flight.post(rank.team, b);
            flight.post(rank.team, c);
            for (uint32_t i = 0; i < rank.number * 50; i++) {
                sched_yield();
            }
            flight.finish((rank.number + static_cast<uint32_t>(turn)) % 2 == 1);
            EXPECT_EQ(flight.results, std::vector<gpucoll_status>(3, GPUCOLL_OK));
            EXPECT_TRUE(a.right() && b.right() && c.right());
        });
    }
}

/* More calls than posts fit the ring, all made before the last rank has come: none is overwritten. */
TEST(outstanding, more_than_the_ring_holds_before_a_late_rank)
{
    for (bool passes : {false, true}) {
        on_threads(3, {{"lanes", "12"}, {"scratch_bytes", "1M"}}, [=](Rank &rank) {
            std::vector<std::unique_ptr<Sum>> sums;
            Flight flight;
            bool late = rank.number == 2;
            if (late) {
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
            }
            for (int i = 0; i < 12; i++) {
                sums.push_back(std::make_unique<Sum>(rank, static_cast<size_t>(10 * i + 1), i));
                if (late && passes && i < 3) {
                    gpucoll_pass(rank.team);
                } else {
                    flight.post(rank.team, *sums.back());
                }
            }
            flight.finish(false);
            for (size_t i = 0; i < flight.results.size(); i++) {
                size_t call = i + 12 - flight.results.size();
                EXPECT_EQ(flight.results[i], passes && call < 3 ? GPUCOLL_DECLINED : GPUCOLL_OK) << call;
                EXPECT_TRUE(flight.results[i] == GPUCOLL_OK ? sums[call]->right() : sums[call]->untouched())
                    << call;
            }
        });
    }
}

TEST(outstanding, phased_calls_keep_their_barriers_apart)
{
    on_threads(3, {{"lanes", "3"}, {"host_devices", "1"}, {"transports", "p2p"}}, [](Rank &rank) {
        for (int turn = 0; turn < 10; turn++) {
            Sum a(rank, 300000, turn);
            Sum b(rank, 10, turn);
            Sum c(rank, 100000, turn);
            Flight flight;
            flight.post(rank.team, a);
            flight.post(rank.team, b);
            flight.post(rank.team, c);
            flight.finish(rank.number == 1);
            EXPECT_EQ(flight.results, std::vector<gpucoll_status>(3, GPUCOLL_OK));
            EXPECT_TRUE(a.right() && b.right() && c.right());
        }
    });
}

/* A long call is still reading the posts of its ring entry while as many short ones as the ring has come and go. */
TEST(outstanding, short_calls_overtake_a_long_one)
{
    on_threads(3, {{"lanes", "8"}, {"host_devices", "1"}}, [](Rank &rank) {
        for (int turn = 0; turn < 3; turn++) {
            std::vector<std::unique_ptr<Sum>> sums;
            Flight flight;
            for (int i = 0; i < 8; i++) {
                sums.push_back(std::make_unique<Sum>(rank, i == 0 ? 1000000 : 10, i));
                flight.post(rank.team, *sums.back());
            }
            flight.finish(rank.number == 1);
            EXPECT_EQ(flight.results, std::vector<gpucoll_status>(8, GPUCOLL_OK));
            for (const auto &sum : sums) {
                EXPECT_TRUE(sum->right());
            }
        }
    });
}

TEST(outstanding, without_a_free_lane_a_call_waits_for_one)
{
    on_threads(3, {}, [](Rank &rank) {
        for (int turn = 0; turn < 5; turn++) {
            Sum a(rank, 10, 1);
            Sum b(rank, 10, 2);
            Sum c(rank, 10, 3);
            Flight flight;
            flight.post(rank.team, a);
            flight.post(rank.team, b);
            flight.post(rank.team, c); /* two lanes only */
            flight.finish(false);
            EXPECT_EQ(flight.results, std::vector<gpucoll_status>(3, GPUCOLL_OK));
            EXPECT_TRUE(a.right() && b.right() && c.right());
        }
    });
}

/* ---- for a long time ---- */

TEST(long_run, thousands_of_calls_reuse_board_and_lanes)
{
    on_threads(2, {}, [](Rank &rank) {
        Sum sum(rank, 64, 0);
        for (int i = 0; i < 5000; i++) {
            if (rank.call(sum.args) != GPUCOLL_OK) {
                ADD_FAILURE() << "call " << i;
                break;
            }
        }
        EXPECT_TRUE(sum.right());
    });
}

TEST(long_run, memory_freed_and_made_again)
{
    on_threads(2, {}, [](Rank &rank) {
        for (int i = 0; i < 300; i++) {
            expect_native(rank, i); /* new buffers each time */
        }
    });
}

/* ---- barriers of the application ---- */

namespace
{
gpucoll_status enter_barrier(gpucoll_team *team)
{
    gpucoll_barrier_start(team);
    gpucoll_status status;
    while ((status = gpucoll_barrier_test(team)) == GPUCOLL_IN_PROGRESS) {
        std::this_thread::yield();
    }
    return status;
}
} // namespace

TEST(barrier, nobody_leaves_before_all_have_come)
{
    std::atomic<uint32_t> entered{0};
    on_threads(4, {}, [&](Rank &rank) {
        for (uint32_t round = 1; round <= 300; round++) {
            if (round % 50 == rank.number) {
                std::this_thread::sleep_for(std::chrono::milliseconds(2));
            }
            entered++;
            ASSERT_EQ(enter_barrier(rank.team), GPUCOLL_OK);
            ASSERT_GE(entered.load(), 4 * round);
        }
        EXPECT_TRUE(rank.log.topics().empty());
    });
}

TEST(barrier, of_one_rank_is_at_once)
{
    on_threads(1, {}, [](Rank &rank) { EXPECT_EQ(enter_barrier(rank.team), GPUCOLL_OK); });
}

TEST(barrier, names_the_rank_that_does_not_come)
{
    std::atomic<int> named{0};
    on_threads(3, {{"timeout", "1"}}, [&](Rank &rank) {
        if (rank.number == 1) {
            std::this_thread::sleep_for(std::chrono::seconds(3));
            return;
        }
        EXPECT_EQ(enter_barrier(rank.team), GPUCOLL_ERR_TIMEOUT);
        std::string text = rank.log.text_of("timeout");
        if (!text.empty()) { /* else the other has given up first, and that is what is said */
            EXPECT_NE(text.find("barrier"), std::string::npos) << text;
            EXPECT_NE(text.find("Missing ranks:  1\n"), std::string::npos) << text;
            named++;
        }
    });
    EXPECT_GE(named.load(), 1);
}
