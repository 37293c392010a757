/*
 * ucx_tl/rdma/memory: messages from and to the memory of GPUs, as UCX is told of them.
 */
#include <memory>
#include "test/unit/net_ends.h"

extern "C" {
#include "test/unit/gpu_memory.h"
}

namespace
{
class net_memory : public testing::Test
{
  protected:
    void SetUp() override
    {
        OPEN(a);
        OPEN(b);
        to_b = a.connect(b);
    }
    void TearDown() override
    {
        if (to_b != nullptr) {
            ops->disconnect(a.net, to_b);
        }
    }

    /* All of a message. */
    gpucoll_net_memory *reach(Message &message)
    {
        return ops->reach(a.net, test_gpu(), message.data.data(), message.data.size());
    }

    Net a{"lo"};
    Net b{"lo"};
    struct gpucoll_net_peer *to_b = nullptr;
};
constexpr size_t LONG = 4 << 20;
} // namespace

TEST_F(net_memory, is_registered_for_a_call_and_its_messages_have_that)
{
    for (bool registers : {true, false}) {
        Message sent(LONG, 1);
        Message received(LONG);
        test_take_gpu_memory(a.net, registers, registers);
        sent.memory = reach(sent);
        ASSERT_NE(sent.memory, nullptr);
        EXPECT_EQ(test_gpu_count().registered, registers);
        received.receive(b, 3); /* in host memory */
        sent.send(a, to_b, 3);
        ASSERT_TRUE(until(a, b, [&] { return ended(a, sent) && ended(b, received); }));
        EXPECT_TRUE(sent.data == received.data);
        ops->forget(a.net, sent.memory);
        const struct test_gpu_count count = test_gpu_count();
        EXPECT_EQ(count.messages, 1);
        EXPECT_EQ(count.with_handle, registers);
        EXPECT_EQ(count.outside, 0);
        EXPECT_EQ(count.entered, 0);
        EXPECT_EQ(count.registered, 0);
    }
}

TEST_F(net_memory, that_cannot_be_registered_is_left_to_copies_or_to_ucx)
{
    Message data(LONG);
    test_take_gpu_memory(a.net, true, true);
    test_refuse_gpu_memory();
    EXPECT_EQ(reach(data), nullptr);
    test_take_gpu_memory(a.net, true, false);
    test_refuse_gpu_memory();
    gpucoll_net_memory *memory = reach(data);
    EXPECT_NE(memory, nullptr);
    ops->forget(a.net, memory);
    unsigned said = 0;
    for (const std::string &line : a.log.lines()) {
        said += line.find("cannot register") != std::string::npos;
    }
    EXPECT_EQ(said, 1u);
}

TEST_F(net_memory, of_few_bytes_is_not_worth_registering)
{
    Message few(1000);
    test_take_gpu_memory(a.net, true, true);
    EXPECT_EQ(reach(few), nullptr);
    EXPECT_EQ(test_gpu_count().registered, 0);
}

/* What UCX may still read stays registered until the network is closed. */
TEST_F(net_memory, of_a_message_that_is_taken_back)
{
    auto never = std::make_unique<Message>(LONG, 7);
    Message other(LONG);
    test_take_gpu_memory(a.net, true, true);
    never->memory = reach(*never);
    other.memory = reach(other);
    never->send(a, to_b, 5);
    other.receive(a, 6);
    until(
        a, b, [] { return false; }, 0.02);
    for (Message *message : {never.get(), &other}) {
        ops->begin_cancel(a.net, message);
    }
    until(
        a, b, [] { return false; }, 0.05);
    for (Message *message : {never.get(), &other}) {
        ops->cancel(a.net, message);
        EXPECT_NE(message->status, GPUCOLL_IN_PROGRESS);
        ops->forget(a.net, message->memory);
    }
    never.reset();
    EXPECT_EQ(test_gpu_count().registered, 0);
    EXPECT_EQ(test_gpu_count().outside, 0);
    EXPECT_EQ(test_gpu_count().entered, 0);
}
