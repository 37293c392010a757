/*
 * ucx_tl/rdma: messages over UCX. Two networks in this process stand for two processes, each with its own context and worker of UCX.
 */
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include "test/unit/unit.h"

extern "C" {
#include "ucx_tl/net.h"
}

namespace
{

const struct gpucoll_net_ops *const ops = &gpucoll_net_ucx;

using Clock = std::chrono::steady_clock;

struct Net {
    RecordingLog log;
    std::string devices;
    struct gpucoll_config config;
    struct gpucoll_net *net = nullptr;
    gpucoll_status status;

    explicit Net(const char *chosen = "auto") : devices(chosen)
    {
        gpucoll_config_init(&config);
        EXPECT_EQ(gpucoll_config_set(&config, "net_devices", devices.c_str()), GPUCOLL_OK);
        status = ops->open(&config, log.get(), &net);
    }
    ~Net()
    {
        if (net) {
            ops->close(net);
        }
    }
    Net(const Net &) = delete;
    Net &operator=(const Net &) = delete;

    struct gpucoll_net_address address() const
    {
        struct gpucoll_net_address all;
        ops->address(net, &all);
        return all;
    }
    struct gpucoll_net_peer *connect(const Net &other)
    {
        struct gpucoll_net_peer *peer = nullptr;
        struct gpucoll_net_address to = other.address();
        EXPECT_EQ(ops->connect(net, &to, &peer), GPUCOLL_OK);
        return peer;
    }
};

struct Message : gpucoll_net_message {
    std::vector<unsigned char> data;
    explicit Message(size_t bytes = 0, unsigned seed = 0)
        : gpucoll_net_message{GPUCOLL_OK, nullptr}, data(bytes)
    {
        for (size_t i = 0; i < bytes; i++) {
            data[i] = static_cast<unsigned char>(seed + i * 7 + (i >> 8));
        }
    }
    void send(Net &net, struct gpucoll_net_peer *peer, uint64_t tag)
    {
        ops->send(net.net, peer, tag, data.data(), data.size(), this);
    }
    void receive(Net &net, uint64_t tag) { ops->receive(net.net, tag, data.data(), data.size(), this); }
};

/* Turns both until the condition holds, for `seconds` at most. */
bool until(Net &a, Net &b, const std::function<bool()> &done, double seconds = 60)
{
    auto start = Clock::now();
    while (!done()) {
        ops->progress(a.net);
        ops->progress(b.net);
        if (std::chrono::duration<double>(Clock::now() - start).count() > seconds) {
            return false;
        }
    }
    return true;
}

bool ended(Net &net, Message &message)
{
    return ops->test(net.net, &message) != GPUCOLL_IN_PROGRESS;
}

#define OPEN(net)                                                                                            \
    if ((net).status == GPUCOLL_DECLINED && (net).log.topics().empty()) {                                    \
        GTEST_SKIP() << "no UCX: " << ((net).log.lines().empty() ? "" : (net).log.lines().back());           \
    }                                                                                                        \
    ASSERT_EQ((net).status, GPUCOLL_OK)

class net : public testing::TestWithParam<const char *>
{
};

TEST_P(net, both_directions_any_order_every_length)
{
    Net a(GetParam());
    OPEN(a);
    Net b(GetParam());
    OPEN(b);
    struct gpucoll_net_peer *to_b = a.connect(b);
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

INSTANTIATE_TEST_SUITE_P(devices, net, testing::Values("auto", "lo"),
                         [](const auto &info) { return std::string(info.param); });

} // namespace
