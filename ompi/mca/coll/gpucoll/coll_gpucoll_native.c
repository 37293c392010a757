#include "coll_gpucoll_native.h"
#include "coll_gpucoll_edges.h"
#include "coll_gpucoll_layout.h"
#include "coll_gpucoll_reduction.h"
#include "coll_gpucoll_request.h"

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

void gpucoll_native_connect(gpucoll_module *self, int *rc)
{
    struct gpucoll_sequence *calls = &self->calls;
    gpucoll_enter();
    if (gpucoll_sequence_state(calls) == GPUCOLL_NATIVE_UNTRIED) {
        gpucoll_sequence_connect(calls, true);
    }
    gpucoll_leave();
    while (gpucoll_sequence_state(calls) == GPUCOLL_NATIVE_CONNECTING) {
        opal_progress();
        gpucoll_enter(); /* waits until calls that came before this one are posted */
        gpucoll_sequences_progress();
        gpucoll_leave();
        *rc = gpucoll_comm_error(self->comm);
        if (*rc != MPI_SUCCESS) {
            return;
        }
    }
    gpucoll_enter();
    gpucoll_sequence_heat(calls);
    *rc = calls->error;
    gpucoll_leave();
}

/* Behind nonblocking calls of the communicator, of which other threads take care as well. */
static gpucoll_status run_in_queue(gpucoll_module *self, const struct gpucoll_coll_args *args, int *error)
{
    struct gpucoll_queue *queue = &self->calls.queue;
    struct gpucoll_task task;
    gpucoll_status status = gpucoll_queue_post(queue, args, &task);
    for (int looks = 0; status == GPUCOLL_OK || status == GPUCOLL_IN_PROGRESS; looks++) {
        gpucoll_queue_progress(queue);
        status = gpucoll_task_status(&task);
        if (status != GPUCOLL_IN_PROGRESS) {
            return status;
        }
        if (looks % looks_per_turn == looks_per_turn - 1) {
            opal_progress();
            *error = gpucoll_comm_error(self->comm);
            if (*error != MPI_SUCCESS) {
                gpucoll_queue_cancel(queue, &task);
            }
        }
    }
    return status;
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
    self->calls.posted = true;
    struct gpucoll_request *request = NULL;
    int error = MPI_SUCCESS;
    gpucoll_status status = GPUCOLL_OK;
    if (!gpucoll_queue_is_idle(&self->calls.queue)) {
        status = run_in_queue(self, args, &error);
    } else {
        status = gpucoll_post(self->calls.team, args, &request);
        if (status == GPUCOLL_OK) {
            status = await(request, comm, &error);
        }
    }
    *done = status != GPUCOLL_DECLINED;
    if (status == GPUCOLL_OK) {
        gpucoll_tally(&counters->native, 1);
        gpucoll_tally(&counters->native_bytes, bytes);
        return OMPI_SUCCESS;
    }
    if (status == GPUCOLL_DECLINED) {
        gpucoll_tally(&counters->declined, 1);
        self->declined = gpucoll_declined_reason(self->calls.team);
        return OMPI_SUCCESS;
    }
    return error != MPI_SUCCESS ? error : gpucoll_call_error(comm, status);
}

/* Lists a buffer's blocks; false if one is neither one run of bytes nor has a layout. */
static bool list_blocks(const void *user, const struct gpucoll_region *region, bool padded,
                        struct gpucoll_block *blocks, struct gpucoll_layout **layouts)
{
    bool able = gpucoll_region_blocks(region, padded, blocks, layouts);
    for (int i = 0; i < region->blocks && user == MPI_BOTTOM; i++) {
        able &= layouts[i] == NULL; /* of absolute addresses each run may lie in other memory than the rest */
    }
    return able;
}

/* Room for the blocks; a large communicator has more than the struct. */
static bool make_room(struct gpucoll_native *native, int count)
{
    native->count = count;
    native->memory = NULL;
    native->block = native->few_blocks;
    native->layout = native->few_layouts;
    if (count > 2 * GPUCOLL_MAX_LOCAL) {
        native->memory = malloc((size_t)count * (sizeof *native->block + sizeof *native->layout));
        native->block = native->memory;
        native->layout = (struct gpucoll_layout **)(native->block + count);
        return native->memory != NULL;
    }
    return true;
}

/* With absolute addresses each run of a block may lie in other memory than the rest: is there a block with a layout, or one that was put together from `several`? */
static bool may_scatter(const struct gpucoll_staged *buffer, bool several, const struct gpucoll_block *blocks,
                        struct gpucoll_layout *const *layouts, int count)
{
    bool scatters = false;
    for (int i = 0; i < count && buffer->user == MPI_BOTTOM; i++) {
        scatters |= layouts[i] != NULL || (several && blocks[i].bytes > 0);
    }
    return scatters;
}

static bool describe_edges(struct gpucoll_native *native, enum gpucoll_coll coll,
                           const struct gpucoll_call *call)
{
    const struct gpucoll_edges *edges = call->edges;
    if (edges == NULL || !make_room(native, 2 * edges->ranks)) {
        return false;
    }
    struct gpucoll_block *recv_blocks = native->block + edges->ranks;
    struct gpucoll_layout **recv_layouts = native->layout + edges->ranks;
    const bool sends = gpucoll_edges_blocks(edges, true, &call->send.in, native->block, native->layout);
    const bool receives = gpucoll_edges_blocks(edges, false, &call->recv.out, recv_blocks, recv_layouts);
    native->args = (struct gpucoll_coll_args){
        .coll = coll,
        .send = call->send.user,
        .recv = call->recv.user,
        .send_blocks = native->block,
        .recv_blocks = recv_blocks,
        .send_layouts = native->layout,
        .recv_layouts = recv_layouts,
        .unable =
            !sends || !receives ||
            may_scatter(&call->send, edges->several_targets, native->block, native->layout, edges->ranks) ||
            may_scatter(&call->recv, edges->several_sources, recv_blocks, recv_layouts, edges->ranks),
    };
    return true;
}

bool gpucoll_native_describe(struct gpucoll_native *native, enum gpucoll_coll coll, int root,
                             const struct gpucoll_call *call)
{
    if (gpucoll_coll_is_neighborhood(coll)) {
        return describe_edges(native, coll, call);
    }
    /* In place, what is sent lies in the receive buffer. */
    const struct gpucoll_staged *from = call->send.in.blocks > 0 ? &call->send : &call->recv;
    native->args = (struct gpucoll_coll_args){
        .coll = coll,
        .send = from->user,
        .recv = call->recv.user,
        .root = (uint32_t)root,
    };
    if (coll == GPUCOLL_ALLREDUCE) {
        native->args.count = call->recv.out.count;
        return make_room(native, 0);
    }
    const int sent = from->in.blocks;
    const int received = call->recv.out.blocks;
    if (!make_room(native, sent + received)) {
        return false;
    }
    const bool padded = gpucoll_coll_reduces(coll);
    struct gpucoll_block *recv_blocks = native->block + sent;
    native->args.send_layouts = native->layout;
    native->args.recv_layouts = native->layout + sent;
    native->args.unable = !list_blocks(from->user, &from->in, padded, native->block, native->layout);
    native->args.unable |=
        !list_blocks(call->recv.user, &call->recv.out, padded, recv_blocks, native->layout + sent);
    native->args.send_blocks = sent > 0 ? native->block : NULL;
    native->args.recv_blocks = received > 0 ? recv_blocks : NULL;
    return true;
}

void gpucoll_native_release(const struct gpucoll_native *native)
{
    for (int i = 0; i < native->count; i++) {
        gpucoll_layout_release(native->layout[i]);
    }
    free(native->memory);
}

static size_t region_bytes(const struct gpucoll_region *region)
{
    struct gpucoll_extent extent;
    return gpucoll_region_extent(region, &extent) ? extent.bytes : 0;
}

size_t gpucoll_native_bytes(const struct gpucoll_call *call)
{
    size_t sent = region_bytes(call->send.in.blocks > 0 ? &call->send.in : &call->recv.in);
    size_t received = region_bytes(&call->recv.out);
    return sent > received ? sent : received;
}

int gpucoll_native_exchange(gpucoll_module *self, enum gpucoll_coll coll, int root,
                            const struct gpucoll_call *call, ompi_communicator_t *comm, bool *done)
{
    struct gpucoll_native native;
    if (!gpucoll_native_describe(&native, coll, root, call)) {
        *done = true;
        gpucoll_sequence_forsake(&self->calls);
        return MPI_ERR_NO_MEM;
    }
    native.args.op = self->latest.op;
    native.args.type = self->latest.type;
    int rc = gpucoll_native_run(self, &native.args, gpucoll_native_bytes(call), comm, done);
    gpucoll_native_release(&native);
    return rc;
}
