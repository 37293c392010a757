/*
 * Gates of kernels that wait for those of other ranks (core/gate.h), by the whole engine on the host accelerator, where calls of a process cross
 * those of another.
 */
#include <csignal>
#include <thread>
#include <unistd.h>
#include "test/unit/exchange_part.h"
#include "test/unit/gate_wait.h"
#include "test/unit/sum.h"

extern "C" {
#include "core/accel/host.h"
#include "test/unit/gate_hand.h"
}

namespace
{
/* A rank with a second team of the same ranks. Both teams have their links, and launches are counted from then on. */
using TwinBody = std::function<void(Rank &rank, gpucoll_team *other)>;

void with_twin(Rank &rank, const TwinBody &body)
{
    gpucoll_team *other = nullptr;
    ASSERT_EQ(rank.make_team(rank.meeting, 1, &other), GPUCOLL_OK);
    for (gpucoll_team *team : {rank.team, other}) {
        Sum sum(rank, 10, 0);
        ASSERT_EQ(Rank::call(team, sum.args), GPUCOLL_OK);
    }
    test_count_launches(rank.context);
    rank.barrier();
    body(rank, other);
    rank.barrier();
    gpucoll_team_destroy(other);
}

void twins_on_threads(uint32_t size, const Settings &settings, const TwinBody &body)
{
    on_threads(size, settings, [&](Rank &rank) { with_twin(rank, body); });
}

gpucoll_request *post(gpucoll_team *team, const gpucoll_coll_args &args)
{
    gpucoll_request *request = nullptr;
    EXPECT_EQ(gpucoll_post(team, &args, &request), GPUCOLL_OK);
    return request;
}

/* Tests both until both have ended. */
void finish_both(gpucoll_request *one, gpucoll_request *two)
{
    gpucoll_status of_one = GPUCOLL_IN_PROGRESS;
    gpucoll_status of_two = GPUCOLL_IN_PROGRESS;
    while (of_one == GPUCOLL_IN_PROGRESS || of_two == GPUCOLL_IN_PROGRESS) {
        of_one = of_one == GPUCOLL_IN_PROGRESS ? gpucoll_test(one) : of_one;
        of_two = of_two == GPUCOLL_IN_PROGRESS ? gpucoll_test(two) : of_two;
        sched_yield();
    }
    EXPECT_EQ(of_one, GPUCOLL_OK);
    EXPECT_EQ(of_two, GPUCOLL_OK);
}

/* All call `second`, while rank 1 has `first` under way, which began alone on all ranks. `between` is run after the second of them. */
void call_beside(Rank &rank, gpucoll_team *other, Sum &first, Sum &second,
                 const std::function<void()> &between)
{
    const bool busy = rank.number == 1;
    gpucoll_request *early = busy ? post(rank.team, first.args) : nullptr;
    EXPECT_EQ(Rank::call(other, second.args), GPUCOLL_OK);
    between();
    EXPECT_EQ(busy ? Rank::finish(early) : rank.call(first.args), GPUCOLL_OK);
    EXPECT_TRUE(first.right() && second.right());
}
} // namespace

TEST(gate, a_call_alone_has_none)
{
    for (const char *protocol : {"ll", "simple"}) {
        twins_on_threads(3, {{"protocol", protocol}}, [](Rank &rank, gpucoll_team *other) {
            for (int i = 0; i < 10; i++) { /* one ends before the next begins */
                Sum sum(rank, 100, i);
                EXPECT_EQ(Rank::call(i % 2 == 0 ? rank.team : other, sum.args), GPUCOLL_OK);
                EXPECT_TRUE(sum.right());
            }
            EXPECT_EQ(test_launches().with_gate, 0u);
            EXPECT_EQ(test_launches().without_gate, 10u);
        });
    }
}

TEST(gate, where_one_rank_has_another_call_under_way_all_have_one)
{
    for (const char *protocol : {"ll", "simple"}) {
        twins_on_threads(3, {{"protocol", protocol}}, [](Rank &rank, gpucoll_team *other) {
            Sum first(rank, 10, 1);
            Sum second(rank, 100, 2);
            call_beside(rank, other, first, second, [] {
                EXPECT_EQ(test_launches().with_gate, 1u);
                EXPECT_EQ(test_launches().without_gate, 0u);
            });
            EXPECT_EQ(test_launches().with_gate, 1u);
            EXPECT_EQ(test_launches().without_gate, 1u);
        });
    }
}

/* Also on the ranks that have nothing else under way, since the kernels of all ranks have as many CTAs. */
TEST(gate, kernels_beside_each_other_fit_on_the_gpu_with_those_of_all_lanes)
{
    for (const char *algorithm : {"oneshot", "twoshot", "ring"}) {
        const Settings settings = {
            {"allreduce_algorithm", algorithm}, {"lanes", "4"}, {"host_resident", "16"}};
        twins_on_threads(3, settings, [](Rank &rank, gpucoll_team *other) {
            Sum first(rank, 60000, 1);
            Sum second(rank, 60000, 2);
            call_beside(rank, other, first, second, [] { EXPECT_EQ(test_launches().ctas_with_gate, 4u); });
            EXPECT_GT(test_launches().ctas_without_gate, 4u);
            EXPECT_LE(test_launches().ctas_without_gate, 16u);
        });
    }
}

TEST(gate, calls_that_ranks_begin_in_different_order_both_have_one)
{
    for (const char *algorithm : {"oneshot", "twoshot", "ring", "tree"}) {
        twins_on_threads(3, {{"allreduce_algorithm", algorithm}}, [](Rank &rank, gpucoll_team *other) {
            for (int turn = 0; turn < 2; turn++) {
                Sum a(rank, 1000, turn);
                Sum b(rank, 10, turn + 1);
                gpucoll_request *requests[2];
                for (uint32_t i : {rank.number % 2, (rank.number + 1) % 2}) {
                    requests[i] = i == 0 ? post(rank.team, a.args) : post(other, b.args);
                }
                finish_both(requests[0], requests[1]);
                EXPECT_TRUE(a.right() && b.right());
            }
            EXPECT_EQ(test_launches().with_gate, 4u);
            EXPECT_EQ(test_launches().without_gate, 0u);
        });
    }
}

/* Lanes are taken when all have posted. */
TEST(gate, calls_that_nobody_waits_in_get_through)
{
    twins_on_threads(3, {{"lanes", "4"}}, [](Rank &rank, gpucoll_team *other) {
        for (int turn = 0; turn < 25; turn++) {
            Sum a(rank, 1000, turn);
            Sum b(rank, 10, turn + 1);
            a.args.form = b.args.form = GPUCOLL_FORM_NONBLOCKING;
            gpucoll_request *one = post(rank.team, a.args);
            gpucoll_request *two = post(other, b.args);
            if (rank.number == 1) {
                finish_both(two, one);
            } else {
                finish_both(one, two);
            }
            ASSERT_TRUE(a.right() && b.right()) << turn;
        }
        EXPECT_EQ(test_launches().with_gate + test_launches().without_gate, 50u);
    });
}

TEST(gate, kernels_that_wait_for_nobody_have_none)
{
    twins_on_threads(3, {{"host_devices", "1"}, {"transports", "p2p"}}, [](Rank &rank, gpucoll_team *other) {
        Sum a(rank, 1000, 1);
        Sum b(rank, 10, 2);
        gpucoll_request *one = post(rank.team, a.args);
        finish_both(one, post(other, b.args));
        EXPECT_TRUE(a.right() && b.right());
        EXPECT_EQ(test_launches().with_gate, 0u);
        EXPECT_GT(test_launches().without_gate, 2u); /* in phases */
    });
}

/* Two threads a rank, in the calls of a team each: their kernels, and the keeper, are at work at once. */
TEST(gate, threads_of_a_rank_are_in_calls_at_once)
{
    twins_on_threads(3, {}, [](Rank &rank, gpucoll_team *other) {
        const auto calls = [&rank](gpucoll_team *team, size_t count) {
            for (int i = 0; i < 100 / static_cast<int>(divisor); i++) {
                Sum sum(rank, count, i);
                EXPECT_EQ(Rank::call(team, sum.args), GPUCOLL_OK);
                EXPECT_TRUE(sum.right());
            }
        };
        std::thread beside(calls, other, 1000);
        calls(rank.team, 10);
        beside.join();
    });
}

/* Rank 1 of three sends nothing in such a gather, and receives nothing. */
TEST(gate, a_rank_with_nothing_to_exchange_keeps_nobody_waiting)
{
    const Kind &gatherv = kinds[8];
    ASSERT_EQ(gatherv.coll, GPUCOLL_GATHERV);
    for (const char *protocol : {"ll", "simple"}) {
        const Settings settings = {
            {"gatherv_algorithm", "exchange"}, {"protocol", protocol}, {"timeout", "3"}};
        twins_on_threads(3, settings, [&](Rank &rank, gpucoll_team *other) {
            Sum sum(rank, 10, 1);
            ExchangePart part(call_of(gatherv, 1000), rank.number, 3);
            gpucoll_request *beside = post(rank.team, sum.args);
            EXPECT_EQ(Rank::call(other, part.args()), GPUCOLL_OK);
            EXPECT_TRUE(part.right()) << part.text();
            EXPECT_EQ(test_launches().with_gate, rank.number == 1 ? 0u : 1u);
            EXPECT_EQ(Rank::finish(beside), GPUCOLL_OK);
            EXPECT_TRUE(sum.right());
        });
    }
}

/* ---- circles ---- */

namespace
{
constexpr unsigned hang_s = 30;

/* The two calls of a turn. */
struct Circle {
    gpucoll_request *mine;   /* that this rank begins with */
    gpucoll_request *theirs; /* that the other does */
};

/*
 * Of two calls, each rank launches another one first. Then memory is freed on both, which waits for that kernel, and holds up the launch of the
 * other one for which the peer's kernel waits.
 *
 * So that neither launches more at once, each call is published first by the rank that is to launch it last.
 */
Circle begin_circle(Rank &rank, gpucoll_team *other, const Sum &a, const Sum &b)
{
    gpucoll_team *const teams[] = {rank.team, other};
    const gpucoll_coll_args *const args[] = {&a.args, &b.args};
    const uint32_t first = rank.number;
    const uint32_t last = 1 - rank.number;
    Circle circle;
    circle.mine = post(teams[first], *args[first]);
    circle.theirs = post(teams[last], *args[last]);
    EXPECT_EQ(gpucoll_test(circle.theirs), GPUCOLL_IN_PROGRESS);
    EXPECT_TRUE(rank.barrier());
    EXPECT_EQ(gpucoll_test(circle.mine), GPUCOLL_IN_PROGRESS);
    return circle;
}
} // namespace

/* Without gates, or without the keeper, nobody would ever look at a call again: then the processes are killed. */
TEST(gate_circle, of_kernels_and_of_frees_that_wait_for_them_is_left)
{
    on_processes(2, {{"timeout", "1"}, {"host_free_waits", "true"}}, [](Rank &rank) {
        alarm(hang_s);
        with_twin(rank, [](Rank &rank, gpucoll_team *other) {
            for (int turn = 0; turn < 3 && !testing::Test::HasFailure(); turn++) {
                Sum a(rank, 100, turn);
                Sum b(rank, 1000, turn + 1);
                void *memory = gpucoll_host_malloc(100, GPUCOLL_MEMORY_DEVICE);
                const Circle circle = begin_circle(rank, other, a, b);
                std::thread freeing([memory] { gpucoll_host_free(memory); });
                sleep_ns(patience / 4);
                finish_both(circle.mine, circle.theirs);
                freeing.join();
                EXPECT_TRUE(a.right() && b.right());
                EXPECT_TRUE(rank.barrier());
            }
            EXPECT_EQ(test_launches().with_gate, 6u);
        });
    });
}

/* The same beside an application that frees at any time. */
TEST(gate_circle, threads_in_calls_beside_one_that_frees_get_through)
{
    on_processes(2, {{"timeout", "20"}, {"host_free_waits", "true"}, {"lanes", "3"}}, [](Rank &rank) {
        alarm(hang_s);
        with_twin(rank, [](Rank &rank, gpucoll_team *other) {
            std::atomic<bool> stop{false};
            const auto calls = [&rank](gpucoll_team *team, size_t count) {
                for (int i = 0; i < 20 / static_cast<int>(divisor); i++) {
                    Sum sum(rank, count, i); /* freed, too */
                    EXPECT_EQ(Rank::call(team, sum.args), GPUCOLL_OK);
                    EXPECT_TRUE(sum.right());
                }
            };
            std::thread freeing([&stop] {
                while (!stop.load()) {
                    gpucoll_host_free(gpucoll_host_malloc(100, GPUCOLL_MEMORY_DEVICE));
                    sleep_ns(millisecond / 5);
                }
            });
            std::thread beside(calls, other, 1000);
            calls(rank.team, 10);
            beside.join();
            stop.store(true);
            freeing.join();
        });
    });
}

/* ---- giving up ---- */

namespace
{
/* Rank 0 is in two calls, and at the gate of the second: rank 1 has published that one, but does not go on with it. */
struct AtGate {
    AtGate(Rank &rank, gpucoll_team *other, const Sum &first, const Sum &second)
    {
        if (rank.number == 0) {
            early = post(rank.team, first.args);
        }
        late = post(other, second.args);
        if (rank.number == 1) {
            EXPECT_EQ(gpucoll_test(late), GPUCOLL_IN_PROGRESS);
        }
        EXPECT_TRUE(rank.barrier());
        if (rank.number == 0) {
            EXPECT_EQ(gpucoll_test(late), GPUCOLL_IN_PROGRESS);
            EXPECT_EQ(test_launches().with_gate, 1u);
        }
    }

    gpucoll_request *early = nullptr;
    gpucoll_request *late;
};
} // namespace

/* At once, or after the kernel has made way. */
TEST(gate, a_call_that_is_cancelled_at_its_gate_ends_with_its_kernel)
{
    for (const bool retreated : {false, true}) {
        twins_on_threads(2, {}, [=](Rank &rank, gpucoll_team *other) {
            Sum first(rank, 10, 1);
            Sum second(rank, 100, 2);
            AtGate at(rank, other, first, second);
            EXPECT_TRUE(!retreated || rank.number == 1 || comes([&] {
                return gpucoll_test(at.late) != GPUCOLL_IN_PROGRESS || test_launches().again > 0;
            }));
            EXPECT_EQ(test_launches().again > 0, retreated && rank.number == 0);
            gpucoll_cancel(at.late);
            if (at.early != nullptr) {
                gpucoll_cancel(at.early);
            }
            sleep_ns(patience); /* of a kernel that did not end */
            EXPECT_TRUE(second.untouched());
        });
    }
}

TEST(gate, a_call_that_times_out_at_its_gate_names_the_rank_that_is_late)
{
    twins_on_threads(2, {{"timeout", "1"}}, [](Rank &rank, gpucoll_team *other) {
        Sum first(rank, 10, 1);
        Sum second(rank, 100, 2);
        AtGate at(rank, other, first, second);
        if (rank.number == 0) {
            EXPECT_EQ(Rank::finish(at.late), GPUCOLL_ERR_TIMEOUT);
            const std::string text = rank.log.text_of("timeout");
            EXPECT_NE(text.find("Missing ranks:  1\n"), std::string::npos) << text;
            EXPECT_TRUE(second.untouched());
            gpucoll_cancel(at.early);
        }
        rank.barrier();
        if (rank.number == 1) { /* its kernel may go on, or stand at its gate */
            EXPECT_EQ(Rank::finish(at.late), GPUCOLL_ERR_TIMEOUT);
            EXPECT_NE(rank.log.text_of("peer-gave-up"), "");
        }
    });
}

TEST(gate, a_call_whose_peer_dies_ends_at_its_gate)
{
    on_processes(
        2, {},
        [](Rank &rank) {
            gpucoll_team *other = nullptr;
            ASSERT_EQ(rank.make_team(rank.meeting, 1, &other), GPUCOLL_OK);
            Sum first(rank, 10, 1);
            Sum second(rank, 100, 2);
            ASSERT_EQ(Rank::call(other, second.args), GPUCOLL_OK);
            test_count_launches(rank.context);
            AtGate at(rank, other, first, second);
            rank.barrier();
            if (rank.number == 1) {
                die();
            }
            EXPECT_EQ(Rank::finish(at.late), GPUCOLL_ERR_PEER);
            EXPECT_EQ(rank.log.topics(), std::vector<std::string>{"peer-died"});
            gpucoll_cancel(at.early);
            gpucoll_team_destroy(other);
        },
        1);
}
