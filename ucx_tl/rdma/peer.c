/*
 * Peers and their endpoints.
 */
#include "ucx_tl/rdma/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/clock.h"

void gpucoll_rdma_describe(const struct gpucoll_net_address *address, char *text, size_t bytes)
{
    struct gpucoll_rdma_card card;
    memcpy(&card, address->data, sizeof(card));
    snprintf(text, bytes, "process %u on host %.*s", card.pid, (int)sizeof(card.host) - 1, card.host);
}

static bool same(const struct gpucoll_net_address *a, const struct gpucoll_net_address *b)
{
    return a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}

/* FNV-1a: addresses differ in few of their bytes. */
static struct gpucoll_net_peer **place_of(struct gpucoll_net *net, const struct gpucoll_net_address *address)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint32_t i = 0; i < address->bytes; i++) {
        hash = (hash ^ address->data[i]) * 0x100000001b3u;
    }
    return &net->places[(hash ^ hash >> 32) % GPUCOLL_RDMA_PLACES];
}

static struct gpucoll_net_peer *make_peer(struct gpucoll_net *net, const struct gpucoll_net_address *address,
                                          struct gpucoll_net_peer **place)
{
    struct gpucoll_net_peer *peer = calloc(1, sizeof *peer);
    if (peer == NULL) {
        return NULL;
    }
    peer->net = net;
    peer->address.bytes = address->bytes;
    memcpy(peer->address.data, address->data, address->bytes);
    peer->next = net->peers;
    peer->link = &net->peers;
    peer->other = *place;
    peer->other_link = place;
    if (peer->next != NULL) {
        peer->next->link = &peer->next;
    }
    if (peer->other != NULL) {
        peer->other->other_link = &peer->other;
    }
    net->peers = peer;
    *place = peer;
    return peer;
}

gpucoll_status gpucoll_rdma_connect(struct gpucoll_net *net, const struct gpucoll_net_address *address,
                                    struct gpucoll_net_peer **out)
{
    if (address->bytes <= sizeof(struct gpucoll_rdma_card) || address->bytes > GPUCOLL_NET_ADDRESS_BYTES) {
        gpucoll_help(net->log, "net-address", address->bytes);
        return GPUCOLL_ERR_INVALID;
    }
    struct gpucoll_net_peer **place = place_of(net, address);
    pthread_mutex_lock(&net->lock);
    struct gpucoll_net_peer *peer = *place;
    while (peer != NULL && !same(&peer->address, address)) {
        peer = peer->other;
    }
    if (peer == NULL) {
        peer = make_peer(net, address, place);
    }
    if (peer != NULL) {
        peer->uses++;
        /* What failed before is of no account to who connects now. */
        atomic_store_explicit(&peer->lost, false, memory_order_relaxed);
    }
    pthread_mutex_unlock(&net->lock);
    *out = peer;
    return peer != NULL ? GPUCOLL_OK : GPUCOLL_ERR_NO_MEMORY;
}

static void forget(struct gpucoll_net_peer *peer)
{
    *peer->link = peer->next;
    *peer->other_link = peer->other;
    if (peer->next != NULL) {
        peer->next->link = peer->link;
    }
    if (peer->other != NULL) {
        peer->other->other_link = peer->other_link;
    }
    free(peer);
}

void gpucoll_rdma_disconnect(struct gpucoll_net *net, struct gpucoll_net_peer *peer)
{
    pthread_mutex_lock(&net->lock);
    peer->uses--;
    if (peer->uses == 0) {
        gpucoll_rdma_drop_question(peer);
        if (peer->endpoint == NULL) {
            forget(peer);
        }
    }
    pthread_mutex_unlock(&net->lock);
}

/* UCX calls it when the connection has failed: the process has gone, the link is down, or the peer has closed it. */
static void on_failure(void *arg, ucp_ep_h endpoint, ucs_status_t status)
{
    struct gpucoll_net_peer *peer = arg;
    if (peer->endpoint == endpoint) {
        peer->failing = true;
        atomic_store_explicit(&peer->lost, true, memory_order_relaxed);
        peer->why = status;
        peer->net->failing = true;
    }
}

bool gpucoll_rdma_lost(struct gpucoll_net *net, const struct gpucoll_net_peer *peer)
{
    (void)net;
    return atomic_load_explicit(&peer->lost, memory_order_relaxed);
}

ucs_status_t gpucoll_rdma_endpoint(struct gpucoll_net_peer *peer, ucp_ep_h *endpoint)
{
    if (peer->failing) {
        gpucoll_rdma_close_endpoint(peer);
    }
    if (peer->endpoint == NULL) {
        ucp_ep_params_t params = {
            .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                          UCP_EP_PARAM_FIELD_ERR_HANDLER,
            .address = (const ucp_address_t *)(peer->address.data + sizeof(struct gpucoll_rdma_card)),
            .err_mode = UCP_ERR_HANDLING_MODE_PEER,
            .err_handler = {.cb = on_failure, .arg = peer},
        };
        ucs_status_t status = peer->net->ucx->ucp_ep_create(peer->net->worker, &params, &peer->endpoint);
        if (status != UCS_OK) {
            peer->endpoint = NULL;
            return status;
        }
    }
    *endpoint = peer->endpoint;
    return UCS_OK;
}

void gpucoll_rdma_close_endpoint(struct gpucoll_net_peer *peer)
{
    const struct gpucoll_ucx *ucx = peer->net->ucx;
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
        .flags = UCP_EP_CLOSE_FLAG_FORCE,
    };
    ucp_ep_h endpoint = peer->endpoint;
    gpucoll_rdma_end_peer_flush(peer);
    peer->endpoint = NULL;
    peer->failing = false;
    if (endpoint != NULL) {
        ucs_status_ptr_t request = ucx->ucp_ep_close_nbx(endpoint, &param);
        if (UCS_PTR_IS_PTR(request)) {
            ucx->ucp_request_free(request); /* UCX goes on with it by itself */
        }
    }
}

/* A question ages by no more than this from one turn of progress to the next: some scheduler turns on a host with more processes than
 * cores. A longer pause is one in which nobody looked. */
static const uint64_t longest_turn_ns = 100000000u;

bool gpucoll_rdma_progress(struct gpucoll_net *net)
{
    const struct gpucoll_entry entry = gpucoll_rdma_enter(net);
    bool moved = net->ucx->ucp_worker_progress(net->worker) != 0;
    gpucoll_rdma_leave(net, entry);
    if (net->questions > 0) {
        (void)gpucoll_patience_look(&net->turned, gpucoll_now_ns(), longest_turn_ns);
    }
    if (net->noted) {
        gpucoll_rdma_take_notes(net);
    }
    if (net->failing) {
        net->failing = false;
        for (struct gpucoll_net_peer *peer = net->peers, *next; peer != NULL; peer = next) {
            next = peer->next;
            if (peer->failing) {
                gpucoll_rdma_close_endpoint(peer);
                moved = true;
            }
            if (peer->uses == 0 && peer->endpoint == NULL && peer->question == NULL) {
                forget(peer);
            }
        }
    }
    return moved;
}
