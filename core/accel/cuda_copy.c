#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* MAP_ANONYMOUS, madvise */
#endif
#include "core/accel/cuda_accel.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The context in which a device is to be used: the one that made the memory, else (pools and mapped memory
 * belong to no context) the current one if it is on that device, else the primary one. */
static CUresult choose_context(const struct gpucoll_cuda_driver *cuda,
                               const struct gpucoll_cuda_pointer *pointer, CUcontext *context, bool *retained)
{
    CUdevice device;
    CUresult result = cuda->cuDeviceGet(&device, pointer->ordinal);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    CUcontext wanted = pointer->context;
    CUdevice current;
    if (!wanted && cuda->cuCtxGetDevice(&current) == CUDA_SUCCESS && current == device) {
        (void)cuda->cuCtxGetCurrent(&wanted);
    }
    unsigned flags = 0;
    int active = 0;
    CUcontext primary = NULL;
    (void)cuda->cuDevicePrimaryCtxGetState(device, &flags, &active);
    if (active || !wanted) {
        result = cuda->cuDevicePrimaryCtxRetain(&primary, device);
    }
    *retained = primary && (!wanted || wanted == primary);
    *context = *retained ? primary : wanted;
    if (primary && !*retained) {
        (void)cuda->cuDevicePrimaryCtxRelease(device);
    }
    return *context ? CUDA_SUCCESS : result;
}

static CUresult make_place(const struct gpucoll_cuda_accel *accel, const struct gpucoll_cuda_pointer *pointer,
                           struct gpucoll_cuda_place *place)
{
    const struct gpucoll_cuda_driver *cuda = accel->cuda;
    CUcontext context = NULL;
    CUresult result = choose_context(cuda, pointer, &context, &place->retained);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct gpucoll_entry entry = gpucoll_cuda_enter(accel, context);
    result = cuda->cuStreamCreateWithPriority(&place->copies, CU_STREAM_NON_BLOCKING, 0);
    gpucoll_cuda_leave(accel, entry);
    if (cuda->context_number && cuda->context_number(context, &place->number) != CUDA_SUCCESS) {
        place->number = 0;
    }
    if (result == CUDA_SUCCESS) {
        atomic_store_explicit(&place->context, context, memory_order_release);
    } else if (place->retained) {
        (void)cuda->cuDevicePrimaryCtxRelease((CUdevice)pointer->ordinal);
    }
    return result;
}

gpucoll_status gpucoll_cuda_find_place(struct gpucoll_cuda_accel *accel,
                                       const struct gpucoll_cuda_pointer *pointer,
                                       struct gpucoll_cuda_place **out)
{
    if (pointer->ordinal < 0 || pointer->ordinal >= GPUCOLL_CUDA_DEVICES) {
        return gpucoll_cuda_check(accel, pointer->ordinal, "finding the device of a buffer",
                                  CUDA_ERROR_INVALID_DEVICE);
    }
    struct gpucoll_cuda_place *place = &accel->places[pointer->ordinal];
    *out = place;
    CUresult result = CUDA_SUCCESS;
    if (atomic_load_explicit(&place->context, memory_order_acquire)) {
        result = gpucoll_cuda_same_context(accel, place);
        return gpucoll_cuda_check(accel, pointer->ordinal, "using the context of earlier buffers", result);
    }
    pthread_mutex_lock(&accel->lock);
    if (!atomic_load_explicit(&place->context, memory_order_relaxed)) {
        result = make_place(accel, pointer, place);
    }
    pthread_mutex_unlock(&accel->lock);
    return gpucoll_cuda_check(accel, pointer->ordinal, "using the context of a buffer", result);
}

CUresult gpucoll_cuda_same_context(const struct gpucoll_cuda_accel *accel,
                                   const struct gpucoll_cuda_place *place)
{
    CUcontext context = atomic_load_explicit(&place->context, memory_order_acquire);
    unsigned long long number = 0;
    const bool same = place->number == 0 || (accel->cuda->context_number(context, &number) == CUDA_SUCCESS &&
                                             number == place->number);
    return same ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

bool gpucoll_cuda_alive(const struct gpucoll_cuda_accel *accel, const struct gpucoll_cuda_place *place,
                        int ordinal)
{
    CUcontext context = atomic_load_explicit(&place->context, memory_order_acquire);
    unsigned flags = 0;
    int active = 0;
    if (!context) {
        return false;
    }
    if (place->retained &&
        (accel->cuda->cuDevicePrimaryCtxGetState((CUdevice)ordinal, &flags, &active) != CUDA_SUCCESS ||
         !active)) {
        return false;
    }
    return gpucoll_cuda_same_context(accel, place) == CUDA_SUCCESS;
}

/* Errors mean nothing here: the driver may be shutting down. */
void gpucoll_cuda_close_places(struct gpucoll_cuda_accel *accel)
{
    for (int i = 0; i < GPUCOLL_CUDA_DEVICES; i++) {
        struct gpucoll_cuda_place *place = &accel->places[i];
        if (!gpucoll_cuda_alive(accel, place, i)) {
            continue;
        }
        CUcontext context = atomic_load_explicit(&place->context, memory_order_relaxed);
        struct gpucoll_entry entry = gpucoll_cuda_enter(accel, context);
        (void)accel->cuda->cuStreamDestroy(place->copies);
        gpucoll_cuda_leave(accel, entry);
        if (place->retained) {
            (void)accel->cuda->cuDevicePrimaryCtxRelease((CUdevice)i);
        }
    }
}

/* On the place's own stream, which waits for nothing else: MPI's rule is that the buffers are ready when the
 * call begins. */
static CUresult copy_on(const struct gpucoll_cuda_accel *accel, const struct gpucoll_cuda_place *place,
                        void *to, const void *from, size_t bytes)
{
    struct gpucoll_entry entry = gpucoll_cuda_enter(accel, atomic_load_explicit(&place->context, memory_order_acquire));
    CUresult result = accel->cuda->cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from,
                                                 bytes, place->copies);
    if (result == CUDA_SUCCESS) {
        result = accel->cuda->cuStreamSynchronize(place->copies);
    }
    gpucoll_cuda_leave(accel, entry);
    return result;
}

/* Between devices whose driver refuses the direct way: memory of a pool, for example, that the other may not
 * touch. */
static CUresult copy_by_host(const struct gpucoll_cuda_accel *accel, const struct gpucoll_cuda_place *target,
                             void *to, const struct gpucoll_cuda_place *source, const void *from,
                             size_t bytes)
{
    const size_t chunk = (size_t)1 << 20;
    char *buffer = malloc(chunk);
    CUresult result = buffer ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t at = 0; at < bytes && result == CUDA_SUCCESS; at += chunk) {
        size_t now = bytes - at < chunk ? bytes - at : chunk;
        result = copy_on(accel, source, buffer, (const char *)from + at, now);
        if (result == CUDA_SUCCESS) {
            result = copy_on(accel, target, (char *)to + at, buffer, now);
        }
    }
    free(buffer);
    return result;
}

/* The ends of a copy: where copies to and from each are queued, NULL for host memory. */
struct ends {
    struct gpucoll_cuda_place *to;
    struct gpucoll_cuda_place *from;
    int ordinal; /* for messages: the source's, else the target's */
};

static gpucoll_status find_ends(struct gpucoll_cuda_accel *accel, const void *to, const void *from,
                                struct ends *ends)
{
    struct gpucoll_cuda_pointer target;
    struct gpucoll_cuda_pointer source;
    gpucoll_status status = GPUCOLL_OK;
    *ends = (struct ends){.ordinal = -1};
    if (gpucoll_cuda_look(accel, to, &target)) {
        ends->ordinal = target.ordinal;
        status = gpucoll_cuda_find_place(accel, &target, &ends->to);
    }
    if (status == GPUCOLL_OK && gpucoll_cuda_look(accel, from, &source)) {
        ends->ordinal = source.ordinal;
        status = gpucoll_cuda_find_place(accel, &source, &ends->from);
    }
    return status;
}

gpucoll_status gpucoll_cuda_copy(struct gpucoll_accel *base, void *to, const void *from, size_t bytes)
{
    struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base);
    struct ends ends;
    if (bytes == 0) {
        return GPUCOLL_OK;
    }
    gpucoll_status status = find_ends(accel, to, from, &ends);
    if (status != GPUCOLL_OK) {
        return status;
    }
    if (!ends.to && !ends.from) {
        memmove(to, from, bytes);
        return GPUCOLL_OK;
    }
    CUresult result = copy_on(accel, ends.from ? ends.from : ends.to, to, from, bytes);
    if (result != CUDA_SUCCESS && ends.to && ends.from && ends.to != ends.from) {
        result = copy_by_host(accel, ends.to, to, ends.from, from, bytes);
    }
    return gpucoll_cuda_check(accel, ends.ordinal, "copying a buffer", result);
}

static void *moved(const void *pointer, ptrdiff_t offset)
{
    return (void *)((uintptr_t)pointer + (uintptr_t)offset);
}

/* Regular rows are one copy of two dimensions: a copy of its own takes the host 2 us, however short. */
static CUresult queue_rows(const struct gpucoll_cuda_accel *accel, const struct ends *ends, void *to,
                           const void *from, const struct gpucoll_rows *rows)
{
    CUstream stream = (ends->from ? ends->from : ends->to)->copies;
    CUresult result = CUDA_SUCCESS;
    if (rows->rows > 1 && rows->stride >= (ptrdiff_t)rows->bytes && rows->stride <= INT32_MAX) {
        const CUDA_MEMCPY2D copy = {
            .srcMemoryType = ends->from ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_HOST,
            .srcHost = from,
            .srcDevice = (CUdeviceptr)(uintptr_t)from,
            .srcPitch = (size_t)rows->stride,
            .dstMemoryType = ends->to ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_HOST,
            .dstHost = to,
            .dstDevice = (CUdeviceptr)(uintptr_t)to,
            .dstPitch = (size_t)rows->stride,
            .WidthInBytes = rows->bytes,
            .Height = rows->rows,
        };
        return accel->cuda->cuMemcpy2DAsync(&copy, stream);
    }
    for (size_t row = 0; row < rows->rows && result == CUDA_SUCCESS; row++) {
        const ptrdiff_t at = (ptrdiff_t)row * rows->stride;
        result = accel->cuda->cuMemcpyAsync((CUdeviceptr)(uintptr_t)moved(to, at),
                                            (CUdeviceptr)(uintptr_t)moved(from, at), rows->bytes, stream);
    }
    return result;
}

static gpucoll_status copy_rows_singly(struct gpucoll_accel *accel, void *to, const void *from,
                                       const struct gpucoll_rows *rows, size_t count)
{
    gpucoll_status status = GPUCOLL_OK;
    for (size_t i = 0; i < count; i++) {
        for (size_t row = 0; row < rows[i].rows && status == GPUCOLL_OK; row++) {
            const ptrdiff_t at = rows[i].offset + (ptrdiff_t)row * rows[i].stride;
            status = gpucoll_cuda_copy(accel, moved(to, at), moved(from, at), rows[i].bytes);
        }
    }
    return status;
}

gpucoll_status gpucoll_cuda_copy_rows(struct gpucoll_accel *base, void *to, const void *from,
                                      const struct gpucoll_rows *rows, size_t count)
{
    struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base);
    struct ends ends;
    gpucoll_status status = find_ends(accel, moved(to, rows->offset), moved(from, rows->offset), &ends);
    if (status != GPUCOLL_OK) {
        return status;
    }
    if ((ends.to != NULL) == (ends.from != NULL)) {
        return copy_rows_singly(base, to, from, rows, count);
    }
    const struct gpucoll_cuda_place *place = ends.from ? ends.from : ends.to;
    struct gpucoll_entry entry = gpucoll_cuda_enter(accel, atomic_load_explicit(&place->context, memory_order_acquire));
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        result = queue_rows(accel, &ends, moved(to, rows[i].offset), moved(from, rows[i].offset), &rows[i]);
    }
    /* After an error too: what was queued before it still touches the buffers. */
    CUresult waited = accel->cuda->cuStreamSynchronize(place->copies);
    gpucoll_cuda_leave(accel, entry);
    return gpucoll_cuda_check(accel, ends.ordinal, "copying the pieces of a buffer",
                              result != CUDA_SUCCESS ? result : waited);
}

gpucoll_status gpucoll_cuda_synchronize(struct gpucoll_accel *base, const void *address)
{
    struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base);
    struct gpucoll_cuda_pointer pointer;
    if (!gpucoll_cuda_look(accel, address, &pointer)) {
        return GPUCOLL_OK;
    }
    struct gpucoll_cuda_place *place = NULL;
    gpucoll_status status = gpucoll_cuda_find_place(accel, &pointer, &place);
    if (status != GPUCOLL_OK) {
        return status;
    }
    struct gpucoll_entry entry = gpucoll_cuda_enter(accel, atomic_load_explicit(&place->context, memory_order_acquire));
    CUresult result = accel->cuda->cuCtxSynchronize();
    gpucoll_cuda_leave(accel, entry);
    return gpucoll_cuda_check(accel, pointer.ordinal, "waiting for the device", result);
}

/*
 * Host memory is ours, and pinned where there is a context to pin it in: so it outlives a context that the
 * application destroys, where memory that the driver allocated would vanish. A child of fork does not get it,
 * since a copy made on write would part the parent's page from the one that the device writes.
 */
struct header {
    size_t bytes; /* of the mapping */
};
static const size_t header_bytes = 256; /* keeps what follows aligned as device memory is */

/* A context to pin memory in: the current one, one already in use, or an active primary one. */
static CUcontext any_context(struct gpucoll_cuda_accel *accel)
{
    CUcontext context = NULL;
    if (accel->cuda->cuCtxGetCurrent(&context) == CUDA_SUCCESS && context) {
        return context;
    }
    int count = 0;
    if (accel->cuda->cuDeviceGetCount(&count) != CUDA_SUCCESS) {
        return NULL;
    }
    for (int i = 0; i < count && i < GPUCOLL_CUDA_DEVICES; i++) {
        context = atomic_load_explicit(&accel->places[i].context, memory_order_acquire);
        if (context && !gpucoll_cuda_alive(accel, &accel->places[i], i)) {
            context = NULL; /* the application has destroyed it */
            continue;
        }
        unsigned flags = 0;
        int active = 0;
        if (!context &&
            accel->cuda->cuDevicePrimaryCtxGetState((CUdevice)i, &flags, &active) == CUDA_SUCCESS && active) {
            const struct gpucoll_cuda_pointer pointer = {.ordinal = i};
            struct gpucoll_cuda_place *place;
            if (gpucoll_cuda_find_place(accel, &pointer, &place) == GPUCOLL_OK) {
                context = atomic_load_explicit(&place->context, memory_order_acquire);
            }
        }
        if (context) {
            return context;
        }
    }
    return NULL;
}

gpucoll_status gpucoll_cuda_host_alloc(struct gpucoll_accel *base, size_t bytes, void **pointer)
{
    struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base);
    if (bytes > SIZE_MAX - header_bytes) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    size_t whole = bytes + header_bytes;
    void *map = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    (void)madvise(map, whole, MADV_DONTFORK);
    ((struct header *)map)->bytes = whole;
    CUcontext context = any_context(accel);
    if (context) {
        struct gpucoll_entry entry = gpucoll_cuda_enter(accel, context);
        CUresult result = accel->cuda->cuMemHostRegister(
            map, whole, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
        gpucoll_cuda_leave(accel, entry);
        if (result != CUDA_SUCCESS) {
            char text[256];
            gpucoll_cuda_describe(accel->cuda, result, text, sizeof(text));
            gpucoll_log(base->log, GPUCOLL_LOG_SETUP, "%zu bytes of host memory stay unpinned: %s", whole,
                        text);
        }
    }
    *pointer = (char *)map + header_bytes;
    return GPUCOLL_OK;
}

void gpucoll_cuda_host_free(struct gpucoll_accel *base, void *pointer)
{
    struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base);
    if (!pointer) {
        return;
    }
    struct header *map = (struct header *)((char *)pointer - header_bytes);
    CUcontext context = any_context(accel);
    if (context) {
        struct gpucoll_entry entry = gpucoll_cuda_enter(accel, context);
        (void)accel->cuda->cuMemHostUnregister(map); /* fails where it was not pinned */
        gpucoll_cuda_leave(accel, entry);
    }
    munmap(map, map->bytes);
}

gpucoll_status gpucoll_cuda_host_register(struct gpucoll_device *device, void *pointer, size_t bytes)
{
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(device->accel);
    CUcontext context =
        atomic_load_explicit(&gpucoll_cuda_device(device)->place->context, memory_order_relaxed);
    struct gpucoll_entry entry = gpucoll_cuda_enter(accel, context);
    CUresult result = accel->cuda->cuMemHostRegister(
        pointer, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    gpucoll_cuda_leave(accel, entry);
    return gpucoll_cuda_check(accel, device->ordinal, "registering shared host memory (cuMemHostRegister)",
                              result);
}

void gpucoll_cuda_host_unregister(struct gpucoll_device *device, void *pointer)
{
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(device->accel);
    const struct gpucoll_cuda_place *place = gpucoll_cuda_device(device)->place;
    if (gpucoll_cuda_alive(accel, place, device->ordinal)) {
        struct gpucoll_entry entry = gpucoll_cuda_enter(accel, atomic_load_explicit(&place->context, memory_order_relaxed));
        (void)accel->cuda->cuMemHostUnregister(pointer);
        gpucoll_cuda_leave(accel, entry);
    }
}
