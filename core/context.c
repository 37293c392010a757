#include "core/context.h"

#include <stdlib.h>
#include <string.h>
#include "core/cluster/cluster.h"
#include "core/progress_thread.h"
#include "core/topology/topology.h"
#include "core/trace.h"

/* Of contexts whose calls nobody wants counted. */
static struct gpucoll_stats nobodys;
static struct gpucoll_setups nobodys_setups;

/* A file that cannot be used has been shown, and counts as none. */
static void read_topology(struct gpucoll_context *context)
{
    const char *path = context->config->topology_file;
    if (context->accel != NULL && path[0] != '\0' &&
        gpucoll_topology_read(path, context->log, &context->topology) == GPUCOLL_OK) {
        context->accel->topology = context->topology;
        gpucoll_log(context->log, GPUCOLL_LOG_SETUP, "costs of links are those of the topology file %s",
                    path);
    }
}

static void init_recursive(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

gpucoll_status gpucoll_context_create(const struct gpucoll_config *config, const struct gpucoll_log *log,
                                      struct gpucoll_context **out)
{
    struct gpucoll_context *context = calloc(1, sizeof *context);
    if (context == NULL) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    context->config = config;
    context->log = log;
    context->stats = &nobodys;
    context->setups = &nobodys_setups;
    context->net_ops = &gpucoll_net_ucx;
    gpucoll_trace_open();
    gpucoll_status status = gpucoll_accel_open(config, log, &context->accel);
    if (status != GPUCOLL_OK) {
        free(context);
        return status;
    }
    if (context->accel != NULL && !gpucoll_tl_all_known(config->transports)) {
        gpucoll_help(log, "unknown-transport", config->transports);
    }
    read_topology(context);
    if (context->accel != NULL && config->tuning_file[0] != '\0' &&
        gpucoll_tuning_read(config->tuning_file, log, &context->tuning) == GPUCOLL_OK) {
        gpucoll_log(log, GPUCOLL_LOG_SETUP, "the cost model has constants of %s", config->tuning_file);
    }
    pthread_mutex_init(&context->lock, NULL);
    init_recursive(&context->owing_lock);
    context->owing_end = &context->owing;
    init_recursive(&context->leaving_lock);
    context->leaving_end = &context->leaving;
    gpucoll_gates_open(&context->gates, log);
    *out = context;
    return GPUCOLL_OK;
}

void gpucoll_context_know_way(struct gpucoll_context *context, struct gpucoll_device *device,
                              const struct gpucoll_device_id *peer)
{
    if (context->topology != NULL || context->topology_tried ||
        device->accel->ops->device_link(device, peer) != GPUCOLL_LINK_PCIE) {
        return;
    }
    context->topology_tried = true;
    if (gpucoll_topology_discover(&gpucoll_log_silent, &context->topology) == GPUCOLL_OK) {
        context->accel->topology = context->topology;
        gpucoll_log(context->log, GPUCOLL_LOG_SETUP,
                    "costs of links over PCIe are those of this machine's topology");
    }
}

void gpucoll_context_count_in(struct gpucoll_context *context, struct gpucoll_stats *stats)
{
    context->stats = stats;
}

void gpucoll_context_count_setups_in(struct gpucoll_context *context, struct gpucoll_setups *setups)
{
    context->setups = setups;
}

void gpucoll_context_share_host(struct gpucoll_context *context, uint32_t processes, uint32_t rank)
{
    context->processes = processes;
    context->local_rank = rank;
}

void gpucoll_context_expect(struct gpucoll_context *context, const char *library)
{
    context->company = (struct gpucoll_company){.library = library};
}

uint32_t gpucoll_context_disconnect(struct gpucoll_context *context)
{
    uint32_t closed = 0;
    gpucoll_progress_thread_stop(context);
    while (context->peers != NULL) {
        struct gpucoll_peer *peer = context->peers;
        context->peers = peer->next;
        gpucoll_peer_close(peer);
        closed++;
    }
    return closed;
}

void gpucoll_context_destroy(struct gpucoll_context *context)
{
    if (context == NULL) {
        return;
    }
    gpucoll_pool_close(context->pool);
    const uint32_t late = gpucoll_context_disconnect(context);
    if (late > 0) {
        gpucoll_log(context->log, GPUCOLL_LOG_SETUP,
                    "connections to %u processes are closed late: their memory may be gone already", late);
    }
    gpucoll_gates_close(&context->gates);
    if (context->net != NULL) {
        gpucoll_clusters_end(context);
        context->net_ops->close(context->net);
    }
    for (int i = 0; i < GPUCOLL_BOARD_CARDS; i++) {
        gpucoll_gpu_close(context->gpus[i]);
    }
    gpucoll_exports_close(&context->exports, &context->board, context->accel);
    gpucoll_board_close(&context->board);
    gpucoll_accel_close(context->accel);
    gpucoll_topology_free(context->topology);
    pthread_mutex_destroy(&context->leaving_lock);
    pthread_mutex_destroy(&context->owing_lock);
    pthread_mutex_destroy(&context->lock);
    free(context);
}

struct gpucoll_accel *gpucoll_context_accel(struct gpucoll_context *context)
{
    return context->accel;
}

gpucoll_status gpucoll_context_board(struct gpucoll_context *context)
{
    if (context->board.header != NULL) {
        return GPUCOLL_OK;
    }
    return gpucoll_board_create(&context->board, context->log);
}

void gpucoll_context_use_net(struct gpucoll_context *context, const struct gpucoll_net_ops *ops)
{
    context->net_ops = ops;
}

/* The GPU that this process uses, bound or not. False: none yet, or not known. */
static bool used_gpu(const struct gpucoll_context *context, struct gpucoll_device_id *id)
{
    const struct gpucoll_accel_ops *ops = context->accel->ops;
    struct gpucoll_buffer buffer;
    if (context->gpus[0] != NULL) {
        ops->device_id(context->gpus[0]->device, id);
        return true;
    }
    return ops->identify != NULL && ops->here(context->accel, &buffer) &&
           ops->identify(context->accel, &buffer, id);
}

gpucoll_status gpucoll_context_net(struct gpucoll_context *context)
{
    if (context->net == NULL && !context->net_failed) {
        struct gpucoll_device_id gpu;
        const struct gpucoll_net_place place = {
            .crowded = context->processes > GPUCOLL_MAX_LOCAL,
            .local_rank = context->local_rank < context->processes ? (int)context->local_rank : -1,
            .gpu = used_gpu(context, &gpu) ? &gpu : NULL,
        };
        context->net_failed =
            context->net_ops->open(context->config, context->log, &place, &context->net) != GPUCOLL_OK;
    }
    return context->net_failed ? GPUCOLL_DECLINED : GPUCOLL_OK;
}

bool gpucoll_context_has_net(const struct gpucoll_context *context)
{
    return context->net != NULL;
}

bool gpucoll_context_turn_net(struct gpucoll_context *context)
{
    const bool moved = context->net_ops->progress(context->net);
    gpucoll_spans_settle(context);
    if (__atomic_load_n(&context->owing, __ATOMIC_RELAXED) != NULL) {
        gpucoll_clusters_settle(context);
    }
    return moved;
}

gpucoll_status gpucoll_context_peer(struct gpucoll_context *context, const struct gpucoll_segment_name *name,
                                    struct gpucoll_peer **out)
{
    for (struct gpucoll_peer *peer = context->peers; peer != NULL; peer = peer->next) {
        if (memcmp(&peer->board.name, name, sizeof *name) == 0) {
            peer->teams++;
            *out = peer;
            return GPUCOLL_OK;
        }
    }
    gpucoll_status status = gpucoll_peer_open(name, context->log, out);
    if (status == GPUCOLL_OK) {
        (*out)->teams = 1;
        (*out)->next = context->peers;
        context->peers = *out;
    }
    return status;
}

/* May a kernel of a call that was given up still store to peers? Nobody knows when it ends. */
static bool stores_may_come(const struct gpucoll_context *context)
{
    for (int i = 0; i < GPUCOLL_BOARD_CARDS && context->gpus[i] != NULL; i++) {
        for (uint32_t lane = 0; lane < context->gpus[i]->lane_count; lane++) {
            if (context->gpus[i]->lanes[lane].poisoned) {
                return true;
            }
        }
    }
    return false;
}

void gpucoll_context_leave_peer(struct gpucoll_context *context, struct gpucoll_peer *left)
{
    struct gpucoll_peer **at = &context->peers;
    left->teams--;
    if (left->teams > 0 || stores_may_come(context)) {
        return;
    }
    while (*at != NULL) {
        struct gpucoll_peer *peer = *at;
        if (peer->teams > 0 || !gpucoll_process_gone(&peer->process)) {
            at = &peer->next;
            continue;
        }
        *at = peer->next;
        gpucoll_log(context->log, GPUCOLL_LOG_SETUP, "process %u has ended: what it had is unmapped",
                    peer->process.pid);
        gpucoll_peer_close(peer);
    }
}

static struct gpucoll_gpu *bind_gpu(struct gpucoll_context *context, int slot, const void *pointer)
{
    struct gpucoll_gpu *gpu = NULL;
    if (gpucoll_gpu_open(context->accel, pointer, &gpu) != GPUCOLL_OK) {
        return NULL;
    }
    gpu->card.processes = context->processes;
    gpu->card_index = gpucoll_board_publish(&context->board, &gpu->card);
    context->gpus[slot] = gpu;
    gpucoll_log(context->log, GPUCOLL_LOG_SETUP,
                "bound %s device %d: %u lanes, %zu MiB of scratch, up to %u CTAs of a kernel at once%s",
                context->accel->ops->name, gpu->device->ordinal, gpu->lane_count,
                gpu->lane_count * gpucoll_lane_bytes(gpu->data_bytes) >> 20, gpu->card.resident,
                gpu->card.concurrent ? ", kernels of several processes at the same time (MPS)" : "");
    return gpu;
}

struct gpucoll_gpu *gpucoll_context_gpu(struct gpucoll_context *context, const struct gpucoll_buffer *buffer,
                                        const void *pointer)
{
    int ordinal = buffer->device;
    if (ordinal < 0 || ordinal >= GPUCOLL_BOARD_CARDS || context->gpu_failed[ordinal]) {
        return NULL;
    }
    int slot = 0;
    while (slot < GPUCOLL_BOARD_CARDS && context->gpus[slot] != NULL) {
        if (context->gpus[slot]->device->ordinal == ordinal) {
            return context->gpus[slot];
        }
        slot++;
    }
    struct gpucoll_gpu *gpu = slot < GPUCOLL_BOARD_CARDS ? bind_gpu(context, slot, pointer) : NULL;
    context->gpu_failed[ordinal] = gpu == NULL;
    return gpu;
}

struct gpucoll_gpu *gpucoll_context_bind(struct gpucoll_context *context, const struct gpucoll_buffer *buffer,
                                         const void *pointer)
{
    struct gpucoll_gpu *gpu = NULL;
    pthread_mutex_lock(&context->lock);
    if (gpucoll_context_board(context) == GPUCOLL_OK) {
        gpu = gpucoll_context_gpu(context, buffer, pointer);
    }
    pthread_mutex_unlock(&context->lock);
    return gpu;
}

struct gpucoll_gpu *gpucoll_context_any_gpu(struct gpucoll_context *context)
{
    const struct gpucoll_accel_ops *ops = context->accel->ops;
    struct gpucoll_buffer buffer;
    if (context->gpus[0] != NULL) {
        return context->gpus[0];
    }
    return ops->here(context->accel, &buffer) ? gpucoll_context_gpu(context, &buffer, NULL) : NULL;
}

bool gpucoll_context_bind_ahead(struct gpucoll_context *context)
{
    struct gpucoll_accel *accel = context->accel;
    struct gpucoll_buffer buffer;
    if (accel == NULL) {
        return false;
    }
    pthread_mutex_lock(&context->lock);
    bool bound = gpucoll_context_board(context) == GPUCOLL_OK &&
                 (gpucoll_context_any_gpu(context) != NULL ||
                  (accel->ops->only != NULL && !accel->ops->active(accel) &&
                   accel->ops->only(accel, &buffer) && gpucoll_context_gpu(context, &buffer, NULL) != NULL));
    pthread_mutex_unlock(&context->lock);
    return bound;
}
