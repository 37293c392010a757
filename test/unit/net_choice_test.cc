/*
 * ucx_tl/rdma/devices: which network devices are taken, on machines that are not here.
 */
#include <cstdlib>
#include <cstring>
#include <memory>
#include "test/unit/topology_samples.h"

extern "C" {
#include "ucx_tl/rdma/devices.h"
#include "ucx_tl/rdma/memory.h"
}

namespace
{

using Names = std::vector<std::string>;

/* What UCX would list: names of devices, those with a ':' by RDMA, the others by TCP. */
struct Choice {
    RecordingLog log;
    std::unique_ptr<struct gpucoll_rdma_devices> devices = std::make_unique<struct gpucoll_rdma_devices>();
    gpucoll_status status;

    Choice(const Topology *topology, const Names &names, const char *wish, int gpu = -1)
    {
        struct gpucoll_config config;
        gpucoll_config_init(&config);
        EXPECT_EQ(gpucoll_config_set(&config, "net_devices", wish), GPUCOLL_OK);
        for (const std::string &name : names) {
            struct gpucoll_rdma_device &device = devices->device[devices->count++];
            strncpy(device.name, name.c_str(), sizeof device.name - 1);
            device.tcp = name.find(':') == std::string::npos;
            strcpy(device.transports, device.tcp ? "tcp" : "rc_verbs ud_verbs");
        }
        if (topology) {
            devices->topology = const_cast<struct gpucoll_topology *>(
                static_cast<const struct gpucoll_topology *>(*topology));
        }
        devices->gpu = topology && gpu >= 0 ? topology->gpu(gpu) : -1;
        status = gpucoll_rdma_choose(&config, log.get(), devices.get());
    }
    std::string list() const { return status == GPUCOLL_OK ? devices->list : "declined"; }
};

class net_choice : public testing::Test
{
  protected:
    void SetUp() override
    {
        const char *set = getenv("UCX_NET_DEVICES");
        theirs = set ? set : "";
        unsetenv("UCX_NET_DEVICES");
    }
    void TearDown() override
    {
        unsetenv("UCX_NET_DEVICES");
        if (!theirs.empty()) {
            setenv("UCX_NET_DEVICES", theirs.c_str(), 1);
        }
    }
    std::string theirs;
};

const char *const a_host = R"(
    <nic name="lo" kind="loopback"/>
    <nic name="docker0" kind="bridge" gbits="10"/>
    <nic name="eth0" kind="ethernet" gbits="1"/>
    <nic name="eth1" kind="ethernet" gbits="25"/>
    <nic name="eth2" kind="ethernet" gbits="100" state="down"/>)";

} // namespace

TEST_F(net_choice, each_gpu_has_its_nearest_nic)
{
    Topology dgx = sample("dgx-h200");
    Names names = {"lo", "eno1"};
    for (int i = 0; i < 12; i++) {
        names.push_back("mlx5_" + std::to_string(i) + ":1");
    }
    for (int gpu = 0; gpu < 8; gpu++) {
        EXPECT_EQ(Choice(&dgx, names, "auto", gpu).list(), dgx.nics(gpu, 1)[0] + ":1");
    }
}

TEST_F(net_choice, faster_first_and_never_down_loopback_or_of_containers)
{
    RecordingLog log;
    Topology host = from_host(a_host, log);
    ASSERT_TRUE(host.ok());
    Choice choice(&host, {"lo", "docker0", "eth0", "eth1"}, "auto");
    EXPECT_EQ(choice.list(), "eth1");
    EXPECT_EQ(choice.log.lines().back(), "network device eth1 (tcp, ethernet, 25 Gbit/s), by "
                                         "coll_gpucoll_net_devices = auto");
    EXPECT_EQ(Choice(&host, {"lo", "docker0", "eth0"}, "auto").list(), "eth0");
    /* Nothing leads out. */
    EXPECT_EQ(Choice(&host, {"lo", "docker0"}, "auto").list(), "lo,docker0");
    /* A device that the topology does not have is better than those. */
    EXPECT_EQ(Choice(&host, {"lo", "docker0", "new0"}, "auto").list(), "new0");
}

TEST_F(net_choice, rdma_before_tcp_and_slower_ways_are_said)
{
    RecordingLog log;
    Topology host = from_host(R"(
        <nic name="eth0" kind="ethernet" gbits="400"/>
        <nic name="mlx5_0" kind="infiniband" gbits="100" interface="ib0"/>
        <nic name="mlx5_0:2" kind="infiniband" gbits="200" interface="ib1"/>)",
                              log);
    ASSERT_TRUE(host.ok()) << log.text_of("topology-file");
    const Names all = {"eth0", "ib0", "ib1", "mlx5_0:1", "mlx5_0:2"};
    Choice choice(&host, all, "auto");
    EXPECT_EQ(choice.list(), "mlx5_0:2");
    EXPECT_TRUE(choice.log.topics().empty());
    Choice slow(&host, {"eth0", "ib0"}, "auto");
    EXPECT_EQ(slow.list(), "ib0");
    EXPECT_NE(slow.log.text_of("net-slow").find("mlx5_0:2 (infiniband)"), std::string::npos);
    EXPECT_FALSE(Choice(&host, all, "eth0").log.text_of("net-slow").empty());
}

TEST_F(net_choice, names_of_ucx_and_of_the_system)
{
    RecordingLog log;
    Topology host = from_host(a_host, log);
    const Names all = {"lo", "eth0", "eth1", "mlx5_1:1", "mlx5_1:2", "mlx5_10:1"};
    EXPECT_EQ(Choice(&host, all, "mlx5_1:2").list(), "mlx5_1:2");
    EXPECT_EQ(Choice(&host, all, "mlx5_1").list(), "mlx5_1:1,mlx5_1:2");
    EXPECT_EQ(Choice(&host, all, "eth1,lo").list(), "lo,eth1");
    EXPECT_EQ(Choice(&host, all, "all").list(), "lo,eth0,eth1,mlx5_1:1,mlx5_1:2,mlx5_10:1");
    for (const char *wrong : {"eth", "eth0,eth7", "eth0,", "", "mlx5", "mlx5_1:3", "none"}) {
        Choice choice(&host, all, wrong);
        EXPECT_EQ(choice.list(), "declined") << wrong;
        EXPECT_NE(choice.log.text_of("net-devices").find("lo,eth0,eth1,mlx5_1:1"), std::string::npos)
            << wrong;
    }
    EXPECT_NE(
        Choice(&host, all, "eth0,eth7").log.text_of("net-devices").find("Not found:                 eth7\n"),
        std::string::npos);
    EXPECT_EQ(Choice(&host, {}, "auto").list(), "declined");
}

TEST_F(net_choice, without_a_topology_by_what_ucx_says)
{
    EXPECT_EQ(Choice(nullptr, {"lo", "eth0", "mlx5_0:1"}, "auto").list(), "mlx5_0:1");
    EXPECT_EQ(Choice(nullptr, {"lo", "eth0", "eth1"}, "auto").list(), "eth0,eth1");
}

TEST_F(net_choice, variables_of_ucx_count_where_gpucoll_is_told_nothing)
{
    RecordingLog log;
    Topology host = from_host(a_host, log);
    setenv("UCX_NET_DEVICES", "eth0", 1);
    EXPECT_EQ(Choice(&host, {"lo", "eth0", "eth1"}, "auto").list(), "");
    EXPECT_EQ(Choice(&host, {"lo", "eth0", "eth1"}, "eth1").list(), "eth1");
}

TEST_F(net_choice, what_is_slow_by_variables_of_ucx_is_said)
{
    RecordingLog log;
    Topology host = from_host(R"(
        <nic name="eth0" kind="ethernet" gbits="400"/>
        <nic name="mlx5_0" kind="infiniband" gbits="100" interface="ib0"/>)",
                              log);
    ASSERT_TRUE(host.ok()) << log.text_of("topology-file");
    const struct {
        const char *theirs;
        const char *chosen;
        bool slow;
    } cases[] = {
        {"eth0", "eth0", true},
        {"eth0,ib0", "eth0,ib0", true},
        {"mlx5_0:1", "mlx5_0:1", false},
        {"eth0,mlx5_0:1", "eth0,mlx5_0:1", false},
        {"all", "eth0,ib0,mlx5_0:1", false},
        {"^eth0", "ib0,mlx5_0:1", false},
        {"^mlx5_0:1", "eth0,ib0", true},
        {"mlx5_[0-3]:1", "", false},
        {"none", "", false},
    };
    for (const auto &one : cases) {
        setenv("UCX_NET_DEVICES", one.theirs, 1);
        Choice choice(&host, {"eth0", "ib0", "mlx5_0:1"}, "auto");
        char chosen[100];
        gpucoll_rdma_chosen_text(choice.devices.get(), chosen, sizeof chosen);
        EXPECT_STREQ(chosen, one.chosen) << one.theirs;
        EXPECT_EQ(choice.list(), "") << one.theirs; /* UCX reads its variable itself */
        EXPECT_EQ(!choice.log.text_of("net-slow").empty(), one.slow) << one.theirs;
    }
}

/* The GPU in use counts, else that of the process's number as Open MPI has it, whoever has started the process. */
TEST(net_gpu, is_the_one_in_use_else_that_of_the_number_on_the_host)
{
    RecordingLog log;
    const std::string uuid = "GPU-00000000-0000-0000-0000-00000000000";
    std::string machine;
    for (const char *id : {"0", "1", "2", "3"}) {
        machine += "<gpu id=\"" + std::string(id) + "\" uuid=\"" + uuid + id + "\"/>";
    }
    Topology host = from_host(machine, log);
    ASSERT_TRUE(host.ok()) << log.text_of("topology-file");
    const struct gpucoll_device_id third = host->objects[host.gpu(2)].uuid;
    const struct gpucoll_device_id slice = {{0xff}};
    const struct {
        const struct gpucoll_device_id *used;
        int rank;
        const char *visible; /* nullptr: not set */
        int gpu;
    } cases[] = {
        {nullptr, 0, nullptr, 0},   {nullptr, 3, nullptr, 3},  {nullptr, 5, nullptr, 1},
        {nullptr, 1, "2,3", 3},     {nullptr, 2, "2,3", 2},    {nullptr, 1, "GPU-1,GPU-2", -1},
        {nullptr, -1, nullptr, -1}, {&third, 0, nullptr, 2},   {&third, -1, "3", 2},
        {&slice, 1, nullptr, 1},    {&slice, -1, nullptr, -1},
    };
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", "2", 1);
    for (const auto &one : cases) {
        if (one.visible) {
            setenv("CUDA_VISIBLE_DEVICES", one.visible, 1);
        } else {
            unsetenv("CUDA_VISIBLE_DEVICES");
        }
        const struct gpucoll_net_place place = {false, one.rank, one.used};
        EXPECT_EQ(gpucoll_rdma_gpu(host, &place), one.gpu < 0 ? -1 : host.gpu(one.gpu))
            << one.rank << " of " << (one.visible ? one.visible : "all");
    }
    unsetenv("OMPI_COMM_WORLD_LOCAL_RANK");
    unsetenv("CUDA_VISIBLE_DEVICES");
}

namespace
{
bool takes_cuda;    /* the UCX of the test */
unsigned its_minor; /* and its version 1.x */

/* `said`: whether it was said to everybody. */
struct gpucoll_rdma_memory memory_by(const char *wish, const Choice &choice, bool &said)
{
    struct gpucoll_ucx ucx = {};
    ucx.ucp_context_query = [](ucp_context_h, ucp_context_attr_t *attr) {
        EXPECT_EQ(attr->field_mask, static_cast<uint64_t>(UCP_ATTR_FIELD_MEMORY_TYPES));
        attr->memory_types = UCS_BIT(UCS_MEMORY_TYPE_HOST) | (takes_cuda ? UCS_BIT(UCS_MEMORY_TYPE_CUDA) : 0);
        return UCS_OK;
    };
    ucx.ucp_get_version = [](unsigned *major, unsigned *minor, unsigned *release) {
        *major = 1;
        *minor = its_minor;
        *release = 0;
    };
    struct gpucoll_config config;
    gpucoll_config_init(&config);
    EXPECT_EQ(gpucoll_config_set(&config, "net_gpu_memory", wish), GPUCOLL_OK);
    const struct gpucoll_rdma_memory memory =
        gpucoll_rdma_memory_choose(&ucx, nullptr, &config, choice.devices.get());
    gpucoll_rdma_memory_say(&memory, &config, choice.devices.get(), choice.log.get());
    const std::string text = choice.log.text_of("net-copies");
    said = !text.empty();
    EXPECT_EQ(said, text.find(memory.text) != std::string::npos);
    return memory;
}
} // namespace

TEST_F(net_choice, memory_of_gpus_is_used_where_the_devices_register_it)
{
    const struct {
        bool taken;
        unsigned minor;
        Names registering;
        const char *chosen;
        const char *wish;
        bool used;
        bool registered;
        bool said; /* that it is copied, though it need not be */
    } cases[] = {
        {true, 16, {"mlx5_0:1"}, "mlx5_0:1", "auto", true, true, false},
        {true, 16, {"mlx5_0:1"}, "mlx5_0:1", "yes", true, true, false},
        {true, 16, {"mlx5_0:1"}, "mlx5_0:1", "no", false, false, false},
        {false, 16, {"mlx5_0:1"}, "mlx5_0:1", "auto", false, false, true},
        {false, 16, {"mlx5_0:1"}, "mlx5_0:1", "yes", false, false, true},
        {true, 15, {"mlx5_0:1"}, "mlx5_0:1", "auto", false, false, true},
        {true, 15, {"mlx5_0:1"}, "mlx5_0:1", "yes", true, false, false},
        {true, 16, {}, "mlx5_0:1", "auto", false, false, true},
        {true, 16, {}, "mlx5_0:1", "yes", true, false, false},
        {true, 16, {"mlx5_0:1"}, "mlx5_0:1,mlx5_1:1", "auto", false, false, true},
        {true, 16, {"mlx5_0:1", "mlx5_1:1"}, "mlx5_0:1,mlx5_1:1", "auto", true, true, false},
        {true, 16, {"mlx5_0:1"}, "eth0", "auto", false, false, false},
        {true, 16, {"mlx5_0:1"}, "eth0", "yes", true, false, false},
    };
    for (const auto &one : cases) {
        takes_cuda = one.taken;
        its_minor = one.minor;
        Choice choice(nullptr, {"mlx5_0:1", "mlx5_1:1", "eth0"}, one.chosen);
        for (int i = 0; i < choice.devices->count; i++) {
            struct gpucoll_rdma_device &device = choice.devices->device[i];
            for (const std::string &name : one.registering) {
                device.gpu_memory = device.gpu_memory || name == device.name;
            }
        }
        bool said = false;
        const struct gpucoll_rdma_memory memory = memory_by(one.wish, choice, said);
        EXPECT_EQ(said, one.said) << one.chosen << " " << one.wish << ": " << memory.text;
        EXPECT_EQ(memory.cuda, one.used) << one.chosen << " " << one.wish << ": " << memory.text;
        EXPECT_EQ(memory.registers, one.registered) << one.chosen << " " << one.wish << ": " << memory.text;
    }
}
