/*
 * Transport layers: how bytes get from one rank's device to another's. Each transport is a folder with one
 * table of functions; ucx_tl/tl.c lists the tables in order of preference. A transport knows processes and devices,
 * not communicators: what it maps for a peer process serves every team.
 *
 * Life of a connection: a process `describe`s its device once (a card of plain bytes that the engine publishes);
 * a peer asks `query` whether and how well it could reach that card, then `connect`s and gets an endpoint. An endpoint
 * answers with the address at which the peer's scratch can be stored to by kernels of this device.
 * Thread safety: calls for one transport are serialised by the engine; `address` may be called at any time.
 */
#ifndef GPUCOLL_TL_H
#define GPUCOLL_TL_H

#include "core/accel/accel.h"
#include "ucx_tl/pipe.h"

/* What a peer needs to reach the scratch of a device; plain data, exchanged as bytes. */
struct gpucoll_tl_card {
    struct gpucoll_device_id device;
    struct gpucoll_memory_handle scratch;
    struct gpucoll_segment_name outbox; /* zero until it is offered */
    uint32_t resident;                  /* CTAs of any kernel that are on the device at once */
    uint32_t processes;                 /* of its owner's job on this host, which may use its GPUs; 0: not known */
    bool concurrent;                    /* kernels of several processes run on it at the same time */
    uint64_t cores; /* SUMS: names those that the process may use, so that ranks know who shares them */
};

/* What a transport does for two devices. Algorithms need one of these; the links of a team say which there are. */
enum gpucoll_tl_way {
    GPUCOLL_TL_STORES = 1, /* kernels of one device store into the scratch of the other */
    GPUCOLL_TL_PIPES = 2,  /* chunks pass through host memory, moved by the copy engines */
    GPUCOLL_TL_SUMS =
        4 /* chunks of all ranks lie in host memory that all of them map, and are reduced there */
};

struct gpucoll_tl_cost {
    bool reachable;
    bool same_device;      /* both ranks drive one GPU */
    bool whole_lines;      /* 128 bytes stored at once by a warp arrive whole */
    const char *reason;    /* why it is not reachable: a constant clause such as "no peer access" */
    double latency_us;     /* of one store becoming visible */
    double pair_bandwidth; /* bytes/s to this peer alone; 0: as `bandwidth` */
    double bandwidth;      /* bytes/s out of one device, towards all its peers together */
};

struct gpucoll_endpoint {
    const struct gpucoll_tl_ops *tl;
    struct gpucoll_device *device; /* the local one */
    struct gpucoll_memory_handle handle;
    void *scratch;                 /* STORES: the peer's, as the local device sees it */
    struct gpucoll_segment outbox; /* PIPES: the peer's, as this process has mapped it */
};

struct gpucoll_tl_ops {
    const char *name;
    const char *help;
    unsigned does; /* enum gpucoll_tl_way */
    void (*query)(struct gpucoll_device *device, const struct gpucoll_tl_card *peer,
                  struct gpucoll_tl_cost *cost);
    /* Makes what peers are to connect to, and completes the card; NULL where the card is complete from the beginning. */
    gpucoll_status (*offer)(struct gpucoll_device *device, size_t bytes, struct gpucoll_segment *outbox,
                            struct gpucoll_tl_card *card) GPUCOLL_CHECKED;
    void (*withdraw)(struct gpucoll_device *device, struct gpucoll_segment *outbox);
    gpucoll_status (*connect)(struct gpucoll_device *device, const struct gpucoll_tl_card *peer,
                              struct gpucoll_endpoint *endpoint) GPUCOLL_CHECKED;
    void (*disconnect)(struct gpucoll_endpoint *endpoint);
    const struct gpucoll_pipe_ops *pipe; /* with GPUCOLL_TL_PIPES */
};

/* What p2p takes a link to be of which it knows the kind alone: sets whole_lines, latency_us and bandwidth. */
void gpucoll_p2p_assume(enum gpucoll_link link, struct gpucoll_tl_cost *cost);

extern const struct gpucoll_tl_ops gpucoll_tl_p2p;
extern const struct gpucoll_tl_ops gpucoll_tl_shm;
extern const struct gpucoll_tl_ops gpucoll_tl_cpu_reduce;

/* The transports in order of preference; NULL past the end. */
const struct gpucoll_tl_ops *gpucoll_tl_row(int index);

/* The transport between hosts: no row of the table, since it joins hosts of ranks, not devices (ucx_tl/net.h). */
#define GPUCOLL_TL_RDMA "rdma"
extern const char gpucoll_tl_rdma_help[];

/* Does `allowed` let data go between hosts? */
bool gpucoll_tl_spans(const char *allowed);
/* Does it name nothing else? Then nothing goes within a host, and each rank counts as a host of its own. */
bool gpucoll_tl_only_spans(const char *allowed);

/* Is everything that `allowed` names a transport, or is it "all" or "none"? */
bool gpucoll_tl_all_known(const char *allowed);

/* Does `allowed` (config->transports) name the transport, or is it "all"? */
bool gpucoll_tl_is_allowed(const char *allowed, const struct gpucoll_tl_ops *tl);

/* All that the allowed transports do, reachable or not: a function of the configuration. */
unsigned gpucoll_tl_allowed_ways(const char *allowed);

/* By which of them a team is to reach each other, if all ranks can store into each other's memory (`stores`, with that bandwidth) or
 * not: stores alone, unless they are slow, as over PCIe, ranks have a GPU's SMs `in_turn`, or the list names others. 0: none is allowed. */
unsigned gpucoll_tl_team_ways(const char *allowed, bool stores, bool in_turn, double bandwidth);

/* The first allowed transport that does `way` and reaches the peer, or NULL; `cost` tells why. */
const struct gpucoll_tl_ops *gpucoll_tl_choose(const char *allowed, enum gpucoll_tl_way way,
                                               struct gpucoll_device *device,
                                               const struct gpucoll_tl_card *peer,
                                               struct gpucoll_tl_cost *cost);

#endif
