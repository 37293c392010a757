/*
 * MPI_Reduce_scatter and MPI_Reduce_scatter_block. The send buffer holds what all ranks of the own group
 * receive, also on an intercommunicator; in place, the receive buffer holds that before and one rank's part,
 * at its beginning, after.
 */
#include "coll_gpucoll_forms.h"

static struct gpucoll_call describe(const void *sbuf, struct gpucoll_region send, void *rbuf,
                                    struct gpucoll_region recv)
{
    struct gpucoll_call call = {.send.user = (void *)sbuf, .recv.user = rbuf, .recv.out = recv};
    if (sbuf == MPI_IN_PLACE) {
        call.recv.in = send;
    } else {
        call.send.in = send;
    }
    return call;
}

static struct gpucoll_region all_parts(gpucoll_counts counts, ompi_datatype_t *dtype,
                                       ompi_communicator_t *comm)
{
    size_t sum = 0;
    for (int i = 0; i < ompi_comm_size(comm); i++) {
        sum += gpucoll_count_at(counts, i);
    }
    return gpucoll_even(sum, dtype, 0, 1);
}

#define PARAMETERS                                                                                           \
    (const void *sbuf, void *rbuf, gpucoll_counts rcounts, ompi_datatype_t *dtype, ompi_op_t *op)
#define ARGUMENTS (sbuf, rbuf, rcounts, dtype, op)
#define DESCRIPTION                                                                                          \
    describe(sbuf, all_parts(rcounts, dtype, comm), rbuf,                                                    \
             gpucoll_even(gpucoll_count_at(rcounts, ompi_comm_rank(comm)), dtype, 0, 1))

GPUCOLL_BLOCKING_REDUCTION(staged_reduce_scatter, reduce_scatter, PARAMETERS, ARGUMENTS, DESCRIPTION,
                           GPUCOLL_BOTH, gpucoll_ordered_reduce_scatter(sbuf, rbuf, rcounts, comm, self))
GPUCOLL_NONBLOCKING(reduce_scatter, PARAMETERS, ARGUMENTS, DESCRIPTION, GPUCOLL_BOTH)
GPUCOLL_PERSISTENT(reduce_scatter, PARAMETERS, ARGUMENTS, DESCRIPTION, GPUCOLL_BOTH)

/* As the engine needs it: a block for each rank. */
static int run_native(const void *sbuf, void *rbuf, gpucoll_counts rcounts, ompi_datatype_t *dtype,
                      gpucoll_module *self, ompi_communicator_t *comm, bool *done)
{
    ptrdiff_t displs[GPUCOLL_MAX_LOCAL];
    ompi_datatype_t *types[GPUCOLL_MAX_LOCAL];
    const int size = ompi_comm_size(comm);
    ptrdiff_t at = 0;
    for (int i = 0; i < size; i++) {
        displs[i] = at;
        types[i] = dtype;
        at += (ptrdiff_t)gpucoll_count_at(rcounts, i) * (dtype->super.ub - dtype->super.lb);
    }
    const struct gpucoll_call call =
        describe(sbuf, gpucoll_bytes_aint(rcounts, displs, types, size), rbuf,
                 gpucoll_even(gpucoll_count_at(rcounts, ompi_comm_rank(comm)), dtype, 0, 1));
    return gpucoll_native_exchange(self, GPUCOLL_REDUCE_SCATTER, 0, &call, comm, done);
}

int gpucoll_reduce_scatter(const void *sbuf, void *rbuf, gpucoll_counts rcounts, ompi_datatype_t *dtype,
                           ompi_op_t *op, ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    gpucoll_module *self = (gpucoll_module *)module;
    int rc = OMPI_SUCCESS;
    if (self->native != GPUCOLL_NATIVE_OFF && gpucoll_any_has_data(rcounts, dtype, comm) &&
        gpucoll_native_reduction(self, op, dtype) &&
        gpucoll_native_joins(self, comm, gpucoll_device_active(), &rc)) {
        bool done = false;
        rc = run_native(sbuf, rbuf, rcounts, dtype, self, comm, &done);
        if (done) {
            return rc;
        }
    }
    return rc != OMPI_SUCCESS ? rc : staged_reduce_scatter(sbuf, rbuf, rcounts, dtype, op, comm, module);
}

GPUCOLL_NATIVE_REDUCTION(reduce_scatter_block,
                         (const void *sbuf, void *rbuf, gpucoll_count rcount, ompi_datatype_t *dtype,
                          ompi_op_t *op),
                         (sbuf, rbuf, rcount, dtype, op),
                         describe(sbuf, gpucoll_even(rcount, dtype, 0, ompi_comm_size(comm)), rbuf,
                                  gpucoll_even(rcount, dtype, 0, 1)),
                         GPUCOLL_BOTH, GPUCOLL_REDUCE_SCATTER_BLOCK, 0,
                         rcount > 0 && gpucoll_native_reduction(self, op, dtype),
                         gpucoll_ordered_reduce_scatter_block(sbuf, rbuf, (size_t)rcount, comm, self))
