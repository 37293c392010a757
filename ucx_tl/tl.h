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

/* What a peer needs to reach the scratch of a device; plain data, exchanged as bytes. */
struct gpucoll_tl_card {
    struct gpucoll_device_id device;
    struct gpucoll_memory_handle scratch;
};

struct gpucoll_tl_cost {
    bool reachable;
    bool same_device;   /* both ranks drive one GPU: kernels that wait for each other must not be used */
    bool whole_lines;   /* 128 bytes stored at once by a warp arrive whole */
    const char *reason; /* why it is not reachable: a constant clause such as "no peer access" */
    double latency_us;  /* of one store becoming visible */
    double bandwidth;   /* bytes/s out of one device, towards all its peers together */
};

struct gpucoll_endpoint {
    const struct gpucoll_tl_ops *tl;
    struct gpucoll_device *device; /* the local one */
    struct gpucoll_memory_handle handle;
    void *scratch; /* the peer's, as the local device sees it */
};

struct gpucoll_tl_ops {
    const char *name;
    const char *help;
    void (*query)(struct gpucoll_device *device, const struct gpucoll_tl_card *peer,
                  struct gpucoll_tl_cost *cost);
    gpucoll_status (*connect)(struct gpucoll_device *device, const struct gpucoll_tl_card *peer,
                              struct gpucoll_endpoint *endpoint) GPUCOLL_CHECKED;
    void (*disconnect)(struct gpucoll_endpoint *endpoint);
};

extern const struct gpucoll_tl_ops gpucoll_tl_p2p;

/* The transports in order of preference; NULL past the end. */
const struct gpucoll_tl_ops *gpucoll_tl_row(int index);

/* Is everything that `allowed` names a transport, or is it "all" or "none"? */
bool gpucoll_tl_all_known(const char *allowed);

/* The first transport allowed by `allowed` (config->transports) that reaches the peer, or NULL; `cost` tells why. */
const struct gpucoll_tl_ops *gpucoll_tl_choose(const char *allowed, struct gpucoll_device *device,
                                               const struct gpucoll_tl_card *peer,
                                               struct gpucoll_tl_cost *cost);

#endif
