#include "core/packing.h"

#include <stdlib.h>
#include <string.h>
#include "core/context.h"
#include "core/exchange.h"
#include "core/layout.h"

static const uint64_t place_align = 256; /* of packed runs: kernels move them by whole packs */

/* The list of a layout's runs in the memory of one GPU. A layout's copies are guarded by `copies_lock`, taken under the
 * context's lock, since a layout may be used in several contexts. */
static pthread_mutex_t copies_lock = PTHREAD_MUTEX_INITIALIZER;
struct gpucoll_layout_copy {
    struct gpucoll_layout_copy *next;
    struct gpucoll_context *context;
    struct gpucoll_gpu *gpu;
    void *list;
};

static void drop_copies(struct gpucoll_layout *layout)
{
    while (layout->copies != NULL) {
        struct gpucoll_layout_copy *copy = layout->copies;
        layout->copies = copy->next;
        pthread_mutex_lock(&copy->context->lock);
        gpucoll_device_pool_put(&copy->gpu->pool, copy->list);
        pthread_mutex_unlock(&copy->context->lock);
        free(copy);
    }
}

static const void *find_copy(const struct gpucoll_layout *layout, const struct gpucoll_gpu *gpu)
{
    const struct gpucoll_layout_copy *copy = layout->copies;
    while (copy != NULL && copy->gpu != gpu) {
        copy = copy->next;
    }
    return copy != NULL ? copy->list : NULL;
}

static const void *make_copy(struct gpucoll_layout *layout, struct gpucoll_context *context,
                             struct gpucoll_gpu *gpu)
{
    struct gpucoll_accel *accel = context->accel;
    const size_t bytes = layout->view.runs * sizeof *layout->list;
    struct gpucoll_layout_copy *copy = malloc(sizeof *copy);
    void *list = copy != NULL ? gpucoll_device_pool_get(&gpu->pool, bytes) : NULL;
    if (list == NULL || accel->ops->copy(accel, list, layout->list, bytes) != GPUCOLL_OK) {
        gpucoll_device_pool_put(&gpu->pool, list);
        free(copy);
        return NULL;
    }
    *copy = (struct gpucoll_layout_copy){layout->copies, context, gpu, list};
    layout->drop_copies = drop_copies;
    layout->copies = copy;
    return list;
}

/* The list on this GPU, copied there at the first call. NULL: no memory for it. */
static const void *list_on(struct gpucoll_layout *layout, struct gpucoll_context *context,
                           struct gpucoll_gpu *gpu)
{
    pthread_mutex_lock(&copies_lock);
    const void *list = find_copy(layout, gpu);
    if (list == NULL) {
        list = make_copy(layout, context, gpu);
    }
    pthread_mutex_unlock(&copies_lock);
    return list;
}

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

static void note(struct gpucoll_packed_run *noted, const struct end *end, const void *base, uint32_t rank)
{
    gpucoll_layout_retain(end->layout);
    noted->layout = end->layout;
    noted->user = (char *)base + end->block->offset;
    noted->bytes = end->block->bytes;
    noted->rank = rank;
}

static void note_run(struct gpucoll_request *request, const struct gpucoll_coll_args *args, uint32_t rank)
{
    struct gpucoll_packing *packing = request->packing;
    struct gpucoll_kernel_run *run = &request->runs.run[rank];
    const struct end sent = send_end(request->team, args, rank);
    const struct end received = recv_end(request->team, args, rank);
    if (rank == request->team->rank && sent.layout != NULL && run->send == run->recv) {
        run->send_bytes = 0; /* in place: it stays there */
        run->recv_bytes = 0;
    }
    if (sent.layout != NULL && run->send_bytes > 0) {
        packing->send_ranks |= 1u << rank;
        note(&packing->send[packing->sends++], &sent, args->send, rank);
        run->send = (const char *)run->send + sent.layout->first;
    }
    if (received.layout != NULL && run->recv_bytes > 0) {
        packing->receive_ranks |= 1u << rank;
        note(&packing->receive[packing->receives++], &received, args->recv, rank);
        run->recv = (char *)run->recv + received.layout->first;
    }
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

static void place(struct gpucoll_packing *packing, struct gpucoll_packed_run *noted)
{
    noted->at = packing->bytes;
    packing->bytes += (noted->bytes + place_align - 1) / place_align * place_align;
}

/* Gives the noted runs their places. What is sent to several ranks alike is packed once. */
static void place_all(struct gpucoll_packing *packing)
{
    struct gpucoll_packed_run *send = packing->send;
    for (uint32_t i = 0; i < packing->sends; i++) {
        if (i > 0 && send[i].user == send[0].user && send[i].bytes == send[0].bytes &&
            send[i].layout == send[0].layout) {
            send[i].at = send[0].at;
        } else {
            place(packing, &send[i]);
        }
    }
    for (uint32_t i = 0; i < packing->receives; i++) {
        place(packing, &packing->receive[i]);
    }
}

bool gpucoll_packing_open(struct gpucoll_request *request, const struct gpucoll_coll_args *args)
{
    if (!any_layout(request, args)) {
        return true;
    }
    struct gpucoll_packing *packing = calloc(1, sizeof *packing);
    if (packing == NULL) {
        return false;
    }
    request->packing = packing;
    for (uint32_t rank = 0; rank < request->team->size; rank++) {
        note_run(request, args, rank);
    }
    place_all(packing);
    return true;
}

static bool find_lists(struct gpucoll_request *request, struct gpucoll_packed_run *noted, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (noted[i].layout->list != NULL) {
            noted[i].list = list_on(noted[i].layout, request->team->context, request->gpu);
            if (noted[i].list == NULL) {
                return false;
            }
        }
    }
    return true;
}

bool gpucoll_packing_reserve(struct gpucoll_request *request, struct gpucoll_buffer *buffer)
{
    struct gpucoll_packing *packing = request->packing;
    if (packing == NULL || packing->bytes == 0) {
        return true;
    }
    struct gpucoll_device_pool *pool = &request->gpu->pool;
    packing->memory = gpucoll_device_pool_get(pool, packing->bytes);
    if (packing->memory == NULL || !find_lists(request, packing->send, packing->sends) ||
        !find_lists(request, packing->receive, packing->receives)) {
        gpucoll_log(request->team->context->log, GPUCOLL_LOG_CALL,
                    "%s: no device memory for %llu packed bytes (pack_bytes)", request->team->name,
                    (unsigned long long)packing->bytes);
        gpucoll_device_pool_put(pool, packing->memory);
        packing->memory = NULL;
        return false;
    }
    for (uint32_t i = 0; i < packing->sends; i++) {
        request->runs.run[packing->send[i].rank].send = packing->memory + packing->send[i].at;
    }
    for (uint32_t i = 0; i < packing->receives; i++) {
        request->runs.run[packing->receive[i].rank].recv = packing->memory + packing->receive[i].at;
    }
    if (packing->receives > 0) {
        struct gpucoll_accel *accel = request->team->context->accel;
        accel->ops->classify(accel, packing->memory, buffer);
    }
    return true;
}

/* The runs from `first` on that have its layout, as one launch. `done`: bits of those that are taken. */
static void gather_jobs(const struct gpucoll_packing *packing, const struct gpucoll_packed_run *noted,
                        uint32_t count, uint32_t first, uint32_t *done, struct gpucoll_pack_args *args)
{
    const struct gpucoll_layout *layout = noted[first].layout;
    uint64_t end = 0;
    args->width = layout->align;
    args->jobs = 0;
    for (uint32_t i = first; i < count; i++) {
        if ((*done >> i & 1) != 0 || noted[i].layout != layout) {
            continue;
        }
        *done |= 1u << i;
        if (i > first && noted[i].at == noted[first].at) {
            continue; /* the same bytes, for another rank */
        }
        struct gpucoll_pack_job *job = &args->job[args->jobs++];
        end += noted[i].bytes;
        job->user = noted[i].user;
        job->packed = packing->memory + noted[i].at;
        job->end = end;
        args->width = gpucoll_layout_align((uintptr_t)job->user, args->width);
    }
}

static gpucoll_status launch(struct gpucoll_request *request, const struct gpucoll_packed_run *noted,
                             uint32_t count, bool unpack)
{
    const struct gpucoll_accel_ops *ops = request->gpu->device->accel->ops;
    struct gpucoll_pack_args args = {.unpack = unpack};
    uint32_t done = 0;
    gpucoll_status status = GPUCOLL_OK;
    for (uint32_t i = 0; i < count && status == GPUCOLL_OK; i++) {
        if ((done >> i & 1) == 0) {
            gather_jobs(request->packing, noted, count, i, &done, &args);
            args.view = noted[i].layout->view;
            args.view.list = noted[i].list;
            args.done_value = ++request->lane->done;
            status = ops->pack(request->lane->stream, &args);
        }
    }
    return status;
}

gpucoll_status gpucoll_packing_pack(struct gpucoll_request *request)
{
    struct gpucoll_packing *packing = request->packing;
    return packing == NULL ? GPUCOLL_OK : launch(request, packing->send, packing->sends, false);
}

gpucoll_status gpucoll_packing_unpack(struct gpucoll_request *request)
{
    struct gpucoll_packing *packing = request->packing;
    return packing == NULL ? GPUCOLL_OK : launch(request, packing->receive, packing->receives, true);
}

void gpucoll_packing_close(struct gpucoll_request *request)
{
    struct gpucoll_packing *packing = request->packing;
    if (packing == NULL) {
        return;
    }
    /* A kernel that was abandoned may still write: then the memory stays taken until the GPU is closed. */
    bool abandoned = request->lane != NULL && request->lane->poisoned;
    if (packing->memory != NULL && !abandoned) {
        pthread_mutex_lock(&request->team->context->lock);
        gpucoll_device_pool_put(&request->gpu->pool, packing->memory);
        pthread_mutex_unlock(&request->team->context->lock);
    }
    for (uint32_t i = 0; i < packing->sends; i++) {
        gpucoll_layout_release(packing->send[i].layout);
    }
    for (uint32_t i = 0; i < packing->receives; i++) {
        gpucoll_layout_release(packing->receive[i].layout);
    }
    free(packing);
    request->packing = NULL;
}
