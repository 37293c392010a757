#include "core/rail/rail_run.h"

#include <stdlib.h>
#include <string.h>
#include "core/accel/accel.h"
#include "core/base/sizes.h"

/* What a step does: a send, or one of enum gpucoll_rail_receive. */
enum { SEND = GPUCOLL_RAIL_COMBINE + 1 };

struct gpucoll_rail_step {
    uint64_t offset;
    uint32_t bytes;
    uint32_t cell;
    uint32_t before;          /* steps of the cell that come earlier */
    uint32_t receives_before; /* receives among them */
    uint32_t next;            /* of its queue */
    uint32_t kind;
};

/* Receives of a cell finish in its order, so counts tell which have: no later step of the cell finishes before one of them. */
struct gpucoll_rail_cell {
    uint32_t steps; /* written down */
    uint32_t receives;
    uint32_t finished;
    uint32_t received;
};

/* A message under way. */
struct gpucoll_rail_flight {
    struct gpucoll_net_message message;
    uint32_t step;
    char *slot; /* of scratch memory */
};

/* How often one call of gpucoll_rail_run_move looks at everything: its caller has other things to do. */
enum { PASSES = 4 };

/* ---- memory ---- */

/* Room for `wanted` elements of `size` bytes; what was there stays. */
static bool grow(struct gpucoll_rail_run *run, void **array, uint32_t *room, uint32_t wanted, size_t size)
{
    if (wanted <= *room) {
        return true;
    }
    uint32_t more = wanted < 16 ? 16 : wanted + wanted / 2;
    void *larger = realloc(*array, more * size);
    if (larger == NULL) {
        run->status = GPUCOLL_ERR_NO_MEMORY;
        return false;
    }
    *array = larger;
    *room = more;
    return true;
}

void gpucoll_rail_run_free(struct gpucoll_rail_run *run)
{
    free(run->ranges);
    free(run->steps);
    free(run->cells);
    free(run->flights);
    free(run->scratch);
    free(run);
}

void gpucoll_rail_run_reset(struct gpucoll_rail_run *run)
{
    run->status = GPUCOLL_OK;
    run->segment = GPUCOLL_RAIL_SEGMENT;
    run->one_cell = false;
    run->nsteps = 0;
    run->ncells = 0;
    run->nqueues = 0;
    run->unfinished = 0;
    run->awaited = NULL;
}

/* ---- the program ---- */

static struct gpucoll_rail_queue *find_queue(struct gpucoll_rail_run *run, uint32_t peer, uint32_t flow,
                                             bool receives)
{
    for (uint32_t i = run->nqueues; i-- > 0;) {
        struct gpucoll_rail_queue *queue = &run->queues[i];
        if (queue->peer == peer && queue->flow == flow && queue->receives == receives) {
            return queue;
        }
    }
    struct gpucoll_rail_queue *queue = &run->queues[run->nqueues++];
    *queue = (struct gpucoll_rail_queue){.peer = peer, .flow = flow, .receives = receives};
    gpucoll_rail_meet(run->rail, peer);
    return queue;
}

static struct gpucoll_rail_cell *find_cell(struct gpucoll_rail_run *run, uint32_t number)
{
    if (!grow(run, (void **)&run->cells, &run->max_cells, number + 1, sizeof *run->cells)) {
        return NULL;
    }
    while (run->ncells <= number) {
        run->cells[run->ncells++] = (struct gpucoll_rail_cell){0};
    }
    return &run->cells[number];
}

static void add_step(struct gpucoll_rail_run *run, struct gpucoll_rail_queue *queue, uint32_t kind,
                     struct gpucoll_rail_range range)
{
    struct gpucoll_rail_cell *cell = find_cell(run, range.cell);
    if (cell == NULL ||
        !grow(run, (void **)&run->steps, &run->max_steps, run->nsteps + 1, sizeof *run->steps)) {
        return;
    }
    run->steps[run->nsteps] = (struct gpucoll_rail_step){
        .offset = range.offset,
        .bytes = (uint32_t)range.bytes,
        .cell = range.cell,
        .before = cell->steps,
        .receives_before = cell->receives,
        .next = GPUCOLL_RAIL_NONE,
        .kind = kind,
    };
    cell->steps++;
    cell->receives += queue->receives;
    if (queue->steps == 0) {
        queue->next = run->nsteps;
    } else {
        run->steps[queue->last].next = run->nsteps;
    }
    queue->last = run->nsteps++;
    queue->steps++;
    queue->combines += kind == GPUCOLL_RAIL_COMBINE;
    run->unfinished++;
}

static void add_range(struct gpucoll_rail_run *run, uint32_t flow, uint32_t peer, uint32_t kind,
                      struct gpucoll_rail_range range)
{
    if (range.bytes == 0) {
        return;
    }
    struct gpucoll_rail_queue *queue = find_queue(run, peer, flow, kind != SEND);
    struct gpucoll_rail_range piece = {range.offset, 0, run->one_cell ? 0 : range.cell};
    for (uint64_t left = range.bytes; left > 0 && run->status == GPUCOLL_OK; left -= piece.bytes) {
        piece.bytes = left < run->segment ? left : run->segment;
        add_step(run, queue, kind, piece);
        piece.offset += piece.bytes;
        piece.cell += !run->one_cell;
    }
}

void gpucoll_rail_send(struct gpucoll_rail_run *run, uint32_t flow, uint32_t to,
                       struct gpucoll_rail_range range)
{
    add_range(run, flow, to, SEND, range);
}

void gpucoll_rail_receive(struct gpucoll_rail_run *run, uint32_t flow, uint32_t from,
                          struct gpucoll_rail_range range, enum gpucoll_rail_receive how)
{
    add_range(run, flow, from, how, range);
}

void gpucoll_rail_signal(struct gpucoll_rail_run *run, uint32_t to)
{
    add_step(run, find_queue(run, to, 0, false), SEND, (struct gpucoll_rail_range){0});
}

void gpucoll_rail_await(struct gpucoll_rail_run *run, uint32_t from)
{
    add_step(run, find_queue(run, from, 0, true), GPUCOLL_RAIL_FRESH, (struct gpucoll_rail_range){0});
}

bool gpucoll_rail_cut(struct gpucoll_rail_run *run)
{
    const uint32_t size = run->rail->size;
    if (!grow(run, (void **)&run->ranges, &run->max_ranges, size, sizeof *run->ranges)) {
        return false;
    }
    const uint64_t part = gpucoll_round_up((run->args.bytes + size - 1) / size, GPUCOLL_RAIL_ALIGN);
    uint64_t offset = 0;
    uint32_t cell = 0;
    for (uint32_t i = 0; i < size; i++) {
        const uint64_t left = run->args.bytes - offset;
        const uint64_t bytes = run->args.blocks ? run->args.blocks[i] : left < part ? left : part;
        /* Without `data`, what is to be found from it on is the address. */
        const uint64_t place = run->args.places != NULL && bytes > 0
                                   ? (uintptr_t)run->args.places[i] - (uintptr_t)run->args.data
                                   : offset;
        run->ranges[i] = (struct gpucoll_rail_range){place, bytes, cell};
        offset += bytes;
        cell += (uint32_t)((bytes + run->segment - 1) / run->segment);
    }
    return true;
}

/* ---- carrying it out ---- */

/* Scratch memory is not zeroed nor moved: what it held is worthless. */
static bool get_scratch(struct gpucoll_rail_run *run, uint64_t bytes)
{
    enum { PAGE = 4096 };
    if (bytes <= run->scratch_bytes) {
        return true;
    }
    free(run->scratch);
    run->scratch_bytes = gpucoll_round_up(bytes, PAGE);
    run->scratch = aligned_alloc(PAGE, run->scratch_bytes);
    if (run->scratch == NULL) {
        run->scratch_bytes = 0;
        run->status = GPUCOLL_ERR_NO_MEMORY;
        return false;
    }
    return true;
}

static uint32_t largest_combined(const struct gpucoll_rail_run *run)
{
    uint32_t largest = 0;
    for (uint32_t i = 0; i < run->nsteps; i++) {
        const struct gpucoll_rail_step *step = &run->steps[i];
        if (step->kind == GPUCOLL_RAIL_COMBINE && step->bytes > largest) {
            largest = step->bytes;
        }
    }
    return (uint32_t)gpucoll_round_up(largest, GPUCOLL_RAIL_ALIGN);
}

static bool get_flights(struct gpucoll_rail_run *run)
{
    const uint32_t slot = largest_combined(run);
    uint32_t flights = 0;
    uint64_t slots = 0;
    for (uint32_t i = 0; i < run->nqueues; i++) {
        struct gpucoll_rail_queue *queue = &run->queues[i];
        queue->window = queue->steps < GPUCOLL_RAIL_WINDOW ? queue->steps : GPUCOLL_RAIL_WINDOW;
        flights += queue->window;
        slots += queue->combines > 0 ? queue->window : 0;
    }
    if (!grow(run, (void **)&run->flights, &run->max_flights, flights, sizeof *run->flights) ||
        !get_scratch(run, slots * slot)) {
        return false;
    }
    struct gpucoll_rail_flight *flight = run->flights;
    char *scratch = run->scratch;
    for (uint32_t i = 0; i < run->nqueues; i++) {
        struct gpucoll_rail_queue *queue = &run->queues[i];
        queue->flights = flight;
        for (uint32_t k = 0; k < queue->window; k++, flight++) {
            *flight = (struct gpucoll_rail_flight){.slot = scratch};
            scratch += queue->combines > 0 ? slot : 0;
        }
    }
    return true;
}

static bool may_start(const struct gpucoll_rail_run *run, const struct gpucoll_rail_step *step)
{
    const struct gpucoll_rail_cell *cell = &run->cells[step->cell];
    switch (step->kind) {
    case SEND:
        return cell->received >= step->receives_before;
    case GPUCOLL_RAIL_PLACE:
        return cell->finished >= step->before;
    default:
        return true;
    }
}

static bool may_finish(const struct gpucoll_rail_run *run, const struct gpucoll_rail_step *step)
{
    const struct gpucoll_rail_cell *cell = &run->cells[step->cell];
    switch (step->kind) {
    case SEND:
        return true;
    case GPUCOLL_RAIL_COMBINE:
        return cell->finished >= step->before;
    default:
        return cell->received >= step->receives_before;
    }
}

/* Runs follow each other 2^20 / FLOWS times before a channel is used again. */
static uint64_t tag_of(const struct gpucoll_rail_run *run, const struct gpucoll_rail_queue *queue)
{
    const struct gpucoll_rail *rail = run->rail;
    const uint32_t channel = run->number * GPUCOLL_RAIL_FLOWS + queue->flow;
    return queue->receives ? gpucoll_net_tag(rail->id, queue->peer, channel)
                           : gpucoll_net_tag(rail->peer_id[queue->peer], rail->rank, channel);
}

static bool start_steps(struct gpucoll_rail_run *run, struct gpucoll_rail_queue *queue)
{
    struct gpucoll_rail *rail = run->rail;
    const uint32_t before = queue->started;
    while (queue->started < queue->steps && queue->started - queue->finished < queue->window &&
           may_start(run, &run->steps[queue->next])) {
        const struct gpucoll_rail_step *step = &run->steps[queue->next];
        struct gpucoll_rail_flight *flight = &queue->flights[queue->started % queue->window];
        char *data = step->bytes > 0 ? (char *)((uintptr_t)run->args.data + step->offset) : NULL;
        flight->step = queue->next;
        flight->message = (struct gpucoll_net_message){.status = GPUCOLL_IN_PROGRESS};
        if (queue->receives) {
            rail->ops->receive(rail->net, rail->peer[queue->peer], tag_of(run, queue),
                               step->kind == GPUCOLL_RAIL_COMBINE ? flight->slot : data, step->bytes,
                               run->args.memory, &flight->message);
        } else {
            rail->ops->send(rail->net, rail->peer[queue->peer], tag_of(run, queue), data, step->bytes,
                            run->args.memory, &flight->message);
            gpucoll_rail_note(rail, queue->peer, &flight->message);
        }
        queue->next = step->next;
        queue->started++;
    }
    return queue->started > before;
}

static void combine(struct gpucoll_rail_run *run, const struct gpucoll_rail_queue *queue,
                    const struct gpucoll_rail_step *step, const char *arrived)
{
    const int functor = run->args.functor;
    char *data = (char *)run->args.data + step->offset;
    const bool own_first = run->rail->rank < queue->peer;
    gpucoll_host_reduce(functor, data, own_first ? data : arrived, own_first ? arrived : data,
                        step->bytes / gpucoll_host_functor_size(functor));
}

/* In the queue's order, up to the first message that is still under way, and at most one reduction: in between the network is to have its
 * turn. GPUCOLL_IN_PROGRESS, or an error. */
static gpucoll_status finish_steps(struct gpucoll_rail_run *run, struct gpucoll_rail_queue *queue,
                                   bool *moved)
{
    const struct gpucoll_rail *rail = run->rail;
    bool combined = false;
    while (queue->finished < queue->started && !combined) {
        struct gpucoll_rail_flight *flight = &queue->flights[queue->finished % queue->window];
        const struct gpucoll_rail_step *step = &run->steps[flight->step];
        const gpucoll_status status = rail->ops->test(rail->net, &flight->message);
        if (status != GPUCOLL_OK && status != GPUCOLL_IN_PROGRESS) {
            run->awaited = queue;
            return status;
        }
        if (status == GPUCOLL_IN_PROGRESS) {
            const bool first = run->awaited == NULL || (queue->receives && !run->awaited->receives);
            run->awaited = first ? queue : run->awaited;
            break;
        }
        if (!may_finish(run, step)) {
            break;
        }
        if (step->kind == GPUCOLL_RAIL_COMBINE) {
            combine(run, queue, step, flight->slot);
            combined = true;
        }
        run->cells[step->cell].finished++;
        run->cells[step->cell].received += queue->receives;
        queue->finished++;
        run->unfinished--;
        *moved = true;
    }
    return GPUCOLL_IN_PROGRESS;
}

gpucoll_status gpucoll_rail_run_begin(struct gpucoll_rail_run *run)
{
    if (run->status != GPUCOLL_OK || !get_flights(run)) {
        return run->status;
    }
    /* Receives first: what is then sent finds its place. */
    for (uint32_t i = 0; i < run->nqueues; i++) {
        if (run->queues[i].receives) {
            start_steps(run, &run->queues[i]);
        }
    }
    for (uint32_t i = 0; i < run->nqueues; i++) {
        if (!run->queues[i].receives) {
            start_steps(run, &run->queues[i]);
        }
    }
    return GPUCOLL_OK;
}

gpucoll_status gpucoll_rail_run_move(struct gpucoll_rail_run *run)
{
    bool moved = true;
    for (int pass = 0; pass < PASSES && moved && run->unfinished > 0; pass++) {
        moved = run->rail->ops->progress(run->rail->net);
        run->awaited = NULL;
        for (uint32_t i = 0; i < run->nqueues; i++) {
            gpucoll_status status = finish_steps(run, &run->queues[i], &moved);
            if (status != GPUCOLL_IN_PROGRESS) {
                return status;
            }
        }
        for (uint32_t i = 0; i < run->nqueues; i++) {
            moved |= start_steps(run, &run->queues[i]);
        }
    }
    return run->unfinished > 0 ? GPUCOLL_IN_PROGRESS : GPUCOLL_OK;
}

static void cancel_by(struct gpucoll_rail_run *run,
                      void (*cancel)(struct gpucoll_net *net, struct gpucoll_net_message *message))
{
    for (uint32_t i = 0; i < run->nqueues; i++) {
        struct gpucoll_rail_queue *queue = &run->queues[i];
        for (uint32_t k = queue->finished; k < queue->started; k++) {
            cancel(run->rail->net, &queue->flights[k % queue->window].message);
        }
    }
}

void gpucoll_rail_run_cancel(struct gpucoll_rail_run *run)
{
    cancel_by(run, run->rail->ops->begin_cancel);
    cancel_by(run, run->rail->ops->cancel);
}

uint32_t gpucoll_rail_run_missing(const struct gpucoll_rail_run *run)
{
    return run->awaited != NULL ? run->awaited->peer : run->rail->rank;
}
