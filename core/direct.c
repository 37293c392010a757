#include "core/direct.h"

#include <stdlib.h>
#include "core/agreement.h"
#include "core/exchange.h"
#include "core/packing.h"
#include "core/plan/algorithm.h"

/* An export that some rank of the team has brought to a call, by its index in that rank's table. */
struct gpucoll_met {
    uint64_t key;
    bool refused;           /* as what peers write to, */
    bool refused_as_source; /* and as what they read from: one allocation may be both */
};

/* The same as mapped for the calls of some links: for another GPU of this process memory may be elsewhere, or out of its reach. */
struct gpucoll_direct_base {
    uint64_t key;  /* 0: it is not mapped, on some rank */
    void *address; /* here; of the own rank NULL */
};

static uint32_t place_of(uint32_t rank, uint64_t key)
{
    return rank * GPUCOLL_BOARD_EXPORTS + gpucoll_export_index(key);
}

static struct gpucoll_met *met_at(const struct gpucoll_team *team, uint32_t rank, uint64_t key)
{
    return &team->met[place_of(rank, key)];
}

static char *base_of(const struct gpucoll_request *request, uint32_t rank, uint64_t key)
{
    return request->links->bases[place_of(rank, key)].address;
}

/* NULL: the team has not met it. */
static struct gpucoll_met *find_met(const struct gpucoll_team *team, uint32_t rank, uint64_t key)
{
    struct gpucoll_met *met = key != 0 && team->met != NULL ? met_at(team, rank, key) : NULL;
    return met != NULL && met->key == key ? met : NULL;
}

static bool is_refused(const struct gpucoll_team *team, uint32_t rank, uint64_t key)
{
    const struct gpucoll_met *met = find_met(team, rank, key);
    return met != NULL && met->refused;
}

static bool is_refused_as_source(const struct gpucoll_team *team, uint32_t rank, uint64_t key)
{
    const struct gpucoll_met *met = find_met(team, rank, key);
    return met != NULL && met->refused_as_source;
}

/* The part of the receive buffer that peers write, from the first byte to the last. */
static bool receives(const struct gpucoll_request *request, uintptr_t *begin, uintptr_t *end)
{
    *begin = UINTPTR_MAX;
    *end = 0;
    if (!gpucoll_is_exchange(request->coll)) {
        *begin = (uintptr_t)request->recv;
        *end = *begin + request->bytes;
        return request->bytes > 0;
    }
    const bool reduces = gpucoll_coll_reduces(request->coll);
    const uint32_t own = request->team->rank;
    for (uint32_t i = 0; i < request->team->size; i++) {
        const struct gpucoll_kernel_run *run = &request->runs.run[i];
        if ((i == own) != reduces || run->recv_bytes == 0) {
            continue;
        }
        const uintptr_t at = (uintptr_t)run->recv;
        *begin = at < *begin ? at : *begin;
        *end = at + run->recv_bytes > *end ? at + run->recv_bytes : *end;
    }
    return *end > 0;
}

/* Is nothing that peers write, or this rank for itself, read by its copies to others? What it has in place is not written. */
static bool is_apart(const struct gpucoll_request *request)
{
    const uint32_t own = request->team->rank;
    for (uint32_t i = 0; i < request->team->size; i++) {
        const struct gpucoll_kernel_run *recv = &request->runs.run[i];
        if (i == own && recv->recv == recv->send) {
            continue;
        }
        for (uint32_t j = 0; j < request->team->size; j++) {
            const struct gpucoll_kernel_run *send = &request->runs.run[j];
            const uintptr_t to = (uintptr_t)recv->recv;
            const uintptr_t from = (uintptr_t)send->send;
            const bool both_own = i == own && j == own;
            if (!both_own && recv->recv_bytes > 0 && send->send_bytes > 0 && to < from + send->send_bytes &&
                from < to + recv->recv_bytes) {
                return false;
            }
        }
    }
    return true;
}

/* Reductions but all-reduce: only the root of a reduce has its result written by peers. */
static bool needs_export(const struct gpucoll_request *request)
{
    return !gpucoll_coll_reduces(request->coll) || request->coll == GPUCOLL_ALLREDUCE ||
           request->coll == GPUCOLL_REDUCE;
}

/* Reductions that the bulk kernel does, and broadcasts, of which others read the root's message. */
static bool may_be_bulk(const struct gpucoll_request *request)
{
    return request->coll == GPUCOLL_BCAST || request->coll == GPUCOLL_ALLREDUCE ||
           request->coll == GPUCOLL_REDUCE || request->coll == GPUCOLL_REDUCE_SCATTER ||
           request->coll == GPUCOLL_REDUCE_SCATTER_BLOCK;
}

/* All that this rank sends: one run of bytes. */
struct source {
    uintptr_t begin;
    uintptr_t end;
};

static struct source source_of(const struct gpucoll_request *request)
{
    struct source source = {(uintptr_t)request->send, (uintptr_t)request->send + request->bytes};
    if (!gpucoll_is_exchange(request->coll)) {
        return source;
    }
    source = (struct source){UINTPTR_MAX, 0};
    for (uint32_t i = 0; i < request->team->size; i++) {
        const struct gpucoll_kernel_run *run = &request->runs.run[i];
        const uintptr_t begin = (uintptr_t)run->send;
        if (run->send_bytes > 0) {
            source.begin = begin < source.begin ? begin : source.begin;
            source.end = begin + run->send_bytes > source.end ? begin + run->send_bytes : source.end;
        }
    }
    return source;
}

const void *gpucoll_direct_own_source(const struct gpucoll_request *request)
{
    return (const void *)source_of(request).begin;
}

/* Copies in bulk begin at multiples of a pack. */
static bool is_aligned(const struct gpucoll_request *request)
{
    uintptr_t all = 0;
    if (!gpucoll_is_exchange(request->coll)) {
        all = (uintptr_t)request->send | (uintptr_t)request->recv;
    }
    for (uint32_t i = 0; gpucoll_is_exchange(request->coll) && i < request->team->size; i++) {
        const struct gpucoll_kernel_run *run = &request->runs.run[i];
        all |= run->send_bytes > 0 ? (uintptr_t)run->send : 0;
        all |= i == request->team->rank && run->recv_bytes > 0 ? (uintptr_t)run->recv : 0;
    }
    return all % GPUCOLL_PACK_BYTES == 0;
}

/* The export of memory of this rank that peers reach. An allocation that was met in this very call, which is `fresh`, is not exported yet: it
 * may be used once. */
static struct gpucoll_export *take(struct gpucoll_request *request, uintptr_t begin, uintptr_t end,
                                   uint64_t fresh, uint64_t *id)
{
    struct gpucoll_context *context = request->team->context;
    *id = gpucoll_export_identify(&context->exports, request->gpu, request->places, (const void *)begin,
                                  end - begin);
    return *id != 0 && *id == fresh ? NULL
                                    : gpucoll_export_take(&context->exports, &context->board, request->gpu,
                                                          *id, (const void *)begin, end - begin);
}

/* Nobody may write to what others read: the own result of a reduce-scatter may take the place of the own block, which no other
 * rank reads, but not, as MPI_IN_PLACE has it, that of the first. */
static bool is_clear(const struct gpucoll_request *request, const struct source *source)
{
    if (request->coll != GPUCOLL_REDUCE_SCATTER && request->coll != GPUCOLL_REDUCE_SCATTER_BLOCK) {
        return true;
    }
    const struct gpucoll_kernel_run *own = &request->runs.run[request->team->rank];
    const uintptr_t begin = (uintptr_t)own->recv;
    const uintptr_t end = begin + own->recv_bytes;
    return own->recv_bytes == 0 || own->recv == own->send || end <= source->begin || source->end <= begin;
}

/* What the post says about reading in bulk. `fresh`: see above; 0: none. What is packed is there later than the post, when this rank's kernel has packed
 * it. */
static void post_bulk(struct gpucoll_request *request, uint64_t fresh)
{
    struct gpucoll_post *post = &request->post;
    const struct source source = source_of(request);
    struct gpucoll_device *device = request->gpu->device;
    if (!may_be_bulk(request) || gpucoll_packing_packs(request->packing) || source.end == 0 ||
        !is_aligned(request) || !is_clear(request, &source) || !device->accel->ops->device_bulk(device)) {
        return;
    }
    uint64_t id;
    request->sourced = take(request, source.begin, source.end, fresh, &id);
    if (request->sourced != NULL) {
        post->source = request->sourced->key;
        post->source_place = source.begin - request->sourced->begin;
    }
}

/* Where there is a result, it begins at a whole pack, and nothing that is sent is there. */
static bool has_room(const struct gpucoll_request *request)
{
    uintptr_t send = (uintptr_t)request->send;
    uintptr_t recv = (uintptr_t)request->recv;
    if (request->coll == GPUCOLL_REDUCE) {
        const struct gpucoll_kernel_run *run = &request->runs.run[request->root];
        if (request->team->rank != request->root) {
            return true;
        }
        send = (uintptr_t)run->send;
        recv = (uintptr_t)run->recv;
    } else if (request->coll != GPUCOLL_ALLREDUCE) {
        return false;
    }
    return recv % GPUCOLL_PACK_BYTES == 0 && (recv + request->bytes <= send || send + request->bytes <= recv);
}

/* What it says about what peers write; returns the allocation if it is fresh. */
static uint64_t post_stores(struct gpucoll_request *request)
{
    struct gpucoll_post *post = &request->post;
    uintptr_t begin = 0;
    uintptr_t end = 0;
    uint64_t id = 0;
    if (!needs_export(request) || !receives(request, &begin, &end)) {
        post->direct = has_room(request) ? GPUCOLL_POST_ROOM : GPUCOLL_POST_DIRECT;
        return 0;
    }
    request->exported = take(request, begin, end, 0, &id);
    if (request->exported == NULL) {
        return id;
    }
    post->direct = has_room(request) ? GPUCOLL_POST_ROOM : GPUCOLL_POST_DIRECT;
    post->export = request->exported->key;
    post->place = begin - request->exported->begin;
    return 0;
}

/* What the team has met is noted by every rank alike, so a rank that has no memory for it must not say that a call may be direct. */
static bool has_table(struct gpucoll_team *team)
{
    if (team->met == NULL) {
        team->met = calloc((size_t)team->size * GPUCOLL_BOARD_EXPORTS, sizeof *team->met);
    }
    return team->met != NULL;
}

void gpucoll_direct_post(struct gpucoll_request *request)
{
    struct gpucoll_context *context = request->team->context;
    struct gpucoll_post *post = &request->post;
    const bool no_part = request->bytes == 0 && gpucoll_is_exchange(request->coll);
    if (context->config->zero_copy == 0 || (request->bytes < context->config->zero_copy && !no_part) ||
        !has_table(request->team)) {
        return;
    }
    if (no_part) {
        post->direct = GPUCOLL_POST_DIRECT;
        return;
    }
    if (!gpucoll_coll_reduces(request->coll) && !is_apart(request)) {
        return;
    }
    post_bulk(request, post_stores(request));
}

/* Can what the rank sends be read in bulk? Of a broadcast that is the root's message; all others have to have it at multiples of a pack as well. */
static bool can_be_read(const struct gpucoll_request *request, uint32_t rank)
{
    const struct gpucoll_post *post = gpucoll_agreement_post(request, rank);
    if (request->coll == GPUCOLL_BCAST && rank != request->root) {
        return post->place % GPUCOLL_PACK_BYTES == 0;
    }
    return post->source != 0 && !is_refused_as_source(request->team, rank, post->source);
}

enum gpucoll_direct gpucoll_direct_possible(const struct gpucoll_request *request)
{
    enum gpucoll_direct direct = GPUCOLL_DIRECT_BULK;
    for (uint32_t i = 0; i < request->team->size; i++) {
        const struct gpucoll_post *post = gpucoll_agreement_post(request, i);
        if (post->direct == GPUCOLL_POST_NOT_DIRECT || is_refused(request->team, i, post->export)) {
            return GPUCOLL_DIRECT_NOT;
        }
        if (!can_be_read(request, i)) {
            direct = GPUCOLL_DIRECT_STORES;
        }
    }
    return direct;
}

bool gpucoll_direct_has_room(const struct gpucoll_request *request)
{
    for (uint32_t i = 0; i < request->team->size; i++) {
        if (gpucoll_agreement_post(request, i)->direct != GPUCOLL_POST_ROOM) {
            return false;
        }
    }
    return true;
}

/* The exports of a rank that a call needs which reaches so far, at most two; 0: none. */
struct keys {
    uint64_t key[2];
};

static struct keys keys_of(const struct gpucoll_request *request, uint32_t rank, enum gpucoll_direct reach)
{
    const struct gpucoll_post *post = gpucoll_agreement_post(request, rank);
    return (struct keys){{post->export, reach == GPUCOLL_DIRECT_BULK ? post->source : 0}};
}

bool gpucoll_direct_met(struct gpucoll_request *request)
{
    const enum gpucoll_direct reach = gpucoll_algorithm_direct(request->plan.algorithm);
    bool all = true;
    for (uint32_t i = 0; i < request->team->size; i++) {
        const struct keys keys = keys_of(request, i, reach);
        for (int j = 0; j < 2; j++) {
            all &= keys.key[j] == 0 || (request->links->bases != NULL &&
                                        request->links->bases[place_of(i, keys.key[j])].key == keys.key[j]);
        }
    }
    return all;
}

/* Calls of other links may be under way with this export: theirs stays as it is. */
static bool map(const struct gpucoll_request *request, uint32_t rank, uint64_t key)
{
    const struct gpucoll_team *team = request->team;
    struct gpucoll_links *links = request->links;
    struct gpucoll_met *met = met_at(team, rank, key);
    if (met->key != key) {
        *met = (struct gpucoll_met){.key = key};
    }
    if (links->bases == NULL) {
        return false;
    }
    void *address = NULL;
    if (rank != team->rank) {
        address = gpucoll_peer_map(team->members[rank].peer, links->connection[rank], key);
    }
    links->bases[place_of(rank, key)] = (struct gpucoll_direct_base){key, address};
    return rank == team->rank || address != NULL;
}

bool gpucoll_direct_map(struct gpucoll_request *request, enum gpucoll_direct reach)
{
    const struct gpucoll_team *team = request->team;
    struct gpucoll_links *links = request->links;
    bool all = true;
    if (links->bases == NULL) {
        links->bases = calloc((size_t)team->size * GPUCOLL_BOARD_EXPORTS, sizeof *links->bases);
    }
    pthread_mutex_lock(&team->context->lock);
    for (uint32_t i = 0; i < team->size; i++) {
        const struct keys keys = keys_of(request, i, reach);
        for (int j = 0; j < 2; j++) {
            all &= keys.key[j] == 0 || map(request, i, keys.key[j]);
        }
    }
    pthread_mutex_unlock(&team->context->lock);
    return all;
}

void gpucoll_direct_forget(struct gpucoll_request *request, enum gpucoll_direct reach)
{
    for (uint32_t i = 0; i < request->team->size; i++) {
        const struct keys keys = keys_of(request, i, reach);
        for (int j = 0; j < 2; j++) {
            if (keys.key[j] != 0 && request->links->bases != NULL) {
                request->links->bases[place_of(i, keys.key[j])].key = 0;
            }
        }
    }
}

void gpucoll_direct_refuse(struct gpucoll_request *request)
{
    for (uint32_t i = 0; i < request->team->size; i++) {
        struct gpucoll_met *met = find_met(request->team, i, gpucoll_agreement_post(request, i)->export);
        if (met != NULL) {
            met->refused = true;
        }
    }
}

void gpucoll_direct_refuse_sources(struct gpucoll_request *request)
{
    for (uint32_t i = 0; i < request->team->size; i++) {
        struct gpucoll_met *met = find_met(request->team, i, gpucoll_agreement_post(request, i)->source);
        if (met != NULL) {
            met->refused_as_source = true;
        }
    }
}

void *gpucoll_direct_result(const struct gpucoll_request *request, uint32_t rank)
{
    const struct gpucoll_post *post = gpucoll_agreement_post(request, rank);
    return base_of(request, rank, post->export) + post->place;
}

const void *gpucoll_direct_source(const struct gpucoll_request *request, uint32_t rank)
{
    const struct gpucoll_post *post = gpucoll_agreement_post(request, rank);
    return base_of(request, rank, post->source) + post->source_place;
}

void *gpucoll_direct_place(const struct gpucoll_request *request, uint32_t rank)
{
    const struct gpucoll_team *team = request->team;
    const uint64_t *places = team->members[rank].board->places[request->call % GPUCOLL_RING];
    const struct gpucoll_post *post = gpucoll_agreement_post(request, rank);
    if (post->export == 0) {
        return NULL;
    }
    return base_of(request, rank, post->export) + places[team->rank];
}
