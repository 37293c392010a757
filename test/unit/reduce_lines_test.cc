/*
 * Reduce by the all-reduce's kernel over LL128 (core/algorithms/reduce_twoshot_ll128.c): the root has the result, and nobody else's receive buffer is touched.
 */
#include <algorithm>
#include <cstring>
#include "test/unit/reducer.h"

namespace
{
const Settings by_lines = {{"reduce_algorithm", "twoshot"}, {"protocol", "ll128"}, {"verbose", "5"}};
} // namespace

class reduce_lines : public testing::TestWithParam<uint32_t>
{
};

TEST_P(reduce_lines, counts_roots_and_places)
{
    on_threads(GetParam(), by_lines, [](Rank &rank) {
        for (size_t offset : {0, 4}) {
            Reducer reducer(rank, 2 << 20, offset, offset == 0 ? 0 : 12);
            Reduction call;
            call.coll = GPUCOLL_REDUCE;
            for (size_t count : {1, 27, 1025, 70001, 500003}) {
                call.count = count;
                call.root = static_cast<uint32_t>(count) % rank.meeting.size;
                for (bool in_place : {false, true}) {
                    call.in_place = in_place;
                    reducer.check(call);
                }
            }
        }
        EXPECT_EQ(runs_by(rank, "twoshot/ll128"), 20u);
    });
}

/* Who is not the root passes no receive buffer, or one that stays as it is. */
TEST_P(reduce_lines, only_the_root_receives)
{
    on_threads(GetParam(), by_lines, [](Rank &rank) {
        const size_t bytes = 40004;
        Buffer sent(bytes);
        Buffer received(bytes);
        memset(sent.data(), 1, bytes);
        for (uint32_t root = 0; root < rank.meeting.size; root++) {
            const gpucoll_block block = {0, bytes};
            received.poison();
            gpucoll_coll_args args = {};
            args.coll = GPUCOLL_REDUCE;
            args.op = GPUCOLL_SUM;
            args.type = GPUCOLL_UINT8;
            args.root = root;
            args.send = sent.data();
            args.recv = rank.number == root || root % 2 == 0 ? received.data() : nullptr;
            args.send_blocks = &block;
            args.recv_blocks = rank.number == root ? &block : nullptr;
            EXPECT_EQ(rank.call(args), GPUCOLL_OK);
            const char wanted = rank.number == root ? static_cast<char>(rank.meeting.size) : '\xcc';
            EXPECT_EQ(std::count(received.data(), received.data() + bytes, wanted),
                      static_cast<ptrdiff_t>(bytes));
            EXPECT_TRUE(received.guards_intact());
        }
        EXPECT_EQ(runs_by(rank, "twoshot/ll128"), rank.meeting.size);
    });
}

TEST_P(reduce_lines, every_root)
{
    on_threads(GetParam(), by_lines, check_every_root);
}

INSTANTIATE_TEST_SUITE_P(ranks, reduce_lines, testing::Values(2, 3, 4, 8), testing::PrintToStringParamName());

TEST(reductions_by_lines, every_operator_and_type)
{
    on_threads(5, by_lines, [](Rank &rank) {
        Reducer reducer(rank, 1 << 20, 0, 0);
        Reduction call;
        call.coll = GPUCOLL_REDUCE;
        for (const NativePair &pair : native_pairs()) {
            call.op = pair.op;
            call.type = pair.type;
            call.root = (call.root + 1) % rank.meeting.size;
            call.count = 1001 + 3 * call.root;
            call.in_place = !call.in_place;
            reducer.check(call);
        }
    });
}

TEST(reductions_by_lines, of_processes)
{
    on_processes(3, by_lines, check_every_root);
}
