#include "coll_gpucoll_warmup.h"
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

bool gpucoll_warmups_progress(void)
{
    if (warmups.first == NULL) {
        return false;
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
    return warmups.first != NULL;
}
