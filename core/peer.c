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

void gpucoll_peer_close(struct gpucoll_peer *peer)
{
    if (peer == NULL) {
        return;
    }
    while (peer->connections != NULL) {
        struct gpucoll_connection *connection = peer->connections;
        peer->connections = connection->next;
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
                                    const struct gpucoll_connection **out)
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
