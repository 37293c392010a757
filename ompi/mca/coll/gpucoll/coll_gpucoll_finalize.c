/*
 * MPI deletes the attributes of MPI_COMM_SELF first of all in MPI_Finalize: the deletion of one of ours is
 * the signal.
 */
#include "coll_gpucoll_finalize.h"
#include "coll_gpucoll.h"
#include "coll_gpucoll_layout.h"
#include "coll_gpucoll_pool.h"
#include "coll_gpucoll_request.h"
#include "ompi/runtime/mpiruntime.h"

static int finalize_begins(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm;
    (void)keyval;
    (void)extra;
    *(bool *)value = false;
    gpucoll_enter();
    gpucoll_sequences_close();
    gpucoll_leave();
    gpucoll_layouts_clear(true);
    if (mca_coll_gpucoll_component.context != NULL) {
        gpucoll_context_disconnect(mca_coll_gpucoll_component.context);
    }
    if (mca_coll_gpucoll_component.accel != NULL) {
        gpucoll_pool_empty(mca_coll_gpucoll_component.accel);
    }
    return MPI_SUCCESS;
}

void gpucoll_watch_finalize(void)
{
    static bool watched;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    /* A process with sessions only has no MPI_COMM_SELF: there the component's close does it all. */
    if (watched || ompi_mpi_state != OMPI_MPI_STATE_INIT_COMPLETED) {
        return;
    }
    pthread_mutex_lock(&lock);
    int keyval = MPI_KEYVAL_INVALID;
    if (!watched &&
        PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, finalize_begins, &keyval, NULL) == MPI_SUCCESS) {
        watched = PMPI_Comm_set_attr(MPI_COMM_SELF, keyval, &watched) == MPI_SUCCESS;
        PMPI_Comm_free_keyval(&keyval); /* takes effect when the attribute is deleted */
    }
    pthread_mutex_unlock(&lock);
}
