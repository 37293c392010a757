#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#endif
#include "core/accel/host.h"
#include "core/accel/host_arena.h"
#include "core/accel/host_stream.h"
#include "core/accel/pieces.h"
#include "kernels/functors.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct host_accel {
    struct gpucoll_accel base;
    bool plain_is_device; /* what memory counts as that is not of gpucoll_host_malloc */
};

/* A segment made or opened here, kept until it is given back. */
struct mapping {
    struct mapping *next;
    struct gpucoll_segment segment;
};

struct host_device {
    struct gpucoll_device base;
    struct gpucoll_device_id id;
    struct mapping *scratch;
    struct mapping *imports;
};

/* A pretended GPU is named by where its memory can be mapped, and by its number there. */
struct host_uuid {
    uint64_t place; /* host and PID namespace */
    uint64_t number;
};
_Static_assert(sizeof(struct host_uuid) == sizeof(struct gpucoll_device_id), "a device id is filled whole");
_Static_assert(sizeof(struct gpucoll_segment_name) <= sizeof(((struct gpucoll_memory_handle *)0)->opaque),
               "a handle carries a segment's name");

static gpucoll_status host_open(const struct gpucoll_config *config, const struct gpucoll_log *log,
                                struct gpucoll_accel **out)
{
    struct host_accel *accel = calloc(1, sizeof(*accel));
    if (!accel) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    accel->base = (struct gpucoll_accel){.ops = &gpucoll_accel_host, .config = config, .log = log};
    accel->plain_is_device = strcmp(config->host_memory, "device") == 0;
    gpucoll_host_frees_wait(config->host_free_waits);
    *out = &accel->base;
    return GPUCOLL_OK;
}

static void host_close(struct gpucoll_accel *accel)
{
    free(accel);
}

static bool host_active(struct gpucoll_accel *accel)
{
    (void)accel;
    return true;
}

static void host_classify(struct gpucoll_accel *base, const void *pointer, struct gpucoll_buffer *buffer)
{
    const struct host_accel *accel = (const struct host_accel *)base;
    *buffer = (struct gpucoll_buffer){.memory = GPUCOLL_MEMORY_HOST, .device = -1};
    if (!pointer) {
        return;
    }
    if (!gpucoll_host_arena_find(pointer, &buffer->memory, &buffer->id) && accel->plain_is_device) {
        buffer->memory = GPUCOLL_MEMORY_DEVICE;
    }
    buffer->device = buffer->memory == GPUCOLL_MEMORY_DEVICE ? 0 : -1;
}

static gpucoll_status host_copy(struct gpucoll_accel *accel, void *to, const void *from, size_t bytes)
{
    (void)accel;
    if (bytes > 0) {
        memmove(to, from, bytes);
    }
    return GPUCOLL_OK;
}

static gpucoll_status host_copy_rows(struct gpucoll_accel *accel, void *to, const void *from,
                                     const struct gpucoll_rows *rows, size_t count)
{
    (void)accel;
    for (size_t i = 0; i < count; i++) {
        for (size_t row = 0; row < rows[i].rows; row++) {
            const uintptr_t at = (uintptr_t)(rows[i].offset + (ptrdiff_t)row * rows[i].stride);
            memcpy((void *)((uintptr_t)to + at), (const void *)((uintptr_t)from + at), rows[i].bytes);
        }
    }
    return GPUCOLL_OK;
}

static gpucoll_status host_alloc(struct gpucoll_accel *accel, size_t bytes, void **pointer)
{
    (void)accel;
    gpucoll_host_wait_for_free();
    *pointer = gpucoll_host_malloc(bytes, GPUCOLL_MEMORY_HOST);
    return *pointer ? GPUCOLL_OK : GPUCOLL_ERR_NO_MEMORY;
}

static void host_free(struct gpucoll_accel *accel, void *pointer)
{
    (void)accel;
    gpucoll_host_free(pointer);
}

/* What the application stored is there when its call begins. */
static gpucoll_status host_synchronize(struct gpucoll_accel *accel, const void *pointer)
{
    (void)accel;
    (void)pointer;
    return GPUCOLL_OK;
}

/* Unless devices are to be shared, each opened device has a number of its own in the whole host, so that
 * threads with a context each look like processes with a GPU each. */
static void name_device(struct host_device *device, int host_devices)
{
    static uint32_t opened;
    uint32_t turn = __atomic_fetch_add(&opened, 1, __ATOMIC_RELAXED);
    struct gpucoll_process_id self;
    gpucoll_process_id_self(&self);
    struct host_uuid uuid = {.place = self.host ^ self.pid_space};
    if (host_devices > 0) {
        uuid.number = (self.pid + turn) % (uint32_t)host_devices;
    } else {
        uuid.number = (uint64_t)self.pid << 32 | turn;
    }
    memcpy(&device->id, &uuid, sizeof(uuid));
}

static bool host_here(struct gpucoll_accel *accel, struct gpucoll_buffer *buffer)
{
    (void)accel;
    *buffer = (struct gpucoll_buffer){.memory = GPUCOLL_MEMORY_DEVICE};
    return true;
}

static gpucoll_status host_device_open(struct gpucoll_accel *accel, const void *pointer,
                                       struct gpucoll_device **out)
{
    (void)pointer;
    struct host_device *device = calloc(1, sizeof(*device));
    if (!device) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    device->base = (struct gpucoll_device){.accel = accel, .ordinal = 0, .name = "host memory"};
    name_device(device, accel->config->host_devices);
    *out = &device->base;
    return GPUCOLL_OK;
}

static void drop_all(struct mapping *mapping)
{
    while (mapping) {
        struct mapping *next = mapping->next;
        gpucoll_segment_close(&mapping->segment);
        free(mapping);
        mapping = next;
    }
}

/* Closes the mapping whose user part is at `pointer`. */
static void drop(struct mapping **link, const void *pointer)
{
    while (*link && (*link)->segment.user != pointer) {
        link = &(*link)->next;
    }
    struct mapping *found = *link;
    if (found) {
        *link = found->next;
        found->next = NULL;
        drop_all(found);
    }
}

static void host_device_close(struct gpucoll_device *base)
{
    struct host_device *device = (struct host_device *)base;
    drop_all(device->imports);
    drop_all(device->scratch);
    free(device);
}

static void host_device_id(struct gpucoll_device *device, struct gpucoll_device_id *id)
{
    *id = ((struct host_device *)device)->id;
}

/* A worker thread that lingers would take a core from the application. */
static bool host_device_lingers(struct gpucoll_device *device)
{
    (void)device;
    return false;
}

/* A thread runs all CTAs by turns. */
static unsigned host_device_resident(struct gpucoll_device *device)
{
    const int pretended = device->accel->config->host_resident;
    return pretended > 0 ? (unsigned)pretended : GPUCOLL_MAX_CHANNELS;
}

static bool host_device_concurrent(struct gpucoll_device *device)
{
    return device->accel->config->host_mps;
}

static bool host_device_bulk(struct gpucoll_device *device)
{
    (void)device;
    return true;
}

static enum gpucoll_link host_device_link(struct gpucoll_device *device, const struct gpucoll_device_id *peer)
{
    struct host_uuid mine;
    struct host_uuid other;
    memcpy(&mine, &((struct host_device *)device)->id, sizeof(mine));
    memcpy(&other, peer, sizeof(other));
    if (memcmp(&mine, &other, sizeof(mine)) == 0) {
        return GPUCOLL_LINK_SAME;
    }
    /* The host kernel of LL128 does not rely on whole lines. */
    return mine.place == other.place ? GPUCOLL_LINK_NVLINK : GPUCOLL_LINK_NONE;
}

static void fill_handle(const struct gpucoll_segment_name *name, struct gpucoll_memory_handle *handle)
{
    *handle =
        (struct gpucoll_memory_handle){.owner = name->owner, .address = name->address, .bytes = name->bytes};
    memcpy(handle->opaque, name, sizeof(*name));
}

static bool host_extent(struct gpucoll_device *device, const void *pointer, uintptr_t *begin, uint64_t *bytes)
{
    (void)device;
    return gpucoll_host_arena_extent(pointer, begin, bytes);
}

static gpucoll_status export_pieces(struct gpucoll_accel *accel, const void *pointer, uint64_t bytes,
                                    struct gpucoll_memory_handle *handle)
{
    const uintptr_t end = (uintptr_t)pointer + bytes;
    uintptr_t begin = 0;
    uint64_t piece_bytes = 0;
    if (gpucoll_pieces_refused() || !gpucoll_host_arena_extent(pointer, &begin, &piece_bytes)) {
        return GPUCOLL_ERR_UNSUPPORTED;
    }
    gpucoll_pieces_begin(begin, handle);
    for (uintptr_t at = begin; at < end; at = begin + piece_bytes) {
        int fd = gpucoll_host_arena_piece((const void *)at);
        if (fd < 0 || !gpucoll_host_arena_extent((const void *)at, &begin, &piece_bytes) ||
            !gpucoll_pieces_add(accel, handle, fd, piece_bytes)) {
            gpucoll_pieces_close(handle);
            return GPUCOLL_ERR_UNSUPPORTED;
        }
    }
    return GPUCOLL_OK;
}

static gpucoll_status host_export_memory(struct gpucoll_device *device, const void *pointer, uint64_t bytes,
                                         struct gpucoll_memory_handle *handle)
{
    struct gpucoll_segment_name name;
    uintptr_t begin;
    if (!gpucoll_host_arena_share(pointer, &name)) {
        return export_pieces(device->accel, pointer, bytes, handle);
    }
    fill_handle(&name, handle);
    /* The segment ends with a page, where the allocation may not. */
    return gpucoll_host_arena_extent(pointer, &begin, &handle->bytes) ? GPUCOLL_OK : GPUCOLL_ERR_UNSUPPORTED;
}

static void host_unexport_memory(struct gpucoll_accel *accel, const struct gpucoll_memory_handle *handle)
{
    (void)accel;
    gpucoll_pieces_close(handle);
}

static gpucoll_status host_scratch_alloc(struct gpucoll_device *base, size_t bytes, void **pointer,
                                         struct gpucoll_memory_handle *handle)
{
    struct host_device *device = (struct host_device *)base;
    struct mapping *mapping = calloc(1, sizeof(*mapping));
    if (!mapping) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    gpucoll_status status = gpucoll_segment_create(&mapping->segment, bytes, base->accel->log);
    if (status != GPUCOLL_OK) {
        free(mapping);
        return status;
    }
    fill_handle(&mapping->segment.name, handle);
    mapping->next = device->scratch;
    device->scratch = mapping;
    *pointer = mapping->segment.user;
    return GPUCOLL_OK;
}

static void host_scratch_free(struct gpucoll_device *device, void *pointer)
{
    drop(&((struct host_device *)device)->scratch, pointer);
}

/* The mappings keep the memory. */
static bool map_pieces(const struct gpucoll_memory_handle *handle, const int *fds, char *at)
{
    for (uint32_t i = 0; i < handle->piece_count; i++) {
        const size_t bytes = (size_t)handle->pieces[i].bytes;
        if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fds[i], 0) == MAP_FAILED) {
            return false;
        }
        at += bytes;
    }
    return true;
}

static gpucoll_status import_pieces(struct gpucoll_accel *accel, const struct gpucoll_memory_handle *handle,
                                    void **pointer)
{
    const size_t bytes = (size_t)handle->bytes;
    int fds[GPUCOLL_HANDLE_PIECES_MAX];
    if (!gpucoll_pieces_take(accel, handle, fds)) {
        return GPUCOLL_ERR_SYSTEM;
    }
    void *begin = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool mapped = begin != MAP_FAILED && map_pieces(handle, fds, begin);
    if (!mapped) {
        gpucoll_pieces_show(accel, handle, strerror(errno));
        if (begin != MAP_FAILED) {
            munmap(begin, bytes);
        }
    }
    gpucoll_pieces_drop(fds, handle->piece_count);
    *pointer = begin;
    return mapped ? GPUCOLL_OK : GPUCOLL_ERR_NO_MEMORY;
}

static gpucoll_status host_import(struct gpucoll_device *base, const struct gpucoll_memory_handle *handle,
                                  void **pointer)
{
    struct host_device *device = (struct host_device *)base;
    if (handle->kind == GPUCOLL_HANDLE_PIECES) {
        return import_pieces(base->accel, handle, pointer);
    }
    struct mapping *mapping = calloc(1, sizeof(*mapping));
    if (!mapping) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    struct gpucoll_segment_name name;
    memcpy(&name, handle->opaque, sizeof(name));
    gpucoll_status status = gpucoll_segment_open(&mapping->segment, &name, base->accel->log);
    if (status != GPUCOLL_OK) {
        free(mapping);
        return status;
    }
    mapping->next = device->imports;
    device->imports = mapping;
    *pointer = mapping->segment.user;
    return GPUCOLL_OK;
}

static void host_release(struct gpucoll_device *device, const struct gpucoll_memory_handle *handle,
                         void *pointer)
{
    if (handle->kind == GPUCOLL_HANDLE_PIECES) {
        munmap(pointer, (size_t)handle->bytes);
        return;
    }
    drop(&((struct host_device *)device)->imports, pointer);
}

static gpucoll_status host_memory_alloc(struct gpucoll_device *device, size_t bytes, void **pointer)
{
    (void)device;
    *pointer = gpucoll_host_malloc(bytes, GPUCOLL_MEMORY_DEVICE);
    return *pointer ? GPUCOLL_OK : GPUCOLL_ERR_NO_MEMORY;
}

static void host_memory_free(struct gpucoll_device *device, void *pointer)
{
    (void)device;
    gpucoll_host_free(pointer);
}

static gpucoll_status host_stream_health(struct gpucoll_stream *stream)
{
    (void)stream;
    return GPUCOLL_OK;
}

/* The pretended device reaches all host memory. */
static gpucoll_status host_register(struct gpucoll_device *device, void *pointer, size_t bytes)
{
    (void)device;
    (void)pointer;
    (void)bytes;
    return GPUCOLL_OK;
}

static void host_unregister(struct gpucoll_device *device, void *pointer)
{
    (void)device;
    (void)pointer;
}

const struct gpucoll_accel_ops gpucoll_accel_host = {
    .name = "host",
    .help = "host memory as device memory and threads as kernels: for tests without a GPU",
    .takes_cores = true,
    .scratch_bytes = (size_t)4 << 20,
    .open = host_open,
    .close = host_close,
    .active = host_active,
    .classify = host_classify,
    .copy = host_copy,
    .copy_rows = host_copy_rows,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .synchronize = host_synchronize,
    .here = host_here,
    .device_open = host_device_open,
    .device_close = host_device_close,
    .device_id = host_device_id,
    .device_lingers = host_device_lingers,
    .device_resident = host_device_resident,
    .device_concurrent = host_device_concurrent,
    .device_bulk = host_device_bulk,
    .device_link = host_device_link,
    .scratch_alloc = host_scratch_alloc,
    .scratch_free = host_scratch_free,
    .import = host_import,
    .release = host_release,
    .memory_alloc = host_memory_alloc,
    .memory_free = host_memory_free,
    .extent = host_extent,
    .export_memory = host_export_memory,
    .unexport_memory = host_unexport_memory,
    .copier_open = gpucoll_host_copier_open,
    .copier_close = gpucoll_host_copier_close,
    .copier_queue = gpucoll_host_copier_queue,
    .copier_batches = gpucoll_host_copier_batches,
    .copier_passed = gpucoll_host_copier_passed,
    .stream_open = gpucoll_host_stream_open,
    .stream_close = gpucoll_host_stream_close,
    .stream_stop = gpucoll_host_stream_stop,
    .launch = gpucoll_host_stream_launch,
    .ring_early = gpucoll_host_stream_ring_early,
    .confirm = gpucoll_host_stream_confirm,
    .call_off = gpucoll_host_stream_call_off,
    .launch_again = gpucoll_host_stream_launch_again,
    .pack = gpucoll_host_stream_pack,
    .stream_status = gpucoll_host_stream_status,
    .stream_poll = gpucoll_host_stream_poll,
    .stream_health = host_stream_health,
    .host_register = host_register,
    .host_unregister = host_unregister,
};
