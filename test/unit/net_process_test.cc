/*
 * ucx_tl/rdma: what needs another process, which dies or in which nobody has loaded UCX before. It is this program, started anew for one test.
 */
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>
#include "test/unit/net_ends.h"

namespace
{

class net_process : public testing::TestWithParam<const char *>
{
};

/* Not a test: the peer process of the next one, which starts this program anew for it. */
TEST(net_peer, DISABLED_answers_and_waits)
{
    const char *wish = getenv("GPUCOLL_TEST_NET_PEER");
    ASSERT_NE(wish, nullptr);
    Net mine(wish);
    ASSERT_EQ(mine.status, GPUCOLL_OK);
    struct gpucoll_net_address theirs;
    struct gpucoll_net_address own = mine.address();
    ASSERT_EQ(write(4, &own, sizeof own), static_cast<ssize_t>(sizeof own));
    ASSERT_EQ(read(3, &theirs, sizeof theirs), static_cast<ssize_t>(sizeof theirs));
    struct gpucoll_net_peer *peer = nullptr;
    ASSERT_EQ(ops->connect(mine.net, &theirs, &peer), GPUCOLL_OK);
    Message message(1000);
    message.receive(mine, 1);
    until(mine, mine, [&] { return ended(mine, message); });
    message.send(mine, peer, 2);
    until(
        mine, mine, [] { return false; }, 100);
}

/* Becomes this program with one test of its own, which need not be in this program's share of the tests. */
void become(const char *test)
{
    const std::string filter = std::string("--gtest_filter=") + test;
    unsetenv("GTEST_TOTAL_SHARDS");
    unsetenv("GTEST_SHARD_INDEX");
    execl("/proc/self/exe", "unit_tests", "--gtest_also_run_disabled_tests", "--gtest_brief=1",
          filter.c_str(), static_cast<char *>(nullptr));
    _exit(1);
}

class Child
{
  public:
    explicit Child(const char *wish)
    {
        int down[2];
        int up[2];
        EXPECT_EQ(pipe(down), 0);
        EXPECT_EQ(pipe(up), 0);
        pid = fork();
        if (pid == 0) {
            dup2(down[0], 13);
            dup2(up[1], 14);
            dup2(13, 3);
            dup2(14, 4);
            setenv("GPUCOLL_TEST_NET_PEER", wish, 1);
            become("net_peer.DISABLED_answers_and_waits");
        }
        close(down[0]);
        close(up[1]);
        to = down[1];
        from = up[0];
    }
    ~Child()
    {
        end();
        close(to);
        close(from);
    }
    /* As it does itself, from its side. NULL: it could not. */
    struct gpucoll_net_peer *connect(Net &mine) const
    {
        struct gpucoll_net_address theirs;
        const struct gpucoll_net_address own = mine.address();
        struct gpucoll_net_peer *peer = nullptr;
        if (read(from, &theirs, sizeof theirs) != static_cast<ssize_t>(sizeof theirs) ||
            write(to, &own, sizeof own) != static_cast<ssize_t>(sizeof own)) {
            return nullptr;
        }
        EXPECT_EQ(ops->connect(mine.net, &theirs, &peer), GPUCOLL_OK);
        return peer;
    }
    void end()
    {
        if (pid > 0) {
            kill(pid, SIGKILL);
            waitpid(pid, nullptr, 0);
        }
        pid = -1;
    }
    pid_t pid;
    int to;
    int from;
};

TEST_P(net_process, sends_to_a_process_that_was_killed_fail_and_name_it)
{
    Net a(GetParam());
    OPEN(a);
    Child child(GetParam());
    struct gpucoll_net_peer *peer = child.connect(a);
    ASSERT_NE(peer, nullptr);
    Message sent(1000, 5);
    Message received(1000);
    received.receive(a, 2);
    sent.send(a, peer, 1);
    ASSERT_TRUE(until(a, a, [&] { return ended(a, sent) && ended(a, received); }));
    EXPECT_TRUE(sent.data == received.data);
    std::string name = "process " + std::to_string(child.pid);
    Message pending(4 << 20);
    pending.send(a, peer, 3);
    until(
        a, a, [] { return false; }, 0.05);
    child.end();
    auto start = Clock::now();
    EXPECT_TRUE(until(
        a, a, [&] { return ended(a, pending); }, 20));
    EXPECT_NE(pending.status, GPUCOLL_OK);
    for (size_t bytes : {8, 4 << 20}) {
        Message late(bytes);
        late.send(a, peer, 3);
        EXPECT_TRUE(until(
            a, a, [&] { return ended(a, late); }, 20))
            << bytes;
        EXPECT_NE(late.status, GPUCOLL_OK) << bytes;
        ops->cancel(a.net, &late);
    }
    EXPECT_LT(std::chrono::duration<double>(Clock::now() - start).count(), 15);
    EXPECT_NE(a.log.text_of("net-send").find(name), std::string::npos) << a.log.text_of("net-send");
    EXPECT_EQ(a.log.topics().size(), 1u);
    ops->cancel(a.net, &pending);
    ops->disconnect(a.net, peer);
}

/* It sends nothing itself, and is told nevertheless. */
TEST_P(net_process, that_was_killed_is_known_to_be_lost)
{
    Net a(GetParam());
    OPEN(a);
    Child child(GetParam());
    struct gpucoll_net_peer *peer = child.connect(a);
    ASSERT_NE(peer, nullptr);
    EXPECT_FALSE(ops->lost(a.net, peer));
    Message sent(1000, 5);
    Message received(1000);
    received.receive(a, 2);
    sent.send(a, peer, 1);
    ASSERT_TRUE(until(a, a, [&] { return ended(a, sent) && ended(a, received); }));
    EXPECT_FALSE(ops->lost(a.net, peer));
    child.end();
    EXPECT_TRUE(until(
        a, a, [&] { return ops->lost(a.net, peer); }, 10));
    EXPECT_TRUE(until(
        a, a, [&] { return ops->gone(a.net, peer); }, 10));
    EXPECT_TRUE(a.log.topics().empty());
    ops->disconnect(a.net, peer);
}

INSTANTIATE_TEST_SUITE_P(devices, net_process, testing::Values("auto", "lo"),
                         [](const auto &info) { return std::string(info.param); });

/* Not a test: the process of the next one, in which nobody has loaded UCX before. */
TEST(net_alone, DISABLED_looks_at_itself)
{
    const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGHUP};
    const char *const names[] = {"munmap", "mmap", "madvise", "mremap", "brk", "sbrk", "shmat", "shmdt"};
    enum { START = 16 };
    std::vector<std::string> code;
    for (const char *name : names) {
        code.emplace_back(static_cast<char *>(dlsym(RTLD_DEFAULT, name)), START);
    }
    struct sigaction before[5];
    for (int i = 0; i < 5; i++) {
        ASSERT_EQ(sigaction(signals[i], nullptr, &before[i]), 0);
    }
    Net loaded("lo");
    ASSERT_EQ(loaded.status, GPUCOLL_OK);
    for (int i = 0; i < 5; i++) {
        struct sigaction after;
        ASSERT_EQ(sigaction(signals[i], nullptr, &after), 0);
        EXPECT_EQ(after.sa_handler, before[i].sa_handler) << signals[i];
    }
    for (size_t i = 0; i < code.size(); i++) {
        EXPECT_EQ(memcmp(code[i].data(), dlsym(RTLD_DEFAULT, names[i]), START), 0) << names[i];
    }
    if (!HasFailure()) {
        _exit(42); /* a filter that no test matches would end with 0 */
    }
}

TEST(net_alone, loading_ucx_leaves_signals_and_the_c_library_alone)
{
    Net there("lo");
    OPEN(there);
    pid_t pid = fork();
    if (pid == 0) {
        for (const char *name :
             {"UCX_HANDLE_ERRORS", "UCX_ERROR_SIGNALS", "UCX_MEM_EVENTS", "UCX_MEM_MMAP_HOOK_MODE"}) {
            unsetenv(name);
        }
        become("net_alone.DISABLED_looks_at_itself");
    }
    int status = -1;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 42) << status;
}

} // namespace
