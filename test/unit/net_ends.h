/*
 * Ends of the network, for tests of it: each stands for a process, with its own context and worker of UCX.
 */
#ifndef GPUCOLL_TEST_NET_ENDS_H
#define GPUCOLL_TEST_NET_ENDS_H

#include <chrono>
#include <cstdlib>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>
#include "test/unit/fake_net.h"
#include "test/unit/unit.h"

extern "C" {
#include "ucx_tl/net.h"
}

namespace
{

const struct gpucoll_net_ops *const ops = &gpucoll_net_ucx;

using Clock = std::chrono::steady_clock;

/* A setting of UCX for networks that are opened while it lives: of itself each version sends messages of some length its own way. */
class UcxSetting
{
  public:
    UcxSetting(const char *name, const char *value) : name(name)
    {
        if (const char *theirs = getenv(name)) {
            before = theirs;
        }
        EXPECT_EQ(setenv(name, value, 1), 0);
    }
    ~UcxSetting()
    {
        if (before) {
            setenv(name, before->c_str(), 1);
        } else {
            unsetenv(name);
        }
    }
    UcxSetting(const UcxSetting &) = delete;
    UcxSetting &operator=(const UcxSetting &) = delete;

  private:
    const char *name;
    std::optional<std::string> before;
};

/* Messages are copied. Several versions (1.16, 1.17, 1.21 and 1.22 among them) send even short ones over TCP from where they are, so that nothing is done
 * before all of it has left. */
class Copying : UcxSetting
{
  public:
    Copying() : UcxSetting("UCX_ZCOPY_THRESH", "inf") {}
};

struct Net {
    RecordingLog log;
    std::string devices;
    struct gpucoll_config config;
    struct gpucoll_net *net = nullptr;
    gpucoll_status status;

    explicit Net(const char *chosen = "auto", const char *timeout = "100", const char *ties = "1")
        : devices(chosen)
    {
        gpucoll_config_init(&config);
        EXPECT_EQ(gpucoll_config_set(&config, "net_devices", devices.c_str()), GPUCOLL_OK);
        EXPECT_EQ(gpucoll_config_set(&config, "timeout", timeout), GPUCOLL_OK);
        EXPECT_EQ(gpucoll_config_set(&config, "net_ties", ties), GPUCOLL_OK);
        status = ops->open(&config, log.get(), &fake_net_place, &net);
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
    struct gpucoll_net_memory *memory = nullptr; /* that it counts as */
    explicit Message(size_t bytes = 0, unsigned seed = 0)
        : gpucoll_net_message{GPUCOLL_OK, nullptr, 0}, data(bytes)
    {
        for (size_t i = 0; i < bytes; i++) {
            data[i] = static_cast<unsigned char>(seed + i * 7 + (i >> 8));
        }
    }
    void send(Net &net, struct gpucoll_net_peer *peer, uint64_t tag)
    {
        ops->send(net.net, peer, tag, data.data(), data.size(), memory, this);
    }
    void receive(Net &net, uint64_t tag, struct gpucoll_net_peer *from = nullptr)
    {
        ops->receive(net.net, from, tag, data.data(), data.size(), memory, this);
    }
    void receive_up_to(Net &net, uint64_t tag, struct gpucoll_net_peer *from = nullptr)
    {
        ops->receive_up_to(net.net, from, tag, data.data(), data.size(), this);
    }
};

/* Turns both until the condition holds, for `seconds` at most. */
inline bool until(Net &a, Net &b, const std::function<bool()> &done, double seconds = 60)
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

inline bool ended(Net &net, Message &message)
{
    return ops->test(net.net, &message) != GPUCOLL_IN_PROGRESS;
}

/* Sends one message before the other end has sent any. Of two TCP connections that are made both ways at once UCX gives up one, at a time of its own;
 * until then it cannot tell what has left without the other end. */
inline bool reach(Net &a, struct gpucoll_net_peer *to_b, Net &b)
{
    Message sent(8, 1);
    Message arrived(8);
    arrived.receive(b, 99);
    sent.send(a, to_b, 99);
    return until(a, b, [&] { return ended(a, sent) && ended(b, arrived); }) && sent.data == arrived.data;
}

/* Sends in both directions; true if all went well. */
inline bool exchange(Net &a, struct gpucoll_net_peer *to_b, Net &b, struct gpucoll_net_peer *to_a,
                     size_t bytes)
{
    Message there(bytes, 1);
    Message arrived(bytes);
    Message back(bytes, 50);
    Message returned(bytes);
    arrived.receive(b, 100);
    returned.receive(a, 101);
    there.send(a, to_b, 100);
    back.send(b, to_a, 101);
    bool sent = until(a, b, [&] { return ended(a, there) && ended(b, back); });
    sent = sent && there.status == GPUCOLL_OK && back.status == GPUCOLL_OK;
    if (sent) {
        until(a, b, [&] { return ended(b, arrived) && ended(a, returned); });
    }
    for (Message *message : {&there, &returned}) {
        ops->cancel(a.net, message);
    }
    for (Message *message : {&back, &arrived}) {
        ops->cancel(b.net, message);
    }
    return sent && there.data == arrived.data && back.data == returned.data;
}

/* Gives all of them up, and then ends each; how many seconds that takes. */
inline double give_up_together(Net &net, std::deque<Message> &messages)
{
    const auto begin = Clock::now();
    for (Message &message : messages) {
        ops->begin_cancel(net.net, &message);
    }
    for (Message &message : messages) {
        ops->cancel(net.net, &message);
        EXPECT_NE(message.status, GPUCOLL_IN_PROGRESS);
    }
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

#define OPEN(net)                                                                                            \
    if ((net).status == GPUCOLL_DECLINED && (net).log.topics().empty()) {                                    \
        GTEST_SKIP() << "no UCX: " << ((net).log.lines().empty() ? "" : (net).log.lines().back());           \
    }                                                                                                        \
    ASSERT_EQ((net).status, GPUCOLL_OK)

} // namespace

#endif
