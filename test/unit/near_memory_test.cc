/*
 * Outboxes in memory near their GPU: the binding that is asked for, with a topology file in the place of the machine, and where pages
 * come to lie on a machine of several NUMA nodes.
 */
#include "test/unit/topology_samples.h"
#include <fstream>
#include <linux/mempolicy.h>
#include <sstream>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" {
#include "core/topology/near_memory.h"
#include "ucx_tl/shm/shm.h"
}

class near_memory : public testing::Test
{
  protected:
    void SetUp() override
    {
        gpucoll_config_init(&config);
        ASSERT_EQ(gpucoll_config_set(&config, "accelerator", "host"), GPUCOLL_OK);
        ASSERT_EQ(gpucoll_accel_open(&config, log.get(), &accel), GPUCOLL_OK);
        ASSERT_EQ(accel->ops->device_open(accel, &config, &device), GPUCOLL_OK);
        memset(&card, 0, sizeof card);
        memset(&outbox, 0, sizeof outbox);
    }
    void TearDown() override
    {
        gpucoll_shm_withdraw(device, &outbox);
        accel->ops->device_close(device);
        gpucoll_accel_close(accel);
    }
    /* A machine whose NUMA node of that number has this device. */
    Topology machine(int numa)
    {
        gpucoll_device_id id;
        accel->ops->device_id(device, &id);
        return from_host("<numa id=\"" + std::to_string(numa) + "\"><gpu id=\"0\" uuid=\"" + uuid_text(id) +
                             "\"/></numa><numa id=\"" + std::to_string(numa + 1) + "\"/>",
                         log);
    }
    /* What the outbox's line of /proc/self/numa_maps says of its policy, such as "prefer:0". */
    std::string policy() const
    {
        std::ifstream maps("/proc/self/numa_maps");
        std::string line;
        while (std::getline(maps, line)) {
            std::istringstream words(line);
            std::string address;
            std::string policy;
            words >> address >> policy;
            if (std::stoull(address, nullptr, 16) == reinterpret_cast<uintptr_t>(outbox.map)) {
                return policy;
            }
        }
        return "";
    }
    std::string said() const
    {
        for (const std::string &line : log.lines()) {
            if (line.find("outbox of") != std::string::npos) {
                return line;
            }
        }
        return "";
    }

    RecordingLog log;
    gpucoll_config config;
    gpucoll_accel *accel = nullptr;
    gpucoll_device *device = nullptr;
    gpucoll_tl_card card;
    gpucoll_segment outbox;
};

TEST_F(near_memory, is_asked_for_on_the_node_of_the_gpu)
{
    Topology topology = machine(0);
    ASSERT_TRUE(topology.ok()) << log.text_of("topology-file");
    accel->topology = topology;
    EXPECT_EQ(gpucoll_near_numa(device), 0);
    ASSERT_EQ(gpucoll_shm_offer(device, 1 << 20, &outbox, &card), GPUCOLL_OK);
    if (said().find(": not in memory") != std::string::npos) {
        GTEST_SKIP() << said();
    }
    EXPECT_NE(said().find(": in memory of NUMA node 0"), std::string::npos) << said();
    if (access("/proc/self/numa_maps", R_OK) == 0) {
        EXPECT_TRUE(policy().find("prefer") == 0 || policy().find("bind") == 0) << policy();
    }
}

TEST_F(near_memory, that_is_not_to_be_had_stops_nothing)
{
    Topology topology = machine(1000);
    ASSERT_TRUE(topology.ok()) << log.text_of("topology-file");
    accel->topology = topology;
    EXPECT_EQ(gpucoll_near_numa(device), 1000);
    ASSERT_EQ(gpucoll_shm_offer(device, 1 << 20, &outbox, &card), GPUCOLL_OK);
    EXPECT_NE(said().find(": not in memory of NUMA node 1000: "), std::string::npos) << said();
    EXPECT_TRUE(log.topics().empty());
}

TEST_F(near_memory, is_left_to_the_system_where_the_node_is_not_known)
{
    Topology topology = sample("dgx-h100"); /* without this device */
    accel->topology = topology;
    EXPECT_EQ(gpucoll_near_numa(device), -1);
    accel->topology = nullptr; /* this machine, on which the device is no GPU */
    EXPECT_EQ(gpucoll_near_numa(device), -1);
    ASSERT_EQ(gpucoll_shm_offer(device, 1 << 20, &outbox, &card), GPUCOLL_OK);
    EXPECT_EQ(said(), "");
    EXPECT_TRUE(policy() == "" || policy() == "default") << policy();
}

TEST_F(near_memory, lies_where_it_was_asked_for)
{
    const std::string nodes = "/sys/devices/system/node/node";
    if (access((nodes + "1").c_str(), F_OK) != 0) {
        GTEST_SKIP() << "a machine of one NUMA node";
    }
    for (int numa = 0; numa < 2; numa++) {
        Topology topology = machine(numa);
        accel->topology = topology;
        ASSERT_EQ(gpucoll_shm_offer(device, 1 << 20, &outbox, &card), GPUCOLL_OK);
        if (said().find(": not in memory") != std::string::npos) {
            GTEST_SKIP() << said();
        }
        for (size_t at = 0; at < outbox.name.bytes; at += 64 << 10) {
            void *page = static_cast<char *>(outbox.user) + at;
            int node = -1;
            ASSERT_EQ(syscall(SYS_get_mempolicy, &node, nullptr, 0, page, MPOL_F_NODE | MPOL_F_ADDR), 0);
            ASSERT_EQ(node, numa);
        }
        gpucoll_shm_withdraw(device, &outbox);
    }
}
