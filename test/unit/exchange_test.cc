/*
 * Every collective but all-reduce by the whole engine on the host accelerator, byte for byte: roots, sizes,
 * own counts, in place, alignment, kinds of memory, pretended GPUs that several ranks share.
 */
#include "test/unit/exchange_part.h"
#include "test/unit/hosts.h"

namespace
{
using Call = ExchangeCall;
using Part = ExchangePart;

bool is_rooted(const Kind &kind)
{
    return kind.shape == TO_ROOT || kind.shape == FROM_ROOT;
}

std::string said(const Rank &rank)
{
    return rank.log.text();
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
    void SetUp() override
    {
        if (divisor > 1 && ranks() > 4) {
            GTEST_SKIP() << "takes long where every access is looked at";
        }
    }
    uint32_t ranks() const { return std::get<0>(GetParam()); }
    Settings settings() const
    {
        std::string way = std::get<1>(GetParam());
        if (way == "shared_host") {
            return {{"host_devices", "1"}, {"shm_bytes", "256K"}};
        }
        if (way == "shared") {
            return {{"host_devices", "1"}, {"transports", "p2p"}};
        }
        if (way == "cpu_reduce" || way == "shm") { /* pipes for what is not reduced */
            return {{"transports", std::get<1>(GetParam())}, {"shm_bytes", "256K"}};
        }
        return {{"protocol", std::get<1>(GetParam())}, {"max_ctas", "3"}};
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
                    check_both_places(rank, call);
                }
            }
        }
        EXPECT_TRUE(rank.log.topics().empty()) << rank.log.topics()[0];
    });
}

TEST_P(exchange, every_operator_and_type_in_rank_order)
{
    Settings ordered = settings();
    ordered.emplace_back("deterministic", "true"); /* or a ring may be chosen, which has another order */
    on_threads(ranks(), ordered, [](Rank &rank) {
        size_t number = 0;
        for (const NativePair &pair : native_pairs()) {
            for (const Kind &kind : kinds) {
                Call call = call_of(kind, 1 + ++number * 37 % 300);
                call.op = pair.op;
                call.type = pair.type;
                call.root = static_cast<uint32_t>(number % rank.meeting.size);
                call.in_place = number % 3 == 0;
                /* For the thread sanitizer every operator and type is the same loop. */
                if (gpucoll_coll_reduces(kind.coll) && number / kinds.size() % divisor == 0) {
                    check(rank, call);
                }
            }
        }
    });
}

INSTANTIATE_TEST_SUITE_P(
    ranks, exchange,
    testing::Combine(testing::Values(1, 2, 3, 4, 7),
                     testing::Values("auto", "ll", "ll128", "simple", "shared", "shared_host", "cpu_reduce", "shm")),
    [](const auto &info) { return std::to_string(std::get<0>(info.param)) + "_" + std::get<1>(info.param); });

TEST(exchange_sizes, many_rounds)
{
    for (const char *devices : {"0", "1", "2"}) {
        for (const char *ctas : {"1", "5", "64"}) {
            if (divisor > 1 && ctas != std::string("5")) {
                continue;
            }
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

TEST(exchange_sizes, many_chunks_through_host_memory)
{
    for (const auto &[transports, threads] :
         {std::pair{"cpu_reduce", "0"}, {"cpu_reduce", "2"}, {"shm", "0"}}) {
        const Settings settings = {
            {"transports", transports}, {"shm_bytes", "256K"}, {"cpu_threads", threads}};
        on_threads(3, settings, [](Rank &rank) {
            for (const Kind &kind : kinds) {
                for (size_t bytes : {(1u << 15) - 4, (1u << 18) + 12, (1u << 20) + 12348}) {
                    Call call = call_of(kind, bytes / gpucoll_type_size(call_of(kind, 1).type));
                    call.root = 1;
                    call.in_place = bytes > 1u << 18;
                    check(rank, call);
                }
            }
        });
    }
}

void check_capacity(uint32_t ranks, const char *protocol, size_t capacity)
{
    on_threads(ranks, {{"allgather_algorithm", "exchange"}, {"protocol", protocol}}, [capacity](Rank &rank) {
        for (int step = -1; step <= 1; step++) {
            EXPECT_TRUE(rank.log.topics().empty());
            check(rank, call_of(kinds[0], capacity + static_cast<size_t>(step)));
        }
        EXPECT_EQ(rank.log.topics(), std::vector<std::string>{"algorithm-unusable"});
    });
}

TEST(exchange_sizes, around_the_capacity_of_ll)
{
    check_capacity(3, "ll", gpucoll_ll_capacity(3));
}

TEST(exchange_sizes, around_the_capacity_of_ll128)
{
    check_capacity(3, "ll128", gpucoll_ll128_run_capacity(3) * GPUCOLL_LINE_PACKS * GPUCOLL_PACK_BYTES);
}

/* Between two ranks the area is used again and again, also where one has less to send than the other, or nothing. */
TEST(exchange_sizes, of_more_than_the_area_of_ll128_holds)
{
    on_threads(2, {{"protocol", "ll128"}}, [](Rank &rank) {
        size_t number = 0;
        for (const Kind &kind : kinds) {
            if (++number % divisor != 0) {
                continue;
            }
            Call call =
                call_of(kind, (GPUCOLL_LL128_BYTES + 1001) / gpucoll_type_size(call_of(kind, 1).type));
            check(rank, call);
            call.root = 1;
            call.in_place = true;
            check(rank, call);
        }
        EXPECT_TRUE(rank.log.topics().empty());
    });
}

TEST(exchange_order, of_collectives_is_free_and_lanes_are_reused)
{
    on_threads(4, {{"lanes", "1"}}, [](Rank &rank) {
        Random random(11);
        for (int i = 0; i < 600; i++) {
            const Kind &kind = kinds[random.below(static_cast<uint32_t>(kinds.size()))];
            Call call = call_of(kind, random.below(4) ? random.below(300) : random.below(40000));
            call.root = random.below(4);
            call.in_place = random.below(3) == 0;
            check(rank, call);
            rank.log.topics();
        }
    });
}

/* By kernels, where cores are not to sum. */
TEST(exchange_sizes, reductions_by_shm_alone_are_native)
{
    on_threads(3, {{"transports", "shm"}, {"verbose", "5"}}, [](Rank &rank) {
        for (const Kind &kind : kinds) {
            if (gpucoll_coll_reduces(kind.coll)) {
                check(rank, call_of(kind, 1000));
                EXPECT_NE(rank.log.lines().back().find("ran natively by pipes/host"), std::string::npos)
                    << rank.log.lines().back();
            }
        }
    });
}

TEST(exchange_processes, every_collective)
{
    for (const char *transports : {"all", "cpu_reduce", "shm"}) {
        on_processes(4, {{"transports", transports}}, [](Rank &rank) {
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
        const gpucoll_block all = {0, 100};
        gpucoll_coll_args args = {};
        args.coll = GPUCOLL_REDUCE_SCATTER_BLOCK;
        args.type = GPUCOLL_UINT8;
        args.send = buffer.data();
        args.recv = buffer.data() + (rank.number == 1 ? 50 : 0); /* not in place, so MPI does not allow it */
        args.send_blocks = parts;
        args.recv_blocks = &all;
        EXPECT_EQ(rank.call(args), GPUCOLL_DECLINED);
        EXPECT_EQ(gpucoll_declined_reason(rank.team), GPUCOLL_REASON_OVERLAP);
        EXPECT_TRUE(buffer.guards_intact());
    });
}

/* Of unequal counts, the result of the last rank overwrites what it sends to the first. */
TEST(exchange_declines, a_result_in_place_without_memory_to_keep_it_apart)
{
    on_threads(3, {}, [](Rank &rank) {
        Call call = call_of({GPUCOLL_REDUCE_SCATTER, ALL_TO_ALL, true, false, true}, 5001);
        call.in_place = true;
        check(rank, call);
        rank.set("pack_bytes", rank.number == 2 ? "0" : "1G");
        Part part(call, rank.number, 3);
        EXPECT_EQ(rank.call(part.args()), GPUCOLL_DECLINED);
        EXPECT_EQ(gpucoll_declined_reason(rank.team), GPUCOLL_REASON_PACKING);
        rank.set("pack_bytes", "1G");
        check(rank, call);
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

namespace
{
/* A call in which each rank sends 100 numbers to each, itself included, and expects so many, but for what is told. */
struct Counted {
    Counted(const Rank &rank, gpucoll_coll coll)
        : coll(coll), send(rank.meeting.size, {0, usual}), recv(send), from(rank.meeting.size * room),
          to(from.size())
    {
        for (size_t i = 0; i < send.size(); i++) {
            send[i].offset = recv[i].offset = static_cast<ptrdiff_t>(i * room);
        }
        to.poison();
    }
    gpucoll_status run(Rank &rank)
    {
        const Bytes before(to.data(), to.data() + to.size());
        gpucoll_coll_args args = {};
        args.coll = coll;
        args.send = from.data();
        args.recv = to.data();
        args.send_blocks = send.data();
        args.recv_blocks = recv.data();
        const gpucoll_status status = rank.call(args);
        EXPECT_TRUE(to.guards_intact());
        if (status != GPUCOLL_OK) {
            EXPECT_TRUE(std::equal(before.begin(), before.end(), to.data())) << "not all is left";
        }
        if (status == GPUCOLL_DECLINED) {
            EXPECT_EQ(gpucoll_declined_reason(rank.team), GPUCOLL_REASON_COUNTS);
        }
        return status;
    }

    static constexpr uint64_t usual = 400;
    static constexpr size_t room = 8192;

    const gpucoll_coll coll;
    std::vector<gpucoll_block> send, recv;
    Buffer from, to;
};
} // namespace

/* Less than is expected, more, and two mistakes that cancel each other in a sum: all ranks leave the call to others, and make the next one. */
TEST(exchange_counts, that_do_not_fit_are_declined_by_all)
{
    on_threads(3, {}, [](Rank &rank) {
        const struct {
            uint32_t from, to;
            uint64_t bytes;
        } wrong[] = {{0, 1, 404}, {0, 1, 396}, {2, 0, 8000}, {1, 2, 0}, {1, 1, 404}, {2, 2, 0}};
        for (const auto &mistake : wrong) {
            Counted call(rank, GPUCOLL_ALLTOALLV);
            if (rank.number == mistake.from) {
                call.send[mistake.to].bytes = mistake.bytes;
            }
            EXPECT_EQ(call.run(rank), GPUCOLL_DECLINED) << mistake.from << " to " << mistake.to;
            Counted right(rank, GPUCOLL_ALLTOALLV);
            EXPECT_EQ(right.run(rank), GPUCOLL_OK);
        }
        Counted both(rank, GPUCOLL_ALLTOALLV);
        if (rank.number < 2) {
            both.send[rank.number + 1].bytes = rank.number == 0 ? 404 : 396;
        }
        EXPECT_EQ(both.run(rank), GPUCOLL_DECLINED);
        /* What one expects of the other, that one sends to a third. */
        Counted swapped(rank, GPUCOLL_ALLTOALLV);
        if (rank.number == 0) {
            swapped.send[1].bytes = 800;
            swapped.recv[2].bytes = 800;
        }
        EXPECT_EQ(swapped.run(rank), GPUCOLL_DECLINED);
        Counted agreed(rank, GPUCOLL_ALLTOALLV);
        (rank.number == 0 ? agreed.send[1] : agreed.recv[0]).bytes = rank.number < 2 ? 404 : 400;
        EXPECT_EQ(agreed.run(rank), GPUCOLL_OK);
        Counted gathered(rank, GPUCOLL_ALLGATHERV);
        gathered.recv[1].bytes = rank.number == 2 ? 404 : 400;
        EXPECT_EQ(gathered.run(rank), GPUCOLL_DECLINED);
        EXPECT_TRUE(rank.log.topics().empty());
    });
}

/* What a rank sends to itself it knows alone, also in calls whose blocks are all alike. */
TEST(exchange_counts, that_do_not_fit_a_rank_itself_are_declined)
{
    for (uint32_t ranks : {1, 2}) {
        on_threads(ranks, {}, [](Rank &rank) {
            for (gpucoll_coll coll : {GPUCOLL_ALLGATHER, GPUCOLL_ALLTOALL}) {
                for (uint64_t expected : {200, 404}) {
                    Counted call(rank, coll);
                    for (gpucoll_block &block : call.recv) {
                        block.bytes = expected;
                    }
                    EXPECT_EQ(call.run(rank), GPUCOLL_DECLINED) << gpucoll_coll_name(coll);
                }
                Counted right(rank, coll);
                EXPECT_EQ(right.run(rank), GPUCOLL_OK);
            }
        });
    }
}

/* Of several hosts it is those of one that tell the others. */
TEST(exchange_counts, that_do_not_fit_on_one_of_several_hosts_are_declined_by_all)
{
    on_hosts(hosts_of({2, 2}), {}, [](Rank &rank) {
        for (gpucoll_coll coll : {GPUCOLL_ALLTOALLV, GPUCOLL_ALLTOALLW}) {
            for (uint32_t expecting : {3, 2}) {
                Counted call(rank, coll);
                if (rank.number == expecting) {
                    call.recv[2].bytes = 404;
                }
                EXPECT_EQ(call.run(rank), GPUCOLL_DECLINED) << expecting;
                Counted right(rank, coll);
                EXPECT_EQ(right.run(rank), GPUCOLL_OK);
            }
        }
    });
}

/* Each rank names the blocks of all: what it expects of others is part of what must be alike, what it sends it compares with what it expects of itself. */
TEST(exchange_counts, of_a_gather_to_all_on_several_hosts)
{
    on_hosts(hosts_of({2, 2}), {}, [](Rank &rank) {
        for (uint32_t sender : {1, 3}) {
            Counted call(rank, GPUCOLL_ALLGATHERV);
            if (rank.number == sender) {
                call.send[0].bytes = 404;
            }
            EXPECT_EQ(call.run(rank), GPUCOLL_DECLINED) << sender;
        }
        size_t said = 0;
        for (uint32_t expecting : {0, 1, 2}) {
            Counted call(rank, GPUCOLL_ALLGATHERV);
            if (rank.number == expecting) {
                call.recv[3].bytes = 404;
            }
            EXPECT_EQ(call.run(rank), GPUCOLL_ERR_MISMATCH) << expecting;
            EXPECT_EQ(rank.log.topics(), std::vector<std::string>(++said, "arguments-differ"));
        }
        Counted right(rank, GPUCOLL_ALLGATHERV);
        EXPECT_EQ(right.run(rank), GPUCOLL_OK);
    });
}
