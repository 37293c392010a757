/*
 * Topology: what a machine is made of and how its parts are wired. A tree of hosts, sockets, NUMA nodes, PCIe switches, GPUs and
 * NICs, with the NVLinks of each GPU. It is either found on this machine (hwloc, NVML and sysfs) or read from a file, which may
 * describe machines that are not here (docs/topology.md).
 *
 * A topology is plain data that nobody changes once it is made; all functions that take it as const may be called from any
 * thread. Objects are known by their index; an object comes after its parent, and directly after it or after a sibling's subtree.
 *
 * Stands above core/accel and below ucx_tl.
 */
#ifndef GPUCOLL_TOPOLOGY_H
#define GPUCOLL_TOPOLOGY_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "core/accel/accel.h"
#include "core/base/config.h"
#include "core/base/log.h"
#include "core/base/status.h"

enum gpucoll_topology_kind {
    GPUCOLL_TOPOLOGY_HOST,
    GPUCOLL_TOPOLOGY_SOCKET,
    GPUCOLL_TOPOLOGY_NUMA,
    GPUCOLL_TOPOLOGY_BRIDGE, /* PCI host bridge: a root complex, or one root port of several */
    GPUCOLL_TOPOLOGY_SWITCH, /* PCIe switch */
    GPUCOLL_TOPOLOGY_GPU,
    GPUCOLL_TOPOLOGY_NIC
};

enum gpucoll_nic_kind {
    GPUCOLL_NIC_INFINIBAND,
    GPUCOLL_NIC_ROCE,
    GPUCOLL_NIC_ETHERNET, /* a device, or a bridge or bond of devices */
    GPUCOLL_NIC_VIRTUAL,  /* veth, tun, macvlan: leads somewhere, over something else */
    GPUCOLL_NIC_BRIDGE, /* of containers or virtual machines of this host, such as docker0: leads nowhere else */
    GPUCOLL_NIC_LOOPBACK
};

struct gpucoll_pci_address {
    bool known;
    unsigned domain;
    unsigned bus;
    unsigned device;
    unsigned function;
};

struct gpucoll_topology_object {
    enum gpucoll_topology_kind kind;
    int parent;            /* index; -1 for a host */
    int id;                /* as the system numbers it: sockets, NUMA nodes, GPUs (NVML's order); else -1 */
    char name[96];         /* of a host, of a GPU's model, of a NIC's device (mlx5_0, eth0) */
    cpu_set_t cpus;        /* of a socket or NUMA node; empty: has none, or not known */
    uint64_t memory_bytes; /* of a NUMA node or GPU; 0: not known */
    struct gpucoll_pci_address pci;
    unsigned pcie_generation; /* of a GPU or NIC; 0: not known */
    unsigned pcie_lanes;

    /* GPU */
    bool has_uuid;
    struct gpucoll_device_id uuid;
    unsigned compute; /* capability, ten times: 90 is 9.0; 0: not known */
    char board[32];   /* GPUs of one board name the same; empty: a board of its own */

    /* NIC */
    enum gpucoll_nic_kind nic;
    bool up;
    char interface[32];  /* of InfiniBand and RoCE: the network interface of the same port; may be empty */
    double bits_per_sec; /* 0: not known */
};

enum {
    GPUCOLL_NVLINK_TO_SWITCH = -1,
    GPUCOLL_NVLINK_TO_CPU = -2,
    GPUCOLL_NVLINK_C2C = 100 /* as a version: NVLink-C2C, between the GPU and the CPU of one package */
};

/* All NVLinks of one GPU that lead to the same place. */
struct gpucoll_nvlink {
    int gpu; /* index of the object */
    int to;  /* index of another GPU, or GPUCOLL_NVLINK_TO_... */
    unsigned links;
    unsigned version;
};

struct gpucoll_topology {
    int count;
    struct gpucoll_topology_object *objects;
    int nvlink_count;
    struct gpucoll_nvlink *nvlinks;
    int gpu_count;
    int *gpus; /* their indices: host by host, by the ids of the GPUs */
};

/* Where the way over PCIe between two objects turns back, ever farther. */
enum gpucoll_path {
    GPUCOLL_PATH_SELF,
    GPUCOLL_PATH_BOARD,
    GPUCOLL_PATH_SWITCH,
    GPUCOLL_PATH_HOST_BRIDGE,
    GPUCOLL_PATH_SOCKET,
    GPUCOLL_PATH_ACROSS, /* across sockets, or it is not known which */
    GPUCOLL_PATH_NETWORK /* on different hosts */
};

/* How two GPUs reach each other. Figures are estimates from widths and generations (core/topology/link.c). */
struct gpucoll_topology_link {
    /* SAME: one GPU; NONE: over the network. What peer access the driver allows is not known here. */
    enum gpucoll_link kind;
    enum gpucoll_path path;
    bool switched;    /* NVLink through NVSwitches */
    unsigned nvlinks; /* 0: not NVLink */
    unsigned nvlink_version;
    double latency_us;    /* of one store becoming visible */
    double bandwidth;     /* bytes/s, one way, this pair alone */
    double bandwidth_out; /* bytes/s out of the first, towards all its peers of this kind together */
};

/* What a team of one rank a GPU has: the inputs of the selector. */
struct gpucoll_topology_links {
    int hosts;
    uint32_t sharers; /* most ranks that share a GPU */
    /* The worst of all pairs of ranks on one host; NVLINK for a single rank. */
    enum gpucoll_link kind;
    enum gpucoll_path path;
    bool whole_lines;
    double latency_us;
    double bandwidth; /* bytes/s out of one rank, all peers together */
    /* The worst link between neighbours of a ring along NVLinks; bandwidth 0: there is no such ring. */
    double ring_latency_us;
    double ring_bandwidth; /* bytes/s out of one rank, both neighbours together */
    /* The worst between hosts, over each GPU's first NIC; 0 on one host. */
    double net_latency_us;
    double net_bandwidth;
};

/* This machine. GPUCOLL_ERR_UNSUPPORTED in a build without hwloc, shown by topic "topology-unknown". */
gpucoll_status gpucoll_topology_discover(const struct gpucoll_log *log,
                                         struct gpucoll_topology **topology) GPUCOLL_CHECKED;
/* What a file describes. GPUCOLL_ERR_INVALID, shown by topic "topology-file" with the line and what is wrong there. */
gpucoll_status gpucoll_topology_read(const char *path, const struct gpucoll_log *log,
                                     struct gpucoll_topology **topology) GPUCOLL_CHECKED;
/* The file that coll_gpucoll_topology_file names, else this machine. */
gpucoll_status gpucoll_topology_open(const struct gpucoll_config *config, const struct gpucoll_log *log,
                                     struct gpucoll_topology **topology) GPUCOLL_CHECKED;
void gpucoll_topology_free(struct gpucoll_topology *topology); /* harmless on NULL */

/* As XML, in the format of gpucoll_topology_read. */
void gpucoll_topology_write(const struct gpucoll_topology *topology, FILE *file);
/* As a tree for people, then how each pair of GPUs is linked, then the NICs of each GPU. */
void gpucoll_topology_print(const struct gpucoll_topology *topology, FILE *file);

/* The `which`-th host, from 0; -1 past the end. */
int gpucoll_topology_host(const struct gpucoll_topology *topology, int which);
/* The `which`-th GPU of a host (by its index), or of all hosts with host -1, by their ids; -1 past the end. */
int gpucoll_topology_gpu(const struct gpucoll_topology *topology, int host, int which);
/* -1: not there. */
int gpucoll_topology_find_gpu(const struct gpucoll_topology *topology, const struct gpucoll_device_id *id);
int gpucoll_topology_find_pci(const struct gpucoll_topology *topology,
                              const struct gpucoll_pci_address *address);

/* The nearest ancestor of that kind, or the object itself if it is one; -1: none. */
int gpucoll_topology_above(const struct gpucoll_topology *topology, int object,
                           enum gpucoll_topology_kind kind);
bool gpucoll_topology_same_host(const struct gpucoll_topology *topology, int a, int b);
/* CPUs near a GPU or NIC: of its NUMA node, else of its socket, else of its host. Left empty if not known. */
void gpucoll_topology_cpus(const struct gpucoll_topology *topology, int object, cpu_set_t *cpus);
/* The system's number of the NUMA node nearest to an object; -1: not known. */
int gpucoll_topology_numa_id(const struct gpucoll_topology *topology, int object);

enum gpucoll_path gpucoll_topology_path(const struct gpucoll_topology *topology, int a, int b);
void gpucoll_topology_link(const struct gpucoll_topology *topology, int gpu, int peer,
                           struct gpucoll_topology_link *link);
/* Does coll_gpucoll_p2p_level, one of its values, let kernels store over such a link? */
bool gpucoll_topology_stores_may(const char *level, enum gpucoll_link kind, enum gpucoll_path path);
/* Ranks take the GPUs host by host, by their ids; when these are used up, they begin anew. False if there is no GPU. */
bool gpucoll_topology_links(const struct gpucoll_topology *topology, uint32_t nranks,
                            struct gpucoll_topology_links *links);

/* The NICs of a GPU's host that lead to other hosts and are up, best first: InfiniBand and RoCE, then Ethernet, then virtual
 * ones; faster first among these, then nearer. GPUs to which several NICs are equally good begin with different ones. Never
 * loopback, never a bridge of containers. Fills at most `most` indices; returns how many there are. */
int gpucoll_topology_nics(const struct gpucoll_topology *topology, int gpu, int *nics, int most);

/* Words such as "same PCIe switch", "nvlink", "infiniband". */
const char *gpucoll_path_name(enum gpucoll_path path);
const char *gpucoll_nic_kind_name(enum gpucoll_nic_kind kind);

#endif
