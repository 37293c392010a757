/*
 * MPI_Barrier: on the engine's board where the communicator has a team, since flags in shared memory are faster than messages. No
 * buffer tells whether a device is in use, and none is needed.
 */
#include "coll_gpucoll_native.h"

int gpucoll_barrier(ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    gpucoll_module *self = (gpucoll_module *)module;
    const int looks_per_turn = 64; /* of Open MPI's progress: a barrier is over before that, as a rule */
    if (self->native != GPUCOLL_NATIVE_READY) {
        return self->next.coll_barrier(comm, self->next.coll_barrier_module);
    }
    gpucoll_barrier_start(self->team);
    for (int looks = 1;; looks++) {
        gpucoll_status status = gpucoll_barrier_test(self->team);
        if (status != GPUCOLL_IN_PROGRESS) {
            return status == GPUCOLL_OK ? OMPI_SUCCESS : gpucoll_mpi_error(status);
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
