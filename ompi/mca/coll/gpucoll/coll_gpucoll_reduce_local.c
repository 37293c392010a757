/*
 * MPI_Reduce_local: one form, no communicator and no other rank. Open MPI calls it with the module of one of its own communicators,
 * from any thread, so nothing of the module may be written here.
 */
#include "coll_gpucoll_forms.h"
#include "coll_gpucoll_observe.h"
#include "coll_gpucoll_reduction.h"

/* Looks at the GPU between two turns of Open MPI's progress, by which calls go on that this one may be waiting for. */
static const int looks_per_turn = 16;

static gpucoll_status await(struct gpucoll_local *local)
{
    for (int looks = 1;; looks++) {
        gpucoll_status status = gpucoll_local_test(local);
        if (status != GPUCOLL_IN_PROGRESS) {
            return status;
        }
        if (looks % looks_per_turn == 0) {
            opal_progress();
        }
    }
}

/* GPUCOLL_DECLINED: call->declined says why the next component has to do it. */
static gpucoll_status run_native(struct gpucoll_call *call, gpucoll_count count, const ompi_datatype_t *dtype,
                                 const ompi_op_t *op)
{
    struct gpucoll_component *component = &mca_coll_gpucoll_component;
    struct gpucoll_local local = {.in = call->send.user, .inout = call->recv.user, .count = (size_t)count};
    if (count <= 0 || !gpucoll_reduction(op, dtype, &local.op, &local.type)) {
        call->declined = GPUCOLL_REASON_OPERAND;
        return GPUCOLL_DECLINED;
    }
    gpucoll_status status = gpucoll_local_start(component->context, &local);
    if (status == GPUCOLL_OK) {
        gpucoll_observe_local(call);
        status = await(&local);
        gpucoll_observe_local_done(call, &local, status);
    }
    call->declined = local.reason;
    if (status == GPUCOLL_OK) {
        gpucoll_tally(&component->counters.native, 1);
        gpucoll_tally(&component->counters.native_bytes, local.count * gpucoll_type_size(local.type));
    }
    return status;
}

static int run_next(struct gpucoll_call *call, gpucoll_count count, ompi_datatype_t *dtype, ompi_op_t *op,
                    mca_coll_base_module_t *module)
{
    int rc = gpucoll_stage_begin(call);
    if (rc != OMPI_SUCCESS) {
        return rc;
    }
    rc = GPUCOLL_NEXT(reduce_local)(call->send.pointer, call->recv.pointer, count, dtype, op,
                                    GPUCOLL_NEXT_MODULE(reduce_local));
    return gpucoll_stage_end(call, rc);
}

GPUCOLL_CHECK_FORM(reduce_local, blocking, true);
int gpucoll_reduce_local(const void *sbuf, void *rbuf, gpucoll_count count, ompi_datatype_t *dtype,
                         ompi_op_t *op, mca_coll_base_module_t *module)
{
    if (!gpucoll_device_active()) {
        return GPUCOLL_NEXT(reduce_local)(sbuf, rbuf, count, dtype, op, GPUCOLL_NEXT_MODULE(reduce_local));
    }
    struct gpucoll_region region = gpucoll_even(count, dtype, 0, 1);
    struct gpucoll_call call = {
        .name = "reduce_local",
        .send = {.user = (void *)sbuf, .in = region},
        .recv = {.user = rbuf, .in = region, .out = region},
    };
    const gpucoll_status status = run_native(&call, count, dtype, op);
    if (status != GPUCOLL_DECLINED) {
        return status == GPUCOLL_OK ? OMPI_SUCCESS : gpucoll_mpi_error(status);
    }
    return run_next(&call, count, dtype, op, module);
}
