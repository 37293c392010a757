/*
 * Transports: which the list of the parameter allows, why one does not reach a GPU, and by which ways a team goes.
 */
#include <cstring>
#include "test/unit/topology_samples.h"

extern "C" {
#include "ucx_tl/tl.h"
}

class transports : public testing::Test
{
  protected:
    void SetUp() override
    {
        gpucoll_config_init(&config);
        ASSERT_EQ(gpucoll_config_set(&config, "accelerator", "host"), GPUCOLL_OK);
        ASSERT_EQ(gpucoll_accel_open(&config, log.get(), &accel), GPUCOLL_OK);
        ASSERT_EQ(accel->ops->device_open(accel, &config, &device), GPUCOLL_OK);
        memset(&peer, 0, sizeof peer);
        accel->ops->device_id(device, &peer.device);
    }
    void TearDown() override
    {
        accel->ops->device_close(device);
        gpucoll_accel_close(accel);
    }

    RecordingLog log;
    gpucoll_config config;
    gpucoll_accel *accel = nullptr;
    gpucoll_device *device = nullptr;
    gpucoll_tl_card peer;
    gpucoll_tl_cost cost;
};

TEST_F(transports, are_taken_from_the_list)
{
    for (const char *allowed : {"all", "p2p", "shm,p2p", "p2p,shm"}) {
        const gpucoll_tl_ops *tl = gpucoll_tl_choose(allowed, GPUCOLL_TL_STORES, device, &peer, &cost);
        ASSERT_NE(tl, nullptr) << allowed;
        EXPECT_STREQ(tl->name, "p2p");
        EXPECT_TRUE(cost.reachable && cost.same_device);
        EXPECT_GT(cost.latency_us, 0);
        EXPECT_GT(cost.bandwidth, 0);
    }
    for (const char *allowed : {"", "p2", "p2px", "shm", ",", "none"}) {
        EXPECT_EQ(gpucoll_tl_choose(allowed, GPUCOLL_TL_STORES, device, &peer, &cost), nullptr) << allowed;
        EXPECT_NE(std::string(cost.reason).find("coll_gpucoll_transports"), std::string::npos);
    }
}

TEST_F(transports, unknown_names_are_noticed)
{
    for (const char *list : {"all", "none", "p2p", "p2p,p2p", "shm", "cpu_reduce,p2p", "rdma", "p2p,rdma"}) {
        EXPECT_TRUE(gpucoll_tl_all_known(list)) << list;
    }
    for (const char *list :
         {"", "p2", "p2px", "p2p,", "p2p,pigeon", "pigeon,p2p", "p2p,all", "rdm", "rdma,"}) {
        EXPECT_FALSE(gpucoll_tl_all_known(list)) << list;
    }
}

TEST_F(transports, between_hosts_is_one_of_the_list)
{
    for (const char *list : {"all", "rdma", "p2p,rdma", "rdma,shm"}) {
        EXPECT_TRUE(gpucoll_tl_spans(list)) << list;
    }
    for (const char *list : {"none", "p2p", "shm,cpu_reduce"}) {
        EXPECT_FALSE(gpucoll_tl_spans(list)) << list;
    }
    EXPECT_TRUE(gpucoll_tl_only_spans("rdma"));
    for (const char *list : {"all", "none", "p2p", "p2p,rdma"}) {
        EXPECT_FALSE(gpucoll_tl_only_spans(list)) << list;
    }
}

TEST_F(transports, say_why_a_gpu_is_out_of_reach)
{
    peer.device.uuid[0] ^= 1; /* a host accelerator elsewhere */
    EXPECT_EQ(gpucoll_tl_choose("all", GPUCOLL_TL_STORES, device, &peer, &cost), nullptr);
    EXPECT_NE(std::string(cost.reason).find("peer access"), std::string::npos);
}

/* Two GPUs of a machine without NVLink, wherever they are. */
TEST_F(transports, stores_go_no_farther_over_pcie_than_the_parameter_lets_them)
{
    gpucoll_device_id own;
    accel->ops->device_id(device, &own);
    gpucoll_device *other = nullptr;
    ASSERT_EQ(accel->ops->device_open(accel, &config, &other), GPUCOLL_OK);
    accel->ops->device_id(other, &peer.device);
    const std::string a = "<gpu id=\"0\" uuid=\"" + uuid_text(own) + "\"/>";
    const std::string b = "<gpu id=\"1\" uuid=\"" + uuid_text(peer.device) + "\"/>";
    const std::vector<std::string> machines = {
        "<socket id=\"0\"><host_bridge><pcie_switch>" + a + b + "</pcie_switch></host_bridge></socket>",
        "<socket id=\"0\"><host_bridge>" + a + b + "</host_bridge></socket>",
        "<socket id=\"0\"><host_bridge>" + a + "</host_bridge><host_bridge>" + b + "</host_bridge></socket>",
        "<socket id=\"0\">" + a + "</socket><socket id=\"1\">" + b + "</socket>",
    };
    const std::vector<const char *> levels = {"nvlink", "switch", "bridge", "socket", "system", "auto"};
    double before_us = 0;
    for (size_t machine = 0; machine < machines.size(); machine++) {
        const Topology topology = from_host(machines[machine], log);
        ASSERT_TRUE(topology.ok()) << log.text_of("topology-file");
        accel->topology = topology;
        for (size_t level = 0; level < levels.size(); level++) {
            ASSERT_EQ(gpucoll_config_set(&config, "p2p_level", levels[level]), GPUCOLL_OK);
            const bool reached = gpucoll_tl_choose("all", GPUCOLL_TL_STORES, device, &peer, &cost) != nullptr;
            EXPECT_EQ(reached, level > machine) << machines[machine] << levels[level];
            EXPECT_TRUE(reached || std::string(cost.reason).find("p2p_level") != std::string::npos);
        }
        EXPECT_GT(cost.latency_us, before_us); /* the farther, the slower */
        before_us = cost.latency_us;
        accel->topology = nullptr;
    }
    accel->ops->device_close(other);
}

TEST(transport_ways, follow_from_the_list_and_the_links)
{
    const unsigned stores = GPUCOLL_TL_STORES;
    const unsigned host = GPUCOLL_TL_PIPES | GPUCOLL_TL_SUMS;
    const struct {
        const char *transports;
        bool stores;
        bool in_turn;
        double bandwidth;
        unsigned ways;
    } rows[] = {
        {"all", true, false, 354e9, stores},
        {"all", true, false, 25e9, stores | host},
        {"all", true, true, 354e9, stores | host},
        {"all", false, false, 0, host},
        {"p2p", true, false, 25e9, stores},
        {"p2p", true, true, 354e9, stores},
        {"p2p", false, false, 0, 0},
        {"shm", true, false, 354e9, GPUCOLL_TL_PIPES},
        {"shm", false, false, 0, GPUCOLL_TL_PIPES},
        {"p2p,shm", true, false, 354e9, stores | GPUCOLL_TL_PIPES},
        {"cpu_reduce", true, false, 354e9, host},
        {"none", true, false, 354e9, 0},
    };
    for (const auto &row : rows) {
        SCOPED_TRACE(row.transports);
        EXPECT_EQ(gpucoll_tl_team_ways(row.transports, row.stores, row.in_turn, row.bandwidth), row.ways);
    }
}
