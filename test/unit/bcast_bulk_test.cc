/*
 * Broadcasts in bulk (core/algorithms/bcast_bulk.c): each rank but the root reads a slice from it, and stores it to all others.
 */
#include "test/unit/reducer.h"

extern "C" {
#include "test/unit/failing.h"
}

namespace
{
const char *const way = "scatter_allgather/bulk";

const Settings in_bulk = {
    {"zero_copy", "1"}, {"protocol", "bulk"}, {"verbose", "5"}, {"bcast_algorithm", "scatter_allgather"}};

ExchangeCall broadcast(size_t count, uint32_t root)
{
    ExchangeCall call = call_of(kind_of(GPUCOLL_BCAST), count);
    call.type = GPUCOLL_UINT8;
    call.offset = 0;
    call.root = root;
    return call;
}

/* Three calls; returns how many were in bulk. The first makes the buffers known. */
size_t check(Rank &rank, ExchangePart &part)
{
    const size_t before = runs_by(rank, way);
    for (int use = 0; use < 3; use++) {
        part.poison();
        EXPECT_EQ(rank.call(part.args()), GPUCOLL_OK) << part.text();
        EXPECT_TRUE(part.right()) << part.text();
    }
    return runs_by(rank, way) - before;
}

void check_thrice(Rank &rank, const ExchangeCall &call)
{
    ExchangePart part(call, rank.number, rank.meeting.size);
    EXPECT_GE(check(rank, part), 2u) << part.text();
}
} // namespace

class bcast_bulk : public testing::TestWithParam<uint32_t>
{
};

/* Tiles and a byte more or less, and all that leaves a rest behind the last pack. (What peers reach of the host accelerator's memory is not short.) */
TEST_P(bcast_bulk, counts)
{
    on_threads(GetParam(), in_bulk, [](Rank &rank) {
        const size_t slices = rank.meeting.size - 1;
        const size_t tiles = 9 * slices * GPUCOLL_BULK_MAX_TILE;
        for (size_t count :
             {tiles, tiles - 1, tiles + 1, tiles + 15, tiles + slices * 128 + 1, size_t{1000003}}) {
            check_thrice(rank, broadcast(count, static_cast<uint32_t>(count) % rank.meeting.size));
        }
    });
}

TEST_P(bcast_bulk, every_root)
{
    on_threads(GetParam(), in_bulk, [](Rank &rank) {
        for (uint32_t root = 0; root < rank.meeting.size; root++) {
            check_thrice(rank, broadcast(300007, root));
        }
    });
}

INSTANTIATE_TEST_SUITE_P(ranks, bcast_bulk, testing::Values(3, 4, 5, 8), testing::PrintToStringParamName());

TEST(broadcasts_in_bulk, of_processes)
{
    on_processes(4, in_bulk, [](Rank &rank) { check_thrice(rank, broadcast(300007, 2)); });
}

/* Where the message of any rank does not begin at a multiple of 16 bytes, all take another way. */
TEST(broadcasts_in_bulk, need_buffers_that_are_aligned_on_all_ranks)
{
    for (uint32_t odd : {0, 1, 2}) {
        on_threads(3, in_bulk, [odd](Rank &rank) {
            ExchangeCall call = broadcast(100000, 1);
            call.offset = rank.number == odd ? 8 : 0;
            ExchangePart part(call, rank.number, rank.meeting.size);
            EXPECT_EQ(check(rank, part), 0u);
        });
    }
}

/* What peers cannot read is not read; another message is. */
TEST(broadcasts_in_bulk, go_another_way_if_the_message_cannot_be_mapped)
{
    on_threads(3, in_bulk, [](Rank &rank) {
        test_heed_unmappable(rank.context);
        const ExchangeCall call = broadcast(300007, 1);
        ExchangePart part(call, rank.number, rank.meeting.size);
        ExchangePart other(call, rank.number, rank.meeting.size);
        if (rank.number == call.root) {
            test_unmappable(part.args().send);
        }
        rank.barrier();
        EXPECT_EQ(check(rank, part), 0u);
        EXPECT_GE(check(rank, other), 2u);
        EXPECT_EQ(check(rank, part), 0u);
        rank.barrier();
        test_unmappable(nullptr);
    });
}

TEST(broadcasts_in_bulk, by_one_cta_and_by_some)
{
    for (const char *channels : {"1", "7"}) {
        Settings settings = in_bulk;
        settings.push_back({"channels", channels});
        on_threads(4, settings, [](Rank &rank) { check_thrice(rank, broadcast(700001, 3)); });
    }
}
