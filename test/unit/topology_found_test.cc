/*
 * core/topology: what is found on a machine, with NVML, sysfs and hwloc played by tests.
 */
#include "test/unit/topology_samples.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <unistd.h>

extern "C" {
#include "core/topology/build.h"
#include "core/topology/format.h"
#include "core/topology/found.h"
}

namespace fs = std::filesystem;

/* A folder that looks like /sys. */
class Sysfs
{
  public:
    Sysfs()
    {
        char name[] = "/tmp/gpucoll-sys-XXXXXX";
        root = mkdtemp(name);
    }
    ~Sysfs() { fs::remove_all(root); }
    Sysfs(const Sysfs &) = delete;
    Sysfs &operator=(const Sysfs &) = delete;

    void file(const std::string &path, const std::string &text) const
    {
        fs::create_directories((root / path).parent_path());
        std::ofstream(root / path) << text << "\n";
    }
    void link(const std::string &path, const std::string &to) const
    {
        fs::create_directories((root / path).parent_path());
        fs::create_directories(root / to);
        fs::create_directory_symlink(root / to, root / path);
    }
    void interface(const std::string &name, const std::string &state, const std::string &speed,
                   const std::string &type = "1") const
    {
        file("class/net/" + name + "/operstate", state);
        file("class/net/" + name + "/speed", speed);
        file("class/net/" + name + "/type", type);
    }
    void port(const std::string &device, const std::string &port, const std::string &layer,
              const std::string &state, const std::string &rate) const
    {
        const std::string at = "class/infiniband/" + device + "/ports/" + port + "/";
        file(at + "link_layer", layer);
        file(at + "state", state);
        file(at + "rate", rate);
    }
    std::map<std::string, gpucoll_topology_object> nics() const
    {
        std::map<std::string, gpucoll_topology_object> found;
        struct gpucoll_topology *topology = gpucoll_topology_new();
        EXPECT_TRUE(gpucoll_found_nics(topology, root.c_str()));
        for (int i = 0; i < topology->count; i++) {
            EXPECT_EQ(topology->objects[i].kind, GPUCOLL_TOPOLOGY_NIC);
            EXPECT_TRUE(found.emplace(topology->objects[i].name, topology->objects[i]).second);
        }
        gpucoll_topology_free(topology);
        return found;
    }

    fs::path root;
};

TEST(topology_found, rdma_ports_with_their_interfaces)
{
    Sysfs sys;
    const std::string card = "devices/pci0000:00/0000:00:01.0/0000:18:00.0";
    sys.file(card + "/max_link_speed", "32.0 GT/s PCIe");
    sys.file(card + "/max_link_width", "16");
    sys.file(card + "/net/ibs1/dev_port", "0");
    sys.port("mlx5_0", "1", "InfiniBand", "4: ACTIVE", "400 Gb/sec (4X NDR)");
    sys.link("class/infiniband/mlx5_0/device", card);
    sys.interface("ibs1", "up", "400000", "32");
    sys.port("mlx5_1", "1", "Ethernet", "1: DOWN", "100 Gb/sec (4X EDR)");
    sys.port("mlx5_1", "2", "Ethernet", "4: ACTIVE", "25 Gb/sec (1X EDR)");
    auto nics = sys.nics();
    ASSERT_EQ(nics.size(), 3u);
    const gpucoll_topology_object &first = nics["mlx5_0"];
    EXPECT_EQ(first.nic, GPUCOLL_NIC_INFINIBAND);
    EXPECT_TRUE(first.up);
    EXPECT_STREQ(first.interface, "ibs1"); /* which is not listed by itself */
    EXPECT_NEAR(first.bits_per_sec, 400e9, 1);
    EXPECT_TRUE(first.pci.known);
    EXPECT_EQ(first.pci.bus, 0x18u);
    EXPECT_EQ(first.pcie_generation, 5u);
    EXPECT_EQ(first.pcie_lanes, 16u);
    EXPECT_EQ(nics["mlx5_1"].nic, GPUCOLL_NIC_ROCE);
    EXPECT_FALSE(nics["mlx5_1"].up);
    EXPECT_TRUE(nics["mlx5_1:2"].up);
    EXPECT_NEAR(nics["mlx5_1:2"].bits_per_sec, 25e9, 1);
}

TEST(topology_found, interfaces_by_what_they_stand_on)
{
    Sysfs sys;
    sys.interface("lo", "unknown", "", "772");
    sys.file("class/net/lo/flags", "0x9");
    sys.interface("eth0", "up", "25000");
    sys.link("class/net/eth0/device", "devices/pci0000:00/0000:3b:00.1");
    sys.interface("eth1", "unknown", "-1");
    sys.file("class/net/eth1/flags", "0x1003");
    sys.link("class/net/eth1/device", "devices/pci0000:00/0000:00:03.0/virtio2");
    sys.interface("docker0", "up", "10000");
    sys.file("class/net/docker0/bridge/bridge_id", "8000");
    sys.interface("veth7", "up", "10000");
    sys.link("class/net/veth7/master", "class/net/docker0");
    fs::create_directory_symlink(sys.root / "class/net/veth7", sys.root / "class/net/docker0/lower_veth7");
    sys.interface("br0", "up", "25000");
    sys.file("class/net/br0/bridge/bridge_id", "8000");
    fs::create_directory_symlink(sys.root / "class/net/eth0", sys.root / "class/net/br0/lower_eth0");
    sys.interface("bond0", "down", "-1");
    sys.file("class/net/bond0/bonding/mode", "802.3ad 4");
    fs::create_directory_symlink(sys.root / "class/net/br0", sys.root / "class/net/bond0/lower_br0");
    sys.interface("tun0", "unknown", "10");
    sys.file("class/net/tun0/flags", "0x1090");
    sys.interface("loop0", "up", "1"); /* bridge of itself: must end */
    sys.file("class/net/loop0/bridge/bridge_id", "8000");
    fs::create_directory_symlink(sys.root / "class/net/loop0", sys.root / "class/net/loop0/lower_loop0");
    sys.file("class/net/bonding_masters", "bond0");

    auto nics = sys.nics();
    EXPECT_EQ(nics.size(), 9u);
    EXPECT_EQ(nics["lo"].nic, GPUCOLL_NIC_LOOPBACK);
    EXPECT_TRUE(nics["lo"].up);
    EXPECT_EQ(nics["eth0"].nic, GPUCOLL_NIC_ETHERNET);
    EXPECT_NEAR(nics["eth0"].bits_per_sec, 25e9, 1);
    EXPECT_EQ(nics["eth0"].pci.function, 1u);
    EXPECT_EQ(nics["eth1"].nic, GPUCOLL_NIC_ETHERNET);
    EXPECT_TRUE(nics["eth1"].up);
    EXPECT_TRUE(nics["eth1"].pci.known); /* of what the virtio device hangs from */
    EXPECT_EQ(nics["eth1"].pci.device, 3u);
    EXPECT_EQ(nics["eth1"].bits_per_sec, 0);
    EXPECT_EQ(nics["docker0"].nic, GPUCOLL_NIC_BRIDGE);
    EXPECT_EQ(nics["veth7"].nic, GPUCOLL_NIC_BRIDGE);
    EXPECT_EQ(nics["br0"].nic, GPUCOLL_NIC_ETHERNET);
    EXPECT_EQ(nics["bond0"].nic, GPUCOLL_NIC_ETHERNET);
    EXPECT_FALSE(nics["bond0"].up);
    EXPECT_EQ(nics["tun0"].nic, GPUCOLL_NIC_VIRTUAL);
    EXPECT_FALSE(nics["tun0"].up);
    EXPECT_EQ(nics["loop0"].nic, GPUCOLL_NIC_BRIDGE);
}

TEST(topology_found, no_sysfs_no_nics)
{
    Sysfs sys;
    EXPECT_TRUE(sys.nics().empty());
}

/* Three GPUs, which hwloc.xml has as PCI devices: 0 and 1 have 4 links to each other and 6 to switches, 2 has 6 to switches. */
namespace nvml
{
struct Gpu {
    const char *uuid;
    unsigned domain, bus;
};
static Gpu gpus[] = {{"GPU-00000000-0000-4000-8000-0000000000aa", 0, 0x13},
                     {"GPU-00000000-0000-4000-8000-0000000000bb", 0, 0x14},
                     {"GPU-00000000-0000-4000-8000-0000000000cc", 2, 0x11}};
enum { DIRECT = 4, SWITCHED = 6 };

static const Gpu &of(void *device)
{
    return *static_cast<Gpu *>(device);
}
static bool has_direct(void *device)
{
    return device != &gpus[2];
}
static int count(unsigned *number)
{
    *number = 4; /* one is kept from this process */
    return 0;
}
static int handle(unsigned index, void **device)
{
    if (index == 3) {
        return 4;
    }
    *device = &gpus[index];
    return 0;
}
static int name(void *, char *text, unsigned bytes)
{
    snprintf(text, bytes, "Model");
    return 0;
}
static int uuid(void *device, char *text, unsigned bytes)
{
    snprintf(text, bytes, "%s", of(device).uuid);
    return 0;
}
static int pci(void *device, gpucoll_nvml_pci *info)
{
    memset(info, 0, sizeof *info);
    info->domain = of(device).domain;
    info->bus = of(device).bus;
    return 0;
}
static int memory(void *, gpucoll_nvml_memory *info)
{
    info->total = 1ull << 37;
    return 0;
}
static int five(void *, unsigned *number)
{
    *number = 5;
    return 0;
}
static int sixteen(void *, unsigned *number)
{
    *number = 16;
    return 0;
}
static int none(void *, unsigned *number)
{
    *number = 0;
    return 0;
}
static int capability(void *, int *major, int *minor)
{
    *major = 10;
    *minor = 3;
    return 0;
}
static int state(void *, unsigned link, unsigned *active)
{
    *active = link < DIRECT + SWITCHED;
    return link < 18 ? 0 : 2;
}
static int version(void *, unsigned, unsigned *number)
{
    *number = 6; /* NVML's number of 4.0 */
    return 0;
}
static int remote_type(void *device, unsigned link, int *type)
{
    *type = link < DIRECT ? 0 : 2;
    return has_direct(device) || link >= DIRECT ? 0 : 3;
}
static int remote_pci(void *device, unsigned, gpucoll_nvml_pci *info)
{
    if (!has_direct(device)) {
        return 3;
    }
    return pci(device == &gpus[0] ? &gpus[1] : &gpus[0], info);
}
static int fields(void *device, int, gpucoll_nvml_field *field)
{
    field->result = device == &gpus[2] ? 0 : 3;
    field->value.number = 10;
    return field->id == GPUCOLL_NVML_FIELD_C2C_LINKS ? 0 : 1;
}

static gpucoll_nvml library()
{
    gpucoll_nvml nvml;
    memset(&nvml, 0, sizeof nvml);
    nvml.nvmlDeviceGetCount_v2 = count;
    nvml.nvmlDeviceGetHandleByIndex_v2 = handle;
    nvml.nvmlDeviceGetName = name;
    nvml.nvmlDeviceGetUUID = uuid;
    nvml.nvmlDeviceGetPciInfo_v3 = pci;
    nvml.nvmlDeviceGetMemoryInfo = memory;
    nvml.nvmlDeviceGetCudaComputeCapability = capability;
    nvml.nvmlDeviceGetMaxPcieLinkGeneration = five;
    nvml.nvmlDeviceGetMaxPcieLinkWidth = sixteen;
    nvml.nvmlDeviceGetMultiGpuBoard = none;
    nvml.nvmlDeviceGetBoardId = none;
    nvml.nvmlDeviceGetNvLinkState = state;
    nvml.nvmlDeviceGetNvLinkVersion = version;
    nvml.nvmlDeviceGetNvLinkRemoteDeviceType = remote_type;
    nvml.nvmlDeviceGetNvLinkRemotePciInfo_v2 = remote_pci;
    nvml.nvmlDeviceGetFieldValues = fields;
    return nvml;
}
} // namespace nvml

static gpucoll_topology_object nic(const char *name, const char *address)
{
    gpucoll_topology_object object;
    gpucoll_topology_blank(&object, GPUCOLL_TOPOLOGY_NIC, -1);
    snprintf(object.name, sizeof object.name, "%s", name);
    object.nic = GPUCOLL_NIC_ETHERNET;
    if (*address) {
        EXPECT_TRUE(gpucoll_pci_parse(&object.pci, address));
    }
    return object;
}

/* GPUs of the NVML above and a few NICs. */
static Topology found_devices(const gpucoll_nvml &library)
{
    struct gpucoll_topology *found = gpucoll_topology_new();
    EXPECT_TRUE(gpucoll_found_gpus(found, &library));
    for (const auto &one : {nic("ib", "0000:15:00.0"), nic("p0", "0001:11:00.0"), nic("p1", "0001:11:00.1"),
                            nic("gone", "0009:01:00.0"), nic("lo", "")}) {
        EXPECT_GE(gpucoll_topology_add(found, &one), 0);
    }
    return Topology(found);
}

TEST(topology_found, gpus_and_nvlinks_by_nvml)
{
    Topology found = found_devices(nvml::library());
    const gpucoll_topology_object &gpu = found->objects[1];
    EXPECT_EQ(gpu.id, 1);
    EXPECT_STREQ(gpu.name, "Model");
    EXPECT_TRUE(gpu.has_uuid);
    EXPECT_EQ(gpu.uuid.uuid[15], 0xbb);
    EXPECT_EQ(gpu.memory_bytes, 1ull << 37);
    EXPECT_EQ(gpu.pcie_lanes, 16u);
    EXPECT_EQ(gpu.compute, 103u);
    ASSERT_EQ(found->nvlink_count, 6);
    const struct {
        int gpu, to;
        unsigned links, version;
    } expected[] = {{0, 1, 4, 4},
                    {0, GPUCOLL_NVLINK_TO_SWITCH, 6, 4},
                    {1, 0, 4, 4},
                    {1, GPUCOLL_NVLINK_TO_SWITCH, 6, 4},
                    {2, GPUCOLL_NVLINK_TO_SWITCH, 6, 4},
                    {2, GPUCOLL_NVLINK_TO_CPU, 10, GPUCOLL_NVLINK_C2C}};
    for (int i = 0; i < 6; i++) {
        EXPECT_EQ(found->nvlinks[i].gpu, expected[i].gpu);
        EXPECT_EQ(found->nvlinks[i].to, expected[i].to);
        EXPECT_EQ(found->nvlinks[i].links, expected[i].links);
        EXPECT_EQ(found->nvlinks[i].version, expected[i].version);
    }
}

TEST(topology_found, drivers_without_the_newer_functions)
{
    gpucoll_nvml old = nvml::library();
    old.nvmlDeviceGetNvLinkRemoteDeviceType = nullptr;
    old.nvmlDeviceGetFieldValues = nullptr;
    Topology found = found_devices(old);
    ASSERT_EQ(found->nvlink_count, 2);
    EXPECT_EQ(found->nvlinks[0].to, 1);
}

/* The found devices in the tree of the machine that test/topology/NAME.xml has of hwloc. Not ok in a build without hwloc. */
static Topology placed_by_hwloc(const std::string &name)
{
    setenv("HWLOC_XMLFILE", source_file("test/topology/" + name + ".xml").c_str(), 1);
    Topology found = found_devices(nvml::library());
    Topology tree(gpucoll_found_place(found));
    unsetenv("HWLOC_XMLFILE");
    return tree;
}

/* What is written of it, from the first socket on, as the name of the machine is not known here. */
static std::string sockets_of(const Topology &tree)
{
    std::string xml = tree.xml();
    xml.erase(0, xml.find("<socket"));
    return "    " + xml;
}

TEST(topology_found, hwloc_gives_each_device_its_place)
{
    Topology tree = placed_by_hwloc("hwloc");
    if (!tree.ok()) {
        GTEST_SKIP() << "a build without hwloc";
    }
    EXPECT_EQ(sockets_of(tree), read_all(source_file("test/topology/hwloc.found")));
    EXPECT_EQ(tree.link(0, 1).nvlinks, 4u);
    EXPECT_EQ(tree.link(0, 2).nvlinks, 6u);
    EXPECT_TRUE(tree.link(0, 2).switched);
    EXPECT_EQ(gpucoll_topology_numa_id(tree, tree.gpu(2)), 1);
    EXPECT_EQ(tree.link(0, 1).path, GPUCOLL_PATH_SWITCH);
    RecordingLog log;
    EXPECT_TRUE(from_text(tree.xml(), log).ok()) << log.text_of("topology-file");
}

/* hwloc says of each node here which CPUs it is near. Where it tells no kinds, the lower number has them (0 before 1 and 7). DRAM goes
 * before HBM (3 before 2), and HBM before a node without memory (6 before 5). */
TEST(topology_found, memory_beside_that_of_the_cpus_is_no_home)
{
    Topology tree = placed_by_hwloc("hwloc-memory");
    if (!tree.ok()) {
        GTEST_SKIP() << "a build without hwloc";
    }
    EXPECT_EQ(sockets_of(tree), read_all(source_file("test/topology/hwloc-memory.found")));
    EXPECT_EQ(gpucoll_topology_numa_id(tree, tree.gpu(0)), 0);
    gpucoll_pci_address nic;
    ASSERT_TRUE(gpucoll_pci_parse(&nic, "0001:11:00.0"));
    EXPECT_EQ(gpucoll_topology_numa_id(tree, gpucoll_topology_find_pci(tree, &nic)), 3);
    EXPECT_EQ(gpucoll_topology_numa_id(tree, tree.gpu(2)), 6);
    RecordingLog log;
    Topology again = from_text(tree.xml(), log);
    ASSERT_TRUE(again.ok()) << log.text_of("topology-file");
    EXPECT_EQ(again.xml(), tree.xml());
    EXPECT_EQ(gpucoll_topology_numa_id(again, again.gpu(2)), 6);
}

TEST(topology_found, this_machine_is_a_valid_topology)
{
    RecordingLog log;
    struct gpucoll_topology *topology = nullptr;
    if (gpucoll_topology_discover(log.get(), &topology) == GPUCOLL_ERR_UNSUPPORTED) {
        EXPECT_NE(log.text_of("topology-unknown").find("hwloc"), std::string::npos);
        GTEST_SKIP() << "a build without hwloc";
    }
    Topology here(topology);
    ASSERT_TRUE(here.ok());
    EXPECT_FALSE(here.printed().empty());
    Topology again = from_text(here.xml(), log);
    ASSERT_TRUE(again.ok()) << log.text_of("topology-file");
    EXPECT_EQ(again.xml(), here.xml());
}
