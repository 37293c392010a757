/*
 * A rank of several hosts that runs out of memory on its own: the others learn of it by what is exchanged anyway.
 */
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include "test/unit/exchange_part.h"
#include "test/unit/fake_net.h"
#include "test/unit/hosts.h"
#include "test/unit/tasks.h"

extern "C" {
#include "test/unit/failing.h"
}

namespace
{
constexpr uint32_t scarce = 1; /* the rank */

/* Did the scarce rank run out, since it was told to? Collective. */
class Refusal
{
  public:
    bool tell(Rank &rank)
    {
        if (rank.number == scarce) {
            refused = test_memory_refused() > 0;
            test_no_memory_from(0);
        }
        rank.barrier();
        const bool was = refused;
        rank.barrier();
        return was;
    }

  private:
    std::atomic<bool> refused{false};
};

/* In begin, which is over with the first exchange, or after it: one allocation after the other is refused. True: one was. */
bool make_scarcely(Rank &rank, Refusal &refusal, bool in_begin, unsigned times)
{
    gpucoll_exchange exchange = rank.meeting.exchange(rank.number);
    gpucoll_team *made = nullptr;
    if (rank.number == scarce && in_begin) {
        test_no_memory_once_after(times);
    }
    gpucoll_status status = gpucoll_team_begin(rank.context, &exchange, "scarce", true, &made);
    EXPECT_EQ(status, GPUCOLL_OK);
    if (status != GPUCOLL_OK) {
        return refusal.tell(rank);
    }
    if (rank.number == scarce && !in_begin) {
        test_no_memory_once_after(times);
    }
    while ((status = gpucoll_team_test(made)) == GPUCOLL_IN_PROGRESS) {
        sched_yield();
    }
    const bool refused = refusal.tell(rank);
    EXPECT_EQ(status, refused ? GPUCOLL_DECLINED : GPUCOLL_OK) << times;
    if (status == GPUCOLL_OK) {
        Sum sum(rank, 1000, 1);
        EXPECT_EQ(Rank::call(made, sum.args), GPUCOLL_OK);
        EXPECT_TRUE(sum.right());
        rank.barrier();
        gpucoll_team_destroy(made);
    }
    return refused;
}

/* Each allocation that the post makes is refused once. */
void expect_declined(Rank &rank, Refusal &refusal, const gpucoll_coll_args &args)
{
    EXPECT_EQ(rank.call(args), GPUCOLL_OK);
    for (unsigned times = 0;; times++) {
        gpucoll_request *request = nullptr;
        if (rank.number == scarce) {
            test_no_memory_once_after(times);
        }
        const gpucoll_status posted = gpucoll_post(rank.team, &args, &request);
        const bool refused = refusal.tell(rank);
        EXPECT_EQ(posted, GPUCOLL_OK) << times;
        if (posted == GPUCOLL_OK) {
            EXPECT_EQ(Rank::finish(request), refused ? GPUCOLL_DECLINED : GPUCOLL_OK) << times;
        }
        if (!refused) {
            EXPECT_GT(times, 0u);
            break;
        }
        if (times == 0) {
            EXPECT_EQ(gpucoll_declined_reason(rank.team), GPUCOLL_REASON_HOST_MEMORY);
        }
    }
    EXPECT_TRUE(rank.log.topics().empty());
}
} // namespace

TEST(cluster_scarce, a_team_for_which_one_rank_has_no_memory_is_declined_by_all)
{
    for (const Hosts &hosts : {hosts_of({3}), hosts_of({2, 1}), hosts_of({1, 2, 1})}) {
        Refusal refusal;
        on_hosts(hosts, {{"timeout", "60"}}, [&](Rank &rank) {
            /* The first three are the team, and what the first exchange itself takes. */
            for (unsigned times : {3, 4, 5}) {
                EXPECT_TRUE(make_scarcely(rank, refusal, true, times)) << times;
            }
            unsigned times = 0;
            while (make_scarcely(rank, refusal, false, times)) {
                times++;
            }
            EXPECT_GE(times, hosts.back() > 0 ? 10u : 0u);
            EXPECT_TRUE(rank.log.topics().empty()); /* nobody has waited in vain */
        });
    }
}

TEST(cluster_scarce, a_call_for_which_one_rank_has_no_memory_is_declined_by_all)
{
    for (const Hosts &hosts : {hosts_of({2, 1}), hosts_of({1, 2, 1})}) {
        Refusal refusal;
        on_hosts(hosts, {{"timeout", "60"}}, [&](Rank &rank) {
            Sum sum(rank, 1000, 1);
            expect_declined(rank, refusal, sum.args);
            EXPECT_TRUE(sum.right());
            for (const Kind &kind : kinds) {
                ExchangeCall call = call_of(kind, 100);
                ExchangePart part(call, rank.number, rank.meeting.size);
                expect_declined(rank, refusal, part.args());
            }
        });
    }
}

namespace
{
/* The call behind one that the scarce rank could not make: an error on the others. */
void expect_given_up(Rank &rank, const Sum &next, gpucoll_status status)
{
    EXPECT_NE(status, GPUCOLL_OK);
    EXPECT_TRUE(rank.number == scarce || status < 0) << gpucoll_status_name(status);
    EXPECT_TRUE(next.untouched());
    EXPECT_FALSE(rank.log.waited_in_vain());
    rank.barrier();
}
} // namespace

/* Nor is what it posts next taken for that call: what the others have is an error, and soon. */
TEST(cluster_scarce, a_call_that_one_rank_cannot_post_ends_on_all)
{
    for (const Hosts &hosts : {hosts_of({2}), hosts_of({1, 1}), hosts_of({2, 1})}) {
        on_hosts(hosts, {{"timeout", "60"}}, [](Rank &rank) {
            Sum first(rank, 100, 0);
            EXPECT_EQ(rank.call(first.args), GPUCOLL_OK);
            rank.barrier();
            Sum sum(rank, 100, 1);
            Sum other(rank, 100, 2);
            gpucoll_request *request = nullptr;
            gpucoll_request *next = nullptr;
            ASSERT_EQ(gpucoll_post(rank.team, &sum.args, &request),
                      GPUCOLL_OK); /* what was kept of the first */
            if (rank.number == scarce) {
                test_no_memory_once_after(0);
                EXPECT_EQ(gpucoll_post(rank.team, &sum.args, &next), GPUCOLL_ERR_NO_MEMORY);
                EXPECT_EQ(test_memory_refused(), 1u);
                test_no_memory_from(0);
            }
            ASSERT_EQ(gpucoll_post(rank.team, &other.args, &next), GPUCOLL_OK);
            const gpucoll_status status = Rank::finish(request);
            EXPECT_TRUE(status != GPUCOLL_OK || sum.right());
            expect_given_up(rank, other, Rank::finish(next));
        });
    }
}

/* Who has not even the memory to say what the call is counts it all the same. */
TEST(cluster_scarce, a_call_that_one_rank_cannot_describe_ends_on_all)
{
    for (const Hosts &hosts : {hosts_of({2}), hosts_of({1, 1}), hosts_of({2, 1})}) {
        on_hosts(hosts, {{"timeout", "60"}}, [](Rank &rank) {
            Queue queue(rank, rank.team);
            Task before(rank, 100, 0);
            before.post(queue);
            EXPECT_EQ(before.wait(&queue), GPUCOLL_OK);
            rank.barrier();
            Task sum(rank, 100, 1);
            Task next(rank, 100, 2);
            if (rank.number != scarce) {
                sum.post(queue);
                next.post(queue);
            }
            rank.barrier();
            if (rank.number == scarce) {
                gpucoll_queue_forsake(&queue.queue);
                next.post(queue);
            }
            EXPECT_TRUE(rank.number == scarce || sum.wait(&queue) < GPUCOLL_OK);
            expect_given_up(rank, next.sum, next.wait(&queue));
        });
    }
}

namespace
{
thread_local bool cannot_connect; /* this rank, to the next one that it tries */
thread_local bool cannot_send;    /* its next message */

const gpucoll_net_ops &refusing_net()
{
    static gpucoll_net_ops refusing = fake_net;
    refusing.connect = [](gpucoll_net *net, const gpucoll_net_address *address, gpucoll_net_peer **peer) {
        return std::exchange(cannot_connect, false) ? GPUCOLL_ERR_NO_MEMORY
                                                    : fake_net.connect(net, address, peer);
    };
    refusing.send = [](gpucoll_net *net, gpucoll_net_peer *peer, uint64_t tag, const void *data, size_t bytes,
                       gpucoll_net_memory *memory, gpucoll_net_message *message) {
        if (std::exchange(cannot_send, false)) {
            fake_net_fail_send(net, 0);
        }
        fake_net.send(net, peer, tag, data, bytes, memory, message);
    };
    return refusing;
}

/* None waits for the greeting of one that cannot, until the timeout. */
void expect_declined_soon(Rank &rank, bool &refused)
{
    using Clock = std::chrono::steady_clock;
    refused = rank.number == scarce;
    const auto begin = Clock::now();
    gpucoll_team *made = nullptr;
    EXPECT_EQ(rank.make_team(rank.meeting, 1, &made), GPUCOLL_DECLINED);
    EXPECT_FALSE(refused);
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(25));
    EXPECT_FALSE(rank.log.waited_in_vain());
    rank.barrier();
    EXPECT_EQ(rank.make_team(rank.meeting, 2, &made), GPUCOLL_OK);
    Sum sum(rank, 1000, 1);
    EXPECT_EQ(Rank::call(made, sum.args), GPUCOLL_OK);
    EXPECT_TRUE(sum.right());
    rank.barrier();
    gpucoll_team_destroy(made);
}
} // namespace

/* The alarm takes another way than the greeting that is missing: by a third host. */
TEST(cluster_scarce, a_team_of_which_one_rank_cannot_connect_is_declined_by_all)
{
    for (const Hosts &hosts : {hosts_of({1, 1, 1}), hosts_of({1, 2, 1})}) {
        on_hosts(
            hosts, {{"timeout", "60"}}, [](Rank &rank) { expect_declined_soon(rank, cannot_connect); }, true,
            &refusing_net());
    }
}

TEST(cluster_scarce, a_team_of_which_one_rank_cannot_greet_is_declined_by_all)
{
    for (const Hosts &hosts : {hosts_of({1, 1}), hosts_of({2, 2}), hosts_of({1, 2, 1})}) {
        on_hosts(
            hosts, {{"timeout", "60"}}, [](Rank &rank) { expect_declined_soon(rank, cannot_send); }, true,
            &refusing_net());
    }
}

/* The others wait for what its message should have told them. */
TEST(cluster_scarce, a_call_of_which_one_rank_cannot_tell_the_others_ends_on_all)
{
    for (const Hosts &hosts : {hosts_of({1, 1}), hosts_of({2, 2}), hosts_of({1, 2, 1})}) {
        for (const size_t count : {10, 10000}) { /* along with what hosts tell each other, and in stages */
            on_hosts(
                hosts, {{"timeout", "60"}},
                [count](Rank &rank) {
                    Sum sum(rank, count, 1);
                    EXPECT_EQ(rank.call(sum.args), GPUCOLL_OK);
                    rank.barrier();
                    cannot_send = rank.number == scarce;
                    gpucoll_status status = GPUCOLL_OK;
                    for (int turn = 0; turn < 3 && status == GPUCOLL_OK;
                         turn++) { /* a rank may have all it needs */
                        status = rank.call(sum.args);
                    }
                    EXPECT_LT(status, 0) << gpucoll_status_name(status);
                    EXPECT_FALSE(cannot_send);
                    EXPECT_FALSE(rank.log.waited_in_vain());
                    rank.barrier();
                },
                false, &refusing_net());
        }
    }
}

/* It looks for the memory again, once there is some. */
TEST(cluster_scarce, a_barrier_needs_no_memory_to_wait)
{
    for (const Hosts &hosts : {hosts_of({3}), hosts_of({2, 1})}) {
        std::atomic<bool> refused{false};
        on_hosts(hosts, {{"timeout", "60"}}, [&](Rank &rank) {
            EXPECT_EQ(enter_barrier(rank.team), GPUCOLL_OK);
            if (rank.number == 0) {
                test_no_memory_once_after(0);
            }
            const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
            while (rank.number == scarce && !refused && std::chrono::steady_clock::now() < until) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
            gpucoll_status status = GPUCOLL_IN_PROGRESS;
            for (gpucoll_barrier_start(rank.team); status == GPUCOLL_IN_PROGRESS; sched_yield()) {
                status = gpucoll_barrier_test(rank.team);
                refused = refused || (rank.number == 0 && test_memory_refused() > 0);
            }
            EXPECT_EQ(status, GPUCOLL_OK);
            EXPECT_TRUE(refused); /* the barrier is over when rank 0 has waited so long */
            test_no_memory_from(0);
            EXPECT_TRUE(rank.log.topics().empty());
            rank.barrier();
        });
    }
}
