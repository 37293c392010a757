/*
 * Staging: which buffers, how much memory, and the copies.
 */
#include "coll_gpucoll_stage.h"
#include <sys/mman.h>
#include "coll_gpucoll_finalize.h"
#include "coll_gpucoll_observe.h"
#include "coll_gpucoll_pool.h"

/* A copy of a few bytes between device and host takes 6 to 7 us, in which 256 KiB could have passed at the 40
 * GB/s that one of four busy GPUs gets: reading up to so many unwanted bytes is cheaper than one more copy. */
static const size_t copy_cost_bytes = (size_t)256 << 10;

/* What a further row of a copy of two dimensions costs, in the same measure: some nanoseconds, however narrow it is. */
static const size_t row_cost_bytes = 128;

/* Buffers whose pieces are further apart than this get address space instead of pinned memory: in absolute addresses under MPI_BOTTOM, or with so many
 * times as much between them as they hold, like the faces of an array. To pin that much takes longer for each call than copies to pinned memory save. */
static const size_t sparse_bytes = (size_t)1 << 30;
static const size_t sparse_times = 4;

/* By how much a host copy is moved away from where it would be taken for the other buffer. */
static const size_t apart_bytes = 64;

static struct gpucoll_accel *accel(void)
{
    return mca_coll_gpucoll_component.accel;
}

static bool is_device(const void *pointer)
{
    struct gpucoll_buffer buffer;
    accel()->ops->classify(accel(), pointer, &buffer);
    return buffer.memory == GPUCOLL_MEMORY_DEVICE;
}

/* Under MPI_BOTTOM a datatype holds addresses, which may be of several allocations of different kinds. Any
 * other buffer lies in one allocation, so any of its bytes tells. */
static int stop_at_device(void *arg, ptrdiff_t offset, size_t bytes)
{
    (void)arg;
    (void)bytes;
    return is_device((const void *)offset) ? MPI_ERR_OTHER : OMPI_SUCCESS;
}

static bool region_on_device(const void *user, const struct gpucoll_region *region)
{
    struct gpucoll_extent extent;
    if (region->blocks == 0 || !gpucoll_region_extent(region, &extent)) {
        return false;
    }
    if (user == MPI_BOTTOM) {
        return gpucoll_region_runs(region, stop_at_device, NULL) != OMPI_SUCCESS;
    }
    return is_device((const char *)user + extent.low);
}

static bool wanted(struct gpucoll_staged *buffer)
{
    buffer->pointer = buffer->user;
    return region_on_device(buffer->user, &buffer->in) || region_on_device(buffer->user, &buffer->out);
}

/* Marks the buffers that are to be staged by a size; memory comes in the next step. */
static void mark(struct gpucoll_staged *buffer)
{
    struct gpucoll_extent in;
    struct gpucoll_extent out;
    bool any_in = gpucoll_region_extent(&buffer->in, &in);
    bool any_out = gpucoll_region_extent(&buffer->out, &out);
    ptrdiff_t high = !any_out || (any_in && in.high > out.high) ? in.high : out.high;
    buffer->low = !any_out || (any_in && in.low < out.low) ? in.low : out.low;
    buffer->memory_bytes = (size_t)(high - buffer->low);
    buffer->data_bytes = (any_in ? in.bytes : 0) + (any_out ? out.bytes : 0);
}

static bool is_empty(const struct gpucoll_region *region)
{
    struct gpucoll_extent extent;
    return region->blocks == 0 || !gpucoll_region_extent(region, &extent);
}

bool gpucoll_call_is_empty(const struct gpucoll_call *call)
{
    return is_empty(&call->send.in) && is_empty(&call->recv.in) && is_empty(&call->recv.out);
}

bool gpucoll_stage_wanted(struct gpucoll_call *call)
{
    bool send = wanted(&call->send);
    bool recv = wanted(&call->recv);
    if (send) {
        mark(&call->send);
    }
    if (recv) {
        mark(&call->recv);
    }
    return send || recv;
}

static void *map_sparse(size_t bytes)
{
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        gpucoll_help(accel()->log, "staging-memory", bytes, "no address space of this size");
        return NULL;
    }
    return memory;
}

static bool is_sparse(const struct gpucoll_staged *buffer)
{
    const size_t bytes = buffer->memory_bytes;
    return bytes > sparse_bytes && (buffer->user == MPI_BOTTOM || bytes / sparse_times > buffer->data_bytes);
}

static int alloc(struct gpucoll_staged *buffer, bool sparse)
{
    if (buffer->memory_bytes == 0) {
        return OMPI_SUCCESS;
    }
    const size_t bytes = buffer->memory_bytes + buffer->spare_bytes;
    buffer->mapped = sparse || is_sparse(buffer);
    buffer->memory = buffer->mapped ? map_sparse(bytes) : gpucoll_pool_get(accel(), bytes);
    if (buffer->memory == NULL) {
        return MPI_ERR_NO_MEM;
    }
    buffer->pointer = (void *)((uintptr_t)buffer->memory + buffer->spare_bytes - (uintptr_t)buffer->low);
    return OMPI_SUCCESS;
}

static void release(struct gpucoll_staged *buffer)
{
    if (buffer->memory != NULL && buffer->mapped) {
        munmap(buffer->memory, buffer->memory_bytes + buffer->spare_bytes);
    } else if (buffer->memory != NULL) {
        gpucoll_pool_put(accel(), buffer->memory);
    }
    buffer->memory = NULL;
}

/* libnbc takes a call for one in place if both its pointers are the same. What a pointer points to is `low` before the
 * data, so two pointers may be the same by chance though the data are not: a host copy has memory of its own. */
static bool seems_in_place(const struct gpucoll_call *call)
{
    const bool copied = call->send.memory != NULL || call->recv.memory != NULL;
    return copied && call->send.pointer == call->recv.pointer;
}

int gpucoll_stage_alloc(struct gpucoll_call *call)
{
    (void)gpucoll_watch_finalize();
    int rc = alloc(&call->send, call->sparse);
    if (rc == OMPI_SUCCESS) {
        rc = alloc(&call->recv, call->sparse);
    }
    while (rc == OMPI_SUCCESS && seems_in_place(call)) {
        struct gpucoll_staged *moved = call->send.memory != NULL ? &call->send : &call->recv;
        release(moved);
        moved->spare_bytes += apart_bytes;
        rc = alloc(moved, call->sparse);
    }
    if (rc != OMPI_SUCCESS) {
        gpucoll_stage_free(call);
    }
    return rc;
}

enum { BATCH_ROWS = 64 }; /* sets of rows that are copied with one wait */

/* Copies between `from` and `to`, the two places where the buffer lies. */
struct copy {
    char *to;
    const char *from;
    const char *call;
    size_t bytes; /* copied so far, and in `rows`, */
    size_t batch; /* which has these many of them */
    size_t count;
    struct gpucoll_rows rows[BATCH_ROWS];
};

static int copy_batch(struct copy *copy)
{
    if (copy->count == 0) {
        return OMPI_SUCCESS;
    }
    gpucoll_status status = accel()->ops->copy_rows(accel(), copy->to, copy->from, copy->rows, copy->count);
    if (status != GPUCOLL_OK) {
        gpucoll_help(accel()->log, "staging-copy", copy->call, copy->bytes, gpucoll_status_name(status));
        return gpucoll_mpi_error(status);
    }
    gpucoll_tally(&mca_coll_gpucoll_component.counters.staged_bytes, copy->batch);
    copy->count = 0;
    copy->batch = 0;
    return OMPI_SUCCESS;
}

static int add_rows(void *arg, const struct gpucoll_rows *rows)
{
    struct copy *copy = arg;
    copy->rows[copy->count++] = *rows;
    copy->bytes += rows->bytes * rows->rows;
    copy->batch += rows->bytes * rows->rows;
    return copy->count == BATCH_ROWS ? copy_batch(copy) : OMPI_SUCCESS;
}

/* By itself: under MPI_BOTTOM each run may be of another allocation. */
static int copy_run(void *arg, ptrdiff_t offset, size_t bytes)
{
    const struct gpucoll_rows rows = {offset, bytes, 0, 1};
    int rc = add_rows(arg, &rows);
    return rc == OMPI_SUCCESS ? copy_batch(arg) : rc;
}

static int copy_region(struct copy *copy, const struct gpucoll_staged *buffer,
                       const struct gpucoll_region *region)
{
    int rc = buffer->user == MPI_BOTTOM ? gpucoll_region_runs(region, copy_run, copy)
                                        : gpucoll_region_rows(region, add_rows, copy);
    return rc == OMPI_SUCCESS ? copy_batch(copy) : rc;
}

/* Bytes that could have been copied in the time that the copies of sets take. */
struct copy_cost {
    size_t bytes;
    size_t most;
};

static int add_cost(void *arg, const struct gpucoll_rows *rows)
{
    struct copy_cost *cost = arg;
    cost->bytes += copy_cost_bytes + (rows->rows - 1) * row_cost_bytes;
    return cost->bytes > cost->most ? MPI_ERR_OTHER : OMPI_SUCCESS;
}

/* Is one copy of all from the first to the last byte, gaps included, faster than a copy for each set of rows? */
static bool read_at_once(const struct gpucoll_staged *buffer, const struct gpucoll_extent *extent)
{
    size_t span = (size_t)(extent->high - extent->low);
    struct copy_cost cost = {.most = span - extent->bytes + copy_cost_bytes};
    if (buffer->user == MPI_BOTTOM) {
        return false; /* what lies between may be anybody's */
    }
    return span <= extent->bytes || gpucoll_region_rows(&buffer->in, add_cost, &cost) != OMPI_SUCCESS;
}

static int copy_in(struct gpucoll_call *call, struct gpucoll_staged *buffer)
{
    struct gpucoll_extent extent;
    if (buffer->memory == NULL || !gpucoll_region_extent(&buffer->in, &extent)) {
        return OMPI_SUCCESS;
    }
    struct copy copy = {.to = buffer->pointer, .from = buffer->user, .call = call->name};
    if (read_at_once(buffer, &extent)) {
        return copy_run(&copy, extent.low, (size_t)(extent.high - extent.low));
    }
    return copy_region(&copy, buffer, &buffer->in);
}

static int copy_out(struct gpucoll_call *call, struct gpucoll_staged *buffer)
{
    if (buffer->memory == NULL || buffer->out.blocks == 0) {
        return OMPI_SUCCESS;
    }
    struct copy copy = {.to = buffer->user, .from = buffer->pointer, .call = call->name};
    return copy_region(&copy, buffer, &buffer->out);
}

/* With coll_gpucoll_sync_device: what the application's kernels do with this buffer they have done, also if it is only written here. Under MPI_BOTTOM any
 * device's memory may be in it: the first piece on one tells. */
static int synchronize_run(void *arg, ptrdiff_t offset, size_t bytes)
{
    gpucoll_status *status = arg;
    if (stop_at_device(NULL, offset, bytes) == OMPI_SUCCESS) {
        return OMPI_SUCCESS;
    }
    *status = accel()->ops->synchronize(accel(), (const void *)offset);
    return MPI_ERR_OTHER;
}

static int synchronize(const struct gpucoll_staged *buffer)
{
    gpucoll_status status = GPUCOLL_OK;
    if (buffer->memory == NULL || !mca_coll_gpucoll_component.config.sync_device) {
        return OMPI_SUCCESS;
    }
    if (buffer->user != MPI_BOTTOM) {
        status = accel()->ops->synchronize(accel(), (const char *)buffer->user + buffer->low);
    } else if (gpucoll_region_runs(&buffer->in, synchronize_run, &status) == OMPI_SUCCESS) {
        (void)gpucoll_region_runs(&buffer->out, synchronize_run, &status);
    }
    return status == GPUCOLL_OK ? OMPI_SUCCESS : gpucoll_mpi_error(status);
}

int gpucoll_stage_in(struct gpucoll_call *call)
{
    int rc = synchronize(&call->send);
    if (rc == OMPI_SUCCESS) {
        rc = synchronize(&call->recv);
    }
    if (rc == OMPI_SUCCESS) {
        rc = copy_in(call, &call->send);
    }
    return rc == OMPI_SUCCESS ? copy_in(call, &call->recv) : rc;
}

int gpucoll_stage_out(struct gpucoll_call *call)
{
    int rc = copy_out(call, &call->send);
    return rc == OMPI_SUCCESS ? copy_out(call, &call->recv) : rc;
}

void gpucoll_stage_free(struct gpucoll_call *call)
{
    release(&call->send);
    release(&call->recv);
}

int gpucoll_stage_begin(struct gpucoll_call *call)
{
    bool staged = gpucoll_stage_wanted(call);
    gpucoll_observe_next(call, staged);
    if (!staged) {
        return OMPI_SUCCESS;
    }
    int rc = gpucoll_stage_alloc(call);
    if (rc != OMPI_SUCCESS) {
        gpucoll_observe_next_done(call);
        return rc;
    }
    rc = gpucoll_stage_in(call);
    if (rc != OMPI_SUCCESS) {
        gpucoll_stage_free(call);
        gpucoll_observe_next_done(call);
    }
    return rc;
}

int gpucoll_stage_end(struct gpucoll_call *call, int rc)
{
    if (rc == OMPI_SUCCESS) {
        rc = gpucoll_stage_out(call);
    }
    gpucoll_stage_free(call);
    gpucoll_observe_next_done(call);
    return rc;
}
