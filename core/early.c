#include "core/early.h"

#include "core/agreement.h"
#include "core/plan/algorithm.h"
#include "core/request.h"

enum {
    FIRST_CALLS = 8, /* before a team has inboxes */
    MOST_MISSES = 4, /* in a row, before it does without */
    PAUSE = 1000     /* for so many calls */
};

/* A unit that has fewer epochs left is not taken any more. A team uses all of what it has taken: 2^32 calls, one straight after the other, take six hours. */
static const uint32_t least_epochs = 1u << 30;
static const uint64_t rest_ns = 1000000000u;

/* ---- inboxes ---- */

static bool is_free(const struct gpucoll_inboxes *inboxes, uint32_t unit, uint64_t now_ns)
{
    return !inboxes->taken[unit] && inboxes->rests_until_ns[unit] <= now_ns &&
           inboxes->latest[unit] < UINT32_MAX - least_epochs;
}

/* The first of `count` free units in a row; GPUCOLL_INBOX_UNITS if there are none. */
static uint32_t find_free(const struct gpucoll_inboxes *inboxes, uint32_t count)
{
    const uint64_t now_ns = gpucoll_now_ns();
    uint32_t free_units = 0;
    for (uint32_t unit = 0; unit < GPUCOLL_INBOX_UNITS; unit++) {
        free_units = is_free(inboxes, unit, now_ns) ? free_units + 1 : 0;
        if (free_units == count) {
            return unit + 1 - count;
        }
    }
    return GPUCOLL_INBOX_UNITS;
}

static void take(const struct gpucoll_request *request)
{
    struct gpucoll_team *team = request->team;
    struct gpucoll_early *early = &team->early;
    struct gpucoll_inboxes *inboxes = &request->gpu->inboxes;
    uint32_t latest = 0;
    pthread_mutex_lock(&team->context->lock);
    early->unit = find_free(inboxes, team->size);
    const bool found = early->unit != GPUCOLL_INBOX_UNITS;
    for (uint32_t i = 0; found && i < team->size; i++) {
        inboxes->taken[early->unit + i] = true;
        latest = inboxes->latest[early->unit + i] > latest ? inboxes->latest[early->unit + i] : latest;
    }
    pthread_mutex_unlock(&team->context->lock);
    if (found) {
        early->gpu = request->gpu;
        early->links = request->links;
        early->epoch = latest - (uint32_t)request->call; /* the next call has `latest` + 1 */
        early->last = request->call + (UINT32_MAX - latest);
    }
}

void gpucoll_early_close(struct gpucoll_team *team)
{
    struct gpucoll_early *early = &team->early;
    if (early->gpu == NULL || team->given_up) {
        return;
    }
    const uint64_t last = team->calls < early->last ? team->calls : early->last;
    const uint64_t now_ns = gpucoll_now_ns();
    for (uint32_t i = 0; i < team->size; i++) {
        early->gpu->inboxes.latest[early->unit + i] = early->epoch + (uint32_t)last;
        early->gpu->inboxes.rests_until_ns[early->unit + i] = now_ns + rest_ns;
        early->gpu->inboxes.taken[early->unit + i] = false;
    }
    early->gpu = NULL;
}

/* ---- calls ---- */

/* Of a request that has a lane: is it one that inboxes are for, as far as this rank knows? It makes no other, and nothing has to be done before or after its
 * kernel. */
static bool is_meant(const struct gpucoll_request *request)
{
    const struct gpucoll_team *team = request->team;
    return request->coll == GPUCOLL_ALLREDUCE && !request->own && request->form == GPUCOLL_FORM_BLOCKING &&
           request->bytes > 0 && request->bytes <= GPUCOLL_INBOX_BYTES && team->cluster == NULL &&
           !team->inner && team->size <= GPUCOLL_BELL_MAX_RANKS && request->lane == request->gpu->lanes &&
           !request->lane->company && request->packing == NULL && !request->migrates &&
           atomic_load_explicit(&team->board->agreed, memory_order_relaxed) == request->call - 1;
}

static bool is_for_inboxes(const struct gpucoll_request *request, const struct gpucoll_plan *plan)
{
    return plan->algorithm->inboxes && gpucoll_leader_suffices(GPUCOLL_KERNEL_ONESHOT, request->bytes,
                                                               request->team->size, plan->threads);
}

bool gpucoll_early_suits(const struct gpucoll_request *request)
{
    return is_for_inboxes(request, &request->plan);
}

/* Is it planned so, whatever the others' buffers are? That is how it is planned if all ranks take their inboxes. */
static bool is_planned(const struct gpucoll_request *request)
{
    struct gpucoll_team *team = request->team;
    const struct gpucoll_plan_call call = {
        .coll = request->coll, .functor = request->functor, .bytes = request->bytes};
    struct gpucoll_plan plan;
    return gpucoll_team_plan(team, team->early.links, &call, &plan) == GPUCOLL_OK &&
           is_for_inboxes(request, &plan);
}

static bool has_inbox(const struct gpucoll_request *request)
{
    const struct gpucoll_early *early = &request->team->early;
    return early->gpu == request->gpu && request->call >= early->resumes && request->call < early->last;
}

static uint64_t half_of(const struct gpucoll_request *request)
{
    return (uint64_t)(request->call % 2) * request->team->size * (GPUCOLL_INBOX_UNIT_BYTES / 2);
}

/* Where all ranks are expected to have their inboxes. */
static void fill_peers(const struct gpucoll_request *request, struct gpucoll_kernel_peer *peer)
{
    const struct gpucoll_early *early = &request->team->early;
    const uint64_t half = half_of(request);
    for (uint32_t i = 0; i < request->team->size; i++) {
        peer[i].lane = (char *)early->peer[i].lane + half;
        peer[i].epoch = early->peer[i].epoch + (uint32_t)request->call;
    }
}

/* If it is the call that all ranks are expected to make, and a kernel is there to take it, that is told. What company this rank has is not asked again before: a
 * kernel that is there to be rung for needs no gate, nor do the others wait for more than that. */
static void begin(struct gpucoll_request *request)
{
    const struct gpucoll_early *early = &request->team->early;
    if (early->latest != request->call - 1 || early->signature != request->post.signature || early->company ||
        !has_inbox(request) || !is_meant(request)) {
        return;
    }
    struct gpucoll_kernel_args args;
    request->links = early->links;
    request->plan = early->plan;
    request->stays_ns = early->stays_ns;
    gpucoll_kernel_args_own(request, &args);
    fill_peers(request, args.peer);
    request->early = gpucoll_kernel_ring_early(request, &args);
}

/* As offered if some rank takes no inbox. */
static void post_lane(struct gpucoll_request *request)
{
    struct gpucoll_post *post = &request->post;
    post->kind = GPUCOLL_POST_DEVICE;
    post->epoch = request->lane->epoch;
    post->lane = request->lane->offset;
}

static void post_inbox(struct gpucoll_request *request)
{
    const struct gpucoll_early *early = &request->team->early;
    struct gpucoll_post *post = &request->post;
    post->kind = GPUCOLL_POST_INBOX;
    post->company = GPUCOLL_ALONE;
    post->lane = early->gpu->inboxes_offset + (uint64_t)early->unit * GPUCOLL_INBOX_UNIT_BYTES +
                 half_of(request) - GPUCOLL_FLAG_BYTES;
    post->epoch = early->epoch + (uint32_t)request->call;
}

void gpucoll_early_post(struct gpucoll_request *request)
{
    struct gpucoll_early *early = &request->team->early;
    struct gpucoll_stats *stats = request->team->context->stats;
    begin(request);
    if (request->early) {
        __atomic_store_n(&stats->early, __atomic_load_n(&stats->early, __ATOMIC_RELAXED) + 1,
                         __ATOMIC_RELAXED);
    }
    const uint8_t company = gpucoll_agreement_own_company(request);
    early->company = company != GPUCOLL_ALONE;
    if (request->early ||
        (!early->company && has_inbox(request) && is_meant(request) && is_planned(request))) {
        post_inbox(request);
    } else {
        post_lane(request);
        request->post.company = company;
    }
}

void gpucoll_early_call_off(struct gpucoll_request *request)
{
    if (request->early) {
        request->gpu->device->accel->ops->call_off(request->lane->stream);
    }
    request->early = false;
}

/* All ranks have told where their inboxes are, which does not change. */
static void learn(const struct gpucoll_request *request)
{
    struct gpucoll_early *early = &request->team->early;
    const uint64_t half = half_of(request);
    early->links = request->links;
    for (uint32_t i = 0; i < request->team->size; i++) {
        const struct gpucoll_post *post = gpucoll_agreement_post(request, i);
        early->peer[i].lane = (char *)request->links->scratch[i] + post->lane - half;
        early->peer[i].epoch = post->epoch - (uint32_t)request->call;
    }
}

/* It is complete, through inboxes. */
static void remember(const struct gpucoll_request *request)
{
    struct gpucoll_early *early = &request->team->early;
    if (early->latest == 0) {
        learn(request);
    }
    if (!request->early) {
        early->signature = request->post.signature;
        early->plan = request->plan;
        early->stays_ns = request->stays_ns;
    }
    early->latest = request->call;
    early->misses = 0;
}

/* Some rank has taken none for it. All have seen that, and so do without for the same calls. */
static void miss(const struct gpucoll_request *request)
{
    struct gpucoll_early *early = &request->team->early;
    if (++early->misses == MOST_MISSES) {
        early->misses = 0;
        early->resumes = request->call + PAUSE;
    }
}

void gpucoll_early_note(const struct gpucoll_request *request)
{
    struct gpucoll_early *early = &request->team->early;
    if (request->inboxes) {
        remember(request);
    } else if (request->some_inboxes) {
        miss(request);
    } else if (request->team->context->config->early && early->gpu == NULL && !early->company &&
               is_meant(request) && gpucoll_early_suits(request) && ++early->small == FIRST_CALLS) {
        take(request);
    }
}
