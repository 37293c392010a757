#include "core/exchange.h"

#include <string.h>
#include "core/agreement.h"
#include "core/base/sizes.h"
#include "core/gate.h"
#include "core/packing.h"

/* Which ranks have a run for which. */
enum pairs {
    ALL_TO_ALL,
    TO_ROOT,
    FROM_ROOT,
    UPWARDS,         /* from each rank to those above it and to itself */
    UPWARDS_STRICTLY /* to those above it */
};

struct row {
    enum pairs pairs;
    bool send_each; /* a block to send for each rank, instead of one for all */
    bool recv_each;
    bool even; /* MPI wants all blocks of all ranks equally long */
};

static const struct row rows[GPUCOLL_COLL_COUNT] = {
    [GPUCOLL_ALLGATHER] = {ALL_TO_ALL, false, true, true},
    [GPUCOLL_ALLGATHERV] = {ALL_TO_ALL, false, true, false},
    [GPUCOLL_ALLTOALL] = {ALL_TO_ALL, true, true, true},
    [GPUCOLL_ALLTOALLV] = {ALL_TO_ALL, true, true, false},
    [GPUCOLL_ALLTOALLW] = {ALL_TO_ALL, true, true, false},
    [GPUCOLL_BCAST] = {FROM_ROOT, false, false, true},
    [GPUCOLL_EXSCAN] = {UPWARDS_STRICTLY, false, false, true},
    [GPUCOLL_GATHER] = {TO_ROOT, false, true, true},
    [GPUCOLL_GATHERV] = {TO_ROOT, false, true, false},
    [GPUCOLL_NEIGHBOR_ALLGATHER] = {ALL_TO_ALL, true, true, false},
    [GPUCOLL_NEIGHBOR_ALLGATHERV] = {ALL_TO_ALL, true, true, false},
    [GPUCOLL_NEIGHBOR_ALLTOALL] = {ALL_TO_ALL, true, true, false},
    [GPUCOLL_NEIGHBOR_ALLTOALLV] = {ALL_TO_ALL, true, true, false},
    [GPUCOLL_NEIGHBOR_ALLTOALLW] = {ALL_TO_ALL, true, true, false},
    [GPUCOLL_REDUCE] = {TO_ROOT, false, false, true},
    [GPUCOLL_REDUCE_SCATTER] = {ALL_TO_ALL, true, false, false},
    [GPUCOLL_REDUCE_SCATTER_BLOCK] = {ALL_TO_ALL, true, false, true},
    [GPUCOLL_SCAN] = {UPWARDS, false, false, true},
    [GPUCOLL_SCATTER] = {FROM_ROOT, true, false, true},
    [GPUCOLL_SCATTERV] = {FROM_ROOT, true, false, false},
};

static bool has_run(enum pairs pairs, uint32_t from, uint32_t to, uint32_t root)
{
    switch (pairs) {
    case TO_ROOT:
        return to == root;
    case FROM_ROOT:
        return from == root;
    case UPWARDS:
        return from <= to;
    case UPWARDS_STRICTLY:
        return from < to;
    case ALL_TO_ALL:
        break;
    }
    return true;
}

uint64_t gpucoll_exchange_even_bytes(const struct gpucoll_coll_args *args)
{
    const struct gpucoll_block *block = args->send_blocks != NULL ? args->send_blocks : args->recv_blocks;
    return rows[args->coll].even && block != NULL ? block->bytes : 0;
}

/* What the own rank keeps for itself: nothing, unless it has both ends of it. */
static void fix_own(struct gpucoll_kernel_run *own, bool reduces)
{
    if (!reduces && (own->send_bytes == 0 || own->recv_bytes == 0)) {
        own->send_bytes = 0;
        own->recv_bytes = 0;
    }
}

const struct gpucoll_block *gpucoll_exchange_send_block(const struct gpucoll_coll_args *args, uint32_t own,
                                                        uint32_t peer)
{
    const struct row *row = &rows[args->coll];
    bool any = args->send_blocks != NULL && has_run(row->pairs, own, peer, args->root);
    return any ? &args->send_blocks[row->send_each ? peer : 0] : NULL;
}

const struct gpucoll_block *gpucoll_exchange_recv_block(const struct gpucoll_coll_args *args, uint32_t own,
                                                        uint32_t peer)
{
    const struct row *row = &rows[args->coll];
    bool any = args->recv_blocks != NULL && has_run(row->pairs, peer, own, args->root);
    return any ? &args->recv_blocks[row->recv_each ? peer : 0] : NULL;
}

uint64_t gpucoll_exchange_list_runs(const struct gpucoll_coll_args *args, const struct gpucoll_run_list *runs)
{
    const bool reduces = gpucoll_coll_reduces(args->coll);
    struct gpucoll_kernel_run *own = &runs->run[runs->own];
    memset(runs->run, 0, gpucoll_kernel_runs_bytes(runs->size));
    bool receives = false;
    for (uint32_t i = 0; i < runs->size; i++) {
        const struct gpucoll_block *sent = gpucoll_exchange_send_block(args, runs->own, i);
        if (sent != NULL) {
            runs->run[i].send = (const char *)args->send + sent->offset;
            runs->run[i].send_bytes = sent->bytes;
        }
        const struct gpucoll_block *received = gpucoll_exchange_recv_block(args, runs->own, i);
        if (received != NULL) {
            runs->run[i].recv = (char *)args->recv + received->offset;
            runs->run[i].recv_bytes = received->bytes;
            receives = true;
        }
    }
    if (reduces && receives) { /* also where the own part is not among what is reduced */
        own->recv = (char *)args->recv + args->recv_blocks[0].offset;
        own->recv_bytes = args->recv_blocks[0].bytes;
    }
    fix_own(own, reduces);
    uint64_t longest = 0;
    for (uint32_t i = 0; i < runs->size; i++) {
        longest = gpucoll_larger(longest, gpucoll_larger(runs->run[i].send_bytes, runs->run[i].recv_bytes));
    }
    return longest;
}

/* Those of a request. */
static struct gpucoll_run_list runs_of(struct gpucoll_request *request)
{
    return (struct gpucoll_run_list){request->runs.run, request->team->rank, request->team->size};
}

void gpucoll_exchange_runs(struct gpucoll_request *request, const struct gpucoll_coll_args *args)
{
    const struct gpucoll_run_list runs = runs_of(request);
    request->bytes = gpucoll_exchange_list_runs(args, &runs);
    request->idle = request->bytes == 0;
}

struct range {
    uintptr_t begin;
    uintptr_t end;
};

static void widen(struct range *range, const void *pointer, uint64_t bytes)
{
    uintptr_t begin = (uintptr_t)pointer;
    if (bytes > 0) {
        range->begin = begin < range->begin ? begin : range->begin;
        range->end = begin + bytes > range->end ? begin + bytes : range->end;
    }
}

/* May the run that is received from `source` be where it is, beside what is sent to `peer`? */
static bool is_apart(const struct gpucoll_request *request, const struct gpucoll_run_list *runs,
                     uint32_t source, uint32_t peer)
{
    const struct gpucoll_kernel_run *recv = &runs->run[source];
    const struct gpucoll_kernel_run *send = &runs->run[peer];
    const uint32_t own = runs->own;
    const bool reduces = gpucoll_coll_reduces(request->coll);
    if ((reduces && source != own) || recv->recv_bytes == 0 || send->send_bytes == 0) {
        return true; /* not written, or not read */
    }
    if (gpucoll_packing_receives(request, source) || gpucoll_packing_sends(request, peer)) {
        /* Packed, and unpacked after everything is read; or moved piece by piece, which MPI lets nobody write to: but in place, where both ends of a run
         * have one layout, and what is at one position is read before it is written by the same thread. */
        return true;
    }
    if (!reduces && source == own && recv->send == recv->recv) {
        return true; /* stays where it is */
    }
    uintptr_t to = (uintptr_t)recv->recv;
    uintptr_t from = (uintptr_t)send->send;
    if (to + recv->recv_bytes <= from || from + send->send_bytes <= to) {
        return true;
    }
    return (reduces || source == peer) && to == from && recv->recv_bytes == send->send_bytes;
}

/* Does each run that is received stand where the one to the same peer is sent from, and clear of the runs before it? So it is in place, as a
 * rule; then no two need be compared. */
static bool runs_are_in_place(const struct gpucoll_request *request, const struct gpucoll_run_list *runs)
{
    uintptr_t end = 0;
    if (gpucoll_coll_reduces(request->coll)) {
        return false;
    }
    for (uint32_t i = 0; i < runs->size; i++) {
        const struct gpucoll_kernel_run *run = &runs->run[i];
        const uint64_t bytes = run->send_bytes;
        if (run->recv_bytes != bytes ||
            (bytes > 0 && (run->send != run->recv || (uintptr_t)run->send < end))) {
            return false;
        }
        end = bytes > 0 ? (uintptr_t)run->send + bytes : end;
    }
    return true;
}

static bool buffers_are_apart(const struct gpucoll_request *request, const struct gpucoll_run_list *runs)
{
    struct range sent = {UINTPTR_MAX, 0};
    struct range received = {UINTPTR_MAX, 0};
    for (uint32_t i = 0; i < runs->size; i++) {
        const struct gpucoll_kernel_run *run = &runs->run[i];
        widen(&sent, run->send, gpucoll_packing_sends(request, i) ? 0 : run->send_bytes);
        widen(&received, run->recv, gpucoll_packing_receives(request, i) ? 0 : run->recv_bytes);
    }
    if (sent.end <= received.begin || received.end <= sent.begin || runs_are_in_place(request, runs)) {
        return true;
    }
    for (uint32_t peer = 0; peer < runs->size; peer++) {
        for (uint32_t source = 0; runs->run[peer].send_bytes > 0 && source < runs->size; source++) {
            if (!is_apart(request, runs, source, peer)) {
                return false;
            }
        }
    }
    return true;
}

bool gpucoll_exchange_joins(struct gpucoll_accel *accel, const void *place, struct gpucoll_buffer *buffer,
                            const void **pointer)
{
    struct gpucoll_buffer found;
    accel->ops->classify(accel, place, &found);
    if (found.memory != GPUCOLL_MEMORY_DEVICE || (*pointer != NULL && found.device != buffer->device)) {
        buffer->memory = GPUCOLL_MEMORY_HOST; /* not all of it is on one GPU */
        return false;
    }
    found.migrates |= *pointer != NULL && buffer->migrates;
    *buffer = found;
    *pointer = place;
    return true;
}

bool gpucoll_exchange_runs_are_able(const struct gpucoll_request *request,
                                    const struct gpucoll_run_list *runs, struct gpucoll_buffer *buffer,
                                    const void **pointer)
{
    struct gpucoll_accel *accel = request->team->context->accel;
    bool sent = false;
    bool received = false;
    *pointer = NULL;
    for (uint32_t i = 0; i < runs->size; i++) {
        const struct gpucoll_kernel_run *run = &runs->run[i];
        /* A buffer is one allocation, so one of its places tells; but with the base NULL (MPI_BOTTOM) blocks
         * may be anywhere. */
        if (run->send_bytes > 0 && (!sent || request->send == NULL) &&
            !gpucoll_exchange_joins(accel, run->send, buffer, pointer)) {
            return false;
        }
        if (run->recv_bytes > 0 && (!received || request->recv == NULL) &&
            !gpucoll_exchange_joins(accel, run->recv, buffer, pointer)) {
            return false;
        }
        sent |= run->send_bytes > 0;
        received |= run->recv_bytes > 0;
    }
    return buffers_are_apart(request, runs);
}

bool gpucoll_exchange_is_able(struct gpucoll_request *request, struct gpucoll_buffer *buffer,
                              const void **pointer)
{
    const struct gpucoll_run_list runs = runs_of(request);
    return gpucoll_exchange_runs_are_able(request, &runs, buffer, pointer);
}

bool gpucoll_exchange_overwrites(struct gpucoll_request *request)
{
    const struct gpucoll_run_list runs = runs_of(request);
    const bool in_place = gpucoll_coll_reduces(request->coll) && request->send == request->recv;
    return in_place && !buffers_are_apart(request, &runs);
}

bool gpucoll_exchange_sends_same(enum gpucoll_coll coll)
{
    return !rows[coll].send_each;
}

bool gpucoll_exchange_is_uneven(enum gpucoll_coll coll)
{
    const struct row *row = &rows[coll];
    return row->pairs == ALL_TO_ALL && row->send_each && row->recv_each && !row->even;
}

bool gpucoll_exchange_has_counts(enum gpucoll_coll coll)
{
    return gpucoll_is_exchange(coll) && !rows[coll].even && !gpucoll_coll_reduces(coll);
}

bool gpucoll_exchange_own_fits(const struct gpucoll_coll_args *args, uint32_t own)
{
    const struct gpucoll_block *sent = gpucoll_exchange_send_block(args, own, own);
    const struct gpucoll_block *received = gpucoll_exchange_recv_block(args, own, own);
    return gpucoll_coll_reduces(args->coll) || sent == NULL || received == NULL ||
           sent->bytes == received->bytes;
}

uint64_t gpucoll_exchange_weight(uint32_t from, uint32_t to, uint64_t bytes)
{
    uint64_t word = (bytes ^ (uint64_t)from << 56 ^ (uint64_t)to << 48) * 0x9E3779B97F4A7C15u;
    word = (word ^ word >> 29) * 0xBF58476D1CE4E5B9u;
    return bytes == 0 ? 0 : word ^ word >> 32;
}

uint64_t gpucoll_exchange_longest(const struct gpucoll_request *request)
{
    uint64_t longest = 0;
    for (uint32_t i = 0; i < request->team->size; i++) {
        longest = gpucoll_larger(longest, gpucoll_agreement_post(request, i)->bytes);
    }
    return longest;
}

gpucoll_status gpucoll_exchange_start(struct gpucoll_request *request, enum gpucoll_kernel reduces,
                                      enum gpucoll_kernel moves)
{
    if (request->idle) {
        if (gpucoll_gate_wanted(request)) {
            gpucoll_gate_pass_by(request);
        }
        return GPUCOLL_OK;
    }
    return gpucoll_kernel_start_call(request, gpucoll_coll_reduces(request->coll) ? reduces : moves);
}

gpucoll_status gpucoll_exchange_wait(struct gpucoll_request *request)
{
    return request->idle ? GPUCOLL_OK : gpucoll_kernel_wait(request);
}
