#include "coll_gpucoll_warmup.h"
#include "coll_gpucoll_request.h"
#include "core/base/clock.h"

/* Turns of progress between two looks for a GPU, and how long one is looked for: applications choose theirs soon after MPI_Init, or
 * use none. */
static const unsigned turns_per_look = 64;
static const uint64_t patience_ns = 10000000000u;
/* Numbers that each rehearsal sums: all lead to the same kernel, each to a plan of its own, of which a call's first one takes 6 to 9 us. */
static const size_t rehearsed[GPUCOLL_REHEARSALS] = {2, 64, 1024};

static struct {
    struct gpucoll_sequence *first;
    unsigned turns;
} warmups;

bool gpucoll_warmup_wanted(ompi_communicator_t *comm)
{
    const char *when = mca_coll_gpucoll_component.config.warmup;
    if (!OMPI_COMM_IS_INTRA(comm) || ompi_comm_size(comm) == 1) {
        return false;
    }
    return strcmp(when, "comm") == 0 || (strcmp(when, "init") == 0 && comm == &ompi_mpi_comm_world.comm);
}

static bool is_over(const struct gpucoll_sequence *self)
{
    bool over = true;
    for (int i = 0; i <= GPUCOLL_REHEARSALS; i++) {
        over &= gpucoll_task_status(&self->warmups[i]) != GPUCOLL_IN_PROGRESS;
    }
    return over;
}

/* Nobody waits for a process without a GPU: it posts nothing before its application has chosen one. */
static bool goes_on(struct gpucoll_sequence *self)
{
    return self->state == GPUCOLL_NATIVE_CONNECTING ||
           (self->team != NULL && gpucoll_team_is_bound(self->team) && !is_over(self));
}

/* No rehearsal is to begin any more. True if none has that has not ended. */
static bool refuse(struct gpucoll_sequence *self)
{
    bool refused = true;
    for (int i = 1; i <= GPUCOLL_REHEARSALS; i++) {
        if (gpucoll_task_status(&self->warmups[i]) == GPUCOLL_IN_PROGRESS) {
            refused &= gpucoll_queue_refuse(&self->queue, &self->warmups[i]);
        }
    }
    return refused;
}

void gpucoll_warmup_world(struct gpucoll_sequence *self)
{
    const uint64_t begin_ns = gpucoll_now_ns();
    (void)gpucoll_context_bind_ahead(mca_coll_gpucoll_component.context);
    bool waits = true;
    self->attended = true;
    while (waits && self->attended) {
        opal_progress();
        gpucoll_enter();
        gpucoll_sequences_progress();
        waits = goes_on(self);
        self->attended = waits && (gpucoll_now_ns() - begin_ns < patience_ns || !refuse(self));
        gpucoll_leave();
    }
    gpucoll_log(&mca_coll_gpucoll_component.log, GPUCOLL_LOG_SETUP, "warm-up in MPI_Init: %s after %.1f ms",
                waits                                ? "given up, goes on in the background"
                : self->team == NULL                 ? "not native"
                : !gpucoll_team_is_bound(self->team) ? "a rank has no GPU yet, goes on in the background"
                : gpucoll_task_status(&self->warmups[0]) == GPUCOLL_OK ? "connected"
                                                                       : "not connected",
                (double)(gpucoll_now_ns() - begin_ns) * 1e-6);
}

void gpucoll_warmup_begin(struct gpucoll_sequence *self)
{
    self->warmups[0].status = GPUCOLL_IN_PROGRESS;
    self->warming_since_ns = gpucoll_now_ns();
    self->next_warming = warmups.first;
    warmups.first = self;
    warmups.turns = 0; /* it is looked at now */
}

/* The same on all ranks. */
static int rehearsals_of(const struct gpucoll_sequence *self)
{
    const bool waits = self->module->comm == &ompi_mpi_comm_world.comm;
    return waits && gpucoll_team_rehearses(self->team) ? GPUCOLL_REHEARSALS : 0;
}

/* What a rank does not attend to it declines. */
static void post(struct gpucoll_sequence *self, enum gpucoll_coll coll, size_t count,
                 struct gpucoll_task *task)
{
    const struct gpucoll_coll_args args = {
        .coll = coll,
        .op = GPUCOLL_SUM,
        .type = GPUCOLL_FLOAT32,
        .count = count,
        .form = coll == GPUCOLL_REHEARSAL ? GPUCOLL_FORM_BLOCKING : GPUCOLL_FORM_NONBLOCKING,
        .unable = coll == GPUCOLL_REHEARSAL && !self->attended,
    };
    /* Not for want of memory, which has been reserved. */
    const gpucoll_status status = gpucoll_queue_post(&self->queue, &args, task);
    self->error = status == GPUCOLL_OK ? self->error : gpucoll_mpi_error(status);
}

void gpucoll_warmup_count(struct gpucoll_sequence *self)
{
    const int rehearsals = rehearsals_of(self);
    self->posted = gpucoll_can_warm_up(self->team) && gpucoll_reserve(self->team, 1 + (uint32_t)rehearsals);
    if (!self->posted) {
        for (int i = 0; i <= rehearsals; i++) {
            gpucoll_pass(self->team);
            self->warmups[i].status = GPUCOLL_DECLINED;
        }
        return;
    }
    post(self, GPUCOLL_WARMUP, 0, &self->warmups[0]);
    for (int i = 0; i < rehearsals; i++) {
        post(self, GPUCOLL_REHEARSAL, rehearsed[i], &self->warmups[1 + i]);
    }
}

void gpucoll_warmup_forget(struct gpucoll_sequence *self)
{
    struct gpucoll_sequence **link = &warmups.first;
    while (*link != NULL && *link != self) {
        link = &(*link)->next_warming;
    }
    if (*link != NULL) {
        *link = self->next_warming;
    }
}

/* True when it has ended. */
static bool advance(struct gpucoll_sequence *self, bool look)
{
    if (self->state == GPUCOLL_NATIVE_WARMING) {
        if (!look ||
            (!gpucoll_can_warm_up(self->team) && gpucoll_now_ns() - self->warming_since_ns < patience_ns)) {
            return false;
        }
        gpucoll_sequence_heat(self);
    }
    gpucoll_queue_progress(&self->queue);
    return is_over(self);
}

void gpucoll_warmups_progress(void)
{
    if (warmups.first == NULL) {
        return;
    }
    const bool look = warmups.turns++ % turns_per_look == 0;
    struct gpucoll_sequence **link = &warmups.first;
    while (*link != NULL) {
        struct gpucoll_sequence *self = *link;
        if (advance(self, look)) {
            *link = self->next_warming;
        } else {
            link = &self->next_warming;
        }
    }
}

bool gpucoll_warmups_pending(void)
{
    return warmups.first != NULL;
}
