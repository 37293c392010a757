/*
 * ucx_tl/rdma: messages over UCX, between two ends in this process.
 */
#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <set>
#include <thread>
#include <unistd.h>
#include "test/unit/net_ends.h"

namespace
{

/* As messages name it. */
std::string this_process()
{
    return "process " + std::to_string(getpid());
}

/* Two ends; the first is connected to the second. */
class net : public testing::TestWithParam<const char *>
{
  protected:
    void SetUp() override
    {
        OPEN(a);
        OPEN(b);
        to_b = a.connect(b);
    }

    /* Of this message the second end has sent a part to the first, which knows its sender or not. */
    void send_a_part(struct gpucoll_net_peer *to_a, Message &sent, struct gpucoll_net_peer *from,
                     Message &received)
    {
        received.receive(a, 5, from);
        sent.send(b, to_a, 5);
        const auto begun = [&] { return memcmp(received.data.data(), sent.data.data(), 1000) == 0; };
        ASSERT_TRUE(until(a, b, begun));
        ASSERT_FALSE(ended(a, received)) << "the message was too short for this test";
    }

    /* Of one that was given up. */
    void expect_no_more(Message &received)
    {
        const auto mark = static_cast<char>(0x5a);
        std::fill(received.data.begin(), received.data.end(), mark);
        until(
            a, b, [] { return false; }, 0.5);
        EXPECT_EQ(std::count(received.data.begin(), received.data.end(), mark),
                  static_cast<ptrdiff_t>(received.data.size()));
    }

    static constexpr size_t BYTES = 64 << 20; /* a message of which a part can be seen to come */
    Net a{GetParam()};
    Net b{GetParam()};
    struct gpucoll_net_peer *to_b = nullptr;
};

TEST_P(net, both_directions_any_order_every_length)
{
    struct gpucoll_net_peer *to_a = b.connect(a);
    const size_t lengths[] = {0, 1, 8, 100, 4096, 10000, 65536, 300001, 1 << 20, 8 << 20};
    std::deque<Message> sent;
    std::deque<Message> received;
    unsigned tag = 0;
    for (size_t bytes : lengths) {
        sent.emplace_back(bytes, tag);
        sent.emplace_back(bytes, tag + 100);
        received.emplace_back(bytes);
        received.emplace_back(bytes);
        tag++;
    }
    for (unsigned i = 0; i < sent.size(); i++) { /* those of every third length are unexpected */
        bool backward = i & 1;
        if (i / 2 % 3 != 0) {
            received[i].receive(backward ? a : b, gpucoll_net_tag(5, backward, i));
        }
    }
    for (unsigned i = static_cast<unsigned>(sent.size()); i-- > 0;) {
        bool backward = i & 1;
        sent[i].send(backward ? b : a, backward ? to_a : to_b, gpucoll_net_tag(5, backward, i));
    }
    until(
        a, b, [] { return false; }, 0.05);
    for (unsigned i = 0; i < sent.size(); i++) {
        if (i / 2 % 3 == 0) {
            received[i].receive(i & 1 ? a : b, gpucoll_net_tag(5, i & 1, i));
        }
    }
    for (unsigned i = 0; i < sent.size(); i++) {
        bool backward = i & 1;
        ASSERT_TRUE(until(a, b, [&] {
            return ended(backward ? b : a, sent[i]) && ended(backward ? a : b, received[i]);
        })) << i;
        EXPECT_EQ(sent[i].status, GPUCOLL_OK);
        EXPECT_EQ(received[i].status, GPUCOLL_OK);
        EXPECT_TRUE(sent[i].data == received[i].data) << i;
    }
    ops->disconnect(a.net, to_b);
    ops->disconnect(b.net, to_a);
    EXPECT_TRUE(a.log.topics().empty());
    EXPECT_TRUE(b.log.topics().empty());
}

TEST_P(net, messages_of_one_tag_arrive_in_order)
{
    enum { COUNT = 100, EARLY = 40 };
    const size_t lengths[] = {8, 200000, 0, 5000, 40000, 1};
    std::deque<Message> sent;
    std::deque<Message> received;
    for (unsigned i = 0; i < COUNT; i++) {
        sent.emplace_back(lengths[i % 6], i);
        received.emplace_back(lengths[i % 6], 255);
    }
    for (unsigned i = 0; i < EARLY; i++) {
        received[i].receive(b, 9);
    }
    for (Message &message : sent) {
        message.send(a, to_b, 9);
    }
    until(
        a, b, [] { return false; }, 0.05);
    for (unsigned i = EARLY; i < COUNT; i++) {
        received[i].receive(b, 9);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        ASSERT_TRUE(until(a, b, [&] { return ended(a, sent[i]) && ended(b, received[i]); })) << i;
        ASSERT_EQ(received[i].status, GPUCOLL_OK) << i;
        EXPECT_TRUE(sent[i].data == received[i].data) << i;
    }
}

/* Short ones come with their data, long ones wait for the receiver: two ways of UCX. */
TEST_P(net, another_length_is_an_error)
{
    const size_t lengths[][2] = {{8, 16}, {16, 8}, {0, 1}, {1, 0}, {1 << 20, 1 << 19}, {1 << 19, 1 << 20}};
    uint64_t tag = 0;
    struct gpucoll_net_peer *to_a = b.connect(a);
    for (const auto &pair : lengths) {
        for (bool early : {false, true}) {
            Message sent(pair[0]);
            Message received(pair[1]);
            tag++;
            if (early) {
                received.receive(b, tag, to_a);
            }
            sent.send(a, to_b, tag);
            until(
                a, b, [] { return false; }, 0.01);
            if (!early) {
                received.receive(b, tag, to_a);
            }
            ASSERT_TRUE(until(a, b, [&] { return ended(b, received) && ended(a, sent); }));
            EXPECT_EQ(received.status, GPUCOLL_ERR_MISMATCH) << pair[0] << " for " << pair[1];
        }
    }
    EXPECT_EQ(b.log.topics().size(), 12u);
    const std::string text = b.log.text_of("net-length");
    EXPECT_NE(text.find("Expected:  16 bytes"), std::string::npos) << text;
    EXPECT_NE(text.find("From:      " + this_process() + " on host "), std::string::npos) << text;
    Message sent(100, 3);
    Message received(100);
    received.receive(b, 1000);
    sent.send(a, to_b, 1000);
    ASSERT_TRUE(until(a, b, [&] { return ended(b, received) && ended(a, sent); }));
    EXPECT_TRUE(sent.data == received.data);
}

TEST_P(net, a_shorter_message_is_none_where_it_may_be_shorter)
{
    const size_t lengths[] = {0, 1, 40, 4136, 16424, 20000};
    uint64_t tag = 0;
    for (size_t bytes : lengths) {
        for (bool early : {false, true}) {
            Message sent(bytes, 3);
            Message received(16424);
            tag++;
            if (early) {
                received.receive_up_to(b, tag);
            }
            sent.send(a, to_b, tag);
            until(
                a, b, [] { return false; }, 0.01);
            if (!early) {
                received.receive_up_to(b, tag);
            }
            ASSERT_TRUE(until(a, b, [&] { return ended(b, received) && ended(a, sent); }));
            const bool fits = bytes <= received.data.size();
            EXPECT_EQ(received.status, fits ? GPUCOLL_OK : GPUCOLL_ERR_MISMATCH) << bytes;
            EXPECT_TRUE(!fits || std::equal(sent.data.begin(), sent.data.end(), received.data.begin()));
        }
    }
    EXPECT_EQ(b.log.topics(), (std::vector<std::string>{"net-length", "net-length"}));
}

TEST_P(net, a_receive_that_is_cancelled_takes_nothing)
{
    Message never(4096, 7);
    never.receive(b, 5);
    ops->cancel(b.net, &never);
    EXPECT_NE(never.status, GPUCOLL_IN_PROGRESS);
    ops->cancel(b.net, &never);
    const Message as_before(4096, 7);
    Message sent(4096, 99);
    Message received(4096);
    sent.send(a, to_b, 5);
    until(
        a, b, [] { return false; }, 0.02);
    EXPECT_TRUE(never.data == as_before.data);
    received.receive(b, 5);
    ASSERT_TRUE(until(a, b, [&] { return ended(a, sent) && ended(b, received); }));
    EXPECT_TRUE(sent.data == received.data);
    EXPECT_TRUE(b.log.topics().empty());
}

TEST_P(net, a_send_that_is_cancelled_is_dropped_by_its_receiver)
{
    struct gpucoll_net_peer *to_a = b.connect(a);
    for (unsigned round = 0; round < 3; round++) {
        auto never = std::make_unique<Message>(4 << 20, 7);
        Message other(4 << 20, 8); /* of another team, and not cancelled */
        Message received(4 << 20);
        never->send(a, to_b, 5 + round);
        other.send(a, to_b, 50);
        until(
            a, b, [] { return false; }, 0.02);
        std::atomic<bool> stop{false};
        std::atomic<bool> turns{false};
        std::thread other_process([&] {
            while (!stop) {
                ops->progress(b.net);
                turns = true;
            }
        });
        while (!turns) {
            std::this_thread::yield();
        }
        ops->cancel(a.net, never.get()); /* it waits half a second for the other process to look */
        EXPECT_NE(never->status, GPUCOLL_IN_PROGRESS);
        never.reset();
        stop = true;
        other_process.join();
        received.receive(b, 50);
        ASSERT_TRUE(until(a, b, [&] { return ended(a, other) && ended(b, received); }));
        EXPECT_TRUE(other.data == received.data);
        EXPECT_TRUE(exchange(a, to_b, b, to_a, 8));
        EXPECT_TRUE(exchange(a, to_b, b, to_a, 4 << 20));
    }
    EXPECT_TRUE(a.log.topics().empty());
    EXPECT_TRUE(b.log.topics().empty());
}

/* Its receiver does not look: then the connection is broken, which the other side notices as soon as it looks. It does so before the next
 * message here: with assertions on, UCX 1.13 may abort a process whose new connection by TCP meets one that its peer has not seen fail. */
TEST_P(net, a_send_that_is_cancelled_leaves_its_memory_alone)
{
    struct gpucoll_net_peer *to_a = b.connect(a);
    for (unsigned round = 0; round < 2; round++) {
        auto never = std::make_unique<Message>(4 << 20, 7);
        never->send(a, to_b, 5 + round);
        until(
            a, b, [] { return false; }, 0.02);
        ops->cancel(a.net, never.get());
        EXPECT_NE(never->status, GPUCOLL_IN_PROGRESS);
        never.reset();
        until(
            a, b, [] { return false; }, 0.05);
        (void)exchange(a, to_b, b, to_a, 4 << 20);
        EXPECT_TRUE(exchange(a, to_b, b, to_a, 8));
        EXPECT_TRUE(exchange(a, to_b, b, to_a, 4 << 20));
    }
}

/* Its sender falls silent in the middle, and this end has never sent it anything: nothing of it comes when it is heard again. */
TEST_P(net, a_receive_that_is_cancelled_in_the_middle_gets_no_more)
{
    struct gpucoll_net_peer *to_a = b.connect(a);
    Message sent(BYTES, 7);
    Message received(BYTES);
    ASSERT_NO_FATAL_FAILURE(send_a_part(to_a, sent, nullptr, received));
    const auto begin = Clock::now();
    ops->cancel(a.net, &received);
    EXPECT_LT(std::chrono::duration<double>(Clock::now() - begin).count(), 20);
    EXPECT_NE(received.status, GPUCOLL_OK);
    expect_no_more(received);
    ops->cancel(b.net, &sent);
    (void)exchange(a, to_b, b, to_a, 8); /* the break may be seen only now */
    EXPECT_TRUE(exchange(a, to_b, b, to_a, 8));
    EXPECT_TRUE(exchange(a, to_b, b, to_a, 4 << 20));
    ops->disconnect(b.net, to_a);
}

/* Messages to others go on, though no one has looked for them yet. */
TEST_P(net, a_sender_that_falls_silent_costs_its_own_connection)
{
    Net c(GetParam());
    ASSERT_EQ(c.status, GPUCOLL_OK);
    struct gpucoll_net_peer *to_c = a.connect(c);
    struct gpucoll_net_peer *to_a = b.connect(a);
    struct gpucoll_net_peer *from_c = c.connect(a);
    ASSERT_TRUE(exchange(a, to_c, c, from_c, 8));
    Message sent(BYTES, 7);
    Message received(BYTES);
    Message other(4 << 20, 8);
    Message arrived(4 << 20);
    other.send(a, to_c, 6);
    ASSERT_NO_FATAL_FAILURE(send_a_part(to_a, sent, to_b, received));
    ops->cancel(a.net, &received);
    EXPECT_NE(received.status, GPUCOLL_OK);
    ASSERT_FALSE(ended(a, other));
    expect_no_more(received);
    arrived.receive(c, 6);
    ASSERT_TRUE(until(a, c, [&] { return ended(a, other) && ended(c, arrived); }));
    EXPECT_EQ(other.status, GPUCOLL_OK);
    EXPECT_TRUE(other.data == arrived.data);
    EXPECT_FALSE(ops->lost(c.net, from_c));
    EXPECT_TRUE(a.log.topics().empty());
    ops->cancel(b.net, &sent);
}

/* Its sender leaves in the middle. */
TEST_P(net, a_receive_that_fails_names_its_sender)
{
    struct gpucoll_net_peer *to_a = b.connect(a);
    Message sent(BYTES, 7);
    Message received(BYTES);
    ASSERT_NO_FATAL_FAILURE(send_a_part(to_a, sent, to_b, received));
    ops->close(b.net);
    b.net = nullptr;
    const bool fails = until(
        a, a, [&] { return ended(a, received); }, 10);
    if (!fails) {
        ops->cancel(a.net, &received);
        GTEST_SKIP() << "this UCX waits for a sender that has gone";
    }
    EXPECT_EQ(received.status, GPUCOLL_ERR_SYSTEM);
    const std::string text = a.log.text_of("net-receive");
    EXPECT_NE(text.find("From:   " + this_process() + " on host "), std::string::npos) << text;
}

/* Who has broken the connection is still there, and says so when it is asked. */
TEST_P(net, a_peer_that_has_broken_the_connection_is_not_gone)
{
    struct gpucoll_net_peer *to_a = b.connect(a);
    ASSERT_TRUE(exchange(a, to_b, b, to_a, 8));
    EXPECT_FALSE(ops->gone(b.net, to_a));
    Message never(4 << 20, 7);
    never.send(a, to_b, 5);
    until(
        a, b, [] { return false; }, 0.02);
    ops->cancel(a.net, &never); /* to which its receiver does not answer */
    ASSERT_TRUE(until(
        a, b, [&] { return ops->lost(b.net, to_a); }, 10));
    EXPECT_TRUE(until(
        a, b,
        [&] {
            EXPECT_FALSE(ops->gone(b.net, to_a));
            return !ops->lost(b.net, to_a);
        },
        10));
    EXPECT_TRUE(exchange(a, to_b, b, to_a, 4 << 20));
    ops->disconnect(a.net, to_b);
    ops->disconnect(b.net, to_a);
}

/* `a` breaks its connection to `b`, for the sake of a message that `b` does not take, and `b` sees it. */
void break_connection(Net &a, struct gpucoll_net_peer *to_b, Net &b, struct gpucoll_net_peer *to_a)
{
    ASSERT_TRUE(exchange(a, to_b, b, to_a, 8));
    Message never(4 << 20, 7);
    never.send(a, to_b, 5);
    until(
        a, b, [] { return false; }, 0.02);
    ops->cancel(a.net, &never);
    ASSERT_TRUE(until(
        a, b, [&] { return ops->lost(b.net, to_a); }, 60));
}

/* Who has broken the connection and does nothing since, as a process that is stopped. */
TEST_P(net, a_peer_that_does_not_answer_in_time_is_gone)
{
    Net impatient(GetParam(), "1");
    ASSERT_EQ(impatient.status, GPUCOLL_OK);
    struct gpucoll_net_peer *to_impatient = a.connect(impatient);
    struct gpucoll_net_peer *to_a = impatient.connect(a);
    ASSERT_NO_FATAL_FAILURE(break_connection(a, to_impatient, impatient, to_a));
    const auto begin = Clock::now();
    EXPECT_TRUE(until(
        impatient, impatient, [&] { return ops->gone(impatient.net, to_a); }, 60));
    EXPECT_GE(std::chrono::duration<double>(Clock::now() - begin).count(), 1);
    EXPECT_TRUE(ops->gone(impatient.net, to_a));
    EXPECT_EQ(impatient.log.topics(), std::vector<std::string>{"net-unanswered"});
    EXPECT_NE(impatient.log.text_of("net-unanswered").find(this_process()), std::string::npos)
        << impatient.log.text_of("net-unanswered");
    EXPECT_TRUE(until(
        a, impatient, /* which goes on */
        [&] { return !ops->gone(impatient.net, to_a) && !ops->lost(impatient.net, to_a); }, 60));
    EXPECT_TRUE(exchange(a, to_impatient, impatient, to_a, 8));
    ops->disconnect(a.net, to_impatient);
    ops->disconnect(impatient.net, to_a);
}

/* The asking process computes meanwhile: what it has not looked for does not count as missing. */
TEST_P(net, a_peer_whose_answer_nobody_looked_for_is_not_gone)
{
    Net busy(GetParam(), "1");
    ASSERT_EQ(busy.status, GPUCOLL_OK);
    struct gpucoll_net_peer *to_busy = a.connect(busy);
    struct gpucoll_net_peer *to_a = busy.connect(a);
    ASSERT_NO_FATAL_FAILURE(break_connection(a, to_busy, busy, to_a));
    EXPECT_FALSE(ops->gone(busy.net, to_a)); /* asks */
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    EXPECT_FALSE(ops->gone(busy.net, to_a));
    ops->progress(busy.net);
    EXPECT_FALSE(ops->gone(busy.net, to_a));
    EXPECT_TRUE(until(
        a, busy,
        [&] {
            EXPECT_FALSE(ops->gone(busy.net, to_a));
            return !ops->lost(busy.net, to_a);
        },
        60));
    EXPECT_TRUE(busy.log.topics().empty());
    EXPECT_TRUE(exchange(a, to_busy, busy, to_a, 8));
    ops->disconnect(a.net, to_busy);
    ops->disconnect(busy.net, to_a);
}

/* Messages to many that do nothing are given up in the time of one. */
TEST_P(net, sends_that_are_cancelled_together_wait_together)
{
    std::vector<std::unique_ptr<Net>> silent;
    std::deque<Message> messages;
    std::vector<struct gpucoll_net_peer *> peers;
    for (int i = 0; i < 12; i++) {
        silent.push_back(std::make_unique<Net>(GetParam()));
        ASSERT_EQ(silent.back()->status, GPUCOLL_OK);
        peers.push_back(a.connect(*silent.back()));
        ASSERT_TRUE(exchange(a, peers.back(), *silent.back(), silent.back()->connect(a), 4 << 20));
        messages.emplace_back(4 << 20).send(a, peers.back(), 5);
    }
    /* One after another: half a second each. */
    EXPECT_LT(give_up_together(a, messages), 5);
    for (struct gpucoll_net_peer *peer : peers) {
        ops->disconnect(a.net, peer);
    }
}

TEST_P(net, closes_with_anything_under_way)
{
    struct gpucoll_net_peer *to_a = b.connect(a);
    std::deque<Message> messages;
    for (size_t bytes : {0, 8, 10000, 1 << 20}) {
        for (unsigned i = 0; i < 3; i++) {
            messages.emplace_back(bytes).send(a, to_b, 1);
            messages.emplace_back(bytes).send(b, to_a, 1);
            messages.emplace_back(bytes).receive(a, 2);
            messages.emplace_back(bytes).receive(b, 2);
        }
    }
    until(
        a, b, [] { return false; }, 0.05);
    ops->close(a.net);
    a.net = nullptr;
    ops->close(b.net);
    b.net = nullptr;
    EXPECT_TRUE(a.log.topics().empty());
}

TEST_P(net, connects_are_counted)
{
    EXPECT_EQ(a.connect(b), to_b);
    for (unsigned i = 0; i < 2; i++) {
        Message sent(64, i);
        Message received(64);
        received.receive(b, 1);
        sent.send(a, to_b, 1);
        ASSERT_TRUE(until(a, b, [&] { return ended(a, sent) && ended(b, received); }));
        EXPECT_TRUE(sent.data == received.data);
        ops->disconnect(a.net, to_b);
    }
    EXPECT_NE(a.connect(b), nullptr); /* and left connected: closing ends it */
    struct gpucoll_net_address none = {};
    struct gpucoll_net_peer *peer;
    EXPECT_EQ(ops->connect(a.net, &none, &peer), GPUCOLL_ERR_INVALID);
    EXPECT_NE(a.log.text_of("net-address"), "");
    ops->close(nullptr);
}

/* Nothing is sent to any of them. */
TEST(net_peers, as_many_as_a_large_job_has_are_found_at_once)
{
    Net a("lo");
    OPEN(a);
    enum { PEERS = 20000 };
    struct gpucoll_net_address address = a.address();
    std::vector<struct gpucoll_net_peer *> peers(PEERS);
    const auto start = Clock::now();
    for (int time = 0; time < 2; time++) {
        for (uint32_t i = 0; i < PEERS; i++) {
            struct gpucoll_net_peer *peer = nullptr;
            memcpy(address.data, &i, sizeof i); /* the number of its process */
            ASSERT_EQ(ops->connect(a.net, &address, &peer), GPUCOLL_OK);
            EXPECT_TRUE(time == 0 || peer == peers[i]);
            peers[i] = peer;
        }
    }
    EXPECT_EQ(std::set<struct gpucoll_net_peer *>(peers.begin(), peers.end()).size(), peers.size());
    for (uint32_t i = 0; i < 2 * PEERS; i++) { /* in another order; one of every pair stays for close */
        if (i < PEERS || i % 2 == 0) {
            ops->disconnect(a.net, peers[static_cast<uint64_t>(i) * 7919 % PEERS]);
        }
    }
    EXPECT_LT(std::chrono::duration<double>(Clock::now() - start).count(), 4);
}

TEST_P(net, threads_share_one_end)
{
    struct gpucoll_net_peer *to_a = b.connect(a);
    std::atomic<unsigned> good{0};
    enum { THREADS = 4, ROUNDS = 60 };
    auto ping = [&](Net &mine, struct gpucoll_net_peer *peer, unsigned thread, bool first) {
        for (unsigned i = 0; i < ROUNDS; i++) {
            size_t bytes = (i % 3) * 30011;
            Message sent(bytes, i + thread);
            Message received(bytes);
            received.receive(mine, gpucoll_net_tag(thread, first, 0));
            sent.send(mine, peer, gpucoll_net_tag(thread, !first, 0));
            while (!ended(mine, sent) || !ended(mine, received)) {
                if (!ops->progress(mine.net)) {
                    std::this_thread::yield();
                }
            }
            good += sent.status == GPUCOLL_OK && received.status == GPUCOLL_OK && sent.data == received.data;
        }
    };
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < THREADS; i++) {
        threads.emplace_back([&, i] { ping(a, to_b, i, true); });
        threads.emplace_back([&, i] { ping(b, to_a, i, false); });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    EXPECT_EQ(good, 2u * THREADS * ROUNDS);
}

INSTANTIATE_TEST_SUITE_P(devices, net, testing::Values("auto", "lo"),
                         [](const auto &info) { return std::string(info.param); });

TEST(net_devices, a_name_that_does_not_exist_is_named_with_those_that_do)
{
    Net there("lo");
    OPEN(there);
    Net missing("lo,pigeon0");
    EXPECT_EQ(missing.status, GPUCOLL_DECLINED);
    std::string text = missing.log.text_of("net-devices");
    EXPECT_NE(text.find("Not found:                 pigeon0\n"), std::string::npos) << text;
    EXPECT_NE(text.find("lo"), std::string::npos) << text;
}

} // namespace
