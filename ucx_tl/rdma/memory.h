/*
 * Messages from and to the memory of GPUs. UCX tells whether it takes such memory at all, and which of its devices register it, that is: read and
 * write it themselves. Over others, such as TCP, UCX copies through host memory of its own, more slowly than gpucoll does.
 */
#ifndef GPUCOLL_RDMA_MEMORY_H
#define GPUCOLL_RDMA_MEMORY_H

#include "core/base/config.h"
#include "ucx_tl/rdma/devices.h"

struct gpucoll_rdma_memory {
    bool cuda;        /* messages go from and to the memory of GPUs, */
    bool registers;   /* and the devices register it: once for a call, not once a message, */
    bool only_so;     /* or else it is not used */
    bool plain;       /* so for a pretended device, whose memory is the host's */
    const char *text; /* the same, for people */
    /* Long messages from and to host memory are registered by gpucoll. From UCX 1.16 on, a message that UCX has registered without a cache
     * of its own ends the process if the connection fails meanwhile. Over TCP alone, where it costs nothing. */
    bool maps_host;
};

/* What is done, by a context of UCX, the chosen devices and coll_gpucoll_net_gpu_memory. */
struct gpucoll_rdma_memory gpucoll_rdma_memory_choose(const struct gpucoll_ucx *ucx, ucp_context_h context,
                                                      const struct gpucoll_config *config,
                                                      const struct gpucoll_rdma_devices *devices);
/* Says what was chosen; where copies in host memory are neither wanted nor what the devices are made for, to everybody. */
void gpucoll_rdma_memory_say(const struct gpucoll_rdma_memory *memory, const struct gpucoll_config *config,
                             const struct gpucoll_rdma_devices *devices, const struct gpucoll_log *log);

#endif
