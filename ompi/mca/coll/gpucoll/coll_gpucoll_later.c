#include "coll_gpucoll_later.h"
#include "coll_gpucoll_native.h"
#include "coll_gpucoll_observe.h"
#include "coll_gpucoll_operator.h"
#include "coll_gpucoll_request.h"
#include "coll_gpucoll_tag.h"

static void end(struct gpucoll_outer *outer, int error)
{
    outer->super.super.req_status.MPI_ERROR = error;
    outer->phase = GPUCOLL_PHASE_ENDED;
}

/* ---- to the next component ---- */

/* Host memory for what is on the device. `sparse`: it will hardly be needed, and is to cost nothing until then. */
static int stage(struct gpucoll_outer *outer, bool sparse)
{
    struct gpucoll_arguments *arguments = &outer->later.arguments;
    outer->staged = gpucoll_device_active() && gpucoll_stage_wanted(&outer->call);
    if (!outer->staged) {
        return OMPI_SUCCESS;
    }
    outer->call.sparse = sparse;
    int rc = gpucoll_stage_alloc(&outer->call);
    arguments->sbuf = outer->call.send.pointer;
    arguments->rbuf = outer->call.recv.pointer;
    return rc;
}

static int copy_in(struct gpucoll_outer *outer)
{
    if (gpucoll_device_active() && outer->call.module != NULL) {
        outer->module->declined = outer->declined;
        gpucoll_observe_next(&outer->call, outer->staged);
        if (outer->later.persistent) {
            gpucoll_observe_next_start(&outer->call);
        }
    }
    return outer->staged ? gpucoll_stage_in(&outer->call) : OMPI_SUCCESS;
}

static int ask_next(struct gpucoll_outer *outer)
{
    const struct gpucoll_later *later = &outer->later;
    const int32_t next = gpucoll_tag_lend(outer->module, outer->tag);
    int rc = later->next(&later->arguments, outer->comm, &outer->inner, outer->module);
    gpucoll_tag_restore(outer->module, next);
    return rc;
}

/* The inner request has been started, or what stands in `rc` was in the way. */
static void await_next(struct gpucoll_outer *outer, int rc)
{
    if (rc == OMPI_SUCCESS) {
        outer->phase = GPUCOLL_PHASE_NEXT;
    } else {
        gpucoll_observe_next_done(&outer->call);
        end(outer, rc);
    }
}

/* It is a nonblocking call's turn. */
static void go_next(struct gpucoll_outer *outer)
{
    int rc = stage(outer, false);
    if (rc == OMPI_SUCCESS) {
        rc = copy_in(outer);
    }
    if (rc == OMPI_SUCCESS) {
        rc = ask_next(outer);
    }
    await_next(outer, rc);
}

/* It is a persistent request's turn to be made. */
static void make_inner(struct gpucoll_outer *outer)
{
    bool native = outer->sequence != NULL && outer->sequence->team != NULL;
    outer->inner_error = stage(outer, native);
    if (outer->inner_error == OMPI_SUCCESS) {
        outer->inner_error = ask_next(outer);
    }
    outer->inner_made = true;
}

static int start_inner(ompi_request_t **inner)
{
    if ((*inner)->req_type == OMPI_REQUEST_NOOP) { /* nothing to do on a single rank: complete as it is */
        (*inner)->req_state = OMPI_REQUEST_ACTIVE;
        return OMPI_SUCCESS;
    }
    return (*inner)->req_start(1, inner);
}

/* A started persistent request does not run natively. */
static void start_next(struct gpucoll_outer *outer)
{
    if (!outer->inner_made) {
        return;
    }
    int rc = outer->inner_error;
    if (rc == OMPI_SUCCESS) {
        rc = copy_in(outer);
    }
    if (rc == OMPI_SUCCESS) {
        rc = start_inner(&outer->inner);
    }
    await_next(outer, rc);
}

/* The inner request is complete: takes its result over. */
static void finish_next(struct gpucoll_outer *outer)
{
    int rc = outer->inner->req_status.MPI_ERROR;
    if (rc == MPI_SUCCESS && outer->staged) {
        rc = gpucoll_stage_out(&outer->call);
    }
    gpucoll_observe_next_done(&outer->call);
    if (outer->later.persistent) {
        outer->inner->req_state = OMPI_REQUEST_INACTIVE;
    } else {
        gpucoll_stage_free(&outer->call);
        ompi_request_free(&outer->inner);
        outer->inner = NULL;
    }
    end(outer, rc);
}

/* ---- to the engine ---- */

static void post(struct gpucoll_outer *outer)
{
    struct gpucoll_sequence *sequence = outer->sequence;
    struct gpucoll_native native;
    if (!gpucoll_native_describe(&native, outer->later.coll, outer->later.root, &outer->call)) {
        gpucoll_sequence_forsake(sequence);
        end(outer, MPI_ERR_NO_MEM);
        return;
    }
    native.args.op = outer->op;
    native.args.type = outer->type;
    native.args.form = outer->later.persistent ? GPUCOLL_FORM_PERSISTENT : GPUCOLL_FORM_NONBLOCKING;
    sequence->posted = true;
    outer->phase = GPUCOLL_PHASE_NATIVE;
    gpucoll_status status = gpucoll_queue_post(&sequence->queue, &native.args, &outer->task);
    gpucoll_native_release(&native);
    if (status != GPUCOLL_OK) {
        end(outer, gpucoll_mpi_error(status));
    }
}

static bool is_on_device(const struct gpucoll_outer *outer)
{
    struct gpucoll_call call = outer->call; /* which may hold host memory already */
    return gpucoll_device_active() && gpucoll_stage_wanted(&call);
}

/* The sequence's team is made, or never will be: this rank posts the call, passes, or has nobody to post to. */
static void join(struct gpucoll_outer *outer)
{
    struct gpucoll_sequence *sequence = outer->sequence;
    if (sequence->error != MPI_SUCCESS) {
        end(outer, sequence->error);
    } else if (sequence->team == NULL) {
        outer->phase = GPUCOLL_PHASE_TURN;
    } else if (ompi_comm_size(outer->comm) == 1 && gpucoll_coll_has_buffers(outer->later.coll) &&
               !is_on_device(outer)) {
        outer->phase = GPUCOLL_PHASE_TURN; /* the engine's copy is for device memory only */
    } else if (!sequence->posted && !gpucoll_device_active()) {
        gpucoll_pass(sequence->team);
        outer->phase = GPUCOLL_PHASE_TURN;
    } else {
        post(outer);
    }
}

static void take_result(struct gpucoll_outer *outer)
{
    struct gpucoll_counters *counters = &mca_coll_gpucoll_component.counters;
    gpucoll_status status = gpucoll_task_status(&outer->task);
    if (status == GPUCOLL_IN_PROGRESS) {
        return;
    }
    if (status == GPUCOLL_DECLINED) {
        gpucoll_tally(&counters->declined, 1);
        outer->declined = outer->task.reason;
        outer->phase = GPUCOLL_PHASE_TURN;
        return;
    }
    if (status == GPUCOLL_OK) {
        gpucoll_tally(&counters->native, 1);
        gpucoll_tally(&counters->native_bytes, gpucoll_native_bytes(&outer->call));
    }
    end(outer, status == GPUCOLL_OK ? MPI_SUCCESS : gpucoll_call_error(outer->comm, status));
}

/* ---- the order ---- */

/* Is the way of the order's first known? Then it is taken. */
static bool take_turn(struct gpucoll_outer *outer)
{
    if (outer->later.persistent) {
        if (outer->sequence != NULL && outer->sequence->state == GPUCOLL_NATIVE_CONNECTING) {
            return false; /* the answer tells what memory its host copies are worth */
        }
        make_inner(outer);
        return true;
    }
    if (outer->phase == GPUCOLL_PHASE_NATIVE) {
        take_result(outer);
    }
    if (outer->phase == GPUCOLL_PHASE_TURN) {
        go_next(outer);
    }
    return outer->phase == GPUCOLL_PHASE_NEXT || outer->phase == GPUCOLL_PHASE_ENDED ||
           (outer->phase == GPUCOLL_PHASE_NATIVE && gpucoll_task_runs(&outer->task));
}

static void take_turns(gpucoll_module *self)
{
    struct gpucoll_outer *outer;
    if (self->turning) { /* the next component's function has come back here */
        return;
    }
    self->turning = true;
    while ((outer = self->order) != NULL && take_turn(outer)) {
        __atomic_store_n(&self->order, outer->next_order,
                         __ATOMIC_RELEASE); /* read without the lock by who calls */
        if (self->order == NULL) {
            self->order_end = &self->order;
        }
        outer->in_order = false;
        gpucoll_outer_drop_if_freed(outer);
    }
    self->turning = false;
}

/* Has the call to wait for the way of those before it? */
static bool needs_turn(const struct gpucoll_outer *outer)
{
    return outer->later.native || !outer->module->tags_known;
}

static void enter_order(struct gpucoll_outer *outer)
{
    gpucoll_module *self = outer->module;
    outer->in_order = true;
    *self->order_end = outer;
    self->order_end = &outer->next_order;
}

void gpucoll_later_join(struct gpucoll_sequence *sequence)
{
    struct gpucoll_outer *owner = sequence->owner;
    if (owner != NULL) {
        if (owner->active && owner->phase == GPUCOLL_PHASE_TEAM) {
            join(owner);
        }
        return;
    }
    for (struct gpucoll_outer *outer = sequence->module->order; outer != NULL; outer = outer->next_order) {
        if (!outer->later.persistent && outer->phase == GPUCOLL_PHASE_TEAM) {
            join(outer);
        }
    }
}

void gpucoll_later_settled(struct gpucoll_sequence *sequence)
{
    take_turns(sequence->module);
    if (sequence->owner != NULL) {
        gpucoll_outer_drop_if_freed(sequence->owner);
    }
}

bool gpucoll_later_advance(struct gpucoll_outer *outer, unsigned pass)
{
    if (outer->phase == GPUCOLL_PHASE_NATIVE) {
        if (outer->sequence->pass != pass) { /* once a round for all of a sequence */
            outer->sequence->pass = pass;
            gpucoll_queue_progress(&outer->sequence->queue);
        }
        if (gpucoll_comm_error(outer->comm) != MPI_SUCCESS) {
            gpucoll_queue_cancel(&outer->sequence->queue, &outer->task);
        }
        take_result(outer);
    }
    if (outer->module->order != NULL) {
        take_turns(outer->module);
    }
    if (outer->phase == GPUCOLL_PHASE_TURN && outer->later.persistent) {
        start_next(outer);
    }
    if (outer->phase == GPUCOLL_PHASE_NEXT && REQUEST_COMPLETE(outer->inner)) {
        finish_next(outer);
    }
    return outer->phase == GPUCOLL_PHASE_ENDED;
}

/* ---- calls ---- */

/* An array of the caller's is replaced by the copy that a region keeps. */
static void adopt(const void **array, const struct gpucoll_region *given, const struct gpucoll_region *kept)
{
    if (*array == NULL || given->blocks == 0 || given->layout == GPUCOLL_EVEN) {
        return;
    }
    const bool vector = given->layout == GPUCOLL_VECTOR;
    const bool aint = given->layout == GPUCOLL_BYTES_AINT;
    if (*array == (const void *)given->counts) {
        *array = kept->counts;
    } else if (aint && *array == (const void *)given->displs_aint) {
        *array = kept->displs_aint;
    } else if (!aint && *array == (const void *)given->displs) {
        *array = kept->displs;
    } else if (!vector && *array == (const void *)given->types) {
        *array = kept->types;
    }
}

/* Only the arrays of the region's own side: the caller may have one array for both, of which the sides may need different lengths. (`displs` is of
 * the only side that has arrays.) */
static bool keep_region(struct gpucoll_outer *outer, struct gpucoll_region *region, bool sent)
{
    struct gpucoll_arguments *arguments = &outer->later.arguments;
    /* (What MPI_Reduce_scatter sends has `rcounts`. Of others the receiving side has replaced them before.) */
    const void **const sending[] = {&arguments->scounts, &arguments->rcounts, &arguments->displs,
                                    &arguments->sdispls, &arguments->sdtypes};
    const void **const receiving[] = {&arguments->rcounts, &arguments->displs, &arguments->rdispls,
                                      &arguments->rdtypes};
    const size_t count = sent ? sizeof sending / sizeof *sending : sizeof receiving / sizeof *receiving;
    const struct gpucoll_region given = *region;
    if (!gpucoll_region_keep(region)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        adopt(sent ? sending[i] : receiving[i], &given, region);
    }
    return true;
}

static bool keep_arguments(struct gpucoll_outer *outer)
{
    struct gpucoll_call *call = &outer->call;
    /* In place, of the receive buffer's blocks only some are read: the arrays are those of what is written. */
    bool kept = keep_region(outer, &call->recv.out, false);
    kept = keep_region(outer, &call->recv.in, false) && kept;
    return keep_region(outer, &call->send.in, true) && kept;
}

static void launch(struct gpucoll_outer *outer)
{
    gpucoll_module *self = outer->module;
    if (!needs_turn(outer)) {
        go_next(outer);
        return;
    }
    enter_order(outer);
    outer->phase = GPUCOLL_PHASE_TURN;
    if (outer->later.native) {
        outer->phase = GPUCOLL_PHASE_TEAM;
        outer->sequence = &self->calls;
        gpucoll_sequence_want(&self->calls);
        if (outer->phase == GPUCOLL_PHASE_TEAM && self->calls.state != GPUCOLL_NATIVE_CONNECTING) {
            join(outer);
        }
    }
    take_turns(self);
}

/* Returns an MPI error code. The next component's request may have to wait for its turn. */
static int prepare(struct gpucoll_outer *outer)
{
    if (!needs_turn(outer)) {
        make_inner(outer);
        return outer->inner_error;
    }
    if (outer->later.native) {
        struct gpucoll_sequence *sequence = calloc(1, sizeof *sequence);
        if (sequence == NULL) {
            return MPI_ERR_NO_MEM;
        }
        sequence->module = outer->module;
        sequence->owner = outer;
        outer->sequence = sequence;
        /* The buffers will be the same at every start: where a rank's are not on the device now, all ranks are spared a
         * team. */
        bool able = is_on_device(outer) || (gpucoll_device_active() && gpucoll_call_is_empty(&outer->call));
        gpucoll_sequence_connect(sequence, able);
    }
    enter_order(outer);
    take_turns(outer->module);
    return outer->inner_error;
}

void gpucoll_later_start(struct gpucoll_outer *outer)
{
    const struct gpucoll_sequence *sequence = outer->sequence;
    outer->phase = GPUCOLL_PHASE_TURN;
    if (sequence != NULL) {
        outer->phase = GPUCOLL_PHASE_TEAM;
        if (sequence->state != GPUCOLL_NATIVE_CONNECTING) {
            join(outer);
        }
    }
    if (outer->phase == GPUCOLL_PHASE_TURN) {
        start_next(outer);
    }
}

/* What is complete already needs no progress. What failed at the engine fails in the status, also when it was quick. */
static int hand_out(struct gpucoll_outer *outer, ompi_request_t **request)
{
    bool ended = gpucoll_later_advance(outer, 0);
    int rc = outer->super.super.req_status.MPI_ERROR;
    if (!ended || (rc != MPI_SUCCESS && outer->sequence != NULL)) {
        gpucoll_outer_activate(outer);
        *request = &outer->super.super;
        return OMPI_SUCCESS;
    }
    outer->freed = true;
    gpucoll_outer_drop_if_freed(outer);
    *request = &ompi_request_empty;
    return rc;
}

/* There is no memory for a call that the other ranks make. */
static int lack_memory(gpucoll_module *self, const struct gpucoll_later *later)
{
    if (later->native && !later->persistent) {
        gpucoll_sequence_lack(&self->calls);
    }
    return MPI_ERR_NO_MEM;
}

static int call_locked(gpucoll_module *self, const struct gpucoll_later *later, ompi_request_t **request)
{
    const int32_t tag = gpucoll_tag_take(self);
    struct gpucoll_outer *outer = gpucoll_outer_new(self, later);
    if (outer == NULL) {
        return lack_memory(self, later);
    }
    outer->tag = tag;
    outer->op = self->latest.op;
    outer->type = self->latest.type;
    if (!keep_arguments(outer)) {
        gpucoll_outer_drop(outer);
        return lack_memory(self, later);
    }
    if (!later->persistent) {
        launch(outer);
        return hand_out(outer, request);
    }
    int rc = prepare(outer);
    if (rc == OMPI_SUCCESS) {
        *request = &outer->super.super;
    } else {
        outer->freed = true;
        gpucoll_outer_drop_if_freed(outer);
    }
    return rc;
}

/* Does the call go to the next component as it is, with nothing undecided before it and nothing to be kept for it? A process without
 * a device passes it, if its ranks count it. */
static bool goes_as_it_is(gpucoll_module *self, const struct gpucoll_later *later)
{
    struct gpucoll_call call = *later->call;
    const bool active = gpucoll_device_active();
    if (__atomic_load_n(&self->order, __ATOMIC_ACQUIRE) != NULL) {
        return false;
    }
    if (!later->native) {
        return !gpucoll_operator_replaced(later->arguments.op, later->arguments.dtype) &&
               (!active || !gpucoll_stage_wanted(&call));
    }
    if (later->persistent || active || self->calls.state != GPUCOLL_NATIVE_READY || self->calls.posted) {
        return false;
    }
    gpucoll_pass(self->calls.team);
    return true;
}

int gpucoll_call_later(gpucoll_module *self, const struct gpucoll_later *later, ompi_request_t **request)
{
    if (goes_as_it_is(self, later)) {
        if (gpucoll_device_active() && later->call->module != NULL) {
            struct gpucoll_call call = *later->call;
            gpucoll_observe_next(&call, false);
            gpucoll_observe_next_done(&call);
        }
        const int32_t next = gpucoll_tag_next(self);
        int rc = later->next(&later->arguments, self->comm, request, self);
        gpucoll_tag_pass(self, next);
        return rc;
    }
    gpucoll_enter();
    int rc = call_locked(self, later, request);
    const bool crowd = gpucoll_requests_crowd();
    gpucoll_leave();
    if (crowd) {
        opal_progress();
    }
    return rc;
}
