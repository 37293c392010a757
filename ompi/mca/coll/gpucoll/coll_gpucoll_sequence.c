#include "coll_gpucoll_sequence.h"
#include "coll_gpucoll.h"
#include "coll_gpucoll_finalize.h"
#include "coll_gpucoll_request.h"
#include "coll_gpucoll_meeting.h"
#include "coll_gpucoll_warmup.h"

static struct {
    struct gpucoll_module *connecting; /* communicators with sequences that wait for their team */
    struct gpucoll_sequence *newest;   /* of those that have a team */
    bool moving;
    bool closed;
    bool early; /* one was begun in MPI_Init, and to be told of MPI_Finalize is still to be asked */
} sequences;

static void link_ready(struct gpucoll_sequence *self)
{
    self->newer = NULL;
    self->older = sequences.newest;
    if (self->older != NULL) {
        self->older->newer = self;
    }
    sequences.newest = self;
}

static void unlink_ready(struct gpucoll_sequence *self)
{
    if (self->older != NULL) {
        self->older->newer = self->newer;
    }
    if (self->newer != NULL) {
        self->newer->older = self->older;
    } else {
        sequences.newest = self->older;
    }
}

/* With release: a blocking call waits for it without the lock. */
static void set_state(struct gpucoll_sequence *self, enum gpucoll_native_state state)
{
    __atomic_store_n(&self->state, state, __ATOMIC_RELEASE);
}

static gpucoll_status begin(struct gpucoll_sequence *self)
{
    gpucoll_module *module = self->module;
    module->meeting->comm = module->comm;
    const struct gpucoll_exchange exchange = {
        .rank = (uint32_t)ompi_comm_rank(module->comm),
        .size = (uint32_t)ompi_comm_size(module->comm),
        .allgather = gpucoll_meeting_allgather,
        .arg = module->meeting,
        .test = gpucoll_meeting_test,
    };
    self->begun = true;
    self->waiting = (struct gpucoll_waiting){0};
    sequences.early |= !gpucoll_watch_finalize() && ompi_mpi_state == OMPI_MPI_STATE_INIT_STARTED;
    return gpucoll_team_begin(mca_coll_gpucoll_component.context, &exchange, module->comm->c_name, self->able,
                              &self->team);
}

static void drop_team(struct gpucoll_sequence *self)
{
    gpucoll_meeting_abort(self->module->meeting);
    gpucoll_team_destroy(self->team);
    self->team = NULL;
}

static gpucoll_status step(struct gpucoll_sequence *self)
{
    gpucoll_status status = self->begun ? GPUCOLL_OK : begin(self);
    if (status == GPUCOLL_OK) {
        status = gpucoll_team_test(self->team);
    }
    /* A message of a rank that has failed, or of a communicator that was revoked, may stay under way for ever. */
    if (status == GPUCOLL_IN_PROGRESS && gpucoll_comm_error(self->module->comm) != MPI_SUCCESS) {
        drop_team(self);
        return GPUCOLL_ERR_PEER;
    }
    if (status != GPUCOLL_OK && status != GPUCOLL_IN_PROGRESS) {
        self->team = NULL;
        gpucoll_meeting_abort(self->module->meeting);
    }
    return status;
}

void gpucoll_sequence_forsake(struct gpucoll_sequence *self)
{
    self->posted = true; /* a rank that cannot post no longer passes, either */
    gpucoll_queue_forsake(&self->queue);
}

static void forsake_lacked(struct gpucoll_sequence *self)
{
    if (self->lacked) {
        self->lacked = false;
        gpucoll_sequence_forsake(self);
    }
}

/* Calls that waited go first: whoever finds it ready may post the next. */
static void open_to_calls(struct gpucoll_sequence *self, enum gpucoll_native_state state)
{
    if (state == GPUCOLL_NATIVE_READY) {
        forsake_lacked(self);
    }
    gpucoll_later_join(self);
    set_state(self, state);
    gpucoll_later_settled(self);
}

void gpucoll_sequence_heat(struct gpucoll_sequence *self)
{
    if (self->state != GPUCOLL_NATIVE_WARMING) {
        return;
    }
    if (self->team != NULL) {
        gpucoll_warmup_count(self);
    }
    open_to_calls(self, self->team != NULL ? GPUCOLL_NATIVE_READY : GPUCOLL_NATIVE_OFF);
}

void gpucoll_sequence_want(struct gpucoll_sequence *self)
{
    if (self->state == GPUCOLL_NATIVE_UNTRIED) {
        gpucoll_sequence_connect(self, true);
    }
    gpucoll_sequence_heat(self);
}

void gpucoll_sequence_lack(struct gpucoll_sequence *self)
{
    self->lacked = true;
    gpucoll_sequence_want(self);
    if (self->state == GPUCOLL_NATIVE_READY) {
        forsake_lacked(self);
    }
}

/* The ranks know what they are to each other. */
static void settle(struct gpucoll_sequence *self, gpucoll_status status)
{
    const bool failed = status != GPUCOLL_OK && status != GPUCOLL_DECLINED;
    self->error = failed ? gpucoll_call_error(self->module->comm, status) : MPI_SUCCESS;
    if (status == GPUCOLL_OK) {
        gpucoll_expect_net();
        gpucoll_queue_open(&self->queue, mca_coll_gpucoll_component.context, self->team);
        link_ready(self);
    }
    if (!self->warms || status == GPUCOLL_DECLINED) {
        open_to_calls(self, status == GPUCOLL_OK ? GPUCOLL_NATIVE_READY : GPUCOLL_NATIVE_OFF);
        return;
    }
    if (status == GPUCOLL_OK) {
        gpucoll_warmup_begin(self);
    } /* else the first call is told of the error */
    set_state(self, GPUCOLL_NATIVE_WARMING);
    if (self->module->order != NULL || self->lacked) {
        gpucoll_sequence_heat(self);
    }
}

/* Those of one communicator, as far as possible; true if all are settled. */
static bool connect_all(gpucoll_module *module)
{
    struct gpucoll_sequence *self;
    while ((self = module->connecting) != NULL) {
        gpucoll_status status = step(self);
        if (status == GPUCOLL_IN_PROGRESS) {
            return false;
        }
        module->connecting = self->next;
        settle(self, status);
    }
    free(module->meeting);
    module->meeting = NULL;
    return true;
}

void gpucoll_sequences_progress(void)
{
    if (sequences
            .moving) { /* a call that was handed on has come back here: the loop below goes on with what it brought */
        return;
    }
    if (sequences.early && ompi_mpi_state != OMPI_MPI_STATE_INIT_STARTED) {
        sequences.early = false;
        (void)gpucoll_watch_finalize();
    }
    gpucoll_module *done = NULL;
    sequences.moving = true;
    gpucoll_module **link = &sequences.connecting;
    while (*link != NULL) {
        gpucoll_module *module = *link;
        if (connect_all(module)) {
            *link = module->next_connecting;
            module->next_connecting = done;
            done = module;
        } else {
            link = &module->next_connecting;
        }
    }
    gpucoll_warmups_progress();
    sequences.moving = false;
    /* The application may have freed the communicator meanwhile: then the module goes with it. */
    while (done != NULL) {
        ompi_communicator_t *comm = done->comm;
        done = done->next_connecting;
        OBJ_RELEASE(comm);
    }
}

struct gpucoll_module *gpucoll_sequences_connecting(void)
{
    return sequences.connecting;
}

bool gpucoll_sequences_pending(void)
{
    return sequences.connecting != NULL || sequences.early || gpucoll_warmups_pending();
}

/* Puts it behind the others of its communicator. */
static void enter_queue(struct gpucoll_sequence *self, bool able)
{
    gpucoll_module *module = self->module;
    module->wants_team = true;
    self->able = able;
    self->begun = false;
    self->next = NULL;
    if (sequences.closed) {
        set_state(self, GPUCOLL_NATIVE_OFF);
        return;
    }
    if (module->meeting == NULL) {
        module->meeting = calloc(1, sizeof *module->meeting);
        if (module->meeting == NULL) {
            self->error = MPI_ERR_NO_MEM;
            set_state(self, GPUCOLL_NATIVE_OFF);
            return;
        }
        OBJ_RETAIN(module->comm);
        gpucoll_module **last = &sequences.connecting;
        while (*last != NULL) {
            last = &(*last)->next_connecting;
        }
        module->next_connecting = NULL;
        *last = module;
    }
    set_state(self, GPUCOLL_NATIVE_CONNECTING);
    struct gpucoll_sequence **end = &module->connecting;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = self;
    gpucoll_expect_progress();
}

void gpucoll_sequence_connect(struct gpucoll_sequence *self, bool able)
{
    enter_queue(self, able);
    gpucoll_sequences_progress();
}

void gpucoll_sequence_warm(struct gpucoll_sequence *self)
{
    self->warms = true;
    enter_queue(self, true);
}

static void leave_queue(struct gpucoll_sequence *self)
{
    struct gpucoll_sequence **link = &self->module->connecting;
    while (*link != self) {
        link = &(*link)->next;
    }
    *link = self->next;
    if (self->begun) {
        drop_team(self);
    }
}

void gpucoll_sequence_close(struct gpucoll_sequence *self)
{
    if (self->state == GPUCOLL_NATIVE_CONNECTING) {
        leave_queue(self);
        set_state(self, GPUCOLL_NATIVE_OFF);
        gpucoll_sequences_progress(); /* may have been what kept the communicator, and so this sequence */
        return;
    }
    if (self->team != NULL) {
        gpucoll_warmup_forget(self);
        unlink_ready(self);
        gpucoll_queue_close(&self->queue);
        gpucoll_team_destroy(self->team);
        self->team = NULL;
    }
    set_state(self, GPUCOLL_NATIVE_OFF);
}

void gpucoll_sequences_open(void)
{
    sequences.closed = false;
}

void gpucoll_sequences_close(void)
{
    sequences.closed = true;
    while (sequences.connecting != NULL) {
        gpucoll_sequence_close(sequences.connecting->connecting);
    }
    while (sequences.newest != NULL) {
        gpucoll_sequence_close(sequences.newest);
    }
}
