#include "coll_gpucoll_native.h"
#include "coll_gpucoll_layout.h"
#include "coll_gpucoll_reduction.h"

/* Looks at the engine between two turns of Open MPI's progress. A look costs some nanoseconds, a turn up to a
 * microsecond; peers that need the turn wait for microseconds anyway. */
static const int looks_per_turn = 16;

bool gpucoll_native_reduction(gpucoll_module *self, const ompi_op_t *op, const ompi_datatype_t *dtype)
{
    struct gpucoll_looked_up *latest = &self->latest;
    if (latest->ompi_op != op || latest->ompi_type != dtype) {
        latest->native = gpucoll_reduction(op, dtype, &latest->op, &latest->type);
        latest->ompi_op = op;
        latest->ompi_type = dtype;
    }
    return latest->native;
}

void gpucoll_native_connect(gpucoll_module *self, ompi_communicator_t *comm, int *rc)
{
    *rc = gpucoll_module_connect(self, comm);
}

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

int gpucoll_native_run(gpucoll_module *self, const struct gpucoll_coll_args *args, size_t bytes,
                       ompi_communicator_t *comm, bool *done)
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
        gpucoll_tally(&counters->native_bytes, bytes);
        return OMPI_SUCCESS;
    }
    if (status == GPUCOLL_DECLINED) {
        gpucoll_tally(&counters->declined, 1);
        self->declined = gpucoll_declined_reason(self->team);
        return OMPI_SUCCESS;
    }
    return error != MPI_SUCCESS ? error : gpucoll_mpi_error(status);
}

/* The blocks of one side of a call. */
struct side {
    const void *user;
    const struct gpucoll_block *blocks; /* NULL: there are none */
    uint64_t bytes;
    bool able; /* each block is one run of bytes, or has a layout */
    struct gpucoll_block array[GPUCOLL_MAX_LOCAL];
    struct gpucoll_layout *layouts[GPUCOLL_MAX_LOCAL];
};

static void list_blocks(struct side *side, const void *user, const struct gpucoll_region *region, bool padded)
{
    side->user = user;
    side->blocks = region->blocks > 0 ? side->array : NULL;
    side->bytes = 0;
    side->able = true;
    for (int i = 0; i < region->blocks; i++) {
        struct gpucoll_block *block = &side->array[i];
        side->able &= gpucoll_region_block(region, region->first + i, padded, block, &side->layouts[i]);
        /* Of absolute addresses each run may lie in other memory than the rest. */
        side->able &= side->layouts[i] == NULL || user != MPI_BOTTOM;
        side->bytes += block->bytes;
    }
}

/* The engine has references of its own to what it still needs. */
static void drop_layouts(const struct side *side, const struct gpucoll_region *region)
{
    for (int i = 0; i < region->blocks; i++) {
        gpucoll_layout_release(side->layouts[i]);
    }
}

int gpucoll_native_exchange(gpucoll_module *self, enum gpucoll_coll coll, int root,
                            const struct gpucoll_call *call, ompi_communicator_t *comm, bool *done)
{
    /* In place, what is sent lies in the receive buffer. */
    const struct gpucoll_staged *from = call->send.in.blocks > 0 ? &call->send : &call->recv;
    bool padded = gpucoll_coll_reduces(coll);
    struct side send;
    struct side recv;
    list_blocks(&send, from->user, &from->in, padded);
    list_blocks(&recv, call->recv.user, &call->recv.out, padded);
    const struct gpucoll_coll_args args = {
        .coll = coll,
        .op = self->latest.op,
        .type = self->latest.type,
        .send = send.user,
        .recv = (void *)recv.user,
        .root = (uint32_t)root,
        .send_blocks = send.blocks,
        .recv_blocks = recv.blocks,
        .send_layouts = send.layouts,
        .recv_layouts = recv.layouts,
        .unable = !send.able || !recv.able,
    };
    int rc = gpucoll_native_run(self, &args, send.bytes > recv.bytes ? send.bytes : recv.bytes, comm, done);
    drop_layouts(&send, &from->in);
    drop_layouts(&recv, &call->recv.out);
    return rc;
}
