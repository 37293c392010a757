#include "core/peer.h"

#include <stdlib.h>

gpucoll_status gpucoll_peer_open(const struct gpucoll_segment_name *name, const struct gpucoll_log *log,
                                 struct gpucoll_peer **out)
{
    struct gpucoll_peer *peer = calloc(1, sizeof *peer);
    if (peer == NULL) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    gpucoll_status status = gpucoll_segment_open(&peer->board, name, log);
    if (status != GPUCOLL_OK) {
        free(peer);
        return status;
    }
    peer->process = peer->board.owner;
    *out = peer;
    return GPUCOLL_OK;
}

static void unmap(const struct gpucoll_connection *connection, struct gpucoll_mapping *mapping)
{
    struct gpucoll_device *device = connection->gpu->device;
    if (mapping->key != 0) {
        device->accel->ops->release(device, &mapping->handle, mapping->base);
        mapping->key = 0;
    }
}

void gpucoll_peer_close(struct gpucoll_peer *peer)
{
    if (peer == NULL) {
        return;
    }
    while (peer->connections != NULL) {
        struct gpucoll_connection *connection = peer->connections;
        peer->connections = connection->next;
        for (int i = 0; i < GPUCOLL_BOARD_EXPORTS; i++) {
            unmap(connection, &connection->mappings[i]);
        }
        if (connection->endpoint.tl != NULL) {
            connection->endpoint.tl->disconnect(&connection->endpoint);
        }
        if (connection->outbox.tl != NULL) {
            connection->outbox.tl->disconnect(&connection->outbox);
        }
        free(connection);
    }
    gpucoll_segment_close(&peer->board);
    free(peer);
}

/* Where there is another way to try, this one's failure is no news: the slower path is said when it is taken. */
static void show_unreachable(const struct gpucoll_accel *accel, const struct gpucoll_peer *peer,
                             enum gpucoll_tl_way way, const char *reason)
{
    const unsigned others = gpucoll_tl_allowed_ways(accel->config->transports) & ~(unsigned)way;
    if (way == GPUCOLL_TL_STORES && others != 0) {
        gpucoll_log(accel->log, GPUCOLL_LOG_SETUP, "process %u cannot be stored to: %s", peer->process.pid,
                    reason);
    } else {
        gpucoll_help(accel->log, "peer-unreachable", peer->process.pid, reason);
    }
}

/* Leaves endpoint->tl NULL if the card cannot be reached this way: remembered, so not tried again. */
static void connect_endpoint(struct gpucoll_connection *connection, const struct gpucoll_peer *peer,
                             enum gpucoll_tl_way way, struct gpucoll_tl_cost *cost,
                             struct gpucoll_endpoint *endpoint)
{
    struct gpucoll_device *device = connection->gpu->device;
    const struct gpucoll_tl_card *card = &gpucoll_board_header(&peer->board)->cards[connection->card];
    const struct gpucoll_accel *accel = device->accel;
    const struct gpucoll_tl_ops *tl = gpucoll_tl_choose(accel->config->transports, way, device, card, cost);
    if (tl == NULL) {
        show_unreachable(accel, peer, way, cost->reason);
        return;
    }
    gpucoll_status status = tl->connect(device, card, endpoint);
    if (status != GPUCOLL_OK) {
        show_unreachable(accel, peer, way, gpucoll_status_name(status));
        return;
    }
    endpoint->tl = tl;
    gpucoll_log(accel->log, GPUCOLL_LOG_SETUP, "device %d reaches process %u by %s%s", device->ordinal,
                peer->process.pid, tl->name, cost->same_device ? " (same GPU)" : "");
}

static struct gpucoll_connection *find_connection(const struct gpucoll_peer *peer,
                                                  const struct gpucoll_gpu *gpu, uint32_t card)
{
    struct gpucoll_connection *connection = peer->connections;
    while (connection != NULL && (connection->gpu != gpu || connection->card != card)) {
        connection = connection->next;
    }
    return connection;
}

gpucoll_status gpucoll_peer_connect(struct gpucoll_peer *peer, const struct gpucoll_gpu *gpu, uint32_t card,
                                    struct gpucoll_connection **out)
{
    struct gpucoll_connection *connection = find_connection(peer, gpu, card);
    if (connection == NULL) {
        connection = calloc(1, sizeof *connection);
        if (connection == NULL) {
            return GPUCOLL_ERR_NO_MEMORY;
        }
        connection->gpu = gpu;
        connection->card = card;
        connect_endpoint(connection, peer, GPUCOLL_TL_STORES, &connection->cost, &connection->endpoint);
        connection->next = peer->connections;
        peer->connections = connection;
    }
    *out = connection;
    return connection->endpoint.tl != NULL ? GPUCOLL_OK : GPUCOLL_ERR_UNSUPPORTED;
}

gpucoll_status gpucoll_peer_connect_outbox(struct gpucoll_peer *peer, const struct gpucoll_gpu *gpu,
                                           uint32_t card, struct gpucoll_connection **out)
{
    struct gpucoll_connection *connection = find_connection(peer, gpu, card);
    if (connection == NULL) {
        return GPUCOLL_ERR_UNSUPPORTED;
    }
    if (!connection->outbox_tried) {
        struct gpucoll_tl_cost cost;
        connection->outbox_tried = true;
        connect_endpoint(connection, peer, GPUCOLL_TL_PIPES, &cost, &connection->outbox);
    }
    *out = connection;
    return connection->outbox.tl != NULL ? GPUCOLL_OK : GPUCOLL_ERR_UNSUPPORTED;
}

/* Unmaps what the peer has taken back. */
static void sweep(const struct gpucoll_peer *peer, struct gpucoll_connection *connection)
{
    for (int i = 0; i < GPUCOLL_BOARD_EXPORTS; i++) {
        struct gpucoll_mapping *mapping = &connection->mappings[i];
        struct gpucoll_memory_handle handle;
        if (mapping->key != 0 && !gpucoll_board_read_export(&peer->board, mapping->key, &handle)) {
            unmap(connection, mapping);
        }
    }
}

void *gpucoll_peer_map(struct gpucoll_peer *peer, struct gpucoll_connection *connection, uint64_t key)
{
    struct gpucoll_mapping *mapping = &connection->mappings[gpucoll_export_index(key)];
    if (mapping->key == key) {
        return mapping->base;
    }
    sweep(peer, connection);
    struct gpucoll_device *device = connection->gpu->device;
    if (mapping->key != 0 || !gpucoll_board_read_export(&peer->board, key, &mapping->handle)) {
        return NULL;
    }
    mapping->handle.owner = peer->process; /* as this process sees it */
    if (device->accel->ops->import(device, &mapping->handle, &mapping->base) != GPUCOLL_OK) {
        return NULL;
    }
    mapping->key = key;
    /* Had the peer taken it back meanwhile, as when it has given the call up, what a descriptor's number meant may be something else. */
    struct gpucoll_memory_handle now;
    if (!gpucoll_board_read_export(&peer->board, key, &now)) {
        unmap(connection, mapping);
        return NULL;
    }
    return mapping->base;
}
