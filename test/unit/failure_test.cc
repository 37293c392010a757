/*
 * Ranks that do not come, give up or die: an error that names them on every rank that waits, never a hang.
 */
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <unistd.h>
#include "test/unit/ranks.h"
#include "test/unit/values.h"

extern "C" {
#include "test/unit/failing.h"
}

namespace
{
/* A call that this rank is still in when its test ends would use its buffers: they live as long as the test. */
class Doubles
{
  public:
    explicit Doubles(size_t count) : send(count * 8), recv(count * 8)
    {
        args = reduce_all(GPUCOLL_SUM, GPUCOLL_FLOAT64, send.data(), recv.data(), count);
    }
    gpucoll_coll_args args;

  private:
    Buffer send;
    Buffer recv;
};

void expect_words(const std::string &text, std::initializer_list<const char *> words)
{
    for (const char *word : words) {
        EXPECT_NE(text.find(word), std::string::npos) << word << " is not in: " << text;
    }
}
} // namespace

TEST(timeout, names_the_ranks_that_do_not_come)
{
    on_threads(4, {{"timeout", "1"}}, [](Rank &rank) {
        Doubles some(10);
        EXPECT_EQ(rank.call(some.args), GPUCOLL_OK);
        if (rank.number == 1 || rank.number == 3) {
            rank.barrier();
            return;
        }
        auto begin = std::chrono::steady_clock::now();
        EXPECT_EQ(rank.call(some.args), GPUCOLL_ERR_TIMEOUT);
        EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
        /* Of two that wait, one may see that the other has given up before its own time is over. */
        ASSERT_EQ(rank.log.topics().size(), 1u);
        if (rank.log.topics()[0] == "timeout") {
            expect_words(rank.log.text_of("timeout"), {"1, 3", "allreduce", "team 0", "2"});
        } else {
            EXPECT_EQ(rank.log.topics()[0], "peer-gave-up");
        }
        rank.barrier();
    });
}

TEST(timeout, leaves_a_team_that_declines_on_this_rank)
{
    on_threads(2, {{"timeout", "1"}}, [](Rank &rank) {
        Doubles some(10);
        EXPECT_EQ(rank.call(some.args), GPUCOLL_OK);
        if (rank.number == 0) {
            EXPECT_EQ(rank.call(some.args), GPUCOLL_ERR_TIMEOUT);
            rank.barrier();
            for (int i = 0; i < 10; i++) {
                EXPECT_EQ(rank.call(some.args), GPUCOLL_DECLINED);
            }
        } else {
            rank.barrier();
            /* The post of rank 0 is still there, but its kernel is not: this rank learns that it gave up. */
            EXPECT_EQ(rank.call(some.args), GPUCOLL_ERR_TIMEOUT);
            expect_words(rank.log.text_of("peer-gave-up"), {"Rank 0 gave", "allreduce", "team 0"});
            EXPECT_EQ(rank.call(some.args), GPUCOLL_DECLINED);
        }
    });
}

/* Rank 1 has made its call but does not go on with it: the kernel of rank 0 knows whom it waits for. */
TEST(timeout, inside_a_kernel_names_the_rank_it_waits_for)
{
    for (const char *protocol : {"ll", "ll128", "simple"}) {
        on_threads(2, {{"timeout", "1"}, {"protocol", protocol}}, [](Rank &rank) {
            Doubles some(10);
            EXPECT_EQ(rank.call(some.args), GPUCOLL_OK);
            if (rank.number == 0) {
                rank.barrier();
                EXPECT_EQ(rank.call(some.args), GPUCOLL_ERR_TIMEOUT);
                expect_words(rank.log.text_of("timeout"), {"Missing ranks:  1\n"});
                rank.barrier();
            } else {
                gpucoll_request *request = nullptr;
                ASSERT_EQ(gpucoll_post(rank.team, &some.args, &request), GPUCOLL_OK);
                EXPECT_EQ(gpucoll_test(request), GPUCOLL_IN_PROGRESS); /* publishes */
                rank.barrier();
                rank.barrier();
                /* By LL it has all it needs from rank 0, which has sent before it waited: then the next call fails. */
                gpucoll_status status = Rank::finish(request);
                EXPECT_EQ(status == GPUCOLL_OK ? rank.call(some.args) : status, GPUCOLL_ERR_TIMEOUT);
                EXPECT_EQ(rank.log.topics(), std::vector<std::string>{"peer-gave-up"});
            }
        });
    }
}

/* The same of more ranks, most of which wait for one that waits itself. */
TEST(timeout, in_a_ring_or_tree_names_the_rank_that_has_not_started)
{
    for (const char *algorithm : {"ring", "tree"}) {
        on_threads(4, {{"timeout", "1"}, {"allreduce_algorithm", algorithm}, {"protocol", "simple"}},
                   [](Rank &rank) {
                       Doubles some(1000);
                       EXPECT_EQ(rank.call(some.args), GPUCOLL_OK);
                       gpucoll_request *request = nullptr;
                       if (rank.number == 2) {
                           ASSERT_EQ(gpucoll_post(rank.team, &some.args, &request), GPUCOLL_OK);
                           EXPECT_EQ(gpucoll_test(request), GPUCOLL_IN_PROGRESS); /* publishes */
                       }
                       rank.barrier();
                       if (rank.number != 2) {
                           EXPECT_EQ(rank.call(some.args), GPUCOLL_ERR_TIMEOUT);
                           ASSERT_EQ(rank.log.topics().size(), 1u);
                           expect_words(rank.log.text_of(rank.log.topics()[0]), {"Missing ranks:  2\n"});
                       }
                       rank.barrier();
                       if (request != nullptr) {
                           EXPECT_EQ(Rank::finish(request), GPUCOLL_ERR_TIMEOUT);
                       }
                   });
    }
}

namespace
{
gpucoll_status look_for(gpucoll_request *request, std::chrono::milliseconds time)
{
    const auto end = std::chrono::steady_clock::now() + time;
    gpucoll_status status = GPUCOLL_IN_PROGRESS;
    while (status == GPUCOLL_IN_PROGRESS && std::chrono::steady_clock::now() < end) {
        status = gpucoll_test(request);
        std::this_thread::yield();
    }
    return status;
}
} // namespace

/* All have started the ring, but rank 1 has sent nothing. Rank 3 waits for rank 2, which tells for whom it has given up: between the
 * look that rank 3 takes after a second and the end of its patience. */
TEST(timeout, in_a_ring_follows_what_the_ranks_before_have_told)
{
    on_threads(4, {{"timeout", "2"}, {"allreduce_algorithm", "ring"}, {"protocol", "simple"}},
               [](Rank &rank) {
                   Doubles some(1000);
                   EXPECT_EQ(rank.call(some.args), GPUCOLL_OK);
                   if (rank.number == 1) {
                       test_launch_nothing(rank.context);
                   }
                   gpucoll_request *request = nullptr;
                   ASSERT_EQ(gpucoll_post(rank.team, &some.args, &request), GPUCOLL_OK);
                   gpucoll_status status = rank.number == 1
                                               ? Rank::finish(request)
                                               : look_for(request, std::chrono::milliseconds(300));
                   if (rank.number == 3) {
                       std::this_thread::sleep_for(std::chrono::milliseconds(800));
                       status = look_for(request, std::chrono::milliseconds(200));
                   }
                   ASSERT_EQ(status, rank.number == 1 ? GPUCOLL_OK : GPUCOLL_IN_PROGRESS);
                   rank.barrier();
                   if (rank.number == 2) {
                       test_tell_given_up(rank.team, 1);
                   }
                   rank.barrier();
                   if (rank.number == 3) {
                       EXPECT_EQ(Rank::finish(request), GPUCOLL_ERR_TIMEOUT);
                       ASSERT_EQ(rank.log.topics().size(), 1u);
                       expect_words(rank.log.text_of(rank.log.topics()[0]), {"Missing ranks:  1\n"});
                   }
                   rank.barrier();
                   if (rank.number == 0 || rank.number == 2) {
                       gpucoll_cancel(request);
                   }
               });
}

TEST(timeout, of_zero_waits_on)
{
    on_threads(2, {{"timeout", "0"}}, [](Rank &rank) {
        Doubles some(10);
        if (rank.number == 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        }
        EXPECT_EQ(rank.call(some.args), GPUCOLL_OK);
        EXPECT_TRUE(rank.log.topics().empty());
    });
}

TEST(timeout, other_teams_of_the_ranks_go_on)
{
    on_threads(2, {{"timeout", "1"}, {"lanes", "2"}}, [](Rank &rank) {
        Doubles some(10);
        gpucoll_team *other = nullptr;
        ASSERT_EQ(rank.make_team(rank.meeting, 1, &other), GPUCOLL_OK);
        if (rank.number == 0) {
            EXPECT_EQ(rank.call(some.args), GPUCOLL_ERR_TIMEOUT);
        }
        rank.barrier();
        for (int i = 0; i < 10; i++) {
            EXPECT_EQ(Rank::call(other, some.args), GPUCOLL_OK); /* on the lane that is left */
        }
        rank.barrier();
        gpucoll_team_destroy(other);
    });
}

/* ---- death ---- */

static void expect_death_is_told(const Settings &settings, uint32_t size, uint32_t victim,
                                 const Body &last_words)
{
    on_processes(
        size, settings,
        [=](Rank &rank) {
            Doubles some(100);
            EXPECT_EQ(rank.call(some.args), GPUCOLL_OK);
            if (rank.number == victim) {
                last_words(rank);
                rank.barrier();
                die();
            }
            rank.barrier();
            auto begin = std::chrono::steady_clock::now();
            EXPECT_EQ(rank.call(some.args), GPUCOLL_ERR_PEER);
            EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
            /* Who sees it second may see that the first has given up. */
            ASSERT_EQ(rank.log.topics().size(), 1u);
            std::string topic = rank.log.topics()[0];
            EXPECT_TRUE(topic == "peer-died" || topic == "peer-gave-up") << topic;
            expect_words(rank.log.text_of(topic), {"allreduce", "team 0"});
            if (size == 2) {
                EXPECT_EQ(topic, "peer-died");
                const std::string told = "rank " + std::to_string(victim) + " ended";
                expect_words(rank.log.text_of(topic), {told.c_str()});
            }
            EXPECT_EQ(rank.call(some.args), GPUCOLL_DECLINED);
            EXPECT_EQ(shm_traces(), std::vector<std::string>());
        },
        static_cast<int>(victim));
}

TEST(death, before_a_call_is_told_to_all_who_wait)
{
    expect_death_is_told({}, 2, 1, [](Rank &) {});
    expect_death_is_told({}, 3, 0, [](Rank &) {});
}

/* The rank has posted before the others came, so they start kernels, which wait for data that never comes. */
TEST(death, inside_a_call_ends_the_kernels_of_the_others)
{
    for (const char *algorithm : {"oneshot", "twoshot", "phased", "ring", "tree"}) {
        expect_death_is_told({{"allreduce_algorithm", algorithm}}, 2, 0, [](Rank &rank) {
            static Doubles *some = new Doubles(100);
            gpucoll_request *request = nullptr;
            EXPECT_EQ(gpucoll_post(rank.team, &some->args, &request), GPUCOLL_OK);
            EXPECT_GE(gpucoll_test(request), 0); /* publishes */
        });
    }
}

/* The same with copies and sums in host memory. */
TEST(death, inside_a_sum_in_host_memory_is_told)
{
    for (const auto &[transports, threads] :
         {std::pair{"cpu_reduce", "0"}, {"cpu_reduce", "1"}, {"shm", "0"}}) {
        const Settings settings = {{"transports", transports}, {"cpu_threads", threads}};
        expect_death_is_told(settings, 2, 0, [](Rank &rank) {
            static Doubles *some = new Doubles(100);
            gpucoll_request *request = nullptr;
            EXPECT_EQ(gpucoll_post(rank.team, &some->args, &request), GPUCOLL_OK);
            EXPECT_GE(gpucoll_test(request), 0); /* publishes */
        });
    }
}

/* ---- devices ---- */

/* Whose device it was says so; the others, whose kernels wait for its data, that it gave up. */
TEST(device_error, ends_the_call_on_all_ranks)
{
    for (bool later : {false, true}) {
        on_threads(4, {{"timeout", "60"}}, [&](Rank &rank) {
            Doubles some(1000);
            EXPECT_EQ(rank.call(some.args), GPUCOLL_OK);
            const bool failing = rank.number == 2;
            if (failing) {
                test_fail_device(rank.context, later);
            }
            rank.barrier();
            const auto begin = std::chrono::steady_clock::now();
            EXPECT_EQ(rank.call(some.args), failing ? GPUCOLL_ERR_DEVICE : GPUCOLL_ERR_TIMEOUT);
            EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
            ASSERT_EQ(rank.log.topics(), std::vector<std::string>{failing ? "device-error" : "peer-gave-up"});
            if (failing) {
                expect_words(rank.log.text_of("device-error"),
                             {later ? "running a kernel" : "launching a kernel", "failed on demand"});
            } else {
                expect_words(rank.log.text_of("peer-gave-up"), {"Rank ", "allreduce", "team 0"});
            }
            EXPECT_EQ(rank.call(some.args), GPUCOLL_DECLINED);
            rank.barrier();
        });
    }
}

/* A slower path than the hardware might allow is said by one rank, once, and not where p2p is left out on purpose. */
TEST(no_peer_access, is_said_once_a_process_and_not_where_it_is_wanted)
{
    for (const char *transports : {"all", "shm,cpu_reduce"}) {
        on_threads(3, {{"transports", transports}}, [&](Rank &rank) {
            Doubles some(1000);
            test_no_peer_access(rank.context);
            gpucoll_team *other = nullptr;
            ASSERT_EQ(rank.make_team(rank.meeting, 1, &other), GPUCOLL_OK);
            for (int turn = 0; turn < 2; turn++) {
                EXPECT_EQ(rank.call(some.args), GPUCOLL_OK);
                EXPECT_EQ(Rank::call(other, some.args), GPUCOLL_OK);
            }
            const bool said = rank.number == 0 && strcmp(transports, "all") == 0;
            EXPECT_EQ(rank.log.topics(), std::vector<std::string>(said ? 1 : 0, "no-peer-access"));
            if (said) {
                expect_words(rank.log.text_of("no-peer-access"), {"team 0"});
            }
            rank.barrier();
            gpucoll_team_destroy(other);
        });
    }
}

/* ---- leaving ---- */

/* A rank may free its team and context as soon as its own calls are over, while others are still in their last. */
TEST(leaving, at_different_times_is_safe_for_processes)
{
    for (int turn = 0; turn < 5; turn++) {
        on_processes(4, {}, [](Rank &rank) {
            Doubles some(3000);
            for (int i = 0; i < 10; i++) {
                EXPECT_EQ(rank.call(some.args), GPUCOLL_OK);
            }
        });
    }
}
