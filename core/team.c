#include "core/team.h"

#include <gpucoll_config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/selector.h"

/* What every rank tells the others when a team is made. */
struct team_card {
    char version[32];
    uint64_t settings; /* hash of the parameters that must be equal */
    struct gpucoll_segment_name board;
    uint32_t region;
    uint32_t able; /* has an accelerator, a board and a region */
};

static const char version[32] = PACKAGE_VERSION;

static uint64_t hash(uint64_t seed, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++) {
        seed = (seed ^ at[i]) * 1099511628211u; /* FNV-1a */
    }
    return seed;
}

/* Plans must be equal on all ranks, so what they are made from must be. */
static uint64_t settings_hash(const struct gpucoll_context *context)
{
    const struct gpucoll_config *config = context->config;
    uint64_t value = 14695981039346656037u;
    for (int coll = 0; coll < GPUCOLL_COLL_COUNT; coll++) {
        value = hash(value, config->algorithm[coll], strlen(config->algorithm[coll]) + 1);
    }
    value = hash(value, config->protocol, strlen(config->protocol) + 1);
    value = hash(value, config->transports, strlen(config->transports) + 1);
    value = hash(value, &config->hosts, sizeof config->hosts);
    value = hash(value, &config->agree_hosts, sizeof config->agree_hosts);
    value = hash(value, &config->shm_bytes, sizeof config->shm_bytes);
    value = hash(value, &config->linger, sizeof config->linger);
    value = hash(value, &config->channels, sizeof config->channels);
    value = hash(value, &config->max_ctas, sizeof config->max_ctas);
    value = hash(value, &config->chunk, sizeof config->chunk);
    value = hash(value, &config->deterministic, sizeof config->deterministic);
    value = hash(value, &config->threads, sizeof config->threads);
    value = hash(value, &context->tuning, sizeof context->tuning);
    return hash(value, &config->scratch_bytes, sizeof config->scratch_bytes);
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
    card->able = 1;
}

/* Why these ranks cannot be a team, or NULL. A function of the cards alone: the same on every rank. */
static const char *refusal(const struct gpucoll_team *team, const struct team_card *cards)
{
    for (uint32_t i = 0; i < team->size; i++) {
        if (memcmp(cards[i].version, version, sizeof version) != 0) {
            gpucoll_help(team->context->log, "version-mismatch", team->name, i, cards[i].version, version);
            return "ranks run different versions of gpucoll";
        }
        if (!cards[i].able) {
            return "a rank has no accelerator, or no device memory in the call";
        }
        if (cards[i].settings != cards[0].settings) {
            gpucoll_help(team->context->log, "settings-mismatch", team->name, i);
            return "ranks have different settings";
        }
        if (!gpucoll_process_same_host(&cards[i].board.owner, &cards[0].board.owner)) {
            return "the ranks are on several hosts";
        }
    }
    return NULL;
}

static gpucoll_status open_members(struct gpucoll_team *team, const struct team_card *cards)
{
    for (uint32_t i = 0; i < team->size; i++) {
        struct gpucoll_member *member = &team->members[i];
        gpucoll_status status = gpucoll_context_peer(team->context, &cards[i].board, &member->peer);
        if (status != GPUCOLL_OK) {
            return status;
        }
        member->board = gpucoll_board_team(&member->peer->board, cards[i].region);
    }
    return GPUCOLL_OK;
}

/* What passes between the ranks while a team is made. */
struct gpucoll_team_setup {
    struct gpucoll_exchange exchange;
    bool able;
    bool confirming; /* the second exchange is under way */
    struct team_card mine;
    struct team_card cards[GPUCOLL_MAX_LOCAL];
    int32_t opened;
    int32_t all_opened[GPUCOLL_MAX_LOCAL];
};

/* The second exchange: after it every rank has mapped every board, or all know that one could not. */
static gpucoll_status begin_confirming(struct gpucoll_team *team)
{
    struct gpucoll_team_setup *setup = team->setup;
    const char *why = refusal(team, setup->cards);
    if (why != NULL) {
        gpucoll_log(team->context->log, GPUCOLL_LOG_SETUP, "%s: not native: %s", team->name, why);
        return GPUCOLL_DECLINED;
    }
    pthread_mutex_lock(&team->context->lock);
    setup->opened = open_members(team, setup->cards);
    pthread_mutex_unlock(&team->context->lock);
    setup->confirming = true;
    const struct gpucoll_exchange *exchange = &setup->exchange;
    return exchange->allgather(exchange->arg, &setup->opened, setup->all_opened, sizeof setup->opened) == 0
               ? GPUCOLL_OK
               : GPUCOLL_ERR_EXCHANGE;
}

static gpucoll_status confirm(const struct gpucoll_team *team)
{
    for (uint32_t i = 0; i < team->size; i++) {
        gpucoll_status opened = (gpucoll_status)team->setup->all_opened[i];
        if (opened != GPUCOLL_OK) {
            gpucoll_log(team->context->log, GPUCOLL_LOG_SETUP, "%s: not native: rank %u: %s", team->name, i,
                        gpucoll_status_name(opened));
            return GPUCOLL_DECLINED;
        }
    }
    return GPUCOLL_OK;
}

/* Goes on as far as the exchanges allow. */
static gpucoll_status advance(struct gpucoll_team *team)
{
    struct gpucoll_team_setup *setup = team->setup;
    const struct gpucoll_exchange *exchange = &setup->exchange;
    for (;;) {
        gpucoll_status status = exchange->test != NULL ? exchange->test(exchange->arg) : GPUCOLL_OK;
        if (status != GPUCOLL_OK) {
            return status;
        }
        if (setup->confirming) {
            return confirm(team);
        }
        status = begin_confirming(team);
        if (status != GPUCOLL_OK) {
            return status;
        }
    }
}

gpucoll_status gpucoll_team_test(struct gpucoll_team *team)
{
    gpucoll_status status = team->setup != NULL ? advance(team) : GPUCOLL_OK;
    if (status == GPUCOLL_OK) {
        free(team->setup);
        team->setup = NULL;
        gpucoll_log(team->context->log, GPUCOLL_LOG_SETUP, "%s: native, %u ranks", team->name, team->size);
    } else if (status != GPUCOLL_IN_PROGRESS) {
        gpucoll_team_destroy(team);
    }
    return status;
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
    /* Never held in an exchange: a peer may come to it only after a call that needs the lock here. */
    pthread_mutex_lock(&team->context->lock);
    fill_card(team, able, &setup->mine);
    pthread_mutex_unlock(&team->context->lock);
    return exchange->allgather(exchange->arg, &setup->mine, setup->cards, sizeof setup->mine) == 0
               ? GPUCOLL_OK
               : GPUCOLL_ERR_EXCHANGE;
}

gpucoll_status gpucoll_team_begin(struct gpucoll_context *context, const struct gpucoll_exchange *exchange,
                                  const char *name, bool able, struct gpucoll_team **out)
{
    if (exchange->size > GPUCOLL_MAX_LOCAL) {
        gpucoll_log(context->log, GPUCOLL_LOG_SETUP, "%s: not native: %u ranks, at most %d", name,
                    exchange->size, GPUCOLL_MAX_LOCAL);
        return GPUCOLL_DECLINED;
    }
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

void gpucoll_team_destroy(struct gpucoll_team *team)
{
    if (team == NULL) {
        return;
    }
    if (team->board != NULL) {
        pthread_mutex_lock(&team->context->lock);
        gpucoll_board_give(&team->context->board, team->region);
        pthread_mutex_unlock(&team->context->lock);
    }
    while (team->links != NULL) {
        struct gpucoll_links *links = team->links;
        team->links = links->next;
        free(links);
    }
    free(team->met);
    free(team->barrier_watch);
    free(team->spare);
    free(team->setup);
    free(team);
}

void gpucoll_pass(struct gpucoll_team *team)
{
    team->decided = ++team->calls;
    if (team->board != NULL) {
        atomic_store_explicit(&team->board->head, team->calls, memory_order_release);
    }
}

/* Every rank makes the same plan: one says so. */
static void log_plan(const struct gpucoll_team *team, const struct gpucoll_plan_input *input,
                     const struct gpucoll_plan *plan)
{
    if (team->rank != 0 || team->context->log->verbosity < GPUCOLL_LOG_PLAN) {
        return;
    }
    char why[1024];
    gpucoll_select_explain(input, why, sizeof why);
    gpucoll_log(
        team->context->log, GPUCOLL_LOG_PLAN,
        "%s: %s of %llu bytes with %s: %s by %s, %u CTAs of %u threads%s, predicted %.1f us; from: %s",
        team->name, gpucoll_coll_name(input->coll), (unsigned long long)input->bytes,
        gpucoll_coll_reduces(input->coll) ? gpucoll_functor_name(input->functor) : "no operator",
        plan->algorithm->name, plan->algorithm->protocol, plan->ctas, plan->threads,
        plan->linger ? " that linger" : "", plan->predicted_us, why);
}

struct gpucoll_plan_input gpucoll_team_input(const struct gpucoll_team *team,
                                             const struct gpucoll_links *links, enum gpucoll_coll coll,
                                             int functor, uint64_t bytes, bool direct, bool unattended)
{
    return (struct gpucoll_plan_input){
        .coll = coll,
        .functor = functor,
        .bytes = bytes,
        .nranks = team->size,
        .data_bytes = links->gpu->data_bytes,
        .ways = links->ways,
        .direct = direct,
        .unattended = unattended,
        .shared_device = links->shared_device,
        .crew = links->crew,
        .whole_lines = links->whole_lines,
        .latency_us = links->latency_us,
        .bandwidth = links->bandwidth,
        .model = &links->model,
        .config = team->context->config,
    };
}

gpucoll_status gpucoll_team_plan(struct gpucoll_team *team, const struct gpucoll_links *links,
                                 enum gpucoll_coll coll, int functor, uint64_t bytes, bool direct,
                                 bool unattended, struct gpucoll_plan *plan)
{
    const struct gpucoll_plan *kept =
        gpucoll_plan_find(&team->plans, links, coll, functor, bytes, direct, unattended);
    if (kept == NULL) {
        const struct gpucoll_plan_input input =
            gpucoll_team_input(team, links, coll, functor, bytes, direct, unattended);
        bool fresh;
        gpucoll_status status =
            gpucoll_plan_make(&team->plans, links, &input, team->context->log, &fresh, &kept);
        if (status != GPUCOLL_OK) {
            return status;
        }
        if (fresh) {
            log_plan(team, &input, kept);
        }
    }
    *plan = *kept;
    return GPUCOLL_OK;
}
