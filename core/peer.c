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
    peer->process = name->owner;
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
        free(connection);
    }
    gpucoll_segment_close(&peer->board);
    free(peer);
}

/* Leaves endpoint.tl NULL, with the reason shown, if the card cannot be reached: remembered, so not tried again. */
static void connect_endpoint(struct gpucoll_connection *connection, const struct gpucoll_peer *peer,
                             const struct gpucoll_tl_card *card)
{
    struct gpucoll_device *device = connection->gpu->device;
    const struct gpucoll_accel *accel = device->accel;
    const struct gpucoll_tl_ops *tl =
        gpucoll_tl_choose(accel->config->transports, device, card, &connection->cost);
    if (tl == NULL) {
        gpucoll_help(accel->log, "peer-unreachable", peer->process.pid, connection->cost.reason);
        return;
    }
    gpucoll_status status = tl->connect(device, card, &connection->endpoint);
    if (status != GPUCOLL_OK) {
        connection->endpoint.tl = NULL;
        gpucoll_help(accel->log, "peer-unreachable", peer->process.pid, gpucoll_status_name(status));
        return;
    }
    gpucoll_log(accel->log, GPUCOLL_LOG_SETUP, "device %d reaches process %u by %s%s", device->ordinal,
                peer->process.pid, tl->name, connection->cost.same_device ? " (same GPU)" : "");
}

gpucoll_status gpucoll_peer_connect(struct gpucoll_peer *peer, const struct gpucoll_gpu *gpu, uint32_t card,
                                    struct gpucoll_connection **out)
{
    struct gpucoll_connection *connection = peer->connections;
    while (connection != NULL && (connection->gpu != gpu || connection->card != card)) {
        connection = connection->next;
    }
    if (connection == NULL) {
        connection = calloc(1, sizeof *connection);
        if (connection == NULL) {
            return GPUCOLL_ERR_NO_MEMORY;
        }
        connection->gpu = gpu;
        connection->card = card;
        connect_endpoint(connection, peer, &gpucoll_board_header(&peer->board)->cards[card]);
        connection->next = peer->connections;
        peer->connections = connection;
    }
    *out = connection;
    return connection->endpoint.tl != NULL ? GPUCOLL_OK : GPUCOLL_ERR_UNSUPPORTED;
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
    struct gpucoll_mapping *mapping = &connection->mappings[key % 256 % GPUCOLL_BOARD_EXPORTS];
    if (mapping->key == key) {
        return mapping->base;
    }
    sweep(peer, connection);
    struct gpucoll_device *device = connection->gpu->device;
    if (mapping->key != 0 || !gpucoll_board_read_export(&peer->board, key, &mapping->handle) ||
        device->accel->ops->import(device, &mapping->handle, &mapping->base) != GPUCOLL_OK) {
        return NULL;
    }
    mapping->key = key;
    return mapping->base;
}
