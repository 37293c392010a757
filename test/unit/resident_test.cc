/*
 * GPUs, and slices of GPUs, that hold fewer CTAs of a kernel at once than a plan would like.
 */
#include <algorithm>
#include "test/unit/selector_input.h"
#include "test/unit/sum.h"

/* All CTAs of a kernel that waits have to be on the GPU at once: no plan has more than it holds, whatever is forced. */
TEST(resident, plans_fit_the_gpu)
{
    const uint64_t sizes[] = {8, 4096, 100000, 1 << 20, uint64_t{64} << 20, uint64_t{1} << 30};
    unsigned held_back = 0;
    for (const unsigned resident : {1u, 5u, 14u, 128u}) {
        for (const char *channels : {"0", "100"}) {
            for (const int coll :
                 {GPUCOLL_ALLREDUCE, GPUCOLL_BCAST, GPUCOLL_REDUCE_SCATTER, GPUCOLL_ALLTOALL}) {
                for (const uint64_t bytes : sizes) {
                    Input input(bytes, 4);
                    ASSERT_EQ(gpucoll_config_set(&input.settings, "channels", channels), GPUCOLL_OK);
                    input.coll = static_cast<gpucoll_coll>(coll);
                    input.direct = GPUCOLL_DIRECT_BULK;
                    const gpucoll_algorithm *row;
                    for (int i = 0; (row = gpucoll_algorithm_row(i)) != nullptr; i++) {
                        input.resident = 0;
                        if (!gpucoll_algorithm_runs(row, input.coll) || !row->waits ||
                            gpucoll_unusable(row, &input) != nullptr) {
                            continue;
                        }
                        gpucoll_plan free;
                        gpucoll_plan plan;
                        gpucoll_shape(row, &input, &free);
                        input.resident = resident;
                        gpucoll_shape(row, &input, &plan);
                        EXPECT_LE(plan.ctas, resident) << row->name << "/" << row->protocol;
                        EXPECT_LE(plan.launch_ctas, resident) << row->name << "/" << row->protocol;
                        EXPECT_TRUE(free.ctas > resident || plan.ctas == free.ctas ||
                                    plan.linger != free.linger);
                        held_back += free.ctas > resident;
                    }
                }
            }
        }
    }
    EXPECT_GT(held_back, 100u);
}

/* The ranks make one plan, for what the smallest of their GPUs holds. */
TEST(resident, a_plan_has_no_more_ctas_than_any_gpu_holds)
{
    for (const char *algorithm : {"twoshot", "ring"}) {
        on_threads(
            3, {{"allreduce_algorithm", algorithm}, {"protocol", "simple"}, {"channels", "64"}},
            [](Rank &rank) {
                rank.set("host_resident", rank.number == 1 ? "4" : "7");
                ASSERT_EQ(rank.open(), GPUCOLL_OK);
                Sum sum(rank, 100000, 1);
                EXPECT_EQ(rank.call(sum.args), GPUCOLL_OK);
                EXPECT_TRUE(sum.right());
                const std::vector<std::string> lines = rank.log.lines();
                const auto is_plan = [](const std::string &line) {
                    return line.find(" by simple, 4 CTAs of ") != std::string::npos;
                };
                EXPECT_EQ(std::any_of(lines.begin(), lines.end(), is_plan), rank.number == 0);
                rank.close();
            },
            true);
    }
}
