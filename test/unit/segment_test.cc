/*
 * core/base/segment: shared memory by memfd. Peers are forked children, since a segment of the same process is used in place.
 */
#include "test/unit/unit.h"
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include "test/unit/failing.h"
}

/* Runs `body` in a forked child and returns what it returned. */
static int in_child(const std::function<int()> &body)
{
    pid_t child = fork();
    if (child == 0) {
        _exit(body());
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

class segment : public testing::Test
{
  protected:
    void SetUp() override { ASSERT_EQ(gpucoll_segment_create(&mine, 10000, log.get()), GPUCOLL_OK); }
    void TearDown() override { gpucoll_segment_close(&mine); }

    /* What a peer process gets when it opens `name`: 0 if it was refused with topic "segment-open" that has `word`. */
    int refused(const gpucoll_segment_name &name, const char *word)
    {
        return in_child([&] {
            gpucoll_segment other;
            if (gpucoll_segment_open(&other, &name, log.get()) == GPUCOLL_OK) {
                return 1;
            }
            return log.text_of("segment-open").find(word) == std::string::npos ? 2 : 0;
        });
    }

    RecordingLog log;
    gpucoll_segment mine;
};

/* 512-byte blocks of the file that have memory. */
static blkcnt_t blocks_of(const gpucoll_segment *of)
{
    struct stat file;
    return fstat(of->fd, &file) == 0 ? file.st_blocks : -1;
}

TEST_F(segment, is_placed_before_it_has_memory)
{
    struct Placed {
        gpucoll_segment segment;
        size_t bytes;
        blkcnt_t blocks;
    } placed = {};
    auto place = [](void *arg, void *map, size_t bytes) {
        Placed *self = static_cast<Placed *>(arg);
        EXPECT_EQ(map, self->segment.map);
        self->bytes = bytes;
        self->blocks = blocks_of(&self->segment);
    };
    ASSERT_EQ(gpucoll_segment_create_placed(&placed.segment, 1 << 20, place, &placed, log.get()), GPUCOLL_OK);
    EXPECT_EQ(placed.bytes, placed.segment.map_bytes);
    EXPECT_EQ(placed.blocks, 0);
    EXPECT_EQ(blocks_of(&placed.segment), static_cast<blkcnt_t>(placed.segment.map_bytes / 512));
    gpucoll_segment_close(&placed.segment);
}

/* Its memory is reserved a piece at a time, and what a signal interrupts is done again. */
TEST_F(segment, is_whole_though_signals_interrupt_its_making)
{
    constexpr size_t bytes = 9 << 20;
    gpucoll_segment other;
    test_interrupt_reserving(5);
    ASSERT_EQ(gpucoll_segment_create(&other, bytes, log.get()), GPUCOLL_OK);
    EXPECT_GE(blocks_of(&other) * 512, static_cast<blkcnt_t>(bytes));
    EXPECT_TRUE(log.topics().empty());
    gpucoll_segment_close(&other);
}

TEST_F(segment, is_zero_and_page_aligned)
{
    EXPECT_GE(mine.name.bytes, 10000u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(mine.user) % static_cast<size_t>(getpagesize()), 0u);
    for (size_t i = 0; i < mine.name.bytes; i++) {
        ASSERT_EQ(static_cast<char *>(mine.user)[i], 0);
    }
}

TEST_F(segment, is_shared_with_a_peer_process)
{
    int result = in_child([&] {
        gpucoll_segment other;
        /* What the fork copied must not be what answers. */
        munmap(mine.map, mine.map_bytes);
        if (gpucoll_segment_open(&other, &mine.name, log.get()) != GPUCOLL_OK) {
            return 1;
        }
        strcpy(static_cast<char *>(other.user) + 9000, "from the peer");
        gpucoll_segment_close(&other);
        return 0;
    });
    EXPECT_EQ(result, 0) << log.text_of("segment-open");
    EXPECT_STREQ(static_cast<char *>(mine.user) + 9000, "from the peer");
}

TEST_F(segment, is_used_in_place_in_the_same_process)
{
    gpucoll_segment other;
    ASSERT_EQ(gpucoll_segment_open(&other, &mine.name, log.get()), GPUCOLL_OK);
    EXPECT_EQ(other.user, mine.user);
    EXPECT_EQ(other.map, nullptr);
    gpucoll_segment_close(&other);
    static_cast<char *>(mine.user)[0] = 1; /* still mapped */
}

TEST_F(segment, needs_nothing_of_dev_shm)
{
    gpucoll_segment another;
    ASSERT_EQ(gpucoll_segment_create(&another, 1 << 20, log.get()), GPUCOLL_OK);
    EXPECT_EQ(shm_traces(), std::vector<std::string>());
    gpucoll_segment_close(&another);
}

TEST_F(segment, wrong_cookie_is_refused)
{
    gpucoll_segment_name name = mine.name;
    name.cookie ^= 1;
    EXPECT_EQ(refused(name, "reused"), 0);
}

TEST_F(segment, wrong_size_is_refused)
{
    gpucoll_segment_name name = mine.name;
    name.bytes *= 2;
    EXPECT_EQ(refused(name, "smaller"), 0);
    name.bytes = mine.name.bytes / 2;
    EXPECT_EQ(refused(name, "reused"), 0);
    name.bytes = UINT64_MAX;
    EXPECT_EQ(refused(name, "range"), 0);
}

TEST_F(segment, other_user_is_refused)
{
    gpucoll_segment_name name = mine.name;
    name.owner.uid += 1;
    EXPECT_EQ(refused(name, "user"), 0);
}

TEST_F(segment, other_host_or_container_is_refused)
{
    gpucoll_segment_name name = mine.name;
    name.owner.host ^= 1;
    EXPECT_EQ(refused(name, "host"), 0);
    name = mine.name;
    name.owner.pid_space ^= 1;
    EXPECT_EQ(refused(name, "namespace"), 0);
}

TEST_F(segment, foreign_descriptor_is_refused)
{
    int pipes[2];
    ASSERT_EQ(pipe(pipes), 0);
    gpucoll_segment_name name = mine.name;
    name.fd = pipes[0];
    EXPECT_EQ(refused(name, ""), 0);
    close(pipes[0]);
    close(pipes[1]);
    EXPECT_EQ(refused(name, ""), 0); /* and one that is closed */
}

TEST_F(segment, dead_owner_is_refused)
{
    gpucoll_segment_name name = mine.name;
    pid_t gone = fork();
    if (gone == 0) {
        _exit(0);
    }
    waitpid(gone, nullptr, 0);
    name.owner.pid = static_cast<uint32_t>(gone);
    EXPECT_EQ(refused(name, "No such"), 0);
}

/* Its clock counts from another moment, as in another time namespace: it is not taken for a process that has ended. */
TEST_F(segment, owner_of_another_clock_is_not_gone)
{
    gpucoll_segment_name name = mine.name;
    name.owner.start_time--;
    int result = in_child([&] {
        gpucoll_segment other;
        if (gpucoll_segment_open(&other, &name, log.get()) != GPUCOLL_OK) {
            return 1;
        }
        /* By its announced name it is found again. */
        if (memcmp(&other.name, &name, sizeof name) != 0) {
            return 3;
        }
        return gpucoll_process_gone(&other.owner) ? 2 : 0;
    });
    EXPECT_EQ(result, 0);
}

TEST_F(segment, impossible_size_is_an_error_not_a_signal)
{
    gpucoll_segment huge;
    EXPECT_NE(gpucoll_segment_create(&huge, SIZE_MAX / 4, log.get()), GPUCOLL_OK);
    EXPECT_NE(gpucoll_segment_create(&huge, SIZE_MAX, log.get()), GPUCOLL_OK);
    EXPECT_EQ(log.topics(), std::vector<std::string>(2, "segment-create"));
}

TEST(segment_close, is_harmless_on_a_zeroed_struct)
{
    gpucoll_segment nothing;
    memset(&nothing, 0, sizeof nothing);
    gpucoll_segment_close(&nothing);
    EXPECT_NE(fcntl(0, F_GETFD), -1) << "standard input was closed";
}

TEST(process, is_itself_and_not_its_child)
{
    gpucoll_process_id self;
    gpucoll_process_id again;
    gpucoll_process_id_self(&self);
    gpucoll_process_id_self(&again);
    EXPECT_TRUE(gpucoll_process_same(&self, &again));
    EXPECT_TRUE(gpucoll_process_same_host(&self, &again));
    EXPECT_NE(self.host, 0u);
    EXPECT_NE(self.start_time, 0u);
    int result = in_child([&] {
        gpucoll_process_id child;
        gpucoll_process_id_self(&child);
        return gpucoll_process_same(&self, &child) || !gpucoll_process_same_host(&self, &child);
    });
    EXPECT_EQ(result, 0);
}

TEST(process, is_itself_without_descriptors)
{
    gpucoll_process_id before;
    gpucoll_process_id_self(&before);
    const int result =
        in_child([] { /* its limit ends with it */
                      gpucoll_process_id first;
                      gpucoll_process_id then;
                      gpucoll_process_id_self(&first);
                      const rlimit none = {0, 0};
                      setrlimit(RLIMIT_NOFILE, &none);
                      gpucoll_process_id_self(&then);
                      return open("/proc/self/stat", O_RDONLY) >= 0 || !gpucoll_process_same(&first, &then);
        });
    EXPECT_EQ(result, 0);
}

/* A process that has ended stays a zombie until its parent asks for its status: for as long as a launcher likes. */
TEST(process, is_gone_when_it_has_ended_and_nobody_has_asked)
{
    int pipes[2];
    ASSERT_EQ(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(pipes[1]);
        _exit(static_cast<int>(read(pipes[0], &byte, 1)));
    }
    close(pipes[0]);
    gpucoll_process_id process;
    gpucoll_process_id_self(&process);
    EXPECT_FALSE(gpucoll_process_gone(&process));
    process.pid = static_cast<uint32_t>(child);
    process.start_time = 0; /* not looked at */
    EXPECT_FALSE(gpucoll_process_gone(&process));
    close(pipes[1]); /* the child ends */
    siginfo_t info;
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
    ASSERT_EQ(kill(child, 0), 0);
    EXPECT_TRUE(gpucoll_process_gone(&process));
    waitpid(child, nullptr, 0);
    EXPECT_TRUE(gpucoll_process_gone(&process));
}

TEST(process, is_gone_when_another_has_its_id)
{
    gpucoll_process_id process;
    gpucoll_process_id_self(&process);
    process.start_time--;
    EXPECT_TRUE(gpucoll_process_gone(&process));
    process.pid_space ^= 1; /* there the ID means another process */
    EXPECT_FALSE(gpucoll_process_gone(&process));
}

/* Its main thread has ended: the kernel calls that a zombie as well. */
TEST(process, is_not_gone_while_a_thread_runs)
{
    int pipes[2];
    ASSERT_EQ(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        close(pipes[1]);
        std::thread([&] {
            char byte;
            _exit(static_cast<int>(read(pipes[0], &byte, 1)));
        }).detach();
        syscall(SYS_exit, 0); /* of this thread alone, and nothing of the test runs on in it */
    }
    close(pipes[0]);
    const std::string path = "/proc/" + std::to_string(child) + "/stat";
    std::string text;
    for (int look = 0; look < 1000 && text.find(") Z") == std::string::npos; look++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        std::ifstream file(path);
        std::getline(file, text);
    }
    EXPECT_NE(text.find(") Z"), std::string::npos) << text;
    gpucoll_process_id process;
    gpucoll_process_id_self(&process);
    process.pid = static_cast<uint32_t>(child);
    process.start_time = 0;
    EXPECT_FALSE(gpucoll_process_gone(&process));
    close(pipes[1]);
    waitpid(child, nullptr, 0);
}
