/*
 * MPI deletes the attributes of MPI_COMM_SELF first of all in MPI_Finalize: the deletion of one of ours is
 * the signal.
 */
#include "coll_gpucoll_finalize.h"
#include "coll_gpucoll.h"
#include "coll_gpucoll_layout.h"
#include "coll_gpucoll_pool.h"
#include "coll_gpucoll_request.h"
#include "ompi/attribute/attribute.h"
#include "ompi/runtime/mpiruntime.h"

/* Open MPI's headers do not promise that it is exported. */
extern __typeof__(ompi_attr_set_c) ompi_attr_set_c __attribute__((weak));

static int finalize_begins(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm;
    (void)keyval;
    (void)extra;
    *(bool *)value = false;
    gpucoll_enter();
    gpucoll_requests_finalize(true);
    gpucoll_sequences_close();
    gpucoll_leave();
    gpucoll_layouts_clear();
    if (mca_coll_gpucoll_component.context != NULL) {
        const uint32_t closed = gpucoll_context_disconnect(mca_coll_gpucoll_component.context);
        gpucoll_log(&mca_coll_gpucoll_component.log, GPUCOLL_LOG_SETUP,
                    "MPI_Finalize begins: connections to %u processes are closed", closed);
    }
    if (mca_coll_gpucoll_component.accel != NULL) {
        gpucoll_pool_empty(mca_coll_gpucoll_component.accel);
    }
    return MPI_SUCCESS;
}

static bool watched;

static void watch(void)
{
    int keyval = MPI_KEYVAL_INVALID;
    if (PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, finalize_begins, &keyval, NULL) == MPI_SUCCESS) {
        watched = PMPI_Comm_set_attr(MPI_COMM_SELF, keyval, &watched) == MPI_SUCCESS;
        PMPI_Comm_free_keyval(&keyval); /* takes effect when the attribute is deleted */
    }
}

/* MPI_COMM_NULL_COPY_FN as Open MPI calls it itself. */
static int copy_nothing(MPI_Comm comm, int keyval, void *extra, void *value, void *copy,
                        int *flag GPUCOLL_COPY_ATTR_MORE)
{
    (void)comm;
    (void)keyval;
    (void)extra;
    (void)value;
    (void)copy;
    *flag = 0;
    return MPI_SUCCESS;
}

/* In MPI_Init, which MPI's own functions refuse: what they do after they have looked whether they may. The key is Open MPI's to free. */
static void watch_early(void)
{
    const ompi_attribute_fn_ptr_union_t copy = {.attr_communicator_copy_fn = copy_nothing};
    const ompi_attribute_fn_ptr_union_t delete = {.attr_communicator_delete_fn = finalize_begins};
    int keyval = MPI_KEYVAL_INVALID;
    if (ompi_attr_set_c != NULL &&
        ompi_attr_create_keyval(COMM_ATTR, copy, delete, &keyval, NULL, 0, NULL) == OMPI_SUCCESS) {
        watched = ompi_attr_set_c(COMM_ATTR, MPI_COMM_SELF, &MPI_COMM_SELF->c_keyhash, keyval, &watched,
                                  false) == OMPI_SUCCESS;
    }
}

bool gpucoll_watch_finalize(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    /* A process with sessions only has no MPI_COMM_SELF: there the component's close does it all. */
    const int32_t state = ompi_mpi_state;
    if (watched || (state != OMPI_MPI_STATE_INIT_COMPLETED && state != OMPI_MPI_STATE_INIT_STARTED)) {
        return watched;
    }
    pthread_mutex_lock(&lock);
    if (!watched && state == OMPI_MPI_STATE_INIT_STARTED) {
        watch_early();
    } else if (!watched) {
        watch();
    }
    pthread_mutex_unlock(&lock);
    return watched;
}
