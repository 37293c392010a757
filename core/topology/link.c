/*
 * How two GPUs reach each other, and how fast that is likely to be.
 */
#include "core/topology/topology.h"

#include <stddef.h>
#include <string.h>
#include "core/topology/ring.h"

/*
 * What kernels reach of an NVLink's raw speed: SM stores to three peers at once take 354 GB/s of the 450 GB/s of an H200's 18 links
 * (docs/design.md, "Limits of the hardware"). The latency is of the same table.
 */
static const double nvlink_share = 354.0 / 450.0;
static const double nvlink_latency_us = 0.62;

/* Raw bytes/s one way of one link, by version: NVIDIA's data sheets of P100, V100, A100, H100, B200. */
static const double nvlink_speed[] = {0, 20e9, 25e9, 25e9, 25e9, 50e9};
static const double c2c_speed = 45e9; /* 450 GB/s by ten links, data sheet of GH200 */

/* Raw bytes/s one way of one lane, by PCIe generation: transfer rate less line code (8b/10b, from 3 on 128b/130b, 6 in flits). */
static const double pcie_speed[] = {0, 0.25e9, 0.5e9, 0.985e9, 1.969e9, 3.938e9, 7.563e9, 15.125e9};
/* Where a file says nothing: x16 of generation 4. */
enum { PCIE_GENERATION = 4, PCIE_LANES = 16 };
/* Headers of packets with 128 to 256 bytes of data, and flow control, leave about this of the raw speed. */
static const double pcie_share = 0.8;

/* What a path costs beyond the slot: estimates, not measured, in the order that all vendors' documents give. */
static const struct {
    const char *name;
    double latency_us;
    double share;
} paths[] = {
    [GPUCOLL_PATH_SELF] = {"same device", 0.5, 1.0},
    [GPUCOLL_PATH_BOARD] = {"same board", 1.3, 1.0},
    [GPUCOLL_PATH_SWITCH] = {"same PCIe switch", 1.5, 1.0},
    [GPUCOLL_PATH_HOST_BRIDGE] = {"same host bridge", 1.8, 0.9},
    [GPUCOLL_PATH_SOCKET] = {"same socket", 2.0, 0.8},
    [GPUCOLL_PATH_ACROSS] = {"across sockets", 2.5, 0.5},
    [GPUCOLL_PATH_NETWORK] = {"other host", 0, 0},
};

/* Between hosts, beside what the NIC's speed says: a small message one way; estimates, not measured. */
static const double rdma_latency_us = 2.0;
static const double tcp_latency_us = 20.0;
static const double network_share = 0.9;

const char *gpucoll_path_name(enum gpucoll_path path)
{
    return paths[path].name;
}

static bool same_board(const struct gpucoll_topology_object *a, const struct gpucoll_topology_object *b)
{
    const struct gpucoll_pci_address *from = &a->pci;
    const struct gpucoll_pci_address *to = &b->pci;
    bool functions_of_one = from->known && to->known && from->domain == to->domain && from->bus == to->bus &&
                            from->device == to->device;
    size_t i = 0;
    while (a->board[i] && a->board[i] == b->board[i]) {
        i++;
    }
    return functions_of_one || (i > 0 && a->board[i] == b->board[i]);
}

enum gpucoll_path gpucoll_topology_path(const struct gpucoll_topology *topology, int a, int b)
{
    const struct gpucoll_topology_object *objects = topology->objects;
    if (a == b) {
        return GPUCOLL_PATH_SELF;
    }
    if (!gpucoll_topology_same_host(topology, a, b)) {
        return GPUCOLL_PATH_NETWORK;
    }
    if (same_board(&objects[a], &objects[b])) {
        return GPUCOLL_PATH_BOARD;
    }
    /* Up to the first common ancestor: the one with the higher index is never above the other. */
    while (a != b) {
        if (a > b) {
            a = objects[a].parent;
        } else {
            b = objects[b].parent;
        }
    }
    switch (objects[a].kind) {
    case GPUCOLL_TOPOLOGY_SWITCH:
        return GPUCOLL_PATH_SWITCH;
    case GPUCOLL_TOPOLOGY_BRIDGE:
        return GPUCOLL_PATH_HOST_BRIDGE;
    case GPUCOLL_TOPOLOGY_NUMA:
    case GPUCOLL_TOPOLOGY_SOCKET:
        return GPUCOLL_PATH_SOCKET;
    default:
        return GPUCOLL_PATH_ACROSS;
    }
}

static double nvlink_bandwidth(unsigned links, unsigned version)
{
    size_t newest = sizeof(nvlink_speed) / sizeof(nvlink_speed[0]) - 1;
    double speed =
        version == GPUCOLL_NVLINK_C2C ? c2c_speed : nvlink_speed[version < newest ? version : newest];
    return nvlink_share * links * speed;
}

static double pcie_bandwidth(const struct gpucoll_topology_object *device)
{
    unsigned generation = device->pcie_generation ? device->pcie_generation : PCIE_GENERATION;
    unsigned lanes = device->pcie_lanes ? device->pcie_lanes : PCIE_LANES;
    size_t newest = sizeof(pcie_speed) / sizeof(pcie_speed[0]) - 1;
    return pcie_share * lanes * pcie_speed[generation < newest ? generation : newest];
}

static const struct gpucoll_nvlink *find_nvlink(const struct gpucoll_topology *topology, int gpu, int to)
{
    for (int i = 0; i < topology->nvlink_count; i++) {
        if (topology->nvlinks[i].gpu == gpu && topology->nvlinks[i].to == to) {
            return &topology->nvlinks[i];
        }
    }
    return NULL;
}

/* All links of `gpu` that lead to GPUs, directly or through switches. */
static double nvlink_bandwidth_out(const struct gpucoll_topology *topology, int gpu)
{
    double sum = 0;
    for (int i = 0; i < topology->nvlink_count; i++) {
        const struct gpucoll_nvlink *nvlink = &topology->nvlinks[i];
        if (nvlink->gpu == gpu && nvlink->to != GPUCOLL_NVLINK_TO_CPU) {
            sum += nvlink_bandwidth(nvlink->links, nvlink->version);
        }
    }
    return sum;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* Fills the link if NVLinks connect the two, direct ones before switched ones. */
static bool by_nvlink(const struct gpucoll_topology *topology, int gpu, int peer,
                      struct gpucoll_topology_link *link)
{
    const struct gpucoll_nvlink *from = find_nvlink(topology, gpu, peer);
    const struct gpucoll_nvlink *to = from;
    if (from == NULL && gpucoll_topology_same_host(topology, gpu, peer)) {
        from = find_nvlink(topology, gpu, GPUCOLL_NVLINK_TO_SWITCH);
        to = find_nvlink(topology, peer, GPUCOLL_NVLINK_TO_SWITCH);
        link->switched = true;
    }
    if (from == NULL || to == NULL) {
        link->switched = false;
        return false;
    }
    link->kind = GPUCOLL_LINK_NVLINK;
    link->nvlinks = from->links < to->links ? from->links : to->links;
    link->nvlink_version = from->version < to->version ? from->version : to->version;
    link->latency_us = nvlink_latency_us;
    link->bandwidth = nvlink_bandwidth(link->nvlinks, link->nvlink_version);
    link->bandwidth_out = nvlink_bandwidth_out(topology, gpu);
    return true;
}

static void by_network(const struct gpucoll_topology *topology, int gpu, int peer,
                       struct gpucoll_topology_link *link)
{
    int ends[2] = {gpu, peer};
    link->bandwidth = 0;
    for (int i = 0; i < 2; i++) {
        int nic = -1;
        if (gpucoll_topology_nics(topology, ends[i], &nic, 1) == 0) {
            link->bandwidth = 0;
            break;
        }
        const struct gpucoll_topology_object *object = &topology->objects[nic];
        bool rdma = object->nic == GPUCOLL_NIC_INFINIBAND || object->nic == GPUCOLL_NIC_ROCE;
        double latency_us = rdma ? rdma_latency_us : tcp_latency_us;
        double bandwidth = network_share * object->bits_per_sec / 8;
        link->latency_us = link->latency_us > latency_us ? link->latency_us : latency_us;
        link->bandwidth = i == 0 ? bandwidth : least(link->bandwidth, bandwidth);
    }
    link->bandwidth_out = link->bandwidth;
}

void gpucoll_topology_link(const struct gpucoll_topology *topology, int gpu, int peer,
                           struct gpucoll_topology_link *link)
{
    *link = (struct gpucoll_topology_link){.kind = GPUCOLL_LINK_NONE,
                                           .path = gpucoll_topology_path(topology, gpu, peer)};
    if (link->path == GPUCOLL_PATH_NETWORK) {
        by_network(topology, gpu, peer, link);
        return;
    }
    if (gpu != peer && by_nvlink(topology, gpu, peer, link)) {
        return;
    }
    const struct gpucoll_topology_object *from = &topology->objects[gpu];
    const struct gpucoll_topology_object *to = &topology->objects[peer];
    link->kind = gpu == peer ? GPUCOLL_LINK_SAME : GPUCOLL_LINK_PCIE;
    link->latency_us = paths[link->path].latency_us;
    link->bandwidth = paths[link->path].share * least(pcie_bandwidth(from), pcie_bandwidth(to));
    link->bandwidth_out = link->bandwidth;
}

bool gpucoll_topology_stores_may(const char *level, enum gpucoll_link kind, enum gpucoll_path path)
{
    static const struct {
        const char *level;
        enum gpucoll_path farthest;
    } levels[] = {
        {"nvlink", GPUCOLL_PATH_SELF},
        {"switch", GPUCOLL_PATH_SWITCH},
        {"bridge", GPUCOLL_PATH_HOST_BRIDGE},
        {"socket", GPUCOLL_PATH_SOCKET},
    };
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        if (strcmp(level, levels[i].level) == 0) {
            return kind != GPUCOLL_LINK_PCIE || path <= levels[i].farthest;
        }
    }
    return true;
}

static void take_worst(struct gpucoll_topology_links *links, const struct gpucoll_topology_link *link,
                       int peers)
{
    if (link->path == GPUCOLL_PATH_NETWORK) {
        bool first = links->net_latency_us == 0;
        links->net_bandwidth = first ? link->bandwidth : least(links->net_bandwidth, link->bandwidth);
        links->net_latency_us =
            links->net_latency_us > link->latency_us ? links->net_latency_us : link->latency_us;
        return;
    }
    /* A direct NVLink carries the data of one pair; a switch or a PCIe slot that of all peers. */
    double out = link->bandwidth;
    if (link->kind == GPUCOLL_LINK_NVLINK && !link->switched) {
        out = least(peers * link->bandwidth, link->bandwidth_out);
    }
    bool first = links->bandwidth == 0;
    links->bandwidth = first ? out : least(links->bandwidth, out);
    links->latency_us = links->latency_us > link->latency_us ? links->latency_us : link->latency_us;
    links->path = links->path > link->path ? links->path : link->path;
    if (link->kind != GPUCOLL_LINK_NVLINK) {
        links->kind = GPUCOLL_LINK_PCIE;
        links->whole_lines = false;
    }
}

/* The worst of what leads from one GPU to the others. */
static void add_links(const struct gpucoll_topology *topology, uint32_t used, uint32_t from,
                      struct gpucoll_topology_links *links)
{
    const int *gpus = topology->gpus;
    int peers = 0;
    for (uint32_t i = 0; i < used; i++) {
        peers += i != from && gpucoll_topology_same_host(topology, gpus[from], gpus[i]);
    }
    for (uint32_t i = 0; i < used; i++) {
        if (i != from) {
            struct gpucoll_topology_link link;
            gpucoll_topology_link(topology, gpus[from], gpus[i], &link);
            take_worst(links, &link, peers);
        }
    }
}

/* Is there a ring of NVLinks, and how good are the links of which it is? */
static void find_ring(const struct gpucoll_topology *topology, uint32_t used,
                      struct gpucoll_topology_links *links)
{
    enum { MOST = 32 };
    uint32_t near[MOST] = {0};
    uint32_t order[MOST];
    if (used < 2 || used > MOST || links->sharers > 1 || links->hosts != 1) {
        return;
    }
    struct gpucoll_topology_link link;
    for (uint32_t i = 0; i < used * used; i++) {
        gpucoll_topology_link(topology, topology->gpus[i / used], topology->gpus[i % used], &link);
        near[i / used] |= i / used != i % used && link.kind == GPUCOLL_LINK_NVLINK ? 1u << i % used : 0;
    }
    for (uint32_t i = 0; gpucoll_ring_order(near, used, order) && i < used; i++) {
        gpucoll_topology_link(topology, topology->gpus[order[i]], topology->gpus[order[(i + 1) % used]],
                              &link);
        const double both = least(link.bandwidth * (used > 2 ? 2 : 1), link.bandwidth_out);
        links->ring_bandwidth = i == 0 ? both : least(links->ring_bandwidth, both);
        links->ring_latency_us =
            links->ring_latency_us > link.latency_us ? links->ring_latency_us : link.latency_us;
    }
}

bool gpucoll_topology_links(const struct gpucoll_topology *topology, uint32_t nranks,
                            struct gpucoll_topology_links *links)
{
    uint32_t gpus = (uint32_t)topology->gpu_count;
    uint32_t used = nranks < gpus ? nranks : gpus;
    int last_host = -1;
    *links = (struct gpucoll_topology_links){.kind = GPUCOLL_LINK_NVLINK, .whole_lines = true};
    links->sharers = used > 0 ? (nranks + used - 1) / used : 1;
    for (uint32_t from = 0; from < used; from++) {
        int host = gpucoll_topology_above(topology, topology->gpus[from], GPUCOLL_TOPOLOGY_HOST);
        links->hosts += host != last_host;
        last_host = host;
        add_links(topology, used, from, links);
    }
    find_ring(topology, used, links);
    return used > 0;
}
