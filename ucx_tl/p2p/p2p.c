/*
 * p2p: kernels of one GPU store straight into the memory of another GPU of the same host, over NVLink or PCIe, or of the
 * same GPU. The peer's scratch is mapped by the accelerator's own means (CUDA IPC between processes).
 */
#include <string.h>
#include "core/topology/topology.h"
#include "ucx_tl/tl.h"

/* One store over NVLink 4 and the SM store bandwidth out of one H200 to three peers, as measured
 * (docs/design.md, "Limits of the hardware"). */
static const double nvlink_latency_us = 0.62;
static const double nvlink_bandwidth = 354e9;
/* PCIe 5 through one switch, as its specification promises; not measured. Where nothing is known of the way. */
static const double pcie_latency_us = 1.5;
static const double pcie_bandwidth = 25e9;

void gpucoll_p2p_assume(enum gpucoll_link link, struct gpucoll_tl_cost *cost)
{
    cost->whole_lines = link == GPUCOLL_LINK_NVLINK;
    cost->latency_us = link == GPUCOLL_LINK_PCIE ? pcie_latency_us : nvlink_latency_us;
    cost->bandwidth = link == GPUCOLL_LINK_PCIE ? pcie_bandwidth : nvlink_bandwidth;
}

/*
 * The link as the topology has it: of the two GPUs, where it lists them by UUID; else, when it stands in for another machine, the
 * worst that two of its GPUs have. False: it knows nothing of it.
 */
static bool find_link(const struct gpucoll_topology *topology, struct gpucoll_device *device,
                      const struct gpucoll_device_id *peer_id, struct gpucoll_topology_link *link)
{
    struct gpucoll_device_id own_id;
    struct gpucoll_topology_links worst;
    device->accel->ops->device_id(device, &own_id);
    int own = gpucoll_topology_find_gpu(topology, &own_id);
    int peer = gpucoll_topology_find_gpu(topology, peer_id);
    if (own >= 0 && peer >= 0) {
        gpucoll_topology_link(topology, own, peer, link);
        return link->kind == GPUCOLL_LINK_NVLINK || link->kind == GPUCOLL_LINK_PCIE;
    }
    if (!gpucoll_topology_links(topology, UINT32_MAX, &worst) || worst.bandwidth <= 0) {
        return false;
    }
    *link = (struct gpucoll_topology_link){
        .kind = worst.kind,
        .path = worst.path,
        .latency_us = worst.latency_us,
        .bandwidth_out = worst.bandwidth,
    };
    return true;
}

static void query(struct gpucoll_device *device, const struct gpucoll_tl_card *peer,
                  struct gpucoll_tl_cost *cost)
{
    enum gpucoll_link link = device->accel->ops->device_link(device, &peer->device);
    memset(cost, 0, sizeof *cost);
    cost->same_device = link == GPUCOLL_LINK_SAME;
    cost->reachable = link != GPUCOLL_LINK_NONE;
    cost->reason = cost->reachable ? NULL : "the GPUs have no peer access to each other";
    gpucoll_p2p_assume(link, cost);
    struct gpucoll_topology_link found = {.kind = link, .path = GPUCOLL_PATH_ACROSS};
    if (device->accel->topology != NULL && cost->reachable &&
        find_link(device->accel->topology, device, &peer->device, &found)) {
        /* It never makes a link whole that the device says is not: data would be lost. */
        cost->whole_lines &= found.kind == GPUCOLL_LINK_NVLINK;
        cost->latency_us = found.latency_us;
        cost->bandwidth = found.bandwidth_out;
        cost->pair_bandwidth = found.bandwidth;
    }
    if (cost->reachable &&
        !gpucoll_topology_stores_may(device->accel->config->p2p_level, found.kind, found.path)) {
        cost->reachable = false;
        cost->reason = "the way between the GPUs is longer than coll_gpucoll_p2p_level lets it be";
    }
}

static gpucoll_status connect(struct gpucoll_device *device, const struct gpucoll_tl_card *peer,
                              struct gpucoll_endpoint *endpoint)
{
    endpoint->device = device;
    endpoint->handle = peer->scratch;
    return device->accel->ops->import(device, &peer->scratch, &endpoint->scratch);
}

static void disconnect(struct gpucoll_endpoint *endpoint)
{
    endpoint->device->accel->ops->release(endpoint->device, &endpoint->handle, endpoint->scratch);
    endpoint->scratch = NULL;
}

const struct gpucoll_tl_ops gpucoll_tl_p2p = {
    .name = "p2p",
    .help = "stores between GPUs of one host that have peer access (NVLink, PCIe)",
    .does = GPUCOLL_TL_STORES,
    .query = query,
    .connect = connect,
    .disconnect = disconnect,
};
