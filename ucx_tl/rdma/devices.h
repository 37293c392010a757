/*
 * Which network devices UCX is to use. UCX tells which it can; the topology of the machine (core/topology) tells what they are, how fast,
 * and how near to the GPU; coll_gpucoll_net_devices tells what the user wants.
 */
#ifndef GPUCOLL_RDMA_DEVICES_H
#define GPUCOLL_RDMA_DEVICES_H

#include "core/topology/topology.h"
#include "ucx_tl/net.h"
#include "ucx_tl/rdma/ucx.h"

enum { GPUCOLL_RDMA_DEVICES = 64, GPUCOLL_RDMA_LIST_BYTES = 1024 };

struct gpucoll_rdma_device {
    char name[48];        /* as UCX has it: mlx5_0:1, eth0 */
    char transports[128]; /* of UCX: "tcp", "rc_verbs ud_verbs" */
    bool tcp;             /* and nothing better */
    bool gpu_memory;      /* it registers memory of CUDA's GPUs, as UCX says: then it reads and writes it */
    int nic;              /* in the topology; -1: it is not there */
    bool chosen;
};

struct gpucoll_rdma_devices {
    int count;
    struct gpucoll_rdma_device device[GPUCOLL_RDMA_DEVICES];
    bool cuda_ipc;                     /* UCX has this transport, between GPUs of one host */
    struct gpucoll_topology *topology; /* NULL: not known */
    int gpu;                           /* in the topology, whose data is to travel; -1: not known */
    char list
        [GPUCOLL_RDMA_LIST_BYTES]; /* the chosen ones as UCX takes them; empty: UCX's own variables say it */
};

/* Finds the devices and chooses among them, for a process at `place`. GPUCOLL_DECLINED if there is none, or none of a name that the user
 * gives: shown. */
gpucoll_status gpucoll_rdma_devices_open(const struct gpucoll_ucx *ucx, const struct gpucoll_config *config,
                                         const struct gpucoll_log *log, const struct gpucoll_net_place *place,
                                         struct gpucoll_rdma_devices *devices) GPUCOLL_CHECKED;
void gpucoll_rdma_devices_close(struct gpucoll_rdma_devices *devices);

/* The GPU whose data is to travel: the one that the process uses, else the one that is usual for its number on the host. -1: not known. */
int gpucoll_rdma_gpu(const struct gpucoll_topology *topology, const struct gpucoll_net_place *place);

/* Sets `nic`, `chosen`, `forced` and `list` of devices whose names are known, and says what was chosen. */
gpucoll_status gpucoll_rdma_choose(const struct gpucoll_config *config, const struct gpucoll_log *log,
                                   struct gpucoll_rdma_devices *devices) GPUCOLL_CHECKED;

/* Is some device chosen that has TCP alone, or (without `tcp`) one that has more? With a pattern in UCX_NET_DEVICES it is not known which are chosen. */
bool gpucoll_rdma_chosen(const struct gpucoll_rdma_devices *devices, bool tcp);

/* "mlx5_0:1,mlx5_1:1": those that are chosen. */
void gpucoll_rdma_chosen_text(const struct gpucoll_rdma_devices *devices, char *text, size_t bytes);
/* "tcp, ethernet, 10 Gbit/s" into `text`. */
void gpucoll_rdma_device_text(const struct gpucoll_rdma_devices *devices, int device, char *text,
                              size_t bytes);

#endif
