/*
 * Which part of its cores a process takes for the threads that sum, on machines that are not here; and what control groups leave it of
 * their time.
 */
#include <filesystem>
#include <fstream>
#include <set>
#include "test/unit/unit.h"

extern "C" {
#include "core/base/quota.h"
#include "ucx_tl/cpu_reduce/cores.h"
}

namespace
{
struct gpucoll_cores_part part_of(const struct gpucoll_cores_count &count,
                                  const struct gpucoll_cores_sharers &sharers)
{
    return gpucoll_cores_part(&count, &sharers);
}
} // namespace

/* The first call may be on a communicator of two of eight ranks, or of those of one pretended host. */
TEST(cores_part, no_two_processes_take_the_same_core_however_few_know_each_other)
{
    for (uint32_t known : {1u, 2u, 4u, 8u}) {
        std::set<uint32_t> taken;
        for (uint32_t rank = 0; rank < 8; rank++) {
            /* They know each other in another order than that of their numbers. */
            const struct gpucoll_cores_part part =
                part_of({64, 64, 0}, {known, known - 1 - rank % known, 8, rank});
            EXPECT_EQ(part.cores, 8u);
            EXPECT_EQ(part.threads, 8u);
            ASSERT_GE(part.first, 0);
            for (uint32_t core = 0; core < part.cores; core++) {
                EXPECT_TRUE(taken.insert(static_cast<uint32_t>(part.first) + core).second)
                    << known << " " << rank;
            }
        }
        EXPECT_EQ(*taken.rbegin(), 63u);
    }
}

TEST(cores_part, of_bound_processes_follows_from_those_that_have_the_same_cores)
{
    const struct {
        const char *what;
        struct gpucoll_cores_count count;
        struct gpucoll_cores_sharers sharers;
        uint32_t cores;
        int first;
    } cases[] = {
        {"each its own cores", {8, 64, 0}, {1, 0, 8, 5}, 8, 0},
        {"each a few of many", {4, 64, 0}, {1, 0, 2, 1}, 4, 0},
        {"four on each of two sockets", {32, 64, 0}, {4, 3, 8, 5}, 8, 24},
        {"of which two know each other: which cores is not known", {32, 64, 0}, {2, 1, 8, 5}, 8, -1},
        {"all on one socket", {32, 64, 0}, {8, 6, 8, 6}, 4, 24},
        {"nobody has told how many there are", {64, 64, 0}, {2, 1, 0, 0}, 32, 32},
        {"fewer are told than are known, of several jobs", {64, 64, 0}, {4, 2, 2, 1}, 16, 32},
        {"more processes than cores", {2, 2, 0}, {1, 0, 8, 7}, 0, 0},
        {"its number is not known, but all others are", {64, 64, 0}, {2, 1, 2, 65535}, 32, 32},
        {"its number is not known, nor are the others", {64, 64, 0}, {1, 0, 2, 65535}, 32, -1},
        {"nothing is known", {1, 1, 0}, {0, 0, 0, 0}, 1, 0},
    };
    for (const auto &one : cases) {
        const struct gpucoll_cores_part part = part_of(one.count, one.sharers);
        EXPECT_EQ(part.cores, one.cores) << one.what;
        EXPECT_EQ(part.threads, one.cores) << one.what;
        EXPECT_EQ(part.first, one.first) << one.what;
    }
}

TEST(cores_part, the_time_of_a_control_group_is_for_all_processes)
{
    EXPECT_EQ(part_of({64, 64, 16}, {2, 0, 8, 0}).threads, 2u);
    EXPECT_EQ(part_of({64, 64, 16}, {2, 0, 8, 0}).cores, 8u);
    EXPECT_EQ(part_of({8, 64, 16}, {1, 0, 8, 0}).threads, 2u);
    EXPECT_EQ(part_of({64, 64, 4}, {8, 0, 8, 0}).threads, 0u);
    EXPECT_EQ(part_of({64, 64, 100}, {8, 0, 8, 0}).threads, 8u);
}

TEST(cores_part, here)
{
    struct gpucoll_cores *cores = gpucoll_cores_open();
    const struct gpucoll_cores_count count = gpucoll_cores_count(cores);
    EXPECT_GE(count.own, 1u);
    EXPECT_GE(count.machine, count.own);
    gpucoll_cores_close(cores);
    EXPECT_EQ(gpucoll_cores_count(nullptr).own, 1u);
}

namespace
{
/* A system's control groups. */
class cpu_quota : public testing::Test
{
  protected:
    void SetUp() override
    {
        root = testing::TempDir() + "gpucoll-cgroup-" + std::to_string(getpid());
        std::filesystem::create_directories(root);
    }
    void TearDown() override { std::filesystem::remove_all(root); }
    void write(const std::string &name, const std::string &text) const
    {
        const std::filesystem::path path = root + "/" + name;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << text << "\n";
    }
    uint32_t quota() const { return gpucoll_cpu_quota((root + "/cgroup").c_str(), root.c_str()); }

    std::string root;
};
} // namespace

TEST_F(cpu_quota, of_version_2_is_the_least_of_a_group_and_those_above)
{
    write("cgroup", "0::/a/b");
    EXPECT_EQ(quota(), 0u);
    write("a/b/cpu.max", "max 100000");
    EXPECT_EQ(quota(), 0u);
    write("a/cpu.max", "250000 100000");
    EXPECT_EQ(quota(), 3u);
    write("a/b/cpu.max", "800000 100000");
    EXPECT_EQ(quota(), 3u);
    write("cpu.max", "1000 100000");
    EXPECT_EQ(quota(), 1u);
}

TEST_F(cpu_quota, of_version_1)
{
    /* In a container: the group has its name on the host, and is not there. */
    write("cgroup", "4:memory:/x\n3:cpu,cpuacct:/docker/1\n2:cpuset:/y\n0::/");
    write("cpu,cpuacct/cpu.cfs_quota_us", "-1");
    write("cpu,cpuacct/cpu.cfs_period_us", "100000");
    EXPECT_EQ(quota(), 0u);
    write("cpu,cpuacct/cpu.cfs_quota_us", "400000");
    EXPECT_EQ(quota(), 4u);
    write("memory/x/cpu.max", "100000 100000");
    write("cpuset/y/cpu.max", "100000 100000");
    EXPECT_EQ(quota(), 4u);
    write("cgroup", "3:cpu:/c");
    EXPECT_EQ(quota(), 0u);
    write("cpu/c/cpu.cfs_quota_us", "150000");
    write("cpu/c/cpu.cfs_period_us", "50000");
    EXPECT_EQ(quota(), 3u);
}

TEST_F(cpu_quota, where_there_are_none_or_nonsense)
{
    EXPECT_EQ(quota(), 0u);
    for (const char *line : {"", "0", "0:", "0::", "::::", "0::a"}) {
        write("cgroup", line);
        write("cpu.max", "nonsense");
        EXPECT_EQ(quota(), 0u) << line;
    }
    write("cgroup", "0::/" + std::string(3000, 'x') + "\n0::/");
    write("cpu.max", "200000 100000");
    EXPECT_EQ(quota(), 2u);
}
