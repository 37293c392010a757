#include "core/agreement.h"

#include <string.h>
#include "core/base/clock.h"
#include "core/exchange.h"

const struct gpucoll_post *gpucoll_agreement_post(const struct gpucoll_request *request, uint32_t rank)
{
    return &request->team->members[rank].board->ring[request->call % GPUCOLL_RING];
}

/* Does the peer read the post of `call` no more? `head` is read before `active_from`, which is final for calls up to it. */
static bool has_read(struct gpucoll_team_board *peer, uint64_t call)
{
    if (atomic_load_explicit(&peer->agreed, memory_order_acquire) >= call) {
        return true;
    }
    if (atomic_load_explicit(&peer->head, memory_order_acquire) < call) {
        return false;
    }
    uint64_t active_from = atomic_load_explicit(&peer->active_from, memory_order_acquire);
    return active_from == 0 || call < active_from; /* it passed the call */
}

/* Do all ranks read the posts of `call` and before no more? Asked on every call, so what they had read when it was last asked is kept: by then
 * they are calls further, and to look at their lines takes as long as to see them arrive. */
static bool all_have_read(struct gpucoll_team *team, uint64_t call, uint32_t *missing)
{
    uint64_t least = UINT64_MAX;
    if (call <= team->read_by_all) {
        return true;
    }
    for (uint32_t i = 0; i < team->size; i++) {
        struct gpucoll_team_board *peer = team->members[i].board;
        uint64_t agreed = atomic_load_explicit(&peer->agreed, memory_order_acquire);
        least = agreed < least ? agreed : least;
        if (agreed < call && !has_read(peer, call)) {
            *missing = i;
            return false;
        }
    }
    team->read_by_all = least;
    return true;
}

bool gpucoll_agreement_publish(struct gpucoll_request *request, uint32_t *missing)
{
    struct gpucoll_team *team = request->team;
    struct gpucoll_team_board *board = team->board;
    if (atomic_load_explicit(&board->head, memory_order_relaxed) != request->call - 1) {
        *missing = team->rank; /* an earlier request of this rank is not published yet */
        return false;
    }
    if (request->call > GPUCOLL_RING && !all_have_read(team, request->call - GPUCOLL_RING, missing)) {
        return false;
    }
    struct gpucoll_post *post = &board->ring[request->call % GPUCOLL_RING];
    memcpy((char *)post + sizeof(post->call), (const char *)&request->post + sizeof(post->call),
           sizeof(*post) - sizeof(post->call));
    if (request->exported != NULL && gpucoll_is_exchange(request->coll)) {
        for (uint32_t i = 0; i < team->size; i++) {
            board->places[request->call % GPUCOLL_RING][i] =
                (uintptr_t)request->runs.run[i].recv - request->exported->begin;
        }
    }
    if (!team->active) {
        team->active = true;
        atomic_store_explicit(&board->agreed, request->call - 1, memory_order_relaxed);
        atomic_store_explicit(&board->active_from, request->call, memory_order_release);
    }
    atomic_store_explicit(&post->call, (uint32_t)request->call, memory_order_release);
    atomic_store_explicit(&board->head, request->call, memory_order_release);
    return true;
}

/* The own post is there; to look at it would call its line back from those that wait for it. */
static bool has_posted(const struct gpucoll_request *request, uint32_t rank)
{
    if (rank == request->team->rank) {
        return true;
    }
    const struct gpucoll_post *post = gpucoll_agreement_post(request, rank);
    return atomic_load_explicit(&post->call, memory_order_acquire) == (uint32_t)request->call;
}

/* Posted it, or passed it. */
static bool has_counted(const struct gpucoll_request *request, uint32_t rank)
{
    const struct gpucoll_team_board *board = request->team->members[rank].board;
    return atomic_load_explicit(&board->head, memory_order_acquire) >= request->call;
}

gpucoll_status gpucoll_agreement_arrived(struct gpucoll_request *request, uint32_t *missing)
{
    /* A post is looked for in its own line, which is then here. What is known of by `head` alone are calls that were passed: a second line, which
     * its owner stores to in every call and would have to fetch back from all that look. */
    const uint32_t looks_for_one_at_heads = 8;
    const bool at_heads = ++request->looks % looks_for_one_at_heads == 0;
    const uint32_t size = request->team->size;
    /* All are looked at, from the last to the first: one that leaves off at the first that is missing fetches the lines of the others one after
     * the other when that one has come. */
    uint32_t end = size;
    for (uint32_t i = size; i-- > request->arrived;) {
        end = has_posted(request, i) || (at_heads && has_counted(request, i)) ? end : i;
    }
    for (; request->arrived < end; request->arrived++) {
        request->passed |= !has_posted(request, request->arrived); /* it was posted before it was counted */
    }
    *missing = end;
    return end < size ? GPUCOLL_IN_PROGRESS : GPUCOLL_OK;
}

static void log_declined(const struct gpucoll_request *request, uint32_t rank, const char *why)
{
    const struct gpucoll_team *team = request->team;
    gpucoll_log(team->context->log, GPUCOLL_LOG_CALL, "%s: call %llu: rank %u declines: %s", team->name,
                (unsigned long long)request->call, team->members[rank].number, why);
}

gpucoll_status gpucoll_agreement_decide(struct gpucoll_request *request)
{
    struct gpucoll_team *team = request->team;
    gpucoll_status status = request->passed ? GPUCOLL_DECLINED : GPUCOLL_OK;
    const bool counts = gpucoll_exchange_has_counts(request->coll);
    uint64_t balance = 0;
    uint32_t inboxes = 0;
    for (uint32_t i = 0; i < team->size && !request->passed; i++) {
        const struct gpucoll_post *post = gpucoll_agreement_post(request, i);
        if (post->signature != gpucoll_agreement_post(request, 0)->signature) {
            gpucoll_help(team->context->log, "arguments-differ",
                         gpucoll_coll_name(gpucoll_request_coll(request)), team->name,
                         (unsigned long long)request->call, team->members[i].number);
            status = GPUCOLL_ERR_MISMATCH;
            break;
        }
        if (post->kind == GPUCOLL_POST_DECLINED) {
            const enum gpucoll_reason reason = (enum gpucoll_reason)post->card;
            log_declined(request, i, gpucoll_reason_text(reason));
            request->reason = status == GPUCOLL_OK ? reason : request->reason;
            status = GPUCOLL_DECLINED;
        }
        balance += counts ? post->balance : 0;
        request->lanes_follow |= post->kind == GPUCOLL_POST_LANE_FOLLOWS;
        inboxes += post->kind == GPUCOLL_POST_INBOX;
    }
    /* Open MPI's components take less than is expected, and have an error for more. */
    if (status == GPUCOLL_OK && balance != 0) {
        gpucoll_log(team->context->log, GPUCOLL_LOG_CALL, "%s: call %llu: all decline: %s", team->name,
                    (unsigned long long)request->call, gpucoll_reason_text(GPUCOLL_REASON_COUNTS));
        request->reason = GPUCOLL_REASON_COUNTS;
        status = GPUCOLL_DECLINED;
    }
    request->inboxes = status == GPUCOLL_OK && inboxes == team->size;
    request->some_inboxes = inboxes > 0 && !request->inboxes;
    request->lanes_follow |= request->some_inboxes;
    return status;
}

/* A kernel may linger on the first lane alone, so only there calls can come in time. */
uint8_t gpucoll_agreement_own_company(const struct gpucoll_request *request)
{
    const struct gpucoll_lane *lane = request->lane;
    const bool apart = lane == request->gpu->lanes && gpucoll_habit_apart(&lane->habit);
    return (uint8_t)(gpucoll_company_of(request->team->context, lane) | (apart ? GPUCOLL_COMPANY_APART : 0));
}

/* The rank has a lane now, or never will for this call. */
static void offer_lane(struct gpucoll_request *request, bool offered)
{
    struct gpucoll_team_board *board = request->team->board;
    struct gpucoll_post *post = &board->ring[request->call % GPUCOLL_RING];
    if (offered) {
        post->epoch = request->lane->epoch;
        post->lane = request->lane->offset;
        post->company = gpucoll_agreement_own_company(request);
    }
    atomic_store_explicit(&board->offered[request->call % GPUCOLL_RING], request->call << 1 | offered,
                          memory_order_release);
    request->offered = true;
}

bool gpucoll_agreement_refuse(struct gpucoll_request *request)
{
    if (request->state == GPUCOLL_QUEUED) {
        request->post.kind = GPUCOLL_POST_DECLINED;
        request->post.card = GPUCOLL_REASON_LANES;
    } else if (!request->offered && request->lane == NULL) {
        offer_lane(request, false);
    }
    return request->lane == NULL;
}

/* A rehearsal is to leave its kernel on the lane of those that linger, also if it has to wait a moment for the one before. */
static bool waits_for_first(struct gpucoll_request *request)
{
    const struct gpucoll_lane *first = request->gpu->lanes;
    if (!request->own || !first->taken || first->poisoned) {
        return false;
    }
    const uint64_t now = gpucoll_now_ns();
    request->short_since_ns = request->short_since_ns == 0 ? now : request->short_since_ns;
    return now - request->short_since_ns <= GPUCOLL_LANE_PATIENCE_NS;
}

/* Takes a lane and offers it. While there is none: is one sure to come, or the wait still short? Else the call is declined, since
 * the lanes may be held by calls that wait for a lane of a rank that waits for one of ours. */
static void try_offer(struct gpucoll_request *request)
{
    struct gpucoll_context *context = request->team->context;
    if (request->own && request->team->given_up) {
        offer_lane(request, false); /* the one before it has failed, and so would this, on another lane */
        return;
    }
    pthread_mutex_lock(&context->lock);
    if (waits_for_first(request)) {
        pthread_mutex_unlock(&context->lock);
        return;
    }
    request->lane = gpucoll_gpu_take_lane(request->gpu);
    enum gpucoll_lane_prospect prospect = gpucoll_gpu_lane_prospect(request->gpu);
    pthread_mutex_unlock(&context->lock);
    if (request->lane != NULL) {
        offer_lane(request, true);
        return;
    }
    uint64_t now = gpucoll_now_ns();
    if (prospect == GPUCOLL_LANE_SURELY || request->short_since_ns == 0) {
        request->short_since_ns = now;
    }
    if (prospect == GPUCOLL_LANE_NEVER || now - request->short_since_ns > GPUCOLL_LANE_PATIENCE_NS) {
        offer_lane(request, false);
    }
}

gpucoll_status gpucoll_agreement_lanes(struct gpucoll_request *request, uint32_t *missing)
{
    const struct gpucoll_team *team = request->team;
    gpucoll_status status = GPUCOLL_OK;
    if (request->lane == NULL && !request->offered) {
        try_offer(request);
    } else if (request->post.kind == GPUCOLL_POST_INBOX && !request->offered) {
        offer_lane(request, true);
    }
    for (uint32_t i = 0; i < team->size; i++) {
        const uint8_t kind = gpucoll_agreement_post(request, i)->kind;
        if (kind != GPUCOLL_POST_LANE_FOLLOWS && kind != GPUCOLL_POST_INBOX) {
            continue;
        }
        const _Atomic uint64_t *word = &team->members[i].board->offered[request->call % GPUCOLL_RING];
        uint64_t offered = atomic_load_explicit(word, memory_order_acquire);
        if (offered >> 1 != request->call) {
            *missing = i;
            return GPUCOLL_IN_PROGRESS;
        }
        if ((offered & 1) == 0) {
            log_declined(request, i, gpucoll_reason_text(GPUCOLL_REASON_LANES));
            request->reason = GPUCOLL_REASON_LANES;
            status = GPUCOLL_DECLINED;
        }
    }
    return status;
}

enum gpucoll_company_kind gpucoll_agreement_company(const struct gpucoll_request *request, bool *apart)
{
    uint8_t most = GPUCOLL_ALONE;
    uint8_t any = 0;
    for (uint32_t i = 0; i < request->team->size; i++) {
        const uint8_t company = gpucoll_agreement_post(request, i)->company;
        const uint8_t kind = company & ~GPUCOLL_COMPANY_APART;
        most = kind > most ? kind : most;
        any |= company;
    }
    *apart = (any & GPUCOLL_COMPANY_APART) != 0;
    return (enum gpucoll_company_kind)most;
}
