/*
 * Rings, chains and trees: the host kernels by themselves, bit by bit against the order that their form says; and by the whole engine,
 * forced. (Their form: relay_shape_test.cc.)
 */
#include <cstring>
#include <thread>
#include "test/unit/exchange_part.h"

extern "C" {
#include "core/accel/host_kernels.h"
#include "core/topology/ring.h"
#include "test/relay/expected.h"
#include "test/relay/order.h"
}

namespace
{
constexpr size_t data_bytes = 256 << 10;

/* Lanes that go through several calls, as those of a process do. */
struct Lanes {
    explicit Lanes(uint32_t ranks) : statuses(ranks), epochs(ranks)
    {
        for (uint32_t i = 0; i < ranks; i++) {
            memory.emplace_back(gpucoll_lane_bytes(data_bytes) + 64, '\0');
            epochs[i] = 1000 * i;
            memset(&statuses[i], 0, sizeof statuses[i]);
        }
    }

    char *lane(uint32_t rank)
    {
        return memory[rank].data() + (64 - reinterpret_cast<uintptr_t>(memory[rank].data()) % 64) % 64;
    }

    std::vector<gpucoll_kernel_status> statuses;
    std::vector<uint32_t> epochs;
    uint32_t done = 0;

  private:
    std::vector<Bytes> memory;
};

struct Form {
    gpucoll_relay_flow flow;
    gpucoll_relay_protocol protocol;
    int functor;
    uint32_t ranks;
    uint32_t channels;
};

/* One call on threads; blocks have lengths of their own where that may be. */
class Call
{
  public:
    Call(Lanes &lanes, const Form &form, size_t bytes, Random &random) : lanes(lanes), form(form)
    {
        const size_t unit = gpucoll_host_functor_size(form.functor);
        const bool alike = form.flow == GPUCOLL_RELAY_ALLREDUCE;
        blocks = gpucoll_relay_is_ring(form.flow) ? form.ranks : 1;
        expected.flow = form.flow;
        expected.functor = form.functor;
        expected.nranks = form.ranks;
        expected.channels = form.channels;
        for (uint32_t b = 0; b < blocks; b++) {
            const size_t length = alike || b == 0 ? bytes : random.below(static_cast<uint32_t>(bytes) + 1);
            expected.bytes[b] = length / unit * unit;
            longest = std::max(longest, expected.bytes[b]);
        }
        for (uint32_t r = 0; r < form.ranks; r++) {
            for (uint32_t b = 0; b < blocks; b++) {
                own.push_back(elements(expected.bytes[b], random));
                got.emplace_back(expected.bytes[b] + 1, '\x33');
            }
        }
    }

    void run()
    {
        std::vector<std::thread> threads;
        lanes.done++;
        for (uint32_t r = 0; r < form.ranks; r++) {
            lanes.epochs[r]++;
        }
        for (uint32_t r = 0; r < form.ranks; r++) {
            threads.emplace_back([this, r] { run_rank(r); });
        }
        for (std::thread &thread : threads) {
            thread.join();
        }
        const gpucoll_relay_cut cut =
            gpucoll_relay_cut_of(form.flow, form.protocol, form.ranks, longest, form.channels, data_bytes);
        for (uint32_t r = 0; r < form.ranks; r++) {
            lanes.epochs[r] += gpucoll_relay_passes(form.protocol, &cut) - 1;
        }
    }

    void run_rank(uint32_t rank)
    {
        gpucoll_kernel_runs runs = {};
        gpucoll_kernel_args args = {};
        args.bytes = longest;
        args.data_bytes = data_bytes;
        args.round_end = UINT64_MAX;
        args.status = &lanes.statuses[rank];
        args.done_value = lanes.done;
        args.rank = rank;
        args.nranks = form.ranks;
        args.stages = GPUCOLL_STAGE_ALL;
        args.relay_flow = static_cast<uint16_t>(form.flow);
        args.relay_protocol = static_cast<uint16_t>(form.protocol);
        for (uint32_t i = 0; i < form.ranks; i++) {
            args.peer[i] = {lanes.lane(i), lanes.epochs[i], i};
        }
        for (uint32_t b = 0; b < blocks; b++) {
            runs.run[b].send = relay_has_own(form.flow, rank, b) ? own[rank * blocks + b].data() : nullptr;
            runs.run[b].recv = relay_wants(form.flow, rank, b) ? got[rank * blocks + b].data() : nullptr;
            runs.run[b].send_bytes = runs.run[b].recv_bytes = expected.bytes[b];
        }
        gpucoll_host_kernel(GPUCOLL_KERNEL_RELAY, form.functor, form.channels, &args, &runs);
    }

    void expect_right()
    {
        for (uint32_t r = 0; r < form.ranks; r++) {
            EXPECT_EQ(lanes.statuses[r].done, lanes.done);
            for (uint32_t b = 0; b < blocks; b++) {
                expected.own[r][b] = own[r * blocks + b].data();
            }
        }
        for (uint32_t b = 0; b < blocks; b++) {
            for (uint32_t r = 0; r < form.ranks; r++) {
                const bool wants = relay_wants(form.flow, r, b);
                Bytes result(expected.bytes[b] + 1, '\x33');
                if (wants) {
                    relay_expect(&expected, r, b, result.data());
                }
                const Bytes untouched(expected.bytes[b] + 1, '\x33');
                EXPECT_EQ(got[r * blocks + b], wants ? result : untouched)
                    << "flow " << form.flow << " protocol " << form.protocol << " functor "
                    << gpucoll_functor_name(form.functor) << " rank " << r << " of " << form.ranks
                    << " block " << b << " bytes " << expected.bytes[b] << " channels " << form.channels;
            }
        }
    }

  private:
    /* Finite in every type: small whole numbers, as floats where the functor has floats of four bytes. */
    Bytes elements(size_t bytes, Random &random) const
    {
        Bytes made(bytes);
        for (size_t at = 0; at < bytes; at++) {
            made[at] = static_cast<char>(random.below(50));
        }
        for (size_t at = 0; at + 4 <= bytes && form.functor == GPUCOLL_FN_sum_f32; at += 4) {
            const float value = static_cast<float>(random.below(1000000)) * 1.1f;
            memcpy(made.data() + at, &value, sizeof value);
        }
        return made;
    }

    Lanes &lanes;
    Form form;
    uint32_t blocks;
    uint64_t longest = 0;
    relay_expected expected = {};
    std::vector<Bytes> own;
    std::vector<Bytes> got;
};

template <typename Body> void for_all_ways(const Body &body)
{
    for (int flow = 0; flow < GPUCOLL_RELAY_FLOWS; flow++) {
        for (int protocol = 0; protocol < GPUCOLL_RELAY_PROTOCOLS; protocol++) {
            body(static_cast<gpucoll_relay_flow>(flow), static_cast<gpucoll_relay_protocol>(protocol));
        }
    }
}
} // namespace

/* ---- the host kernels ---- */

TEST(relays, of_any_ranks_channels_and_bytes)
{
    for (uint32_t ranks : {1, 2, 3, 5, 8}) {
        Lanes lanes(ranks);
        Random random(ranks);
        for_all_ways([&](gpucoll_relay_flow flow, gpucoll_relay_protocol protocol) {
            for (uint32_t channels : {1u, 2u, 5u}) {
                for (size_t bytes : {0u, 4u, 16u, 1000u, 20000u}) {
                    Call call(lanes, {flow, protocol, GPUCOLL_FN_sum_f32, ranks, channels}, bytes, random);
                    call.run();
                    call.expect_right();
                }
            }
        });
    }
}

TEST(relays, of_every_functor)
{
    Lanes lanes(3);
    Random random(4);
    for_all_ways([&](gpucoll_relay_flow flow, gpucoll_relay_protocol protocol) {
        for (int functor = 0; functor < GPUCOLL_FUNCTOR_COUNT; functor++) {
            Call call(lanes, {flow, protocol, functor, 3, 2}, 700, random);
            call.run();
            call.expect_right();
        }
    });
}

/* All slots many times over: credits, and over LL and LL128 several epochs in one call. */
TEST(relays, of_more_than_all_slots_hold)
{
    Lanes lanes(3);
    Random random(5);
    for_all_ways([&](gpucoll_relay_flow flow, gpucoll_relay_protocol protocol) {
        const bool simple = protocol == GPUCOLL_RELAY_SIMPLE;
        const size_t bytes = simple ? 1 << 20 : gpucoll_relay_is_ring(flow) ? 6 << 20 : 11 << 20;
        const Form form = {flow, protocol, GPUCOLL_FN_max_u64, 3, 5};
        const gpucoll_relay_cut cut = gpucoll_relay_cut_of(flow, protocol, 3, bytes, 5, data_bytes);
        EXPECT_GT(cut.total, uint32_t{GPUCOLL_RELAY_SLOTS}) << flow << ' ' << protocol;
        Call call(lanes, form, bytes / divisor, random);
        call.run();
        call.expect_right();
    });
}

TEST(relays, give_up_when_told_and_name_the_rank)
{
    for_all_ways([](gpucoll_relay_flow flow, gpucoll_relay_protocol protocol) {
        Lanes lanes(3);
        Random random(6);
        Call call(lanes, {flow, protocol, GPUCOLL_FN_sum_u32, 3, 1}, 800, random);
        const uint32_t rank = flow == GPUCOLL_RELAY_REDUCE ? 2 : 1;
        lanes.done++;
        std::thread thread([&] { call.run_rank(rank); }); /* in all flows it takes in something */
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        __atomic_store_n(&lanes.statuses[rank].abort, 1, __ATOMIC_RELEASE);
        thread.join();
        const uint32_t missing = flow == GPUCOLL_RELAY_REDUCE ? 1 : 0;
        EXPECT_EQ(lanes.statuses[rank].stuck_rank, 1 + missing) << flow << ' ' << protocol;
        EXPECT_NE(lanes.statuses[rank].done, lanes.done);
    });
}

/* ---- the whole engine ---- */

namespace
{
const char *const protocols[] = {"ll", "ll128", "simple"};

Settings forced(const char *algorithm, const char *protocol)
{
    return {{"allreduce_algorithm", algorithm},
            {"allgather_algorithm", "ring"},
            {"allgatherv_algorithm", "ring"},
            {"bcast_algorithm", "ring"},
            {"reduce_algorithm", "ring"},
            {"reduce_scatter_algorithm", "ring"},
            {"reduce_scatter_block_algorithm", "ring"},
            {"scan_algorithm", "chain"},
            {"exscan_algorithm", "chain"},
            {"protocol", protocol},
            {"max_ctas", "5"}};
}

bool goes_round(gpucoll_coll coll)
{
    return coll == GPUCOLL_ALLGATHER || coll == GPUCOLL_ALLGATHERV || coll == GPUCOLL_BCAST ||
           coll == GPUCOLL_REDUCE || coll == GPUCOLL_REDUCE_SCATTER || coll == GPUCOLL_REDUCE_SCATTER_BLOCK ||
           coll == GPUCOLL_SCAN || coll == GPUCOLL_EXSCAN;
}

uint32_t roots_of(const Kind &kind, uint32_t ranks)
{
    return kind.shape == TO_ROOT || kind.shape == FROM_ROOT ? ranks : 1;
}

/* One all-reduce; the same bits on all ranks. */
void check_allreduce(Rank &rank, gpucoll_op op, gpucoll_type type, size_t count, bool in_place, size_t offset)
{
    const std::vector<Bytes> inputs = make_inputs(type, count, count + 17 * op + type, rank.meeting.size);
    const Bytes &mine = inputs[rank.number];
    Buffer send(mine.size(), offset);
    Buffer recv(mine.size(), offset / 2);
    std::copy(mine.begin(), mine.end(), in_place ? recv.data() : send.data());
    const void *from = in_place ? GPUCOLL_IN_PLACE : send.data();
    EXPECT_EQ(rank.call(reduce_all(op, type, from, recv.data(), count)), GPUCOLL_OK);
    EXPECT_TRUE(reduces(op, type, inputs, recv.data())) << op << ' ' << type << " count " << count;
    EXPECT_TRUE(send.guards_intact() && recv.guards_intact());
    EXPECT_TRUE(rank.agree(recv.data(), recv.size())) << op << ' ' << type << " count " << count;
}
} // namespace

class forced_relay : public testing::TestWithParam<std::tuple<uint32_t, const char *, const char *>>
{
  protected:
    uint32_t ranks() const { return std::get<0>(GetParam()); }
    Settings settings() const { return forced(std::get<1>(GetParam()), std::get<2>(GetParam())); }
};

TEST_P(forced_relay, allreduce_of_every_operator_type_and_count)
{
    on_threads(ranks(), settings(), [](Rank &rank) {
        size_t number = 0;
        for (const NativePair &pair : native_pairs()) {
            if (++number % divisor == 0) {
                check_allreduce(rank, pair.op, pair.type, 1 + number * 37 % 500, number % 3 == 0,
                                number % 17);
            }
        }
        for (size_t count : {0, 1, 15, 16, 17, 127, 128, 4097, 100003}) {
            check_allreduce(rank, GPUCOLL_SUM, GPUCOLL_UINT8, count, count % 2 == 0, 3);
        }
        EXPECT_TRUE(rank.log.topics().empty()) << rank.log.topics()[0];
    });
}

TEST_P(forced_relay, collectives_of_every_root_and_size)
{
    on_threads(ranks(), settings(), [](Rank &rank) {
        check(rank, call_of(kinds[0], 1)); /* ranks without a GPU decline calls of no bytes */
        for (const Kind &kind : kinds) {
            for (size_t count : {0, 1, 17, 1000, 40009}) {
                ExchangeCall call = call_of(kind, count);
                const uint32_t roots = goes_round(kind.coll) ? roots_of(kind, rank.meeting.size) : 0;
                for (call.root = 0; call.root < roots; call.root++) {
                    check_both_places(rank, call);
                }
            }
        }
        EXPECT_TRUE(rank.log.topics().empty()) << rank.log.topics()[0];
    });
}

INSTANTIATE_TEST_SUITE_P(ranks, forced_relay,
                         testing::Combine(testing::Values(1, 2, 3, 4, 7), testing::Values("ring", "tree"),
                                          testing::ValuesIn(protocols)),
                         [](const auto &info) {
                             return std::to_string(std::get<0>(info.param)) + "_" + std::get<1>(info.param) +
                                    "_" + std::get<2>(info.param);
                         });

/* As on a machine on which ranks that follow each other are not neighbours. */
TEST(relay_order, may_be_any)
{
    for (const char *protocol : protocols) {
        on_threads(4, forced("ring", protocol), [](Rank &rank) {
            static const uint32_t order[] = {0, 2, 1, 3};
            check_allreduce(rank, GPUCOLL_SUM, GPUCOLL_INT32, 5, false, 0); /* makes the links */
            for (uint32_t i = 0; i < 4; i++) {
                EXPECT_EQ(relay_order(rank.team)[i], i);
                relay_order(rank.team)[i] = order[i];
            }
            EXPECT_TRUE(rank.barrier());
            check_allreduce(rank, GPUCOLL_SUM, GPUCOLL_INT32, 20011, true, 0);
            for (const Kind &kind : kinds) {
                ExchangeCall call = call_of(kind, 3001);
                for (call.root = 0; goes_round(kind.coll) && call.root < roots_of(kind, 4); call.root++) {
                    check(rank, call);
                }
            }
        });
    }
}

/* What one call leaves in a lane must mean nothing to the next, also where a call takes several epochs. */
TEST(relay_lanes, are_used_by_other_algorithms_in_between)
{
    const Settings settings = {{"allreduce_algorithm", "ring:2K,oneshot:6K,tree:20K,twoshot:40K,ring"},
                               {"bcast_algorithm", "ring"},
                               {"lanes", "1"},
                               {"max_ctas", "3"},
                               {"scratch_bytes", "1M"}};
    on_threads(3, settings, [](Rank &rank) {
        Random random(9);
        for (int i = 0; i < 120; i++) {
            check_allreduce(rank, GPUCOLL_SUM, GPUCOLL_INT32, random.below(25000), i % 3 == 0, 0);
        }
    });
}

TEST(relay_lanes, take_the_epochs_of_their_passes)
{
    for (const char *algorithm : {"ring", "tree"}) {
        for (const char *protocol : {"ll", "ll128"}) {
            Settings settings = forced(algorithm, protocol);
            settings.push_back({"lanes", "1"});
            on_threads(4, settings, [](Rank &rank) {
                check_allreduce(rank, GPUCOLL_MAX, GPUCOLL_INT64, (9 << 17) / divisor, false, 0);
                check_allreduce(rank, GPUCOLL_SUM, GPUCOLL_INT64, (7 << 17) / divisor, true, 0);
                check_allreduce(rank, GPUCOLL_SUM, GPUCOLL_INT64, 100, true, 0);
            });
        }
    }
}

TEST(relay_lanes, deterministic_does_not_take_them)
{
    on_threads(2, {{"allreduce_algorithm", "ring"}, {"deterministic", "1"}}, [](Rank &rank) {
        check_allreduce(rank, GPUCOLL_SUM, GPUCOLL_FLOAT32, 100, false, 0);
        EXPECT_EQ(rank.log.topics(), std::vector<std::string>{"algorithm-unusable"});
    });
}
