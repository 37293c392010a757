#include "core/rail/rail.h"

#include <stdlib.h>
#include <string.h>
#include "core/rail/rail_run.h"

/* Of ended runs, these many are kept, none with more memory than this: enough for as many calls under way as overlap usefully, of
 * the algorithms that AUTO takes. */
enum { MOST_KEPT = 4, MOST_SCRATCH_KEPT = 16 << 20, MOST_STEPS_KEPT = 1 << 16 };

static const struct gpucoll_rail_row *const tables[] = {
    gpucoll_rail_doubling_rows, gpucoll_rail_ring_rows,    gpucoll_rail_tree_rows,
    gpucoll_rail_scan_rows,     gpucoll_rail_ordered_rows,
};

static const struct gpucoll_rail_row *cheapest(enum gpucoll_rail_coll coll, uint32_t size, uint64_t bytes)
{
    const struct gpucoll_rail_row *best = NULL;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        for (const struct gpucoll_rail_row *row = tables[i]; row->program != NULL; row++) {
            const uint64_t cost = row->coll == coll ? row->cost(size, bytes) : UINT64_MAX;
            if (cost < least) {
                least = cost;
                best = row;
            }
        }
    }
    return best;
}

static const struct gpucoll_rail_row *forced(enum gpucoll_rail_coll coll,
                                             enum gpucoll_rail_algorithm algorithm)
{
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        for (const struct gpucoll_rail_row *row = tables[i]; row->program != NULL; row++) {
            if (row->coll == coll && row->algorithm == algorithm) {
                return row;
            }
        }
    }
    return NULL;
}

enum gpucoll_rail_algorithm gpucoll_rail_choose(enum gpucoll_rail_coll coll, uint32_t size, uint64_t bytes)
{
    return cheapest(coll, size, bytes)->algorithm;
}

uint64_t gpucoll_rail_cost(enum gpucoll_rail_coll coll, enum gpucoll_rail_algorithm algorithm, uint32_t size,
                           uint64_t bytes)
{
    const struct gpucoll_rail_row *row = forced(coll, algorithm);
    return row != NULL ? row->cost(size, bytes) : 0;
}

enum gpucoll_rail_algorithm gpucoll_rail_named(const char *name)
{
    return strcmp(name, "doubling") == 0 ? GPUCOLL_RAIL_DOUBLING
           : strcmp(name, "ring") == 0   ? GPUCOLL_RAIL_RING
           : strcmp(name, "tree") == 0   ? GPUCOLL_RAIL_TREE
                                         : GPUCOLL_RAIL_AUTO;
}

static const struct gpucoll_rail_row *row_of(const struct gpucoll_rail *rail,
                                             const struct gpucoll_rail_args *args)
{
    const struct gpucoll_rail_row *row = forced(args->coll, args->algorithm);
    if (row == NULL) {
        uint64_t bytes = args->bytes;
        for (uint32_t i = 0; args->blocks != NULL && i < rail->size; i++) {
            bytes += args->blocks[i];
        }
        row = cheapest(args->coll, rail->size, bytes);
    }
    return row;
}

bool gpucoll_rail_keeps_blocks(const struct gpucoll_rail *rail, const struct gpucoll_rail_args *args)
{
    /* Dissemination among three ranks has two rounds, of one block each; among more, messages of several. */
    return args->coll != GPUCOLL_RAIL_ALLGATHER || rail->size <= 3 ||
           row_of(rail, args)->algorithm == GPUCOLL_RAIL_RING;
}

static struct gpucoll_rail_run *take(struct gpucoll_rail *rail)
{
    struct gpucoll_rail_run *run = rail->ended;
    if (run == NULL) {
        return calloc(1, sizeof *run);
    }
    rail->ended = run->next;
    return run;
}

static void keep(struct gpucoll_rail_run *run)
{
    struct gpucoll_rail *rail = run->rail;
    int kept = 0;
    for (const struct gpucoll_rail_run *other = rail->ended; other != NULL; other = other->next) {
        kept++;
    }
    if (kept >= MOST_KEPT || run->scratch_bytes > MOST_SCRATCH_KEPT || run->max_steps > MOST_STEPS_KEPT) {
        gpucoll_rail_run_free(run);
        return;
    }
    run->next = rail->ended;
    rail->ended = run;
}

void gpucoll_rail_close(struct gpucoll_rail *rail)
{
    while (rail->ended != NULL) {
        gpucoll_rail_run_free(take(rail));
    }
    free(rail->sent.ties);
    free(rail->sent.ranks);
    rail->sent = (struct gpucoll_rail_sent){0};
    free(rail->met);
    rail->met = NULL;
}

/* What is not the collective's is cleared, so that programs may look at it without asking. */
static struct gpucoll_rail_args normal(const struct gpucoll_rail_args *args)
{
    const bool in_blocks = args->coll == GPUCOLL_RAIL_ALLGATHER || args->coll == GPUCOLL_RAIL_REDUCE_SCATTER;
    struct gpucoll_rail_args result = *args;
    if (in_blocks || args->coll == GPUCOLL_RAIL_BARRIER) {
        result.bytes = 0;
    }
    if (!in_blocks) {
        result.blocks = NULL;
    }
    if (args->coll != GPUCOLL_RAIL_ALLGATHER) {
        result.places = NULL;
    }
    return result;
}

/* A run whose program is written; NULL: out of memory. */
static struct gpucoll_rail_run *prepare(struct gpucoll_rail *rail, const struct gpucoll_rail_args *args)
{
    struct gpucoll_rail_run *run = take(rail);
    if (run == NULL) {
        return NULL;
    }
    gpucoll_rail_run_reset(run);
    run->rail = rail;
    run->args = normal(args);
    if (rail->size > 1) {
        row_of(rail, &run->args)->program(run);
    }
    return run;
}

void gpucoll_rail_foresee(struct gpucoll_rail *rail, const struct gpucoll_rail_args *args)
{
    struct gpucoll_rail_run *run = prepare(rail, args);
    if (run != NULL) {
        keep(run);
    }
}

gpucoll_status gpucoll_rail_start(struct gpucoll_rail *rail, const struct gpucoll_rail_args *args,
                                  struct gpucoll_rail_run **started)
{
    const uint32_t number = rail->runs++;
    struct gpucoll_rail_run *run = prepare(rail, args);
    *started = NULL;
    if (run == NULL) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    run->number = number;
    const gpucoll_status status = gpucoll_rail_run_begin(run);
    if (status != GPUCOLL_OK) {
        keep(run);
        return status;
    }
    *started = run;
    return GPUCOLL_OK;
}

gpucoll_status gpucoll_rail_test(struct gpucoll_rail_run *run, uint32_t *missing)
{
    const gpucoll_status status = gpucoll_rail_run_move(run);
    if (status != GPUCOLL_OK) {
        *missing = gpucoll_rail_run_missing(run);
    }
    if (status == GPUCOLL_OK) {
        keep(run);
    }
    return status;
}

uint32_t gpucoll_rail_left(const struct gpucoll_rail_run *run)
{
    return run->unfinished;
}

void gpucoll_rail_cancel(struct gpucoll_rail_run *run)
{
    if (run != NULL) {
        gpucoll_rail_run_cancel(run);
        keep(run);
    }
}
