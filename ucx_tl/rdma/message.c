/*
 * Messages: tag messages of UCX.
 */
#include "ucx_tl/rdma/net.h"

#include <stdlib.h>
#include <string.h>
#include "core/base/clock.h"

/* All bits of the tag count. */
static const ucp_tag_t whole_tag = UINT64_MAX;

/* How long a process may take to drop a message, and UCX to let go of one whose connection is closed. */
static const double answer_seconds = 0.5;
static const double stuck_seconds = 5;

/* With the lock held. NULL: out of memory. */
static struct gpucoll_rdma_transfer *take(struct gpucoll_net *net)
{
    struct gpucoll_rdma_transfer *transfer = net->unused;
    if (transfer != NULL) {
        net->unused = transfer->next;
    } else if ((transfer = malloc(sizeof *transfer)) == NULL) {
        return NULL;
    }
    memset(transfer, 0, sizeof *transfer);
    transfer->net = net;
    transfer->next = net->used;
    transfer->link = &net->used;
    if (transfer->next != NULL) {
        transfer->next->link = &transfer->next;
    }
    net->used = transfer;
    atomic_store_explicit(&transfer->state, GPUCOLL_IN_PROGRESS, memory_order_relaxed);
    return transfer;
}

static gpucoll_status state_of(const struct gpucoll_rdma_transfer *transfer)
{
    return (gpucoll_status)atomic_load_explicit(&transfer->state, memory_order_acquire);
}

/* With the lock held. One that UCX has not let go of must not be used again while UCX lives: neither its message nor the note that
 * takes it back, which may still wait for room on the connection when the message has met its receive. */
static void put_back(struct gpucoll_rdma_transfer *transfer)
{
    struct gpucoll_net *net = transfer->net;
    struct gpucoll_rdma_transfer **list =
        state_of(transfer) == GPUCOLL_IN_PROGRESS || transfer->noting ? &net->stuck : &net->unused;
    *transfer->link = transfer->next;
    if (transfer->next != NULL) {
        transfer->next->link = transfer->link;
    }
    transfer->next = *list;
    *list = transfer;
    if (list == &net->unused) {
        gpucoll_rdma_unuse(net, transfer->memory);
        gpucoll_rdma_unmap(net, transfer->mapped);
        transfer->memory = NULL;
        transfer->mapped = NULL;
    }
}

/* With the lock held. */
static void end(struct gpucoll_rdma_transfer *transfer, ucs_status_t why)
{
    gpucoll_status status = GPUCOLL_OK;
    transfer->why = why;
    if (why != UCS_OK) {
        status = why == UCS_ERR_NO_MEMORY ? GPUCOLL_ERR_NO_MEMORY : GPUCOLL_ERR_SYSTEM;
    }
    const bool fits = transfer->arrived == transfer->bytes || transfer->up_to;
    if (why == UCS_ERR_MESSAGE_TRUNCATED || (why == UCS_OK && !fits)) {
        transfer->why = UCS_ERR_MESSAGE_TRUNCATED;
        status = GPUCOLL_ERR_MISMATCH;
    }
    if (status == GPUCOLL_OK && transfer->peer != NULL) {
        atomic_store_explicit(&transfer->peer->lost, false, memory_order_relaxed);
        transfer->peer->undrained = true;
        transfer->net->undrained = true;
    }
    atomic_store_explicit(&transfer->state, status, memory_order_release);
}

static void on_sent(void *request, ucs_status_t status, void *arg)
{
    struct gpucoll_rdma_transfer *transfer = arg;
    struct gpucoll_net *net = transfer->net;
    transfer->arrived = transfer->bytes;
    end(transfer, status);
    net->ucx->ucp_request_free(request);
}

static void on_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *arg)
{
    struct gpucoll_rdma_transfer *transfer = arg;
    struct gpucoll_net *net = transfer->net;
    transfer->arrived = info->length;
    end(transfer, status);
    net->ucx->ucp_request_free(request);
}

/* What a failed message has to say. A peer's failure ends all messages to it, and is said with the first. */
static void show(struct gpucoll_net *net, const struct gpucoll_rdma_transfer *transfer)
{
    const char *why = net->ucx->ucs_status_string(transfer->why);
    const struct gpucoll_net_peer *other = transfer->peer != NULL ? transfer->peer : transfer->from;
    char name[2 * GPUCOLL_RDMA_NAME_BYTES] = "a process that is not known";
    if (other != NULL) {
        gpucoll_rdma_describe(&other->address, name, sizeof name);
    }
    if (transfer->why == UCS_ERR_MESSAGE_TRUNCATED) {
        gpucoll_help(net->log, "net-length", name, (unsigned long long)transfer->bytes,
                     (unsigned long long)transfer->arrived);
        return;
    }
    if (transfer->peer == NULL) {
        gpucoll_help(net->log, "net-receive", name, (unsigned long long)transfer->bytes, why);
        return;
    }
    pthread_mutex_lock(&net->lock);
    bool said = transfer->peer->said;
    transfer->peer->said = true;
    pthread_mutex_unlock(&net->lock);
    if (!said) {
        gpucoll_help(net->log, "net-send", name, (unsigned long long)transfer->bytes, why);
    }
}

/* The message is done: says what there is to say, and gives its handle back. Who has given it up knows why. */
static gpucoll_status finish(struct gpucoll_net *net, struct gpucoll_net_message *message)
{
    struct gpucoll_rdma_transfer *transfer = message->handle;
    message->status = state_of(transfer);
    message->handle = NULL;
    if (message->status != GPUCOLL_OK && transfer->given_up_ns == 0) {
        show(net, transfer);
    }
    pthread_mutex_lock(&net->lock);
    if (message->status == GPUCOLL_OK && transfer->peer != NULL) {
        transfer->peer->said = false; /* it is there again */
    }
    put_back(transfer);
    pthread_mutex_unlock(&net->lock);
    return message->status;
}

/* What UCX has made of a message: a request, or its end. */
static void started(struct gpucoll_rdma_transfer *transfer, ucs_status_ptr_t request)
{
    if (UCS_PTR_IS_PTR(request)) {
        transfer->request = request; /* its callback ends the transfer, perhaps has already */
    } else {
        end(transfer, UCS_PTR_STATUS(request));
    }
}

static ucp_request_param_t parameters(struct gpucoll_rdma_transfer *transfer)
{
    const struct gpucoll_net_memory *memory = transfer->memory;
    ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .user_data = transfer,
        .memory_type = memory != NULL ? memory->type : UCS_MEMORY_TYPE_HOST,
    };
    param.memh = memory != NULL ? memory->handle : transfer->mapped;
    if (param.memh != NULL) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    }
    return param;
}

/* With the lock held. `memory` has `data`. */
static void give_memory(struct gpucoll_rdma_transfer *transfer, struct gpucoll_net_memory *memory,
                        const void *data, size_t bytes)
{
    transfer->memory = memory;
    gpucoll_rdma_use(transfer->net, memory);
    transfer->mapped = memory == NULL ? gpucoll_rdma_map(transfer->net, data, bytes) : NULL;
}

static void enter(struct gpucoll_net_message *message, struct gpucoll_rdma_transfer *transfer)
{
    message->handle = transfer;
    message->status = transfer != NULL ? GPUCOLL_IN_PROGRESS : GPUCOLL_ERR_NO_MEMORY;
}

/* With the lock held. */
static void start_send(struct gpucoll_rdma_transfer *transfer, const void *data)
{
    const struct gpucoll_ucx *ucx = transfer->net->ucx;
    ucp_request_param_t param = parameters(transfer);
    ucp_ep_h endpoint;
    param.cb.send = on_sent;
    transfer->arrived = transfer->bytes;
    ucs_status_t status = gpucoll_rdma_endpoint(transfer->peer, &endpoint);
    if (status != UCS_OK) {
        end(transfer, status);
        return;
    }
    const struct gpucoll_entry entry = gpucoll_rdma_enter(transfer->net);
    started(transfer, ucx->ucp_tag_send_nbx(endpoint, data, transfer->bytes, transfer->tag, &param));
    gpucoll_rdma_leave(transfer->net, entry);
}

void gpucoll_rdma_send(struct gpucoll_net *net, struct gpucoll_net_peer *peer, uint64_t tag, const void *data,
                       size_t bytes, struct gpucoll_net_memory *memory, struct gpucoll_net_message *message)
{
    pthread_mutex_lock(&net->lock);
    struct gpucoll_rdma_transfer *transfer = take(net);
    enter(message, transfer);
    if (transfer != NULL) {
        give_memory(transfer, memory, data, bytes);
        transfer->peer = peer;
        transfer->tag = tag;
        transfer->bytes = bytes;
        start_send(transfer, data);
    }
    pthread_mutex_unlock(&net->lock);
}

static void receive(struct gpucoll_net *net, struct gpucoll_net_peer *from, uint64_t tag, void *data,
                    size_t bytes, bool up_to, struct gpucoll_net_memory *memory,
                    struct gpucoll_net_message *message)
{
    pthread_mutex_lock(&net->lock);
    struct gpucoll_rdma_transfer *transfer = take(net);
    enter(message, transfer);
    if (transfer != NULL) {
        give_memory(transfer, memory, data, bytes);
        ucp_request_param_t param = parameters(transfer);
        transfer->from = from;
        transfer->tag = tag;
        transfer->bytes = bytes;
        transfer->up_to = up_to;
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL; /* the callback alone tells the length */
        param.cb.recv = on_received;
        const struct gpucoll_entry entry = gpucoll_rdma_enter(net);
        started(transfer, net->ucx->ucp_tag_recv_nbx(net->worker, data, bytes, tag, whole_tag, &param));
        gpucoll_rdma_leave(net, entry);
    }
    pthread_mutex_unlock(&net->lock);
}

void gpucoll_rdma_receive(struct gpucoll_net *net, struct gpucoll_net_peer *from, uint64_t tag, void *data,
                          size_t bytes, struct gpucoll_net_memory *memory,
                          struct gpucoll_net_message *message)
{
    receive(net, from, tag, data, bytes, false, memory, message);
}

void gpucoll_rdma_receive_up_to(struct gpucoll_net *net, struct gpucoll_net_peer *from, uint64_t tag,
                                void *data, size_t bytes, struct gpucoll_net_message *message)
{
    receive(net, from, tag, data, bytes, true, NULL, message);
}

gpucoll_status gpucoll_rdma_test(struct gpucoll_net *net, struct gpucoll_net_message *message)
{
    if (message->handle == NULL || state_of(message->handle) == GPUCOLL_IN_PROGRESS) {
        return message->status;
    }
    return finish(net, message);
}

/* Turns progress until the transfer has ended, but not for longer than so many seconds after `since_ns`. */
static bool wait_for(struct gpucoll_rdma_transfer *transfer, uint64_t since_ns, double seconds)
{
    while (state_of(transfer) == GPUCOLL_IN_PROGRESS) {
        gpucoll_rdma_progress(transfer->net);
        if ((double)(gpucoll_now_ns() - since_ns) > seconds * 1e9) {
            return state_of(transfer) != GPUCOLL_IN_PROGRESS;
        }
    }
    return true;
}

/* With the lock held. UCX takes back only a receive that has met no message yet. One whose message is coming in ends with it. A send is
 * dropped by its receiver. */
static void begin_stop(struct gpucoll_rdma_transfer *transfer)
{
    struct gpucoll_net *net = transfer->net;
    if (state_of(transfer) != GPUCOLL_IN_PROGRESS || transfer->given_up_ns != 0) {
        return;
    }
    transfer->given_up_ns = gpucoll_now_ns();
    if (transfer->peer == NULL) {
        net->ucx->ucp_request_cancel(net->worker, transfer->request);
    } else {
        gpucoll_rdma_withdraw(transfer);
    }
}

/* Also one that the peer has made and this process has never sent by: UCX has an endpoint of its own for it, which it gives to who makes one. Nothing
 * if that was done for a message that was given up with this one. */
static void break_connection(struct gpucoll_net_peer *peer, uint64_t since_ns)
{
    ucp_ep_h endpoint;
    if (since_ns <= peer->broken_ns) {
        return;
    }
    if (peer->endpoint != NULL || gpucoll_rdma_endpoint(peer, &endpoint) == UCS_OK) {
        gpucoll_rdma_close_endpoint(peer);
    }
    peer->broken_ns = gpucoll_now_ns();
}

/* With the lock held. If the receiver of a send does not answer, the connection is broken, and made anew by the next message. So is that of
 * a sender that has fallen silent in the middle, or all where it is not known: it must not write here later. All waits are
 * counted from when the message was given up: so those of many that were given up together are no longer than those of one. */
static void stop(struct gpucoll_rdma_transfer *transfer)
{
    struct gpucoll_net *net = transfer->net;
    begin_stop(transfer);
    const uint64_t since_ns = transfer->given_up_ns;
    if (transfer->peer != NULL && !wait_for(transfer, since_ns, answer_seconds)) {
        break_connection(transfer->peer, since_ns);
    }
    if (!wait_for(transfer, since_ns, answer_seconds + stuck_seconds) && transfer->peer == NULL) {
        for (struct gpucoll_net_peer *peer = net->peers; peer != NULL; peer = peer->next) {
            if (transfer->from == NULL || transfer->from == peer) {
                break_connection(peer, since_ns);
            }
        }
        wait_for(transfer, since_ns, 2 * answer_seconds + stuck_seconds);
    }
}

void gpucoll_rdma_begin_cancel(struct gpucoll_net *net, struct gpucoll_net_message *message)
{
    if (message->handle != NULL) {
        pthread_mutex_lock(&net->lock);
        begin_stop(message->handle);
        pthread_mutex_unlock(&net->lock);
    }
}

void gpucoll_rdma_cancel(struct gpucoll_net *net, struct gpucoll_net_message *message)
{
    struct gpucoll_rdma_transfer *transfer = message->handle;
    if (transfer == NULL) {
        return;
    }
    pthread_mutex_lock(&net->lock);
    stop(transfer);
    message->status = state_of(transfer);
    if (message->status == GPUCOLL_IN_PROGRESS) {
        message->status = GPUCOLL_ERR_TIMEOUT;
    }
    message->handle = NULL;
    put_back(transfer);
    pthread_mutex_unlock(&net->lock);
}

/* With the lock held. A note that wants nothing dropped. */
static void ask(struct gpucoll_net_peer *peer)
{
    static const uint64_t nothing = GPUCOLL_RDMA_NO_TAG;
    struct gpucoll_rdma_transfer *transfer = take(peer->net);
    if (transfer != NULL) {
        peer->question = transfer;
        if (peer->net->questions++ == 0) {
            peer->net->turned.looked_ns = gpucoll_now_ns();
        }
        peer->asked_ns = peer->net->turned.waited_ns;
        peer->silent = false;
        transfer->peer = peer;
        transfer->tag = GPUCOLL_RDMA_NOTE_TAG;
        transfer->bytes = sizeof nothing;
        start_send(transfer, &nothing);
    }
}

/* With the lock held. */
static void end_question(struct gpucoll_net_peer *peer)
{
    put_back(peer->question);
    peer->question = NULL;
    peer->net->questions--;
}

/* Has the question been on its way for too long? A process that is stopped, or a network that lets nothing through, does not fail. Only the time
 * counts in which progress was turned here: else a process that has computed for long would take a peer for silent whose answer it
 * has not looked for. */
static bool is_silent(const struct gpucoll_net_peer *peer)
{
    const uint64_t timeout_ns = (uint64_t)peer->net->timeout * 1000000000u;
    return timeout_ns > 0 && peer->net->turned.waited_ns - peer->asked_ns > timeout_ns;
}

bool gpucoll_rdma_gone(struct gpucoll_net *net, struct gpucoll_net_peer *peer)
{
    bool gone = false;
    bool newly_silent = false;
    char name[2 * GPUCOLL_RDMA_NAME_BYTES] = "";
    pthread_mutex_lock(&net->lock);
    const bool lost = atomic_load_explicit(&peer->lost, memory_order_relaxed);
    if (peer->question == NULL) {
        if (lost) {
            ask(peer);
        }
    } else if (state_of(peer->question) != GPUCOLL_IN_PROGRESS) {
        gone = lost && state_of(peer->question) != GPUCOLL_OK;
        end_question(peer);
    } else if (lost && is_silent(peer)) {
        gone = true;
        newly_silent = !peer->silent;
        peer->silent = true;
        gpucoll_rdma_describe(&peer->address, name, sizeof name);
    }
    pthread_mutex_unlock(&net->lock);
    if (newly_silent) {
        gpucoll_help(net->log, "net-unanswered", name, net->timeout);
    }
    return gone;
}

void gpucoll_rdma_drop_question(struct gpucoll_net_peer *peer)
{
    if (peer->question == NULL) {
        return;
    }
    if (state_of(peer->question) == GPUCOLL_IN_PROGRESS) {
        gpucoll_rdma_close_endpoint(peer);
        wait_for(peer->question, gpucoll_now_ns(), answer_seconds);
    }
    end_question(peer);
}

void gpucoll_rdma_cancel_all(struct gpucoll_net *net)
{
    for (struct gpucoll_rdma_transfer *transfer = net->used; transfer != NULL; transfer = transfer->next) {
        begin_stop(transfer);
    }
    while (net->used != NULL) {
        struct gpucoll_rdma_transfer *transfer = net->used;
        stop(transfer);
        put_back(transfer);
    }
}

static void free_list(struct gpucoll_rdma_transfer *list)
{
    while (list != NULL) {
        struct gpucoll_rdma_transfer *transfer = list;
        list = transfer->next;
        gpucoll_rdma_unmap(transfer->net, transfer->mapped);
        free(transfer);
    }
}

void gpucoll_rdma_free_transfers(struct gpucoll_net *net)
{
    free_list(net->unused);
    free_list(net->stuck);
}
