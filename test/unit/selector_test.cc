/*
 * The selector and the shapes of the algorithms: which way, how many CTAs, what time the model predicts.
 */
#include <cmath>
#include <cstring>
#include "test/unit/unit.h"

extern "C" {
#include "core/model.h"
#include "core/selector.h"
#include "ucx_tl/tl.h"
}

namespace
{
/* Links as those of four H200: the numbers of the p2p transport. */
struct Input : gpucoll_plan_input {
    Input(uint64_t message, uint32_t ranks)
    {
        gpucoll_config_init(&settings);
        coll = GPUCOLL_ALLREDUCE;
        functor = GPUCOLL_FN_sum_f32;
        bytes = message;
        nranks = ranks;
        data_bytes = size_t{64} << 20;
        ways = GPUCOLL_TL_STORES;
        shared_device = false;
        direct = GPUCOLL_DIRECT_NOT;
        unattended = false;
        crew = GPUCOLL_CREW_CTAS;
        whole_lines = true;
        latency_us = 0.62;
        bandwidth = 354e9;
        model = gpucoll_model_of(0);
        config = &settings;
    }
    Input(const Input &) = delete;
    gpucoll_config settings;
};

gpucoll_plan plan_of(const gpucoll_plan_input &input)
{
    RecordingLog log;
    gpucoll_plan plan;
    bool said = false;
    EXPECT_EQ(gpucoll_select(&input, log.get(), &said, &plan), GPUCOLL_OK);
    EXPECT_TRUE(log.topics().empty());
    return plan;
}

std::string chosen(uint64_t bytes, uint32_t ranks)
{
    return plan_of(Input(bytes, ranks)).algorithm->name;
}
} // namespace

TEST(selector, small_is_oneshot_and_large_is_twoshot)
{
    for (uint32_t ranks : {2, 4, 8}) {
        EXPECT_EQ(chosen(0, ranks), "oneshot");
        EXPECT_EQ(chosen(4, ranks), "oneshot");
        EXPECT_EQ(chosen(1024, ranks), "oneshot");
        EXPECT_EQ(chosen(64 << 20, ranks), "twoshot");
        EXPECT_EQ(chosen(uint64_t{16} * INT32_MAX, ranks), "twoshot");
    }
}

/* No cliffs, save for the few percent that the end of a protocol's area may cost: neither the time nor the bandwidth that
 * the model predicts ever falls as the message grows. Phases are launched for whole passes over the scratch, so of them only the time is asked. */
TEST(selector, predicted_time_and_bandwidth_grow_with_the_message)
{
    for (int kind = 0; kind < 4; kind++) {
        const bool shared = kind == 3;
        for (uint32_t ranks : {2, 3, 4, 8, 32}) {
            double time = 0;
            double bandwidth = 0;
            for (double size = 16; size < 1e10; size *= 1.19) {
                Input input(static_cast<uint64_t>(size) / 16 * 16, ranks);
                input.shared_device = shared;
                input.whole_lines = kind < 2;
                input.crew = kind == 0 ? GPUCOLL_CREW_CTAS : 1;
                double now = plan_of(input).predicted_us;
                EXPECT_GE(now, time * 0.9999) << input.bytes << " bytes, " << ranks << " ranks";
                EXPECT_GE(static_cast<double>(input.bytes) / now, shared ? 0 : bandwidth * 0.94)
                    << input.bytes << " bytes, " << ranks << " ranks";
                time = now;
                bandwidth = static_cast<double>(input.bytes) / now;
            }
        }
    }
}

TEST(selector, middle_sizes_go_by_whole_lines_where_the_link_keeps_them)
{
    for (uint32_t ranks : {2, 4, 8}) {
        Input input(4000000, ranks);
        EXPECT_STREQ(plan_of(input).algorithm->protocol, "ll128");
        input.whole_lines = false;
        EXPECT_STREQ(plan_of(input).algorithm->protocol, "simple");
    }
}

TEST(selector, small_calls_linger_unless_told_otherwise)
{
    Input input(64, 4);
    EXPECT_TRUE(plan_of(input).linger);
    double lingering = plan_of(input).predicted_us;
    ASSERT_EQ(gpucoll_config_set(&input.settings, "linger", "0"), GPUCOLL_OK);
    EXPECT_FALSE(plan_of(input).linger);
    EXPECT_GT(plan_of(input).predicted_us, lingering);
    input.settings.linger = 20;
    input.crew = 0;
    EXPECT_FALSE(plan_of(input).linger);
}

/* Every collective whose kernel is of LL, and none whose kernel is not. */
TEST(selector, small_exchanges_linger_too)
{
    for (int coll = 0; coll < GPUCOLL_COLL_COUNT; coll++) {
        for (uint64_t bytes : {8u, 32u << 10}) {
            Input input(bytes, 4);
            input.coll = static_cast<gpucoll_coll>(coll);
            const gpucoll_plan small = plan_of(input);
            EXPECT_TRUE(small.linger) << gpucoll_coll_name(input.coll);
            EXPECT_EQ(small.ctas, unsigned{GPUCOLL_CREW_CTAS});
            ASSERT_EQ(gpucoll_config_set(&input.settings, "linger", "0"), GPUCOLL_OK);
            const gpucoll_plan launched = plan_of(input);
            EXPECT_FALSE(launched.linger);
            EXPECT_GT(launched.predicted_us, small.predicted_us);
        }
        Input large(64 << 20, 4);
        large.coll = static_cast<gpucoll_coll>(coll);
        EXPECT_FALSE(plan_of(large).linger) << gpucoll_coll_name(large.coll);
    }
    Input wide(8, GPUCOLL_BELL_MAX_RANKS + 1); /* more ranks than the bell has room for */
    wide.coll = GPUCOLL_ALLGATHER;
    EXPECT_FALSE(plan_of(wide).linger);
}

namespace
{
double lingering_us(const char *protocol, gpucoll_coll coll, uint64_t bytes, uint32_t ranks,
                    const char *threads)
{
    Input input(bytes, ranks);
    input.coll = coll;
    EXPECT_EQ(gpucoll_config_set(&input.settings, "threads", threads), GPUCOLL_OK);
    const gpucoll_algorithm *row;
    for (int i = 0; (row = gpucoll_algorithm_row(i)) != nullptr; i++) {
        if (gpucoll_algorithm_runs(row, coll) && strcmp(row->protocol, protocol) == 0) {
            gpucoll_plan plan;
            gpucoll_shape(row, &input, &plan);
            EXPECT_TRUE(plan.linger) << bytes;
            return plan.predicted_us;
        }
    }
    ADD_FAILURE() << "nothing by " << protocol;
    return 0;
}
} // namespace

/* What the kernels leave to one CTA costs no barriers of the crew: up to a pack a thread, of all that is moved to peers, of one run that
 * is reduced; and never by LL128. */
TEST(selector, barriers_of_the_crew_are_paid_beyond_a_pack_a_thread)
{
    const double barriers = gpucoll_model_of(0)->crew_us;
    const double little = 0.05; /* more than to store another pack */
    for (uint32_t ranks : {2, 4, 8}) {
        for (const char *threads : {"64", "256"}) {
            const uint64_t bound = std::stoul(threads) * GPUCOLL_PACK_BYTES;
            auto step = [&](gpucoll_coll coll, uint64_t bytes) {
                return lingering_us("ll", coll, bytes + 16, ranks, threads) -
                       lingering_us("ll", coll, bytes, ranks, threads);
            };
            const uint64_t run = bound / 16 / (ranks - 1) * 16;
            EXPECT_NEAR(step(GPUCOLL_ALLREDUCE, bound), barriers, little);
            EXPECT_NEAR(step(GPUCOLL_ALLTOALL, run), barriers, little);
            EXPECT_NEAR(step(GPUCOLL_ALLREDUCE, bound - 16), 0, little);
            EXPECT_NEAR(step(GPUCOLL_ALLTOALL, run - 16), 0, little);
            EXPECT_NEAR(step(GPUCOLL_SCAN, bound - 16), 0, little);
            EXPECT_NEAR(lingering_us("ll128", GPUCOLL_ALLREDUCE, 16, ranks, threads),
                        lingering_us("ll", GPUCOLL_ALLREDUCE, 16, ranks, threads) + barriers + 0.5 + 0.62,
                        little);
        }
    }
}

TEST(selector, channels_are_the_number_of_ctas)
{
    for (uint64_t bytes : {4u, 100000u, 64u << 20}) {
        for (const char *channels : {"1", "6", "100"}) {
            Input input(bytes, 4);
            ASSERT_EQ(gpucoll_config_set(&input.settings, "channels", channels), GPUCOLL_OK);
            for (gpucoll_coll coll : {GPUCOLL_ALLREDUCE, GPUCOLL_ALLGATHER}) {
                input.coll = coll;
                const gpucoll_algorithm *row;
                for (int i = 0; (row = gpucoll_algorithm_row(i)) != nullptr; i++) {
                    if (gpucoll_algorithm_runs(row, coll) && gpucoll_unusable(row, &input) == nullptr) {
                        gpucoll_plan plan;
                        gpucoll_shape(row, &input, &plan);
                        EXPECT_EQ(plan.ctas, static_cast<uint32_t>(input.settings.channels)) << row->name;
                        EXPECT_TRUE(!plan.linger || plan.ctas <= GPUCOLL_CREW_CTAS);
                    }
                }
            }
        }
    }
    Input small(64, 4);
    ASSERT_EQ(gpucoll_config_set(&small.settings, "channels", "6"), GPUCOLL_OK);
    EXPECT_TRUE(plan_of(small).linger);
}

TEST(selector, chunk_is_that_of_copies)
{
    Input input(uint64_t{1} << 28, 4);
    input.direct = GPUCOLL_DIRECT_STORES;
    for (const char *chunk : {"1", "64K", "1M", "1G"}) {
        ASSERT_EQ(gpucoll_config_set(&input.settings, "chunk", chunk), GPUCOLL_OK);
        input.coll = GPUCOLL_BCAST;
        ASSERT_EQ(gpucoll_config_set(&input.settings, "bcast_algorithm", "chain"), GPUCOLL_OK);
        ASSERT_EQ(gpucoll_config_set(&input.settings, "protocol", "copy"), GPUCOLL_OK);
        const gpucoll_plan plan = plan_of(input);
        const uint64_t wanted = (input.settings.chunk + 4095) / 4096 * 4096;
        EXPECT_TRUE(plan.chunk_bytes == wanted || (plan.chunk_bytes < wanted && wanted > 1 << 20)) << chunk;
        EXPECT_GT(plan.rounds, 0u);
    }
}

/* Boards count the chunks of a call in 24 bits. */
TEST(selector, calls_by_copies_have_no_more_chunks_than_can_be_counted)
{
    for (gpucoll_coll coll : {GPUCOLL_ALLREDUCE, GPUCOLL_BCAST, GPUCOLL_REDUCE, GPUCOLL_REDUCE_SCATTER}) {
        for (uint64_t bytes = 1 << 20; bytes <= uint64_t{1} << 42; bytes *= 2) {
            Input input(bytes, 3);
            input.coll = coll;
            input.direct = GPUCOLL_DIRECT_BULK;
            ASSERT_EQ(gpucoll_config_set(&input.settings, "chunk", "1"), GPUCOLL_OK);
            const gpucoll_algorithm *row;
            for (int i = 0; (row = gpucoll_algorithm_row(i)) != nullptr; i++) {
                if (gpucoll_algorithm_runs(row, coll) && strcmp(row->protocol, "copy") == 0 &&
                    gpucoll_unusable(row, &input) == nullptr) {
                    gpucoll_plan plan;
                    gpucoll_shape(row, &input, &plan);
                    EXPECT_LT(plan.rounds + 2, uint64_t{1} << 24) << row->name << ", " << bytes;
                }
            }
        }
    }
}

TEST(selector, forced_protocol_is_taken)
{
    for (const char *name : {"ll", "ll128", "simple"}) {
        Input input(5000, 4);
        ASSERT_EQ(gpucoll_config_set(&input.settings, "protocol", name), GPUCOLL_OK);
        EXPECT_STREQ(plan_of(input).algorithm->protocol, name);
    }
}

TEST(selector, ranks_that_share_a_gpu_go_in_phases)
{
    for (uint64_t bytes : {4u, 65536u, 1u << 30}) {
        Input input(bytes, 4);
        input.shared_device = true;
        EXPECT_STREQ(plan_of(input).algorithm->name, "phased");
    }
}

TEST(selector, large_messages_that_can_be_direct_are)
{
    for (gpucoll_coll coll : {GPUCOLL_ALLGATHER, GPUCOLL_ALLTOALL, GPUCOLL_BCAST, GPUCOLL_REDUCE}) {
        Input input(uint64_t{1} << 28, 4);
        input.coll = coll;
        EXPECT_FALSE(plan_of(input).algorithm->direct) << gpucoll_coll_name(coll);
        input.direct = GPUCOLL_DIRECT_STORES;
        EXPECT_TRUE(plan_of(input).algorithm->direct) << gpucoll_coll_name(coll);
        input.bytes = 64;
        EXPECT_FALSE(plan_of(input).algorithm->direct) << gpucoll_coll_name(coll);
    }
}

TEST(selector, calls_in_which_nobody_waits_do_not_need_the_host_between_steps)
{
    Input input(uint64_t{1} << 26, 4);
    input.coll = GPUCOLL_BCAST;
    input.direct = GPUCOLL_DIRECT_STORES;
    EXPECT_STREQ(plan_of(input).algorithm->name, "chain");
    input.unattended = true;
    EXPECT_STREQ(plan_of(input).algorithm->name, "exchange");
}

/* Where copies take a little longer than kernels: a call that nobody waits in goes by copies, and leaves the SMs to the application. */
TEST(selector, calls_beside_which_the_application_computes_go_by_copies)
{
    for (gpucoll_coll coll : {GPUCOLL_ALLGATHER, GPUCOLL_ALLTOALL, GPUCOLL_SCATTER}) {
        int apart = 0;
        for (uint64_t bytes = 16 << 10; bytes <= 1 << 30; bytes += bytes / 4) {
            Input input(bytes, 4);
            input.coll = coll;
            input.direct = GPUCOLL_DIRECT_STORES;
            const gpucoll_plan attended = plan_of(input);
            input.unattended = true;
            const gpucoll_plan plan = plan_of(input);
            EXPECT_LE(plan.predicted_us, attended.predicted_us * 3.3);
            EXPECT_TRUE(plan.algorithm->spares_sms || !attended.algorithm->spares_sms);
            apart += plan.algorithm != attended.algorithm;
        }
        EXPECT_GT(apart, 0) << gpucoll_coll_name(coll);
        Input large(uint64_t{1} << 30, 4);
        large.coll = coll;
        large.direct = GPUCOLL_DIRECT_STORES;
        large.unattended = true;
        EXPECT_STREQ(plan_of(large).algorithm->protocol, "copy") << gpucoll_coll_name(coll);
    }
}

/* Kernels between copies would wait for the application's; one kernel of few SMs does not, and takes little from it. */
TEST(selector, reductions_beside_which_the_application_computes_take_few_sms_and_no_late_kernels)
{
    for (gpucoll_coll coll :
         {GPUCOLL_ALLREDUCE, GPUCOLL_REDUCE, GPUCOLL_REDUCE_SCATTER, GPUCOLL_REDUCE_SCATTER_BLOCK}) {
        for (uint32_t ranks : {2, 4, 8}) {
            for (uint64_t bytes = 16 << 20; bytes <= 1 << 30; bytes *= 4) {
                Input input(bytes, ranks);
                input.coll = coll;
                input.unattended = true;
                input.direct = GPUCOLL_DIRECT_STORES;
                EXPECT_FALSE(plan_of(input).algorithm->late_kernels) << gpucoll_coll_name(coll);
                input.direct = GPUCOLL_DIRECT_BULK;
                const gpucoll_plan plan = plan_of(input);
                EXPECT_STREQ(plan.algorithm->protocol, "bulk") << gpucoll_coll_name(coll);
                EXPECT_LE(plan.ctas, 8u);
                EXPECT_EQ(plan.ctas % 2, 0u);
            }
        }
    }
}

/* Those of phases begin one after the other as well: where ranks share a GPU, copies are as welcome as they are beside other kernels. */
TEST(selector, kernels_of_phases_are_as_late_as_those_between_copies)
{
    int reduced_by_copies = 0;
    int moved_by_copies = 0;
    for (uint64_t bytes = 16 << 10; bytes <= 1 << 30; bytes += bytes / 4) {
        Input input(bytes, 4);
        input.shared_device = true;
        input.direct = GPUCOLL_DIRECT_STORES;
        const gpucoll_plan attended = plan_of(input);
        input.unattended = true;
        EXPECT_EQ(plan_of(input).algorithm, attended.algorithm) << bytes;
        EXPECT_TRUE(attended.algorithm->late_kernels) << attended.algorithm->name;
        reduced_by_copies += strcmp(attended.algorithm->protocol, "copy") == 0;
        input.coll = GPUCOLL_ALLGATHER;
        moved_by_copies += plan_of(input).algorithm->spares_sms;
        input.unattended = false;
        moved_by_copies -= plan_of(input).algorithm->spares_sms;
    }
    EXPECT_GT(reduced_by_copies, 0);
    EXPECT_GT(moved_by_copies, 0);
}

/* Of two kernels nearly as fast as each other: that of fewer SMs. */
TEST(selector, calls_in_which_nobody_waits_weigh_the_sms_that_a_plan_takes)
{
    Input input(64 << 20, 4);
    input.direct = GPUCOLL_DIRECT_BULK;
    gpucoll_model model = *gpucoll_model_of(0);
    model.bulk_us = 20; /* so that others are a little faster where somebody waits */
    model.copy_us = 1000;
    input.model = &model;
    EXPECT_STREQ(plan_of(input).algorithm->protocol, "simple");
    input.unattended = true;
    EXPECT_STREQ(plan_of(input).algorithm->protocol, "bulk");
}

TEST(selector, bulk_needs_buffers_that_peers_can_read)
{
    for (gpucoll_coll coll :
         {GPUCOLL_ALLREDUCE, GPUCOLL_REDUCE, GPUCOLL_REDUCE_SCATTER, GPUCOLL_REDUCE_SCATTER_BLOCK}) {
        Input input(64 << 20, 4);
        input.coll = coll;
        const gpucoll_algorithm *row;
        int rows = 0;
        for (int i = 0; (row = gpucoll_algorithm_row(i)) != nullptr; i++) {
            if (!row->bulk || !gpucoll_algorithm_runs(row, coll)) {
                continue;
            }
            rows++;
            for (auto direct : {GPUCOLL_DIRECT_NOT, GPUCOLL_DIRECT_STORES, GPUCOLL_DIRECT_BULK}) {
                input.direct = direct;
                EXPECT_EQ(gpucoll_unusable(row, &input) == nullptr, direct == GPUCOLL_DIRECT_BULK);
            }
            /* A slice of a tile is work for one pair of CTAs, and one CTA may be forced. */
            gpucoll_plan plan;
            input.bytes = 4096;
            gpucoll_shape(row, &input, &plan);
            EXPECT_EQ(plan.ctas, 2u);
            ASSERT_EQ(gpucoll_config_set(&input.settings, "channels", "1"), GPUCOLL_OK);
            gpucoll_shape(row, &input, &plan);
            EXPECT_EQ(plan.ctas, 1u);
        }
        EXPECT_EQ(rows, 1) << gpucoll_coll_name(coll);
    }
}

/* Chunks fit the slots, two of them at least where there is enough to cut; no more CTAs than keep up with the links. */
TEST(selector, reductions_by_copies_fit_the_scratch)
{
    for (gpucoll_coll coll : {GPUCOLL_ALLREDUCE, GPUCOLL_REDUCE, GPUCOLL_REDUCE_SCATTER}) {
        for (uint32_t ranks = 2; ranks <= 8; ranks++) {
            for (uint64_t bytes : {uint64_t{1000}, uint64_t{1} << 24, uint64_t{1} << 28, uint64_t{1} << 34}) {
                Input input(bytes, ranks);
                input.coll = coll;
                input.direct = GPUCOLL_DIRECT_STORES;
                const gpucoll_algorithm *row;
                for (int i = 0; (row = gpucoll_algorithm_row(i)) != nullptr; i++) {
                    if (!gpucoll_algorithm_runs(row, coll) || strcmp(row->protocol, "copy") != 0 ||
                        gpucoll_unusable(row, &input) != nullptr) {
                        continue;
                    }
                    gpucoll_plan plan;
                    gpucoll_shape(row, &input, &plan);
                    const uint32_t blocks = coll == GPUCOLL_REDUCE ? ranks : ranks - 1;
                    EXPECT_LE(plan.chunk_bytes * blocks * 2, input.data_bytes);
                    EXPECT_EQ(plan.chunk_bytes % 128, 0u);
                    EXPECT_GE(plan.rounds, bytes >= 1 << 24 ? 2u : 1u);
                    EXPECT_LE(plan.ctas, 64u);
                    EXPECT_GE(plan.ctas, 16u);
                }
            }
        }
    }
}

TEST(selector, is_a_function_of_its_input)
{
    Input input(123456, 5);
    gpucoll_plan first = plan_of(input);
    gpucoll_plan again = plan_of(input);
    EXPECT_EQ(first.algorithm, again.algorithm);
    EXPECT_EQ(first.ctas, again.ctas);
    EXPECT_EQ(first.threads, again.threads);
    EXPECT_EQ(first.rounds, again.rounds);
}

TEST(selector, forced_algorithm_is_taken_where_it_can_run)
{
    for (const char *name : {"oneshot", "twoshot", "phased"}) {
        Input input(5000, 4);
        ASSERT_EQ(gpucoll_config_set(&input.settings, "allreduce_algorithm", name), GPUCOLL_OK);
        EXPECT_STREQ(plan_of(input).algorithm->name, name);
    }
}

TEST(selector, forced_algorithm_that_cannot_run_is_said_once_with_the_reason)
{
    Input input(64 << 20, 4);
    ASSERT_EQ(gpucoll_config_set(&input.settings, "allreduce_algorithm", "oneshot"), GPUCOLL_OK);
    RecordingLog log;
    gpucoll_plan plan;
    bool said = false;
    EXPECT_EQ(gpucoll_select(&input, log.get(), &said, &plan), GPUCOLL_OK);
    EXPECT_EQ(gpucoll_select(&input, log.get(), &said, &plan), GPUCOLL_OK);
    EXPECT_STREQ(plan.algorithm->name, "twoshot");
    EXPECT_EQ(log.topics(), std::vector<std::string>{"algorithm-unusable"});
    std::string text = log.text_of("algorithm-unusable");
    for (const char *word : {"oneshot", "allreduce", "67108864", "larger than the LL area"}) {
        EXPECT_NE(text.find(word), std::string::npos) << text;
    }
}

/* A kernel must get a shape that its lane can hold, whatever the parameters. */
TEST(selector, shapes_fit_the_lane_and_the_limits)
{
    const uint64_t sizes[] = {
        0, 1, 15, 16, 4096, 100000, 1 << 20, uint64_t{1} << 32, uint64_t{16} * INT32_MAX};
    for (const char *scratch : {"1M", "16M", "4G"}) {
        for (const char *ctas : {"1", "7", "128"}) {
            for (uint32_t ranks = 2; ranks <= GPUCOLL_MAX_LOCAL; ranks += ranks < 8 ? 1 : 8) {
                for (uint64_t bytes : sizes) {
                    Input input(bytes, ranks);
                    ASSERT_EQ(gpucoll_config_set(&input.settings, "scratch_bytes", scratch), GPUCOLL_OK);
                    ASSERT_EQ(gpucoll_config_set(&input.settings, "max_ctas", ctas), GPUCOLL_OK);
                    ASSERT_EQ(gpucoll_config_set(&input.settings, "threads", "100"), GPUCOLL_OK);
                    input.data_bytes = input.settings.scratch_bytes;
                    SCOPED_TRACE(std::to_string(bytes) + " bytes, " + std::to_string(ranks) + " ranks, " +
                                 scratch);
                    const gpucoll_algorithm *row;
                    for (int i = 0; (row = gpucoll_algorithm_row(i)) != nullptr; i++) {
                        if (gpucoll_unusable(row, &input) != nullptr) {
                            continue;
                        }
                        gpucoll_plan plan;
                        memset(&plan, 0, sizeof plan);
                        row->shape(&input, &plan);
                        EXPECT_GE(plan.ctas, 1u);
                        EXPECT_LE(plan.ctas, static_cast<uint32_t>(input.settings.max_ctas));
                        EXPECT_EQ(plan.threads, 96u);
                        EXPECT_TRUE(strcmp(row->protocol, "simple") != 0 ||
                                    gpucoll_block_bytes(input.data_bytes, ranks, plan.ctas) >= 128);
                        EXPECT_TRUE(std::isfinite(plan.predicted_us) && plan.predicted_us > 0);
                    }
                }
            }
        }
    }
}

/* The bound of a size lies inside a class of sizes; both sides get what is theirs. */
TEST(selector, takes_what_is_forced_by_size)
{
    Input input(0, 4);
    ASSERT_EQ(gpucoll_config_set(&input.settings, "allreduce_algorithm", "oneshot:5000,twoshot:70000,phased"),
              GPUCOLL_OK);
    ASSERT_EQ(gpucoll_config_set(&input.settings, "protocol", "auto:30000,simple"), GPUCOLL_OK);
    for (uint64_t bytes = 4; bytes < 200000; bytes += 4) {
        input.bytes = bytes;
        const gpucoll_plan plan = plan_of(input);
        EXPECT_STREQ(plan.algorithm->name, bytes <= 5000    ? "oneshot"
                                           : bytes <= 70000 ? "twoshot"
                                                            : "phased")
            << bytes;
        EXPECT_STREQ(plan.algorithm->protocol, bytes <= 5000    ? "ll"
                                               : bytes <= 30000 ? "ll128"
                                                                : "simple")
            << bytes;
    }
}
