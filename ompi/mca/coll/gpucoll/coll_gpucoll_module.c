/*
 * The module: gpucoll on one communicator. `enable` takes the place of what stands in each slot and keeps it
 * to go on to.
 */
#include "coll_gpucoll.h"
#include "coll_gpucoll_edges.h"
#include "coll_gpucoll_finalize.h"
#include "coll_gpucoll_han.h"
#include "coll_gpucoll_request.h"
#include "coll_gpucoll_tag.h"
#include "coll_gpucoll_warmup.h"

static int enable(mca_coll_base_module_t *module, ompi_communicator_t *comm)
{
    gpucoll_module *self = (gpucoll_module *)module;
#define GPUCOLL_SLOT(slot) GPUCOLL_TAKE_SLOT(self, comm, slot)
    GPUCOLL_SLOTS
#undef GPUCOLL_SLOT
    self->comm = comm;
    self->tags_known = gpucoll_tags_known(self);
    self->above_han = gpucoll_han_is_next(self);
    self->possible = OMPI_COMM_IS_INTRA(comm);
    self->calls.state = self->possible ? GPUCOLL_NATIVE_UNTRIED : GPUCOLL_NATIVE_OFF;
    /* In MPI_Init, and without a GPU, too: attributes are deleted the latest first, so what the application has to do then is done while there are
     * teams, on all ranks alike. */
    (void)gpucoll_watch_finalize();
    if (gpucoll_warmup_wanted(comm)) {
        gpucoll_enter();
        gpucoll_sequence_warm(&self->calls);
        gpucoll_leave();
        if (comm == &ompi_mpi_comm_world.comm) {
            gpucoll_warmup_world(&self->calls);
        }
    }
    return OMPI_SUCCESS;
}

static void close_calls(gpucoll_module *self)
{
    gpucoll_enter();
    gpucoll_sequence_close(&self->calls);
    gpucoll_leave();
}

/* Called once for each slot that is ours. */
static int disable(mca_coll_base_module_t *module, ompi_communicator_t *comm)
{
    (void)comm;
    close_calls((gpucoll_module *)module);
    return OMPI_SUCCESS;
}

static void construct(gpucoll_module *self)
{
    memset((char *)self + sizeof self->super, 0, sizeof *self - sizeof self->super);
    self->calls.module = self;
    self->order_end = &self->order;
    self->super.coll_module_enable = enable;
    self->super.coll_module_disable = disable;
#define GPUCOLL_SLOT(slot) self->super.coll_##slot = gpucoll_##slot;
    GPUCOLL_SLOTS
#undef GPUCOLL_SLOT
}

static void destruct(gpucoll_module *self)
{
    close_calls(self);
    gpucoll_edges_free(self->edges);
#define GPUCOLL_SLOT(slot) GPUCOLL_DROP_SLOT(self, slot)
    GPUCOLL_SLOTS
#undef GPUCOLL_SLOT
}

OBJ_CLASS_INSTANCE(gpucoll_module, mca_coll_base_module_t, construct, destruct);

mca_coll_base_module_t *gpucoll_module_query(ompi_communicator_t *comm, int *priority)
{
    if (comm == &ompi_mpi_comm_world.comm) {
        mca_coll_gpucoll_component.rank = (uint32_t)ompi_comm_rank(comm);
        mca_coll_gpucoll_component.ranks = (uint32_t)ompi_comm_size(comm);
    }
    gpucoll_module *self = OBJ_NEW(gpucoll_module);
    *priority = mca_coll_gpucoll_component.config.priority;
    return self != NULL ? &self->super : NULL;
}
