/*
 * Calls of several hosts with few bytes, that go along with what the hosts tell each other before any call: each rank copies what it brings to
 * host memory, the ranks of a host put theirs together, spans carry one piece for each host to all, and every rank makes its result of these.
 * What the stages would need is saved: the kernels on both sides, and a second message. Sums are in the order of the ranks of a host, then in that of
 * hosts, so every rank gets the same bits; what is gathered lies in the order of the ranks of a host, then in that of all ranks.
 *
 * The pieces go whether or not all hosts can run the call; if one cannot, or has none, they are of no use.
 */
#include "core/cluster_call.h"

#include <stdlib.h>
#include <string.h>
#include "core/agreement.h"
#include "core/copies.h"
#include "core/watchdog.h"

static bool gathers(const struct gpucoll_cluster_call *call)
{
    return call->family == &gpucoll_cluster_allgather;
}

static bool scatters(const struct gpucoll_cluster_call *call)
{
    return call->family == &gpucoll_cluster_reduce_scatter;
}

static bool sums(const struct gpucoll_cluster_call *call)
{
    return call->family == &gpucoll_cluster_allreduce || call->family == &gpucoll_cluster_reduce ||
           scatters(call);
}

/* Which of the host's ranks bring something, of how many bytes; and who gets the result, of how many. */
static bool brings(const struct gpucoll_cluster_call *call, uint32_t rank)
{
    return sums(call) || gathers(call) || rank == call->root;
}

static uint64_t brought_bytes(const struct gpucoll_cluster_call *call, uint32_t rank)
{
    return gathers(call) ? call->blocks[rank].bytes : call->few;
}

static bool gets(const struct gpucoll_cluster_call *call)
{
    const uint32_t rank = call->cluster->rank;
    if (call->family == &gpucoll_cluster_reduce) {
        return rank == call->root;
    }
    return sums(call) || gathers(call) || rank != call->root;
}

static uint64_t total_bytes(const struct gpucoll_cluster_call *call)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < call->cluster->size; i++) {
        total += call->blocks[i].bytes;
    }
    return total;
}

/* Where the blocks of ranks lie one behind the other, in their order. False: out of memory. */
static bool note_places(struct gpucoll_cluster_call *call)
{
    const uint32_t size = call->cluster->size;
    call->places = calloc(size, sizeof *call->places);
    for (uint32_t i = 1; call->places != NULL && i < size; i++) {
        call->places[i] = call->places[i - 1] + call->blocks[i - 1].bytes;
    }
    return call->places != NULL;
}

/* The longest of what hosts gather: all carry equally much. */
static uint64_t most_gathered(const struct gpucoll_cluster_call *call)
{
    const struct gpucoll_cluster *cluster = call->cluster;
    uint64_t most = 0;
    for (uint32_t host = 0; host < cluster->hosts; host++) {
        uint64_t bytes = 0;
        for (uint32_t i = 0; i < gpucoll_host_size(cluster, host); i++) {
            bytes += call->blocks[gpucoll_host_rank(cluster, host, i)].bytes;
        }
        most = bytes > most ? bytes : most;
    }
    return most;
}

bool gpucoll_carry_note(struct gpucoll_cluster_call *call)
{
    if (!sums(call) && !gathers(call) && call->family != &gpucoll_cluster_bcast) {
        return true;
    }
    const uint64_t total = call->blocks != NULL ? total_bytes(call) : call->bytes;
    if (total > call->cluster->carry) {
        return true;
    }
    call->few = gathers(call) ? most_gathered(call) : total;
    return call->few == 0 || call->blocks == NULL || note_places(call);
}

/* Of what the posts of all ranks agree on, so the same on all of a host. */
static bool is_carried(const struct gpucoll_cluster_call *call)
{
    return call != NULL && call->few > 0;
}

/* Of memory of the accelerator, for what goes out or comes in of one call; whole cache lines. */
static size_t piece_bytes(const struct gpucoll_cluster *cluster)
{
    return (cluster->carry + 63) / 64 * 64;
}

/* The two pieces of host memory that belong to a call. They are free again when the ring's entry is. In the first is what this rank brings,
 * then what its host does. */
static char *outgoing(const struct gpucoll_request *request)
{
    const struct gpucoll_cluster *cluster = request->team->cluster;
    return cluster->carry_memory + request->call % GPUCOLL_RING * 2 * piece_bytes(cluster);
}

static char *incoming(const struct gpucoll_request *request)
{
    return outgoing(request) + piece_bytes(request->team->cluster);
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
    if (accel->ops->host_alloc(accel, GPUCOLL_RING * 2 * piece_bytes(cluster), &memory) != GPUCOLL_OK) {
        return false;
    }
    cluster->carry_memory = memory;
    return true;
}

/* Between blocks of the device and their places in host memory. What follows each other on both sides is one copy; several go by a queue of their
 * own, whose last ticket stands for all. */
static gpucoll_status copy_blocks(struct gpucoll_request *request, uint32_t queue, char *base, char *host)
{
    struct gpucoll_cluster_call *call = request->stages;
    const struct gpucoll_block *blocks = call->blocks;
    const uint32_t size = call->cluster->size;
    const bool out = queue == GPUCOLL_QUEUE_OUT;
    gpucoll_status status = GPUCOLL_OK;
    bool several = false;
    for (uint32_t i = 0; i < size && status == GPUCOLL_OK;) {
        uint64_t bytes = blocks[i].bytes;
        if (bytes == 0) {
            i++;
            continue;
        }
        uint32_t next = i + 1;
        while (next < size &&
               (blocks[next].bytes == 0 || blocks[next].offset == blocks[i].offset + (ptrdiff_t)bytes)) {
            bytes += blocks[next++].bytes;
        }
        void *to = out ? host + call->places[i] : base + blocks[i].offset;
        const void *from = out ? base + blocks[i].offset : host + call->places[i];
        several = several || next < size;
        status = several ? gpucoll_copy_in(request->gpu, queue, to, from, bytes, &call->carrying)
                         : gpucoll_copy_few(request->gpu, queue, to, from, bytes, request->migrates,
                                            &call->carrying);
        i = next;
    }
    return status;
}

static gpucoll_status copy_out(struct gpucoll_request *request)
{
    struct gpucoll_cluster_call *call = request->stages;
    if (scatters(call)) {
        return copy_blocks(request, GPUCOLL_QUEUE_OUT, (char *)call->send, outgoing(request));
    }
    return gpucoll_copy_few(request->gpu, GPUCOLL_QUEUE_OUT, outgoing(request), call->send,
                            brought_bytes(call, call->cluster->rank), request->migrates, &call->carrying);
}

static gpucoll_status copy_in(struct gpucoll_request *request)
{
    struct gpucoll_cluster_call *call = request->stages;
    if (gathers(call)) {
        return copy_blocks(request, GPUCOLL_QUEUE_IN, call->recv, incoming(request));
    }
    const uint64_t bytes = scatters(call) ? call->blocks[call->cluster->rank].bytes : call->few;
    return gpucoll_copy_few(request->gpu, GPUCOLL_QUEUE_IN, call->recv, incoming(request), bytes,
                            request->migrates, &call->carrying);
}

/* What is to be packed first is, once the ranks of this host have agreed on the call. */
gpucoll_status gpucoll_carry_begin(struct gpucoll_request *request)
{
    const struct gpucoll_cluster_call *call = request->stages;
    const bool now = is_carried(call) && request->gpu != NULL && brings(call, call->cluster->rank) &&
                     !gpucoll_packing_packs(call->packing);
    return now ? copy_out(request) : GPUCOLL_OK;
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
    if (brings(call, call->cluster->rank)) {
        memcpy(told_by(request, team->rank), outgoing(request), brought_bytes(call, call->cluster->rank));
    }
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
        const uint32_t rank = team->members[i].number;
        const uint64_t bytes = brings(call, rank) ? brought_bytes(call, rank) : 0;
        if (team->size > 1 && sums(call) && made > 0) {
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

/* What this rank brings comes to host memory. As gpucoll_test. */
static gpucoll_status bring(struct gpucoll_request *request)
{
    struct gpucoll_cluster_call *call = request->stages;
    gpucoll_status status = GPUCOLL_OK;
    if (call->agreed == GPUCOLL_OK && gpucoll_packing_packs(call->packing) && call->carrying.number == 0) {
        status = gpucoll_cluster_move_packed(request, false);
        if (status == GPUCOLL_OK) {
            status = copy_out(request);
        }
        if (status != GPUCOLL_OK) {
            return status;
        }
    }
    status = request->gpu != NULL ? gpucoll_copy_done(request->gpu, call->carrying) : GPUCOLL_OK;
    return status == GPUCOLL_IN_PROGRESS
               ? gpucoll_watchdog(request, request->team->rank, "copying between its GPU and the host")
               : status;
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

/* The blocks of all ranks. */
static void take_gathered(const struct gpucoll_cluster_call *call, const struct gpucoll_span *span,
                          char *result)
{
    const struct gpucoll_cluster *cluster = call->cluster;
    for (uint32_t host = 0; host < cluster->hosts; host++) {
        const char *from = gpucoll_span_carried(span, host);
        for (uint32_t i = 0; i < gpucoll_host_size(cluster, host); i++) {
            const uint32_t rank = gpucoll_host_rank(cluster, host, i);
            memcpy(result + call->places[rank], from, call->blocks[rank].bytes);
            from += call->blocks[rank].bytes;
        }
    }
}

/* The sum of what all hosts bring, or of this rank's block of that. */
static void take_sum(const struct gpucoll_cluster_call *call, const struct gpucoll_span *span, char *result)
{
    const struct gpucoll_cluster *cluster = call->cluster;
    const uint64_t at = scatters(call) ? call->places[cluster->rank] : 0;
    const uint64_t bytes = scatters(call) ? call->blocks[cluster->rank].bytes : call->few;
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
    if (!gets(call)) {
        return;
    }
    if (gathers(call)) {
        take_gathered(call, span, incoming(request));
    } else if (sums(call)) {
        take_sum(call, span, incoming(request));
    } else {
        memcpy(incoming(request), gpucoll_span_carried(span, call->cluster->host_of[call->root]), call->few);
    }
}

gpucoll_status gpucoll_carry_deliver(struct gpucoll_request *request)
{
    struct gpucoll_cluster_call *call = request->stages;
    if (!gets(call)) {
        return GPUCOLL_OK;
    }
    gpucoll_status status = GPUCOLL_OK;
    if (!call->delivering) {
        call->delivering = true;
        status = copy_in(request);
    }
    if (status == GPUCOLL_OK) {
        status = gpucoll_copy_done(request->gpu, call->carrying);
    }
    return status == GPUCOLL_IN_PROGRESS
               ? gpucoll_watchdog(request, request->team->rank, "copying between its GPU and the host")
               : status;
}

bool gpucoll_carry_copies(const struct gpucoll_request *request)
{
    const struct gpucoll_cluster_call *call = request->stages;
    return request->gpu != NULL && gpucoll_copy_done(request->gpu, call->carrying) == GPUCOLL_IN_PROGRESS;
}
