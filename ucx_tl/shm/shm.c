/*
 * shm: devices of one host that cannot store into each other's memory meet in host memory. Every process lays its
 * chunks in an outbox of its own (outbox.h), which its peers map and which all devices that use it have registered. The copy
 * engines move; kernels read there what is to be reduced.
 */
#include <string.h>
#include "core/topology/near_memory.h"
#include "ucx_tl/shm/outbox.h"
#include "ucx_tl/shm/shm.h"

/* A copy into host memory until its end is seen, and PCIe 5 x16 as its copy engines reach it. */
static const double latency_us = 6.0;
static const double bandwidth = 50e9;

void gpucoll_shm_query(struct gpucoll_device *device, const struct gpucoll_tl_card *peer,
                       struct gpucoll_tl_cost *cost)
{
    struct gpucoll_process_id self;
    (void)device;
    gpucoll_process_id_self(&self);
    memset(cost, 0, sizeof *cost);
    cost->reachable = gpucoll_process_same_host(&self, &peer->scratch.owner);
    cost->reason = cost->reachable ? NULL : "it is on another host";
    cost->latency_us = latency_us;
    cost->bandwidth = bandwidth;
}

struct nearness {
    struct gpucoll_device *device;
    int numa;
};

/* Copies to and from the other socket's memory would cross the link between sockets. */
static void place_near(void *arg, void *map, size_t bytes)
{
    const struct nearness *near = arg;
    const char *reason = gpucoll_near_bind(near->numa, map, bytes);
    gpucoll_log(near->device->accel->log, GPUCOLL_LOG_SETUP, "outbox of %s: %s memory of NUMA node %d%s%s",
                near->device->name, reason ? "not in" : "in", near->numa, reason ? ": " : "",
                reason ? reason : "");
}

gpucoll_status gpucoll_shm_offer(struct gpucoll_device *device, size_t bytes, struct gpucoll_segment *outbox,
                                 struct gpucoll_tl_card *card)
{
    const struct gpucoll_accel *accel = device->accel;
    struct nearness near = {.device = device, .numa = gpucoll_near_numa(device)};
    gpucoll_status status =
        gpucoll_segment_create_placed(outbox, bytes, near.numa < 0 ? NULL : place_near, &near, accel->log);
    if (status != GPUCOLL_OK) {
        return status;
    }
    status = accel->ops->host_register(device, outbox->user, outbox->name.bytes);
    if (status != GPUCOLL_OK) {
        gpucoll_segment_close(outbox);
        return status;
    }
    card->outbox = outbox->name;
    return GPUCOLL_OK;
}

void gpucoll_shm_withdraw(struct gpucoll_device *device, struct gpucoll_segment *outbox)
{
    if (outbox->user != NULL) {
        device->accel->ops->host_unregister(device, outbox->user);
        gpucoll_segment_close(outbox);
    }
}

gpucoll_status gpucoll_shm_connect(struct gpucoll_device *device, const struct gpucoll_tl_card *peer,
                                   struct gpucoll_endpoint *endpoint)
{
    const struct gpucoll_accel *accel = device->accel;
    endpoint->device = device;
    gpucoll_status status = gpucoll_segment_open(&endpoint->outbox, &peer->outbox, accel->log);
    if (status != GPUCOLL_OK) {
        return status;
    }
    /* Without a map of its own it belongs to this process, and its owner has registered it for all devices. */
    if (endpoint->outbox.map != NULL) {
        status = accel->ops->host_register(device, endpoint->outbox.user, endpoint->outbox.name.bytes);
    }
    if (status != GPUCOLL_OK) {
        gpucoll_segment_close(&endpoint->outbox);
    }
    return status;
}

void gpucoll_shm_disconnect(struct gpucoll_endpoint *endpoint)
{
    if (endpoint->outbox.map != NULL) {
        endpoint->device->accel->ops->host_unregister(endpoint->device, endpoint->outbox.user);
    }
    gpucoll_segment_close(&endpoint->outbox);
}

const struct gpucoll_tl_ops gpucoll_tl_shm = {
    .name = "shm",
    .help = "chunks through host memory, by the copy engines: GPUs of one host without peer access",
    .does = GPUCOLL_TL_PIPES,
    .query = gpucoll_shm_query,
    .offer = gpucoll_shm_offer,
    .withdraw = gpucoll_shm_withdraw,
    .connect = gpucoll_shm_connect,
    .disconnect = gpucoll_shm_disconnect,
    .pipe = &gpucoll_shm_pipe,
};
