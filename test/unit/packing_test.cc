/*
 * Calls with blocks that are not contiguous, by the whole engine on the host accelerator: what arrives, and that nothing else is
 * written; memory that is short.
 */
#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>
#include "test/unit/hosts.h"
#include "test/unit/values.h"

extern "C" {
#include "core/device_pool.h"
#include "core/gpu.h"
#include "core/layout.h"
#include "test/unit/packed_once.h"
#include "test/unit/queued_copies.h"
}

namespace
{
enum { ELEMENT = 24, SPAN = 64 }; /* packed bytes of an element, and what it takes in memory at most */

/* Four ways to have 24 bytes; the first is contiguous. */
gpucoll_layout *make_layout(uint32_t way)
{
    gpucoll_layout_builder *builder = gpucoll_layout_begin();
    switch (way % 4) {
    case 0:
        gpucoll_layout_add_run(builder, 0, ELEMENT);
        return gpucoll_layout_build(builder, ELEMENT);
    case 1: /* a vector */
        gpucoll_layout_add_loop(builder, 3, 16);
        gpucoll_layout_add_run(builder, 4, 8);
        gpucoll_layout_end_loop(builder);
        return gpucoll_layout_build(builder, 52);
    case 2: /* a list, not in the order of addresses */
        gpucoll_layout_add_run(builder, 40, 9);
        gpucoll_layout_add_run(builder, 3, 14);
        gpucoll_layout_add_run(builder, 30, 1);
        return gpucoll_layout_build(builder, SPAN);
    default: /* bytes */
        gpucoll_layout_add_loop(builder, ELEMENT, 2);
        gpucoll_layout_add_run(builder, 1, 1);
        gpucoll_layout_end_loop(builder);
        return gpucoll_layout_build(builder, 50);
    }
}

/* One side of a rank's call: `number` blocks of `count` elements. */
class Side
{
  public:
    Side(uint32_t number, size_t count, uint32_t way)
        : count(count), buffer(number * count * SPAN, way % 5), layout(make_layout(way))
    {
        const bool contiguous = gpucoll_layout_is_run(layout, count);
        for (uint32_t i = 0; i < number; i++) {
            blocks.push_back({static_cast<ptrdiff_t>(i * count * SPAN), count * ELEMENT});
            layouts.push_back(contiguous ? nullptr : layout);
        }
        buffer.poison();
        expected.assign(buffer.data(), buffer.data() + buffer.size());
    }
    ~Side() { gpucoll_layout_release(layout); }

    /* Block `block` holds, or is to hold, what `from` sends to `to`. */
    void expect(size_t block, uint32_t from, uint32_t to)
    {
        for (size_t i = 0; i < count * ELEMENT; i++) {
            uint64_t together = 0;
            const ptrdiff_t at = blocks[block].offset + gpucoll_layout_find(&layout->view, i, &together);
            expected[static_cast<size_t>(at)] = static_cast<char>(from * 31 + to * 7 + i * 13);
        }
    }
    void write() { std::copy(expected.begin(), expected.end(), buffer.data()); }
    bool right() const
    {
        return std::equal(expected.begin(), expected.end(), buffer.data()) && buffer.guards_intact();
    }

    const size_t count;
    Buffer buffer;
    std::vector<gpucoll_block> blocks;
    std::vector<gpucoll_layout *> layouts;

  private:
    gpucoll_layout *layout;
    Bytes expected;
};

struct Kind {
    gpucoll_coll coll;
    bool send_each, recv_each;
    bool root_sends, root_receives;
};
const Kind kinds[] = {
    {GPUCOLL_ALLGATHER, false, true, false, false}, {GPUCOLL_ALLTOALLW, true, true, false, false},
    {GPUCOLL_BCAST, false, false, true, false},     {GPUCOLL_GATHERV, false, true, false, true},
    {GPUCOLL_SCATTER, true, false, true, false},
};

/* A rank's part of a call, in which every rank takes another way on each side. */
class Part
{
  public:
    Part(const Rank &rank, const Kind &kind, size_t count, uint32_t turn)
        : kind(kind), turn(turn), number(rank.number), size(rank.meeting.size), root(turn % size),
          receives(kind.root_receives ? number == root : kind.coll != GPUCOLL_BCAST || number != root),
          send(kind.send_each ? size : 1, count, number + turn),
          recv(kind.recv_each ? size : 1, count, number / 2 + turn / 2)
    {
        for (uint32_t i = 0; i < send.blocks.size(); i++) {
            send.expect(i, number, kind.send_each ? i : 0);
        }
        send.write();
    }

    gpucoll_coll_args args() const
    {
        gpucoll_coll_args args = {};
        args.coll = kind.coll;
        args.root = root;
        args.send = send.buffer.data();
        args.recv = const_cast<char *>(recv.buffer.data());
        args.send_blocks = !kind.root_sends || number == root ? send.blocks.data() : nullptr;
        args.recv_blocks = receives ? recv.blocks.data() : nullptr;
        args.send_layouts = send.layouts.data();
        args.recv_layouts = recv.layouts.data();
        return args;
    }

    /* After the call: the result is there, or, if it was declined, nothing is. */
    void verify(bool ran)
    {
        for (uint32_t i = 0; ran && receives && i < recv.blocks.size(); i++) {
            recv.expect(i, kind.recv_each ? i : root, kind.send_each ? number : 0);
        }
        EXPECT_TRUE(send.right() && recv.right())
            << gpucoll_coll_name(kind.coll) << " turn " << turn << " count " << send.count;
    }

  private:
    const Kind kind;
    const uint32_t turn, number, size, root;
    const bool receives;
    Side send, recv;
};

void check(Rank &rank, const Kind &kind, size_t count, uint32_t turn, gpucoll_status wanted)
{
    Part part(rank, kind, count, turn);
    EXPECT_EQ(rank.call(part.args()), wanted) << gpucoll_coll_name(kind.coll) << " turn " << turn;
    part.verify(wanted == GPUCOLL_OK);
}
} // namespace

TEST(packing, every_layout_on_either_side)
{
    for (uint32_t ranks : {2, 3, 5}) {
        on_threads(ranks, {}, [](Rank &rank) {
            for (const Kind &kind : kinds) {
                for (size_t count : {size_t{1}, size_t{2}, size_t{3}, size_t{100}, 5000 / divisor}) {
                    for (uint32_t turn = 0; turn < 8; turn++) {
                        check(rank, kind, count, turn, GPUCOLL_OK);
                    }
                }
            }
            EXPECT_TRUE(rank.log.topics().empty());
        });
    }
}

TEST(packing, on_ranks_that_share_a_gpu)
{
    on_threads(3, {{"host_devices", "1"}}, [](Rank &rank) {
        for (const Kind &kind : kinds) {
            check(rank, kind, 77, 1, GPUCOLL_OK);
        }
    });
}

/* Peers' copy engines write into the packed memory, which the pool gives again and again. */
TEST(packing, with_direct_copies)
{
    on_threads(3, {{"zero_copy", "1"}, {"protocol", "copy"}, {"verbose", "5"}}, [](Rank &rank) {
        for (uint32_t turn = 0; turn < 40; turn++) {
            check(rank, kinds[turn % 2], 3000, 1 + turn % 4 / 2 * 4, GPUCOLL_OK);
        }
        const std::string lines = rank.log.text();
        EXPECT_NE(lines.find("natively by exchange/copy"), std::string::npos) << lines;
    });
}

/* What a root packs is there later than its post, so nobody reads it in bulk. */
TEST(packing, of_a_root_is_not_read_in_bulk)
{
    on_threads(4,
               {{"zero_copy", "1"},
                {"protocol", "bulk"},
                {"bcast_algorithm", "scatter_allgather"},
                {"verbose", "5"}},
               [](Rank &rank) {
                   const Kind &broadcast = kinds[2];
                   const std::string in_bulk = "natively by scatter_allgather/bulk";
                   /* In both turns all receivers have gaps; in this one so has the root, */
                   for (int use = 0; use < 6; use++) {
                       check(rank, broadcast, 30000, 5, GPUCOLL_OK);
                   }
                   EXPECT_EQ(rank.log.text().find(in_bulk), std::string::npos) << rank.log.text();
                   /* in this one it has none, and begins at a whole pack. */
                   Part whole(rank, broadcast, 30000, 18);
                   for (int use = 0; use < 3; use++) {
                       EXPECT_EQ(rank.call(whole.args()), GPUCOLL_OK);
                       whole.verify(true);
                   }
                   EXPECT_NE(rank.log.text().find(in_bulk), std::string::npos) << rank.log.text();
               });
}

/* In place, all is packed before anything is unpacked. */
static void check_in_place(Rank &rank, size_t count)
{
    const uint32_t size = rank.meeting.size;
    for (uint32_t way = 0; way < 4; way++) {
        Side side(size, count, way);
        for (uint32_t i = 0; i < size; i++) {
            side.expect(i, rank.number, i);
        }
        side.write();
        gpucoll_coll_args args = {};
        args.coll = GPUCOLL_ALLTOALL;
        args.send = side.buffer.data();
        args.recv = side.buffer.data();
        args.send_blocks = side.blocks.data();
        args.recv_blocks = side.blocks.data();
        args.send_layouts = side.layouts.data();
        args.recv_layouts = side.layouts.data();
        EXPECT_EQ(rank.call(args), GPUCOLL_OK);
        for (uint32_t i = 0; i < size; i++) {
            side.expect(i, i, rank.number);
        }
        EXPECT_TRUE(side.right()) << "way " << way;
    }
}

TEST(packing, in_place)
{
    on_threads(4, {}, [](Rank &rank) { check_in_place(rank, 10); });
}

TEST(packing, in_place_on_several_hosts)
{
    on_hosts(hosts_of({2, 1}), {{"chunk", "4K"}}, [](Rank &rank) {
        check_in_place(rank, 10);
        check_in_place(rank, 1000);
    });
}

/* Uneven hosts, ranks of a host apart from each other, messages in several units, and such as go along with the agreement. */
TEST(packing, on_several_hosts)
{
    for (const Hosts &hosts : {hosts_of({1, 1}), hosts_of({2, 1}), Hosts{1, 0, 2, 1, 1}}) {
        on_hosts(hosts, {{"chunk", "4K"}}, [](Rank &rank) {
            for (const Kind &kind : kinds) {
                for (size_t count : {1, 3, 2000}) {
                    for (uint32_t turn = 0; turn < 8; turn++) {
                        check(rank, kind, count, turn, GPUCOLL_OK);
                    }
                }
            }
            EXPECT_TRUE(rank.log.topics().empty());
        });
    }
}

/* Ranks that pack keep the others' order: contiguous is what rank r sends in turn t if r + t is a multiple of 4. */
TEST(packing, several_calls_of_several_hosts_under_way)
{
    on_hosts(hosts_of({2, 1, 2}), {{"chunk", "4K"}}, [](Rank &rank) {
        for (uint32_t first = 0; first < 24; first += 6) {
            std::deque<Part> parts;
            std::vector<gpucoll_request *> requests;
            for (uint32_t i = 0; i < 6; i++) {
                parts.emplace_back(rank, kinds[(first + i) % 5], 700 * i + 1, first + i);
                gpucoll_coll_args args = parts.back().args();
                args.form = GPUCOLL_FORM_NONBLOCKING;
                requests.push_back(nullptr);
                ASSERT_EQ(gpucoll_post(rank.team, &args, &requests.back()), GPUCOLL_OK);
            }
            const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
            size_t left = requests.size();
            for (size_t look = rank.number; left > 0 && std::chrono::steady_clock::now() < end; look++) {
                gpucoll_request *&request = requests[look % requests.size()];
                const gpucoll_status status =
                    request != nullptr ? gpucoll_test(request) : GPUCOLL_IN_PROGRESS;
                if (status != GPUCOLL_IN_PROGRESS) {
                    EXPECT_EQ(status, GPUCOLL_OK);
                    request = nullptr;
                    left--;
                }
                std::this_thread::yield();
            }
            ASSERT_EQ(left, 0u) << "calls do not end";
            for (Part &part : parts) {
                part.verify(true);
            }
        }
    });
}

/* The only lane is for packing, for the local calls of the stages, and for unpacking, one after the other. */
TEST(packing, on_several_hosts_with_one_lane)
{
    on_hosts(hosts_of({2, 2}), {{"lanes", "1"}, {"chunk", "4K"}}, [](Rank &rank) {
        for (uint32_t turn = 0; turn < 10; turn++) {
            check(rank, kinds[turn % 5], 3000, turn, GPUCOLL_OK);
        }
    });
}

TEST(packing, without_enough_memory_on_one_rank_of_several_hosts_all_decline)
{
    on_hosts(hosts_of({2, 1}), {}, [](Rank &rank) {
        for (uint32_t scarce = 0; scarce < 3; scarce++) {
            check(rank, kinds[1], 10, 1, GPUCOLL_OK);
            rank.set("pack_bytes", rank.number == scarce ? "0" : "1G");
            check(rank, kinds[1], 10, 1, GPUCOLL_DECLINED);
            EXPECT_EQ(gpucoll_declined_reason(rank.team), GPUCOLL_REASON_PACKING);
            rank.set("pack_bytes", "1G");
        }
    });
}

TEST(packing, without_enough_memory_on_one_rank_all_decline)
{
    on_threads(3, {}, [](Rank &rank) {
        check(rank, kinds[1], 10, 0, GPUCOLL_OK);
        rank.set("pack_bytes", rank.number == 1 ? "0" : "1G");
        check(rank, kinds[1], 10, 0, GPUCOLL_DECLINED);
        rank.set("pack_bytes", "1G");
        check(rank, kinds[1], 10, 0, GPUCOLL_OK);
    });
}

/* Of the broadcast it is the root, which sends to nobody. */
TEST(packing, of_a_rank_alone)
{
    on_threads(1, {}, [](Rank &rank) {
        for (const Kind &kind : kinds) {
            for (size_t count : {size_t{1}, size_t{3}, 5000 / divisor}) {
                for (uint32_t turn = 0; turn < 16; turn++) {
                    check(rank, kind, count, turn, GPUCOLL_OK);
                }
            }
        }
        check_in_place(rank, 10);
        EXPECT_TRUE(rank.log.topics().empty());
    });
}

/* Of 24 bytes three pieces are few, and of 12 MiB six; six of 48 bytes are not, nor are five of which two sides have three each. */
TEST(packing, of_a_rank_alone_few_long_pieces_are_copied_each)
{
    on_threads(1, {{"pack_bytes", "1M"}}, [](Rank &rank) {
        check(rank, kinds[1], 10, 1, GPUCOLL_OK); /* then its GPU is known */
        for (const auto &[count, turn, copied] :
             {std::tuple<size_t, uint32_t, bool>{1, 1, true}, {1, 4, true}, {2, 1, false}, {1, 2, false}}) {
            const uint64_t before = test_queued(rank.context);
            check(rank, kinds[1], count, turn, GPUCOLL_OK);
            EXPECT_EQ(test_queued(rank.context) > before, copied) << count << " elements, turn " << turn;
        }
        constexpr size_t number = 6, piece = 2 << 20, stride = piece + 64;
        gpucoll_layout_builder *builder = gpucoll_layout_begin();
        gpucoll_layout_add_loop(builder, number, stride);
        gpucoll_layout_add_run(builder, 0, piece);
        gpucoll_layout_end_loop(builder);
        gpucoll_layout *layout = gpucoll_layout_build(builder, number * stride);
        Buffer apart(number * stride);
        Buffer together(number * piece);
        const gpucoll_block block = {0, number * piece};
        gpucoll_coll_args args = {};
        args.coll = GPUCOLL_ALLTOALLW;
        args.send = together.data();
        args.recv = apart.data();
        args.send_blocks = args.recv_blocks = &block;
        args.recv_layouts = &layout;
        apart.poison();
        for (size_t i = 0; i < together.size(); i++) {
            together.data()[i] = static_cast<char>(i * 13 + i / piece);
        }
        Bytes wanted(apart.data(), apart.data() + apart.size());
        for (size_t i = 0; i < number; i++) {
            std::copy_n(together.data() + i * piece, piece, wanted.data() + i * stride);
        }
        const uint64_t before = test_queued(rank.context);
        EXPECT_EQ(rank.call(args), GPUCOLL_OK);
        EXPECT_GT(test_queued(rank.context), before);
        EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), apart.data()) && apart.guards_intact());
        gpucoll_layout_release(layout);
    });
}

/* MPI does not allow it, but packed, all is read before any is written. */
TEST(packing, of_a_rank_alone_pieces_that_overlap_are_not_copied_each)
{
    on_threads(1, {}, [](Rank &rank) {
        check(rank, kinds[1], 10, 1, GPUCOLL_OK);
        gpucoll_layout *layout = make_layout(1); /* 8 bytes at 4, 20 and 36 */
        Buffer buffer(2 * SPAN);
        for (size_t i = 0; i < buffer.size(); i++) {
            buffer.data()[i] = static_cast<char>(i * 7);
        }
        Bytes wanted(buffer.data(), buffer.data() + buffer.size());
        for (size_t at : {4, 20, 36}) {
            std::copy_n(buffer.data() + at, 8, wanted.data() + 16 + at);
        }
        const gpucoll_block block = {0, ELEMENT};
        gpucoll_coll_args args = {};
        args.coll = GPUCOLL_ALLTOALLW;
        args.send = buffer.data();
        args.recv = buffer.data() + 16;
        args.send_blocks = args.recv_blocks = &block;
        args.send_layouts = args.recv_layouts = &layout;
        const uint64_t before = test_queued(rank.context);
        EXPECT_EQ(rank.call(args), GPUCOLL_OK);
        EXPECT_EQ(test_queued(rank.context), before);
        EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), buffer.data()));
        gpucoll_layout_release(layout);
    });
}

/* As a reduction of one process finds it. */
static gpucoll_gpu *gpu_of(const Rank &rank)
{
    Buffer buffer(1);
    gpucoll_local local = {};
    local.op = GPUCOLL_BOR;
    local.type = GPUCOLL_UINT8;
    local.in = buffer.data();
    local.inout = buffer.data();
    local.count = 1;
    EXPECT_EQ(gpucoll_local_start(rank.context, &local), GPUCOLL_OK);
    return local.gpu;
}

/* Of its lanes the last is taken; those of calls that run are waited for, others are not. */
TEST(packing, a_rank_alone_declines_without_a_lane_or_memory)
{
    on_threads(1, {{"lanes", "2"}}, [](Rank &rank) {
        check(rank, kinds[1], 10, 1, GPUCOLL_OK);
        gpucoll_gpu *gpu = gpu_of(rank);
        ASSERT_NE(gpu, nullptr);
        gpucoll_lane *first = gpucoll_gpu_take_lane(gpu);
        check(rank, kinds[1], 10, 1, GPUCOLL_OK);
        gpucoll_lane *second = gpucoll_gpu_take_lane(gpu);
        check(rank, kinds[1], 10, 1, GPUCOLL_DECLINED);
        EXPECT_EQ(gpucoll_declined_reason(rank.team), GPUCOLL_REASON_LANES);
        gpucoll_gpu_mark_running(second);
        Part part(rank, kinds[1], 10, 1);
        const gpucoll_coll_args args = part.args();
        gpucoll_request *request = nullptr;
        ASSERT_EQ(gpucoll_post(rank.team, &args, &request), GPUCOLL_OK);
        ASSERT_EQ(gpucoll_test(request), GPUCOLL_IN_PROGRESS);
        gpucoll_gpu_give_lane(second);
        gpucoll_status status = GPUCOLL_IN_PROGRESS;
        while (status == GPUCOLL_IN_PROGRESS) {
            status = gpucoll_test(request);
        }
        ASSERT_EQ(status, GPUCOLL_OK);
        part.verify(true);
        EXPECT_FALSE(second->taken);
        gpucoll_gpu_give_lane(first);
        rank.set("pack_bytes", "0");
        check(rank, kinds[1], 10, 1, GPUCOLL_DECLINED);
        EXPECT_EQ(gpucoll_declined_reason(rank.team), GPUCOLL_REASON_PACKING);
        rank.set("pack_bytes", "1G");
        check(rank, kinds[1], 10, 1, GPUCOLL_OK);
    });
}

/* Its kernel may read the list later; that of a call which has ended is somebody else's next. */
TEST(packing, the_list_of_an_abandoned_call_stays_taken)
{
    on_threads(1, {}, [](Rank &rank) {
        gpucoll_gpu *gpu = gpu_of(rank);
        ASSERT_NE(gpu, nullptr);
        for (bool abandoned : {false, true}) {
            gpucoll_layout *layout = make_layout(2);
            Buffer buffer(2 * SPAN);
            const void *list = test_pack_once(rank.context, gpu, layout, buffer.data(), abandoned);
            ASSERT_NE(list, nullptr);
            gpucoll_layout_release(layout);
            std::vector<void *> next;
            for (int i = 0; i < 3; i++) {
                next.push_back(gpucoll_device_pool_get(&gpu->pool, 1));
            }
            EXPECT_EQ(std::count(next.begin(), next.end(), list), abandoned ? 0 : 1);
            for (void *memory : next) {
                gpucoll_device_pool_put(&gpu->pool, memory);
            }
        }
    });
}
