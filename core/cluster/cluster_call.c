/*
 * The stages of a call of several hosts: the order of its local calls, and what each unit's slot is about.
 */
#include "core/cluster/cluster_call.h"

#include <sched.h>
#include "core/base/clock.h"
#include "core/cluster/cluster_pairs.h"
#include "core/watchdog.h"

static struct gpucoll_stage_slot *slot_of(struct gpucoll_cluster_call *call, uint64_t unit)
{
    return &call->slot[unit % GPUCOLL_STAGE_SLOTS];
}

static char *slot_memory(const struct gpucoll_cluster_call *call, uint64_t unit)
{
    return call->slots + unit % GPUCOLL_STAGE_SLOTS * call->slot_bytes;
}

/* ---- local calls ---- */

static struct gpucoll_posted_op *op_at(struct gpucoll_cluster_call *call, uint64_t number)
{
    return &call->ops[number % GPUCOLL_STAGE_OPS];
}

static gpucoll_status post_op(struct gpucoll_request *request, struct gpucoll_posted_op *posted)
{
    const struct gpucoll_cluster_call *call = request->stages;
    struct gpucoll_stage_op op = {
        .args = {.op = call->op, .type = call->type, .form = (enum gpucoll_form)request->form},
    };
    call->family->op(call, posted->unit, posted->side, posted->index, &op);
    posted->declined = false;
    return gpucoll_post(call->cluster->back, &op.args, &posted->request);
}

/* Local calls of two teams whose ranks hold their last lanes crosswise are declined together. Posted again together, they would meet like
 * that for ever: so each pauses for a while that is the same on all ranks of the host and differs between teams and from time to time. */
static uint64_t pause_ns(const struct gpucoll_cluster *cluster, uint32_t times)
{
    const uint64_t most_ns = 1000000u << (times < 7 ? times : 7);
    const uint64_t team = cluster->span_id[gpucoll_host_rank(cluster, cluster->host, 0)];
    const uint64_t word = (team << 32 | times) * 0x9E3779B97F4A7C15u;
    return (word >> 32) % most_ns;
}

static bool lane_may_come(const struct gpucoll_request *request)
{
    pthread_mutex_lock(&request->team->context->lock);
    const bool may = gpucoll_gpu_lane_prospect(request->gpu) != GPUCOLL_LANE_NEVER;
    pthread_mutex_unlock(&request->team->context->lock);
    return may;
}

/* Only for want of lanes can a local call be declined that the probe has found possible. */
static gpucoll_status note_declined(struct gpucoll_request *request, struct gpucoll_posted_op *posted)
{
    const enum gpucoll_reason reason = gpucoll_declined_reason(request->team->cluster->back);
    posted->declined = true;
    if (reason == GPUCOLL_REASON_LANES && lane_may_come(request)) {
        posted->again_ns = gpucoll_now_ns() + pause_ns(request->team->cluster, ++posted->times);
        return GPUCOLL_OK;
    }
    gpucoll_help(request->team->context->log, "stage-declined", gpucoll_coll_name(request->coll),
                 request->team->name, (unsigned long long)request->call, gpucoll_reason_text(reason));
    return GPUCOLL_ERR_UNSUPPORTED;
}

gpucoll_status gpucoll_stage_test(struct gpucoll_request *request, struct gpucoll_request *local)
{
    const uint32_t moves = local->moves;
    const gpucoll_status status = gpucoll_test(local);
    if (status == GPUCOLL_IN_PROGRESS) { /* else it is gone */
        request->moves += local->moves - moves;
    }
    return status;
}

/* Tests what is outstanding, and drops from the front of the order what has run. */
static gpucoll_status test_ops(struct gpucoll_request *request, bool *moved)
{
    struct gpucoll_cluster_call *call = request->stages;
    for (uint64_t number = call->popped; number < call->posted; number++) {
        struct gpucoll_posted_op *posted = op_at(call, number);
        gpucoll_status status =
            posted->request != NULL ? gpucoll_stage_test(request, posted->request) : GPUCOLL_IN_PROGRESS;
        if (status == GPUCOLL_IN_PROGRESS) {
            continue;
        }
        posted->request = NULL;
        *moved = true;
        if (status == GPUCOLL_DECLINED) {
            status = note_declined(request, posted);
        }
        if (status != GPUCOLL_OK) {
            return status;
        }
    }
    for (; call->popped < call->posted; call->popped++) {
        const struct gpucoll_posted_op *posted = op_at(call, call->popped);
        if (posted->request != NULL || posted->declined) {
            break;
        }
    }
    return GPUCOLL_OK;
}

/* The order goes on only when local calls below `number` have run: if the first of those that have not was declined, all ranks post it again
 * here. */
static gpucoll_status drain(struct gpucoll_request *request, uint64_t number, bool *moved)
{
    struct gpucoll_cluster_call *call = request->stages;
    struct gpucoll_posted_op *first = op_at(call, call->popped);
    if (call->popped < number && first->declined && gpucoll_now_ns() >= first->again_ns) {
        *moved = true;
        return post_op(request, first);
    }
    return GPUCOLL_OK;
}

/* ---- the order ---- */

static uint64_t unit_here(const struct gpucoll_cluster_call *call)
{
    return call->side == GPUCOLL_BEFORE ? call->step : call->step - GPUCOLL_STAGE_DEPTH;
}

/* Does the order have a unit at this place? */
static bool is_place(const struct gpucoll_cluster_call *call)
{
    return call->side == GPUCOLL_BEFORE ? call->step < call->units : call->step >= GPUCOLL_STAGE_DEPTH;
}

static bool at_end(const struct gpucoll_cluster_call *call)
{
    return call->step >= call->units + GPUCOLL_STAGE_DEPTH;
}

/* May the local calls of this place be posted, as far as the unit's slot is concerned? */
static bool is_open(struct gpucoll_cluster_call *call)
{
    struct gpucoll_stage_slot *slot = slot_of(call, unit_here(call));
    if (call->side == GPUCOLL_BEFORE && slot->state == GPUCOLL_SLOT_FREE) {
        slot->state = GPUCOLL_SLOT_BEFORE;
        slot->unit = call->step;
        slot->ops_end = UINT64_MAX;
    } else if (call->side == GPUCOLL_AFTER && slot->state == GPUCOLL_SLOT_READY) {
        slot->state = GPUCOLL_SLOT_AFTER;
        slot->ops_end = UINT64_MAX;
    }
    return slot->ops_end == UINT64_MAX &&
           slot->state == (call->side == GPUCOLL_BEFORE ? GPUCOLL_SLOT_BEFORE : GPUCOLL_SLOT_AFTER);
}

static void next_place(struct gpucoll_cluster_call *call)
{
    call->next_op = 0;
    call->step += call->side == GPUCOLL_AFTER;
    call->side = call->side == GPUCOLL_BEFORE ? GPUCOLL_AFTER : GPUCOLL_BEFORE;
}

/* Posts as many local calls as may be. */
static gpucoll_status post_ops(struct gpucoll_request *request, bool *moved)
{
    struct gpucoll_cluster_call *call = request->stages;
    while (!at_end(call)) {
        if (!is_place(call)) {
            next_place(call);
            continue;
        }
        const uint64_t unit = unit_here(call);
        struct gpucoll_stage_slot *slot = slot_of(call, unit);
        if (!is_open(call)) {
            /* Its former unit is to have run, or what is before the rail. */
            return drain(request, slot->ops_end, moved);
        }
        if (call->next_op == call->family->ops(call, unit, call->side)) {
            slot->ops_end = call->posted;
            next_place(call);
            *moved = true;
            continue;
        }
        if (call->posted - call->popped == GPUCOLL_STAGE_OPS) {
            return drain(request, call->posted, moved);
        }
        struct gpucoll_posted_op *posted = op_at(call, call->posted);
        *posted = (struct gpucoll_posted_op){.side = call->side, .unit = unit, .index = call->next_op};
        gpucoll_status status = post_op(request, posted);
        if (status != GPUCOLL_OK) {
            return status;
        }
        call->posted++;
        call->next_op++;
        *moved = true;
    }
    return drain(request, call->posted, moved);
}

/* ---- slots ---- */

struct gpucoll_net_memory *gpucoll_stage_reach(const struct gpucoll_cluster_call *call,
                                               const struct gpucoll_extent *extent)
{
    const struct gpucoll_cluster *cluster = call->cluster;
    return extent->begin == NULL ? NULL
                                 : cluster->ops->reach(cluster->net, call->gpu->device, extent->begin,
                                                       (size_t)(extent->end - extent->begin));
}

void gpucoll_stage_forget(const struct gpucoll_cluster_call *call, struct gpucoll_net_memory *memory)
{
    if (memory != NULL) {
        call->cluster->ops->forget(call->cluster->net, memory);
    }
}

gpucoll_status gpucoll_stage_flush(const struct gpucoll_cluster_call *call)
{
    struct gpucoll_device *device = call->gpu->device;
    const struct gpucoll_accel_ops *ops = device->accel->ops;
    return ops->device_flush != NULL ? ops->device_flush(device) : GPUCOLL_OK;
}

/* Queues the unit's copies of one side. Copies of a queue end in order: the last tells of all. */
static gpucoll_status give_copies(const struct gpucoll_cluster_call *call, const struct gpucoll_rail *rail,
                                  struct gpucoll_stage_slot *slot, enum gpucoll_side side)
{
    struct gpucoll_stage_copy copy;
    gpucoll_status status = GPUCOLL_OK;
    slot->copied.number = 0;
    for (uint32_t i = 0; rail != NULL && !slot->direct && status == GPUCOLL_OK &&
                         call->family->copy(call, slot->unit, side, i, &copy);
         i++) {
        char *host = slot_memory(call, slot->unit) + copy.at;
        const bool out = side == GPUCOLL_BEFORE;
        struct gpucoll_copy_ticket ticket = {0};
        status = gpucoll_copy_in(call->gpu, out ? GPUCOLL_QUEUE_OUT : GPUCOLL_QUEUE_IN,
                                 out ? host : copy.device, out ? copy.device : host, copy.bytes, &ticket);
        slot->copied = ticket.number != 0 ? ticket : slot->copied;
    }
    return status;
}

/* What is to be done along the rail, and whether on the device. */
static void prepare_rail(struct gpucoll_cluster_call *call, const struct gpucoll_rail *rail,
                         struct gpucoll_stage_slot *slot)
{
    const struct gpucoll_cluster *cluster = call->cluster;
    const uint64_t first = slot->unit % GPUCOLL_STAGE_SLOTS * (rail != NULL ? rail->size : 0);
    struct gpucoll_rail_args *args = &slot->rail;
    uint64_t *blocks = call->slot_blocks != NULL ? call->slot_blocks + first : NULL;
    slot->goes = rail != NULL && gpucoll_stage_rail_args(call, slot->unit, blocks, args);
    slot->direct = slot->goes && call->memory != NULL && gpucoll_rail_keeps_blocks(rail, args);
    if (!slot->direct) {
        args->data = slot_memory(call, slot->unit);
        return;
    }
    args->memory = call->memory;
    args->data = call->family->place(call, slot->unit, 0);
    if (blocks != NULL) {
        for (uint32_t host = 0; host < cluster->hosts; host++) {
            call->slot_places[first + host] = call->family->place(call, slot->unit, host);
        }
        args->places = call->slot_places + first;
    }
}

/* Rail runs start in the order of units, so that all ranks of the rail start them alike. */
static gpucoll_status start_rail(struct gpucoll_cluster_call *call, struct gpucoll_rail *rail,
                                 struct gpucoll_stage_slot *slot)
{
    call->next_rail++;
    slot->run = NULL;
    slot->state = GPUCOLL_SLOT_RAIL;
    return slot->goes ? gpucoll_rail_start(rail, &slot->rail, &slot->run) : GPUCOLL_OK;
}

/* The rank that a rail run waits for, as the communicator counts. */
static uint32_t missing_rank(const struct gpucoll_cluster_call *call)
{
    return call->family->between == GPUCOLL_BETWEEN_RANKS
               ? call->missing
               : gpucoll_host_rank(call->cluster, call->missing, call->index);
}

static gpucoll_status end_rail(struct gpucoll_request *request, struct gpucoll_stage_slot *slot)
{
    uint32_t missing = 0;
    if (slot->run == NULL) {
        return GPUCOLL_OK;
    }
    const uint32_t left = gpucoll_rail_left(slot->run);
    gpucoll_status status = gpucoll_rail_test(slot->run, &missing);
    request->stages->missing = missing;
    if (status == GPUCOLL_IN_PROGRESS) {
        request->moves += left - gpucoll_rail_left(slot->run);
        return status;
    }
    if (status != GPUCOLL_OK) { /* gpucoll_cluster_stop ends it, when the others have been told */
        return gpucoll_watchdog_failed(request, missing_rank(request->stages), status);
    }
    slot->run = NULL;
    return slot->direct ? gpucoll_stage_flush(request->stages) : status;
}

static gpucoll_status move_pairs(struct gpucoll_request *request, bool *moved)
{
    struct gpucoll_cluster_call *call = request->stages;
    if (call->pairs == NULL) {
        return GPUCOLL_OK;
    }
    gpucoll_status status = gpucoll_pairs_move(call, moved);
    return status == GPUCOLL_OK || status == GPUCOLL_IN_PROGRESS
               ? GPUCOLL_OK
               : gpucoll_watchdog_failed(request, call->missing, status);
}

/* One step of a slot; GPUCOLL_IN_PROGRESS if there is none to take now. */
static gpucoll_status move_slot(struct gpucoll_request *request, struct gpucoll_stage_slot *slot)
{
    struct gpucoll_cluster_call *call = request->stages;
    struct gpucoll_rail *rail = gpucoll_stage_rail(call, request->team->cluster);
    gpucoll_status status = GPUCOLL_IN_PROGRESS;
    switch (slot->state) {
    case GPUCOLL_SLOT_FREE:
    case GPUCOLL_SLOT_READY:
        return GPUCOLL_IN_PROGRESS;
    case GPUCOLL_SLOT_BEFORE:
        if (call->popped < slot->ops_end) {
            return GPUCOLL_IN_PROGRESS;
        }
        slot->state = GPUCOLL_SLOT_OUT;
        prepare_rail(call, rail, slot);
        return give_copies(call, rail, slot, GPUCOLL_BEFORE);
    case GPUCOLL_SLOT_OUT:
        status = gpucoll_copy_done(call->gpu, slot->copied);
        slot->state = status == GPUCOLL_OK ? GPUCOLL_SLOT_WAITS : slot->state;
        return status;
    case GPUCOLL_SLOT_WAITS:
        return slot->unit == call->next_rail ? start_rail(call, rail, slot) : GPUCOLL_IN_PROGRESS;
    case GPUCOLL_SLOT_RAIL:
        status = end_rail(request, slot);
        if (status == GPUCOLL_OK) {
            slot->state = GPUCOLL_SLOT_IN;
            status = give_copies(call, rail, slot, GPUCOLL_AFTER);
        }
        return status;
    case GPUCOLL_SLOT_IN:
        status = gpucoll_copy_done(call->gpu, slot->copied);
        slot->state = status == GPUCOLL_OK ? GPUCOLL_SLOT_READY : slot->state;
        return status;
    case GPUCOLL_SLOT_AFTER:
        if (call->popped < slot->ops_end) {
            return GPUCOLL_IN_PROGRESS;
        }
        slot->state = GPUCOLL_SLOT_FREE;
        return GPUCOLL_OK;
    }
    return status;
}

static gpucoll_status move_slots(struct gpucoll_request *request, bool *moved)
{
    struct gpucoll_cluster_call *call = request->stages;
    for (int i = 0; i < GPUCOLL_STAGE_SLOTS; i++) {
        gpucoll_status status;
        while ((status = move_slot(request, &call->slot[i])) == GPUCOLL_OK) {
            *moved = true;
        }
        if (status != GPUCOLL_IN_PROGRESS) {
            return status;
        }
    }
    return GPUCOLL_OK;
}

/* ---- the whole ---- */

static bool has_ended(const struct gpucoll_cluster_call *call)
{
    bool ended = at_end(call) && call->popped == call->posted &&
                 (call->pairs == NULL || gpucoll_pairs_are_through(call->pairs));
    for (int i = 0; i < GPUCOLL_STAGE_SLOTS; i++) {
        ended &= call->slot[i].state == GPUCOLL_SLOT_FREE;
    }
    return ended;
}

/* Local calls look after themselves. */
static gpucoll_status look_after(struct gpucoll_request *request)
{
    const struct gpucoll_cluster_call *call = request->stages;
    bool copies = false;
    if (call->pairs != NULL && !gpucoll_pairs_are_through(call->pairs)) {
        uint32_t missing = call->cluster->rank;
        const bool waits = gpucoll_pairs_missing(call->pairs, &missing);
        return gpucoll_watchdog_far(request, missing,
                                    waits ? "waiting for data of another host"
                                          : "copying between its GPU and the host");
    }
    for (int i = 0; i < GPUCOLL_STAGE_SLOTS; i++) {
        if (call->slot[i].run != NULL) {
            return gpucoll_watchdog_far(request, missing_rank(call), "waiting for data of another host");
        }
        copies |= call->slot[i].state == GPUCOLL_SLOT_OUT || call->slot[i].state == GPUCOLL_SLOT_IN;
    }
    return copies ? gpucoll_watchdog(request, request->team->rank, "copying between its GPU and the host")
                  : GPUCOLL_IN_PROGRESS;
}

static gpucoll_status take_turn(struct gpucoll_request *request)
{
    struct gpucoll_cluster *cluster = request->team->cluster;
    struct gpucoll_cluster_call *call = request->stages;
    if (request->team->given_up) {
        return gpucoll_watchdog_given_up(request->team); /* why was shown */
    }
    if (call->turn != cluster->ended + 1) {
        return gpucoll_watchdog_behind(request, request->team->rank, "waiting for its own earlier call");
    }
    cluster->back->gpu = request->gpu;
    cluster->back->outer = request;
    return GPUCOLL_OK;
}

gpucoll_status gpucoll_stages_move(struct gpucoll_request *request)
{
    struct gpucoll_cluster_call *call = request->stages;
    gpucoll_status status = take_turn(request);
    bool moved = status == GPUCOLL_OK;
    bool any = false;
    while (moved && status == GPUCOLL_OK) {
        moved = false;
        status = test_ops(request, &moved);
        if (status == GPUCOLL_OK) {
            status = move_slots(request, &moved);
        }
        if (status == GPUCOLL_OK) {
            status = post_ops(request, &moved);
        }
        if (status == GPUCOLL_OK) {
            status = move_pairs(request, &moved);
        }
        any |= moved;
    }
    if (status != GPUCOLL_OK || has_ended(call)) {
        return status;
    }
    if (any) {
        gpucoll_watchdog_reset(request);
    }
    return look_after(request);
}

static bool copies_in_flight(const struct gpucoll_cluster_call *call)
{
    for (int i = 0; i < GPUCOLL_STAGE_SLOTS; i++) {
        const struct gpucoll_stage_slot *slot = &call->slot[i];
        if ((slot->state == GPUCOLL_SLOT_OUT || slot->state == GPUCOLL_SLOT_IN) &&
            gpucoll_copy_done(call->gpu, slot->copied) == GPUCOLL_IN_PROGRESS) {
            return true;
        }
    }
    return call->pairs != NULL && gpucoll_pairs_copy(call);
}

void gpucoll_cluster_stop(struct gpucoll_request *request)
{
    struct gpucoll_cluster_call *call = request->stages;
    gpucoll_span_end(request->span);
    request->span = NULL;
    if (call == NULL) {
        return;
    }
    if (call->probe != NULL) {
        gpucoll_cancel(call->probe);
        call->probe = NULL;
    }
    for (uint64_t number = call->popped; number < call->posted; number++) {
        struct gpucoll_posted_op *posted = op_at(call, number);
        if (posted->request != NULL) {
            gpucoll_cancel(posted->request);
            posted->request = NULL;
        }
    }
    for (int i = 0; i < GPUCOLL_STAGE_SLOTS; i++) {
        gpucoll_rail_cancel(call->slot[i].run);
        call->slot[i].run = NULL;
    }
    if (call->pairs != NULL) {
        gpucoll_pairs_cancel(call);
    }
    const uint64_t end = gpucoll_now_ns() + 1000000000u;
    while ((gpucoll_carry_copies(request) || copies_in_flight(call)) && gpucoll_now_ns() < end) {
        sched_yield();
    }
    call->stopped = true;
    if (gpucoll_carry_copies(request)) {
        gpucoll_copy_forget(request->gpu, call->carrying);
    }
}
