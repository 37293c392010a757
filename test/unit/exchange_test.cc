/*
 * Every collective but all-reduce by the whole engine on the host accelerator, byte for byte: roots, sizes,
 * own counts, in place, alignment, kinds of memory, pretended GPUs that several ranks share.
 */
#include <cstring>
#include <numeric>
#include "test/unit/ranks.h"
#include "test/unit/values.h"

namespace
{
enum Shape { ALL_TO_ALL, TO_ROOT, FROM_ROOT, UPWARDS };

struct Kind {
    gpucoll_coll coll;
    Shape shape;
    bool send_each;
    bool recv_each;
    bool own_counts; /* blocks of the ranks differ */
};

const Kind kinds[] = {
    {GPUCOLL_ALLGATHER, ALL_TO_ALL, false, true, false},
    {GPUCOLL_ALLGATHERV, ALL_TO_ALL, false, true, true},
    {GPUCOLL_ALLTOALL, ALL_TO_ALL, true, true, false},
    {GPUCOLL_ALLTOALLV, ALL_TO_ALL, true, true, true},
    {GPUCOLL_ALLTOALLW, ALL_TO_ALL, true, true, true},
    {GPUCOLL_BCAST, FROM_ROOT, false, false, false},
    {GPUCOLL_EXSCAN, UPWARDS, false, false, false},
    {GPUCOLL_GATHER, TO_ROOT, false, true, false},
    {GPUCOLL_GATHERV, TO_ROOT, false, true, true},
    {GPUCOLL_REDUCE, TO_ROOT, false, false, false},
    {GPUCOLL_REDUCE_SCATTER, ALL_TO_ALL, true, false, true},
    {GPUCOLL_REDUCE_SCATTER_BLOCK, ALL_TO_ALL, true, false, false},
    {GPUCOLL_SCAN, UPWARDS, false, false, false},
    {GPUCOLL_SCATTER, FROM_ROOT, true, false, false},
    {GPUCOLL_SCATTERV, FROM_ROOT, true, false, true},
};

struct Call {
    Kind kind;
    uint32_t root = 0;
    gpucoll_op op = GPUCOLL_SUM;
    gpucoll_type type = GPUCOLL_UINT8;
    size_t count = 1;
    size_t offset = 0;
    bool in_place = false;
};

bool can_be_in_place(gpucoll_coll coll)
{
    return coll != GPUCOLL_BCAST && coll != GPUCOLL_REDUCE_SCATTER; /* the latter is declined */
}

/* One rank's part of a call: its buffers, its blocks, and what the receive buffer must hold in the end. */
class Part
{
  public:
    Part(const Call &call, uint32_t rank, uint32_t ranks, gpucoll_memory send_memory = GPUCOLL_MEMORY_DEVICE,
         gpucoll_memory recv_memory = GPUCOLL_MEMORY_DEVICE)
        : call(call), rank(rank), ranks(ranks), reduces(gpucoll_coll_reduces(call.kind.coll)),
          in_place(call.in_place && can_be_in_place(call.kind.coll) && (!rooted() || rank == call.root))
    {
        const bool sends = call.kind.shape != FROM_ROOT || rank == call.root;
        list(send_blocks, sends, call.kind.send_each, true);
        list(recv_blocks, receives(), call.kind.recv_each, false);
        send = std::make_unique<Buffer>(bytes(send_blocks), call.offset, send_memory);
        recv = std::make_unique<Buffer>(bytes(recv_blocks), call.offset, recv_memory);
        fill();
        expect();
        if (in_place) {
            share();
        }
    }

    gpucoll_coll_args args() const
    {
        gpucoll_coll_args args = {};
        args.coll = call.kind.coll;
        args.op = call.op;
        args.type = call.type;
        args.send = in_place ? recv->data() : send->data();
        args.recv = recv->data();
        args.root = call.root;
        args.send_blocks = send_blocks.empty() ? nullptr : send_blocks.data();
        args.recv_blocks = recv_blocks.empty() ? nullptr : recv_blocks.data();
        return args;
    }

    bool right() const
    {
        bool same = std::equal(expected.begin(), expected.end(), recv->data());
        bool kept = in_place || std::equal(sent.begin(), sent.end(), send->data());
        return same && kept && send->guards_intact() && recv->guards_intact();
    }

    std::string text() const
    {
        return std::string(gpucoll_coll_name(call.kind.coll)) + " rank " + std::to_string(rank) + " of " +
               std::to_string(ranks) + " root " + std::to_string(call.root) + " count " +
               std::to_string(call.count) + " offset " + std::to_string(call.offset) +
               (in_place ? " in place" : "");
    }

  private:
    bool rooted() const { return call.kind.shape == TO_ROOT || call.kind.shape == FROM_ROOT; }

    bool receives() const
    {
        switch (call.kind.shape) {
        case TO_ROOT:
            return rank == call.root;
        case FROM_ROOT: /* in place, the root keeps its part where it is; of a bcast it always does */
            return rank != call.root || (call.kind.coll != GPUCOLL_BCAST && !in_place);
        case UPWARDS:
            return call.kind.coll == GPUCOLL_SCAN || rank > 0;
        default:
            return true;
        }
    }

    /* Elements that go from one rank to another. */
    size_t elements(uint32_t from, uint32_t to) const
    {
        if (!call.kind.own_counts) {
            return call.count;
        }
        uint32_t key = call.kind.shape == FROM_ROOT || reduces ? to
                       : call.kind.recv_each && call.kind.send_each
                           ? (from < to ? from * 7 + to : to * 7 + from) /* in place, both ways alike */
                           : from;
        return key % 3 == 1 ? 0 : call.count * (1 + key % 5) / 3;
    }

    void list(std::vector<gpucoll_block> &blocks, bool any, bool each, bool sending)
    {
        ptrdiff_t at = 0;
        for (uint32_t i = 0; any && i < (each ? ranks : 1); i++) {
            uint32_t other = each ? i : rank;
            size_t size =
                (sending ? elements(rank, other) : elements(other, rank)) * gpucoll_type_size(call.type);
            blocks.push_back({at, size});
            at += static_cast<ptrdiff_t>(size) + (call.kind.own_counts && !reduces ? 5 : 0); /* a gap */
        }
    }

    static size_t bytes(const std::vector<gpucoll_block> &blocks)
    {
        return blocks.empty() ? 0 : static_cast<size_t>(blocks.back().offset) + blocks.back().bytes;
    }

    /* What `from` sends to `to`. */
    Bytes data(uint32_t from, uint32_t to) const
    {
        uint64_t seed = call.count * 7919 + call.kind.coll * 31 + (call.kind.send_each ? to + 1 : 0);
        return make_input(call.type, elements(from, to), seed, from);
    }

    void fill()
    {
        for (uint32_t i = 0; i < send_blocks.size(); i++) {
            Bytes block = data(rank, call.kind.send_each ? i : rank);
            std::copy(block.begin(), block.end(), send->data() + send_blocks[i].offset);
        }
        sent.assign(send->data(), send->data() + send->size());
    }

    void expect()
    {
        expected.assign(recv->data(), recv->data() + recv->size());
        std::vector<Bytes> inputs;
        for (uint32_t i = 0; reduces && i < ranks; i++) {
            if (call.kind.shape != UPWARDS || i < rank || (i == rank && call.kind.coll == GPUCOLL_SCAN)) {
                inputs.push_back(data(i, rank));
            }
        }
        for (uint32_t i = 0; i < recv_blocks.size(); i++) {
            uint32_t source = call.kind.recv_each ? i : call.root;
            Bytes block = reduces ? reduce_in_order(call.op, call.type, inputs) : data(source, rank);
            std::copy(block.begin(), block.end(), expected.begin() + recv_blocks[i].offset);
        }
    }

    /* The blocks to send move into the receive buffer. */
    void share()
    {
        if (call.kind.shape == FROM_ROOT) { /* scatter: nothing is received */
            recv.swap(send);
            expected = sent;
            return;
        }
        if (call.kind.coll ==
            GPUCOLL_REDUCE_SCATTER_BLOCK) { /* the result takes the place of what goes to rank 0 */
            recv.swap(send);
            sent.swap(expected);
            std::copy(sent.begin(), sent.end(), expected.begin());
            return;
        }
        for (uint32_t i = 0; i < send_blocks.size(); i++) {
            gpucoll_block &block = send_blocks[i];
            /* Where nothing is received (exscan's first rank) the receive buffer is the input all the same.
             */
            if (recv_blocks.empty()) {
                recv.swap(send);
                expected = sent;
                return;
            }
            ptrdiff_t to = recv_blocks[call.kind.send_each ? i : call.kind.recv_each ? rank : 0].offset;
            std::copy_n(send->data() + block.offset, block.bytes, recv->data() + to);
            block.offset = to;
        }
    }

    Call call;
    uint32_t rank;
    uint32_t ranks;
    bool reduces;
    bool in_place;
    std::vector<gpucoll_block> send_blocks;
    std::vector<gpucoll_block> recv_blocks;
    std::unique_ptr<Buffer> send;
    std::unique_ptr<Buffer> recv;
    Bytes sent;
    Bytes expected;
};

void check(Rank &rank, const Call &call)
{
    Part part(call, rank.number, rank.meeting.size);
    gpucoll_status status = rank.call(part.args());
    EXPECT_EQ(status, GPUCOLL_OK) << part.text() << ": " << gpucoll_status_name(status);
    EXPECT_TRUE(part.right()) << part.text();
}

Call call_of(const Kind &kind, size_t count)
{
    Call call;
    call.kind = kind;
    call.count = count;
    call.type = gpucoll_coll_reduces(kind.coll) ? GPUCOLL_INT32 : GPUCOLL_UINT8;
    return call;
}

bool is_rooted(const Kind &kind)
{
    return kind.shape == TO_ROOT || kind.shape == FROM_ROOT;
}

std::string said(const Rank &rank)
{
    std::string lines;
    for (const std::string &line : rank.log.lines()) {
        lines += line + "\n";
    }
    return lines;
}

struct Way {
    const char *name;
    Settings settings;
    uint32_t ranks;
};
} // namespace

class exchange : public testing::TestWithParam<std::tuple<uint32_t, const char *>>
{
  protected:
    uint32_t ranks() const { return std::get<0>(GetParam()); }
    Settings settings() const
    {
        std::string way = std::get<1>(GetParam());
        if (way == "shared") {
            return {{"host_devices", "1"}};
        }
        if (way == "cpu_reduce") { /* pipes for what is not reduced */
            return {{"transports", "cpu_reduce"}, {"shm_bytes", "256K"}};
        }
        return {{"protocol", way == "auto" ? "auto" : way == "ll" ? "ll" : "simple"}, {"max_ctas", "3"}};
    }
};

TEST_P(exchange, every_collective_root_and_size)
{
    on_threads(ranks(), settings(), [](Rank &rank) {
        check(rank, call_of(kinds[0], 1)); /* ranks without a GPU decline calls of no bytes */
        for (const Kind &kind : kinds) {
            for (size_t count : {0, 1, 3, 16, 17, 1000, 4099}) {
                Call call = call_of(kind, count);
                for (call.root = 0; call.root < (is_rooted(kind) ? rank.meeting.size : 1); call.root++) {
                    check(rank, call);
                    call.in_place = true;
                    call.offset = 1 + count % 7;
                    check(rank, call);
                    call.in_place = false;
                    call.offset = 0;
                }
            }
        }
        EXPECT_TRUE(rank.log.topics().empty()) << rank.log.topics()[0];
    });
}

TEST_P(exchange, every_operator_and_type_in_rank_order)
{
    on_threads(ranks(), settings(), [](Rank &rank) {
        size_t number = 0;
        for (int op = 0; op < GPUCOLL_OP_COUNT; op++) {
            for (int type = 0; type < GPUCOLL_TYPE_COUNT; type++) {
                for (const Kind &kind : kinds) {
                    Call call = call_of(kind, 1 + ++number * 37 % 300);
                    call.op = static_cast<gpucoll_op>(op);
                    call.type = static_cast<gpucoll_type>(type);
                    call.root = static_cast<uint32_t>(number % rank.meeting.size);
                    call.in_place = number % 3 == 0;
                    if (gpucoll_coll_reduces(kind.coll) && gpucoll_functor(call.op, call.type) >= 0) {
                        check(rank, call);
                    }
                }
            }
        }
    });
}

INSTANTIATE_TEST_SUITE_P(ranks, exchange,
                         testing::Combine(testing::Values(1, 2, 3, 4, 7),
                                          testing::Values("auto", "ll", "simple", "shared", "cpu_reduce")),
                         [](const auto &info) {
                             return std::to_string(std::get<0>(info.param)) + "_" + std::get<1>(info.param);
                         });

TEST(exchange_sizes, many_rounds)
{
    for (const char *devices : {"0", "1", "2"}) {
        for (const char *ctas : {"1", "5", "64"}) {
            on_threads(
                3, {{"protocol", "simple"}, {"max_ctas", ctas}, {"host_devices", devices}}, [](Rank &rank) {
                    for (const Kind &kind : kinds) {
                        /* A third of a slot's half of the data area is one round of all channels. */
                        for (size_t bytes : {(1u << 19) / 3 - 20, (1u << 20) + 12348}) {
                            Call call = call_of(kind, bytes / gpucoll_type_size(call_of(kind, 1).type));
                            call.root = 1;
                            call.in_place = bytes > 1u << 20;
                            check(rank, call);
                        }
                    }
                });
        }
    }
}

TEST(exchange_sizes, around_the_capacity_of_ll)
{
    on_threads(3, {{"protocol", "ll"}}, [](Rank &rank) {
        for (int step = -1; step <= 1; step++) {
            EXPECT_TRUE(rank.log.topics().empty());
            check(rank, call_of(kinds[0], gpucoll_ll_capacity(3) + static_cast<size_t>(step)));
        }
        EXPECT_EQ(rank.log.topics(), std::vector<std::string>{"algorithm-unusable"});
    });
}

TEST(exchange_order, of_collectives_is_free_and_lanes_are_reused)
{
    on_threads(4, {{"lanes", "1"}}, [](Rank &rank) {
        Random random(11);
        for (int i = 0; i < 600; i++) {
            const Kind &kind = kinds[random.below(sizeof kinds / sizeof kinds[0])];
            Call call = call_of(kind, random.below(4) ? random.below(300) : random.below(40000));
            call.root = random.below(4);
            call.in_place = random.below(3) == 0;
            check(rank, call);
            rank.log.topics();
        }
    });
}

TEST(exchange_processes, every_collective)
{
    on_processes(4, {}, [](Rank &rank) {
        for (const Kind &kind : kinds) {
            for (size_t count : {1, 1001, 200003}) {
                Call call = call_of(kind, count);
                call.root = 2;
                call.offset = 3;
                check(rank, call);
            }
        }
        EXPECT_EQ(shm_traces(), std::vector<std::string>());
    });
}

/* ---- what all ranks decline, or refuse, alike ---- */

TEST(exchange_declines, on_all_ranks_when_one_brings_host_memory)
{
    on_threads(3, {}, [](Rank &rank) {
        for (const Kind &kind : kinds) {
            Call call = call_of(kind, 100);
            call.root = 1;
            gpucoll_memory memory = rank.number == 1 ? GPUCOLL_MEMORY_HOST : GPUCOLL_MEMORY_DEVICE;
            Part part(call, rank.number, 3, memory, memory);
            EXPECT_EQ(rank.call(part.args()), GPUCOLL_DECLINED) << part.text();
            check(rank, call);
        }
    });
}

TEST(exchange_declines, what_cannot_be_described)
{
    on_threads(2, {}, [](Rank &rank) {
        Part part(call_of(kinds[0], 10), rank.number, 2);
        gpucoll_coll_args args = part.args();
        args.unable = rank.number == 1;
        EXPECT_EQ(rank.call(args), GPUCOLL_DECLINED);
        check(rank, call_of(kinds[0], 10));
    });
}

TEST(exchange_declines, buffers_that_overlap_in_ways_kernels_cannot_do)
{
    on_threads(3, {}, [](Rank &rank) {
        Buffer buffer(300);
        const gpucoll_block parts[] = {{0, 100}, {100, 100}, {200, 100}};
        const gpucoll_block between = {rank.number == 1 ? 50 : 0, 100};
        gpucoll_coll_args args = {};
        args.coll = GPUCOLL_REDUCE_SCATTER_BLOCK;
        args.type = GPUCOLL_UINT8;
        args.send = buffer.data();
        args.recv = buffer.data();
        args.send_blocks = parts;
        args.recv_blocks = &between;
        EXPECT_EQ(rank.call(args), GPUCOLL_DECLINED);
        EXPECT_TRUE(buffer.guards_intact());
    });
}

TEST(exchange_mismatch, of_root_or_size_is_an_error_on_all_ranks)
{
    on_threads(2, {}, [](Rank &rank) {
        for (const Kind &kind : kinds) {
            Call call = call_of(kind, 64);
            if (is_rooted(kind)) {
                call.root = rank.number;
            } else if (!kind.own_counts) {
                call.count += rank.number;
            } else {
                continue;
            }
            Part part(call, rank.number, 2);
            EXPECT_EQ(rank.call(part.args()), GPUCOLL_ERR_MISMATCH) << part.text();
        }
        check(rank, call_of(kinds[0], 5));
    });
}

/* A rank that has nothing in the call takes part without a buffer, once it has a GPU. */
TEST(exchange_idle, ranks_without_bytes)
{
    on_threads(4, {}, [](Rank &rank) {
        check(rank, call_of(kinds[0], 5));
        Buffer mine(64);
        const bool busy = rank.number == 0 || rank.number == 3;
        const gpucoll_block none[4] = {};
        const gpucoll_block from[] = {{0, 0}, {0, 0}, {0, 0}, {0, 32}};
        const gpucoll_block to[] = {{0, 32}, {0, 0}, {0, 0}, {0, 0}};
        gpucoll_coll_args args = {};
        args.coll = GPUCOLL_ALLTOALLV;
        args.send = busy ? mine.data() : nullptr;
        args.recv = busy ? mine.data() + 32 : nullptr;
        args.send_blocks = rank.number == 3 ? to : none;
        args.recv_blocks = rank.number == 0 ? from : none;
        memset(mine.data(), 'a' + static_cast<int>(rank.number), 64);
        EXPECT_EQ(rank.call(args), GPUCOLL_OK);
        EXPECT_EQ(mine.data()[63], rank.number == 0 ? 'd' : 'a' + static_cast<int>(rank.number));
        args.send_blocks = none;
        args.recv_blocks = none;
        EXPECT_EQ(rank.call(args), GPUCOLL_OK);
        EXPECT_NE(said(rank).size(), 0u);
    });
}
