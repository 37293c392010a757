#include "test/unit/topology_samples.h"
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <unistd.h>

const std::vector<std::string> sample_machines = {"dgx-a100",   "dgx-h100",   "dgx-h200", "gh200",
                                                  "gh200-quad", "h200-4gpu",  "no-gpu",   "pcie-4gpu",
                                                  "two-hosts",  "workstation"};

int Topology::gpu(int id) const
{
    for (int i = 0; i < topology->gpu_count; i++) {
        if (topology->objects[topology->gpus[i]].id == id) {
            return topology->gpus[i];
        }
    }
    ADD_FAILURE() << "no GPU " << id;
    return 0;
}

struct gpucoll_topology_link Topology::link(int from_id, int to_id) const
{
    struct gpucoll_topology_link link;
    gpucoll_topology_link(topology, gpu(from_id), gpu(to_id), &link);
    return link;
}

struct gpucoll_topology_links Topology::links(uint32_t nranks) const
{
    struct gpucoll_topology_links links;
    EXPECT_TRUE(gpucoll_topology_links(topology, nranks, &links));
    return links;
}

std::vector<std::string> Topology::nics(int gpu_id, int most) const
{
    std::vector<int> indices(static_cast<size_t>(most), -1);
    int count = gpucoll_topology_nics(topology, gpu(gpu_id), indices.data(), most);
    std::vector<std::string> names;
    for (int i = 0; i < count && i < most; i++) {
        names.push_back(topology->objects[indices[static_cast<size_t>(i)]].name);
    }
    return names;
}

static std::string written(const struct gpucoll_topology *topology,
                           void (*write)(const struct gpucoll_topology *, FILE *))
{
    char *text = nullptr;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    write(topology, file);
    fclose(file);
    std::string result(text, bytes);
    free(text);
    return result;
}

std::string Topology::printed() const
{
    return written(topology, gpucoll_topology_print);
}

std::string Topology::xml() const
{
    return written(topology, gpucoll_topology_write);
}

std::string read_all(const std::string &path)
{
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

Topology sample(const std::string &name)
{
    RecordingLog log;
    struct gpucoll_topology *topology = nullptr;
    std::string path = source_file("test/topology/" + name + ".xml");
    EXPECT_EQ(gpucoll_topology_read(path.c_str(), log.get(), &topology), GPUCOLL_OK)
        << log.text_of("topology-file");
    return Topology(topology);
}

Topology from_text(const std::string &text, const RecordingLog &log)
{
    char path[] = "/tmp/gpucoll-topology-XXXXXX";
    int file = mkstemp(path);
    EXPECT_GE(file, 0);
    EXPECT_EQ(write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(file);
    struct gpucoll_topology *topology = nullptr;
    gpucoll_status status = gpucoll_topology_read(path, log.get(), &topology);
    EXPECT_EQ(status == GPUCOLL_OK, topology != nullptr);
    EXPECT_EQ(status == GPUCOLL_OK, log.topics().empty());
    unlink(path);
    return Topology(topology);
}

Topology from_host(const std::string &inner, const RecordingLog &log)
{
    return from_text("<gpucoll_topology version=\"1\">\n<host name=\"h\">\n" + inner +
                         "\n</host>\n</gpucoll_topology>\n",
                     log);
}

std::string uuid_text(const gpucoll_device_id &id)
{
    std::string text = "GPU-";
    for (int i = 0; i < 16; i++) {
        char digits[4];
        snprintf(digits, sizeof digits, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                 id.uuid[i]);
        text += digits;
    }
    return text;
}
