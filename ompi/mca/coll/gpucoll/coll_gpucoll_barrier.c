/*
 * MPI_Ibarrier and MPI_Barrier_init have no buffers, but take their turn among the nonblocking calls of the
 * communicator (coll_gpucoll_later.h).
 */
#include "coll_gpucoll_later.h"

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
