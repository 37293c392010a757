/*
 * The network that others know: as many *ties* between two processes as coll_gpucoll_net_ties says, each a network of its own with a
 * context, a worker and endpoints (ucx_tl/rdma/net.h). Over TCP it is cores that move the bytes, a core for what one thread sends and
 * receives; so every tie but the first has a thread that turns its progress while it has messages. Whoever turns the network's progress turns the
 * first one, and the others where their threads do not.
 *
 * Short messages go by the first tie, long ones by the others, or by both if there are two: who turns the first one also sums and copies. The tie
 * of a long message follows from its tag, so that both ends take the same, and messages with one tag stay in order.
 */
#include "ucx_tl/rdma/tie_thread.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_TIES = 8,
    TCP_TIES = 4,         /* where the configuration leaves it open */
    LONG_BYTES = 64 << 10 /* and more */
};

/* What is behind a struct gpucoll_net of others, and so on. */
struct ties {
    uint32_t count;
    struct gpucoll_log quiet; /* of all but the first: what they find has been said */
    struct gpucoll_net_address address;
    pthread_mutex_t lock; /* guards the peers */
    struct tied_peer *peers;
    struct gpucoll_tie tie[MOST_TIES];
};

struct tied_peer {
    struct tied_peer *next;  /* of all; ties->lock guards that */
    struct tied_peer **link; /* what points to this one */
    struct gpucoll_net_peer *peer[MOST_TIES];
    unsigned uses; /* connects without their disconnect */
};

struct tied_memory {
    struct gpucoll_net_memory *memory[MOST_TIES];
};

/* Ends an address: those of the ties stand before it. */
struct tied_card {
    uint32_t count;
    uint32_t bytes[MOST_TIES];
};

static const struct gpucoll_net_ops *const one = &gpucoll_net_tie;

static struct ties *ties_of(struct gpucoll_net *net)
{
    return (struct ties *)net;
}

struct gpucoll_net *gpucoll_rdma_first_tie(struct gpucoll_net *net)
{
    return ties_of(net)->tie[0].net;
}

static const struct tied_peer *tied(const struct gpucoll_net_peer *peer)
{
    return (const struct tied_peer *)peer;
}

/* NULL: it is not known. */
static struct gpucoll_net_peer *peer_at(const struct gpucoll_net_peer *peer, uint32_t tie)
{
    return peer != NULL ? tied(peer)->peer[tie] : NULL;
}

/* ---- peers that are connected ---- */

/* With the lock held: a new one. */
static struct tied_peer *keep_peer(struct ties *ties, struct gpucoll_net_peer *const *peer)
{
    struct tied_peer *kept = calloc(1, sizeof *kept);
    if (kept != NULL) {
        memcpy(kept->peer, peer, sizeof kept->peer);
        kept->next = ties->peers;
        kept->link = &ties->peers;
        if (kept->next != NULL) {
            kept->next->link = &kept->next;
        }
        ties->peers = kept;
        kept->peer[0]->tied = kept;
    }
    return kept;
}

static void free_peer(struct tied_peer *kept)
{
    *kept->link = kept->next;
    if (kept->next != NULL) {
        kept->next->link = kept->link;
    }
    free(kept);
}

/* ---- opening and closing ---- */

static void close_ties(struct gpucoll_net *net)
{
    struct ties *ties = ties_of(net);
    if (ties == NULL) {
        return;
    }
    for (uint32_t i = 0; i < ties->count; i++) {
        if (i > 0) {
            gpucoll_tie_end(&ties->tie[i]);
        }
        one->close(ties->tie[i].net);
    }
    while (ties->peers != NULL) {
        free_peer(ties->peers);
    }
    pthread_mutex_destroy(&ties->lock);
    free(ties);
}

static gpucoll_status join_addresses(struct ties *ties)
{
    struct tied_card card = {.count = ties->count};
    const size_t most = sizeof ties->address.data - sizeof card;
    size_t at = 0;
    for (uint32_t i = 0; i < ties->count; i++) {
        struct gpucoll_net_address address;
        one->address(ties->tie[i].net, &address);
        card.bytes[i] = address.bytes;
        if (address.bytes > most - at) {
            gpucoll_help(&ties->quiet, "net-address-long", at + address.bytes, most);
            return GPUCOLL_DECLINED;
        }
        memcpy(ties->address.data + at, address.data, address.bytes);
        at += address.bytes;
    }
    memcpy(ties->address.data + at, &card, sizeof card);
    ties->address.bytes = (uint32_t)(at + sizeof card);
    return GPUCOLL_OK;
}

/* If the configuration leaves it open: as many as there is room for in an address, if bytes are moved by cores. */
static uint32_t ties_wanted(const struct gpucoll_config *config, const struct gpucoll_net *first)
{
    if (config->net_ties > 0 || !first->tcp) {
        return config->net_ties > 0 ? (uint32_t)config->net_ties : 1;
    }
    struct gpucoll_net_address address;
    one->address(first, &address);
    const size_t room = (sizeof address.data - sizeof(struct tied_card)) / address.bytes;
    return room < TCP_TIES ? (uint32_t)room : TCP_TIES;
}

/* How many there have to be for a tie to have a thread; not many processes' threads at once, unless somebody wants them. */
static int cores_wanted(const struct gpucoll_config *config, bool crowded)
{
    const int by_default = crowded ? INT_MAX : TCP_TIES + 1;
    return config->net_ties > 0 ? 2 : by_default;
}

static gpucoll_status open_ties(const struct gpucoll_config *config, const struct gpucoll_log *log,
                                const struct gpucoll_net_place *place, struct gpucoll_net **net)
{
    struct ties *ties = calloc(1, sizeof *ties);
    if (ties == NULL) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    pthread_mutex_init(&ties->lock, NULL);
    ties->quiet = *log;
    ties->quiet.verbosity = -1;
    gpucoll_status status = one->open(config, log, place, &ties->tie[0].net);
    ties->count = status == GPUCOLL_OK;
    const uint32_t wanted = status == GPUCOLL_OK ? ties_wanted(config, ties->tie[0].net) : 0;
    while (ties->count < wanted && status == GPUCOLL_OK) {
        struct gpucoll_tie *tie = &ties->tie[ties->count];
        status = one->open(config, &ties->quiet, place, &tie->net);
        if (status == GPUCOLL_OK) {
            gpucoll_tie_start(tie, cores_wanted(config, place->crowded));
            ties->count++;
        }
    }
    status = status == GPUCOLL_OK ? join_addresses(ties) : status;
    if (status != GPUCOLL_OK) {
        close_ties((struct gpucoll_net *)ties);
        return status;
    }
    *net = (struct gpucoll_net *)ties;
    return GPUCOLL_OK;
}

/* ---- peers ---- */

static void get_address(const struct gpucoll_net *net, struct gpucoll_net_address *address)
{
    *address = ((const struct ties *)net)->address;
}

/* With the lock held. */
static void drop_peers(const struct ties *ties, struct gpucoll_net_peer *const *peer)
{
    for (uint32_t i = 0; i < ties->count && peer[i] != NULL; i++) {
        one->disconnect(ties->tie[i].net, peer[i]);
    }
}

/* The addresses of a process's ties; false, and shown: these are not as many as here, or not such a thing. */
static bool split(const struct ties *ties, const struct gpucoll_net_address *all,
                  struct gpucoll_net_address *address)
{
    struct tied_card card = {.count = 0};
    const bool whole = all->bytes >= sizeof card && all->bytes <= sizeof all->data;
    const size_t end = whole ? all->bytes - sizeof card : 0;
    size_t at = 0;
    if (whole) {
        memcpy(&card, all->data + end, sizeof card);
    }
    for (uint32_t i = 0; i < ties->count && card.count == ties->count && card.bytes[i] <= end - at; i++) {
        address[i].bytes = card.bytes[i];
        memcpy(address[i].data, all->data + at, card.bytes[i]);
        at += card.bytes[i];
    }
    if (whole && card.count > 0 && card.count <= MOST_TIES && card.count != ties->count) {
        gpucoll_help(&ties->quiet, "net-ties", card.count, ties->count);
        return false;
    }
    if (!whole || card.count != ties->count || at != end) {
        gpucoll_help(&ties->quiet, "net-address", all->bytes);
        return false;
    }
    return true;
}

/* With the lock held. Of the peers of all ties that of the first has the whole. */
static gpucoll_status find_peer(struct ties *ties, const struct gpucoll_net_address *address,
                                struct tied_peer **out)
{
    struct gpucoll_net_peer *peer[MOST_TIES] = {NULL};
    gpucoll_status status = GPUCOLL_OK;
    for (uint32_t i = 0; i < ties->count && status == GPUCOLL_OK; i++) {
        status = one->connect(ties->tie[i].net, &address[i], &peer[i]);
    }
    if (status == GPUCOLL_OK && peer[0]->tied != NULL) {
        *out = peer[0]->tied;
        drop_peers(ties, peer); /* they stay, connected once */
        return GPUCOLL_OK;
    }
    if (status == GPUCOLL_OK) {
        *out = keep_peer(ties, peer);
        status = *out != NULL ? GPUCOLL_OK : GPUCOLL_ERR_NO_MEMORY;
    }
    if (status != GPUCOLL_OK) {
        drop_peers(ties, peer);
    }
    return status;
}

static void disconnect(struct gpucoll_net *net, struct gpucoll_net_peer *peer)
{
    struct ties *ties = ties_of(net);
    struct tied_peer *tied = (struct tied_peer *)peer;
    pthread_mutex_lock(&ties->lock);
    if (--tied->uses == 0) {
        tied->peer[0]->tied = NULL;
        drop_peers(ties, tied->peer);
        free_peer(tied);
    }
    pthread_mutex_unlock(&ties->lock);
}

static gpucoll_status connect_ties(struct gpucoll_net *net, const struct gpucoll_net_address *all,
                                   struct gpucoll_net_peer **peer)
{
    struct ties *ties = ties_of(net);
    struct gpucoll_net_address address[MOST_TIES];
    struct tied_peer *found = NULL;
    if (!split(ties, all, address)) {
        return GPUCOLL_ERR_INVALID;
    }
    pthread_mutex_lock(&ties->lock);
    gpucoll_status status = find_peer(ties, address, &found);
    if (status == GPUCOLL_OK) {
        found->uses++;
        *peer = (struct gpucoll_net_peer *)found;
    }
    pthread_mutex_unlock(&ties->lock);
    return status;
}

static bool lost(struct gpucoll_net *net, const struct gpucoll_net_peer *peer)
{
    const struct ties *ties = ties_of(net);
    for (uint32_t i = 0; i < ties->count; i++) {
        if (one->lost(ties->tie[i].net, tied(peer)->peer[i])) {
            return true;
        }
    }
    return false;
}

static bool gone(struct gpucoll_net *net, struct gpucoll_net_peer *peer)
{
    const struct ties *ties = ties_of(net);
    bool any = false;
    for (uint32_t i = 0; i < ties->count; i++) {
        any |= one->gone(ties->tie[i].net, tied(peer)->peer[i]); /* which asks, too */
    }
    return any;
}

/* ---- memory ---- */

static void forget(struct gpucoll_net *net, struct gpucoll_net_memory *memory)
{
    struct ties *ties = ties_of(net);
    struct tied_memory *tied_memory = (struct tied_memory *)memory;
    for (uint32_t i = 0; i < ties->count && tied_memory->memory[i] != NULL; i++) {
        one->forget(ties->tie[i].net, tied_memory->memory[i]);
    }
    free(tied_memory);
}

static struct gpucoll_net_memory *reach(struct gpucoll_net *net, struct gpucoll_device *device, void *data,
                                        size_t bytes)
{
    struct ties *ties = ties_of(net);
    struct tied_memory *made = calloc(1, sizeof *made);
    for (uint32_t i = 0; made != NULL && i < ties->count; i++) {
        made->memory[i] = one->reach(ties->tie[i].net, device, data, bytes);
        if (made->memory[i] == NULL) {
            forget(net, (struct gpucoll_net_memory *)made);
            return NULL;
        }
    }
    return (struct gpucoll_net_memory *)made;
}

static struct gpucoll_net_memory *memory_at(struct gpucoll_net_memory *memory, uint32_t tie)
{
    return memory != NULL ? ((struct tied_memory *)memory)->memory[tie] : NULL;
}

/* ---- messages ---- */

/* Channels of what is long follow each other by fours (gpucoll_net_tag): the runs of a rail, and of two that meet each way by a tie of its own. */
static uint32_t tie_for(const struct ties *ties, uint64_t tag, size_t bytes)
{
    const uint32_t channel = tag & 0xfffff;
    const uint32_t source = tag >> 20 & 0xfffff;
    const uint32_t first = ties->count > 2;
    return bytes < LONG_BYTES ? 0 : first + (channel / 4 + source) % (ties->count - first);
}

static void send_message(struct gpucoll_net *net, struct gpucoll_net_peer *peer, uint64_t tag,
                         const void *data, size_t bytes, struct gpucoll_net_memory *memory,
                         struct gpucoll_net_message *message)
{
    struct ties *ties = ties_of(net);
    const uint32_t at = tie_for(ties, tag, bytes);
    struct gpucoll_net_peer *to = tied(peer)->peer[at];
    message->tie = at;
    if (at == 0) {
        one->send(ties->tie[0].net, to, tag, data, bytes, memory_at(memory, 0), message);
        return;
    }
    const struct gpucoll_tie_message what = {
        false, to, tag, (void *)(uintptr_t)data, bytes, memory_at(memory, at)};
    gpucoll_tie_give(&ties->tie[at], &what, message);
}

static void receive(struct gpucoll_net *net, struct gpucoll_net_peer *from, uint64_t tag, void *data,
                    size_t bytes, struct gpucoll_net_memory *memory, struct gpucoll_net_message *message)
{
    struct ties *ties = ties_of(net);
    const uint32_t at = tie_for(ties, tag, bytes);
    message->tie = at;
    if (at == 0) {
        one->receive(ties->tie[0].net, peer_at(from, 0), tag, data, bytes, memory_at(memory, 0), message);
        return;
    }
    const struct gpucoll_tie_message what = {true,  peer_at(from, at),    tag, data,
                                             bytes, memory_at(memory, at)};
    gpucoll_tie_give(&ties->tie[at], &what, message);
}

/* By the tie of short messages, whatever its length is. */
static void receive_up_to(struct gpucoll_net *net, struct gpucoll_net_peer *from, uint64_t tag, void *data,
                          size_t bytes, struct gpucoll_net_message *message)
{
    message->tie = 0;
    one->receive_up_to(ties_of(net)->tie[0].net, peer_at(from, 0), tag, data, bytes, message);
}

static gpucoll_status test(struct gpucoll_net *net, struct gpucoll_net_message *message)
{
    struct gpucoll_tie *tie = &ties_of(net)->tie[message->tie];
    return message->tie == 0 ? one->test(tie->net, message) : gpucoll_tie_test(tie, message);
}

static void cancel(struct gpucoll_net *net, struct gpucoll_net_message *message)
{
    struct gpucoll_tie *tie = &ties_of(net)->tie[message->tie];
    if (message->tie == 0) {
        one->cancel(tie->net, message);
    } else {
        gpucoll_tie_cancel(tie, message);
    }
}

static void begin_cancel(struct gpucoll_net *net, struct gpucoll_net_message *message)
{
    struct gpucoll_tie *tie = &ties_of(net)->tie[message->tie];
    if (message->tie == 0) {
        one->begin_cancel(tie->net, message);
    } else {
        gpucoll_tie_begin_cancel(tie, message);
    }
}

/* ---- progress ---- */

static bool drained(struct gpucoll_net *net, struct gpucoll_net_peer *peer, uint32_t which)
{
    const struct ties *ties = ties_of(net);
    bool all = true;
    for (uint32_t i = 0; i < ties->count; i++) {
        if ((which >> i & 1) != 0) {
            all &= one->drained(ties->tie[i].net, tied(peer)->peer[i], 1);
        }
    }
    return all;
}

static bool progress(struct gpucoll_net *net)
{
    struct ties *ties = ties_of(net);
    bool moved = one->progress(ties->tie[0].net);
    for (uint32_t i = 1; i < ties->count; i++) {
        moved |= gpucoll_tie_progress(&ties->tie[i]);
    }
    return moved;
}

const struct gpucoll_net_ops gpucoll_net_ucx = {
    .name = "ucx",
    .open = open_ties,
    .close = close_ties,
    .address = get_address,
    .connect = connect_ties,
    .disconnect = disconnect,
    .reach = reach,
    .forget = forget,
    .send = send_message,
    .receive = receive,
    .receive_up_to = receive_up_to,
    .test = test,
    .cancel = cancel,
    .begin_cancel = begin_cancel,
    .progress = progress,
    .drained = drained,
    .lost = lost,
    .gone = gone,
};
