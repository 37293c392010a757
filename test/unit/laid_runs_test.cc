/*
 * Short runs that are not packed, since the kernel finds their bytes by their layouts: what arrives, and when they are packed after all.
 */
#include <functional>
#include <memory>
#include "test/unit/ranks.h"
#include "test/unit/values.h"

extern "C" {
#include "core/layout.h"
#include "test/unit/first_lane.h"
}

namespace
{
const Settings by_ll = {{"alltoallw_algorithm", "exchange"}, {"protocol", "ll"}};
constexpr uint64_t packed = 3; /* kernels: one packs, one exchanges, one unpacks */
constexpr uint64_t laid = 1;

using Layout = std::unique_ptr<gpucoll_layout, decltype(&gpucoll_layout_release)>;

/* `count` runs, `stride` bytes apart. */
Layout vector_of(uint64_t count, uint64_t bytes, ptrdiff_t stride, ptrdiff_t offset = 0)
{
    gpucoll_layout_builder *builder = gpucoll_layout_begin();
    gpucoll_layout_add_loop(builder, count, stride);
    gpucoll_layout_add_run(builder, offset, bytes);
    gpucoll_layout_end_loop(builder);
    return Layout(gpucoll_layout_build(builder, 0), gpucoll_layout_release);
}

/* Runs ever further apart, of one length or of two that take turns. */
Layout list_of(uint32_t count, uint64_t bytes, bool even)
{
    gpucoll_layout_builder *builder = gpucoll_layout_begin();
    ptrdiff_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t run = even || i % 2 == 0 ? bytes : 2 * bytes;
        gpucoll_layout_add_run(builder, at, run);
        at += static_cast<ptrdiff_t>(run + 8 + 4 * i);
    }
    return Layout(gpucoll_layout_build(builder, 0), gpucoll_layout_release);
}

/* MPI_Alltoallw of one element of a layout for each rank, which is received by one of another. */
class Call
{
  public:
    Call(Rank &rank, gpucoll_layout *sent, gpucoll_layout *received, size_t shift = 0)
        : rank(rank), size(rank.meeting.size), bytes(sent->bytes), shift(shift), send(size * room + 16),
          recv(size * room + 16)
    {
        use(sent, received);
        for (uint32_t peer = 0; peer < size; peer++) {
            blocks.push_back({static_cast<ptrdiff_t>(peer * room + shift), bytes});
        }
    }

    void use(gpucoll_layout *sent, gpucoll_layout *received)
    {
        send_layouts.assign(size, sent);
        recv_layouts.assign(size, received);
    }

    /* Kernels that it launched. `bottom`: blocks are given by their addresses, as from MPI_BOTTOM. */
    uint64_t run(bool in_place = false, bool bottom = false)
    {
        char *from = in_place ? recv.data() : send.data();
        recv.poison();
        const Bytes untouched(recv.data(), recv.data() + recv.size());
        for (uint32_t peer = 0; peer < size; peer++) {
            for (size_t i = 0; i < bytes; i++) {
                from[place(send_layouts[peer], peer, i)] = byte_of(rank.number, peer, round, i);
            }
        }
        gpucoll_coll_args args = {};
        args.coll = GPUCOLL_ALLTOALLW;
        const std::vector<gpucoll_block> sent = blocks_from(bottom ? from : nullptr);
        const std::vector<gpucoll_block> received = blocks_from(bottom ? recv.data() : nullptr);
        args.send = bottom ? nullptr : from;
        args.recv = bottom ? nullptr : recv.data();
        args.send_blocks = sent.data();
        args.recv_blocks = received.data();
        args.send_layouts = send_layouts.data();
        args.recv_layouts = recv_layouts.data();
        const uint64_t before = test_launched(rank.context);
        EXPECT_EQ(rank.call(args), GPUCOLL_OK);
        verify(untouched);
        round++;
        return test_launched(rank.context) - before;
    }

  private:
    static constexpr size_t room = 60000;

    std::vector<gpucoll_block> blocks_from(const char *base) const
    {
        std::vector<gpucoll_block> moved = blocks;
        for (gpucoll_block &block : moved) {
            block.offset += reinterpret_cast<ptrdiff_t>(base);
        }
        return moved;
    }

    size_t place(const gpucoll_layout *layout, uint32_t peer, size_t i) const
    {
        uint64_t together = 0;
        return peer * room + shift +
               (layout == nullptr ? i : gpucoll_layout_find(&layout->view, i, &together));
    }

    /* What belongs there came, and nothing else was touched. */
    void verify(Bytes expected) const
    {
        size_t wrong = 0;
        for (uint32_t peer = 0; peer < size; peer++) {
            for (size_t i = 0; i < bytes; i++) {
                expected[place(recv_layouts[peer], peer, i)] = byte_of(peer, rank.number, round, i);
            }
        }
        for (size_t i = 0; i < expected.size(); i++) {
            wrong += recv.data()[i] != expected[i];
        }
        EXPECT_EQ(wrong, 0u) << "in round " << round;
        EXPECT_TRUE(recv.guards_intact());
    }

    Rank &rank;
    const uint32_t size;
    const size_t bytes;
    const size_t shift;
    Buffer send;
    Buffer recv;
    std::vector<gpucoll_layout *> send_layouts;
    std::vector<gpucoll_layout *> recv_layouts;
    std::vector<gpucoll_block> blocks;
    uint32_t round = 0;
};

/* Kernels of a call that is not the first of its layouts. */
uint64_t launched_by(Rank &rank, gpucoll_layout *sent, gpucoll_layout *received, size_t shift = 0)
{
    Call call(rank, sent, received, shift);
    call.run();
    return call.run();
}
} // namespace

TEST(laid_runs, a_layout_is_packed_when_it_is_first_seen)
{
    for (uint32_t ranks : {2, 3, 4}) {
        on_threads(ranks, by_ll, [](Rank &rank) {
            const Layout doubles = vector_of(40, 8, 24);
            Call call(rank, doubles.get(), doubles.get());
            EXPECT_EQ(call.run(), packed);
            EXPECT_EQ(call.run(), laid);
            EXPECT_EQ(call.run(), laid);
        });
    }
}

/* Copying it to the GPU takes longer than to pack, and would be for one call each time. */
TEST(laid_runs, layouts_made_for_one_call_are_packed)
{
    on_threads(2, by_ll, [](Rank &rank) {
        const Layout first = vector_of(40, 8, 24);
        Call call(rank, first.get(), first.get());
        for (int i = 0; i < 3; i++) {
            const Layout doubles = vector_of(40, 8, 24);
            call.use(doubles.get(), doubles.get());
            EXPECT_EQ(call.run(), packed);
        }
    });
}

TEST(laid_runs, of_all_kinds)
{
    for (uint32_t ranks : {2, 5}) {
        on_threads(ranks, by_ll, [](Rank &rank) {
            const Layout floats = vector_of(300, 4, 12);
            const Layout rows = vector_of(25, 48, 64, 16);
            const Layout list = list_of(100, 12, true);
            const Layout uneven = list_of(4, 200, false);
            EXPECT_EQ(launched_by(rank, floats.get(), rows.get()), laid);
            EXPECT_EQ(launched_by(rank, rows.get(), list.get()), laid);
            EXPECT_EQ(launched_by(rank, list.get(), floats.get(), 4), laid);
            EXPECT_EQ(launched_by(rank, uneven.get(), floats.get()), laid);
        });
    }
}

/* One end contiguous: no kernel less than the other needs. */
TEST(laid_runs, at_one_end)
{
    on_threads(3, by_ll, [](Rank &rank) {
        const Layout doubles = vector_of(40, 8, 24);
        Call to_plain(rank, doubles.get(), nullptr);
        EXPECT_EQ(to_plain.run(), packed - 1);
        EXPECT_EQ(to_plain.run(), laid);
    });
}

TEST(laid_runs, in_place)
{
    on_threads(3, by_ll, [](Rank &rank) {
        const Layout doubles = vector_of(200, 8, 24);
        Call call(rank, doubles.get(), doubles.get());
        EXPECT_EQ(call.run(true), packed);
        EXPECT_EQ(call.run(true), laid);
    });
}

TEST(laid_runs, from_the_bottom_of_memory)
{
    on_threads(3, by_ll, [](Rank &rank) {
        const Layout doubles = vector_of(200, 8, 24);
        Call call(rank, doubles.get(), doubles.get());
        EXPECT_EQ(call.run(false, true), packed);
        EXPECT_EQ(call.run(false, true), laid);
    });
}

/* A block for what is packed is all that there is. */
TEST(laid_runs, without_memory_for_a_copy_they_are_packed)
{
    Settings little = by_ll;
    little.push_back({"pack_bytes", "64K"});
    on_threads(2, little, [](Rank &rank) {
        const Layout doubles = vector_of(40, 8, 24);
        Call call(rank, doubles.get(), doubles.get());
        for (int i = 0; i < 3; i++) {
            EXPECT_EQ(call.run(), packed);
        }
    });
}

/* By words of four bytes, or not at all. */
TEST(laid_runs, what_does_not_lie_in_words_is_packed)
{
    on_threads(2, by_ll, [](Rank &rank) {
        const Layout bytes = vector_of(40, 7, 24);
        const Layout words = vector_of(40, 8, 24);
        EXPECT_EQ(launched_by(rank, bytes.get(), bytes.get()), packed);
        EXPECT_EQ(launched_by(rank, words.get(), words.get(), 2), packed);
        EXPECT_EQ(launched_by(rank, words.get(), words.get(), 4), laid);
    });
}

/* Many looks for each pack, or many packs for each thread. */
TEST(laid_runs, what_takes_long_to_find_is_packed)
{
    on_threads(2, by_ll, [](Rank &rank) {
        const Layout uneven = list_of(150, 4, false);
        EXPECT_EQ(launched_by(rank, uneven.get(), uneven.get()), packed);
    });
    Settings few_threads = by_ll;
    few_threads.insert(few_threads.end(), {{"max_ctas", "1"}, {"threads", "32"}});
    on_threads(2, few_threads, [](Rank &rank) {
        const Layout doubles = vector_of(2000, 8, 24);
        EXPECT_EQ(launched_by(rank, doubles.get(), doubles.get()), packed);
    });
}

TEST(laid_runs, other_kernels_pack)
{
    for (const char *protocol : {"ll128", "simple"}) {
        on_threads(2, {{"alltoallw_algorithm", "exchange"}, {"protocol", protocol}}, [](Rank &rank) {
            const Layout doubles = vector_of(40, 8, 24);
            EXPECT_EQ(launched_by(rank, doubles.get(), doubles.get()), packed);
        });
    }
}
