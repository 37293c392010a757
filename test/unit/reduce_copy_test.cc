/*
 * Reductions that move by copy engines (core/algorithms/reduce_copy.c): all-reduce, reduce and reduce-scatter in buffers that stay, in so many small
 * chunks that the slots of the scratch are used again and again.
 */
#include <chrono>
#include <thread>
#include "test/unit/reducer.h"

extern "C" {
#include "test/unit/steps_told.h"
}

namespace
{
Settings by_copies(const char *chunk, const char *queues)
{
    return {{"zero_copy", "1"},
            {"protocol", "copy"},
            {"chunk", chunk},
            {"copy_queues", queues},
            {"scratch_bytes", "1M"},
            {"verbose", "5"},
            {"allreduce_algorithm", "twoshot"},
            {"reduce_algorithm", "scatter_gather"}};
}
} // namespace

class reduce_copy : public testing::TestWithParam<std::tuple<uint32_t, const char *, const char *>>
{
  protected:
    uint32_t ranks() const { return std::get<0>(GetParam()); }
    Settings settings() const { return by_copies(std::get<1>(GetParam()), std::get<2>(GetParam())); }
};

TEST_P(reduce_copy, counts_roots_and_places)
{
    on_threads(ranks(), settings(), [](Rank &rank) {
        for (size_t offset : {0, 4}) {
            Reducer reducer(rank, 2 << 20, offset, offset == 0 ? 0 : 12);
            Reduction call;
            for (gpucoll_coll coll : reductions) {
                const size_t most = coll == GPUCOLL_REDUCE_SCATTER_BLOCK ? rank.meeting.size : 1;
                for (size_t count : {size_t{1}, size_t{31}, size_t{1025}, 70001 / amounts_divisor,
                                     500003 / amounts_divisor}) {
                    call.coll = coll;
                    call.count = count / most > 0 ? count / most : 1;
                    call.root = static_cast<uint32_t>(count) % rank.meeting.size;
                    call.in_place = false;
                    reducer.check(call);
                    call.in_place = true;
                    reducer.check(call);
                }
            }
        }
        EXPECT_GE(runs_by(rank, "twoshot/copy"), 16u);
        EXPECT_GE(runs_by(rank, "exchange/copy"), 20u);
        EXPECT_TRUE(rank.meeting.size == 2 || runs_by(rank, "scatter_gather/copy") >= 12);
    });
}

TEST_P(reduce_copy, every_root)
{
    on_threads(ranks(), settings(), check_every_root);
}

INSTANTIATE_TEST_SUITE_P(ranks, reduce_copy,
                         testing::Combine(testing::Values(2, 3, 4, 8), testing::Values("4K", "0"),
                                          testing::Values("1", "3")),
                         [](const auto &info) {
                             return std::to_string(std::get<0>(info.param)) + "_" + std::get<1>(info.param) +
                                    "_" + std::get<2>(info.param);
                         });

TEST(reduce_copies, every_operator_and_type)
{
    on_threads(5, by_copies("4K", "2"), [](Rank &rank) {
        check_every_operator_and_type(rank, [](const Reduction &call, size_t number) {
            return (call.coll == GPUCOLL_REDUCE_SCATTER_BLOCK ? 1003 : 5001) + number % 16;
        });
    });
}

/* Blocks of a reduce-scatter that differ, some of them empty. */
TEST(reduce_copies, blocks_of_any_length)
{
    on_threads(4, by_copies("4K", "2"), [](Rank &rank) {
        for (const Kind &kind : kinds) {
            for (size_t count : {1, 5000, 30011}) {
                ExchangeCall call = call_of(kind, count);
                if (kind.coll != GPUCOLL_REDUCE_SCATTER) {
                    continue;
                }
                for (bool in_place : {false, true}) {
                    call.in_place = in_place && can_be_in_place(kind.coll);
                    ExchangePart part(call, rank.number, rank.meeting.size);
                    EXPECT_EQ(rank.call(part.args()), GPUCOLL_OK) << part.text();
                    EXPECT_TRUE(part.right()) << part.text();
                }
            }
        }
        EXPECT_GE(runs_by(rank, "exchange/copy"), 3u);
    });
}

/* Chunks that no scratch would take, where the parts wait in the receive buffers; and where they cannot, since a rank sends from its own, or its own
 * does not begin at a whole pack. */
TEST(reduce_copies, parts_wait_in_the_receive_buffers_if_those_of_all_ranks_are_free)
{
    for (uint32_t ranks : {2, 3, 5}) {
        if (divisor > 1 && ranks != 3) {
            continue;
        }
        on_threads(ranks, by_copies("0", "1"), [](Rank &rank) {
            Reducer apart(rank, 8 << 20, 0, 0);
            Reducer odd(rank, 8 << 20, 0, rank.number == 1 ? 4 : 0);
            Reduction call;
            for (size_t bytes : {size_t{8} << 20, size_t{7} << 20 | 4, size_t{3} << 20}) {
                call.count = bytes / sizeof(int32_t);
                call.in_place = false;
                apart.check(call, 3);
                odd.check(call, 2);
                call.in_place = rank.number == rank.meeting.size - 1;
                apart.check(call, 2);
            }
            EXPECT_GE(runs_by(rank, "twoshot/copy"), 18u);
        });
    }
}

TEST(reduce_copies, of_processes)
{
    on_processes(4, by_copies("16K", "2"), [](Rank &rank) { check_in_turn(rank, 100003); });
}

/* By this all ranks of a call decide alike whether they queue their next step ahead. */
TEST(reduce_copies, ranks_find_alike_how_far_apart_they_are)
{
    const uint64_t ms = 1000000;
    const auto ranks =
        std::unique_ptr<steps_told, decltype(&steps_told_close)>(steps_told_open(3), steps_told_close);
    const auto apart = [&](uint32_t rank, uint32_t sent) {
        return steps_told_apart_ns(ranks.get(), rank, sent);
    };
    steps_told_begin(ranks.get(), 5);
    for (uint32_t rank : {2, 0, 1}) {
        EXPECT_EQ(apart(0, 0), UINT64_MAX) << "not all have begun";
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        steps_told_tell(ranks.get(), rank, 0);
    }
    EXPECT_GE(apart(0, 0), 4 * ms);
    EXPECT_EQ(apart(0, 0), apart(1, 0));
    EXPECT_EQ(apart(0, 0), apart(2, 0));
    EXPECT_EQ(apart(0, 1), UINT64_MAX) << "nobody has sent a step";
    for (uint32_t rank : {0, 1, 2}) {
        steps_told_tell(ranks.get(), rank, 1);
    }
    EXPECT_GE(apart(1, 0), 4 * ms) << "of two counts both are known";
    EXPECT_NE(apart(1, 1), UINT64_MAX);
    EXPECT_EQ(apart(1, 1), apart(0, 1));
    steps_told_tell(ranks.get(), 0, 2);
    EXPECT_EQ(apart(1, 0), UINT64_MAX) << "a rank is two steps ahead";
    steps_told_begin(ranks.get(), 5 + 4);
    EXPECT_EQ(apart(1, 1), UINT64_MAX) << "what is there is of an earlier call";
}
