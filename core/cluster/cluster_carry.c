/*
 * Calls of several hosts with few bytes, that go along with what the hosts tell each other before any call: each rank copies what it brings to
 * host memory, the ranks of a host put theirs together, spans carry one piece for each host to all, and every rank makes its result of these.
 * What the stages would need is saved: the kernels on both sides, and a second message. Sums are in the order of the ranks of a host, then in that of
 * hosts, so every rank gets the same bits; what is gathered lies in the order of the ranks of a host, then in that of all ranks.
 *
 * The pieces go whether or not all hosts can run the call; if one cannot, or has none, they are of no use.
 */
#include "core/base/sizes.h"
#include "core/cluster/cluster_call.h"

#include <string.h>
#include "core/agreement.h"
#include "core/cluster/cluster_pairs.h"
#include "core/copies.h"
#include "core/watchdog.h"

/* What a rank brings, or gets: a buffer or its own block, or a block for each rank or of each; and which ranks do. */
struct side {
    enum { ALL, ROOT, OTHERS } who;
    bool each;
};

struct gpucoll_carry_row {
    enum { NOT_CARRIED, SUMMED, IN_A_ROW /* one behind the other */ } how; /* what ranks bring */
    struct side out;
    struct side in;
};

/* Of the collectives of blocks those whose lengths all ranks name alike, or MPI makes equal. */
static const struct gpucoll_carry_row rows[GPUCOLL_COLL_COUNT] = {
    [GPUCOLL_ALLREDUCE] = {SUMMED, {ALL, false}, {ALL, false}},
    [GPUCOLL_REDUCE] = {SUMMED, {ALL, false}, {ROOT, false}},
    [GPUCOLL_REDUCE_SCATTER] = {SUMMED, {ALL, true}, {ALL, false}},
    [GPUCOLL_REDUCE_SCATTER_BLOCK] = {SUMMED, {ALL, true}, {ALL, false}},
    [GPUCOLL_BCAST] = {IN_A_ROW, {ROOT, false}, {OTHERS, false}},
    [GPUCOLL_ALLGATHER] = {IN_A_ROW, {ALL, false}, {ALL, true}},
    [GPUCOLL_ALLGATHERV] = {IN_A_ROW, {ALL, false}, {ALL, true}},
    [GPUCOLL_GATHER] = {IN_A_ROW, {ALL, false}, {ROOT, true}},
    [GPUCOLL_SCATTER] = {IN_A_ROW, {ROOT, true}, {ALL, false}},
    [GPUCOLL_ALLTOALL] = {IN_A_ROW, {ALL, true}, {ALL, true}},
};

static const struct side *side_of(const struct gpucoll_cluster_call *call, bool out)
{
    return out ? &call->carry->out : &call->carry->in;
}

static bool has_part(const struct gpucoll_cluster_call *call, const struct side *side, uint32_t rank)
{
    return side->who == ALL || (rank == call->root) == (side->who == ROOT);
}

static uint64_t block_bytes(const struct gpucoll_cluster_call *call, uint32_t rank)
{
    return call->blocks != NULL ? call->blocks[rank].bytes : call->bytes;
}

/* Of all blocks before that of a rank; of all there are, if that is past the last. */
static uint64_t bytes_before(const struct gpucoll_cluster_call *call, uint32_t rank)
{
    uint64_t bytes = 0;
    if (call->blocks == NULL) {
        return rank * call->bytes;
    }
    for (uint32_t i = 0; i < rank; i++) {
        bytes += call->blocks[i].bytes;
    }
    return bytes;
}

static uint64_t brought_by(const struct gpucoll_cluster_call *call, uint32_t rank)
{
    const struct side *out = &call->carry->out;
    if (!has_part(call, out, rank)) {
        return 0;
    }
    return out->each ? bytes_before(call, call->cluster->size) : block_bytes(call, rank);
}

/* Of what lies one behind the other: by the ranks of a host whose index is below this one. */
static uint64_t brought_before(const struct gpucoll_cluster_call *call, uint32_t host, uint32_t index)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < index; i++) {
        bytes += brought_by(call, gpucoll_host_rank(call->cluster, host, i));
    }
    return bytes;
}

/* As much as the host has that brings most: all carry equally much. */
static uint64_t carried_bytes(const struct gpucoll_cluster_call *call)
{
    const struct gpucoll_cluster *cluster = call->cluster;
    uint64_t most = 0;
    if (call->carry->how == SUMMED) {
        return brought_by(call, cluster->rank);
    }
    for (uint32_t host = 0; host < cluster->hosts; host++) {
        const uint64_t bytes = brought_before(call, host, gpucoll_host_size(cluster, host));
        most = bytes > most ? bytes : most;
    }
    return most;
}

void gpucoll_carry_note(struct gpucoll_cluster_call *call, enum gpucoll_coll coll)
{
    const struct gpucoll_carry_row *row = &rows[coll];
    const uint64_t most = call->cluster->carry;
    if (row->how == NOT_CARRIED || call->bytes > most) {
        return;
    }
    call->carry = row;
    const uint64_t carried = carried_bytes(call);
    const uint64_t gathered = row->in.each ? bytes_before(call, call->cluster->size) : 0;
    call->few = carried <= most && gathered <= most ? carried : 0;
}

/* Of what the posts of all ranks agree on, so the same on all of a host. */
static bool is_carried(const struct gpucoll_cluster_call *call)
{
    return call != NULL && call->few > 0;
}

/* Of memory of the accelerator, for what goes out or comes in of one call; whole cache lines. */
static size_t room_bytes(const struct gpucoll_cluster *cluster)
{
    return gpucoll_round_up(cluster->carry, 64);
}

/* The two rooms in host memory that belong to a call. They are free again when the ring's entry is. In the first is what this rank brings,
 * then what its host does. */
static char *outgoing(const struct gpucoll_request *request)
{
    const struct gpucoll_cluster *cluster = request->team->cluster;
    return cluster->carry_memory + request->call % GPUCOLL_RING * 2 * room_bytes(cluster);
}

static char *incoming(const struct gpucoll_request *request)
{
    return outgoing(request) + room_bytes(request->team->cluster);
}

/* Where a rank of this host tells the others what it brings: on its shelf only what has no room beside the rest that they look at. */
static unsigned char *told_by(const struct gpucoll_request *request, uint32_t member)
{
    const struct gpucoll_team *team = request->team;
    const uint64_t place = request->call % GPUCOLL_RING;
    return request->stages->few > GPUCOLL_CARRY_BYTES ? team->cluster->shelves[member]->carried[place]
                                                      : team->members[member].board->carried[place];
}

bool gpucoll_carry_reserve(struct gpucoll_request *request)
{
    struct gpucoll_cluster *cluster = request->team->cluster;
    struct gpucoll_accel *accel = cluster->context->accel;
    if (!is_carried(request->stages) || cluster->carry_memory != NULL) {
        return true;
    }
    void *memory = NULL;
    if (accel->ops->host_alloc(accel, GPUCOLL_RING * 2 * room_bytes(cluster), &memory) != GPUCOLL_OK) {
        return false;
    }
    cluster->carry_memory = memory;
    return true;
}

struct piece {
    char *device;
    uint64_t bytes;
};

/* What this rank brings or gets of the block `i`, or as its only one. A run from a rank to itself is empty in place. */
static struct piece piece_of(const struct gpucoll_cluster_call *call, bool out, uint32_t i)
{
    const bool each = side_of(call, out)->each;
    char *base = out ? (char *)call->send : call->recv;
    if (call->pairs != NULL) {
        const struct gpucoll_kernel_run *run = &call->pairs->runs[each ? i : call->root];
        return out ? (struct piece){(char *)run->send, run->send_bytes}
                   : (struct piece){run->recv, run->recv_bytes};
    }
    if (each) {
        return (struct piece){base + call->blocks[i].offset, call->blocks[i].bytes};
    }
    return (struct piece){base, block_bytes(call, call->cluster->rank)};
}

static uint32_t pieces_of(const struct gpucoll_cluster_call *call, bool out)
{
    const struct side *side = side_of(call, out);
    const uint32_t each = side->each ? call->cluster->size : 1;
    return has_part(call, side, call->cluster->rank) ? each : 0;
}

/* A run of pieces that follow each other on the device and in host memory. */
struct stretch {
    char *device;
    uint64_t at; /* in host memory */
    uint64_t bytes;
    uint32_t next; /* piece behind it, */
    uint64_t next_at;
};

/* The first from piece `next` on; false: there is none. */
static bool find_stretch(const struct gpucoll_cluster_call *call, bool out, struct stretch *stretch)
{
    const uint32_t pieces = pieces_of(call, out);
    stretch->bytes = 0;
    for (; stretch->next < pieces; stretch->next++) {
        const struct piece piece = piece_of(call, out, stretch->next);
        const bool follows = stretch->device + stretch->bytes == piece.device &&
                             stretch->at + stretch->bytes == stretch->next_at;
        if (piece.bytes > 0 && stretch->bytes == 0) {
            stretch->device = piece.device;
            stretch->at = stretch->next_at;
        } else if (piece.bytes > 0 && !follows) {
            break;
        }
        stretch->bytes += piece.bytes;
        stretch->next_at += block_bytes(call, stretch->next);
    }
    return stretch->bytes > 0;
}

/* Several stretches go by a queue, whose last ticket stands for all. */
static gpucoll_status copy_pieces(struct gpucoll_request *request, bool out)
{
    struct gpucoll_cluster_call *call = request->stages;
    const uint32_t queue = out ? GPUCOLL_QUEUE_OUT : GPUCOLL_QUEUE_IN;
    const uint32_t pieces = pieces_of(call, out);
    struct stretch stretch = {0};
    gpucoll_status status = GPUCOLL_OK;
    bool several = false;
    while (status == GPUCOLL_OK && find_stretch(call, out, &stretch)) {
        char *place = (out ? outgoing(request) : incoming(request)) + stretch.at;
        void *to = out ? place : stretch.device;
        const void *from = out ? stretch.device : place;
        several = several || stretch.next < pieces;
        status = several ? gpucoll_copy_in(request->gpu, queue, to, from, stretch.bytes, &call->carrying)
                         : gpucoll_copy_few(request->gpu, queue, to, from, stretch.bytes, request->migrates,
                                            &call->carrying);
    }
    return status;
}

/* What is to be packed first is, once the ranks of this host have agreed on the call. */
gpucoll_status gpucoll_carry_begin(struct gpucoll_request *request)
{
    const struct gpucoll_cluster_call *call = request->stages;
    const bool now = is_carried(call) && request->gpu != NULL && !gpucoll_packing_packs(call->packing);
    return now ? copy_pieces(request, true) : GPUCOLL_OK;
}

bool gpucoll_carry_waits(struct gpucoll_request *request, gpucoll_status status)
{
    struct gpucoll_cluster_call *call = request->stages;
    if (!is_carried(call) || (status != GPUCOLL_OK && call->carrying.number == 0)) {
        return false;
    }
    call->agreed = status;
    return true;
}

/* What is copied is told to the ranks of this host. */
static void tell(struct gpucoll_request *request)
{
    struct gpucoll_cluster_call *call = request->stages;
    const struct gpucoll_team *team = request->team;
    memcpy(told_by(request, team->rank), outgoing(request), brought_by(call, call->cluster->rank));
    atomic_store_explicit(&team->board->brought[request->call % GPUCOLL_RING], request->call,
                          memory_order_release);
    call->told = true;
}

static void sum_up(const struct gpucoll_cluster_call *call, char *into, const void *with, uint64_t bytes)
{
    gpucoll_host_reduce(call->functor, into, into, with, bytes / gpucoll_host_functor_size(call->functor));
}

/* Makes what the host brings of what its ranks do, all of which have told; what is left of as many bytes as all hosts carry is of no use. Of a broadcast
 * a host without the root brings nothing else. */
static void put_together(const struct gpucoll_request *request)
{
    const struct gpucoll_cluster_call *call = request->stages;
    const struct gpucoll_team *team = request->team;
    char *into = outgoing(request);
    uint64_t made = 0;
    for (uint32_t i = 0; i < team->size; i++) {
        const uint64_t bytes = brought_by(call, team->members[i].number);
        if (call->carry->how == SUMMED && made > 0) {
            sum_up(call, into, told_by(request, i), bytes);
            continue;
        }
        if (team->size > 1 && bytes > 0) { /* what a rank alone brings is there already */
            memcpy(into + made, told_by(request, i), bytes);
        }
        made += bytes;
    }
    memset(into + made, 0, call->few - made);
}

static gpucoll_status await_copies(struct gpucoll_request *request)
{
    const gpucoll_status status = gpucoll_copy_done(request->gpu, request->stages->carrying);
    return status == GPUCOLL_IN_PROGRESS
               ? gpucoll_watchdog(request, request->team->rank, "copying between its GPU and the host")
               : status;
}

/* What this rank brings comes to host memory. As gpucoll_test. */
static gpucoll_status bring(struct gpucoll_request *request)
{
    struct gpucoll_cluster_call *call = request->stages;
    gpucoll_status status = GPUCOLL_OK;
    if (call->agreed == GPUCOLL_OK && gpucoll_packing_packs(call->packing) && call->carrying.number == 0) {
        status = gpucoll_cluster_move_packed(request, false);
        if (status == GPUCOLL_OK) {
            status = copy_pieces(request, true);
        }
        if (status != GPUCOLL_OK) {
            return status;
        }
    }
    return request->gpu != NULL ? await_copies(request) : GPUCOLL_OK;
}

gpucoll_status gpucoll_carry_gather(struct gpucoll_request *request, gpucoll_status *status)
{
    struct gpucoll_cluster_call *call = request->stages;
    const struct gpucoll_team *team = request->team;
    const gpucoll_status brought = bring(request);
    *status = call->agreed;
    if (brought != GPUCOLL_OK) {
        return brought;
    }
    if (call->agreed != GPUCOLL_OK) {
        return GPUCOLL_OK;
    }
    const uint32_t tellers = team->size > 1 ? team->size : 0; /* a rank alone has nobody to tell */
    if (tellers > 0 && !call->told) {
        tell(request);
    }
    for (uint32_t i = 0; i < tellers; i++) {
        const _Atomic uint64_t *brought = &team->members[i].board->brought[request->call % GPUCOLL_RING];
        if (atomic_load_explicit(brought, memory_order_acquire) != request->call) {
            return gpucoll_watchdog(request, i, "waiting for what all ranks of its host bring to the call");
        }
    }
    put_together(request);
    return GPUCOLL_OK;
}

uint32_t gpucoll_carry_brought(const struct gpucoll_request *request, const void **data)
{
    if (!is_carried(request->stages)) {
        return 0;
    }
    *data = outgoing(request);
    return (uint32_t)request->stages->few;
}

/* A block of what `source` brings, for which this rank's own place in that counts if it brings one for each. */
static const char *find_block(const struct gpucoll_cluster_call *call, const struct gpucoll_span *span,
                              uint32_t source)
{
    const struct gpucoll_cluster *cluster = call->cluster;
    const uint32_t host = cluster->host_of[source];
    const uint64_t own = call->carry->out.each ? bytes_before(call, cluster->rank) : 0;
    return gpucoll_span_carried(span, host) + brought_before(call, host, cluster->index_of[source]) + own;
}

static void take_blocks(const struct gpucoll_cluster_call *call, const struct gpucoll_span *span,
                        char *result)
{
    const uint32_t pieces = pieces_of(call, false);
    for (uint32_t i = 0; i < pieces; i++) {
        const struct piece piece = piece_of(call, false, i);
        memcpy(result, find_block(call, span, call->carry->in.each ? i : call->root), piece.bytes);
        result += block_bytes(call, i);
    }
}

/* The sum of what all hosts bring, or of this rank's block of that. */
static void take_sum(const struct gpucoll_cluster_call *call, const struct gpucoll_span *span, char *result)
{
    const struct gpucoll_cluster *cluster = call->cluster;
    const uint64_t at = call->carry->out.each ? bytes_before(call, cluster->rank) : 0;
    const uint64_t bytes = block_bytes(call, cluster->rank);
    memcpy(result, gpucoll_span_carried(span, 0) + at, bytes);
    for (uint32_t host = 1; host < cluster->hosts; host++) {
        sum_up(call, result, gpucoll_span_carried(span, host) + at, bytes);
    }
}

void gpucoll_carry_take(struct gpucoll_request *request, const struct gpucoll_span *span)
{
    struct gpucoll_cluster_call *call = request->stages;
    if (!is_carried(call) || span->known.carried != call->few) {
        return;
    }
    call->carried = true;
    if (call->carry->how == IN_A_ROW) {
        take_blocks(call, span, incoming(request));
    } else if (pieces_of(call, false) > 0) {
        take_sum(call, span, incoming(request));
    }
}

gpucoll_status gpucoll_carry_deliver(struct gpucoll_request *request)
{
    struct gpucoll_cluster_call *call = request->stages;
    gpucoll_status status = GPUCOLL_OK;
    if (pieces_of(call, false) == 0) {
        return GPUCOLL_OK;
    }
    if (!call->delivering) {
        call->delivering = true;
        status = copy_pieces(request, false);
    }
    return status == GPUCOLL_OK ? await_copies(request) : status;
}

bool gpucoll_carry_copies(const struct gpucoll_request *request)
{
    const struct gpucoll_cluster_call *call = request->stages;
    return request->gpu != NULL && gpucoll_copy_done(request->gpu, call->carrying) == GPUCOLL_IN_PROGRESS;
}
