/*
 * core/topology: what is found out about the sample machines.
 */
#include "test/unit/topology_samples.h"
#include <cstdlib>
#include <string>
#include "test/unit/ranks.h"

extern "C" {
#include "core/accel/host.h"
#include "test/unit/find_way.h"
#include "ucx_tl/tl.h"
}

using Names = std::vector<std::string>;

/* test/topology/NAME.txt has what gpucoll_info --topology prints, as a reader has checked it. */
TEST(topology, samples_print_as_expected)
{
    for (const std::string &name : sample_machines) {
        SCOPED_TRACE(name);
        Topology topology = sample(name);
        ASSERT_TRUE(topology.ok());
        EXPECT_EQ(topology.printed(), read_all(source_file("test/topology/" + name + ".txt")));
    }
}

TEST(topology, what_is_written_reads_the_same)
{
    for (const std::string &name : sample_machines) {
        SCOPED_TRACE(name);
        RecordingLog log;
        std::string first = sample(name).xml();
        Topology again = from_text(first, log);
        ASSERT_TRUE(again.ok()) << log.text_of("topology-file");
        EXPECT_EQ(again.xml(), first);
    }
}

TEST(topology, nvswitch_links_all_pairs_at_full_width)
{
    Topology topology = sample("dgx-h200");
    struct gpucoll_topology_link link = topology.link(0, 7);
    EXPECT_EQ(link.kind, GPUCOLL_LINK_NVLINK);
    EXPECT_TRUE(link.switched);
    EXPECT_EQ(link.nvlinks, 18u);
    EXPECT_EQ(link.nvlink_version, 4u);
    EXPECT_EQ(link.path, GPUCOLL_PATH_ACROSS);
    EXPECT_NEAR(link.bandwidth, 354e9, 1e6); /* as measured: ucx_tl/p2p has the same figure */
    EXPECT_NEAR(link.bandwidth_out, link.bandwidth, 1);
    EXPECT_NEAR(sample("dgx-a100").link(0, 7).bandwidth, 354e9 * 12 / 18, 1e6);
}

TEST(topology, direct_nvlinks_add_up_over_peers)
{
    Topology topology = sample("gh200-quad");
    struct gpucoll_topology_link link = topology.link(0, 3);
    EXPECT_EQ(link.kind, GPUCOLL_LINK_NVLINK);
    EXPECT_FALSE(link.switched);
    EXPECT_EQ(link.nvlinks, 6u);
    EXPECT_NEAR(link.bandwidth_out, 3 * link.bandwidth, 1e3);
    EXPECT_NEAR(topology.links(4).bandwidth, 3 * link.bandwidth, 1e3);
    EXPECT_NEAR(topology.links(2).bandwidth, link.bandwidth, 1e3);
    EXPECT_TRUE(topology.links(4).whole_lines);
}

TEST(topology, pcie_paths_by_where_they_turn)
{
    Topology topology = sample("pcie-4gpu");
    EXPECT_EQ(topology.link(0, 1).path, GPUCOLL_PATH_SWITCH);
    EXPECT_EQ(topology.link(2, 3).path, GPUCOLL_PATH_HOST_BRIDGE);
    EXPECT_EQ(topology.link(0, 2).path, GPUCOLL_PATH_ACROSS);
    EXPECT_EQ(topology.link(3, 3).path, GPUCOLL_PATH_SELF);
    EXPECT_EQ(topology.link(3, 3).kind, GPUCOLL_LINK_SAME);
    EXPECT_EQ(topology.link(0, 1).kind, GPUCOLL_LINK_PCIE);
    EXPECT_LT(topology.link(0, 1).latency_us, topology.link(0, 2).latency_us);
    EXPECT_GT(topology.link(0, 1).bandwidth, topology.link(0, 2).bandwidth);
}

TEST(topology, path_of_one_board_and_of_one_socket)
{
    RecordingLog log;
    Topology topology = from_host(R"(
        <socket id="0">
          <host_bridge><pcie_switch>
            <gpu id="0" board="a"/><gpu id="1" board="a"/><gpu id="2" board="b"/>
          </pcie_switch></host_bridge>
          <host_bridge><gpu id="3" pci="0000:05:00.0"/><nic name="e" kind="ethernet" pci="0000:05:00.1"/></host_bridge>
        </socket>)",
                                  log);
    ASSERT_TRUE(topology.ok()) << log.text_of("topology-file");
    EXPECT_EQ(topology.link(0, 1).path, GPUCOLL_PATH_BOARD);
    EXPECT_EQ(topology.link(0, 2).path, GPUCOLL_PATH_SWITCH);
    EXPECT_EQ(topology.link(2, 3).path, GPUCOLL_PATH_SOCKET);
    int nic = topology.gpu(3) + 1;
    EXPECT_EQ(gpucoll_topology_path(topology, topology.gpu(3), nic), GPUCOLL_PATH_BOARD);
}

TEST(topology, team_of_one_host_takes_the_worst_pair)
{
    Topology topology = sample("pcie-4gpu");
    struct gpucoll_topology_links near = topology.links(2);
    struct gpucoll_topology_links all = topology.links(4);
    EXPECT_EQ(near.path, GPUCOLL_PATH_SWITCH);
    EXPECT_EQ(all.path, GPUCOLL_PATH_ACROSS);
    EXPECT_EQ(all.kind, GPUCOLL_LINK_PCIE);
    EXPECT_FALSE(all.whole_lines);
    EXPECT_LT(all.bandwidth, near.bandwidth);
    EXPECT_GT(all.latency_us, near.latency_us);
    EXPECT_EQ(all.hosts, 1);
    EXPECT_EQ(all.sharers, 1u);
    EXPECT_EQ(topology.links(5).sharers, 2u);
    EXPECT_EQ(topology.links(1).path, GPUCOLL_PATH_SELF);
}

TEST(topology, teams_of_two_hosts_have_a_network_beside)
{
    Topology topology = sample("two-hosts");
    struct gpucoll_topology_links one = topology.links(8);
    struct gpucoll_topology_links two = topology.links(9);
    EXPECT_EQ(one.hosts, 1);
    EXPECT_EQ(one.net_bandwidth, 0);
    EXPECT_EQ(two.hosts, 2);
    EXPECT_NEAR(two.net_bandwidth, 0.9 * 400e9 / 8, 1);
    EXPECT_GT(two.net_latency_us, one.latency_us);
    EXPECT_NEAR(two.bandwidth, one.bandwidth, 1);
    int first = gpucoll_topology_gpu(topology, -1, 0);
    EXPECT_TRUE(gpucoll_topology_same_host(topology, first, gpucoll_topology_gpu(topology, -1, 7)));
    EXPECT_FALSE(gpucoll_topology_same_host(topology, first, gpucoll_topology_gpu(topology, -1, 8)));
    EXPECT_EQ(gpucoll_topology_gpu(topology, -1, 16), -1);
    EXPECT_EQ(gpucoll_topology_gpu(topology, gpucoll_topology_host(topology, 1), 8), -1);
}

TEST(topology, no_gpu_no_links)
{
    Topology topology = sample("no-gpu");
    struct gpucoll_topology_links links;
    EXPECT_FALSE(gpucoll_topology_links(topology, 2, &links));
    EXPECT_EQ(gpucoll_topology_gpu(topology, -1, 0), -1);
}

TEST(topology, each_gpu_has_its_own_nic)
{
    Topology dgx = sample("dgx-h100");
    for (int i = 0; i < 8; i++) {
        EXPECT_EQ(dgx.nics(i, 1), Names{"mlx5_" + std::to_string(i)});
    }
    /* Two NICs are as near to two GPUs: each begins with another. */
    Topology a100 = sample("dgx-a100");
    EXPECT_EQ(a100.nics(2, 2), (Names{"mlx5_2", "mlx5_3"}));
    EXPECT_EQ(a100.nics(3, 2), (Names{"mlx5_3", "mlx5_2"}));
}

TEST(topology, nics_by_kind_then_speed_then_distance)
{
    Topology topology = sample("pcie-4gpu");
    /* RoCE first though it is on the other socket; eno2 is down; neither virbr0, veth nor lo. */
    EXPECT_EQ(topology.nics(0, 8), (Names{"mlx5_0", "eno1", "br0"}));
    EXPECT_EQ(sample("gh200").nics(0, 8), (Names{"mlx5_0", "mlx5_1"}));
    EXPECT_EQ(sample("workstation").nics(0, 8), (Names{"eno1", "tun0"}));
    /* Ten of one kind and speed: near ones first; more than are asked for are counted. */
    EXPECT_EQ(sample("gh200-quad").nics(2, 1), Names{"hsn2"});
    int nic = -1;
    EXPECT_EQ(gpucoll_topology_nics(topology, topology.gpu(0), &nic, 0), 3);
    EXPECT_EQ(nic, -1);
}

static std::string cpus_near(const Topology &topology, int gpu)
{
    cpu_set_t cpus;
    gpucoll_topology_cpus(topology, gpu, &cpus);
    return std::to_string(CPU_COUNT(&cpus)) + (CPU_ISSET(0, &cpus) ? " with 0" : " without 0");
}

TEST(topology, cpus_and_numa_node_of_a_gpu)
{
    Topology topology = sample("dgx-a100");
    EXPECT_EQ(gpucoll_topology_numa_id(topology, topology.gpu(0)), 3);
    EXPECT_EQ(gpucoll_topology_numa_id(topology, topology.gpu(7)), 5);
    EXPECT_EQ(cpus_near(topology, topology.gpu(0)), "32 without 0");
    EXPECT_EQ(gpucoll_topology_numa_id(sample("gh200"), sample("gh200").gpu(0)), 0);

    RecordingLog log;
    Topology loose = from_host(R"(<socket id="0" cpus="0-3"/><socket id="1" cpus="4-7"/><gpu id="0"/>)", log);
    EXPECT_EQ(cpus_near(loose, loose.gpu(0)), "8 with 0"); /* of the host */
    EXPECT_EQ(gpucoll_topology_numa_id(loose, loose.gpu(0)), -1);
    Topology one = from_host(R"(<numa id="5" cpus="0-3"/><gpu id="0"/>)", log);
    EXPECT_EQ(gpucoll_topology_numa_id(one, one.gpu(0)), 5); /* there is no other */
}

TEST(topology, gpus_by_uuid_and_by_address)
{
    Topology topology = sample("dgx-h200");
    const struct gpucoll_topology_object &gpu = topology->objects[topology.gpu(5)];
    EXPECT_EQ(gpucoll_topology_find_gpu(topology, &gpu.uuid), topology.gpu(5));
    EXPECT_EQ(gpucoll_topology_find_pci(topology, &gpu.pci), topology.gpu(5));
    struct gpucoll_device_id other = gpu.uuid;
    other.uuid[15] ^= 1;
    other.uuid[0] ^= 1;
    EXPECT_EQ(gpucoll_topology_find_gpu(topology, &other), -1);
}

/* The cost of the p2p transport between two devices of the host accelerator, which NVLinks connect as far as they know. */
class topology_cost : public testing::Test
{
  protected:
    void SetUp() override
    {
        gpucoll_config_init(&config);
        ASSERT_EQ(gpucoll_accel_host.open(&config, log.get(), &accel), GPUCOLL_OK);
        ASSERT_EQ(accel->ops->device_open(accel, &config, &device), GPUCOLL_OK);
        ASSERT_EQ(accel->ops->device_open(accel, &config, &other), GPUCOLL_OK);
        memset(&peer, 0, sizeof peer);
        accel->ops->device_id(other, &peer.device);
    }
    void TearDown() override
    {
        accel->ops->device_close(device);
        accel->ops->device_close(other);
        accel->ops->close(accel);
    }
    gpucoll_tl_cost cost(const struct gpucoll_topology *topology)
    {
        gpucoll_tl_cost cost;
        accel->topology = topology;
        EXPECT_NE(gpucoll_tl_choose("p2p", GPUCOLL_TL_STORES, device, &peer, &cost), nullptr);
        return cost;
    }

    RecordingLog log;
    gpucoll_config config;
    gpucoll_accel *accel = nullptr;
    gpucoll_device *device = nullptr;
    gpucoll_device *other = nullptr;
    gpucoll_tl_card peer;
};

TEST_F(topology_cost, is_the_worst_of_a_machine_that_stands_in)
{
    gpucoll_tl_cost here = cost(nullptr);
    Topology pcie = sample("pcie-4gpu");
    gpucoll_tl_cost there = cost(pcie);
    EXPECT_TRUE(here.whole_lines);
    EXPECT_FALSE(there.whole_lines);
    EXPECT_NEAR(there.bandwidth, pcie.links(4).bandwidth, 1);
    EXPECT_NEAR(there.latency_us, pcie.links(4).latency_us, 1e-9);
    EXPECT_LT(there.bandwidth, here.bandwidth);
    /* H200 are what p2p takes for granted. */
    EXPECT_NEAR(cost(sample("dgx-h200")).bandwidth, here.bandwidth, 1e6);
    /* Nothing is known of pairs from a machine of one GPU. */
    EXPECT_NEAR(cost(sample("workstation")).bandwidth, here.bandwidth, 1);
}

TEST_F(topology_cost, is_that_of_the_pair_where_the_file_knows_it)
{
    gpucoll_device_id own;
    accel->ops->device_id(device, &own);
    Topology topology = from_host("<gpu id=\"0\" uuid=\"" + uuid_text(own) +
                                      R"("><nvlink to="1" links="2" version="3"/></gpu><gpu id="1" uuid=")" +
                                      uuid_text(peer.device) +
                                      R"("><nvlink to="0" links="2" version="3"/></gpu><gpu id="2"/>)",
                                  log);
    ASSERT_TRUE(topology.ok()) << log.text_of("topology-file");
    EXPECT_NEAR(cost(topology).bandwidth, topology.link(0, 1).bandwidth, 1);
    EXPECT_TRUE(cost(topology).whole_lines);
}

TEST(topology, ring_is_found_where_not_all_pairs_have_nvlink)
{
    RecordingLog log;
    Topology four = from_host(
        R"(<gpu id="0"><nvlink to="2" links="4" version="3"/><nvlink to="3" links="4" version="3"/></gpu>
        <gpu id="1"><nvlink to="2" links="4" version="3"/><nvlink to="3" links="4" version="3"/></gpu>
        <gpu id="2"><nvlink to="0" links="4" version="3"/><nvlink to="1" links="4" version="3"/></gpu>
        <gpu id="3"><nvlink to="0" links="4" version="3"/><nvlink to="1" links="4" version="3"/></gpu>)",
        log);
    ASSERT_TRUE(four.ok()) << log.text_of("topology-file");
    const struct gpucoll_topology_links links = four.links(4);
    EXPECT_FALSE(links.whole_lines);
    EXPECT_NEAR(links.ring_bandwidth, 2 * four.link(0, 2).bandwidth, 1);
    EXPECT_GT(links.ring_bandwidth, links.bandwidth);
    EXPECT_LT(links.ring_latency_us, links.latency_us);
    EXPECT_EQ(four.links(2).ring_bandwidth, 0) << "GPUs 0 and 1 are not joined";
    EXPECT_GT(sample("dgx-h200").links(8).ring_bandwidth, 0);
    EXPECT_NEAR(sample("dgx-h200").links(8).ring_bandwidth, sample("dgx-h200").links(8).bandwidth, 1);
    EXPECT_EQ(sample("pcie-4gpu").links(4).ring_bandwidth, 0);
}

/* The plan of rank 0 for an all-reduce of 256 KiB, as its log has it. */
static std::string plan_with(const std::string &file)
{
    std::string plan;
    std::string path = source_file(file);
    on_threads(2, {{"topology_file", path.c_str()}}, [&](Rank &rank) {
        std::vector<float> in(1 << 16, 1.0f);
        std::vector<float> out(in.size());
        EXPECT_EQ(rank.call(reduce_all(GPUCOLL_SUM, GPUCOLL_FLOAT32, in.data(), out.data(), in.size())),
                  GPUCOLL_OK);
        EXPECT_EQ(out[7], 2.0f);
        EXPECT_TRUE(rank.barrier());
        for (const std::string &line : rank.log.lines()) {
            if (rank.number == 0 && line.find("predicted") != std::string::npos) {
                plan = line;
            }
        }
        bool fine = file.find(".xml") != std::string::npos;
        EXPECT_EQ(rank.log.topics(), fine ? Names{} : Names{"topology-file"});
    });
    return plan;
}

TEST(topology, engine_plans_for_the_machine_of_the_file)
{
    std::string nvlink = plan_with("test/topology/dgx-h200.xml");
    std::string pcie = plan_with("test/topology/pcie-4gpu.xml");
    EXPECT_EQ(nvlink.find("twoshot/ll128 cannot"), std::string::npos) << nvlink;
    EXPECT_NE(pcie.find("twoshot/ll128 cannot"), std::string::npos) << pcie;
    /* A file that cannot be used is said, and left aside. */
    EXPECT_EQ(plan_with("test/topology/pcie-4gpu.txt"), nvlink);
}

/* The four GPUs of the file have PCIe alone: if stores may not take that, all goes through host memory. */
TEST(topology_in_teams, stores_that_the_parameter_does_not_let_go_leave_host_memory)
{
    const std::string path = source_file("test/topology/pcie-4gpu.xml");
    for (const char *level : {"system", "nvlink"}) {
        on_threads(
            3, {{"topology_file", path.c_str()}, {"p2p_level", level}, {"verbose", "20"}}, [&](Rank &rank) {
                const std::vector<int32_t> in(100, 1);
                std::vector<int32_t> out(in.size());
                EXPECT_EQ(rank.call(reduce_all(GPUCOLL_SUM, GPUCOLL_INT32, in.data(), out.data(), in.size())),
                          GPUCOLL_OK);
                EXPECT_EQ(out, std::vector<int32_t>(in.size(), 3));
                size_t through_host = 0;
                for (const std::string &said : rank.log.lines()) {
                    through_host += said.find("ran natively by cpu/host") != std::string::npos;
                }
                EXPECT_EQ(through_host, strcmp(level, "nvlink") == 0 ? 1u : 0u);
                EXPECT_TRUE(rank.log.topics().empty()) << "it was asked for";
            });
    }
}

/* Where kernels store over PCIe, and no file is given. */
TEST(topology_in_teams, that_of_this_machine_is_found_where_stores_go_over_pcie)
{
    on_threads(2, {{"verbose", "1"}}, [&](Rank &rank) {
        rank.barrier(); /* both have their context */
        EXPECT_STREQ(test_find_way(rank.context), nullptr);
    });
}
