/*
 * Memory in pieces, as cuMemMap makes it: what stands for it, what peers map of it by file descriptors of its process, and what
 * becomes of calls where they cannot.
 */
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <numeric>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "test/unit/reducer.h"

extern "C" {
#include "core/accel/pieces.h"
#include "core/base/remote_fd.h"
}

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

namespace
{
constexpr size_t piece_bytes = 64 << 10;

size_t open_fds()
{
    size_t count = 0;
    DIR *listing = opendir("/proc/self/fd");
    while (listing != nullptr && readdir(listing) != nullptr) {
        count++;
    }
    closedir(listing);
    return count;
}

/* Runs `body` in a child and returns whether it was true. */
bool in_child(const std::function<bool()> &body)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        _exit(body() ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* From now on the kernel refuses this process what containers without SYS_PTRACE, or old kernels, do. */
bool refuse_descriptors(unsigned error)
{
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_getfd, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    sock_fprog program = {4, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int take(const gpucoll_process_id &owner, int fd, const char **reason)
{
    gpucoll_remote remote;
    int taken = -1;
    if (gpucoll_remote_open(&remote, &owner, reason)) {
        taken = gpucoll_remote_fd(&remote, fd, reason);
        const int error = errno;
        gpucoll_remote_close(&remote);
        errno = error;
    }
    return taken;
}

/* Does the kernel let a child take a descriptor of this process? Not in every container. */
bool descriptors_pass()
{
    gpucoll_process_id self;
    gpucoll_process_id_self(&self);
    gpucoll_remote_fds_allow(RecordingLog().get());
    return in_child([&] {
        const char *reason = nullptr;
        return take(self, STDIN_FILENO, &reason) >= 0 || errno == EBADF;
    });
}

/* All-reduces, or else broadcasts, of pieces that stay at their addresses; `kept` bytes lie in front of the numbers. */
class Stretch
{
  public:
    Stretch(size_t count, size_t kept, bool shared = true)
        : count(count), bytes(kept + count * sizeof(int32_t)),
          whole(static_cast<char *>(gpucoll_host_malloc_pieces(bytes, piece_bytes, shared))),
          numbers(reinterpret_cast<int32_t *>(whole + kept))
    {
    }
    ~Stretch() { gpucoll_host_free(whole); }
    Stretch(const Stretch &) = delete;
    Stretch &operator=(const Stretch &) = delete;

    void reduce(Rank &rank)
    {
        round++;
        std::iota(numbers, numbers + count, round * 1000 + static_cast<int32_t>(rank.number));
        ASSERT_EQ(rank.call(reduce_all(GPUCOLL_SUM, GPUCOLL_INT32, GPUCOLL_IN_PLACE, numbers, count)),
                  GPUCOLL_OK);
        const auto size = static_cast<int32_t>(rank.meeting.size);
        for (size_t i = 0; i < count; i++) {
            const int32_t want = size * (round * 1000 + static_cast<int32_t>(i)) + size * (size - 1) / 2;
            ASSERT_EQ(numbers[i], want) << "element " << i << " of " << count << ", round " << round;
        }
    }

    /* The last piece is another one now. */
    void remap() { ASSERT_TRUE(gpucoll_host_remap_pieces(whole + bytes - 1)); }
    void reduce_thrice(Rank &rank)
    {
        for (int use = 0; use < 3; use++) {
            reduce(rank);
        }
    }

    const size_t count;
    const size_t bytes;
    char *const whole;
    int32_t *const numbers;
    int32_t round = 0;
};

Settings by_copies()
{
    return {{"zero_copy", "1"}, {"protocol", "copy"}, {"verbose", "5"}};
}

constexpr size_t two_pieces = piece_bytes / 4 + 5000;
constexpr const char *copied = "twoshot/copy";
} // namespace

class pieces : public testing::Test
{
  protected:
    void SetUp() override
    {
        gpucoll_config_init(&config);
        ASSERT_EQ(gpucoll_config_set(&config, "accelerator", "host"), GPUCOLL_OK);
        ASSERT_EQ(gpucoll_accel_open(&config, log.get(), &accel), GPUCOLL_OK);
        ops = accel->ops;
        ASSERT_EQ(ops->device_open(accel, this, &device), GPUCOLL_OK);
    }
    void TearDown() override
    {
        ops->device_close(device);
        gpucoll_accel_close(accel);
    }

    uint64_t id(const void *at)
    {
        gpucoll_buffer buffer;
        ops->classify(accel, at, &buffer);
        return buffer.id;
    }

    RecordingLog log;
    gpucoll_config config;
    gpucoll_accel *accel = nullptr;
    const gpucoll_accel_ops *ops = nullptr;
    gpucoll_device *device = nullptr;
    gpucoll_memory_handle handle;
};

TEST_F(pieces, are_allocations_of_their_own_that_stand_one_behind_the_other)
{
    Stretch stretch(0, 3 * piece_bytes);
    uintptr_t begin = 0;
    uint64_t bytes = 0;
    ASSERT_TRUE(ops->extent(device, stretch.whole + piece_bytes + 7, &begin, &bytes));
    EXPECT_EQ(begin, reinterpret_cast<uintptr_t>(stretch.whole + piece_bytes));
    EXPECT_EQ(bytes, piece_bytes);
    const uint64_t first = id(stretch.whole);
    const uint64_t last = id(stretch.whole + stretch.bytes - 1);
    EXPECT_NE(first, 0u);
    EXPECT_NE(first, id(stretch.whole + piece_bytes));
    EXPECT_EQ(first, id(stretch.whole + piece_bytes - 1));
    stretch.remap();
    EXPECT_EQ(first, id(stretch.whole));
    EXPECT_NE(last, id(stretch.whole + stretch.bytes - 1));
}

TEST_F(pieces, are_mapped_as_one_by_another_process)
{
    if (!descriptors_pass()) {
        GTEST_SKIP() << "this container does not let processes take descriptors of each other";
    }
    const size_t before = open_fds();
    {
        Stretch stretch(0, 3 * piece_bytes);
        char *from = stretch.whole + piece_bytes - 10;
        ASSERT_EQ(ops->export_memory(device, from, 20, &handle), GPUCOLL_OK);
        EXPECT_EQ(handle.kind, GPUCOLL_HANDLE_PIECES);
        EXPECT_EQ(handle.piece_count, 2u);
        EXPECT_EQ(handle.bytes, 2 * piece_bytes);
        EXPECT_EQ(handle.address, reinterpret_cast<uintptr_t>(stretch.whole));
        strcpy(from, "over the border");
        EXPECT_TRUE(in_child([&] {
            void *mapped = nullptr;
            if (ops->import(device, &handle, &mapped) != GPUCOLL_OK || mapped == stretch.whole) {
                return false;
            }
            char *there = static_cast<char *>(mapped) + piece_bytes - 10;
            const bool same = strcmp(there, "over the border") == 0;
            strcpy(there, "and back to you");
            ops->release(device, &handle, mapped);
            return same;
        }));
        EXPECT_STREQ(from, "and back to you");
        ops->unexport_memory(accel, &handle);
    }
    EXPECT_EQ(open_fds(), before);
}

TEST_F(pieces, that_are_not_shared_or_too_many_are_refused_and_leave_nothing_open)
{
    Stretch own(0, 2 * piece_bytes, false);
    Stretch large(0, (GPUCOLL_HANDLE_PIECES_MAX + 1) * piece_bytes);
    const size_t before = open_fds();
    EXPECT_EQ(ops->export_memory(device, own.whole, 2 * piece_bytes, &handle), GPUCOLL_ERR_UNSUPPORTED);
    EXPECT_EQ(ops->export_memory(device, large.whole, large.bytes, &handle), GPUCOLL_ERR_UNSUPPORTED);
    EXPECT_EQ(open_fds(), before);
    ASSERT_EQ(ops->export_memory(device, large.whole, large.bytes - piece_bytes, &handle), GPUCOLL_OK);
    ops->unexport_memory(accel, &handle);
    EXPECT_EQ(open_fds(), before);
    EXPECT_TRUE(log.topics().empty());
}

/* The application may need its own. */
TEST_F(pieces, take_a_quarter_of_the_descriptors_at_most)
{
    Stretch stretch(0, 40 * piece_bytes);
    rlimit usual;
    getrlimit(RLIMIT_NOFILE, &usual);
    rlimit few = usual;
    few.rlim_cur = 4 * 50;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    gpucoll_memory_handle second;
    EXPECT_EQ(ops->export_memory(device, stretch.whole, stretch.bytes, &handle), GPUCOLL_OK);
    const size_t before = open_fds();
    EXPECT_EQ(ops->export_memory(device, stretch.whole, stretch.bytes, &second), GPUCOLL_ERR_UNSUPPORTED);
    EXPECT_EQ(open_fds(), before);
    ops->unexport_memory(accel, &handle);
    EXPECT_EQ(ops->export_memory(device, stretch.whole, stretch.bytes, &second), GPUCOLL_OK);
    ops->unexport_memory(accel, &second);
    setrlimit(RLIMIT_NOFILE, &usual);
}

TEST(remote_fd, is_not_taken_from_a_process_that_has_the_number_of_another)
{
    gpucoll_process_id other;
    gpucoll_process_id_self(&other);
    EXPECT_TRUE(in_child([&] {
        const char *reason = nullptr;
        other.start_time++;
        return take(other, STDIN_FILENO, &reason) < 0 && errno == ESRCH && strstr(reason, "has ended");
    }));
}

TEST(remote_fd, says_what_stands_against_it)
{
    gpucoll_process_id parent;
    gpucoll_process_id_self(&parent);
    for (unsigned error : {EPERM, ENOSYS}) {
        EXPECT_TRUE(in_child([&] {
            const char *reason = nullptr;
            return refuse_descriptors(error) && take(parent, STDIN_FILENO, &reason) < 0 &&
                   errno == static_cast<int>(error) && strstr(reason, "pidfd_getfd") != nullptr;
        }));
    }
}

TEST(pieces_in_calls, are_written_by_peers_one_or_several_at_a_time)
{
    const size_t before = open_fds();
    on_threads(3, by_copies(), [](Rank &rank) {
        for (size_t count : {size_t{5000}, two_pieces, 5 * piece_bytes / 4}) {
            Stretch stretch(count, 4096);
            stretch.reduce_thrice(rank);
            rank.barrier();
        }
        EXPECT_EQ(runs_by(rank, copied), 3u * 2);
    });
    EXPECT_EQ(open_fds(), before);
}

TEST(pieces_in_calls, are_mapped_by_other_processes)
{
    if (!descriptors_pass()) {
        GTEST_SKIP() << "this container does not let processes take descriptors of each other";
    }
    for (const char *protocol : {"copy", "direct"}) {
        Settings settings = by_copies();
        settings[1].second = protocol;
        on_processes(3, settings, [protocol](Rank &rank) {
            Stretch stretch(two_pieces, 4096);
            stretch.reduce_thrice(rank);
            EXPECT_EQ(runs_by(rank, std::string("twoshot/") + protocol), 2u);
            EXPECT_EQ(rank.log.text_of("memory-pieces"), "");
            rank.barrier();
        });
    }
}

/* Peers must not write to what was there before. */
TEST(pieces_in_calls, with_other_memory_at_the_same_addresses_are_others)
{
    on_threads(3, by_copies(), [](Rank &rank) {
        Stretch stretch(two_pieces, 4096);
        for (int life = 0; life < 4; life++) {
            stretch.reduce_thrice(rank);
            if (life % 2 == 0 || rank.number == 1) {
                stretch.remap();
            }
            rank.barrier();
        }
        EXPECT_EQ(runs_by(rank, copied), 4u * 2);
    });
}

/* One buffer is in two pieces, of which others hold a part; all three are exports of their own. */
TEST(pieces_in_calls, may_be_part_of_several_buffers)
{
    on_threads(2, by_copies(), [](Rank &rank) {
        constexpr size_t whole = 3 * piece_bytes / sizeof(int32_t);
        Stretch stretch(whole, 0);
        auto sum = [&](size_t at, size_t count, int32_t value) {
            int32_t *numbers = stretch.numbers + at;
            std::fill(numbers, numbers + count, value + static_cast<int32_t>(rank.number));
            ASSERT_EQ(rank.call(reduce_all(GPUCOLL_SUM, GPUCOLL_INT32, GPUCOLL_IN_PLACE, numbers, count)),
                      GPUCOLL_OK);
            EXPECT_TRUE(
                std::all_of(numbers, numbers + count, [&](int32_t seen) { return seen == 2 * value + 1; }));
        };
        for (int use = 0; use < 3; use++) {
            sum(0, whole / 2, 10 + use);
            sum(whole / 2 - 100, 3000, 20 + use);
            sum(whole / 3 + 8, whole - whole / 3 - 8, 30 + use);
        }
        EXPECT_EQ(runs_by(rank, copied), 3u * 2);
        rank.barrier();
    });
}

TEST(pieces_in_calls, go_another_way_where_one_rank_cannot_share_them)
{
    on_threads(3, {{"zero_copy", "1"}, {"verbose", "5"}}, [](Rank &rank) {
        Stretch stretch(two_pieces, 4096, rank.number != 1);
        Stretch large(70 * piece_bytes / sizeof(int32_t), 0);
        stretch.reduce_thrice(rank);
        large.reduce_thrice(rank);
        EXPECT_EQ(runs_by(rank, copied), 0u);
        EXPECT_TRUE(rank.log.topics().empty());
        rank.barrier();
    });
}

TEST(pieces_in_calls, go_another_way_where_the_kernel_gives_no_descriptors)
{
    on_processes(3, by_copies(), [](Rank &rank) {
        ASSERT_TRUE(refuse_descriptors(EPERM));
        Stretch stretch(two_pieces, 4096);
        Stretch second(two_pieces, 0);
        stretch.reduce_thrice(rank);
        second.reduce_thrice(rank);
        stretch.remap();
        stretch.reduce_thrice(rank);
        EXPECT_EQ(runs_by(rank, copied), 0u);
        const std::vector<std::string> topics = rank.log.topics();
        EXPECT_EQ(std::count(topics.begin(), topics.end(), "memory-pieces"), 1) << "said once";
        EXPECT_NE(rank.log.text_of("memory-pieces").find("not permitted"), std::string::npos);
        rank.barrier();
    });
}
