/*
 * Reduces of two ranks by a copy engine (core/algorithms/reduce_pair.c): where the result belongs, or in so many small chunks that the slots of the scratch
 * are used again and again.
 */
#include "test/unit/reducer.h"

extern "C" {
#include "test/unit/first_lane.h"
#include "test/unit/queued_copies.h"
}

namespace
{
Settings by_pair(const char *chunk)
{
    return {{"zero_copy", "1"},      {"protocol", "copy"}, {"chunk", chunk},
            {"scratch_bytes", "1M"}, {"verbose", "5"},     {"reduce_algorithm", "pair"}};
}

Reduction reduce_to(uint32_t root, size_t count)
{
    Reduction call;
    call.coll = GPUCOLL_REDUCE;
    call.root = root;
    call.count = count;
    return call;
}
} // namespace

class reduce_pair : public testing::TestWithParam<const char *>
{
};

TEST_P(reduce_pair, counts_roots_and_places)
{
    on_threads(2, by_pair(GetParam()), [](Rank &rank) {
        for (size_t offset : {0, 4}) {
            Reducer reducer(rank, 2 << 20, offset, offset == 0 ? 0 : 12);
            for (size_t count :
                 {size_t{1}, size_t{31}, size_t{1025}, 70001 / amounts_divisor, 500003 / amounts_divisor}) {
                Reduction call = reduce_to(static_cast<uint32_t>(count) % rank.meeting.size, count);
                reducer.check(call);
                call.in_place = true;
                reducer.check(call);
            }
        }
        EXPECT_GE(runs_by(rank, "pair/copy"), 12u)
            << "all but those whose root receives there for the first time";
    });
}

TEST_P(reduce_pair, every_root)
{
    on_threads(2, by_pair(GetParam()), check_every_root);
}

INSTANTIATE_TEST_SUITE_P(chunk, reduce_pair, testing::Values("4K", "0"),
                         [](const auto &info) { return std::string(info.param); });

/* In the order of ranks, whoever is the root. */
TEST(reduce_pairs, every_operator_and_type)
{
    on_threads(2, by_pair("4K"), [](Rank &rank) {
        Reducer reducer(rank, 1 << 20, 0, 0);
        size_t number = 0;
        for (const NativePair &pair : native_pairs()) {
            Reduction call = reduce_to(number % 2, 5001 + number % 16);
            call.op = pair.op;
            call.type = pair.type;
            call.in_place = number++ % 3 == 1;
            reducer.check(call);
        }
        EXPECT_GE(runs_by(rank, "pair/copy"), number - 2);
    });
}

/* In slots, which fill up before a root that looks rarely. */
TEST(reduce_pairs, in_place_of_a_root_that_is_slow)
{
    on_threads(2, by_pair("4K"), [](Rank &rank) {
        Reducer reducer(rank, 1 << 20, 0, 0);
        Reduction call = reduce_to(0, 50021);
        call.in_place = true;
        call.pause = std::chrono::milliseconds(rank.number == 0 ? 1 : 0);
        reducer.check(call, 3);
        EXPECT_GE(runs_by(rank, "pair/copy"), 2u);
    });
}

/* Of a call that nobody waits in all copies are under way from the beginning, and what has come is reduced by one kernel. */
TEST(reduce_pairs, of_calls_that_nobody_waits_in)
{
    on_threads(2, by_pair("4K"), [](Rank &rank) {
        Reducer reducer(rank, 1 << 20, 0, 0);
        Reduction call = reduce_to(0, 64 << 10);
        call.form = GPUCOLL_FORM_NONBLOCKING;
        reducer.check(call, 2);
        const uint64_t launched = test_launched(rank.context);
        call.pause = std::chrono::milliseconds(rank.number == 0 ? 100 : 0);
        reducer.check(call);
        const uint64_t kernels = test_launched(rank.context) - launched;
        EXPECT_TRUE(rank.number == 0 ? kernels >= 1 && kernels <= 3 : kernels == 0) << kernels;
        call.pause = {};
        call.in_place = true;
        reducer.check(call);
        EXPECT_EQ(runs_by(rank, "pair/copy"), 2u) << "in place it needs the host";
    });
}

TEST(reduce_pairs, of_processes)
{
    on_processes(2, by_pair("16K"), [](Rank &rank) {
        Reducer reducer(rank, 1 << 20, 0, 0);
        for (uint32_t use = 0; use < 8; use++) {
            Reduction call = reduce_to(use % 2, 100003);
            call.in_place = use / 2 % 2 == 1;
            reducer.check(call);
        }
    });
}

/* Halves of what is left, but chunks that are alike where the root's own part is in the way. */
TEST(reduce_pairs, has_few_copies_where_the_result_takes_them)
{
    on_threads(2, by_pair("4K"), [](Rank &rank) {
        Reducer reducer(rank, 1 << 20, 0, 0);
        Reduction call = reduce_to(0, 64 << 10); /* 256 KiB */
        for (bool in_place : {false, true}) {
            call.in_place = in_place;
            reducer.check(call, 2);
            const uint64_t before = test_queued(rank.context);
            reducer.check(call);
            const uint64_t wanted = rank.number == 0 ? 0 : in_place ? 64 : 7;
            EXPECT_EQ(test_queued(rank.context) - before, wanted);
        }
    });
}
