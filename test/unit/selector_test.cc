/*
 * The selector: which way a call goes, what time the model predicts, what is forced.
 */
#include "test/unit/selector_input.h"

namespace
{
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

/* No cliffs, save for the few percent that the end of a protocol's area may cost, or a crew of several CTAs where one no longer
 * suffices (a sixth: docs/design-linger.md): neither the time nor the bandwidth that the model predicts ever falls as the message grows. Phases are launched for whole
 * passes over the scratch, so of them only the time is asked. */
TEST(selector, predicted_time_and_bandwidth_grow_with_the_message)
{
    for (int kind = 0; kind < 4; kind++) {
        const bool shared = kind == 3;
        for (uint32_t ranks : {2, 3, 4, 8, 32}) {
            double time = 0;
            double bandwidth = 0;
            for (double size = 16; size < 1e10; size *= 1.19) {
                Input input(static_cast<uint64_t>(size) / 16 * 16, ranks);
                input.sharers = shared ? ranks : 1;
                input.whole_lines = kind < 2;
                input.crew = kind == 0 ? GPUCOLL_CREW_CTAS : 1;
                double now = plan_of(input).predicted_us;
                EXPECT_GE(now, time * 0.9999) << input.bytes << " bytes, " << ranks << " ranks";
                EXPECT_GE(static_cast<double>(input.bytes) / now, shared ? 0 : bandwidth * 0.84)
                    << input.bytes << " bytes, " << ranks << " ranks";
                time = now;
                bandwidth = static_cast<double>(input.bytes) / now;
            }
        }
    }
}

/* Of sums by cores, too, which threads help with once there is enough of all blocks together. */
TEST(selector, predicted_time_of_sums_in_host_memory_grows_with_the_message)
{
    for (gpucoll_coll coll : {GPUCOLL_ALLREDUCE, GPUCOLL_REDUCE_SCATTER}) {
        for (uint32_t ranks : {2, 8, 32}) {
            double time = 0;
            for (double size = 16; size < 1e9; size *= 1.19) {
                Input input(static_cast<uint64_t>(size) / 16 * 16, ranks);
                input.coll = coll;
                input.ways = GPUCOLL_TL_PIPES | GPUCOLL_TL_SUMS;
                ASSERT_EQ(gpucoll_config_set(&input.settings,
                                             coll == GPUCOLL_ALLREDUCE ? "allreduce_algorithm"
                                                                       : "reduce_scatter_algorithm",
                                             "cpu"),
                          GPUCOLL_OK);
                const double now = plan_of(input).predicted_us;
                EXPECT_GE(now, time * 0.9999) << input.bytes << " bytes, " << ranks << " ranks";
                time = now;
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
        input.sharers = 4;
        EXPECT_STREQ(plan_of(input).algorithm->name, "phased");
    }
}

/* Under MPS nobody waits for a turn. */
TEST(selector, ranks_that_share_a_gpu_at_the_same_time_go_as_others)
{
    for (uint64_t bytes : {4u, 65536u, 1u << 30}) {
        Input input(bytes, 4);
        input.ways = GPUCOLL_TL_STORES | GPUCOLL_TL_PIPES | GPUCOLL_TL_SUMS;
        const gpucoll_plan alone = plan_of(input);
        input.sharers = 4;
        input.concurrent = true;
        const gpucoll_plan plan = plan_of(input);
        EXPECT_STREQ(plan.algorithm->name, alone.algorithm->name);
        EXPECT_DOUBLE_EQ(plan.predicted_us, alone.predicted_us);
    }
}

/* The root alone copies, or the other alone reduces. */
TEST(selector, two_ranks_that_share_a_gpu_go_within_it_where_one_works)
{
    for (gpucoll_coll coll : {GPUCOLL_BCAST, GPUCOLL_REDUCE, GPUCOLL_ALLGATHER}) {
        Input input(1 << 20, 2);
        input.ways = GPUCOLL_TL_STORES | GPUCOLL_TL_PIPES | GPUCOLL_TL_SUMS;
        input.sharers = 2;
        input.coll = coll;
        input.functor = coll == GPUCOLL_REDUCE ? input.functor : 0;
        input.direct = GPUCOLL_DIRECT_BULK;
        EXPECT_EQ(plan_of(input).algorithm->direct, coll != GPUCOLL_ALLGATHER) << coll;
    }
}

/* Through the host, where no turn on the GPU is waited for, as long as its bandwidth is not what counts. */
TEST(selector, ranks_that_share_a_gpu_go_through_the_host)
{
    for (uint32_t sharers : {2, 4}) {
        Input input(8, 4);
        input.ways = GPUCOLL_TL_STORES | GPUCOLL_TL_PIPES | GPUCOLL_TL_SUMS;
        input.sharers = sharers;
        input.direct = GPUCOLL_DIRECT_STORES;
        EXPECT_STREQ(plan_of(input).algorithm->name, "cpu");
        input.bytes = 1 << 20;
        EXPECT_STREQ(plan_of(input).algorithm->name, "cpu");
        input.bytes = 64 << 20;
        EXPECT_STREQ(plan_of(input).algorithm->protocol, "copy");
        input.coll = GPUCOLL_ALLGATHER;
        input.functor = 0;
        input.bytes = 8;
        EXPECT_STREQ(plan_of(input).algorithm->name, "pipes");
    }
}

TEST(selector, large_messages_that_can_be_direct_are)
{
    for (gpucoll_coll coll : {GPUCOLL_ALLREDUCE, GPUCOLL_ALLGATHER, GPUCOLL_ALLTOALL, GPUCOLL_BCAST}) {
        Input input(coll == GPUCOLL_BCAST ? 1 << 30 : 1 << 28,
                    4); /* below, a ring brings a broadcast as fast */
        input.coll = coll;
        EXPECT_FALSE(plan_of(input).algorithm->direct) << gpucoll_coll_name(coll);
        input.direct = GPUCOLL_DIRECT_STORES;
        EXPECT_TRUE(plan_of(input).algorithm->direct) << gpucoll_coll_name(coll);
        input.bytes = 64;
        EXPECT_FALSE(plan_of(input).algorithm->direct) << gpucoll_coll_name(coll);
    }
}

TEST(selector, bulk_needs_buffers_that_peers_can_read)
{
    for (gpucoll_coll coll : {GPUCOLL_ALLREDUCE, GPUCOLL_REDUCE, GPUCOLL_REDUCE_SCATTER,
                              GPUCOLL_REDUCE_SCATTER_BLOCK, GPUCOLL_BCAST}) {
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
            input.bulk = false; /* some other rank's GPU does not */
            EXPECT_NE(gpucoll_unusable(row, &input), nullptr);
            input.bulk = true;
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
    uint32_t said = 0;
    EXPECT_EQ(gpucoll_select(&input, log.get(), &said, &plan), GPUCOLL_OK);
    EXPECT_EQ(gpucoll_select(&input, log.get(), &said, &plan), GPUCOLL_OK);
    EXPECT_STREQ(plan.algorithm->name, "twoshot");
    EXPECT_EQ(log.topics(), std::vector<std::string>{"algorithm-unusable"});
    std::string text = log.text_of("algorithm-unusable");
    for (const char *word : {"oneshot", "allreduce", "67108864", "larger than the LL area"}) {
        EXPECT_NE(text.find(word), std::string::npos) << text;
    }
}

/* What is said of one collective's forced algorithm leaves the others to be said. */
TEST(selector, what_cannot_run_is_said_of_each_collective)
{
    Input input(64 << 20, 4);
    ASSERT_EQ(gpucoll_config_set(&input.settings, "allreduce_algorithm", "oneshot"), GPUCOLL_OK);
    ASSERT_EQ(gpucoll_config_set(&input.settings, "reduce_algorithm", "twoshot"), GPUCOLL_OK);
    RecordingLog log;
    gpucoll_plan plan;
    uint32_t said = 0;
    for (gpucoll_coll coll : {GPUCOLL_ALLREDUCE, GPUCOLL_REDUCE, GPUCOLL_REDUCE, GPUCOLL_ALLREDUCE}) {
        input.coll = coll;
        EXPECT_EQ(gpucoll_select(&input, log.get(), &said, &plan), GPUCOLL_OK);
    }
    EXPECT_EQ(log.topics(), std::vector<std::string>(2, "algorithm-unusable"));
}

/* Rings add in another order than the rest: so what else is under way must not decide who adds. */
TEST(selector, calls_beside_it_do_not_change_the_algorithm)
{
    for (gpucoll_coll coll : {GPUCOLL_ALLREDUCE, GPUCOLL_REDUCE, GPUCOLL_REDUCE_SCATTER_BLOCK}) {
        for (uint32_t ranks : {2, 3, 4, 8}) {
            for (uint64_t bytes = 8; bytes <= uint64_t{1} << 30; bytes *= 2) {
                Input input(bytes, ranks);
                input.coll = coll;
                const gpucoll_plan alone = plan_of(input);
                input.crowded = true;
                const gpucoll_plan crowded = plan_of(input);
                EXPECT_EQ(crowded.algorithm, alone.algorithm)
                    << gpucoll_coll_name(coll) << " of " << bytes << " bytes by " << ranks << " ranks";
                EXPECT_TRUE(!is_relay(crowded.algorithm) || crowded.ctas % 2 == 0 || alone.ctas == 1);
            }
        }
    }
}

/* By LL128 as soon as that is faster: with a crew that has waited for the call its hop is not seen, in a kernel of its own it is. */
TEST(selector, two_ranks_swap_all_but_few_bytes)
{
    for (bool waits : {false, true}) {
        Input input(256, 2);
        input.crew = waits ? GPUCOLL_CREW_CTAS : 0;
        EXPECT_STREQ(plan_of(input).algorithm->name, "oneshot");
        EXPECT_STREQ(plan_of(input).algorithm->protocol, "ll");
        for (uint64_t bytes : {1u << 20, 4u << 20}) {
            input.bytes = bytes;
            EXPECT_STREQ(plan_of(input).algorithm->name, "oneshot") << bytes;
            EXPECT_STREQ(plan_of(input).algorithm->protocol, "ll128") << bytes;
        }
        input.nranks = 4;
        EXPECT_STREQ(plan_of(input).algorithm->name, "twoshot");
    }
}

TEST(selector, rings_are_taken_where_neighbours_alone_have_good_links)
{
    for (gpucoll_coll coll : {GPUCOLL_ALLREDUCE, GPUCOLL_ALLGATHER, GPUCOLL_BCAST, GPUCOLL_REDUCE}) {
        Input input(16 << 20, 4);
        input.coll = coll;
        input.whole_lines = false;
        input.latency_us = 1.5;
        input.bandwidth = 25e9;
        const double before = plan_of(input).predicted_us;
        input.ring_whole_lines = true;
        input.ring_latency_us = 0.62;
        input.ring_bandwidth = 80e9;
        EXPECT_STREQ(plan_of(input).algorithm->name, "ring") << gpucoll_coll_name(coll);
        EXPECT_LT(plan_of(input).predicted_us, before);
    }
}

/* Two steps to everybody beat many to a neighbour. (Between two ranks there are as many, and LL128 for all collectives.) */
/* Large blocks that are moved or reduced once, in buffers that peers cannot write, go along rings as fast or faster (docs/design-rings.md). */
TEST(selector, rings_do_not_displace_what_goes_to_all_where_all_have_good_links)
{
    for (gpucoll_coll coll : {GPUCOLL_ALLREDUCE, GPUCOLL_ALLGATHER, GPUCOLL_REDUCE_SCATTER_BLOCK}) {
        const uint64_t largest = coll == GPUCOLL_ALLREDUCE ? uint64_t{1} << 30 : uint64_t{1} << 20;
        for (uint32_t ranks : {4, 8}) {
            for (uint64_t bytes = 8; bytes <= largest; bytes *= 2) {
                Input input(bytes, ranks);
                input.coll = coll;
                EXPECT_FALSE(is_relay(plan_of(input).algorithm))
                    << gpucoll_coll_name(coll) << ' ' << bytes << " on " << ranks;
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

/* Several bounds inside one class of sizes: what is chosen for one size is that for all that the choice is kept for. */
TEST(selector, takes_what_is_forced_for_few_sizes)
{
    Input input(0, 4);
    ASSERT_EQ(gpucoll_config_set(&input.settings, "allreduce_algorithm", "oneshot:5004,twoshot:5008,oneshot"),
              GPUCOLL_OK);
    RecordingLog log;
    uint32_t said = 0;
    for (uint64_t bytes = 4900; bytes < 5200; bytes += 4) {
        gpucoll_choice choice;
        input.bytes = bytes;
        ASSERT_EQ(gpucoll_choose(&input, log.get(), &said, &choice), GPUCOLL_OK);
        for (uint64_t other = choice.low; other <= choice.high; other++) {
            EXPECT_STREQ(choice.algorithm->name, other > 5004 && other <= 5008 ? "twoshot" : "oneshot")
                << other << " as " << bytes;
        }
    }
}

/* What ranks may have differently no plan depends on: each makes its own, and all must be the same. */
TEST(selector, settings_that_ranks_may_have_differently_are_not_asked)
{
    for (int i = 0; i < gpucoll_config_row_count; i++) {
        const gpucoll_config_row &row = gpucoll_config_rows[i];
        if (row.equal || row.type == GPUCOLL_CONFIG_STRING) {
            continue;
        }
        Input other(0, 2);
        const bool is_bool = row.type == GPUCOLL_CONFIG_BOOL;
        const char *value = !is_bool ? "1" : strcmp(row.initial, "true") == 0 ? "false" : "true";
        ASSERT_EQ(gpucoll_config_set(&other.settings, row.name, value), GPUCOLL_OK) << row.name;
        for (int coll = 0; coll < GPUCOLL_COLL_COUNT; coll++) {
            for (uint32_t ranks : {2, 4, 7, 8, 12}) {
                for (uint64_t bytes = 512; bytes < 64 << 20; bytes += bytes / 16) {
                    Input input(bytes, ranks);
                    input.coll = other.coll = static_cast<gpucoll_coll>(coll);
                    other.bytes = bytes;
                    other.nranks = ranks;
                    const gpucoll_plan one = plan_of(input);
                    const gpucoll_plan two = plan_of(other);
                    ASSERT_TRUE(one.algorithm == two.algorithm && one.ctas == two.ctas &&
                                one.threads == two.threads)
                        << row.name << ": " << gpucoll_coll_name(input.coll) << ", " << bytes << " bytes, "
                        << ranks;
                }
            }
        }
    }
}
