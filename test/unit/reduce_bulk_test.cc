/*
 * Reductions in bulk (core/algorithms/reduce_bulk.c): one kernel a rank that reads from the buffers of all and writes to those of all.
 */
#include <functional>
#include "test/unit/reducer.h"

extern "C" {
#include "test/unit/failing.h"
}

namespace
{
const Settings in_bulk = {{"zero_copy", "1"},
                          {"protocol", "bulk"},
                          {"verbose", "5"},
                          {"allreduce_algorithm", "twoshot"},
                          {"reduce_algorithm", "scatter_gather"}};

/* Of the counts, those of which a block begins at multiples of 16 bytes on all ranks. */
size_t fit(const Reduction &call, size_t count)
{
    const size_t pack = GPUCOLL_PACK_BYTES / gpucoll_type_size(GPUCOLL_INT32);
    return call.coll == GPUCOLL_REDUCE_SCATTER_BLOCK ? (count + pack - 1) / pack * pack : count;
}
} // namespace

class reduce_bulk : public testing::TestWithParam<uint32_t>
{
};

TEST_P(reduce_bulk, counts_roots_and_places)
{
    on_threads(GetParam(), in_bulk, [](Rank &rank) {
        Reducer reducer(rank, 2 << 20, 0, 0);
        Reduction call;
        for (gpucoll_coll coll : reductions) {
            const size_t most = coll == GPUCOLL_REDUCE_SCATTER_BLOCK ? rank.meeting.size : 1;
            for (size_t count : {1, 31, 1025, 70001, 500003}) {
                call.coll = coll;
                call.count = fit(call, count / most > 4 ? count / most - 4 : 1);
                call.root = static_cast<uint32_t>(count) % rank.meeting.size;
                call.in_place = false;
                reducer.check(call);
                call.in_place = true;
                reducer.check(call);
            }
        }
        EXPECT_GE(runs_by(rank, "twoshot/bulk"), 8u); /* the first calls make the buffers known */
        EXPECT_GE(runs_by(rank, "scatter_gather/bulk"), 8u);
        EXPECT_EQ(runs_by(rank, "exchange/bulk"), 5u); /* not in place */
    });
}

TEST_P(reduce_bulk, every_root)
{
    on_threads(GetParam(), in_bulk, check_every_root);
}

INSTANTIATE_TEST_SUITE_P(ranks, reduce_bulk, testing::Values(2, 3, 4, 8), testing::PrintToStringParamName());

TEST(reductions_in_bulk, every_operator_and_type)
{
    on_threads(5, in_bulk, [](Rank &rank) {
        const size_t pairs = check_every_operator_and_type(rank, [](const Reduction &call, size_t number) {
            return (call.coll == GPUCOLL_REDUCE_SCATTER_BLOCK ? 1008 : 5001) + number % 2 * 16;
        });
        EXPECT_GE(runs_by(rank, "twoshot/bulk"), pairs / 4);
    });
}

/* Where a buffer of any rank does not begin at a multiple of 16 bytes, all ranks take another way; a buffer with another base is another matter. */
TEST(reductions_in_bulk, need_buffers_that_are_aligned_on_all_ranks)
{
    on_threads(3, in_bulk, [](Rank &rank) {
        for (size_t send_offset : {0, 4, 16}) {
            const size_t own_offset = rank.number == 1 ? send_offset : 0;
            const size_t before = runs_by(rank, "twoshot/bulk");
            Reducer reducer(rank, 1 << 16, own_offset, 32);
            Reduction call;
            call.count = 10001;
            reducer.check(call, 3);
            EXPECT_EQ(runs_by(rank, "twoshot/bulk") - before, send_offset == 4 ? 0u : 2u) << send_offset;
        }
    });
}

/* Blocks of a reduce-scatter that differ, some of them empty; all begin at multiples of 16 bytes, or not. */
TEST(reductions_in_bulk, blocks_of_any_length)
{
    on_threads(4, in_bulk, [](Rank &rank) {
        for (size_t count : {48000, 480000, 50000}) {
            ExchangeCall call = call_of(kind_of(GPUCOLL_REDUCE_SCATTER), count);
            call.type = GPUCOLL_UINT8;
            call.offset = 0;
            const size_t before = runs_by(rank, "exchange/bulk");
            ExchangePart part(call, rank.number, rank.meeting.size);
            for (int use = 0; use < 3; use++) {
                part.poison();
                EXPECT_EQ(rank.call(part.args()), GPUCOLL_OK) << part.text();
                EXPECT_TRUE(part.right()) << part.text();
            }
            EXPECT_EQ(runs_by(rank, "exchange/bulk") - before, count == 50000 ? 0u : 2u) << count;
        }
    });
}

TEST(reductions_in_bulk, of_processes)
{
    on_processes(4, in_bulk, [](Rank &rank) {
        check_in_turn(rank, 100004);
        EXPECT_GE(runs_by(rank, "twoshot/bulk"), 3u);
    });
}

namespace
{
/* Kernels that store to peers are slow then: in bulk is the fastest. */
const Settings one_cta = {{"zero_copy", "1"}, {"verbose", "5"}, {"channels", "1"}};

/* Into the buffers of peers, by copies or by a kernel. */
size_t runs_by_stores(const Rank &rank)
{
    return runs_by(rank, "twoshot/copy") + runs_by(rank, "twoshot/direct");
}

/* Three ranks, with a Reducer each; peers cannot map the buffer of rank 1's that `unmappable` names. */
void with_unmappable(const char *(Reducer::*unmappable)(),
                     const std::function<void(Rank &rank, Reducer &reducer)> &body)
{
    on_threads(3, one_cta, [&](Rank &rank) {
        test_heed_unmappable(rank.context);
        Reducer reducer(rank, 4 << 20, 0, 0);
        if (rank.number == 1) {
            test_unmappable((reducer.*unmappable)());
        }
        rank.barrier();
        body(rank, reducer);
        rank.barrier();
        test_unmappable(nullptr);
    });
}
} // namespace

/* Peers that cannot read one rank's send buffer can still write to all receive buffers, whatever is sent from. */
TEST(reductions_in_bulk, go_by_stores_if_a_send_buffer_cannot_be_mapped)
{
    with_unmappable(&Reducer::sends_from, [](Rank &rank, Reducer &reducer) {
        Reducer other(rank, 4 << 20, 0, 0);
        Reduction call;
        call.count = 1 << 20;
        reducer.check(call, 4);
        EXPECT_EQ(runs_by(rank, "twoshot/bulk"), 0u);
        EXPECT_EQ(runs_by_stores(rank), 3u);
        other.check(call, 3);
        EXPECT_EQ(runs_by(rank, "twoshot/bulk"), 2u);
        call.in_place = true; /* its receive buffer alone */
        reducer.check(call);
        EXPECT_EQ(runs_by(rank, "twoshot/bulk"), 3u);
        call.in_place = false;
        reducer.check(call);
        EXPECT_EQ(runs_by_stores(rank), 4u);
    });
}

/* The same if one allocation is both on some rank. */
TEST(reductions_in_bulk, refuse_an_allocation_as_a_source_alone)
{
    with_unmappable(&Reducer::sends_from, [](Rank &rank, Reducer &reducer) {
        Reduction call;
        call.count = 1 << 20;
        for (int use = 0; use < 4; use++) {
            call.in_place = rank.number != 1;
            reducer.check(call);
        }
        EXPECT_EQ(runs_by(rank, "twoshot/bulk"), 0u);
        EXPECT_EQ(runs_by_stores(rank), 3u);
    });
}

/* What no peer can write to is given up, and what they read from is not. */
TEST(reductions_in_bulk, go_another_way_if_a_receive_buffer_cannot_be_mapped)
{
    with_unmappable(&Reducer::receives_at, [](Rank &rank, Reducer &reducer) {
        Reduction call;
        call.count = 1 << 20;
        reducer.check(call, 4);
        EXPECT_EQ(runs_by(rank, "twoshot/bulk") + runs_by(rank, "twoshot/copy"), 0u);
        call.coll = GPUCOLL_REDUCE_SCATTER_BLOCK;
        call.count /= 4;
        reducer.check(call, 3);
        EXPECT_EQ(runs_by(rank, "exchange/bulk"), 3u);
    });
}

/* What could not be mapped is not taken for mapped when it comes in its other role: as what peers write to, */
TEST(reductions_in_bulk, know_a_source_that_cannot_be_mapped_as_a_target)
{
    with_unmappable(&Reducer::sends_from, [](Rank &rank, Reducer &reducer) {
        Reduction call;
        call.count = 1 << 20;
        for (int turn = 0; turn < 4; turn++) {
            reducer.check(call, 3);
            reducer.turn_round();
        }
        EXPECT_EQ(runs_by(rank, "twoshot/bulk"), 0u);
        EXPECT_GE(runs_by(rank, "twoshot/copy"), 2u);
    });
}

/* and as what they read from. */
TEST(reductions_in_bulk, know_a_target_that_cannot_be_mapped_as_a_source)
{
    with_unmappable(&Reducer::receives_at, [](Rank &rank, Reducer &reducer) {
        Reduction call;
        call.count = 1 << 18;
        call.in_place = true;
        reducer.check(call, 3);
        reducer.turn_round();
        call.in_place = false;
        call.coll = GPUCOLL_REDUCE_SCATTER_BLOCK;
        reducer.check(call, 3);
        EXPECT_EQ(runs_by(rank, "twoshot/bulk") + runs_by(rank, "exchange/bulk"), 0u);
    });
}
