#include "core/direct.h"

#include <stdlib.h>
#include "core/agreement.h"
#include "core/exchange.h"

/* An export that some rank of the team has brought to a call, by its index in that rank's table. */
struct gpucoll_met {
    uint64_t key;
    void *base; /* as mapped here */
    bool refused;
};

static struct gpucoll_met *met_at(const struct gpucoll_team *team, uint32_t rank, uint64_t key)
{
    return &team->met[rank * GPUCOLL_BOARD_EXPORTS + gpucoll_export_index(key)];
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

/* Is nothing that peers write read by this rank's own copies to others? */
static bool is_apart(const struct gpucoll_request *request)
{
    const uint32_t own = request->team->rank;
    for (uint32_t i = 0; i < request->team->size; i++) {
        const struct gpucoll_kernel_run *recv = &request->runs.run[i];
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

void gpucoll_direct_post(struct gpucoll_request *request, const struct gpucoll_buffer *buffer)
{
    struct gpucoll_context *context = request->team->context;
    struct gpucoll_post *post = &request->post;
    if (context->config->zero_copy == 0) {
        return;
    }
    if (request->bytes == 0 && gpucoll_is_exchange(request->coll)) {
        post->direct = true; /* takes no part */
        return;
    }
    if (request->bytes < context->config->zero_copy) {
        return;
    }
    if (!gpucoll_coll_reduces(request->coll) && !is_apart(request)) {
        return;
    }
    uintptr_t begin = 0;
    uintptr_t end = 0;
    if (!needs_export(request) || !receives(request, &begin, &end)) {
        post->direct = true;
        return;
    }
    struct gpucoll_export *entry = gpucoll_export_take(&context->exports, &context->board, request->gpu,
                                                       buffer, (const void *)begin, end - begin);
    if (entry == NULL) {
        return;
    }
    request->exported = entry;
    post->direct = true;
    post->export = entry->key;
    post->place = begin - entry->begin;
}

bool gpucoll_direct_possible(const struct gpucoll_request *request)
{
    const struct gpucoll_team *team = request->team;
    for (uint32_t i = 0; i < team->size; i++) {
        const struct gpucoll_post *post = gpucoll_agreement_post(request, i);
        if (!post->direct) {
            return false;
        }
        if (post->export != 0 && team->met != NULL) {
            const struct gpucoll_met *met = met_at(team, i, post->export);
            if (met->key == post->export && met->refused) {
                return false;
            }
        }
    }
    return true;
}

bool gpucoll_direct_met(struct gpucoll_request *request)
{
    struct gpucoll_team *team = request->team;
    bool all = true;
    for (uint32_t i = 0; i < team->size; i++) {
        const uint64_t key = gpucoll_agreement_post(request, i)->export;
        all &= key == 0 || (team->met != NULL && met_at(team, i, key)->key == key);
    }
    return all;
}

bool gpucoll_direct_map(struct gpucoll_request *request)
{
    struct gpucoll_team *team = request->team;
    if (team->met == NULL) {
        team->met = calloc((size_t)team->size * GPUCOLL_BOARD_EXPORTS, sizeof *team->met);
        if (team->met == NULL) {
            return false;
        }
    }
    bool all = true;
    pthread_mutex_lock(&team->context->lock);
    for (uint32_t i = 0; i < team->size; i++) {
        const uint64_t key = gpucoll_agreement_post(request, i)->export;
        if (key == 0) {
            continue;
        }
        struct gpucoll_met *met = met_at(team, i, key);
        *met = (struct gpucoll_met){.key = key};
        if (i != team->rank) {
            met->base = gpucoll_peer_map(team->members[i].peer, request->links->connection[i], key);
            all &= met->base != NULL;
        }
    }
    pthread_mutex_unlock(&team->context->lock);
    return all;
}

void gpucoll_direct_refuse(struct gpucoll_request *request)
{
    for (uint32_t i = 0; i < request->team->size && request->team->met != NULL; i++) {
        const uint64_t key = gpucoll_agreement_post(request, i)->export;
        if (key != 0) {
            met_at(request->team, i, key)->refused = true;
        }
    }
}

void *gpucoll_direct_result(const struct gpucoll_request *request, uint32_t rank)
{
    const struct gpucoll_post *post = gpucoll_agreement_post(request, rank);
    return (char *)met_at(request->team, rank, post->export)->base + post->place;
}

void *gpucoll_direct_place(const struct gpucoll_request *request, uint32_t rank)
{
    const struct gpucoll_team *team = request->team;
    const uint64_t *places = team->members[rank].board->places[request->call % GPUCOLL_RING];
    const struct gpucoll_post *post = gpucoll_agreement_post(request, rank);
    return (char *)met_at(team, rank, post->export)->base + places[team->rank];
}
