#include "core/team.h"

#include <gpucoll_config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/hash.h"
#include "core/cluster/cluster.h"
#include "core/plan/forced.h"
#include "core/team_hosts.h"

/* What every rank tells the others when a team is made. */
struct team_card {
    char version[32];
    uint64_t settings; /* hash of the parameters that must be equal */
    struct gpucoll_segment_name board;
    uint32_t region;
    uint32_t able;  /* has an accelerator, a board, a region, and memory for what follows */
    uint32_t bound; /* has a GPU bound */
};

static const char version[32] = PACKAGE_VERSION;

/* Plans must be equal on all ranks, so what they are made from must be. */
static uint64_t settings_hash(const struct gpucoll_context *context)
{
    return gpucoll_hash(gpucoll_config_hash(context->config), &context->tuning, sizeof context->tuning);
}

static void fill_card(struct gpucoll_team *team, bool able, struct team_card *card)
{
    struct gpucoll_context *context = team->context;
    memset(card, 0, sizeof *card);
    memcpy(card->version, version, sizeof version);
    card->settings = settings_hash(context);
    if (!able || context->accel == NULL || gpucoll_context_board(context) != GPUCOLL_OK ||
        gpucoll_board_take(&context->board, &team->region) != GPUCOLL_OK) {
        return;
    }
    team->board = gpucoll_board_team(&context->board.segment, team->region);
    card->board = context->board.segment.name;
    card->region = team->region;
    card->bound = context->gpus[0] != NULL;
    card->able = 1;
}

/* What passes between the ranks while a team is made. */
struct gpucoll_team_setup {
    struct gpucoll_exchange exchange;
    enum { CARDS, OPENED, GREETING, GREETED } phase; /* what is exchanged; in GREETING nothing is */
    struct team_card mine;
    struct team_card *cards;
    uint32_t *host_of;                    /* by rank; NULL: the cluster has taken it over */
    struct gpucoll_process_id *processes; /* by rank */
    struct gpucoll_team_host *hosts;      /* room for as many as there are ranks */
    struct gpucoll_cluster_end end;       /* what is exchanged next: as much of it as is needed */
    enum gpucoll_divided divided;
    char *ends;
    size_t end_bytes;
};

/* Why these ranks cannot be a team, or NULL. A function of the cards alone: the same on every rank. */
static const char *refusal(const struct gpucoll_team *team, const struct team_card *cards)
{
    for (uint32_t i = 0; i < team->size; i++) {
        if (memcmp(cards[i].version, version, sizeof version) != 0) {
            gpucoll_help(team->context->log, "version-mismatch", team->name, i, cards[i].version, version);
            return "ranks run different versions of gpucoll";
        }
        if (!cards[i].able) {
            return "a rank has no accelerator, no memory for the team, or no device memory in the call";
        }
        if (cards[i].settings != cards[0].settings) {
            gpucoll_help(team->context->log, "settings-mismatch", team->name, i);
            return "ranks have different settings";
        }
    }
    return NULL;
}

static gpucoll_status open_members(struct gpucoll_team *team, const struct team_card *cards)
{
    const struct gpucoll_cluster *cluster = team->cluster;
    for (uint32_t i = 0; i < team->size; i++) {
        struct gpucoll_member *member = &team->members[i];
        member->number = cluster != NULL ? gpucoll_host_rank(cluster, cluster->host, i) : i;
        const struct team_card *card = &cards[member->number];
        gpucoll_status status = gpucoll_context_peer(team->context, &card->board, &member->peer);
        if (status != GPUCOLL_OK) {
            return status;
        }
        member->board = gpucoll_board_team(&member->peer->board, card->region);
    }
    return GPUCOLL_OK;
}

static gpucoll_status exchange_ends(struct gpucoll_team *team, int phase)
{
    struct gpucoll_team_setup *setup = team->setup;
    const struct gpucoll_exchange *exchange = &setup->exchange;
    setup->phase = phase;
    return exchange->allgather(exchange->arg, &setup->end, setup->ends, setup->end_bytes) == 0
               ? GPUCOLL_OK
               : GPUCOLL_ERR_EXCHANGE;
}

/* Several hosts make a cluster. */
static gpucoll_status form_cluster(struct gpucoll_team *team, uint32_t hosts)
{
    uint32_t *host_of = team->setup->host_of;
    const bool crowded = team->setup->divided == GPUCOLL_DIVIDED_CROWDED;
    team->setup->host_of = NULL;
    return gpucoll_cluster_form(team, hosts, host_of, crowded);
}

static bool all_bound(const struct team_card *cards, uint32_t size)
{
    uint32_t bound = 0;
    for (uint32_t i = 0; i < size; i++) {
        bound += cards[i].bound;
    }
    return bound == size;
}

bool gpucoll_can_warm_up(struct gpucoll_team *team)
{
    struct gpucoll_context *context = team->context;
    struct gpucoll_accel *accel = context->accel;
    struct gpucoll_buffer buffer;
    if (!accel->ops->active(accel)) {
        return false;
    }
    pthread_mutex_lock(&context->lock);
    const bool bound = context->gpus[0] != NULL;
    pthread_mutex_unlock(&context->lock);
    return bound || accel->ops->here(accel, &buffer);
}

bool gpucoll_team_is_bound(const struct gpucoll_team *team)
{
    return team->bound;
}

/* What is forced may not be able to run so few bytes, which is said once: of a call of the application. */
static bool is_forced(const struct gpucoll_config *config)
{
    for (uint64_t bytes = 8; bytes <= 4096; bytes *= 2) {
        char algorithm[GPUCOLL_FORCED_NAME], protocol[GPUCOLL_FORCED_NAME];
        gpucoll_forced_name(config->algorithm[GPUCOLL_ALLREDUCE], bytes, algorithm);
        gpucoll_forced_name(config->protocol, bytes, protocol);
        if (gpucoll_forces(algorithm) || gpucoll_forces(protocol)) {
            return true;
        }
    }
    return false;
}

bool gpucoll_team_rehearses(const struct gpucoll_team *team)
{
    return team->bound && team->cluster == NULL && !is_forced(team->context->config);
}

/* The second exchange: after it every rank has mapped every board, or all know that one could not. What several hosts need beside
 * goes with it. Whatever fails on this rank alone is told in it: the others wait there. */
static gpucoll_status begin_opening(struct gpucoll_team *team)
{
    struct gpucoll_team_setup *setup = team->setup;
    const char *why = refusal(team, setup->cards);
    if (why != NULL) {
        gpucoll_log(team->context->log, GPUCOLL_LOG_SETUP, "%s: not native: %s", team->name, why);
        return GPUCOLL_DECLINED;
    }
    team->bound = all_bound(setup->cards, team->size);
    for (uint32_t i = 0; i < team->size; i++) {
        setup->processes[i] = setup->cards[i].board.owner;
    }
    const uint32_t hosts =
        gpucoll_team_find_hosts(team, setup->processes, setup->hosts, setup->host_of, &setup->divided);
    if (hosts == 0) {
        return GPUCOLL_DECLINED;
    }
    setup->end_bytes = hosts > 1 ? sizeof setup->end : sizeof setup->end.opened;
    gpucoll_status status = hosts > 1 ? form_cluster(team, hosts) : GPUCOLL_OK;
    pthread_mutex_lock(&team->context->lock);
    if (status == GPUCOLL_OK) {
        status = open_members(team, setup->cards);
    }
    if (status == GPUCOLL_OK && team->cluster != NULL) {
        status = gpucoll_cluster_open(team, &setup->end);
    }
    pthread_mutex_unlock(&team->context->lock);
    setup->end.opened = status;
    return exchange_ends(team, OPENED);
}

static gpucoll_status confirm(const struct gpucoll_team *team)
{
    const struct gpucoll_team_setup *setup = team->setup;
    for (uint32_t i = 0; i < setup->exchange.size; i++) {
        int32_t opened;
        memcpy(&opened, setup->ends + i * setup->end_bytes, sizeof opened);
        if (opened != GPUCOLL_OK) {
            const bool no_net = opened == GPUCOLL_DECLINED && team->cluster != NULL;
            gpucoll_log(team->context->log, GPUCOLL_LOG_SETUP, "%s: not native: rank %u: %s", team->name, i,
                        no_net ? "no network to other hosts" : gpucoll_status_name((gpucoll_status)opened));
            return GPUCOLL_DECLINED;
        }
    }
    return GPUCOLL_OK;
}

/* Ranks of several hosts have met: a third exchange tells whether all did. */
static gpucoll_status test_greeting(struct gpucoll_team *team)
{
    struct gpucoll_team_setup *setup = team->setup;
    gpucoll_status status = gpucoll_cluster_greeted(team->cluster);
    if (status == GPUCOLL_IN_PROGRESS) {
        return status;
    }
    setup->end.opened = status;
    setup->end_bytes = sizeof setup->end.opened;
    return exchange_ends(team, GREETED);
}

/* An exchange is complete. GPUCOLL_OK: the team is made. */
static gpucoll_status next_phase(struct gpucoll_team *team)
{
    struct gpucoll_team_setup *setup = team->setup;
    gpucoll_status status = GPUCOLL_OK;
    if (setup->phase == CARDS) {
        status = begin_opening(team);
        return status == GPUCOLL_OK ? GPUCOLL_IN_PROGRESS : status;
    }
    status = confirm(team);
    if (status == GPUCOLL_OK && setup->phase == OPENED && team->cluster != NULL) {
        setup->phase = GREETING;
        gpucoll_cluster_greet(team, (const struct gpucoll_cluster_end *)setup->ends);
        return GPUCOLL_IN_PROGRESS;
    }
    return status;
}

/* Has what is under way come to its end? */
static gpucoll_status test_exchange(struct gpucoll_team *team)
{
    const struct gpucoll_exchange *exchange = &team->setup->exchange;
    if (team->setup->phase == GREETED) {
        gpucoll_cluster_turn(team->cluster); /* greetings of others may want it */
    }
    return exchange->test != NULL ? exchange->test(exchange->arg) : GPUCOLL_OK;
}

/* Goes on as far as the exchanges allow. */
static gpucoll_status advance(struct gpucoll_team *team)
{
    gpucoll_status status = GPUCOLL_OK;
    if (team->setup->phase == GREETING) {
        status = test_greeting(team);
    }
    while (status == GPUCOLL_OK) {
        status = test_exchange(team);
        if (status != GPUCOLL_OK) {
            return status;
        }
        status = next_phase(team);
        if (status != GPUCOLL_IN_PROGRESS) {
            return status; /* made, or not to be */
        }
        status = team->setup->phase == GREETING ? test_greeting(team) : GPUCOLL_OK;
    }
    return status;
}

static void free_setup(struct gpucoll_team *team)
{
    if (team->setup != NULL) {
        free(team->setup->cards);
        free(team->setup->host_of);
        free(team->setup->processes);
        free(team->setup->hosts);
        free(team->setup->ends);
        free(team->setup);
        team->setup = NULL;
    }
}

static void log_made(const struct gpucoll_team *team)
{
    const struct gpucoll_cluster *cluster = team->cluster;
    if (cluster == NULL) {
        gpucoll_log(team->context->log, GPUCOLL_LOG_SETUP, "%s: native, %u ranks", team->name, team->size);
    } else {
        gpucoll_log(team->context->log, GPUCOLL_LOG_SETUP,
                    "%s: native, %u ranks on %u hosts, %u rails over %s", team->name, cluster->size,
                    cluster->hosts, cluster->rails, cluster->ops->name);
    }
}

/* A path slower than the hardware might allow is said once, by one rank: the first of the first such communicator. */
static void say_divided(const struct gpucoll_team *team)
{
    static const char *const reasons[] = {
        [GPUCOLL_DIVIDED_APART] = "they are in several PID namespaces (containers)",
        [GPUCOLL_DIVIDED_CROWDED] = "they are more than can run a call together",
    };
    struct gpucoll_context *context = team->context;
    if (team->setup != NULL && team->setup->divided != GPUCOLL_NOT_DIVIDED && !context->divided_said) {
        context->divided_said = true;
        if (team->cluster->rank == 0) {
            gpucoll_help_slow(context->log, "host-divided", team->name, reasons[team->setup->divided]);
        }
    }
}

gpucoll_status gpucoll_team_test(struct gpucoll_team *team)
{
    gpucoll_status status = team->setup != NULL ? advance(team) : GPUCOLL_OK;
    if (status == GPUCOLL_OK) {
        if (team->setup != NULL) {
            __atomic_fetch_add(&team->context->setups->teams, 1, __ATOMIC_RELAXED);
        }
        log_made(team);
        say_divided(team);
        free_setup(team);
    } else if (status != GPUCOLL_IN_PROGRESS) {
        gpucoll_team_destroy(team);
    }
    return status;
}

/* What the later exchanges take: there before the first, whose card tells the others if it is not. */
static bool make_room(struct gpucoll_team_setup *setup)
{
    const uint32_t size = setup->exchange.size;
    setup->host_of = calloc(size, sizeof *setup->host_of);
    setup->processes = calloc(size, sizeof *setup->processes);
    setup->hosts = calloc(size, sizeof *setup->hosts);
    setup->ends = calloc(size, sizeof setup->end);
    return setup->host_of != NULL && setup->processes != NULL && setup->hosts != NULL && setup->ends != NULL;
}

static gpucoll_status begin_exchange(struct gpucoll_team *team, const struct gpucoll_exchange *exchange,
                                     bool able)
{
    struct gpucoll_team_setup *setup = calloc(1, sizeof *setup);
    if (setup == NULL) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    team->setup = setup;
    setup->exchange = *exchange;
    setup->cards = calloc(exchange->size, sizeof *setup->cards);
    if (setup->cards == NULL) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    const bool room = make_room(setup);
    /* Never held in an exchange: a peer may come to it only after a call that needs the lock here. */
    pthread_mutex_lock(&team->context->lock);
    fill_card(team, able && room, &setup->mine);
    pthread_mutex_unlock(&team->context->lock);
    return exchange->allgather(exchange->arg, &setup->mine, setup->cards, sizeof setup->mine) == 0
               ? GPUCOLL_OK
               : GPUCOLL_ERR_EXCHANGE;
}

gpucoll_status gpucoll_team_begin(struct gpucoll_context *context, const struct gpucoll_exchange *exchange,
                                  const char *name, bool able, struct gpucoll_team **out)
{
    struct gpucoll_team *team = calloc(1, sizeof *team);
    if (team == NULL) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    team->context = context;
    team->rank = exchange->rank;
    team->size = exchange->size;
    snprintf(team->name, sizeof team->name, "%s", name);
    gpucoll_status status = GPUCOLL_DECLINED;
    if (team->size == 1) { /* nobody to reach: needs no board */
        status = context->accel != NULL && able ? GPUCOLL_OK : GPUCOLL_DECLINED;
    } else {
        status = begin_exchange(team, exchange, able);
    }
    if (status != GPUCOLL_OK) {
        gpucoll_team_destroy(team);
        return status;
    }
    *out = team;
    return GPUCOLL_OK;
}

gpucoll_status gpucoll_team_create(struct gpucoll_context *context, const struct gpucoll_exchange *exchange,
                                   const char *name, struct gpucoll_team **out)
{
    struct gpucoll_team *team = NULL;
    gpucoll_status status = gpucoll_team_begin(context, exchange, name, true, &team);
    if (status == GPUCOLL_OK) {
        do {
            status = gpucoll_team_test(team);
        } while (status == GPUCOLL_IN_PROGRESS);
    }
    *out = status == GPUCOLL_OK ? team : NULL;
    return status;
}

/* An inner team has the members of the one that it belongs to. */
static void leave_members(struct gpucoll_team *team)
{
    if (team->inner) {
        return;
    }
    pthread_mutex_lock(&team->context->lock);
    for (uint32_t i = 0; i < GPUCOLL_MAX_LOCAL; i++) {
        if (team->members[i].peer != NULL) {
            gpucoll_context_leave_peer(team->context, team->members[i].peer);
        }
    }
    pthread_mutex_unlock(&team->context->lock);
}

void gpucoll_team_destroy(struct gpucoll_team *team)
{
    if (team == NULL) {
        return;
    }
    gpucoll_cluster_free(team->cluster);
    if (team->board != NULL) {
        pthread_mutex_lock(&team->context->lock);
        gpucoll_board_give(&team->context->board, team->region);
        gpucoll_early_close(team);
        pthread_mutex_unlock(&team->context->lock);
    }
    while (team->links != NULL) {
        struct gpucoll_links *links = team->links;
        team->links = links->next;
        free(links->bases);
        free(links);
    }
    free(team->met);
    free(team->barrier_watch);
    while (team->spare != NULL) {
        struct gpucoll_request *request = team->spare;
        team->spare = request->spare;
        gpucoll_request_drop(request);
    }
    leave_members(team);
    free_setup(team);
    free(team);
}

void gpucoll_pass(struct gpucoll_team *team)
{
    team->decided = ++team->calls;
    if (team->board != NULL) {
        atomic_store_explicit(&team->board->head, team->calls, memory_order_release);
    }
    if (team->cluster != NULL) {
        gpucoll_cluster_pass(team);
    }
}
