#include "core/packing.h"

#include <stdlib.h>
#include <string.h>
#include "core/base/sizes.h"
#include "core/context.h"
#include "core/exchange.h"
#include "core/layout_copy.h"

static const uint64_t place_align = 256; /* of packed runs: kernels move them by whole packs */

/* One end of run `rank`: the block, and its layout. */
struct end {
    const struct gpucoll_block *block;
    struct gpucoll_layout *layout; /* NULL: contiguous, or without a byte */
};

static struct end make_end(const struct gpucoll_block *block, const struct gpucoll_block *blocks,
                           struct gpucoll_layout *const *layouts)
{
    bool any = block != NULL && block->bytes > 0 && layouts != NULL;
    return (struct end){block, any ? layouts[block - blocks] : NULL};
}

static struct end send_end(const struct gpucoll_team *team, const struct gpucoll_coll_args *args,
                           uint32_t rank)
{
    return make_end(gpucoll_exchange_send_block(args, team->rank, rank), args->send_blocks,
                    args->send_layouts);
}

static struct end recv_end(const struct gpucoll_team *team, const struct gpucoll_coll_args *args,
                           uint32_t rank)
{
    return make_end(gpucoll_exchange_recv_block(args, team->rank, rank), args->recv_blocks,
                    args->recv_layouts);
}

static bool any_layout(const struct gpucoll_request *request, const struct gpucoll_coll_args *args)
{
    for (uint32_t i = 0; i < request->team->size; i++) {
        if (send_end(request->team, args, i).layout != NULL ||
            recv_end(request->team, args, i).layout != NULL) {
            return true;
        }
    }
    return false;
}

struct gpucoll_packing *gpucoll_packing_new(uint32_t most)
{
    struct gpucoll_packing *packing = calloc(1, sizeof *packing + 2 * (size_t)most * sizeof *packing->runs);
    if (packing != NULL) {
        packing->send = packing->runs;
        packing->receive = packing->runs + most;
    }
    return packing;
}

/* What is sent to several alike is packed once. */
void gpucoll_packing_note(struct gpucoll_packing *packing, bool sends, const struct gpucoll_packed_run *run)
{
    const struct gpucoll_packed_run *first = packing->send;
    struct gpucoll_packed_run *noted =
        sends ? &packing->send[packing->sends++] : &packing->receive[packing->receives++];
    const bool same = sends && noted != first && run->user == first->user && run->bytes == first->bytes &&
                      run->layout == first->layout;
    gpucoll_layout_retain(run->layout);
    *noted = *run;
    noted->at = same ? first->at : packing->bytes;
    packing->bytes += same ? 0 : gpucoll_round_up(run->bytes, place_align);
}

static struct gpucoll_packed_run packed_run(const struct end *end, const void *base, uint32_t rank)
{
    return (struct gpucoll_packed_run){
        .layout = end->layout,
        .user = (char *)base + end->block->offset,
        .bytes = end->block->bytes,
        .number = rank,
    };
}

static void note_run(struct gpucoll_request *request, const struct gpucoll_coll_args *args, uint32_t rank)
{
    struct gpucoll_packing *packing = request->packing;
    struct gpucoll_kernel_run *run = &request->runs.run[rank];
    const struct end sent = send_end(request->team, args, rank);
    const struct end received = recv_end(request->team, args, rank);
    /* One address does not make it in place: another layout is of other bytes, counted from there. */
    if (rank == request->team->rank && run->send == run->recv && sent.layout != NULL &&
        gpucoll_layout_equal(sent.layout, received.layout)) {
        run->send_bytes = 0; /* it stays there */
        run->recv_bytes = 0;
    }
    if (sent.layout != NULL && run->send_bytes > 0) {
        const struct gpucoll_packed_run packed = packed_run(&sent, args->send, rank);
        packing->send_ranks |= 1u << rank;
        gpucoll_packing_note(packing, true, &packed);
        run->send = (const char *)run->send + sent.layout->first;
    }
    if (received.layout != NULL && run->recv_bytes > 0) {
        const struct gpucoll_packed_run packed = packed_run(&received, args->recv, rank);
        packing->receive_ranks |= 1u << rank;
        gpucoll_packing_note(packing, false, &packed);
        run->recv = (char *)run->recv + received.layout->first;
    }
}

/* The own result of a reduction, which is not to be where it belongs before the end. */
static void note_result(struct gpucoll_request *request)
{
    const uint32_t own = request->team->rank;
    const struct gpucoll_kernel_run *run = &request->runs.run[own];
    const struct gpucoll_packed_run packed = {
        .layout = gpucoll_layout_plain(),
        .user = run->recv,
        .bytes = run->recv_bytes,
        .number = own,
    };
    request->packing->receive_ranks |= 1u << own;
    gpucoll_packing_note(request->packing, false, &packed);
}

bool gpucoll_packing_open(struct gpucoll_request *request, const struct gpucoll_coll_args *args)
{
    const bool overwrites = gpucoll_exchange_overwrites(request);
    if (!overwrites && !any_layout(request, args)) {
        return true;
    }
    request->packing = gpucoll_packing_new(request->team->size);
    for (uint32_t rank = 0; request->packing != NULL && rank < request->team->size; rank++) {
        note_run(request, args, rank);
    }
    if (request->packing != NULL && overwrites) {
        note_result(request);
    }
    return request->packing != NULL;
}

/* Lists, which kernels read there, and layouts that have been asked for. */
static bool find_copies(struct gpucoll_context *context, struct gpucoll_gpu *gpu,
                        struct gpucoll_packed_run *noted, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct gpucoll_layout *layout = noted[i].layout;
        if (layout->list != NULL || __atomic_load_n(&layout->asked_for, __ATOMIC_RELAXED)) {
            noted[i].copy = gpucoll_layout_copy_on(layout, context, gpu);
        }
        if (layout->list != NULL && noted[i].copy == NULL) {
            return false;
        }
    }
    return true;
}

bool gpucoll_packing_take(struct gpucoll_packing *packing, struct gpucoll_context *context,
                          struct gpucoll_gpu *gpu, const char *name)
{
    packing->memory = gpucoll_device_pool_get(&gpu->pool, packing->bytes);
    if (packing->memory == NULL || !find_copies(context, gpu, packing->send, packing->sends) ||
        !find_copies(context, gpu, packing->receive, packing->receives)) {
        gpucoll_log(context->log, GPUCOLL_LOG_CALL, "%s: no device memory for %llu packed bytes (pack_bytes)",
                    name, (unsigned long long)packing->bytes);
        gpucoll_device_pool_put(&gpu->pool, packing->memory);
        packing->memory = NULL;
        return false;
    }
    packing->gpu = gpu;
    return true;
}

void gpucoll_packing_direct(struct gpucoll_request *request)
{
    const struct gpucoll_packing *packing = request->packing;
    for (uint32_t i = 0; i < packing->sends; i++) {
        request->runs.run[packing->send[i].number].send = packing->memory + packing->send[i].at;
    }
    for (uint32_t i = 0; i < packing->receives; i++) {
        request->runs.run[packing->receive[i].number].recv = packing->memory + packing->receive[i].at;
    }
}

bool gpucoll_packing_reserve(struct gpucoll_request *request, struct gpucoll_buffer *buffer)
{
    struct gpucoll_packing *packing = request->packing;
    struct gpucoll_context *context = request->team->context;
    if (packing == NULL || packing->bytes == 0) {
        return true;
    }
    if (!gpucoll_packing_take(packing, context, request->gpu, request->team->name)) {
        return false;
    }
    gpucoll_packing_direct(request);
    if (packing->receives > 0) {
        context->accel->ops->classify(context->accel, packing->memory, buffer);
    }
    return true;
}

/* The runs from `first` on that have its layout, as many as one launch takes. */
static void gather_jobs(const struct gpucoll_packing *packing, struct gpucoll_packed_run *noted,
                        uint32_t count, uint32_t first, struct gpucoll_pack_args *args)
{
    const struct gpucoll_layout *layout = noted[first].layout;
    uint64_t end = 0;
    args->width = layout->align;
    args->jobs = 0;
    for (uint32_t i = first; i < count && args->jobs < GPUCOLL_MAX_LOCAL; i++) {
        if (noted[i].launched || noted[i].layout != layout) {
            continue;
        }
        noted[i].launched = true;
        if (i > first && noted[i].at == noted[first].at) {
            continue; /* the same bytes, for another rank */
        }
        struct gpucoll_pack_job *job = &args->job[args->jobs++];
        end += noted[i].bytes;
        job->user = noted[i].user;
        job->packed = packing->memory + noted[i].at;
        job->end = end;
        args->width = gpucoll_layout_align((uintptr_t)job->user | noted[i].bytes, args->width);
    }
}

gpucoll_status gpucoll_packing_launch(const struct gpucoll_packing *packing, struct gpucoll_lane *lane,
                                      bool unpack)
{
    if (!(unpack ? gpucoll_packing_unpacks(packing) : gpucoll_packing_packs(packing))) {
        return GPUCOLL_OK;
    }
    struct gpucoll_packed_run *noted = unpack ? packing->receive : packing->send;
    const uint32_t count = unpack ? packing->receives : packing->sends;
    struct gpucoll_pack_args args = {.unpack = unpack};
    gpucoll_status status = GPUCOLL_OK;
    for (uint32_t i = 0; i < count && status == GPUCOLL_OK; i++) {
        if (!noted[i].launched) {
            gather_jobs(packing, noted, count, i, &args);
            args.view = noted[i].layout->view;
            args.view.list = noted[i].copy != NULL ? gpucoll_layout_copy_list(noted[i].copy) : NULL;
            args.done_value = gpucoll_next_done(&lane->done);
            status = packing->gpu->device->accel->ops->pack(lane->stream, &args);
        }
    }
    return status;
}

static void drop_layout(const struct gpucoll_packing *packing, struct gpucoll_layout *layout, bool abandoned)
{
    if (abandoned && layout != NULL && packing->gpu != NULL) {
        gpucoll_layout_copy_lose(layout, packing->gpu);
    }
    gpucoll_layout_release(layout);
}

void gpucoll_packing_free(struct gpucoll_packing *packing, struct gpucoll_context *context, bool abandoned)
{
    if (packing == NULL) {
        return;
    }
    if (packing->memory != NULL && !abandoned) {
        pthread_mutex_lock(&context->lock);
        gpucoll_device_pool_put(&packing->gpu->pool, packing->memory);
        pthread_mutex_unlock(&context->lock);
    }
    for (uint32_t i = 0; i < packing->sends; i++) {
        drop_layout(packing, packing->send[i].layout, abandoned);
    }
    for (uint32_t i = 0; i < packing->receives; i++) {
        drop_layout(packing, packing->receive[i].layout, abandoned);
    }
    free(packing);
}

void gpucoll_packing_close(struct gpucoll_request *request)
{
    const bool abandoned = request->lane != NULL && request->lane->poisoned;
    gpucoll_packing_free(request->packing, request->team->context, abandoned);
    request->packing = NULL;
}
