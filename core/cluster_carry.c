/*
 * Calls of several hosts with few bytes, that go along with what the hosts tell each other before any call: each rank copies what it brings to
 * host memory, the ranks of a host sum theirs in the order of ranks, spans carry one piece for each host to all, and every rank sums these in
 * the order of hosts. What the stages would need is saved: the kernels on both sides, and a second message. So every rank gets the same bits.
 *
 * The pieces go whether or not all hosts can run the call; if one cannot, or has none, they are of no use.
 */
#include "core/cluster_call.h"

#include <string.h>
#include "core/agreement.h"
#include "core/copies.h"
#include "core/watchdog.h"

/* Which of the host's ranks bring something, and who gets the result. */
static bool sums(const struct gpucoll_cluster_call *call)
{
    return call->family == &gpucoll_cluster_allreduce || call->family == &gpucoll_cluster_reduce;
}

static bool brings(const struct gpucoll_cluster_call *call, uint32_t rank)
{
    return sums(call) || rank == call->root;
}

static bool gets(const struct gpucoll_cluster_call *call)
{
    const uint32_t rank = call->cluster->rank;
    if (call->family == &gpucoll_cluster_reduce) {
        return rank == call->root;
    }
    return sums(call) || rank != call->root;
}

/* Of what the posts of all ranks agree on, so the same on all of a host. */
static bool is_carried(const struct gpucoll_cluster_call *call)
{
    return call != NULL && (sums(call) || call->family == &gpucoll_cluster_bcast) && call->bytes > 0 &&
           call->bytes <= call->cluster->carry;
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
    return request->stages->bytes > GPUCOLL_CARRY_BYTES ? team->cluster->shelves[member]->carried[place]
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

static gpucoll_status copy_out(struct gpucoll_request *request)
{
    struct gpucoll_cluster_call *call = request->stages;
    return gpucoll_copy_few(request->gpu, GPUCOLL_QUEUE_OUT, outgoing(request), call->send, call->bytes,
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
        memcpy(told_by(request, team->rank), outgoing(request), call->bytes);
    }
    atomic_store_explicit(&team->board->brought[request->call % GPUCOLL_RING], request->call,
                          memory_order_release);
    call->told = true;
}

/* Makes what the host brings of what its ranks do, all of which have told. Of a broadcast a host without the root brings nothing, in as many
 * bytes: all hosts carry equally much. */
static void put_together(const struct gpucoll_request *request)
{
    const struct gpucoll_cluster_call *call = request->stages;
    const struct gpucoll_team *team = request->team;
    char *into = outgoing(request);
    bool first = true;
    if (team->size == 1 && brings(call, call->cluster->rank)) {
        return; /* it is there already */
    }
    for (uint32_t i = 0; i < team->size; i++) {
        if (!brings(call, team->members[i].number)) {
            continue;
        }
        const unsigned char *brought = told_by(request, i);
        if (first) {
            memcpy(into, brought, call->bytes);
        } else {
            gpucoll_host_reduce(call->functor, into, into, brought,
                                call->bytes / gpucoll_host_functor_size(call->functor));
        }
        first = false;
    }
    if (first) {
        memset(into, 0, call->bytes);
    }
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
    return (uint32_t)request->stages->bytes;
}

void gpucoll_carry_take(struct gpucoll_request *request, const struct gpucoll_span *span)
{
    struct gpucoll_cluster_call *call = request->stages;
    const struct gpucoll_cluster *cluster = request->team->cluster;
    if (!is_carried(call) || span->known.carried != call->bytes) {
        return;
    }
    call->carried = true;
    if (!gets(call)) {
        return;
    }
    char *result = incoming(request);
    const uint32_t from = sums(call) ? 0 : cluster->host_of[call->root];
    memcpy(result, gpucoll_span_carried(span, from), call->bytes);
    for (uint32_t host = 1; sums(call) && host < cluster->hosts; host++) {
        gpucoll_host_reduce(call->functor, result, result, gpucoll_span_carried(span, host),
                            call->bytes / gpucoll_host_functor_size(call->functor));
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
        status = gpucoll_copy_few(request->gpu, GPUCOLL_QUEUE_IN, call->recv, incoming(request), call->bytes,
                                  request->migrates, &call->carrying);
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
