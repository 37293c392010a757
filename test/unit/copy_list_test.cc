/*
 * What is sent by copies of its pieces instead of being packed, by ranks with peers: what arrives, and when it is packed after all.
 */
#include <algorithm>
#include "test/unit/ranks.h"
#include "test/unit/values.h"

extern "C" {
#include "core/layout.h"
#include "test/unit/first_lane.h"
#include "test/unit/queued_copies.h"
}

namespace
{
const Settings by_copies = {{"zero_copy", "1"}, {"protocol", "copy"}, {"alltoallw_algorithm", "exchange"}};

/* Of memory that peers can map (core/accel/host_arena.c). */
constexpr size_t least_shared = 64 << 10;

/* Pieces that lie the other way round, 8 bytes apart. */
gpucoll_layout *reversed(uint32_t pieces, size_t bytes)
{
    gpucoll_layout_builder *builder = gpucoll_layout_begin();
    for (uint32_t i = pieces; i-- > 0;) {
        gpucoll_layout_add_run(builder, static_cast<ptrdiff_t>(i * (bytes + 8)), bytes);
    }
    return gpucoll_layout_build(builder, static_cast<ptrdiff_t>(pieces * (bytes + 8)));
}

/* An MPI_Alltoallw of `pieces` pieces for each rank; on the receiving side they are together, or pieces as well. */
class Pieces
{
  public:
    Pieces(Rank &rank, uint32_t pieces, size_t bytes, bool received_apart = false)
        : rank(rank), size(rank.meeting.size), pieces(pieces), bytes(bytes), room(pieces * (bytes + 8)),
          layout(reversed(pieces, bytes)), send(std::max(size * room, least_shared)),
          recv(std::max(size * room, least_shared)), send_layouts(size, layout),
          recv_layouts(size, received_apart ? layout : nullptr)
    {
        for (uint32_t peer = 0; peer < size; peer++) {
            send_blocks.push_back({static_cast<ptrdiff_t>(peer * room), pieces * bytes});
        }
        recv_blocks = send_blocks;
    }
    ~Pieces() { gpucoll_layout_release(layout); }
    Pieces(const Pieces &) = delete;
    Pieces &operator=(const Pieces &) = delete;

    /* Kernels that it launched. */
    uint64_t run()
    {
        for (uint32_t peer = 0; peer < size; peer++) {
            for (size_t i = 0; i < pieces * bytes; i++) {
                send.data()[at(peer, i, true)] = byte_of(rank.number, peer, round, i);
            }
        }
        recv.poison();
        gpucoll_coll_args args = {};
        args.coll = GPUCOLL_ALLTOALLW;
        args.send = send.data();
        args.recv = into;
        args.send_blocks = send_blocks.data();
        args.recv_blocks = recv_blocks.data();
        args.send_layouts = send_layouts.data();
        args.recv_layouts = recv_layouts.data();
        const uint64_t before = test_launched(rank.context);
        EXPECT_EQ(rank.call(args), GPUCOLL_OK);
        verify();
        round++;
        return test_launched(rank.context) - before;
    }

    /* What is received comes to where the pieces are that are sent. */
    void overlap() { into = send.data(); }

  private:
    size_t at(uint32_t peer, size_t i, bool apart) const
    {
        return peer * room + (apart ? (pieces - 1 - i / bytes) * (bytes + 8) + i % bytes : i);
    }
    void verify() const
    {
        const bool apart = recv_layouts[0] != nullptr;
        for (uint32_t peer = 0; peer < size; peer++) {
            size_t wrong = 0;
            for (size_t i = 0; i < pieces * bytes; i++) {
                wrong += into[at(peer, i, apart)] != byte_of(peer, rank.number, round, i);
            }
            EXPECT_EQ(wrong, 0u) << "from rank " << peer << " in round " << round;
        }
        EXPECT_TRUE(recv.guards_intact());
    }

    Rank &rank;
    const uint32_t size;
    const uint32_t pieces;
    const size_t bytes;
    const size_t room;
    gpucoll_layout *layout;
    Buffer send;
    Buffer recv;
    std::vector<gpucoll_layout *> send_layouts;
    std::vector<gpucoll_layout *> recv_layouts;
    std::vector<gpucoll_block> send_blocks;
    std::vector<gpucoll_block> recv_blocks;
    char *into = recv.data();
    uint32_t round = 0;
};

/* The first call of an allocation is not direct. */
void settle(Pieces &call)
{
    for (int i = 0; i < 3; i++) {
        call.run();
    }
}

/* Kernels that such a call launches once its buffers are known. */
uint64_t launched_by(Rank &rank, uint32_t pieces, size_t bytes, bool received_apart = false)
{
    Pieces call(rank, pieces, bytes, received_apart);
    settle(call);
    return call.run();
}
} // namespace

TEST(copy_list, few_pieces_are_sent_without_packing)
{
    for (uint32_t ranks : {2, 3, 4}) {
        on_threads(ranks, by_copies, [](Rank &rank) {
            EXPECT_EQ(launched_by(rank, 2, 5000), 0u);
            EXPECT_EQ(launched_by(rank, 4, 100), 0u);
        });
    }
}

TEST(copy_list, many_short_pieces_are_packed)
{
    on_threads(3, by_copies, [](Rank &rank) { EXPECT_EQ(launched_by(rank, 5, 100), 1u); });
}

/* The receiver's pieces are its own affair. */
TEST(copy_list, what_is_received_in_pieces_is_unpacked)
{
    on_threads(3, by_copies, [](Rank &rank) { EXPECT_EQ(launched_by(rank, 2, 3000, true), 1u); });
}

/* Two pieces for each of 15 peers go into a batch of 32, three do not. */
TEST(copy_list, as_many_pieces_as_a_batch_takes)
{
    on_threads(16, by_copies, [](Rank &rank) {
        EXPECT_EQ(launched_by(rank, 2, 600), 0u);
        EXPECT_EQ(launched_by(rank, 3, 200), 1u);
    });
}

TEST(copy_list, all_are_one_batch)
{
    on_threads(4, by_copies, [](Rank &rank) {
        Pieces call(rank, 3, 1000);
        settle(call);
        const uint64_t batches = test_queued_batches(rank.context);
        EXPECT_EQ(call.run(), 0u);
        EXPECT_EQ(test_queued_batches(rank.context), batches + 1);
    });
}

/* What peers write waits to be unpacked until all has been sent. */
TEST(copy_list, in_place)
{
    on_threads(3, by_copies, [](Rank &rank) {
        Pieces call(rank, 2, 1000, true);
        call.overlap();
        settle(call);
        EXPECT_EQ(call.run(), 1u);
    });
}
