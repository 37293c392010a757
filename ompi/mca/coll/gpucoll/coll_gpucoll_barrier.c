/*
 * MPI_Barrier: on the engine's board where the communicator has a team, since flags in shared memory are faster than messages. No
 * buffer tells whether a device is in use, and none is needed. MPI_Ibarrier and MPI_Barrier_init go to the next component, but take
 * their turn among the nonblocking calls of the communicator (coll_gpucoll_later.h).
 */
#include "coll_gpucoll_later.h"
#include "coll_gpucoll_native.h"

int gpucoll_barrier(ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    gpucoll_module *self = (gpucoll_module *)module;
    const int looks_per_turn = 64; /* of Open MPI's progress: a barrier is over before that, as a rule */
    const enum gpucoll_native_state state = self->calls.state;
    if (state == GPUCOLL_NATIVE_CONNECTING || state == GPUCOLL_NATIVE_WARMING) { /* others may be ready */
        int rc = OMPI_SUCCESS;
        gpucoll_native_connect(self, &rc);
        if (rc != OMPI_SUCCESS) {
            return rc;
        }
    }
    if (self->calls.state != GPUCOLL_NATIVE_READY) {
        return self->next.coll_barrier(comm, self->next.coll_barrier_module);
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

int gpucoll_ibarrier(ompi_communicator_t *comm, ompi_request_t **request, mca_coll_base_module_t *module)
{
    (void)comm;
    const struct gpucoll_call call = {.name = "ibarrier"};
    const struct gpucoll_later later = {.call = &call, .next = next_ibarrier};
    return gpucoll_call_later((gpucoll_module *)module, &later, request);
}

int gpucoll_barrier_init(ompi_communicator_t *comm, ompi_info_t *info, ompi_request_t **request,
                         mca_coll_base_module_t *module)
{
    (void)comm;
    const struct gpucoll_call call = {.name = "barrier_init"};
    const struct gpucoll_later later = {
        .call = &call, .arguments.info = info, .next = next_barrier_init, .persistent = true};
    return gpucoll_call_later((gpucoll_module *)module, &later, request);
}
