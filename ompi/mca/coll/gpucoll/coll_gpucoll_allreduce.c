/*
 * MPI_Allreduce.
 */
#include "coll_gpucoll_forms.h"
#include "coll_gpucoll_native.h"

static struct gpucoll_call describe(const void *sbuf, void *rbuf, struct gpucoll_region region)
{
    struct gpucoll_call call = {.send.user = (void *)sbuf, .recv = {.user = rbuf, .out = region}};
    if (sbuf == MPI_IN_PLACE) {
        call.recv.in = region;
    } else {
        call.send.in = region;
    }
    return call;
}

#define PARAMETERS (const void *sbuf, void *rbuf, gpucoll_count count, ompi_datatype_t *dtype, ompi_op_t *op)
#define ARGUMENTS (sbuf, rbuf, count, dtype, op)
#define DESCRIPTION describe(sbuf, rbuf, gpucoll_even(count, dtype, 0, 1))

GPUCOLL_BLOCKING_REDUCTION(staged_allreduce, allreduce, PARAMETERS, ARGUMENTS, DESCRIPTION, GPUCOLL_BOTH,
                           gpucoll_ordered_allreduce(sbuf, rbuf, (size_t)count, comm, self))
GPUCOLL_LATER_FORMS(allreduce, PARAMETERS, ARGUMENTS, DESCRIPTION, GPUCOLL_ALLREDUCE, 0,
                    count > 0 && gpucoll_native_reduction(self, op, dtype))

/* A rank on its own has nobody to agree with: the engine's copy is for device memory only. */
static bool alone_on_host(const void *buffer, ompi_communicator_t *comm)
{
    if (ompi_comm_size(comm) > 1) {
        return false;
    }
    struct gpucoll_accel *accel = mca_coll_gpucoll_component.accel;
    struct gpucoll_buffer found;
    accel->ops->classify(accel, buffer, &found);
    return found.memory != GPUCOLL_MEMORY_DEVICE;
}

static int run_native(const void *sbuf, void *rbuf, size_t count, gpucoll_module *self,
                      ompi_communicator_t *comm, bool *done)
{
    if (alone_on_host(rbuf, comm)) {
        return OMPI_SUCCESS;
    }
    const struct gpucoll_coll_args args = {
        .coll = GPUCOLL_ALLREDUCE,
        .op = self->latest.op,
        .type = self->latest.type,
        .send = sbuf == MPI_IN_PLACE ? GPUCOLL_IN_PLACE : sbuf,
        .recv = rbuf,
        .count = count,
    };
    return gpucoll_native_run(self, &args, count * gpucoll_type_size(args.type), comm, done);
}

GPUCOLL_CHECK_FORM(allreduce, blocking, true);
int gpucoll_allreduce(const void *sbuf, void *rbuf, gpucoll_count count, ompi_datatype_t *dtype,
                      ompi_op_t *op, ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    gpucoll_module *self = (gpucoll_module *)module;
    bool active = gpucoll_device_active();
    int rc = OMPI_SUCCESS;
    if (gpucoll_sequence_state(&self->calls) != GPUCOLL_NATIVE_OFF && count > 0 &&
        gpucoll_native_reduction(self, op, dtype) && gpucoll_native_joins(self, active, &rc)) {
        bool done = false;
        rc = run_native(sbuf, rbuf, (size_t)count, self, comm, &done);
        if (done) {
            return rc;
        }
    }
    if (rc != OMPI_SUCCESS) {
        return rc;
    }
    return staged_allreduce(sbuf, rbuf, count, dtype, op, comm, module);
}
