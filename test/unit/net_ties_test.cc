/*
 * ucx_tl/rdma/ties: several connections of two processes, with threads that turn them.
 */
#include <sys/resource.h>
#include <deque>
#include <thread>
#include "test/unit/hosts.h"
#include "test/unit/net_ends.h"
#include "test/unit/sum.h"

namespace
{
constexpr size_t SHORT = 1000;
constexpr size_t LONG = 300000;

class net_ties : public testing::TestWithParam<const char *>
{
  protected:
    void SetUp() override
    {
        OPEN(a);
        OPEN(b);
        to_b = a.connect(b);
        to_a = b.connect(a);
    }
    void TearDown() override
    {
        if (to_b != nullptr) {
            ops->disconnect(a.net, to_b);
            ops->disconnect(b.net, to_a);
        }
    }

    Net a{"lo", "100", GetParam()};
    Net b{"lo", "100", GetParam()};
    struct gpucoll_net_peer *to_b = nullptr;
    struct gpucoll_net_peer *to_a = nullptr;
};

class net_full_ties : public Copying, public net_ties
{
};

uint64_t tag_of(uint32_t source, uint32_t run)
{
    return gpucoll_net_tag(7, source, run * 4);
}

double cpu_seconds()
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}
} // namespace

/* Short and long, of many tags, several of each, both ways at once. */
TEST_P(net_ties, every_message_arrives_in_the_order_of_its_tag)
{
    for (int turn = 0; turn < 5; turn++) {
        std::deque<Message> sent;
        std::deque<Message> received;
        for (unsigned i = 0; i < 24; i++) {
            const size_t bytes = i % 3 == 0 ? SHORT + i : LONG + i;
            const uint64_t tag = tag_of(i % 2, i % 6);
            Net &from = i % 2 == 0 ? a : b;
            Net &to = i % 2 == 0 ? b : a;
            received.emplace_back(bytes);
            if (i % 5 != 0) {
                received.back().receive(to, tag);
            }
            sent.emplace_back(bytes, i + static_cast<unsigned>(turn));
            sent.back().send(from, i % 2 == 0 ? to_b : to_a, tag);
            if (i % 5 == 0) { /* it may be there before anybody has asked for it */
                received.back().receive(to, tag);
            }
        }
        ASSERT_TRUE(until(a, b, [&] {
            bool all = true;
            for (unsigned i = 0; i < sent.size(); i++) {
                all &= ended(i % 2 == 0 ? a : b, sent[i]) && ended(i % 2 == 0 ? b : a, received[i]);
            }
            return all;
        }));
        for (unsigned i = 0; i < sent.size(); i++) {
            EXPECT_EQ(received[i].status, GPUCOLL_OK);
            EXPECT_TRUE(sent[i].data == received[i].data) << "message " << i;
        }
    }
}

/* Nobody but the threads of the ties turns what goes by them. */
TEST_P(net_ties, threads_move_long_messages)
{
    const unsigned ties = static_cast<unsigned>(GetParam()[0] - '0');
    if (std::thread::hardware_concurrency() < 2 || ties == 1) {
        GTEST_SKIP() << "there is no thread";
    }
    const uint64_t tag = tag_of(0, ties * 8 + 1);
    for (int turn = 0; turn < 3; turn++) {
        Message first(LONG, 1);
        Message second(LONG);
        second.receive(b, tag);
        first.send(a, to_b, tag);
        if (turn == 0) { /* connects */
            ASSERT_TRUE(until(a, b, [&] { return ended(a, first) && ended(b, second); }));
            continue;
        }
        const auto begin = Clock::now();
        while (!(ended(a, first) && ended(b, second)) && Clock::now() - begin < std::chrono::seconds(20)) {
            std::this_thread::yield();
        }
        EXPECT_EQ(first.status, GPUCOLL_OK);
        EXPECT_EQ(second.status, GPUCOLL_OK);
        EXPECT_TRUE(first.data == second.data);
    }
}

/* A socket that is full is no other tie's business. */
TEST_P(net_full_ties, what_has_not_left_has_so_by_a_tie)
{
    Message first(SHORT);
    Message arrived(SHORT);
    arrived.receive(b, tag_of(0, 0));
    first.send(a, to_b, tag_of(0, 0));
    ASSERT_TRUE(until(a, b, [&] { return ended(a, first) && ended(b, arrived); }));
    std::deque<Message> sent;
    do {
        sent.emplace_back(4000);
        sent.back().send(a, to_b, tag_of(0, 1));
    } while (ops->drained(a.net, to_b, 1) && sent.size() < 100000);
    EXPECT_FALSE(ops->drained(a.net, to_b, 1));
    EXPECT_FALSE(ops->drained(a.net, to_b, 3));
    EXPECT_TRUE(ops->drained(a.net, to_b, 2));
}

/* Who has given it up knows why, and may have said that. */
TEST_P(net_ties, nothing_is_said_of_what_is_given_up)
{
    for (size_t bytes : {SHORT, LONG}) {
        Message lonely(bytes);
        lonely.receive(b, tag_of(1, 100));
        ops->begin_cancel(b.net, &lonely);
        ASSERT_TRUE(until(a, b, [&] { return ended(b, lonely); }));
        EXPECT_LT(lonely.status, 0);
    }
    EXPECT_EQ(b.log.topics(), std::vector<std::string>());
}

/* Each for half a second, whichever tie it goes by: none of these peers looks for what it is sent. (On one core ties have no threads, and must begin all
 * the same.) */
TEST_P(net_ties, sends_that_are_cancelled_together_wait_together)
{
    std::deque<Net> silent;
    std::deque<Message> messages;
    for (uint32_t i = 0; i < 6; i++) {
        silent.emplace_back("lo", "100", GetParam());
        struct gpucoll_net_peer *peer = a.connect(silent.back());
        ASSERT_TRUE(exchange(a, peer, silent.back(), silent.back().connect(a), LONG));
        messages.emplace_back(4 << 20).send(a, peer, tag_of(0, i));
    }
    EXPECT_LT(give_up_together(a, messages), 1.4);
}

/* A little while after the last message, or the last that was given up. */
TEST_P(net_ties, threads_sleep_while_there_is_nothing)
{
    for (uint32_t run = 0; run < 4; run++) {
        Message lonely(LONG);
        lonely.receive(b, tag_of(1, 100 + run));
        ops->begin_cancel(b.net, &lonely);
        ops->cancel(b.net, &lonely);
        EXPECT_NE(lonely.status, GPUCOLL_IN_PROGRESS);
    }
    Message first(LONG, 1);
    Message second(LONG);
    second.receive(b, tag_of(0, 1));
    first.send(a, to_b, tag_of(0, 1));
    ASSERT_TRUE(until(a, b, [&] { return ended(a, first) && ended(b, second); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const double before = cpu_seconds();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    EXPECT_LT(cpu_seconds() - before, 0.1);
}

INSTANTIATE_TEST_SUITE_P(ties, net_ties, testing::Values("1", "2", "4"));
INSTANTIATE_TEST_SUITE_P(ties, net_full_ties, testing::Values("1", "2", "4"));

TEST(net_ties, processes_with_other_numbers_of_ties_are_refused)
{
    Net a("lo", "100", "1");
    Net b("lo", "100", "2");
    OPEN(a);
    OPEN(b);
    for (const auto &[from, to] : {std::pair<Net *, Net *>{&a, &b}, {&b, &a}}) {
        struct gpucoll_net_address address = to->address();
        struct gpucoll_net_peer *peer = nullptr;
        EXPECT_EQ(ops->connect(from->net, &address, &peer), GPUCOLL_ERR_INVALID);
        EXPECT_EQ(from->log.topics(), std::vector<std::string>{"net-ties"});
    }
}

/* Calls of two hosts whose units go by several ties. */
TEST(net_ties, all_reduce_of_many_units)
{
    {
        Net probe("lo");
        OPEN(probe);
    }
    on_hosts(
        hosts_of({2, 1}), {{"net_ties", "3"}, {"net_devices", "lo"}, {"chunk", "256K"}},
        [](Rank &rank) {
            for (size_t count : {100, 100000, 2000000}) {
                Sum sum(rank, count, 3);
                EXPECT_EQ(rank.call(sum.args), GPUCOLL_OK);
                EXPECT_TRUE(sum.right());
            }
        },
        false, &gpucoll_net_ucx);
}
