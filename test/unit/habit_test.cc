/*
 * Whether kernels linger, by when calls have come so far.
 */
#include "test/unit/ranks.h"
#include "test/unit/sum.h"

extern "C" {
#include "test/unit/first_habit.h"
}

namespace
{
constexpr uint64_t in_time_ns = 27000;
constexpr uint64_t linger_ns = 20000;
constexpr uint64_t soon = 10000;
constexpr uint64_t late = 100000;

struct Calls {
    /* The next call, so long after the one before. */
    bool lingers(uint64_t after_ns, int functor = 1)
    {
        now_ns += after_ns;
        return gpucoll_habit_lingers(&habit, can ? this : nullptr, functor, now_ns, in_time_ns);
    }
    /* It ends so long after it was planned. */
    void ends(uint64_t after_ns)
    {
        now_ns += after_ns;
        if (gpucoll_habit_awaits_end(&habit)) {
            gpucoll_habit_ended(&habit, now_ns + linger_ns);
        }
    }
    gpucoll_habit habit{};
    bool can = true;
    uint64_t now_ns = 1000000;
};
} // namespace

TEST(habit, calls_in_a_row_linger)
{
    Calls calls;
    for (int i = 0; i < 20; i++) {
        EXPECT_TRUE(calls.lingers(soon)) << i;
    }
}

TEST(habit, calls_far_apart_do_not)
{
    Calls calls;
    for (int i = 0; i < 20; i++) {
        EXPECT_EQ(calls.lingers(late), i < GPUCOLL_HABIT_DOUBTS) << i;
    }
}

TEST(habit, a_row_after_a_pause_does_again)
{
    Calls calls;
    for (int i = 0; i < 20; i++) {
        calls.lingers(late);
    }
    EXPECT_FALSE(calls.lingers(late));
    EXPECT_TRUE(gpucoll_habit_apart(&calls.habit));
    for (int i = 0; i < 10; i++) {
        EXPECT_TRUE(calls.lingers(soon)) << i;
        EXPECT_FALSE(gpucoll_habit_apart(&calls.habit)) << i;
    }
}

/* Where another rank has no use for it, its kernel does not linger, though this rank's would. */
TEST(habit, calls_that_are_launched_after_all_are_judged)
{
    Calls calls;
    for (int i = 0; i < 10; i++) {
        EXPECT_TRUE(calls.lingers(soon)) << i;
        gpucoll_habit_launched(&calls.habit);
    }
    for (int i = 0; i < GPUCOLL_HABIT_DOUBTS; i++) {
        EXPECT_FALSE(gpucoll_habit_apart(&calls.habit)) << i;
        calls.lingers(late);
        gpucoll_habit_launched(&calls.habit);
    }
    EXPECT_TRUE(gpucoll_habit_apart(&calls.habit));
}

/* However long that takes: what counts is when the next one comes. Else they would be launched for ever, and never be in time. */
TEST(habit, calls_that_are_launched_may_take_longer)
{
    Calls calls;
    for (int i = 0; i < 20; i++) {
        calls.lingers(late);
        calls.ends(late);
    }
    EXPECT_FALSE(calls.lingers(late));
    calls.ends(late);
    EXPECT_TRUE(calls.lingers(linger_ns - 1));
    for (int i = 0; i < 2 * GPUCOLL_HABIT_DOUBTS; i++) {
        calls.ends(late);
        EXPECT_TRUE(calls.lingers(linger_ns - 1)) << i;
    }
}

TEST(habit, calls_soon_after_the_start_of_one_but_late_after_its_end_do_not_linger)
{
    Calls calls;
    for (int i = 0; i < 20; i++) {
        EXPECT_EQ(calls.lingers(linger_ns), i < GPUCOLL_HABIT_DOUBTS) << i;
        calls.ends(1000);
    }
}

/* One that is rung for ends as predicted: nobody looks at the clock. */
TEST(habit, the_end_of_a_call_that_is_rung_for_is_not_asked_for)
{
    Calls calls;
    EXPECT_TRUE(calls.lingers(soon));
    EXPECT_TRUE(gpucoll_habit_awaits_end(&calls.habit));
    EXPECT_TRUE(calls.lingers(soon));
    EXPECT_FALSE(gpucoll_habit_awaits_end(&calls.habit));
    calls.can = false;
    calls.lingers(soon);
    EXPECT_FALSE(gpucoll_habit_awaits_end(&calls.habit));
}

/* The second of two is served by the first one's kernel, however long after them the next two come. */
TEST(habit, pairs_of_calls_linger)
{
    Calls calls;
    for (int i = 0; i < 20; i++) {
        calls.lingers(late);
    }
    for (int i = 0; i < 20; i++) {
        calls.lingers(late);
        calls.lingers(soon);
    }
    EXPECT_TRUE(calls.lingers(late));
    EXPECT_TRUE(calls.lingers(soon));
}

TEST(habit, calls_of_two_kinds_by_turns_do_not)
{
    Calls calls;
    for (int i = 0; i < 20; i++) {
        EXPECT_EQ(calls.lingers(soon, i % 2), i < GPUCOLL_HABIT_DOUBTS) << i;
    }
}

TEST(habit, small_calls_each_before_a_large_one_do_not)
{
    Calls calls;
    for (int i = 0; i < 20; i++) {
        calls.can = true;
        EXPECT_EQ(calls.lingers(soon), i < GPUCOLL_HABIT_DOUBTS) << i;
        calls.can = false;
        EXPECT_FALSE(calls.lingers(soon)) << i;
    }
}

/* Other calls alone say nothing of whether it pays. */
TEST(habit, large_calls_leave_it_as_it_is)
{
    Calls calls;
    calls.can = false;
    for (int i = 0; i < 20; i++) {
        EXPECT_FALSE(calls.lingers(soon));
    }
    calls.can = true;
    EXPECT_TRUE(calls.lingers(soon));
}

/* They hold a lane, but there is no kernel whose end could be told: a launched one that was left long ago is not waiting since then. */
TEST(habit, declined_calls_leave_it_as_it_is)
{
    on_threads(2, {}, [](Rank &rank) {
        Sum sum(rank, 100, 1);
        EXPECT_EQ(rank.call(sum.args), GPUCOLL_OK);
        if (rank.number == 0) {
            gpucoll_habit *habit = test_first_habit(rank.context);
            *habit = {};
            habit->kind = habit;
            habit->until_ns = 1;
            ASSERT_TRUE(gpucoll_habit_awaits_end(habit));
            EXPECT_EQ(rank.call(sum.args), GPUCOLL_DECLINED);
            EXPECT_EQ(habit->until_ns, 1u);
        } else {
            gpucoll_pass(rank.team);
        }
    });
}
