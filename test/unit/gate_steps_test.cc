/*
 * Gates of kernels that wait for those of other ranks (core/gate.h), step by step: the kernels are played by hand.
 */
#include <thread>
#include "test/unit/gate_wait.h"
#include "test/unit/unit.h"

extern "C" {
#include "test/unit/gate_hand.h"
}

namespace
{
constexpr uint64_t much_patience = 3 * patience;

using Word = uint32_t gpucoll_kernel_status::*;
constexpr Word go = &gpucoll_kernel_status::go;
constexpr Word leave = &gpucoll_kernel_status::leave;
constexpr Word began = &gpucoll_kernel_status::began;
constexpr Word all_resident = &gpucoll_kernel_status::ready;
constexpr Word retreated = &gpucoll_kernel_status::retreated;

/* The kernels of the ranks of a team. */
class Kernels
{
  public:
    explicit Kernels(uint32_t ranks, bool kept = false)
        : gates(test_gates_open(ranks, kept, log.get())), ready_at(ranks)
    {
    }
    ~Kernels() { test_gates_close(gates); }
    Kernels(const Kernels &) = delete;
    Kernels &operator=(const Kernels &) = delete;

    void launch(uint32_t rank, uint64_t call) { test_gate_begin(gates, rank, call); }
    void says(uint32_t rank, Word word)
    {
        __atomic_store_n(&(test_gate_kernel(gates, rank)->*word), test_gate_launch(gates, rank),
                         __ATOMIC_RELEASE);
    }
    void ready(uint32_t rank)
    {
        says(rank, began);
        says(rank, all_resident);
        ready_at[rank] = test_gate_launch(gates, rank);
    }
    void launch_ready(uint32_t rank, uint64_t call)
    {
        launch(rank, call);
        ready(rank);
    }
    bool is_told(uint32_t rank, Word word) const
    {
        return __atomic_load_n(&(test_gate_kernel(gates, rank)->*word), __ATOMIC_ACQUIRE) ==
               test_gate_launch(gates, rank);
    }
    gpucoll_status test(uint32_t rank) { return test_gate_test(gates, rank); }
    unsigned again(uint32_t rank) const { return test_gate_launched_again(gates, rank); }
    bool is_counted(uint32_t ranks, uint64_t call) const { return test_gate_counted(gates, call) == ranks; }

    /* All whose kernels were ready once go on. Where the machine is so slow that the patience of one ends, it does as kernels do. */
    bool all_pass()
    {
        return comes([=] {
            bool all = true;
            for (uint32_t rank = 0; rank < ready_at.size(); rank++) {
                if (ready_at[rank] != 0) {
                    play(rank);
                    all &= test(rank) == GPUCOLL_OK && is_told(rank, go);
                }
            }
            return all;
        });
    }
    bool has_to_leave(uint32_t rank)
    {
        return comes([=] { return test(rank) != GPUCOLL_IN_PROGRESS || is_told(rank, leave); }) &&
               is_told(rank, leave);
    }
    /* From its retreat to the next launch. */
    bool comes_back(uint32_t rank)
    {
        const unsigned before = again(rank);
        says(rank, retreated);
        return comes([=] { return test(rank) != GPUCOLL_IN_PROGRESS || again(rank) > before; }) &&
               again(rank) == before + 1;
    }

    RecordingLog log;
    test_gates *const gates;

  private:
    void play(uint32_t rank)
    {
        if (ready_at[rank] != test_gate_launch(gates, rank)) {
            ready(rank);
        } else if (is_told(rank, leave)) {
            says(rank, retreated);
        }
    }

    std::vector<uint32_t> ready_at; /* the launch of each rank that was ready; 0: none yet */
};
} // namespace

TEST(gate_steps, kernels_go_on_when_all_are_ready)
{
    Kernels kernels(3);
    for (uint32_t rank = 0; rank < 3; rank++) {
        kernels.launch(rank, 1);
    }
    kernels.ready(0);
    kernels.ready(2);
    for (uint32_t rank : {0u, 2u, 1u, 0u, 2u}) {
        EXPECT_EQ(kernels.test(rank), GPUCOLL_IN_PROGRESS);
        EXPECT_FALSE(kernels.is_told(rank, go));
    }
    kernels.ready(1);
    EXPECT_TRUE(kernels.all_pass());
}

TEST(gate_steps, who_has_waited_makes_way_and_passes_when_the_peer_has_come)
{
    Kernels kernels(2);
    kernels.launch_ready(0, 1);
    EXPECT_EQ(kernels.test(0), GPUCOLL_IN_PROGRESS);
    EXPECT_TRUE(kernels.is_counted(1, 1));
    ASSERT_TRUE(kernels.has_to_leave(0));
    EXPECT_TRUE(kernels.is_counted(0, 1));
    sleep_ns(millisecond);
    EXPECT_EQ(kernels.test(0), GPUCOLL_IN_PROGRESS);
    EXPECT_EQ(kernels.again(0), 0u) << "launched again before it has ended";
    ASSERT_TRUE(kernels.comes_back(0));
    EXPECT_FALSE(kernels.is_told(0, leave)) << "what was said to the former launch";
    EXPECT_NE(kernels.log.lines().size(), 0u);

    kernels.launch_ready(1, 1);
    EXPECT_EQ(kernels.test(1), GPUCOLL_IN_PROGRESS) << "the peer's kernel is resident no more";
    EXPECT_EQ(kernels.test(0), GPUCOLL_IN_PROGRESS);
    kernels.ready(0);
    EXPECT_TRUE(kernels.all_pass());
}

TEST(gate_steps, a_kernel_waits_twice_as_long_each_time)
{
    Kernels kernels(2);
    kernels.launch(0, 1);
    for (uint64_t time = patience; time <= 4 * patience; time *= 2) {
        const uint64_t begin = gpucoll_now_ns();
        kernels.ready(0);
        ASSERT_TRUE(kernels.has_to_leave(0));
        EXPECT_GE(gpucoll_now_ns() - begin, time);
        ASSERT_TRUE(kernels.comes_back(0));
    }
    EXPECT_EQ(kernels.again(0), 3u);
}

/* The peer has gone on. */
TEST(gate_steps, once_all_are_counted_nobody_leaves)
{
    Kernels kernels(2);
    kernels.launch_ready(0, 1);
    EXPECT_EQ(kernels.test(0), GPUCOLL_IN_PROGRESS);
    kernels.launch_ready(1, 1);
    EXPECT_EQ(kernels.test(1), GPUCOLL_OK);
    sleep_ns(much_patience);
    EXPECT_EQ(kernels.test(0), GPUCOLL_OK);
    EXPECT_TRUE(kernels.is_told(0, go) && !kernels.is_told(0, leave));
}

/* The peer comes about when patience ends, on another core: one leaves, or both go on, but never one of each. */
TEST(gate_steps, a_peer_that_comes_late_never_goes_on_alone)
{
    Random random(1);
    for (uint64_t call = 1; call <= 20; call++) {
        Kernels kernels(2);
        kernels.launch_ready(0, call);
        kernels.launch_ready(1, call);
        ASSERT_EQ(kernels.test(0), GPUCOLL_IN_PROGRESS);
        const uint64_t end = gpucoll_now_ns() + patience - random.below(10000);
        gpucoll_status peer = GPUCOLL_IN_PROGRESS;
        std::thread late([&] {
            while (gpucoll_now_ns() < end) {
            }
            peer = kernels.test(1);
        });
        while (kernels.test(0) == GPUCOLL_IN_PROGRESS && !kernels.is_told(0, leave)) {
        }
        late.join();
        EXPECT_NE(kernels.is_told(0, leave), kernels.is_told(0, go)) << call;
        EXPECT_EQ(kernels.is_told(0, go), peer == GPUCOLL_OK) << call;
        EXPECT_TRUE(kernels.all_pass()) << call;
    }
}

TEST(gate_steps, what_an_older_call_has_left_of_its_count_is_void)
{
    constexpr uint64_t ring = 4;
    Kernels kernels(2);
    kernels.launch_ready(0, 1);
    EXPECT_EQ(kernels.test(0), GPUCOLL_IN_PROGRESS);
    test_gate_drop(kernels.gates, 0);
    ASSERT_TRUE(kernels.is_counted(1, 1));

    /* After one rank of two, and then after both. */
    for (uint64_t call : {1 + ring, 1 + 2 * ring}) {
        kernels.launch_ready(1, call);
        EXPECT_EQ(kernels.test(1), GPUCOLL_IN_PROGRESS) << call;
        EXPECT_TRUE(kernels.is_counted(1, call)) << call;
        kernels.launch_ready(0, call);
        EXPECT_TRUE(kernels.all_pass()) << call;
        EXPECT_TRUE(kernels.is_counted(2, call)) << call;
    }
}

TEST(gate_steps, a_kernel_of_which_nothing_is_resident_need_not_leave)
{
    Kernels kernels(2);
    kernels.launch(0, 1);
    sleep_ns(much_patience);
    EXPECT_EQ(kernels.test(0), GPUCOLL_IN_PROGRESS);
    EXPECT_FALSE(kernels.is_told(0, leave));

    /* A part of it is, since now. */
    const uint64_t begin = gpucoll_now_ns();
    kernels.says(0, began);
    ASSERT_TRUE(kernels.has_to_leave(0));
    EXPECT_GE(gpucoll_now_ns() - begin, patience);
    EXPECT_TRUE(kernels.is_counted(0, 1)) << "it was never ready";
    EXPECT_TRUE(kernels.comes_back(0));
}

TEST(gate_steps, a_rank_with_nothing_to_do_is_counted_in)
{
    Kernels kernels(3);
    kernels.launch_ready(0, 1);
    test_gate_pass_by(kernels.gates, 2, 1);
    EXPECT_EQ(kernels.test(0), GPUCOLL_IN_PROGRESS);
    EXPECT_TRUE(kernels.is_counted(2, 1));
    kernels.launch_ready(1, 1);
    EXPECT_TRUE(kernels.all_pass());
}

TEST(gate_steps, the_keeper_looks_after_kernels_that_nobody_tests)
{
    Kernels kernels(2, true);
    kernels.launch_ready(0, 1);
    ASSERT_TRUE(comes([&] { return kernels.is_told(0, leave); }));
    kernels.says(0, retreated);
    sleep_ns(2 * millisecond);
    EXPECT_EQ(kernels.again(0), 0u) << "that is for who may wait for the driver";
    ASSERT_TRUE(kernels.comes_back(0));

    /* The peer launches its kernel, and looks no more at it either: the patience of this one is longer now. */
    kernels.launch_ready(1, 1);
    kernels.ready(0);
    const bool both = comes([&] {
        return (kernels.is_told(0, go) && kernels.is_told(1, go)) || kernels.is_told(0, leave) ||
               kernels.is_told(1, leave);
    });
    EXPECT_TRUE(both);
    EXPECT_TRUE(kernels.all_pass());
}

TEST(gate_steps, nobody_tells_a_kernel_anything_whose_call_was_given_up)
{
    Kernels kernels(2, true);
    kernels.launch_ready(0, 1);
    ASSERT_TRUE(comes([&] {
        return kernels.is_counted(1, 1) || kernels.test(0) != GPUCOLL_IN_PROGRESS ||
               kernels.is_told(0, leave);
    }));
    test_gate_drop(kernels.gates, 0);
    const bool left = kernels.is_told(0, leave); /* before */
    kernels.launch_ready(1, 1);
    sleep_ns(much_patience);
    EXPECT_FALSE(kernels.is_told(0, go));
    EXPECT_EQ(kernels.is_told(0, leave), left);
}

TEST(gate_steps, a_kernel_that_cannot_be_launched_again_fails_its_call)
{
    Kernels kernels(2);
    kernels.launch_ready(0, 1);
    ASSERT_TRUE(kernels.has_to_leave(0));
    test_gate_cannot_launch(kernels.gates, 0);
    kernels.says(0, retreated);
    gpucoll_status status = GPUCOLL_IN_PROGRESS;
    EXPECT_TRUE(comes([&] { return (status = kernels.test(0)) != GPUCOLL_IN_PROGRESS; }));
    EXPECT_EQ(status, GPUCOLL_ERR_SYSTEM);
}
