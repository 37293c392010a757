/*
 * The module: gpucoll on one communicator. `enable` takes the place of what stands in each slot and keeps it
 * to go on to.
 */
#include "coll_gpucoll.h"
#include "coll_gpucoll_finalize.h"

/* The modules that have a team, for when they all must go at once. */
static struct {
    pthread_mutex_t lock;
    struct gpucoll_module *newest;
} connected = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void link_module(gpucoll_module *self)
{
    pthread_mutex_lock(&connected.lock);
    self->newer = NULL;
    self->older = connected.newest;
    if (self->older != NULL) {
        self->older->newer = self;
    }
    connected.newest = self;
    pthread_mutex_unlock(&connected.lock);
}

static void unlink_module(gpucoll_module *self)
{
    pthread_mutex_lock(&connected.lock);
    if (self->older != NULL) {
        self->older->newer = self->newer;
    }
    if (self->newer != NULL) {
        self->newer->older = self->older;
    } else {
        connected.newest = self->older;
    }
    pthread_mutex_unlock(&connected.lock);
}

struct exchange_arg {
    gpucoll_module *module;
    ompi_communicator_t *comm;
};

static int exchange_allgather(void *arg, const void *mine, void *all, size_t bytes)
{
    const struct exchange_arg *exchange = arg;
    const mca_coll_base_comm_coll_t *next = &exchange->module->next;
    return next->coll_allgather(mine, (gpucoll_count)bytes, MPI_BYTE, all, (gpucoll_count)bytes, MPI_BYTE,
                                exchange->comm, next->coll_allgather_module);
}

int gpucoll_module_connect(gpucoll_module *self, ompi_communicator_t *comm)
{
    struct exchange_arg arg = {self, comm};
    const struct gpucoll_exchange exchange = {
        .rank = (uint32_t)ompi_comm_rank(comm),
        .size = (uint32_t)ompi_comm_size(comm),
        .allgather = exchange_allgather,
        .arg = &arg,
    };
    /* The exchange may be made of other collectives of this communicator, which then come back here: they are not to
     * begin a team. */
    self->native = GPUCOLL_NATIVE_OFF;
    gpucoll_status status =
        gpucoll_team_create(mca_coll_gpucoll_component.context, &exchange, comm->c_name, &self->team);
    self->native = status == GPUCOLL_OK ? GPUCOLL_NATIVE_READY : GPUCOLL_NATIVE_OFF;
    if (status == GPUCOLL_OK) {
        link_module(self);
        gpucoll_watch_finalize();
    }
    return status == GPUCOLL_OK || status == GPUCOLL_DECLINED ? OMPI_SUCCESS : gpucoll_mpi_error(status);
}

void gpucoll_module_disconnect(gpucoll_module *self)
{
    self->native = GPUCOLL_NATIVE_OFF;
    if (self->team != NULL) {
        unlink_module(self);
        gpucoll_team_destroy(self->team);
        self->team = NULL;
    }
}

void gpucoll_module_disconnect_all(void)
{
    while (connected.newest != NULL) {
        gpucoll_module_disconnect(connected.newest);
    }
}

static int enable(mca_coll_base_module_t *module, ompi_communicator_t *comm)
{
    gpucoll_module *self = (gpucoll_module *)module;
#define GPUCOLL_SLOT(slot) GPUCOLL_TAKE_SLOT(self, comm, slot)
    GPUCOLL_SLOTS
#undef GPUCOLL_SLOT
    bool possible = OMPI_COMM_IS_INTRA(comm) && self->next.coll_allgather != NULL;
    self->native = possible ? GPUCOLL_NATIVE_UNTRIED : GPUCOLL_NATIVE_OFF;
    return OMPI_SUCCESS;
}

/* Called once for each slot that is ours. */
static int disable(mca_coll_base_module_t *module, ompi_communicator_t *comm)
{
    (void)comm;
    gpucoll_module_disconnect((gpucoll_module *)module);
    return OMPI_SUCCESS;
}

static void construct(gpucoll_module *self)
{
    memset((char *)self + sizeof self->super, 0, sizeof *self - sizeof self->super);
    self->super.coll_module_enable = enable;
    self->super.coll_module_disable = disable;
#define GPUCOLL_SLOT(slot) self->super.coll_##slot = gpucoll_##slot;
    GPUCOLL_SLOTS
#undef GPUCOLL_SLOT
}

static void destruct(gpucoll_module *self)
{
    gpucoll_module_disconnect(self);
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
