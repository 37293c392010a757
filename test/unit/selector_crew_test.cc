/*
 * Crews of the kernels that move and reduce in bulk: which calls they are for, and of how many CTAs.
 */
#include "test/unit/selector_input.h"

namespace
{
struct Row {
    gpucoll_coll coll;
    const char *name;
    const char *protocol;
};
const Row rows[] = {
    {GPUCOLL_ALLREDUCE, "twoshot", "bulk"},       {GPUCOLL_REDUCE, "scatter_gather", "bulk"},
    {GPUCOLL_REDUCE_SCATTER, "exchange", "bulk"}, {GPUCOLL_ALLGATHER, "exchange", "direct"},
    {GPUCOLL_ALLTOALLV, "exchange", "direct"},  {GPUCOLL_BCAST, "scatter_allgather", "bulk"},
};

/* The shape of that row, whether or not it is the best one. */
gpucoll_plan shape_of(const Row &wanted, const gpucoll_plan_input &input)
{
    gpucoll_plan plan = {};
    const gpucoll_algorithm *row = row_of(wanted.coll, wanted.name, wanted.protocol);
    if (row == nullptr) {
        ADD_FAILURE() << wanted.name << "/" << wanted.protocol;
        return plan;
    }
    gpucoll_shape(row, &input, &plan);
    return plan;
}

struct BulkInput : Input {
    BulkInput(gpucoll_coll of, uint64_t message, uint32_t ranks) : Input(message, ranks)
    {
        coll = of;
        direct = GPUCOLL_DIRECT_BULK;
        room = true;
    }
};
} // namespace

TEST(crews, bulk_calls_linger_and_save_their_launch)
{
    for (const Row &row : rows) {
        for (uint32_t ranks : {2, 3, 4, 8, 30}) {
            BulkInput input(row.coll, 1 << 20, ranks);
            const gpucoll_plan plan = shape_of(row, input);
            EXPECT_TRUE(plan.linger) << row.name << " " << ranks;
            EXPECT_GT(plan.launched_us, plan.predicted_us + 3) << row.name << " " << ranks;
            EXPECT_LE(plan.ctas, unsigned{GPUCOLL_CREW_CTAS});
            EXPECT_EQ(plan.ctas % 2, 0u) << "they come in pairs";
            input.settings.linger = 0;
            const gpucoll_plan launched = shape_of(row, input);
            EXPECT_FALSE(launched.linger);
            EXPECT_EQ(launched.predicted_us, plan.launched_us);
            EXPECT_EQ(launched.ctas, plan.launch_ctas);
        }
    }
}

TEST(crews, bulk_calls_are_launched_where_none_can_stay)
{
    for (const Row &row : rows) {
        BulkInput input(row.coll, 1 << 20, 4);
        input.bulk = false;
        EXPECT_FALSE(shape_of(row, input).linger) << row.name << ", GPUs that do not move in bulk";
        input.bulk = true;
        input.unattended = true;
        EXPECT_FALSE(shape_of(row, input).linger) << row.name << ", beside a computation";
        input.unattended = false;
        input.whole_lines = false;
        EXPECT_FALSE(shape_of(row, input).linger) << row.name << ", other links than NVLink";
        input.whole_lines = true;
        input.crowded = true;
        EXPECT_FALSE(shape_of(row, input).linger) << row.name << ", beside other calls";
        input.crowded = false;
        input.sharers = 4;
        EXPECT_FALSE(shape_of(row, input).linger) << row.name << ", in turn";
        input.concurrent = true;
        EXPECT_TRUE(shape_of(row, input).linger) << row.name << ", under MPS";
        input.sharers = 1;
        input.crew = 0;
        EXPECT_FALSE(shape_of(row, input).linger) << row.name << ", no crews";
        input.crew = GPUCOLL_CREW_CTAS;
        input.nranks = GPUCOLL_BELL_MAX_RANKS + 1;
        EXPECT_FALSE(shape_of(row, input).linger) << row.name << ", more ranks than a bell names";
        input.nranks = 4;
        input.bytes = uint64_t{5} << 32;
        EXPECT_FALSE(shape_of(row, input).linger) << row.name << ", more bytes than a bell counts";
    }
}

TEST(crews, are_as_large_as_parameters_and_gpus_allow)
{
    for (const Row &row : rows) {
        BulkInput input(row.coll, 256 << 10, 4);
        const unsigned free = shape_of(row, input).ctas;
        EXPECT_GE(free, 8u) << row.name;
        ASSERT_EQ(gpucoll_config_set(&input.settings, "linger_ctas", "5"), GPUCOLL_OK);
        EXPECT_EQ(shape_of(row, input).ctas, 4u) << row.name;
        input.settings.linger_ctas = GPUCOLL_CREW_CTAS;
        input.crew = 6;
        EXPECT_EQ(shape_of(row, input).ctas, 6u) << row.name;
        input.crew = GPUCOLL_CREW_CTAS;
        ASSERT_EQ(gpucoll_config_set(&input.settings, "channels", "7"), GPUCOLL_OK);
        EXPECT_EQ(shape_of(row, input).ctas, 7u) << row.name;
        EXPECT_TRUE(shape_of(row, input).linger) << row.name;
        ASSERT_EQ(gpucoll_config_set(&input.settings, "channels", "48"), GPUCOLL_OK);
        EXPECT_FALSE(shape_of(row, input).linger) << row.name << ", more than stay";
    }
}

/* One that waits for nobody stays until a rank that had to launch its own is done, which is a matter of launches and not of the message. */
TEST(crews, that_wait_for_nobody_stay_longer)
{
    for (const Row &row : rows) {
        BulkInput input(row.coll, 1 << 20, 4);
        const gpucoll_plan plan = shape_of(row, input);
        ASSERT_TRUE(plan.linger) << row.name;
        const uint32_t linger_ns = gpucoll_linger_ns(&input.settings);
        EXPECT_GE(gpucoll_plan_stays_ns(&plan, &input.settings),
                  linger_ns + (plan.launched_us - plan.predicted_us) * 1e3)
            << row.name;
        input.bytes = 1 << 30;
        const gpucoll_plan large = shape_of(row, input);
        EXPECT_LE(gpucoll_plan_stays_ns(&large, &input.settings), linger_ns + 30000) << row.name;
    }
    BulkInput input(GPUCOLL_ALLREDUCE, 1024, 4);
    const gpucoll_plan plan = shape_of({GPUCOLL_ALLREDUCE, "oneshot", "ll"}, input);
    EXPECT_TRUE(plan.linger);
    EXPECT_EQ(gpucoll_plan_stays_ns(&plan, &input.settings), gpucoll_linger_ns(&input.settings));
}

/* All ranks but the root have nothing to do in the first step, and wait for their step of the next call. */
TEST(crews, of_two_steps_stay_if_one_is_shorter_than_they_wait)
{
    const Row row = {GPUCOLL_BCAST, "scatter_allgather", "direct"};
    BulkInput input(GPUCOLL_BCAST, 1 << 20, 4);
    EXPECT_TRUE(shape_of(row, input).linger);
    input.bytes = 4 << 20;
    EXPECT_FALSE(shape_of(row, input).linger);
    input.settings.linger = 100;
    EXPECT_TRUE(shape_of(row, input).linger);
}

/* Which is why the ranks agree on whether calls come too far apart for crews (core/habit.h). */
TEST(crews, without_them_another_plan_may_be_the_best)
{
    BulkInput input(GPUCOLL_ALLREDUCE, 16 << 20, 4);
    const gpucoll_plan soon = plan_of(input);
    input.crew = 0;
    const gpucoll_plan apart = plan_of(input);
    EXPECT_TRUE(soon.linger);
    EXPECT_FALSE(apart.linger);
    EXPECT_STREQ(soon.algorithm->protocol, "bulk");
    EXPECT_STREQ(apart.algorithm->protocol, "direct");
    EXPECT_LT(apart.predicted_us, soon.launched_us);
}

/* Sums by a ring or tree have other bits than those by a crew, and whether calls come in time is a matter of chance. */
TEST(crews, without_them_reductions_keep_the_order_of_ranks)
{
    for (gpucoll_coll coll : {GPUCOLL_ALLREDUCE, GPUCOLL_REDUCE, GPUCOLL_REDUCE_SCATTER, GPUCOLL_SCAN}) {
        for (uint32_t ranks : {2, 3, 4, 8}) {
            for (uint64_t bytes = 8; bytes <= 256 << 20; bytes *= 2) {
                BulkInput input(coll, bytes, ranks);
                if (bytes < 128 << 10) {
                    input.direct = GPUCOLL_DIRECT_NOT;
                }
                const gpucoll_plan soon = plan_of(input);
                if (!soon.linger) {
                    continue;
                }
                EXPECT_GE(soon.launched_us, soon.predicted_us);
                input.crew = 0;
                input.apart = true;
                EXPECT_TRUE(soon.algorithm->rank_order);
                EXPECT_TRUE(plan_of(input).algorithm->rank_order) << coll << " " << ranks << " " << bytes;
            }
        }
    }
}
