/*
 * All-reduce by the whole engine on the host accelerator: values, sizes, buffers, algorithms.
 */
#include <cstring>
#include <map>
#include "test/unit/ranks.h"
#include "test/unit/sum.h"
#include "test/unit/values.h"

extern "C" {
#include "test/unit/failing.h"
}

namespace
{
struct Call {
    gpucoll_op op = GPUCOLL_SUM;
    gpucoll_type type = GPUCOLL_FLOAT32;
    size_t count = 1;
    size_t send_offset = 0;
    size_t recv_offset = 0;
    bool in_place = false;
};

/* Runs one call on this rank and checks everything about it; the result. */
Bytes check(Rank &rank, const Call &call)
{
    uint32_t ranks = rank.meeting.size;
    uint64_t seed = call.count * 1000 + call.op * 50u + call.type;
    std::vector<Bytes> inputs = make_inputs(call.type, call.count, seed, ranks);
    const Bytes &mine = inputs[rank.number];
    Buffer send(mine.size(), call.send_offset);
    Buffer recv(mine.size(), call.recv_offset);
    std::copy(mine.begin(), mine.end(), call.in_place ? recv.data() : send.data());
    gpucoll_coll_args args = reduce_all(call.op, call.type, call.in_place ? GPUCOLL_IN_PLACE : send.data(),
                                        recv.data(), call.count);
    gpucoll_status status = rank.call(args);
    EXPECT_EQ(status, GPUCOLL_OK) << gpucoll_status_name(status);
    if (call.count < 50000 ||
        rank.number == 0) { /* large ones once: the other ranks are compared to the bit below */
        EXPECT_TRUE(reduces(call.op, call.type, inputs, recv.data()))
            << "rank " << rank.number << " offsets " << call.send_offset << ' ' << call.recv_offset
            << " in place " << call.in_place << " seed " << seed;
    }
    Bytes result(recv.data(), recv.data() + recv.size());
    EXPECT_EQ(result, reduce_in_order(call.op, call.type, inputs)) << "not reduced in rank order";
    EXPECT_TRUE(send.guards_intact() && recv.guards_intact());
    if (!call.in_place) {
        EXPECT_TRUE(std::equal(mine.begin(), mine.end(), send.data())) << "the input was changed";
    }
    return result;
}

std::vector<Call> every_pair(size_t count)
{
    std::vector<Call> calls;
    for (const NativePair &pair : native_pairs()) {
        Call call;
        call.op = pair.op;
        call.type = pair.type;
        call.count = count;
        calls.push_back(call);
    }
    return calls;
}
} // namespace

/* ---- by ranks and algorithm ---- */

namespace
{
struct Way {
    const char *algorithm;
    const char *protocol;
    const char *transports = "all";
};

const Way ways[] = {{"auto", "auto"},        {"oneshot", "ll"},    {"twoshot", "ll128"},
                    {"twoshot", "simple"},   {"phased", "simple"}, {"cpu", "host", "cpu_reduce"},
                    {"pipes", "host", "shm"}};

Settings forced(const Way &way)
{
    return {{"allreduce_algorithm", way.algorithm},
            {"protocol", way.protocol},
            {"transports", way.transports},
            {"shm_bytes", "256K"}};
}
} // namespace

class allreduce : public testing::TestWithParam<std::tuple<uint32_t, Way>>
{
  protected:
    uint32_t ranks() const { return std::get<0>(GetParam()); }
    Settings settings() const { return forced(std::get<1>(GetParam())); }
};

TEST_P(allreduce, every_operator_and_type)
{
    on_threads(ranks(), settings(), [](Rank &rank) {
        size_t count = 0;
        for (Call call : every_pair(1)) {
            call.count = 1 + count++ * 37 % 500;
            if (count % divisor != 0) {
                continue;
            }
            call.in_place = count % 3 == 0;
            check(rank, call);
        }
        EXPECT_TRUE(rank.log.topics().empty()) << rank.log.topics()[0];
    });
}

TEST_P(allreduce, counts_around_packs_blocks_and_channels)
{
    on_threads(ranks(), settings(), [](Rank &rank) {
        Call call;
        call.type = GPUCOLL_UINT8;
        for (size_t edge : {0, 16, 128, 4096, 8192, 16384}) {
            for (int step = -1; step <= 1; step++) {
                if (edge > 0 || step >= 0) {
                    call.count = edge + static_cast<size_t>(step);
                    check(rank, call);
                }
            }
        }
    });
}

TEST_P(allreduce, any_alignment_in_place_or_not)
{
    on_threads(ranks(), settings(), [](Rank &rank) {
        for (gpucoll_type type : {GPUCOLL_INT16, GPUCOLL_FLOAT32, GPUCOLL_DOUBLE_INT}) {
            for (size_t offset : {1, 2, 4, 7, 8}) {
                Call call;
                call.op = type == GPUCOLL_DOUBLE_INT ? GPUCOLL_MINLOC : GPUCOLL_SUM;
                call.type = type;
                call.count = 1003;
                call.send_offset = offset;
                check(rank, call);
                call.recv_offset = rank.number % 2 ? 16 - offset : offset; /* not alike on all ranks */
                check(rank, call);
                call.in_place = true;
                check(rank, call);
            }
        }
    });
}

namespace
{
std::string name_of(const testing::TestParamInfo<std::tuple<uint32_t, Way>> &info)
{
    const Way &way = std::get<1>(info.param);
    return std::to_string(std::get<0>(info.param)) + "_" + way.algorithm + "_" + way.protocol;
}
} // namespace

INSTANTIATE_TEST_SUITE_P(ranks, allreduce,
                         testing::Combine(testing::Values(1, 2, 3, 4, 7), testing::ValuesIn(ways)), name_of);
INSTANTIATE_TEST_SUITE_P(two_ranks, allreduce,
                         testing::Combine(testing::Values(2), testing::Values(Way{"oneshot", "ll128"})),
                         name_of);

/* ---- sizes ---- */

/* Between two ranks the area is used again and again. */
TEST(allreduce_sizes, of_more_than_the_area_of_ll128_holds)
{
    on_threads(2, {{"allreduce_algorithm", "oneshot"}, {"protocol", "ll128"}}, [](Rank &rank) {
        for (bool in_place : {false, true}) {
            if (divisor > 1 && !in_place) {
                continue;
            }
            Call call;
            call.type = GPUCOLL_INT32;
            call.in_place = in_place;
            call.count = ((in_place ? 2 : 3) * GPUCOLL_LL128_BYTES + 1000) / 4;
            check(rank, call);
        }
        EXPECT_TRUE(rank.log.topics().empty());
    });
}

/* The last sizes that the areas of LL and LL128 hold, and the first that they do not. */
TEST(allreduce_sizes, around_the_capacities_of_ll_and_ll128)
{
    size_t ll128 = gpucoll_ll128_capacity(3) * GPUCOLL_LINE_PACKS * GPUCOLL_PACK_BYTES * 3;
    EXPECT_EQ(gpucoll_ll128_lines(ll128, 3), gpucoll_ll128_capacity(3));
    EXPECT_GT(gpucoll_ll128_lines(ll128 + 1, 3), gpucoll_ll128_capacity(3));
    const std::tuple<uint32_t, const char *, const char *, size_t> cases[] = {
        {3, "oneshot", "ll", gpucoll_ll_capacity(3)},
        {3, "twoshot", "ll128", ll128},
    };
    for (const auto &[ranks, algorithm, protocol, capacity] : cases) {
        const Settings settings = {{"allreduce_algorithm", algorithm}, {"protocol", protocol}};
        on_threads(ranks, settings, [bytes = capacity](Rank &rank) {
            Call call;
            call.type = GPUCOLL_INT16;
            for (int step = -1; step <= 1; step++) {
                EXPECT_TRUE(rank.log.topics().empty());
                call.count = bytes / 2 + static_cast<size_t>(step);
                check(rank, call);
            }
            EXPECT_EQ(rank.log.topics(), std::vector<std::string>{"algorithm-unusable"});
        });
    }
}

TEST(allreduce_sizes, many_rounds)
{
    for (const char *algorithm : {"twoshot", "phased"}) {
        for (const char *ctas : {"1", "5", "64"}) {
            const Settings settings = {
                {"allreduce_algorithm", algorithm}, {"protocol", "simple"}, {"max_ctas", ctas}};
            on_threads(4, settings, [](Rank &rank) {
                Call call;
                call.type = GPUCOLL_INT32;
                /* A quarter of the data area is one round of all channels; a few rounds, the last not whole. */
                for (size_t bytes : {(1u << 18) - 4, (1u << 18) + 4, (5u << 18) + 12348}) {
                    call.count = bytes / 4;
                    call.in_place = !call.in_place;
                    check(rank, call);
                }
            });
        }
    }
}

TEST(allreduce_sizes, many_chunks_through_host_memory)
{
    for (const auto &[transports, threads] :
         {std::pair{"cpu_reduce", "0"}, {"cpu_reduce", "2"}, {"shm", "0"}}) {
        const Settings settings = {
            {"transports", transports}, {"shm_bytes", "256K"}, {"cpu_threads", threads}};
        on_threads(3, settings, [](Rank &rank) {
            Call call;
            call.type = GPUCOLL_INT32;
            /* A chunk is an eighth of the area; a few rounds of its slots, the last not whole. */
            for (size_t bytes : {(1u << 15) - 4, (1u << 15) + 4, (1u << 18) + 4, (9u << 18) + 12348}) {
                call.count = bytes / 4;
                call.in_place = !call.in_place;
                check(rank, call);
            }
        });
    }
}

TEST(allreduce_sizes, small_and_large_in_turn_reuse_lanes)
{
    for (const char *transports : {"all", "cpu_reduce", "shm"}) {
        on_threads(3, {{"lanes", "1"}, {"transports", transports}, {"shm_bytes", "256K"}}, [](Rank &rank) {
            Random random(5);
            Call call;
            call.type = GPUCOLL_INT32;
            for (int i = 0; i < 150; i++) {
                call.count = random.below(2) ? random.below(100) : random.below(60000);
                call.in_place = random.below(2) != 0;
                check(rank, call);
            }
        });
    }
}

/* Also a rank on its own, whichever way its buffer is copied. */
TEST(allreduce, waits_for_the_gpu_before_each_call_if_told_to)
{
    for (const char *told : {"false", "true"}) {
        for (uint32_t ranks : {1, 2}) {
            on_threads(ranks, {{"sync_device", told}}, [told](Rank &rank) {
                test_count_classified(rank.context);
                sum_of(rank, 100);
                const unsigned after_one = test_synchronized();
                sum_of(rank, 100000);
                EXPECT_EQ(after_one > 0, strcmp(told, "true") == 0);
                EXPECT_EQ(test_synchronized() > after_one, strcmp(told, "true") == 0);
            });
        }
    }
}

/* ---- determinism ---- */

TEST(allreduce_bits, are_those_of_every_other_rank_run_and_algorithm)
{
    std::map<size_t, Bytes> first;
    for (const Way &way : ways) {
        for (const char *ctas : {"3", "64"}) {
            Settings settings = forced(way);
            settings.push_back({"max_ctas", ctas});
            on_threads(7, settings, [&](Rank &rank) {
                for (size_t count : {3, 1000, 20001}) {
                    Call call;
                    call.count = count;
                    Bytes result = check(rank, call);
                    EXPECT_TRUE(rank.agree(result.data(), result.size()));
                    if (rank.number == 0) {
                        EXPECT_EQ(first.emplace(count, result).first->second, result)
                            << way.algorithm << ' ' << way.protocol << ' ' << count;
                    }
                }
            });
        }
    }
}

/* ---- processes ---- */

TEST(allreduce_processes, every_operator_and_type)
{
    on_processes(3, {}, [](Rank &rank) {
        for (Call call : every_pair(129)) {
            Bytes result = check(rank, call);
            EXPECT_TRUE(rank.agree(result.data(), result.size()));
        }
    });
}

TEST(allreduce_processes, every_algorithm_and_size)
{
    for (const Way &way : ways) {
        on_processes(4, forced(way), [](Rank &rank) {
            for (size_t count : {1, 1001, 100003}) {
                Call call;
                call.count = count;
                call.send_offset = 3;
                check(rank, call);
            }
            EXPECT_EQ(shm_traces(), std::vector<std::string>());
        });
    }
}

/* ---- pretended GPUs that several ranks share ---- */

TEST(allreduce_shared_gpu, by_peers_alone_is_phased)
{
    for (const char *devices : {"1", "2"}) {
        on_threads(4, {{"host_devices", devices}, {"transports", "p2p"}}, [](Rank &rank) {
            for (size_t count : {1, 5000, 300000}) {
                Call call;
                call.count = count;
                check(rank, call);
            }
            if (rank.number == 0) {
                const std::string lines = rank.log.text();
                EXPECT_NE(lines.find("phased by simple"), std::string::npos) << lines;
                EXPECT_EQ(lines.find("shot by"), std::string::npos) << lines;
                EXPECT_NE(lines.find("oneshot/ll cannot (two ranks share a GPU"), std::string::npos) << lines;
                EXPECT_NE(lines.find("allreduce of 20000 bytes: ran natively"), std::string::npos) << lines;
            }
        });
    }
}

/* What needs no turn on the GPU. */
TEST(allreduce_shared_gpu, goes_through_the_host)
{
    on_threads(4, {{"host_devices", "2"}, {"verbose", "5"}}, [](Rank &rank) {
        for (size_t count : {1, 5000, 300000}) {
            Call call;
            call.count = count;
            check(rank, call);
        }
        const std::string lines = rank.log.text();
        EXPECT_NE(lines.find("ran natively by cpu/host"), std::string::npos) << lines;
        EXPECT_EQ(lines.find("natively by phased"), std::string::npos) << lines;
    });
}

/* As with a GPU each: kernels may wait for each other. */
TEST(allreduce_shared_gpu, at_the_same_time_is_as_with_a_gpu_each)
{
    on_threads(4, {{"host_devices", "2"}, {"host_mps", "true"}, {"host_resident", "7"}, {"verbose", "5"}},
               [](Rank &rank) {
                   for (size_t count : {1, 5000, 300000}) {
                       Call call;
                       call.count = count;
                       check(rank, call);
                   }
                   if (rank.number == 0) {
                       const std::string lines = rank.log.text();
                       EXPECT_NE(lines.find("oneshot by ll"), std::string::npos) << lines;
                       EXPECT_NE(lines.find("by simple, 3 CTAs"), std::string::npos) << lines;
                       EXPECT_EQ(lines.find("phased by"), std::string::npos) << lines;
                   }
               });
}

/* Other processes of the host, whose calls this team does not see, may wait on the same GPU. Ranks of a job of fewer processes, which has joined this one, do not
 * know of all. */
TEST(allreduce_shared_gpu, at_the_same_time_leaves_others_their_parts)
{
    const std::vector<std::pair<uint32_t, std::string>> rows = {{2, "by twoshot/simple, 8 CTAs"},
                                                                {4, "by twoshot/simple, 4 CTAs"},
                                                                {8, "by twoshot/simple, 2 CTAs"},
                                                                {17, "natively by phased"}};
    uint32_t knows = 0;
    for (const auto &row : rows) {
        knows = 1 - knows;
        on_threads(2,
                   {{"host_devices", "1"},
                    {"host_mps", "true"},
                    {"host_resident", "16"},
                    {"transports", "p2p"},
                    {"verbose", "5"}},
                   [&](Rank &rank) {
                       const uint32_t told = rank.number == knows ? row.first : 2;
                       gpucoll_context_share_host(rank.context, told, rank.number);
                       Call call;
                       call.count = 300000;
                       check(rank, call);
                       const std::string lines = rank.log.text();
                       EXPECT_NE(lines.find(row.second), std::string::npos) << lines;
                   });
    }
}

/* A GPU that does not hold a CTA of each: kernels that wait for each other might wait for ever. */
TEST(allreduce_shared_gpu, at_the_same_time_but_too_small_is_in_turn)
{
    on_threads(4,
               {{"host_devices", "1"}, {"host_mps", "true"}, {"host_resident", "3"}, {"transports", "p2p"}},
               [](Rank &rank) {
                   Call call;
                   call.count = 5000;
                   check(rank, call);
                   if (rank.number == 0) {
                       const std::string lines = rank.log.text();
                       EXPECT_NE(lines.find("phased by simple"), std::string::npos) << lines;
                   }
               });
}

TEST(allreduce_shared_gpu, forced_algorithm_that_cannot_run_is_said_once)
{
    on_threads(2, {{"host_devices", "1"}, {"allreduce_algorithm", "oneshot"}}, [](Rank &rank) {
        for (size_t count : {1, 2, 3}) {
            Call call;
            call.count = count;
            check(rank, call);
        }
        EXPECT_EQ(rank.log.topics(), std::vector<std::string>{"algorithm-unusable"});
        std::string text = rank.log.text_of("algorithm-unusable");
        EXPECT_NE(text.find("oneshot"), std::string::npos) << text;
        EXPECT_NE(text.find("share a GPU"), std::string::npos) << text;
    });
}

TEST(allreduce_forced, oneshot_beyond_its_capacity_is_said_and_runs_another_way)
{
    on_threads(3, {{"allreduce_algorithm", "oneshot"}}, [](Rank &rank) {
        Call call;
        call.type = GPUCOLL_INT8;
        call.count = gpucoll_ll_capacity(3) + 1;
        check(rank, call);
        EXPECT_EQ(rank.log.topics(), std::vector<std::string>{"algorithm-unusable"});
    });
}
