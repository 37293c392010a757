/*
 * What the ranks of a call agree on about the links between their GPUs: whether the team knows them, and, when they are new, how well each rank reaches the
 * others, of which all take the worst.
 */
#include <stdlib.h>
#include <string.h>
#include "core/agreement.h"
#include "core/topology/ring.h"

static bool fits(const struct gpucoll_links *links, const struct gpucoll_request *request)
{
    for (uint32_t i = 0; i < request->team->size; i++) {
        if (links->card[i] != gpucoll_agreement_post(request, i)->card) {
            return false;
        }
    }
    return true;
}

struct gpucoll_links *gpucoll_agreement_known_links(const struct gpucoll_request *request,
                                                    const struct gpucoll_team *team)
{
    struct gpucoll_links *links = team->links;
    while (links != NULL && !fits(links, request)) {
        links = links->next;
    }
    return links;
}

bool gpucoll_agreement_find_links(struct gpucoll_request *request)
{
    request->links = gpucoll_agreement_known_links(request, request->team);
    return request->links != NULL;
}

/* How many ranks of the call drive one GPU, at most? From the cards alone, so the same on every rank. */
static uint32_t count_sharers(const struct gpucoll_request *request)
{
    const struct gpucoll_team *team = request->team;
    const struct gpucoll_device_id *ids[GPUCOLL_MAX_LOCAL];
    uint32_t most = 1;
    for (uint32_t i = 0; i < team->size; i++) {
        uint32_t card = gpucoll_agreement_post(request, i)->card;
        uint32_t sharers = 1;
        ids[i] = &gpucoll_board_header(&team->members[i].peer->board)->cards[card].device;
        for (uint32_t j = 0; j < i; j++) {
            sharers += memcmp(ids[i], ids[j], sizeof *ids[i]) == 0;
        }
        most = sharers > most ? sharers : most;
    }
    return most;
}

/* What the ranks have of their GPUs, likewise from the cards. Under MPS each process on a GPU has a part of it, so that all that wait for others
 * have their places at the same time: the team's own, and those of the host that it does not have, which may be on any. */
static void share_gpus(const struct gpucoll_request *request, struct gpucoll_links *links)
{
    const struct gpucoll_team *team = request->team;
    uint32_t processes = 0; /* jobs that have been joined may have different numbers */
    unsigned least = GPUCOLL_MAX_CHANNELS;
    bool all = true;
    bool any = false;
    for (uint32_t i = 0; i < team->size; i++) {
        const uint32_t index = gpucoll_agreement_post(request, i)->card;
        const struct gpucoll_tl_card *card =
            &gpucoll_board_header(&team->members[i].peer->board)->cards[index];
        least = card->resident < least ? card->resident : least;
        processes = card->processes > processes ? card->processes : processes;
        all &= card->concurrent;
        any |= card->concurrent;
    }
    links->sharers = count_sharers(request);
    links->parts = any ? links->sharers + (processes > team->size ? processes - team->size : 0) : 1;
    links->concurrent = links->sharers > 1 && all && least >= links->parts;
    links->resident = least > links->parts ? least / links->parts : 1;
    if (gpucoll_links_in_turn(links)) {
        __atomic_store_n(&request->gpu->device->shared, true, __ATOMIC_RELAXED);
    }
}

/* The crew that may linger on a rank's GPU. */
static unsigned crew_of(const struct gpucoll_links *links, struct gpucoll_device *device)
{
    const unsigned most = links->resident < GPUCOLL_CREW_CTAS ? links->resident : GPUCOLL_CREW_CTAS;
    return device->accel->ops->device_lingers(device) ? most : 0;
}

/* What decides plans beside the call itself; the worst of all ranks is taken, so that all make the same plan. */
struct reach {
    bool whole_lines;
    bool bulk;
    unsigned crew;
    int model; /* index of the constants built in for the GPU and its links; the slower have the higher */
    double latency_us;
    double bandwidth;
};

static void take_worst(struct reach *worst, const struct reach *reach)
{
    worst->whole_lines &= reach->whole_lines;
    worst->bulk &= reach->bulk;
    worst->crew = reach->crew < worst->crew ? reach->crew : worst->crew;
    worst->model = reach->model > worst->model ? reach->model : worst->model;
    worst->latency_us = reach->latency_us > worst->latency_us ? reach->latency_us : worst->latency_us;
    worst->bandwidth = reach->bandwidth < worst->bandwidth ? reach->bandwidth : worst->bandwidth;
}

static const struct reach nothing_worse = {
    .whole_lines = true, .bulk = true, .crew = GPUCOLL_CREW_CTAS, .bandwidth = 1e15};

/* One word: MB/s in bits 32 up, bulk in 31, ns in 11 to 30, model in 7 to 10, crew in 1 to 6, whole_lines in bit 0. */
_Static_assert(GPUCOLL_CREW_CTAS <= 63 && GPUCOLL_MODEL_UNKNOWN <= 15, "six bits and four");
static uint64_t pack_reach(const struct reach *reach)
{
    return (uint64_t)(reach->bandwidth / 1e6) << 32 | (uint64_t)reach->bulk << 31 |
           (uint64_t)(reach->latency_us * 1e3) << 11 | (uint64_t)reach->model << 7 |
           (uint64_t)reach->crew << 1 | reach->whole_lines;
}

static struct reach unpack_reach(uint64_t word)
{
    return (struct reach){
        .whole_lines = word & 1,
        .crew = word >> 1 & 0x3f,
        .model = (int)(word >> 7 & 0xf),
        .bulk = word >> 31 & 1,
        .latency_us = (double)(word >> 11 & 0xfffff) / 1e3,
        .bandwidth = (double)(word >> 32) * 1e6,
    };
}

/* Bytes/s to the two neighbours of a ring, both of whose links are like this one. */
static double to_neighbours(const struct gpucoll_tl_cost *cost, uint32_t nranks)
{
    const double both = cost->pair_bandwidth * (nranks > 2 ? 2 : 1);
    return both > 0 && both < cost->bandwidth ? both : cost->bandwidth;
}

gpucoll_status gpucoll_agreement_connect(struct gpucoll_request *request, bool *reached)
{
    struct gpucoll_team *team = request->team;
    struct gpucoll_links *links = calloc(1, sizeof *links);
    if (links == NULL) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    links->gpu = request->gpu;
    share_gpus(request, links);
    request->links = links;
    *reached = true;
    struct reach worst = nothing_worse;
    struct reach near = nothing_worse; /* of the links that keep lines whole */
    uint32_t near_ranks = 0;
    worst.crew = crew_of(links, request->gpu->device);
    worst.bulk = request->gpu->device->accel->ops->device_bulk(request->gpu->device);
    pthread_mutex_lock(&team->context->lock);
    for (uint32_t i = 0; i < team->size; i++) {
        links->card[i] = gpucoll_agreement_post(request, i)->card;
        const struct gpucoll_board_header *board = gpucoll_board_header(&team->members[i].peer->board);
        gpucoll_context_know_way(team->context, request->gpu->device, &board->cards[links->card[i]].device);
    }
    for (uint32_t i = 0; i < team->size; i++) {
        if (i == team->rank) {
            links->scratch[i] = request->gpu->scratch;
            continue;
        }
        struct gpucoll_connection *connection = NULL;
        if (gpucoll_peer_connect(team->members[i].peer, request->gpu, links->card[i], &connection) !=
            GPUCOLL_OK) {
            *reached = false;
            continue;
        }
        links->scratch[i] = connection->endpoint.scratch;
        links->connection[i] = connection;
        const struct gpucoll_tl_cost *cost = &connection->cost;
        take_worst(&worst, &(struct reach){cost->whole_lines, worst.bulk, worst.crew, worst.model,
                                           cost->latency_us, cost->bandwidth});
        if (cost->whole_lines) {
            near_ranks |= 1u << i;
            take_worst(&near, &(struct reach){true, near.bulk, near.crew, near.model, cost->latency_us,
                                              to_neighbours(cost, team->size)});
        }
    }
    worst.model = gpucoll_model_find(request->gpu->device->name, worst.whole_lines);
    pthread_mutex_unlock(&team->context->lock);
    const uint64_t place = request->call % GPUCOLL_RING;
    atomic_store_explicit(&team->board->reach[place], pack_reach(&worst), memory_order_relaxed);
    atomic_store_explicit(&team->board->near_reach[place], pack_reach(&near), memory_order_relaxed);
    atomic_store_explicit(&team->board->near[place], near_ranks, memory_order_relaxed);
    return GPUCOLL_OK;
}

/* The ring that all ranks make alike, and what its links are like. */
static void find_ring(struct gpucoll_request *request)
{
    const struct gpucoll_team *team = request->team;
    struct gpucoll_links *links = request->links;
    const uint64_t place = request->call % GPUCOLL_RING;
    uint32_t near[GPUCOLL_MAX_LOCAL];
    struct reach worst = nothing_worse;
    for (uint32_t i = 0; i < team->size; i++) {
        struct gpucoll_team_board *board = team->members[i].board;
        near[i] = atomic_load_explicit(&board->near[place], memory_order_relaxed);
        struct reach reach =
            unpack_reach(atomic_load_explicit(&board->near_reach[place], memory_order_relaxed));
        take_worst(&worst, &reach);
    }
    const bool found = gpucoll_ring_order(near, team->size, links->order) && team->size > 1;
    links->ring_whole_lines = found;
    links->ring_latency_us = found ? worst.latency_us : 0;
    links->ring_bandwidth = found ? worst.bandwidth : 0;
}

void gpucoll_agreement_connected(struct gpucoll_request *request)
{
    struct gpucoll_team *team = request->team;
    struct gpucoll_links *links = request->links;
    struct reach worst = nothing_worse;
    for (uint32_t i = 0; i < team->size; i++) {
        const _Atomic uint64_t *word = &team->members[i].board->reach[request->call % GPUCOLL_RING];
        struct reach reach = unpack_reach(atomic_load_explicit(word, memory_order_relaxed));
        take_worst(&worst, &reach);
    }
    links->whole_lines = worst.whole_lines;
    links->crew = worst.crew;
    links->bulk = worst.bulk;
    links->latency_us = worst.latency_us;
    links->bandwidth = worst.bandwidth;
    find_ring(request);
    links->model = *gpucoll_model_of(worst.model);
    if (worst.model == GPUCOLL_MODEL_UNKNOWN && team->context->tuning.set == 0) {
        gpucoll_log(team->context->log, GPUCOLL_LOG_SETUP,
                    "no constants of the cost model are built in for %s over these links: those of %s serve; "
                    "gpucoll_info --tune measures others for coll_gpucoll_tuning_file",
                    request->gpu->device->name, gpucoll_model_entry_at(0)->gpu);
    }
    gpucoll_tuning_apply(&team->context->tuning, &links->model);
}
