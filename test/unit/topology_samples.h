/*
 * Topologies for tests: the sample machines of test/topology, and texts.
 */
#ifndef GPUCOLL_TEST_TOPOLOGY_SAMPLES_H
#define GPUCOLL_TEST_TOPOLOGY_SAMPLES_H

#include "test/unit/unit.h"

extern "C" {
#include "core/topology/topology.h"
}

/* A topology that is freed with it. */
class Topology
{
  public:
    explicit Topology(struct gpucoll_topology *given) : topology(given) {}
    Topology(Topology &&other) noexcept : topology(other.topology) { other.topology = nullptr; }
    Topology(const Topology &) = delete;
    Topology &operator=(const Topology &) = delete;
    ~Topology() { gpucoll_topology_free(topology); }

    operator const struct gpucoll_topology *() const { return topology; }
    const struct gpucoll_topology *operator->() const { return topology; }
    bool ok() const { return topology != nullptr; }

    /* The GPU of that id on the first host. */
    int gpu(int id) const;
    struct gpucoll_topology_link link(int from_id, int to_id) const;
    struct gpucoll_topology_links links(uint32_t nranks) const;
    /* The names of the best NICs of a GPU. */
    std::vector<std::string> nics(int gpu_id, int most) const;
    std::string printed() const;
    std::string xml() const;

  private:
    struct gpucoll_topology *topology;
};

/* Names of the files, without ".xml". */
extern const std::vector<std::string> sample_machines;

/* test/topology/NAME.xml; the test fails if it cannot be read. */
Topology sample(const std::string &name);
/* What a file with this text would describe; `log` keeps what was said of it. */
Topology from_text(const std::string &text, const RecordingLog &log);
/* The same of <host name="h">...</host>. */
Topology from_host(const std::string &inner, const RecordingLog &log);

/* A GPU's UUID as files write it. */
std::string uuid_text(const struct gpucoll_device_id &id);

std::string read_all(const std::string &path);

#endif
