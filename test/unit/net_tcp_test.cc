/*
 * ucx_tl/rdma over TCP: what has been sent, and is done, but has not left the process.
 */
#include <deque>
#include "test/unit/net_ends.h"

namespace
{

/* Two ends that are connected over TCP. */
class net_tcp : public testing::Test
{
  protected:
    void SetUp() override
    {
        OPEN(a);
        OPEN(b);
        to_b = a.connect(b);
        ASSERT_TRUE(reach(a, to_b, b));
        ASSERT_TRUE(exchange(a, to_b, b, b.connect(a), 8));
    }

    /* Sends to the other end, which nobody reads, until something stays behind. */
    void fill(std::deque<Message> &sent)
    {
        do {
            sent.emplace_back(4000);
            sent.back().send(a, to_b, 7);
        } while (ops->drained(a.net, to_b, 1) && sent.size() < 100000);
    }

    Copying copying;
    Net a{"lo"};
    Net b{"lo"};
    struct gpucoll_net_peer *to_b = nullptr;
};

/* Of the message that fills a socket a part stays behind, though UCX is done with it. */
TEST_F(net_tcp, what_is_done_may_not_have_left_and_does_with_progress)
{
    ASSERT_TRUE(until(a, b, [&] { return ops->drained(a.net, to_b, 1); }));
    std::deque<Message> sent;
    bool stays = false;
    while (!stays && sent.size() < 100000) {
        sent.emplace_back(4000, static_cast<unsigned>(sent.size()));
        sent.back().send(a, to_b, 7);
        ASSERT_TRUE(ended(a, sent.back())) << "message " << sent.size();
        stays = !ops->drained(a.net, to_b, 1);
    }
    EXPECT_TRUE(stays);
    EXPECT_GT(sent.size(), 10u) << "a socket takes more than some messages";
    for (int turn = 0; turn < 1000; turn++) {
        ops->progress(a.net);
    }
    EXPECT_FALSE(ops->drained(a.net, to_b, 1)) << "while nobody reads";
    for (Message &message : sent) {
        Message received(message.data.size());
        received.receive(b, 7);
        ASSERT_TRUE(until(a, b, [&] { return ended(b, received); }));
        ASSERT_TRUE(received.data == message.data);
    }
    EXPECT_TRUE(until(a, b, [&] { return ops->drained(a.net, to_b, 1); }));
    EXPECT_TRUE(a.log.topics().empty() && b.log.topics().empty());
}

/* A peer that computes is not waited for. */
TEST_F(net_tcp, what_has_left_is_known_without_the_peer)
{
    for (size_t bytes : {size_t{8}, size_t{4000}}) {
        Message message(bytes);
        message.send(a, to_b, 7);
        for (int turn = 0; turn < 1000 && !ended(a, message); turn++) {
            ops->progress(a.net);
        }
        ASSERT_TRUE(ended(a, message));
        ops->progress(a.net);
        EXPECT_TRUE(ops->drained(a.net, to_b, 1));
    }
}

/* Of what goes to another process nothing is to be waited for; nor does what comes in leave anything. */
TEST_F(net_tcp, what_has_not_left_for_one_peer_has_nothing_to_do_with_another)
{
    Net c{"lo"};
    OPEN(c);
    struct gpucoll_net_peer *to_c = a.connect(c);
    ASSERT_TRUE(reach(a, to_c, c));
    ASSERT_TRUE(exchange(a, to_c, c, c.connect(a), 8));
    ASSERT_TRUE(until(a, c, [&] { return ops->drained(a.net, to_c, 1); }));
    std::deque<Message> sent;
    fill(sent);
    EXPECT_FALSE(ops->drained(a.net, to_b, 1));
    EXPECT_TRUE(ops->drained(a.net, to_c, 1));
    ASSERT_TRUE(exchange(a, to_c, c, c.connect(a), 8));
    EXPECT_TRUE(until(
        a, c, [&] { return ops->drained(a.net, to_c, 1); }, 1));
    EXPECT_FALSE(ops->drained(a.net, to_b, 1)) << "while nobody reads";
}

TEST_F(net_tcp, closes_while_something_has_not_left)
{
    std::deque<Message> sent;
    fill(sent);
    ops->disconnect(a.net, to_b);
    ops->close(a.net);
    a.net = nullptr;
    EXPECT_TRUE(a.log.topics().empty());
}

} // namespace
