/*
 * The shapes of plans: how many CTAs and chunks, what they fit in, and which kernels linger.
 */
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include "test/unit/selector_input.h"

extern "C" {
#include "kernels/relay_abi.h"
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

/* One CTA where that suffices, more where there is more to store, as many as the GPUs and the parameters allow. */
TEST(selector, crews_grow_with_the_message)
{
    Input input(4096, 2);
    EXPECT_EQ(plan_of(input).ctas, 1u);
    input.bytes = 16 << 10;
    EXPECT_EQ(plan_of(input).ctas, 8u);
    input.bytes = 1 << 20;
    EXPECT_TRUE(plan_of(input).linger);
    EXPECT_EQ(plan_of(input).ctas, unsigned{GPUCOLL_CREW_CTAS});
    input.unattended = true; /* SMs that stay are SMs that the computation beside misses */
    EXPECT_FALSE(plan_of(input).linger && plan_of(input).ctas > 8);
    input.unattended = false;
    input.crew = 24;
    EXPECT_EQ(plan_of(input).ctas, 24u);
    ASSERT_EQ(gpucoll_config_set(&input.settings, "linger_ctas", "12"), GPUCOLL_OK);
    input.bytes = 256 << 10;
    EXPECT_EQ(plan_of(input).ctas, 12u);
    ASSERT_EQ(gpucoll_config_set(&input.settings, "linger_ctas", "5"), GPUCOLL_OK);
    input.bytes = 16 << 10;
    EXPECT_EQ(plan_of(input).ctas, 5u);
}

/* Every collective whose kernel is of LL, and none whose kernel is not. */
/* Between two ranks over LL128: a rank whose kernel lingers has other CTAs than one that launches, and where the area for lines is used again, places
 * depend on their number. */
TEST(selector, no_kernel_lingers_where_both_ranks_must_have_as_many_ctas)
{
    const uint64_t room = uint64_t{gpucoll_stream_room()} * GPUCOLL_LINE_PACKS * GPUCOLL_PACK_BYTES;
    for (gpucoll_coll coll : {GPUCOLL_ALLREDUCE, GPUCOLL_REDUCE, GPUCOLL_EXSCAN, GPUCOLL_ALLTOALL}) {
        for (const char *ctas : {"8", "48", "64"}) {
            for (uint64_t bytes : {room, room + 1, room * 5 / 4, room * 100}) {
                Input input(bytes, 2);
                input.coll = coll;
                ASSERT_EQ(gpucoll_config_set(&input.settings, "max_ctas", ctas), GPUCOLL_OK);
                const gpucoll_algorithm *row;
                for (int i = 0; (row = gpucoll_algorithm_row(i)) != nullptr; i++) {
                    if (!gpucoll_algorithm_runs(row, coll) || strcmp(row->protocol, "ll128") != 0 ||
                        gpucoll_unusable(row, &input) != nullptr) {
                        continue;
                    }
                    gpucoll_plan plan = {};
                    gpucoll_shape(row, &input, &plan);
                    EXPECT_FALSE(plan.linger && bytes > room) << row->name << ' ' << bytes << ' ' << ctas;
                    EXPECT_TRUE(plan.linger || strcmp(ctas, "8") != 0 || bytes > room || is_relay(row))
                        << row->name << ' ' << bytes;
                }
            }
        }
    }
    for (uint32_t row = 4; row <= gpucoll_stream_ctas(512) * 64; row += 4) {
        EXPECT_GE(gpucoll_stream_rows(row) * row, gpucoll_stream_room()) << row;
    }
}

TEST(selector, small_exchanges_linger_too)
{
    for (int coll = 0; coll < GPUCOLL_COLL_COUNT; coll++) {
        for (uint64_t bytes : {8u, 32u << 10}) {
            Input input(bytes, 4);
            input.coll = static_cast<gpucoll_coll>(coll);
            const gpucoll_plan small = plan_of(input);
            EXPECT_TRUE(small.linger) << gpucoll_coll_name(input.coll);
            EXPECT_TRUE(small.ctas == 1 || small.ctas % 8 == 0) << small.ctas;
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
                    const char *threads, const char *early = "false")
{
    Input input(bytes, ranks);
    input.coll = coll;
    EXPECT_EQ(gpucoll_config_set(&input.settings, "threads", threads), GPUCOLL_OK);
    EXPECT_EQ(gpucoll_config_set(&input.settings, "early", early), GPUCOLL_OK);
    const gpucoll_algorithm *row;
    for (int i = 0; (row = gpucoll_algorithm_row(i)) != nullptr; i++) {
        if (gpucoll_algorithm_runs(row, coll) && strcmp(row->protocol, protocol) == 0 &&
            gpucoll_unusable(row, &input) == nullptr) {
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

/* What the kernels leave to one CTA does not cost what several do: up to a pack a thread, of all that is moved to peers, of one run that
 * is reduced; and never by LL128, which takes a hop more, both longer ones, or between two ranks one that is longer. */
TEST(selector, several_ctas_are_paid_beyond_a_pack_a_thread)
{
    const double several = gpucoll_model_of(0)->crew_us + 8 * 0.015;
    const double little = 0.05; /* more than to store another pack */
    for (uint32_t ranks : {2, 4, 8}) {
        for (const char *threads : {"64", "256"}) {
            const uint64_t bound = std::stoul(threads) * GPUCOLL_PACK_BYTES;
            auto step = [&](gpucoll_coll coll, uint64_t bytes) {
                return lingering_us("ll", coll, bytes + 16, ranks, threads) -
                       lingering_us("ll", coll, bytes, ranks, threads);
            };
            const uint64_t run = bound / 16 / (ranks - 1) * 16;
            EXPECT_NEAR(step(GPUCOLL_ALLREDUCE, bound), several, little);
            EXPECT_NEAR(step(GPUCOLL_ALLTOALL, run), several + (ranks > 2 ? 1.2 - 0.8 : 0), little);
            EXPECT_NEAR(step(GPUCOLL_ALLREDUCE, bound - 16), 0, little);
            EXPECT_NEAR(step(GPUCOLL_ALLTOALL, run - 16), 0, little);
            EXPECT_NEAR(step(GPUCOLL_SCAN, bound - 16), 0, little);
            EXPECT_NEAR(lingering_us("ll128", GPUCOLL_ALLREDUCE, 16, ranks, threads),
                        lingering_us("ll", GPUCOLL_ALLREDUCE, 16, ranks, threads) + several +
                            (ranks > 2 ? 0.5 + 0.62 + 2 * 0.3 : 0.5 + 1.1),
                        little);
        }
    }
}

/* An all-reduce for inboxes does not wait for posts. */
TEST(selector, what_begins_early_is_as_much_sooner_done)
{
    const double sooner = gpucoll_model_of(0)->agree_us;
    for (uint64_t bytes : {8, 8192}) {
        EXPECT_DOUBLE_EQ(lingering_us("ll", GPUCOLL_ALLREDUCE, bytes, 4, "512") - sooner,
                         lingering_us("ll", GPUCOLL_ALLREDUCE, bytes, 4, "512", "true"));
    }
    EXPECT_EQ(lingering_us("ll", GPUCOLL_ALLREDUCE, 8208, 4, "512"),
              lingering_us("ll", GPUCOLL_ALLREDUCE, 8208, 4, "512", "true"));
    EXPECT_EQ(lingering_us("ll", GPUCOLL_ALLREDUCE, 8192, 4, "256"),
              lingering_us("ll", GPUCOLL_ALLREDUCE, 8192, 4, "256", "true"))
        << "by several CTAs";
    EXPECT_EQ(lingering_us("ll", GPUCOLL_SCAN, 8, 4, "512"),
              lingering_us("ll", GPUCOLL_SCAN, 8, 4, "512", "true"));
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

/* Where parts wait in the receive buffers, two chunks do; but not where that of a last slice is missing. */
TEST(selector, allreduce_by_copies_needs_no_scratch_where_receive_buffers_are_free)
{
    for (uint32_t ranks : {2, 4, 8}) {
        Input input(uint64_t{1} << 34, ranks);
        input.direct = GPUCOLL_DIRECT_STORES;
        ASSERT_EQ(gpucoll_config_set(&input.settings, "allreduce_algorithm", "twoshot"), GPUCOLL_OK);
        ASSERT_EQ(gpucoll_config_set(&input.settings, "protocol", "copy"), GPUCOLL_OK);
        const gpucoll_plan bounded = plan_of(input);
        EXPECT_LE(bounded.chunk_bytes * 2 * (ranks - 1), input.data_bytes);
        input.room = true;
        const gpucoll_plan free = plan_of(input);
        EXPECT_EQ(free.rounds, 2u);
        EXPECT_GE(free.chunk_bytes * 2 * ranks, input.bytes);
        EXPECT_LE(free.predicted_us, bounded.predicted_us);
        input.bytes = 100; /* of which the first rank has all */
        input.data_bytes = 128;
        EXPECT_NE(gpucoll_unusable(bounded.algorithm, &input), nullptr);
        input.bytes = 128 * ranks - 4;
        EXPECT_EQ(gpucoll_unusable(bounded.algorithm, &input), nullptr);
    }
}

/* Half as many threads in each of twice as many CTAs, where many bytes leave and somebody waits in the call. */
TEST(selector, large_messages_have_many_ctas)
{
    const std::pair<gpucoll_coll, const char *> rows[] = {{GPUCOLL_ALLREDUCE, "twoshot"},
                                                          {GPUCOLL_REDUCE, "ring"},
                                                          {GPUCOLL_REDUCE_SCATTER, "ring"},
                                                          {GPUCOLL_SCAN, "chain"}};
    for (const auto &[coll, name] : rows) {
        SCOPED_TRACE(name);
        const auto shape = [&, coll = coll, name = name](Input &input) {
            gpucoll_plan plan = {};
            input.coll = coll;
            gpucoll_shape(row_of(coll, name, "simple"), &input, &plan);
            return std::make_pair(plan.ctas, plan.threads);
        };
        const std::pair<uint32_t, uint32_t> few{64, 512}, many{128, 256};
        Input large(64 << 20, 4), small(4 << 20, 4);
        EXPECT_EQ(shape(large), many);
        EXPECT_EQ(shape(small), few);
        large.resident = 128;
        EXPECT_EQ(shape(large), many);
        large.resident = 108;
        EXPECT_EQ(shape(large), few);
        large.resident = 0;
        large.unattended = true;
        EXPECT_EQ(shape(large), few);
        large.unattended = false;
        large.crowded = true;
        EXPECT_LE(shape(large).first, 32u);
        large.crowded = false;
        large.whole_lines = false;
        EXPECT_EQ(shape(large), few);
        large.whole_lines = true;
        for (auto [parameter, value] :
             {std::make_pair("max_ctas", "100"), std::make_pair("max_ctas", "127")}) {
            ASSERT_EQ(gpucoll_config_set(&large.settings, parameter, value), GPUCOLL_OK);
            EXPECT_EQ(shape(large), few) << value;
        }
        ASSERT_EQ(gpucoll_config_set(&large.settings, "max_ctas", "128"), GPUCOLL_OK);
        ASSERT_EQ(gpucoll_config_set(&large.settings, "threads", "191"), GPUCOLL_OK);
        EXPECT_EQ(shape(large).first, 64u);
        ASSERT_EQ(gpucoll_config_set(&large.settings, "channels", "100"), GPUCOLL_OK);
        EXPECT_EQ(shape(large).first, 100u);
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
                        gpucoll_shape(row, &input, &plan);
                        EXPECT_GE(plan.ctas, 1u);
                        EXPECT_LE(plan.ctas, static_cast<uint32_t>(input.settings.max_ctas));
                        EXPECT_EQ(plan.threads, 96u);
                        EXPECT_TRUE(strcmp(row->protocol, "simple") != 0 || is_relay(row) ||
                                    gpucoll_block_bytes(input.data_bytes, ranks, plan.ctas) >= 128);
                        EXPECT_TRUE(!is_relay(row) ||
                                    gpucoll_relay_slot_packs(GPUCOLL_RELAY_TREE, GPUCOLL_RELAY_SIMPLE,
                                                             plan.ctas, input.data_bytes) > 0);
                        EXPECT_TRUE(std::isfinite(plan.predicted_us) && plan.predicted_us > 0);
                    }
                }
            }
        }
    }
}

/* What the kernel relies on: stages fit in its shared memory, and each is always the same group's, however many ranks there are. */
TEST(selector, stages_of_bulk_belong_to_one_group_each)
{
    for (uint32_t ranks = 2; ranks <= GPUCOLL_MAX_LOCAL; ranks++) {
        const uint32_t stages = gpucoll_bulk_stages(ranks);
        EXPECT_EQ(stages % GPUCOLL_BULK_GROUPS, 0u) << ranks;
        EXPECT_GE(stages, unsigned{GPUCOLL_BULK_LEAST_STAGES}) << ranks;
        EXPECT_LE(stages, unsigned{GPUCOLL_BULK_MAX_STAGES}) << ranks;
        EXPECT_LE(stages * ranks * gpucoll_bulk_tile_bytes(ranks), unsigned{GPUCOLL_BULK_SHARED_BYTES})
            << ranks;
    }
}

/* A reduction that its kernel calls for each pack takes the SM longer, so the links are filled by more of them. */
TEST(selector, a_rare_reduction_in_bulk_has_more_ctas)
{
    Input input(size_t{16} << 20, 4);
    input.coll = GPUCOLL_REDUCE;
    input.direct = GPUCOLL_DIRECT_BULK;
    const gpucoll_plan sum = plan_of(input);
    input.functor = GPUCOLL_FN_prod_f32;
    const gpucoll_plan product = plan_of(input);
    ASSERT_STREQ(sum.algorithm->protocol, "bulk");
    ASSERT_STREQ(product.algorithm->protocol, "bulk");
    EXPECT_GT(product.ctas, sum.ctas);
    input.settings.max_ctas = static_cast<int>(sum.ctas);
    EXPECT_LE(plan_of(input).ctas, sum.ctas);
}

/* Of the call beside others, by every algorithm that runs it. */
static void expect_room_for_all_lanes(Input &input)
{
    const unsigned lanes = static_cast<unsigned>(input.settings.lanes);
    const unsigned each = std::max(input.resident / lanes, 1u);
    const gpucoll_algorithm *row;
    for (int i = 0; (row = gpucoll_algorithm_row(i)) != nullptr; i++) {
        if (!gpucoll_algorithm_runs(row, input.coll)) {
            continue;
        }
        gpucoll_plan alone;
        gpucoll_plan crowded;
        input.crowded = false;
        gpucoll_shape(row, &input, &alone);
        input.crowded = true;
        gpucoll_shape(row, &input, &crowded);
        SCOPED_TRACE(std::string(row->name) + "/" + row->protocol + " of " + std::to_string(input.bytes));
        EXPECT_FALSE(crowded.linger);
        if (row->waits) {
            EXPECT_LE(crowded.ctas, each);
        } else {
            EXPECT_EQ(crowded.ctas, alone.linger ? alone.launch_ctas : alone.ctas);
        }
    }
}

/* Calls beside each other: what waits for other ranks fits on the GPU for every lane at once, and what does not is as it was. */
TEST(selector, kernels_of_all_lanes_fit_beside_each_other)
{
    for (int coll = 0; coll < GPUCOLL_COLL_COUNT; coll++) {
        for (uint64_t bytes = 4; bytes <= 1 << 30; bytes *= 8) {
            Input input(bytes, 4);
            input.coll = static_cast<gpucoll_coll>(coll);
            input.direct = GPUCOLL_DIRECT_STORES;
            for (unsigned resident : {128u, 32u, 3u}) {
                for (int lanes : {1, 4, 64}) {
                    input.resident = resident;
                    input.settings.lanes = lanes;
                    expect_room_for_all_lanes(input);
                }
            }
        }
    }
}
