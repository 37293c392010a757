#include "core/cluster/cluster_pairs.h"

#include <stdlib.h>
#include "core/base/sizes.h"

/* As long as the segments of rails: the cost of a message does not count beside its bytes. */
static const uint64_t usual_chunk = 256 << 10;
static const uint64_t most_chunk = 1 << 20;
/* Of host memory a side, where there is as much to send: several chunks, so that copies and messages overlap. */
static const uint64_t side_bytes = 2 << 20;

static bool is_far(const struct gpucoll_cluster *cluster, uint32_t rank)
{
    return cluster->host_of[rank] != cluster->host;
}

/* What comes takes the place of what goes. */
static bool is_in_place(const struct gpucoll_kernel_run *run)
{
    return run->send == run->recv && run->send_bytes > 0 && run->recv_bytes > 0;
}

static bool is_direct(const struct gpucoll_pairs *pairs, const struct gpucoll_pair_side *side, uint32_t peer)
{
    return side->memory != NULL && !is_in_place(&pairs->runs[peer]);
}

static uint64_t run_bytes(const struct gpucoll_pairs *pairs, const struct gpucoll_pair_side *side,
                          uint32_t peer)
{
    const struct gpucoll_kernel_run *run = &pairs->runs[peer];
    return side->sends ? run->send_bytes : run->recv_bytes;
}

/* Slots for the longest message of this rank that wants one; few if all of its messages are. */
static void measure(struct gpucoll_pairs *pairs, const struct gpucoll_cluster *cluster)
{
    const uint64_t forced = gpucoll_round_up(cluster->context->config->chunk, 4096);
    const struct gpucoll_pair_side *sides[] = {&pairs->out, &pairs->in};
    uint64_t longest = 0;
    uint64_t most = 0;
    pairs->chunk = forced > 0 ? gpucoll_smaller(forced, most_chunk) : usual_chunk;
    for (int i = 0; i < 2; i++) {
        uint64_t messages = 0;
        for (uint32_t rank = 0; rank < cluster->size; rank++) {
            const uint64_t bytes = is_far(cluster, rank) ? run_bytes(pairs, sides[i], rank) : 0;
            messages += (bytes + pairs->chunk - 1) / pairs->chunk;
            longest = bytes > longest && !is_direct(pairs, sides[i], rank) ? bytes : longest;
        }
        most = messages > most ? messages : most;
    }
    pairs->slot_bytes = gpucoll_round_up(gpucoll_smaller(longest, pairs->chunk), 256);
    pairs->window = (uint32_t)gpucoll_smaller(most, GPUCOLL_PAIR_WINDOW);
    if (pairs->window * pairs->slot_bytes > side_bytes) {
        pairs->window = (uint32_t)(side_bytes / pairs->slot_bytes);
    }
}

static void reach_side(struct gpucoll_cluster_call *call, struct gpucoll_pair_side *side)
{
    const struct gpucoll_cluster *cluster = call->cluster;
    struct gpucoll_extent extent = {0};
    for (uint32_t rank = 0; rank < cluster->size; rank++) {
        const struct gpucoll_kernel_run *run = &call->pairs->runs[rank];
        if (is_far(cluster, rank) && !is_in_place(run)) {
            gpucoll_extend(&extent, side->sends ? run->send : run->recv, run_bytes(call->pairs, side, rank));
        }
    }
    side->memory = gpucoll_stage_reach(call, &extent);
}

void gpucoll_pairs_reach(struct gpucoll_cluster_call *call)
{
    reach_side(call, &call->pairs->out);
    reach_side(call, &call->pairs->in);
    measure(call->pairs, call->cluster);
}

void gpucoll_pairs_forget(struct gpucoll_cluster_call *call)
{
    gpucoll_stage_forget(call, call->pairs->out.memory);
    gpucoll_stage_forget(call, call->pairs->in.memory);
}

struct gpucoll_pairs *gpucoll_pairs_new(const struct gpucoll_cluster *cluster,
                                        const struct gpucoll_coll_args *args, uint64_t *longest)
{
    struct gpucoll_pairs *pairs = calloc(1, sizeof *pairs + cluster->size * sizeof pairs->runs[0]);
    if (pairs == NULL) {
        return NULL;
    }
    pairs->list = (struct gpucoll_run_list){pairs->runs, cluster->rank, cluster->size};
    *longest = gpucoll_exchange_list_runs(args, &pairs->list);
    pairs->out.sends = true;
    measure(pairs, cluster);
    return pairs;
}

/* ---- the order of messages ---- */

static uint32_t peer_in(const struct gpucoll_cluster *cluster, uint32_t step)
{
    return (step + cluster->size - cluster->rank) % cluster->size;
}

static uint32_t step_of(const struct gpucoll_cluster *cluster, uint32_t peer)
{
    return (peer + cluster->rank) % cluster->size;
}

/* Goes to the next message of a side; false: there is none. */
static bool find_next(const struct gpucoll_cluster_call *call, struct gpucoll_pair_side *side)
{
    const struct gpucoll_cluster *cluster = call->cluster;
    for (; side->step < cluster->size; side->step++, side->at = 0) {
        const uint32_t peer = peer_in(cluster, side->step);
        if (is_far(cluster, peer) && side->at < run_bytes(call->pairs, side, peer)) {
            return true;
        }
    }
    return false;
}

/* Has what is sent from where this message is to go been read? Both ways a run has the same messages. */
static bool is_read(const struct gpucoll_cluster_call *call, const struct gpucoll_pair_message *message)
{
    const struct gpucoll_cluster *cluster = call->cluster;
    const struct gpucoll_pair_side *out = &call->pairs->out;
    const struct gpucoll_kernel_run *run = &call->pairs->runs[message->peer];
    const uint32_t step = step_of(cluster, message->peer);
    if (run->send_bytes == 0 || run->send != run->recv) {
        return true;
    }
    if (out->step < step || (out->step == step && out->at <= message->at)) {
        return false;
    }
    for (uint64_t number = out->through; number < out->begun; number++) {
        const struct gpucoll_pair_message *other = &out->messages[number % call->pairs->window];
        if (other->peer == message->peer && other->at == message->at) {
            return other->state != GPUCOLL_PAIR_COPIED_OUT;
        }
    }
    return true;
}

/* ---- a message ---- */

static char *slot_of(const struct gpucoll_cluster_call *call, const struct gpucoll_pair_side *side,
                     const struct gpucoll_pair_message *message)
{
    return side->slots + (uint64_t)(message - side->messages) * call->pairs->slot_bytes;
}

/* A message's memory, and the device's that it is; else NULL, and it is a slot. */
static char *memory_of(const struct gpucoll_cluster_call *call, const struct gpucoll_pair_side *side,
                       const struct gpucoll_pair_message *message, struct gpucoll_net_memory **memory)
{
    const struct gpucoll_kernel_run *run = &call->pairs->runs[message->peer];
    const bool direct = is_direct(call->pairs, side, message->peer);
    *memory = direct ? side->memory : NULL;
    return direct ? (side->sends ? (char *)run->send : (char *)run->recv) + message->at
                  : slot_of(call, side, message);
}

static void send(const struct gpucoll_cluster_call *call, const struct gpucoll_pair_side *side,
                 struct gpucoll_pair_message *message)
{
    const struct gpucoll_cluster *cluster = call->cluster;
    const uint64_t tag =
        gpucoll_net_tag(cluster->span_id[message->peer], cluster->rank, call->pairs->channel);
    struct gpucoll_net_memory *memory;
    char *data = memory_of(call, side, message, &memory);
    message->state = GPUCOLL_PAIR_SENT;
    cluster->ops->send(cluster->net, cluster->peers[message->peer], tag, data, message->bytes, memory,
                       &message->message);
    gpucoll_rail_note(&call->cluster->all, message->peer, &message->message);
}

static void receive(const struct gpucoll_cluster_call *call, const struct gpucoll_pair_side *side,
                    struct gpucoll_pair_message *message)
{
    const struct gpucoll_cluster *cluster = call->cluster;
    const uint64_t tag =
        gpucoll_net_tag(cluster->span_id[cluster->rank], message->peer, call->pairs->channel);
    struct gpucoll_net_memory *memory;
    char *data = memory_of(call, side, message, &memory);
    message->state = GPUCOLL_PAIR_RECEIVED;
    cluster->ops->receive(cluster->net, cluster->peers[message->peer], tag, data, message->bytes, memory,
                          &message->message);
}

static gpucoll_status begin_message(struct gpucoll_cluster_call *call, struct gpucoll_pair_side *side)
{
    const struct gpucoll_pairs *pairs = call->pairs;
    struct gpucoll_pair_message *message = &side->messages[side->begun % pairs->window];
    const uint32_t peer = peer_in(call->cluster, side->step);
    *message = (struct gpucoll_pair_message){
        .peer = peer,
        .at = side->at,
        .bytes = gpucoll_smaller(run_bytes(pairs, side, peer) - side->at, pairs->chunk),
    };
    side->begun++;
    side->at += message->bytes;
    if (!side->sends) {
        receive(call, side, message);
        return GPUCOLL_OK;
    }
    if (is_direct(pairs, side, peer)) {
        send(call, side, message);
        return GPUCOLL_OK;
    }
    message->state = GPUCOLL_PAIR_COPIED_OUT;
    return gpucoll_copy_in(call->gpu, GPUCOLL_QUEUE_OUT, slot_of(call, side, message),
                           (const char *)pairs->runs[peer].send + message->at, message->bytes,
                           &message->copied);
}

/* It has gone, or come: what comes to a slot has a copy before it. */
static gpucoll_status end_message(struct gpucoll_cluster_call *call, const struct gpucoll_pair_side *side,
                                  struct gpucoll_pair_message *message)
{
    const bool direct = is_direct(call->pairs, side, message->peer);
    message->state = side->sends || direct ? GPUCOLL_PAIR_THROUGH : GPUCOLL_PAIR_HELD;
    return direct && !side->sends ? gpucoll_stage_flush(call) : GPUCOLL_OK;
}

/* One step of a message; GPUCOLL_IN_PROGRESS if there is none to take now. */
static gpucoll_status move_message(struct gpucoll_cluster_call *call, struct gpucoll_pair_side *side,
                                   struct gpucoll_pair_message *message)
{
    const struct gpucoll_cluster *cluster = call->cluster;
    gpucoll_status status = GPUCOLL_IN_PROGRESS;
    switch (message->state) {
    case GPUCOLL_PAIR_THROUGH:
        break;
    case GPUCOLL_PAIR_COPIED_OUT:
        status = gpucoll_copy_done(call->gpu, message->copied);
        if (status == GPUCOLL_OK) {
            send(call, side, message);
        }
        break;
    case GPUCOLL_PAIR_SENT:
    case GPUCOLL_PAIR_RECEIVED:
        status = cluster->ops->test(cluster->net, &message->message);
        call->missing = message->peer; /* if it has failed */
        if (status == GPUCOLL_OK) {
            status = end_message(call, side, message);
        }
        break;
    case GPUCOLL_PAIR_HELD:
        if (is_read(call, message)) {
            message->state = GPUCOLL_PAIR_COPIED_IN;
            status = gpucoll_copy_in(call->gpu, GPUCOLL_QUEUE_IN,
                                     (char *)call->pairs->runs[message->peer].recv + message->at,
                                     slot_of(call, side, message), message->bytes, &message->copied);
        }
        break;
    case GPUCOLL_PAIR_COPIED_IN:
        status = gpucoll_copy_done(call->gpu, message->copied);
        if (status == GPUCOLL_OK) {
            message->state = GPUCOLL_PAIR_THROUGH;
        }
        break;
    }
    return status;
}

/* ---- a side ---- */

static gpucoll_status move_side(struct gpucoll_cluster_call *call, struct gpucoll_pair_side *side,
                                bool *moved)
{
    const uint32_t window = call->pairs->window;
    bool copying = false;
    for (uint64_t number = side->through; number < side->begun; number++) {
        struct gpucoll_pair_message *message = &side->messages[number % window];
        gpucoll_status status = GPUCOLL_IN_PROGRESS;
        /* Messages of a pair are told apart by their order alone: none is sent before the one before it, though its copy may end while
         * this looks from one to the next. */
        const bool waits = copying && message->state == GPUCOLL_PAIR_COPIED_OUT;
        while (!waits && (status = move_message(call, side, message)) == GPUCOLL_OK) {
            *moved = true;
        }
        if (status != GPUCOLL_IN_PROGRESS) {
            return status;
        }
        copying |= message->state == GPUCOLL_PAIR_COPIED_OUT;
    }
    while (side->through < side->begun &&
           side->messages[side->through % window].state == GPUCOLL_PAIR_THROUGH) {
        side->through++;
    }
    while (side->begun - side->through < window && find_next(call, side)) {
        gpucoll_status status = begin_message(call, side);
        if (status != GPUCOLL_OK) {
            return status;
        }
        *moved = true;
    }
    return GPUCOLL_OK;
}

static void begin(struct gpucoll_cluster_call *call)
{
    struct gpucoll_pairs *pairs = call->pairs;
    pairs->begun = true;
    pairs->channel = gpucoll_span_channel(GPUCOLL_SPAN_PAIRS, 0) | (uint32_t)(call->turn & 0x3ffff);
    pairs->out.slots = call->slots;
    pairs->in.slots = call->slots != NULL ? call->slots + pairs->window * pairs->slot_bytes : NULL;
}

bool gpucoll_pairs_are_through(const struct gpucoll_pairs *pairs)
{
    const struct gpucoll_pair_side *out = &pairs->out;
    const struct gpucoll_pair_side *in = &pairs->in;
    return pairs->window == 0 || (pairs->begun && out->step == pairs->list.size && in->step == out->step &&
                                  out->through == out->begun && in->through == in->begun);
}

gpucoll_status gpucoll_pairs_move(struct gpucoll_cluster_call *call, bool *moved)
{
    struct gpucoll_pairs *pairs = call->pairs;
    if (gpucoll_pairs_are_through(pairs)) {
        return GPUCOLL_OK;
    }
    if (!pairs->begun) {
        begin(call);
    }
    call->cluster->ops->progress(call->cluster->net);
    gpucoll_status status = move_side(call, &pairs->in, moved);
    return status == GPUCOLL_OK ? move_side(call, &pairs->out, moved) : status;
}

static bool awaits_peer(const struct gpucoll_pairs *pairs, const struct gpucoll_pair_side *side,
                        uint32_t *rank)
{
    for (uint64_t number = side->through; number < side->begun; number++) {
        const struct gpucoll_pair_message *message = &side->messages[number % pairs->window];
        if (message->state == GPUCOLL_PAIR_SENT || message->state == GPUCOLL_PAIR_RECEIVED) {
            *rank = message->peer;
            return true;
        }
    }
    return false;
}

bool gpucoll_pairs_missing(const struct gpucoll_pairs *pairs, uint32_t *rank)
{
    return awaits_peer(pairs, &pairs->in, rank) || awaits_peer(pairs, &pairs->out, rank);
}

/* ---- giving up ---- */

static bool is_left(const struct gpucoll_cluster_call *call, const struct gpucoll_pair_side *side,
                    uint32_t peer)
{
    const uint32_t step = step_of(call->cluster, peer);
    const uint64_t begun = step < side->step ? UINT64_MAX : step == side->step ? side->at : 0;
    bool left = begun < run_bytes(call->pairs, side, peer);
    for (uint64_t number = side->through; number < side->begun; number++) {
        left |= side->messages[number % call->pairs->window].peer == peer;
    }
    return left;
}

bool gpucoll_pairs_are_left(const struct gpucoll_cluster_call *call, uint32_t rank)
{
    return is_left(call, &call->pairs->out, rank) || is_left(call, &call->pairs->in, rank);
}

static void begin_cancel_side(const struct gpucoll_cluster_call *call, struct gpucoll_pair_side *side)
{
    const struct gpucoll_cluster *cluster = call->cluster;
    for (uint64_t number = side->through; number < side->begun; number++) {
        struct gpucoll_pair_message *message = &side->messages[number % call->pairs->window];
        if (message->state == GPUCOLL_PAIR_SENT || message->state == GPUCOLL_PAIR_RECEIVED) {
            cluster->ops->begin_cancel(cluster->net, &message->message);
        }
    }
}

static void cancel_side(const struct gpucoll_cluster_call *call, struct gpucoll_pair_side *side)
{
    const struct gpucoll_cluster *cluster = call->cluster;
    for (uint64_t number = side->through; number < side->begun; number++) {
        struct gpucoll_pair_message *message = &side->messages[number % call->pairs->window];
        if (message->state == GPUCOLL_PAIR_SENT || message->state == GPUCOLL_PAIR_RECEIVED) {
            cluster->ops->cancel(cluster->net, &message->message);
            message->state = GPUCOLL_PAIR_THROUGH;
        }
    }
}

void gpucoll_pairs_cancel(struct gpucoll_cluster_call *call)
{
    begin_cancel_side(call, &call->pairs->in);
    begin_cancel_side(call, &call->pairs->out);
    cancel_side(call, &call->pairs->in);
    cancel_side(call, &call->pairs->out);
}

static bool side_copies(const struct gpucoll_cluster_call *call, const struct gpucoll_pair_side *side)
{
    for (uint64_t number = side->through; number < side->begun; number++) {
        const struct gpucoll_pair_message *message = &side->messages[number % call->pairs->window];
        if ((message->state == GPUCOLL_PAIR_COPIED_OUT || message->state == GPUCOLL_PAIR_COPIED_IN) &&
            gpucoll_copy_done(call->gpu, message->copied) == GPUCOLL_IN_PROGRESS) {
            return true;
        }
    }
    return false;
}

bool gpucoll_pairs_copy(const struct gpucoll_cluster_call *call)
{
    return side_copies(call, &call->pairs->out) || side_copies(call, &call->pairs->in);
}
