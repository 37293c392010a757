/*
 * The selector's choice for calls in which nobody waits, beside which the application computes.
 */
#include <cstring>
#include "test/unit/selector_input.h"

TEST(selector, calls_in_which_nobody_waits_do_not_need_the_host_between_steps)
{
    Input input(uint64_t{1} << 30, 4);
    input.coll = GPUCOLL_BCAST;
    input.direct = GPUCOLL_DIRECT_STORES;
    EXPECT_TRUE(plan_of(input).algorithm->steps);
    input.unattended = true;
    EXPECT_FALSE(plan_of(input).algorithm->steps);
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

TEST(selector, broadcasts_in_bulk_take_few_sms_beside_the_application)
{
    Input input(64 << 20, 4);
    input.coll = GPUCOLL_BCAST;
    input.direct = GPUCOLL_DIRECT_BULK;
    ASSERT_EQ(gpucoll_config_set(&input.settings, "protocol", "bulk"), GPUCOLL_OK);
    ASSERT_EQ(gpucoll_config_set(&input.settings, "linger", "0"), GPUCOLL_OK);
    EXPECT_GT(plan_of(input).ctas, 8u);
    input.unattended = true;
    EXPECT_STREQ(plan_of(input).algorithm->protocol, "bulk");
    EXPECT_EQ(plan_of(input).ctas, 8u);
}

/* Kernels between copies that are asked for all the same are as short as they can be, since the application's wait for them. */
TEST(selector, kernels_between_copies_are_short_beside_the_application)
{
    for (uint32_t ranks : {4, 8}) {
        Input input(64 << 20, ranks);
        input.direct = GPUCOLL_DIRECT_STORES;
        ASSERT_EQ(gpucoll_config_set(&input.settings, "protocol", "copy"), GPUCOLL_OK);
        const gpucoll_plan attended = plan_of(input);
        input.unattended = true;
        const gpucoll_plan plan = plan_of(input);
        EXPECT_TRUE(plan.algorithm->late_kernels) << plan.algorithm->name;
        EXPECT_EQ(plan.algorithm, attended.algorithm);
        EXPECT_LT(attended.ctas, 64u);
        EXPECT_EQ(plan.ctas, 64u);
        input.resident = 40;
        EXPECT_EQ(plan_of(input).ctas, 40u);
    }
}

/* Those of phases begin one after the other as well: where ranks share a GPU, copies are as welcome as they are beside other kernels. */
TEST(selector, kernels_of_phases_are_as_late_as_those_between_copies)
{
    int reduced_by_copies = 0;
    int moved_by_copies = 0;
    for (uint64_t bytes = 16 << 10; bytes <= 1 << 30; bytes += bytes / 4) {
        Input input(bytes, 4);
        input.sharers = 4;
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
    EXPECT_STREQ(plan_of(input).algorithm->protocol, "direct");
    input.unattended = true;
    EXPECT_STREQ(plan_of(input).algorithm->protocol, "bulk");
}
