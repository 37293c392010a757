/*
 * A peer process of this host: its board as mapped here, and one endpoint for each pair of a GPU bound here and a GPU it
 * has bound. Made at the first team that contains the process, shared by all later ones; freed with the context, or when the process has ended
 * and is in no team any more.
 */
#ifndef GPUCOLL_PEER_H
#define GPUCOLL_PEER_H

#include "core/board.h"
#include "core/gpu.h"

struct gpucoll_peer {
    struct gpucoll_process_id process;
    struct gpucoll_segment board;
    struct gpucoll_connection *connections; /* list */
    uint32_t teams;                         /* of this process that it is in */
    struct gpucoll_peer *next;
};

/* An allocation of the peer's application, as mapped here. */
struct gpucoll_mapping {
    uint64_t key; /* of the peer's export; 0: none */
    void *base;
    struct gpucoll_memory_handle handle;
};

/* From one GPU bound here to one card of the peer. */
struct gpucoll_connection {
    const struct gpucoll_gpu *gpu;
    uint32_t card;
    struct gpucoll_tl_cost cost;
    struct gpucoll_endpoint endpoint; /* to store into the card's scratch; tl is NULL if nothing can */
    bool outbox_tried;
    struct gpucoll_endpoint outbox; /* to read the card's outbox; tl is NULL if nothing can */
    struct gpucoll_mapping mappings[GPUCOLL_BOARD_EXPORTS]; /* by index of the export */
    struct gpucoll_connection *next;
};

/* Maps the board that `name` describes. Shown by topic "segment-open" on failure. */
gpucoll_status gpucoll_peer_open(const struct gpucoll_segment_name *name, const struct gpucoll_log *log,
                                 struct gpucoll_peer **peer) GPUCOLL_CHECKED;
void gpucoll_peer_close(struct gpucoll_peer *peer); /* harmless on NULL */

/* The connection from `gpu` to the peer's card, made now if it is new. Caller serialises.
 * GPUCOLL_ERR_UNSUPPORTED if no allowed transport stores into its scratch. What stood against it is shown once for the pair: by topic
 * "peer-unreachable" if there is no other way to try. */
gpucoll_status gpucoll_peer_connect(struct gpucoll_peer *peer, const struct gpucoll_gpu *gpu, uint32_t card,
                                    struct gpucoll_connection **connection) GPUCOLL_CHECKED;
/* The same for the card's outbox, which its owner has offered. */
gpucoll_status gpucoll_peer_connect_outbox(struct gpucoll_peer *peer, const struct gpucoll_gpu *gpu,
                                           uint32_t card,
                                           struct gpucoll_connection **connection) GPUCOLL_CHECKED;

/* Where the peer's export of that key is mapped; mapped now if it is new, and what the peer has dropped is unmapped. NULL if it
 * cannot be. Caller serialises. */
void *gpucoll_peer_map(struct gpucoll_peer *peer, struct gpucoll_connection *connection, uint64_t key);

#endif
