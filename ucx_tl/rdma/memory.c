#include "ucx_tl/rdma/memory.h"

#include <stdlib.h>
#include <string.h>
#include "core/accel/accel.h"
#include "ucx_tl/rdma/net.h"

/* What a call moves at least to have its memory registered for it. That takes some hundred microseconds, in which as much as this goes through host
 * memory: an estimate, which no bench has made so far. */
static const size_t least_registered = (size_t)1 << 20;
/* Shorter messages of the host go at once, and are never registered. */
static const size_t least_mapped = 4096;

/* ---- the choice ---- */

static bool takes_cuda(const struct gpucoll_ucx *ucx, ucp_context_h context)
{
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    return ucx->ucp_context_query(context, &attr) == UCS_OK &&
           (attr.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
}

/* Do all chosen devices? */
static bool devices_register(const struct gpucoll_rdma_devices *devices)
{
    bool some = false;
    bool all = true;
    for (int i = 0; i < devices->count; i++) {
        some = some || devices->device[i].chosen;
        all =
            all && (!devices->device[i].chosen || (devices->device[i].gpu_memory && !devices->device[i].tcp));
    }
    return some && all;
}

/* Older ones register each message by itself, whatever was registered ahead. */
static bool knows_handles(const struct gpucoll_ucx *ucx)
{
    return gpucoll_ucx_since(ucx, 1, 16);
}

struct gpucoll_rdma_memory gpucoll_rdma_memory_choose(const struct gpucoll_ucx *ucx, ucp_context_h context,
                                                      const struct gpucoll_config *config,
                                                      const struct gpucoll_rdma_devices *devices)
{
    const char *wish = config->net_gpu_memory;
    const bool yes = strcmp(wish, "yes") == 0;
    struct gpucoll_rdma_memory memory = {.only_so = !yes, .plain = yes};
    memory.maps_host = knows_handles(ucx) && !gpucoll_rdma_chosen(devices, false);
    if (strcmp(wish, "no") == 0) {
        memory.text = "not used directly: data goes through host memory";
    } else if (!takes_cuda(ucx, context)) {
        memory.text = "not taken by UCX: data goes through host memory";
    } else {
        memory.registers = knows_handles(ucx) && devices_register(devices);
        memory.cuda = yes || memory.registers;
        memory.text = memory.registers ? "taken by UCX and registered by the devices: used directly"
                      : yes ? "taken by UCX, which copies it through its own host memory: used directly"
                      : knows_handles(ucx)
                          ? "taken by UCX, but not registered by the devices: data goes through host memory"
                          : "taken by UCX, but before 1.16 registered with each message: data goes through "
                            "host memory";
    }
    return memory;
}

void gpucoll_rdma_memory_say(const struct gpucoll_rdma_memory *memory, const struct gpucoll_config *config,
                             const struct gpucoll_rdma_devices *devices, const struct gpucoll_log *log)
{
    gpucoll_log(log, GPUCOLL_LOG_SETUP, "memory of GPUs is %s, by coll_gpucoll_net_gpu_memory = %s",
                memory->text, config->net_gpu_memory);
    if (!memory->cuda && strcmp(config->net_gpu_memory, "no") != 0 && gpucoll_rdma_chosen(devices, false)) {
        char used[GPUCOLL_RDMA_LIST_BYTES];
        gpucoll_rdma_chosen_text(devices, used, sizeof used);
        gpucoll_help_slow(log, "net-copies", used, memory->text);
    }
}

/* ---- memory of a call ---- */

static ucs_status_t register_memory(struct gpucoll_net *net, struct gpucoll_net_memory *memory, void *data,
                                    size_t bytes)
{
    const ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
        .address = data,
        .length = bytes,
        .memory_type = memory->type,
    };
    const struct gpucoll_accel_ops *ops = memory->device->accel->ops;
    pthread_mutex_lock(&net->lock);
    const struct gpucoll_entry entry = ops->device_enter(memory->device);
    ucs_status_t status = net->ucx->ucp_mem_map(net->context, &params, &memory->handle);
    ops->device_leave(memory->device, entry);
    pthread_mutex_unlock(&net->lock);
    if (status != UCS_OK) {
        memory->handle = NULL;
    }
    return status;
}

static void say(struct gpucoll_net *net, const struct gpucoll_device *device, ucs_status_t status)
{
    bool *said = status == UCS_OK ? &net->memory_said : &net->memory_refused;
    pthread_mutex_lock(&net->lock);
    const bool first = !*said;
    *said = true;
    pthread_mutex_unlock(&net->lock);
    if (first && status == UCS_OK) {
        gpucoll_log(net->log, GPUCOLL_LOG_SETUP,
                    "messages go from and to the memory of %s device %d directly", device->accel->ops->name,
                    device->ordinal);
    } else if (first) {
        gpucoll_log(net->log, GPUCOLL_LOG_WARN,
                    "UCX cannot register memory of %s device %d (%s): messages %s; "
                    "UCX_LOG_LEVEL=diag says more, coll_gpucoll_net_gpu_memory = no does not try",
                    device->accel->ops->name, device->ordinal, net->ucx->ucs_status_string(status),
                    net->memory.only_so ? "go through host memory" : "are registered one by one");
    }
}

struct gpucoll_net_memory *gpucoll_rdma_reach(struct gpucoll_net *net, struct gpucoll_device *device,
                                              void *data, size_t bytes)
{
    const bool plain = device->accel->ops->device_enter == NULL;
    const struct gpucoll_rdma_memory *choice = &net->memory;
    if (bytes == 0 || !(plain ? choice->plain : choice->cuda) ||
        (!plain && choice->only_so && bytes < least_registered)) {
        return NULL;
    }
    struct gpucoll_net_memory *memory = calloc(1, sizeof *memory);
    if (memory == NULL) {
        return NULL;
    }
    memory->device = device;
    memory->type = plain ? UCS_MEMORY_TYPE_HOST : UCS_MEMORY_TYPE_CUDA;
    if (!plain && choice->registers) {
        ucs_status_t status = register_memory(net, memory, data, bytes);
        if (status != UCS_OK) {
            say(net, device, status);
        }
        if (status != UCS_OK && choice->only_so) {
            free(memory);
            return NULL;
        }
    }
    say(net, device, UCS_OK);
    return memory;
}

/* With the lock held. */
static void free_memory(struct gpucoll_net *net, struct gpucoll_net_memory *memory)
{
    const struct gpucoll_accel_ops *ops = memory->device->accel->ops;
    if (memory->handle != NULL) {
        const struct gpucoll_entry entry = ops->device_enter(memory->device);
        (void)net->ucx->ucp_mem_unmap(net->context, memory->handle);
        ops->device_leave(memory->device, entry);
    }
    free(memory);
}

/* A message that UCX has not let go of keeps it. */
void gpucoll_rdma_forget(struct gpucoll_net *net, struct gpucoll_net_memory *memory)
{
    pthread_mutex_lock(&net->lock);
    if (memory->messages == 0) {
        free_memory(net, memory);
    } else {
        memory->next = net->lingering;
        net->lingering = memory;
    }
    pthread_mutex_unlock(&net->lock);
}

void gpucoll_rdma_free_memory(struct gpucoll_net *net)
{
    while (net->lingering != NULL) {
        struct gpucoll_net_memory *memory = net->lingering;
        net->lingering = memory->next;
        free_memory(net, memory);
    }
}

/* ---- messages of the host ---- */

ucp_mem_h gpucoll_rdma_map(struct gpucoll_net *net, const void *data, size_t bytes)
{
    const ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
        .address = (void *)(uintptr_t)data,
        .length = bytes,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    ucp_mem_h mapped = NULL;
    const bool wanted = net->memory.maps_host && bytes >= least_mapped;
    return wanted && net->ucx->ucp_mem_map(net->context, &params, &mapped) == UCS_OK ? mapped : NULL;
}

void gpucoll_rdma_unmap(struct gpucoll_net *net, ucp_mem_h mapped)
{
    if (mapped != NULL) {
        (void)net->ucx->ucp_mem_unmap(net->context, mapped);
    }
}

/* ---- messages that have it ---- */

void gpucoll_rdma_use(struct gpucoll_net *net, struct gpucoll_net_memory *memory)
{
    if (memory != NULL) {
        memory->messages++;
    }
    if (memory != NULL && memory->type != UCS_MEMORY_TYPE_HOST) {
        net->device = memory->device;
        net->device_messages++;
    }
}

void gpucoll_rdma_unuse(struct gpucoll_net *net, struct gpucoll_net_memory *memory)
{
    if (memory != NULL) {
        memory->messages--;
    }
    if (memory != NULL && memory->type != UCS_MEMORY_TYPE_HOST) {
        net->device_messages--;
    }
}

struct gpucoll_entry gpucoll_rdma_enter(const struct gpucoll_net *net)
{
    struct gpucoll_entry none = {0};
    return net->device_messages > 0 ? net->device->accel->ops->device_enter(net->device) : none;
}

void gpucoll_rdma_leave(const struct gpucoll_net *net, struct gpucoll_entry entry)
{
    if (entry.relaxed || entry.pushed) {
        net->device->accel->ops->device_leave(net->device, entry);
    }
}
