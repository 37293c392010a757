#include "core/links.h"

#include <string.h>
#include "core/agreement.h"
#include "core/watchdog.h"

static void enter(struct gpucoll_request *request, uint32_t step, bool failed)
{
    request->connecting = step;
    gpucoll_barrier_enter(request, failed);
    gpucoll_watchdog_reset(request);
}

gpucoll_status gpucoll_links_begin(struct gpucoll_request *request)
{
    bool reached = false;
    gpucoll_status status = gpucoll_agreement_connect(request, &reached);
    if (status == GPUCOLL_OK) {
        __atomic_fetch_add(&request->team->context->setups->links, 1, __ATOMIC_RELAXED);
        request->links->next = request->team->links;
        request->team->links = request->links;
        enter(request, 1, !reached);
    }
    return status;
}

/* From what is equal on all ranks. Those of ranks that share a GPU need no turn on it. */
static bool wants_outboxes(const struct gpucoll_request *request)
{
    const struct gpucoll_links *links = request->links;
    const unsigned wanted = gpucoll_tl_team_ways(request->team->context->config->transports,
                                                 (links->ways & GPUCOLL_TL_STORES) != 0,
                                                 gpucoll_links_in_turn(links), links->bandwidth);
    return (wanted & ~(unsigned)GPUCOLL_TL_STORES) != 0;
}

/* A path slower than the hardware might allow is said once, by one rank. */
static void say_slow(const struct gpucoll_request *request)
{
    struct gpucoll_context *context = request->team->context;
    const unsigned allowed = gpucoll_tl_allowed_ways(context->config->transports);
    const bool asked_for = strcmp(context->config->p2p_level, "auto") != 0;
    if ((allowed & GPUCOLL_TL_STORES) && !asked_for && request->team->rank == 0 && !context->slow_said) {
        context->slow_said = true;
        gpucoll_help_slow(context->log, "no-peer-access", request->team->name);
    }
}

static bool offer(struct gpucoll_request *request)
{
    struct gpucoll_context *context = request->team->context;
    pthread_mutex_lock(&context->lock);
    bool offered = gpucoll_gpu_offer(request->gpu);
    struct gpucoll_board_header *board = gpucoll_board_header(&context->board.segment);
    struct gpucoll_tl_card *card = &board->cards[request->gpu->card_index];
    if (offered && card->outbox.bytes == 0) { /* new: the peers read it after the coming barrier */
        card->outbox = request->gpu->card.outbox;
        card->cores = request->gpu->card.cores;
    }
    pthread_mutex_unlock(&context->lock);
    return offered;
}

static bool connect_outboxes(struct gpucoll_request *request)
{
    struct gpucoll_team *team = request->team;
    struct gpucoll_links *links = request->links;
    bool reached = true;
    pthread_mutex_lock(&team->context->lock);
    for (uint32_t i = 0; i < team->size; i++) {
        struct gpucoll_connection *connection = NULL;
        if (i == team->rank) {
            links->outbox[i] = request->gpu->outbox.user;
        } else if (gpucoll_peer_connect_outbox(team->members[i].peer, request->gpu, links->card[i],
                                               &connection) == GPUCOLL_OK) {
            links->outbox[i] = connection->outbox.outbox.user;
            links->pipe = connection->outbox.tl->pipe;
        } else {
            reached = false;
        }
    }
    pthread_mutex_unlock(&team->context->lock);
    return reached;
}

/* Of two ranks: the same order in every team. (By rank in tests, whose ranks are threads.) */
static bool stands_before(const struct gpucoll_team *team, uint32_t a, uint32_t b)
{
    const uint32_t pid = team->members[a].peer->board.name.owner.pid;
    const uint32_t other = team->members[b].peer->board.name.owner.pid;
    return pid != other ? pid < other : a < b;
}

/* The process's threads for sums, at the first links that have any. They share the cores with the ranks that may use the same, and with
 * processes of the job on this machine that this team does not have: of those only the number is known. */
static void open_pool(struct gpucoll_request *request)
{
    struct gpucoll_team *team = request->team;
    struct gpucoll_context *context = team->context;
    struct gpucoll_cores_sharers sharers = {.processes = context->processes, .rank = context->local_rank};
    for (uint32_t i = 0; i < team->size; i++) {
        const struct gpucoll_board_header *board = gpucoll_board_header(&team->members[i].peer->board);
        if (board->cards[request->links->card[i]].cores == request->gpu->card.cores) {
            sharers.index += stands_before(team, i, team->rank);
            sharers.known++;
        }
    }
    pthread_mutex_lock(&context->lock);
    if (!context->pool_tried) {
        context->pool_tried = true;
        context->pool = gpucoll_pool_open(context->config->cpu_threads, &sharers, context->log);
    }
    pthread_mutex_unlock(&context->lock);
}

static gpucoll_status outcome(const struct gpucoll_links *links)
{
    return links->ways != 0 ? GPUCOLL_OK : GPUCOLL_DECLINED;
}

gpucoll_status gpucoll_links_continue(struct gpucoll_request *request, bool all)
{
    struct gpucoll_links *links = request->links;
    const struct gpucoll_config *config = request->team->context->config;
    switch (request->connecting) {
    case 1:
        gpucoll_agreement_connected(request);
        links->ways = all ? GPUCOLL_TL_STORES : 0;
        if (!wants_outboxes(request)) {
            return outcome(links);
        }
        enter(request, 2, !offer(request));
        return GPUCOLL_IN_PROGRESS;
    case 2:
        if (!all) {
            return outcome(links);
        }
        enter(request, 3, !connect_outboxes(request));
        return GPUCOLL_IN_PROGRESS;
    default:
        if (all) {
            links->ways |= gpucoll_tl_allowed_ways(config->transports) & ~(unsigned)GPUCOLL_TL_STORES;
        }
        if (links->ways & GPUCOLL_TL_SUMS) {
            open_pool(request);
        }
        if (links->ways != 0 && (links->ways & GPUCOLL_TL_STORES) == 0) {
            say_slow(request);
        }
        return outcome(links);
    }
}
