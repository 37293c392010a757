#include "coll_gpucoll_warmup.h"
#include "coll_gpucoll_request.h"
#include "core/base/clock.h"

/* Turns of progress between two looks for a GPU, and how long one is looked for: applications choose theirs soon after MPI_Init, or
 * use none. */
static const unsigned turns_per_look = 64;
static const uint64_t patience_ns = 10000000000u;

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

/* Nobody waits for a process without a GPU: it posts nothing before its application has chosen one. */
static bool goes_on(struct gpucoll_sequence *self)
{
    return self->state == GPUCOLL_NATIVE_CONNECTING ||
           (self->team != NULL && gpucoll_team_is_bound(self->team) &&
            gpucoll_task_status(&self->warmup) == GPUCOLL_IN_PROGRESS);
}

void gpucoll_warmup_world(struct gpucoll_sequence *self)
{
    const uint64_t begin_ns = gpucoll_now_ns();
    (void)gpucoll_context_bind_ahead(mca_coll_gpucoll_component.context);
    bool waits = true;
    while (waits && gpucoll_now_ns() - begin_ns < patience_ns) {
        opal_progress();
        gpucoll_enter();
        gpucoll_sequences_progress();
        waits = goes_on(self);
        gpucoll_leave();
    }
    gpucoll_log(&mca_coll_gpucoll_component.log, GPUCOLL_LOG_SETUP, "warm-up in MPI_Init: %s after %.1f ms",
                waits                                ? "given up, goes on in the background"
                : self->team == NULL                 ? "not native"
                : !gpucoll_team_is_bound(self->team) ? "a rank has no GPU yet, goes on in the background"
                : gpucoll_task_status(&self->warmup) == GPUCOLL_OK ? "connected"
                                                                   : "not connected",
                (double)(gpucoll_now_ns() - begin_ns) * 1e-6);
}

void gpucoll_warmup_begin(struct gpucoll_sequence *self)
{
    self->warmup.status = GPUCOLL_IN_PROGRESS;
    self->warming_since_ns = gpucoll_now_ns();
    self->next_warming = warmups.first;
    warmups.first = self;
    warmups.turns = 0; /* it is looked at now */
}

void gpucoll_warmup_count(struct gpucoll_sequence *self)
{
    const struct gpucoll_coll_args args = {.coll = GPUCOLL_WARMUP, .form = GPUCOLL_FORM_NONBLOCKING};
    if (gpucoll_can_warm_up(self->team)) {
        self->posted = true;
        if (gpucoll_queue_post(&self->queue, &args, &self->warmup) == GPUCOLL_OK) {
            return;
        }
        self->posted = false; /* out of memory before it was counted */
    }
    gpucoll_pass(self->team);
    self->warmup.status = GPUCOLL_DECLINED;
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
    return gpucoll_task_status(&self->warmup) != GPUCOLL_IN_PROGRESS;
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
