/*
 * Small all-reduces that begin before all ranks have made the call (core/early.h), by the whole engine on the host accelerator. That they do is
 * seen in the log.
 */
#include <chrono>
#include <thread>
#include "test/unit/sum.h"

extern "C" {
#include "core/early.h"
#include "test/unit/first_lane.h"
}

namespace
{
size_t count_of(const Rank &rank, const char *what)
{
    size_t found = 0;
    for (const std::string &line : rank.log.lines()) {
        found += line.find(what) != std::string::npos ? 1 : 0;
    }
    return found;
}

size_t begun_early(const Rank &rank)
{
    return count_of(rank, "begun early");
}

/* So many calls one after the other, each with other data. */
void in_a_row(Rank &rank, gpucoll_team *team, int calls, size_t count, int salt = 0)
{
    for (int i = 0; i < calls; i++) {
        Sum sum(rank, count, salt + i);
        ASSERT_EQ(Rank::call(team, sum.args), GPUCOLL_OK) << i;
        ASSERT_TRUE(sum.right()) << i;
    }
}

void in_a_row(Rank &rank, int calls, size_t count, int salt = 0)
{
    in_a_row(rank, rank.team, calls, count, salt);
}

/* Enough for inboxes, and some that begin early. */
constexpr int enough = 40;
} // namespace

TEST(early, calls_in_a_row)
{
    for (uint32_t ranks = 2; ranks <= 5; ranks++) {
        on_threads(ranks, {}, [](Rank &rank) {
            for (size_t count : {1, 127, 128, 129, 2047, 2048}) {
                in_a_row(rank, enough, count);
            }
            EXPECT_GT(begun_early(rank), 0u);
            EXPECT_TRUE(rank.log.topics().empty());
        });
    }
}

TEST(early, not_of_more_than_inboxes_hold)
{
    on_threads(3, {}, [](Rank &rank) {
        in_a_row(rank, enough, 2049);
        EXPECT_EQ(begun_early(rank), 0u);
    });
}

TEST(early, not_if_told_so)
{
    on_threads(3, {{"early", "false"}}, [](Rank &rank) {
        in_a_row(rank, 100, 5);
        EXPECT_EQ(begun_early(rank), 0u);
    });
}

TEST(early, in_place)
{
    on_threads(3, {}, [](Rank &rank) {
        Buffer memory(4 * 1000);
        auto *values = reinterpret_cast<uint32_t *>(memory.data());
        for (uint32_t call = 0; call < enough; call++) {
            for (uint32_t i = 0; i < 1000; i++) {
                values[i] = 7919 * call + 31 * i + rank.number;
            }
            ASSERT_EQ(
                rank.call(reduce_all(GPUCOLL_SUM, GPUCOLL_UINT32, GPUCOLL_IN_PLACE, memory.data(), 1000)),
                GPUCOLL_OK);
            for (uint32_t i = 0; i < 1000; i++) {
                ASSERT_EQ(values[i], 3 * (7919 * call + 31 * i) + 3) << "call " << call << " element " << i;
            }
        }
        EXPECT_TRUE(memory.guards_intact());
        EXPECT_GT(begun_early(rank), 0u);
    });
}

/* The kernels of the others end without it, and are launched when it has come. */
TEST(early, one_comes_late)
{
    on_threads(3, {}, [](Rank &rank) {
        for (uint32_t late = 0; late < 3; late++) {
            in_a_row(rank, enough, 100);
            std::this_thread::sleep_for(std::chrono::milliseconds(rank.number == late ? 50 : 0));
            in_a_row(rank, 3, 100, 1000);
        }
        EXPECT_GT(begun_early(rank), 0u);
    });
}

TEST(early, one_declines_and_nothing_is_written)
{
    for (bool late : {false, true}) {
        on_threads(3, {}, [=](Rank &rank) {
            for (uint32_t odd = 0; odd < 3; odd++) {
                in_a_row(rank, enough, 10);
                const bool host = rank.number == odd;
                std::this_thread::sleep_for(std::chrono::milliseconds(host && late ? 30 : 0));
                Sum sum(rank, 10, 3, host ? GPUCOLL_MEMORY_HOST : GPUCOLL_MEMORY_DEVICE,
                        host ? GPUCOLL_MEMORY_HOST : GPUCOLL_MEMORY_DEVICE);
                EXPECT_EQ(rank.call(sum.args), GPUCOLL_DECLINED);
                EXPECT_TRUE(sum.untouched());
            }
            in_a_row(rank, enough, 10);
            EXPECT_TRUE(rank.log.topics().empty());
        });
    }
}

TEST(early, arguments_that_differ)
{
    on_threads(3, {}, [=](Rank &rank) {
        for (uint32_t odd = 0; odd < 3; odd++) {
            in_a_row(rank, enough, 10);
            Sum sum(rank, rank.number == odd ? 11 : 10, 3);
            EXPECT_EQ(rank.call(sum.args), GPUCOLL_ERR_MISMATCH);
            EXPECT_TRUE(sum.untouched());
        }
        in_a_row(rank, enough, 10);
    });
}

TEST(early, other_calls_between)
{
    on_threads(4, {}, [=](Rank &rank) {
        Random random(17); /* the same on all ranks */
        in_a_row(rank, 20, 10);
        for (int i = 0; i < 300; i++) {
            const uint32_t kind = random.below(8);
            in_a_row(rank, 1, kind == 0 ? 9000 : kind == 1 ? 11 : kind == 2 ? 40000 : 10, i);
        }
        EXPECT_GT(begun_early(rank), 0u);
    });
}

/* A rank whose first lane is in use takes no inbox. */
TEST(early, one_has_other_calls_under_way)
{
    on_threads(3, {{"lanes", "3"}}, [=](Rank &rank) {
        in_a_row(rank, enough, 10);
        for (int turn = 0; turn < 3; turn++) {
            if (rank.number == 1) {
                test_take_first_lane(rank.context);
            }
            in_a_row(rank, 3, 10, turn);
            if (rank.number == 1) {
                test_give_first_lane(rank.context);
            }
            in_a_row(rank, 3, 10, turn);
        }
        const size_t before = begun_early(rank);
        if (rank.number == 1) { /* after some in a row the others do without for a while */
            test_take_first_lane(rank.context);
        }
        in_a_row(rank, 100, 10);
        EXPECT_LE(begun_early(rank), before + 1);
        if (rank.number == 1) {
            test_give_first_lane(rank.context);
        }
        in_a_row(rank, 1100, 10);
        EXPECT_GT(begun_early(rank), before + 1);
    });
}

/* Two of a rank's communicators have an inbox each. */
TEST(early, teams_in_turn)
{
    on_threads(3, {}, [=](Rank &rank) {
        gpucoll_team *other = nullptr;
        ASSERT_EQ(rank.make_team(rank.meeting, 1, &other), GPUCOLL_OK);
        for (int i = 0; i < 20; i++) {
            in_a_row(rank, 5, 10, i);
            in_a_row(rank, other, 5, 20, 2 * i);
        }
        EXPECT_GT(begun_early(rank), 0u);
        gpucoll_team_destroy(other);
    });
}

/* There are more teams than inboxes; and they rest when their team has gone. */
TEST(early, more_teams_than_inboxes)
{
    constexpr uint32_t ranks = 4;
    on_threads(ranks, {}, [=](Rank &rank) {
        for (int turn = 0; turn < 2; turn++) {
            std::vector<gpucoll_team *> teams;
            for (uint32_t i = 0; i < GPUCOLL_INBOX_UNITS / ranks + 3; i++) {
                gpucoll_team *team = nullptr;
                ASSERT_EQ(rank.make_team(rank.meeting, 1 + i, &team), GPUCOLL_OK);
                teams.push_back(team);
            }
            for (int i = 0; i < 3; i++) {
                for (gpucoll_team *team : teams) {
                    in_a_row(rank, team, 10, 1 + static_cast<size_t>(i), i);
                }
            }
            rank.barrier();
            for (gpucoll_team *team : teams) {
                gpucoll_team_destroy(team);
            }
        }
        EXPECT_GT(begun_early(rank), 0u);
    });
}
