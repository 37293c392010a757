/*
 * MPI_Barrier: on the engine's board where the communicator has a team, since flags in shared memory are faster than messages. No
 * buffer tells whether a device is in use, and none is needed.
 *
 * MPI_Ibarrier and MPI_Barrier_init are calls of the engine like those that have buffers (coll_gpucoll_later.h): counted with them,
 * passed by processes without a device, and handed to the next component in their turn. A barrier alone is no reason to make a team.
 */
#include "coll_gpucoll_forms.h"

GPUCOLL_CHECK_FORM(barrier, blocking, true);
GPUCOLL_CHECK_FORM(barrier, nonblocking, true);
GPUCOLL_CHECK_FORM(barrier, persistent, true);

int gpucoll_barrier(ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    gpucoll_module *self = (gpucoll_module *)module;
    const int looks_per_turn = 64; /* of Open MPI's progress: a barrier is over before that, as a rule */
    const enum gpucoll_native_state state = gpucoll_sequence_state(&self->calls);
    if (state == GPUCOLL_NATIVE_CONNECTING || state == GPUCOLL_NATIVE_WARMING) { /* others may be ready */
        int rc = OMPI_SUCCESS;
        gpucoll_native_connect(self, &rc);
        if (rc != OMPI_SUCCESS) {
            return rc;
        }
    }
    if (gpucoll_sequence_state(&self->calls) != GPUCOLL_NATIVE_READY) {
        int rc;
        GPUCOLL_RUN_BELOW(self, rc, self->next.coll_barrier(comm, self->next.coll_barrier_module));
        return rc;
    }
    struct gpucoll_queue *queue =
        &self->calls.queue; /* of nonblocking calls, which other threads may be at */
    gpucoll_queue_barrier_start(queue);
    for (int looks = 1;; looks++) {
        gpucoll_status status = gpucoll_queue_barrier_test(queue);
        if (status != GPUCOLL_IN_PROGRESS) {
            if (status != GPUCOLL_OK) {
                return gpucoll_mpi_error(status);
            }
            gpucoll_tally(&mca_coll_gpucoll_component.counters.native, 1);
            return OMPI_SUCCESS;
        }
        if (looks % looks_per_turn == 0) {
            opal_progress();
            int error = gpucoll_comm_error(comm);
            if (error != MPI_SUCCESS) {
                return error;
            }
        }
    }
}

static int next_ibarrier(const struct gpucoll_arguments *saved, ompi_communicator_t *comm,
                         ompi_request_t **request, gpucoll_module *self)
{
    (void)saved;
    return self->next.coll_ibarrier(comm, request, self->next.coll_ibarrier_module);
}

static int next_barrier_init(const struct gpucoll_arguments *saved, ompi_communicator_t *comm,
                             ompi_request_t **request, gpucoll_module *self)
{
    return self->next.coll_barrier_init(comm, saved->info, request, self->next.coll_barrier_init_module);
}

/* Can a barrier run on the engine, on all ranks or none? */
static bool may_run(const gpucoll_module *self)
{
    return self->wants_team && mca_coll_gpucoll_component.config.nonblocking;
}

int gpucoll_ibarrier(ompi_communicator_t *comm, ompi_request_t **request, mca_coll_base_module_t *module)
{
    gpucoll_module *self = (gpucoll_module *)module;
    const bool native = may_run(self) && gpucoll_sequence_state(&self->calls) != GPUCOLL_NATIVE_OFF;
    if (gpucoll_goes_on(self, native)) {
        return self->next.coll_ibarrier(comm, request, self->next.coll_ibarrier_module);
    }
    const struct gpucoll_call call = {.name = "ibarrier", .module = self};
    const struct gpucoll_later later = {
        .call = &call,
        .next = next_ibarrier,
        .native = native,
        .coll = GPUCOLL_BARRIER,
    };
    return gpucoll_call_later(self, &later, request);
}

int gpucoll_barrier_init(ompi_communicator_t *comm, ompi_info_t *info, ompi_request_t **request,
                         mca_coll_base_module_t *module)
{
    gpucoll_module *self = (gpucoll_module *)module;
    const bool native = may_run(self);
    if (gpucoll_goes_on(self, native)) {
        return self->next.coll_barrier_init(comm, info, request, self->next.coll_barrier_init_module);
    }
    const struct gpucoll_call call = {.name = "barrier_init", .module = self};
    const struct gpucoll_later later = {
        .call = &call,
        .arguments.info = info,
        .next = next_barrier_init,
        .persistent = true,
        .native = native,
        .coll = GPUCOLL_BARRIER,
    };
    return gpucoll_call_later(self, &later, request);
}
