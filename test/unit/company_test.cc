/*
 * Which calls have gates because of what else may run on the GPU (core/company.h), and what coll_gpucoll_gates says of it.
 */
#include <dlfcn.h>
#include "test/unit/ranks.h"
#include "test/unit/sum.h"

extern "C" {
#include "core/company.h"
#include "core/gpu.h"
#include "test/unit/gate_hand.h"
}

namespace
{
/* A library that every process has, and one that none has. */
const char *const present = "libc.so.";
const char *const absent = "libgpucoll-not-there.so";

/* One call, which is alone in its process. Did it have a gate? Launches of the context are counted. */
bool has_gate(Rank &rank)
{
    const struct test_launches before = test_launches();
    Sum sum(rank, 100, 1);
    EXPECT_EQ(rank.call(sum.args), GPUCOLL_OK);
    EXPECT_TRUE(sum.right());
    const unsigned with_gate = test_launches().with_gate - before.with_gate;
    EXPECT_EQ(with_gate + test_launches().without_gate - before.without_gate, 1u);
    return with_gate == 1;
}
} // namespace

TEST(company, a_library_that_may_wait_for_other_ranks_gives_every_call_a_gate)
{
    on_threads(3, {}, [](Rank &rank) {
        test_count_launches(rank.context);
        gpucoll_context_expect(rank.context, absent);
        EXPECT_FALSE(has_gate(rank));
        rank.barrier();
        gpucoll_context_expect(rank.context, rank.number == 1 ? present : absent);
        EXPECT_TRUE(has_gate(rank)); /* all have one, since one rank wants it */
    });
}

TEST(company, gates_always_or_never)
{
    on_threads(2, {{"gates", "always"}}, [](Rank &rank) {
        test_count_launches(rank.context);
        EXPECT_TRUE(has_gate(rank));
    });
    on_threads(2, {{"gates", "never"}}, [](Rank &rank) {
        test_count_launches(rank.context);
        gpucoll_context_expect(rank.context, present);
        EXPECT_FALSE(has_gate(rank));
    });
}

TEST(company, a_library_is_noticed_once_it_is_loaded)
{
    struct gpucoll_company company = {};
    EXPECT_FALSE(gpucoll_library_is_here(&company)); /* none is looked for */
    company.library = "libBrokenLocale.so";          /* of the C library, and used by nobody */
    EXPECT_FALSE(gpucoll_library_is_here(&company));
    EXPECT_FALSE(gpucoll_library_is_here(&company));
    void *library = dlopen("libBrokenLocale.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        GTEST_SKIP() << dlerror();
    }
    EXPECT_TRUE(gpucoll_library_is_here(&company));
    EXPECT_TRUE(gpucoll_library_is_here(&company));
    dlclose(library);
    EXPECT_TRUE(gpucoll_library_is_here(&company)); /* threads may still be in what it has started */
}

TEST(company, calls_under_way_are_more_than_a_library)
{
    on_threads(1, {}, [](Rank &rank) {
        struct gpucoll_lane lane = {};
        EXPECT_EQ(gpucoll_company_of(rank.context, &lane), GPUCOLL_ALONE);
        gpucoll_context_expect(rank.context, present);
        EXPECT_EQ(gpucoll_company_of(rank.context, &lane), GPUCOLL_BESIDE_OTHERS);
        lane.company = true;
        EXPECT_EQ(gpucoll_company_of(rank.context, &lane), GPUCOLL_BESIDE_CALLS);
    });
    on_threads(1, {{"gates", "never"}}, [](Rank &rank) {
        struct gpucoll_lane lane = {};
        lane.company = true;
        EXPECT_EQ(gpucoll_company_of(rank.context, &lane), GPUCOLL_ALONE);
    });
}
