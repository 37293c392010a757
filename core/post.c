/*
 * Posting a call: what it is, which GPU holds its buffers, and what this rank tells the others of it.
 */
#include <stdlib.h>
#include <string.h>
#include "core/agreement.h"
#include "core/cluster/cluster_call.h"
#include "core/direct.h"
#include "core/exchange.h"
#include "core/observe.h"
#include "core/packing.h"
#include "core/request.h"
#include "core/watchdog.h"
#include "kernels/functors.h"

/* What must be equal on all ranks, in one word. */
static uint32_t signature(const struct gpucoll_coll_args *args)
{
    uint64_t size = gpucoll_is_exchange(args->coll) ? gpucoll_exchange_even_bytes(args) : args->count;
    uint64_t word = size * 0x9E3779B97F4A7C15u;
    word ^= (uint64_t)args->coll << 16;
    word ^= gpucoll_coll_reduces(args->coll) ? (uint64_t)args->op << 8 | (uint64_t)args->type : 0;
    word ^= (uint64_t)args->root << 24;
    word ^= (uint64_t)(args->form != GPUCOLL_FORM_BLOCKING) << 7; /* which plans are made by */
    return (uint32_t)(word ^ word >> 32);
}

/* Are both buffers device memory of one GPU? Then `recv` describes it, and says whether one of them migrates. */
static bool on_one_device(struct gpucoll_accel *accel, struct gpucoll_request *request,
                          struct gpucoll_buffer *recv)
{
    accel->ops->classify(accel, request->recv, recv);
    if (recv->memory != GPUCOLL_MEMORY_DEVICE || request->send == request->recv) {
        return recv->memory == GPUCOLL_MEMORY_DEVICE;
    }
    struct gpucoll_buffer send;
    accel->ops->classify(accel, request->send, &send);
    request->places[1] = (struct gpucoll_place){request->send, send.id};
    recv->migrates |= send.migrates;
    return send.memory == GPUCOLL_MEMORY_DEVICE && send.device == recv->device;
}

/* Can this rank's buffers be used natively? Then `buffer` and `*pointer` say where they are; NULL: this rank
 * has none. */
static bool is_able(struct gpucoll_request *request, struct gpucoll_buffer *buffer, const void **pointer)
{
    if (request->stages != NULL) {
        return gpucoll_cluster_is_able(request, buffer, pointer);
    }
    if (gpucoll_is_exchange(request->coll)) {
        return gpucoll_exchange_is_able(request, buffer, pointer);
    }
    *pointer = request->recv;
    return on_one_device(request->team->context->accel, request, buffer);
}

/* For a rank without buffers of its own in the call: any GPU will do, best the one its peers know. */
static struct gpucoll_gpu *any_gpu(const struct gpucoll_team *team)
{
    struct gpucoll_gpu *const *gpus = team->context->gpus;
    if (team->gpu != NULL) {
        return team->gpu;
    }
    for (int i = 0; i < GPUCOLL_BOARD_CARDS && team->links != NULL && gpus[i] != NULL; i++) {
        if (gpus[i] == team->links->gpu) {
            return gpus[i];
        }
    }
    return gpus[0];
}

/* Of a call that has no buffers of the application: the GPU that the process uses. */
static enum gpucoll_reason find_own(struct gpucoll_request *request)
{
    struct gpucoll_context *context = request->team->context;
    pthread_mutex_lock(&context->lock);
    request->gpu = gpucoll_context_any_gpu(context);
    pthread_mutex_unlock(&context->lock);
    return request->gpu != NULL ? GPUCOLL_REASON_NONE : GPUCOLL_REASON_GPU;
}

/* What a rehearsal works on: from here on it is as if the application had called. */
static bool lend(struct gpucoll_request *request)
{
    struct gpucoll_context *context = request->team->context;
    pthread_mutex_lock(&context->lock);
    struct gpucoll_gpu *gpu = gpucoll_context_any_gpu(context);
    if (gpu != NULL) {
        request->lent = gpucoll_device_pool_get(&gpu->pool, request->bytes);
        request->lender = gpu;
    }
    pthread_mutex_unlock(&context->lock);
    request->recv = request->lent;
    request->send = request->lent;
    return request->lent != NULL;
}

/* Before the others have come. A call of several hosts, which all have come to, can no longer be declined, and waits for lanes for what it packs and for its
 * local calls: so one is left, for those whose ranks are all there. */
static struct gpucoll_lane *take_lane(const struct gpucoll_request *request)
{
    const bool spans = request->team->context->clusters != NULL;
    return spans ? gpucoll_gpu_take_lane_but_one(request->gpu) : gpucoll_gpu_take_lane(request->gpu);
}

/* Would a call of several hosts, which is declined at its post or never, wait for a lane in vain? */
static bool lacks_lanes(const struct gpucoll_request *request)
{
    return request->stages != NULL && gpucoll_gpu_lane_prospect(request->gpu) == GPUCOLL_LANE_NEVER;
}

/* Finds the GPU that holds the buffers, if they are on one, else says why there is none. Takes a lane of it now if that is wanted: a
 * lane is for calls whose peers can be expected at any moment: somebody waits in this one, and no earlier one of the team is under
 * way. */
static enum gpucoll_reason find_gpu(struct gpucoll_request *request, bool wants_lane)
{
    struct gpucoll_context *context = request->team->context;
    if (request->coll == GPUCOLL_WARMUP) {
        return find_own(request);
    }
    if (request->own && !lend(request)) {
        return GPUCOLL_REASON_PACKING;
    }
    struct gpucoll_buffer buffer = {.memory = GPUCOLL_MEMORY_HOST};
    const void *pointer = NULL;
    if (!is_able(request, &buffer, &pointer)) {
        bool on_device = gpucoll_is_exchange(request->coll) && buffer.memory == GPUCOLL_MEMORY_DEVICE;
        return on_device ? GPUCOLL_REASON_OVERLAP : GPUCOLL_REASON_MEMORY;
    }
    request->migrates = buffer.migrates;
    request->places[0] = (struct gpucoll_place){pointer, buffer.id};
    if (context->config->sync_device && pointer != NULL &&
        context->accel->ops->synchronize(context->accel, pointer) != GPUCOLL_OK) {
        return GPUCOLL_REASON_GPU;
    }
    pthread_mutex_lock(&context->lock);
    request->gpu = pointer != NULL ? gpucoll_context_gpu(context, &buffer, pointer) : any_gpu(request->team);
    enum gpucoll_reason reason = request->gpu != NULL ? GPUCOLL_REASON_NONE : GPUCOLL_REASON_GPU;
    if (request->gpu != NULL && lacks_lanes(request)) {
        request->gpu = NULL;
        reason = GPUCOLL_REASON_LANES;
    }
    request->lane = request->gpu != NULL && wants_lane ? take_lane(request) : NULL;
    if (request->gpu != NULL && !(request->stages != NULL ? gpucoll_cluster_reserve(request)
                                                          : gpucoll_packing_reserve(request, &buffer))) {
        if (request->lane != NULL) {
            gpucoll_gpu_give_lane(request->lane);
        }
        request->lane = NULL;
        request->gpu = NULL;
        reason = GPUCOLL_REASON_PACKING;
    }
    if (request->gpu != NULL && request->stages == NULL) {
        gpucoll_direct_post(request);
    }
    pthread_mutex_unlock(&context->lock);
    return reason;
}

/* What the counts of this rank and those of this host's others weigh: of a call of several hosts, messages tell the rest. */
static uint64_t balance_of(const struct gpucoll_request *request)
{
    const struct gpucoll_team *team = request->team;
    const struct gpucoll_kernel_run *runs =
        request->stages != NULL ? gpucoll_cluster_runs(request) : request->runs.run;
    uint64_t balance = 0;
    for (uint32_t i = 0; i < team->size && runs != NULL; i++) {
        const struct gpucoll_kernel_run *run = &runs[request->stages != NULL ? team->members[i].number : i];
        if (i != team->rank) {
            balance += gpucoll_exchange_weight(team->rank, i, run->send_bytes);
            balance -= gpucoll_exchange_weight(i, team->rank, run->recv_bytes);
        }
    }
    return balance;
}

static void fill_post(struct gpucoll_request *request, const struct gpucoll_coll_args *args)
{
    struct gpucoll_post *post = &request->post;
    post->signature = signature(args) ^ request->signature;
    post->bytes = request->bytes;
    if (gpucoll_exchange_has_counts(request->coll) && request->refused == GPUCOLL_REASON_NONE &&
        !request->team->inner) {
        post->balance = balance_of(request);
    }
    if (request->coll == GPUCOLL_BARRIER && request->refused == GPUCOLL_REASON_NONE) {
        post->kind = GPUCOLL_POST_DEVICE; /* that this rank has come is all that there is to say */
        return;
    }
    post->kind = GPUCOLL_POST_DECLINED;
    const bool awaited = args->form == GPUCOLL_FORM_BLOCKING && request->team->decided == request->call - 1 &&
                         request->stages == NULL && !request->own;
    const enum gpucoll_reason reason =
        request->refused != GPUCOLL_REASON_NONE ? request->refused : find_gpu(request, awaited);
    post->card = (uint8_t)reason;
    if (request->gpu == NULL) {
        return;
    }
    /* The stages of several hosts take lanes of their own. */
    post->kind = request->stages != NULL ? GPUCOLL_POST_DEVICE : GPUCOLL_POST_LANE_FOLLOWS;
    post->card = (uint8_t)request->gpu->card_index;
    if (request->coll == GPUCOLL_WARMUP) {
        post->kind = GPUCOLL_POST_DEVICE; /* nothing is run on a lane */
    }
    if (request->lane != NULL) {
        gpucoll_early_post(request);
    }
}

/* A zeroed request; one that the team has kept, so that a call does not allocate. */
static struct gpucoll_request *new_request(struct gpucoll_team *team)
{
    struct gpucoll_request *request = team->spare;
    if (request == NULL) {
        return calloc(1, sizeof *request);
    }
    team->spare = request->spare;
    team->spares--;
    memset(request, 0, offsetof(struct gpucoll_request, runs));
    return request;
}

void gpucoll_request_keep(struct gpucoll_team *team, struct gpucoll_request *request)
{
    if (team->spares == GPUCOLL_SPARE_REQUESTS) {
        free(request);
        return;
    }
    request->spare = team->spare;
    team->spare = request;
    team->spares++;
}

_Static_assert((int)GPUCOLL_POSTED_AHEAD <= (int)GPUCOLL_RING, "a post waits for room in the ring");

bool gpucoll_reserve(struct gpucoll_team *team, uint32_t calls)
{
    while (team->spares < calls) {
        struct gpucoll_request *request = calls <= GPUCOLL_SPARE_REQUESTS ? calloc(1, sizeof *request) : NULL;
        if (request == NULL) {
            return false;
        }
        gpucoll_request_keep(team, request);
    }
    return true;
}

static bool own_fits(const struct gpucoll_team *team, const struct gpucoll_coll_args *args)
{
    return !gpucoll_is_exchange(args->coll) || team->inner ||
           gpucoll_exchange_own_fits(args, team->cluster != NULL ? team->cluster->rank : team->rank);
}

/* What the request is to do, of all that `args` say. */
static void describe(struct gpucoll_request *request, const struct gpucoll_coll_args *args)
{
    if (request->team->cluster != NULL && gpucoll_cluster_skips(request->team->cluster, args)) {
        request->skipped = true;
        request->refused = GPUCOLL_REASON_SMALL;
    } else if (request->team->cluster != NULL) {
        gpucoll_cluster_post(request, args);
    } else if (gpucoll_is_exchange(args->coll)) {
        gpucoll_exchange_runs(request, args);
        if (!gpucoll_packing_open(request, args)) {
            request->refused = GPUCOLL_REASON_HOST_MEMORY;
        }
    } else {
        request->bytes = args->count * gpucoll_type_size(args->type);
    }
    if (request->refused == GPUCOLL_REASON_NONE && !own_fits(request->team, args)) {
        request->refused = GPUCOLL_REASON_COUNTS;
    }
}

void gpucoll_forsake(struct gpucoll_team *team)
{
    ++team->calls; /* which the others make: what this rank posts next must not be taken for it */
    gpucoll_watchdog_forsake(team);
}

gpucoll_status gpucoll_post(struct gpucoll_team *team, const struct gpucoll_coll_args *args,
                            struct gpucoll_request **out)
{
    const enum gpucoll_coll coll = args->coll == GPUCOLL_REHEARSAL ? GPUCOLL_ALLREDUCE : args->coll;
    int functor =
        gpucoll_coll_reduces(coll) ? gpucoll_functor(args->op, args->type) : GPUCOLL_FUNCTOR_OF_MOVES;
    if (functor < 0 || (unsigned)args->coll > GPUCOLL_REHEARSAL) {
        return GPUCOLL_ERR_INVALID;
    }
    struct gpucoll_request *request = new_request(team);
    if (request == NULL) {
        gpucoll_forsake(team);
        return GPUCOLL_ERR_NO_MEMORY;
    }
    request->team = team;
    request->own = gpucoll_coll_is_own(args->coll);
    request->coll = coll;
    request->op = args->op;
    request->type = args->type;
    request->root = args->root;
    request->functor = functor;
    request->recv = args->recv;
    request->send = args->send == GPUCOLL_IN_PLACE ? args->recv : args->send;
    request->refused = !args->unable  ? GPUCOLL_REASON_NONE
                       : request->own ? GPUCOLL_REASON_LANES
                                      : GPUCOLL_REASON_LAYOUT;
    request->form = (uint8_t)args->form;
    describe(request, args);
    gpucoll_observe_post(request);
    request->call = ++team->calls;
    if ((team->size > 1 || team->cluster != NULL) && !team->given_up) {
        request->state = GPUCOLL_QUEUED;
        fill_post(request, args);
    }
    *out = request;
    return GPUCOLL_OK;
}
