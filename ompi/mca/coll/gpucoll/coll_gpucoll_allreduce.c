/*
 * MPI_Allreduce. The blocking form runs on the engine where all ranks bring device memory: they agree on that
 * call by call (core/agreement.h). The other two forms are staged.
 */
#include "coll_gpucoll_forms.h"
#include "coll_gpucoll_reduction.h"

/* Looks at the engine between two turns of Open MPI's progress. A look costs some nanoseconds, a turn up to a
 * microsecond; peers that need the turn wait for microseconds anyway. */
static const int looks_per_turn = 16;

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

static GPUCOLL_BLOCKING(staged_allreduce, allreduce, PARAMETERS, ARGUMENTS, DESCRIPTION, GPUCOLL_BOTH)
GPUCOLL_NONBLOCKING(allreduce, PARAMETERS, ARGUMENTS, DESCRIPTION, GPUCOLL_BOTH)
GPUCOLL_PERSISTENT(allreduce, PARAMETERS, ARGUMENTS, DESCRIPTION, GPUCOLL_BOTH)

/* Waits for the call. *error is an MPI error code, if the communicator became unusable meanwhile. */
static gpucoll_status await(struct gpucoll_request *request, ompi_communicator_t *comm, int *error)
{
    for (int looks = 0;; looks++) {
        gpucoll_status status = gpucoll_test(request);
        if (status != GPUCOLL_IN_PROGRESS) {
            return status;
        }
        if (looks % looks_per_turn == looks_per_turn - 1) {
            opal_progress();
            *error = gpucoll_comm_error(comm);
            if (*error != MPI_SUCCESS) {
                gpucoll_cancel(request);
                return GPUCOLL_ERR_TIMEOUT;
            }
        }
    }
}

/* Runs the call on the engine. *done tells whether that settled it; else every rank goes on to the next
 * component. */
static int run_native(gpucoll_module *self, const struct gpucoll_coll_args *args, bool *done,
                      ompi_communicator_t *comm)
{
    struct gpucoll_counters *counters = &mca_coll_gpucoll_component.counters;
    self->posted = true;
    struct gpucoll_request *request = NULL;
    int error = MPI_SUCCESS;
    gpucoll_status status = gpucoll_post(self->team, args, &request);
    if (status == GPUCOLL_OK) {
        status = await(request, comm, &error);
    }
    *done = status != GPUCOLL_DECLINED;
    if (status == GPUCOLL_OK) {
        gpucoll_tally(&counters->native, 1);
        gpucoll_tally(&counters->native_bytes, args->count * gpucoll_type_size(args->type));
        return OMPI_SUCCESS;
    }
    if (status == GPUCOLL_DECLINED) {
        gpucoll_tally(&counters->declined, 1);
        return OMPI_SUCCESS;
    }
    return error != MPI_SUCCESS ? error : gpucoll_mpi_error(status);
}

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

static bool could_be_native(gpucoll_module *self, const ompi_op_t *op, const ompi_datatype_t *dtype)
{
    struct gpucoll_looked_up *latest = &self->latest;
    if (latest->ompi_op != op || latest->ompi_type != dtype) {
        latest->native = gpucoll_reduction(op, dtype, &latest->op, &latest->type);
        latest->ompi_op = op;
        latest->ompi_type = dtype;
    }
    return latest->native;
}

/* Every rank comes here at the same calls of a communicator, whatever its buffers are. */
static int try_native(const void *sbuf, void *rbuf, size_t count, bool active, gpucoll_module *self,
                      ompi_communicator_t *comm, bool *done)
{
    if (self->native == GPUCOLL_NATIVE_UNTRIED) {
        int rc = gpucoll_module_connect(self, comm);
        if (self->native != GPUCOLL_NATIVE_READY) {
            *done = rc != OMPI_SUCCESS;
            return rc;
        }
    }
    if ((!self->posted && !active) || alone_on_host(rbuf, comm)) {
        gpucoll_pass(self->team);
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
    return run_native(self, &args, done, comm);
}

int gpucoll_allreduce(const void *sbuf, void *rbuf, gpucoll_count count, ompi_datatype_t *dtype,
                      ompi_op_t *op, ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    gpucoll_module *self = (gpucoll_module *)module;
    bool active = gpucoll_device_active();
    if (self->native != GPUCOLL_NATIVE_OFF && count > 0 && could_be_native(self, op, dtype)) {
        bool done = false;
        int rc = try_native(sbuf, rbuf, (size_t)count, active, self, comm, &done);
        if (done) {
            return rc;
        }
    }
    if (!active) {
        return GPUCOLL_NEXT(allreduce)(sbuf, rbuf, count, dtype, op, comm, GPUCOLL_NEXT_MODULE(allreduce));
    }
    return staged_allreduce(sbuf, rbuf, count, dtype, op, comm, module);
}
