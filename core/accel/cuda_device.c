#include "core/accel/cuda_accel.h"
#include "core/accel/nvml.h"
#include "core/accel/pieces.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(CUipcMemHandle) <= sizeof(((struct gpucoll_memory_handle *)0)->opaque),
               "a handle carries what CUDA IPC needs");
_Static_assert(sizeof(CUuuid) == sizeof(struct gpucoll_device_id), "a device is known by its UUID");

/* The driver cuts smaller allocations from shared blocks, and a peer would map the whole block. */
static const size_t granularity = (size_t)2 << 20;

static CUcontext context_of(const struct gpucoll_cuda_device *device)
{
    return atomic_load_explicit(&device->place->context, memory_order_relaxed);
}

static CUresult read_uuid(const struct gpucoll_cuda_driver *cuda, CUdevice device,
                          struct gpucoll_device_id *id)
{
    CUuuid uuid;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (cuda->uuid_of_slice) {
        result = cuda->uuid_of_slice(&uuid, device);
    } else if (cuda->uuid_of_device) {
        result = cuda->uuid_of_device(&uuid, device);
    }
    if (result == CUDA_SUCCESS) {
        memcpy(id, &uuid, sizeof(uuid));
    }
    return result;
}

bool gpucoll_cuda_identify(struct gpucoll_accel *accel, const struct gpucoll_buffer *buffer,
                           struct gpucoll_device_id *id)
{
    return read_uuid(gpucoll_cuda_accel(accel)->cuda, (CUdevice)buffer->device, id) == CUDA_SUCCESS;
}

/* Does a flush order what network devices write, and is one needed? Kernels that are launched later need none. */
static bool needs_flush(const struct gpucoll_cuda_driver *cuda, CUdevice device)
{
    int order = 0;
    int options = 0;
    return cuda->flush_writes != NULL &&
           cuda->cuDeviceGetAttribute(&order, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, device) ==
               CUDA_SUCCESS &&
           cuda->cuDeviceGetAttribute(&options, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS,
                                      device) == CUDA_SUCCESS &&
           order < CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES &&
           (options & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST) != 0;
}

/* CU_DEVICE_ATTRIBUTE_MPS_ENABLED, which the headers of older toolkits lack. A driver that does not know it refuses. */
enum { MPS_ENABLED = 133 };

static bool under_mps(const struct gpucoll_cuda_driver *cuda, CUdevice device)
{
    int enabled = 0;
    return cuda->cuDeviceGetAttribute(&enabled, (CUdevice_attribute)MPS_ENABLED, device) == CUDA_SUCCESS &&
           enabled != 0;
}

/* Loads the kernels, so that a GPU for which there is no code is refused here, before any call relies on it. */
static gpucoll_status try_device(struct gpucoll_cuda_device *device)
{
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(device->base.accel);
    CUresult result = read_uuid(accel->cuda, (CUdevice)device->base.ordinal, &device->id);
    gpucoll_status status =
        gpucoll_cuda_check(accel, device->base.ordinal, "reading the UUID of the GPU", result);
    if (status != GPUCOLL_OK) {
        return status;
    }
    result = accel->cuda->cuDeviceGetName(device->base.name, (int)sizeof(device->base.name),
                                          (CUdevice)device->base.ordinal);
    status = gpucoll_cuda_check(accel, device->base.ordinal, "reading the name of the GPU", result);
    if (status != GPUCOLL_OK) {
        return status;
    }
    status = gpucoll_cuda_load_kernels(device);
    if (status == GPUCOLL_OK) {
        result = accel->cuda->cuDeviceGetAttribute(&device->clock_khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE,
                                                   (CUdevice)device->base.ordinal);
        status = gpucoll_cuda_check(accel, device->base.ordinal, "reading the clock rate of the GPU", result);
    }
    device->flushes = needs_flush(accel->cuda, (CUdevice)device->base.ordinal);
    device->concurrent = under_mps(accel->cuda, (CUdevice)device->base.ordinal);
    if (status == GPUCOLL_OK) {
        status = gpucoll_cuda_find_resident(device);
    }
    return status;
}

gpucoll_status gpucoll_cuda_device_open(struct gpucoll_accel *base, const void *address,
                                        struct gpucoll_device **out)
{
    struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base);
    struct gpucoll_cuda_pointer pointer;
    bool found = address != NULL ? gpucoll_cuda_look(accel, address, &pointer)
                                 : gpucoll_cuda_find_used(accel->cuda, &pointer) ||
                                       gpucoll_cuda_find_only(accel->cuda, &pointer);
    if (!found) {
        return GPUCOLL_ERR_INVALID;
    }
    struct gpucoll_cuda_device *device = calloc(1, sizeof(*device));
    if (!device) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    device->base = (struct gpucoll_device){.accel = base, .ordinal = pointer.ordinal};
    gpucoll_status status = gpucoll_cuda_find_place(accel, &pointer, &device->place);
    if (status == GPUCOLL_OK) {
        status = try_device(device);
    }
    if (status != GPUCOLL_OK) {
        gpucoll_cuda_device_close(&device->base);
        return status;
    }
    *out = &device->base;
    return GPUCOLL_OK;
}

void gpucoll_cuda_device_close(struct gpucoll_device *base)
{
    struct gpucoll_cuda_device *device = gpucoll_cuda_device(base);
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base->accel);
    if (device->place && gpucoll_cuda_alive(accel, device->place, base->ordinal)) {
        struct gpucoll_entry entry = gpucoll_cuda_enter(accel, context_of(device));
        gpucoll_cuda_unload_kernels(device);
        gpucoll_cuda_leave(accel, entry);
    }
    free(device);
}

void gpucoll_cuda_device_id(struct gpucoll_device *device, struct gpucoll_device_id *id)
{
    *id = gpucoll_cuda_device(device)->id;
}

bool gpucoll_cuda_device_lingers(struct gpucoll_device *device)
{
    (void)device;
    return true;
}

unsigned gpucoll_cuda_device_resident(struct gpucoll_device *device)
{
    return gpucoll_cuda_device(device)->resident;
}

bool gpucoll_cuda_device_concurrent(struct gpucoll_device *device)
{
    return gpucoll_cuda_device(device)->concurrent;
}

struct gpucoll_entry gpucoll_cuda_device_enter(struct gpucoll_device *base)
{
    return gpucoll_cuda_enter(gpucoll_cuda_accel(base->accel), context_of(gpucoll_cuda_device(base)));
}

void gpucoll_cuda_device_leave(struct gpucoll_device *base, struct gpucoll_entry entry)
{
    gpucoll_cuda_leave(gpucoll_cuda_accel(base->accel), entry);
}

gpucoll_status gpucoll_cuda_device_flush(struct gpucoll_device *base)
{
    struct gpucoll_cuda_device *device = gpucoll_cuda_device(base);
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base->accel);
    if (!device->flushes) {
        return GPUCOLL_OK;
    }
    struct gpucoll_entry entry = gpucoll_cuda_enter(accel, context_of(device));
    CUresult result = accel->cuda->flush_writes(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                                CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES);
    gpucoll_cuda_leave(accel, entry);
    return gpucoll_cuda_check(accel, base->ordinal, "waiting for what the network has written", result);
}

bool gpucoll_cuda_device_bulk(struct gpucoll_device *device)
{
    return gpucoll_cuda_device(device)->bulk;
}

static bool has_p2p(const struct gpucoll_cuda_driver *cuda, CUdevice_P2PAttribute what, CUdevice from,
                    CUdevice to)
{
    int value = 0;
    return cuda->cuDeviceGetP2PAttribute(&value, what, from, to) == CUDA_SUCCESS && value != 0;
}

/*
 * Native atomics between two GPUs are what NVLink has and PCIe has not. A GPU that CUDA_VISIBLE_DEVICES hides from this
 * process cannot be asked about, but its memory can still be mapped by CUDA IPC (since CUDA 10.1) where the hardware allows it:
 * then NVML, which sees all GPUs, is asked, and `import` finds out whether the memory can be mapped.
 */
enum gpucoll_link gpucoll_cuda_device_link(struct gpucoll_device *base, const struct gpucoll_device_id *peer)
{
    const struct gpucoll_cuda_device *device = gpucoll_cuda_device(base);
    const struct gpucoll_cuda_driver *cuda = gpucoll_cuda_accel(base->accel)->cuda;
    if (memcmp(&device->id, peer, sizeof(*peer)) == 0) {
        return GPUCOLL_LINK_SAME;
    }
    int count = 0;
    if (cuda->cuDeviceGetCount(&count) != CUDA_SUCCESS) {
        return GPUCOLL_LINK_NONE;
    }
    CUdevice own = (CUdevice)base->ordinal;
    for (int i = 0; i < count; i++) {
        struct gpucoll_device_id id;
        if (read_uuid(cuda, (CUdevice)i, &id) == CUDA_SUCCESS && memcmp(&id, peer, sizeof(id)) == 0) {
            int reaches = 0;
            if (cuda->cuDeviceCanAccessPeer(&reaches, own, (CUdevice)i) != CUDA_SUCCESS || !reaches) {
                return GPUCOLL_LINK_NONE;
            }
            bool nvlink = has_p2p(cuda, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, own, (CUdevice)i);
            return nvlink ? GPUCOLL_LINK_NVLINK : GPUCOLL_LINK_PCIE;
        }
    }
    return gpucoll_nvml_has_nvlink(&device->id, peer) ? GPUCOLL_LINK_NVLINK : GPUCOLL_LINK_PCIE;
}

/* An opaque part of zeros: this memory cannot be mapped by other processes. */
static void export_memory(const struct gpucoll_cuda_accel *accel, CUdeviceptr memory,
                          struct gpucoll_memory_handle *handle)
{
    CUipcMemHandle opaque;
    CUresult result = accel->cuda->cuIpcGetMemHandle(&opaque, memory);
    if (result == CUDA_SUCCESS) {
        memcpy(handle->opaque, &opaque, sizeof(opaque));
        return;
    }
    char text[256];
    gpucoll_cuda_describe(accel->cuda, result, text, sizeof(text));
    gpucoll_log(accel->base.log, GPUCOLL_LOG_WARN,
                "the driver does not let other processes map GPU memory (cuIpcGetMemHandle: %s): collectives "
                "between processes are "
                "staged through host memory",
                text);
}

gpucoll_status gpucoll_cuda_scratch_alloc(struct gpucoll_device *base, size_t bytes, void **pointer,
                                          struct gpucoll_memory_handle *handle)
{
    const struct gpucoll_cuda_device *device = gpucoll_cuda_device(base);
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base->accel);
    const struct gpucoll_cuda_driver *cuda = accel->cuda;
    if (bytes == 0 || bytes > SIZE_MAX - granularity) {
        return GPUCOLL_ERR_INVALID;
    }
    size_t whole = (bytes + granularity - 1) / granularity * granularity;
    CUdeviceptr memory = 0;
    struct gpucoll_entry entry = gpucoll_cuda_enter(accel, context_of(device));
    CUresult result = cuda->cuMemAlloc(&memory, whole);
    if (result == CUDA_SUCCESS) {
        result = cuda->cuMemsetD8Async(memory, 0, whole, device->place->copies);
        if (result == CUDA_SUCCESS) {
            result = cuda->cuStreamSynchronize(device->place->copies);
        }
        if (result != CUDA_SUCCESS) {
            (void)cuda->cuMemFree(memory);
        }
    }
    if (result == CUDA_SUCCESS) {
        memset(handle, 0, sizeof(*handle));
        gpucoll_process_id_self(&handle->owner);
        handle->address = memory;
        handle->bytes = whole;
        export_memory(accel, memory, handle);
        *pointer = (void *)(uintptr_t)memory;
    }
    gpucoll_cuda_leave(accel, entry);
    return gpucoll_cuda_check(accel, base->ordinal, "allocating scratch memory", result);
}

gpucoll_status gpucoll_cuda_memory_alloc(struct gpucoll_device *base, size_t bytes, void **pointer)
{
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base->accel);
    CUdeviceptr memory = 0;
    struct gpucoll_entry entry = gpucoll_cuda_enter(accel, context_of(gpucoll_cuda_device(base)));
    CUresult result = accel->cuda->cuMemAlloc(&memory, bytes);
    gpucoll_cuda_leave(accel, entry);
    *pointer = (void *)(uintptr_t)memory;
    return result == CUDA_SUCCESS ? GPUCOLL_OK : GPUCOLL_ERR_NO_MEMORY;
}

void gpucoll_cuda_memory_free(struct gpucoll_device *base, void *pointer)
{
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base->accel);
    const struct gpucoll_cuda_device *device = gpucoll_cuda_device(base);
    if (!gpucoll_cuda_alive(accel, device->place, base->ordinal)) {
        return;
    }
    struct gpucoll_entry entry = gpucoll_cuda_enter(accel, context_of(device));
    (void)accel->cuda->cuMemFree((CUdeviceptr)(uintptr_t)pointer);
    gpucoll_cuda_leave(accel, entry);
}

void gpucoll_cuda_scratch_free(struct gpucoll_device *device, void *pointer)
{
    gpucoll_cuda_memory_free(device, pointer);
}

bool gpucoll_cuda_extent(struct gpucoll_device *base, const void *pointer, uintptr_t *begin, uint64_t *bytes)
{
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base->accel);
    CUdeviceptr first = 0;
    size_t whole = 0;
    struct gpucoll_entry entry = gpucoll_cuda_enter(accel, context_of(gpucoll_cuda_device(base)));
    CUresult result = accel->cuda->cuMemGetAddressRange(&first, &whole, (CUdeviceptr)(uintptr_t)pointer);
    gpucoll_cuda_leave(accel, entry);
    *begin = (uintptr_t)first;
    *bytes = whole;
    return result == CUDA_SUCCESS;
}

/* Allocations below the granularity share a block of the driver's, of which a peer would map the whole. */
static gpucoll_status export_opaque(const struct gpucoll_cuda_driver *cuda, const void *pointer,
                                    struct gpucoll_memory_handle *handle)
{
    CUdeviceptr begin = 0;
    size_t bytes = 0;
    CUipcMemHandle opaque;
    CUresult result = cuda->cuMemGetAddressRange(&begin, &bytes, (CUdeviceptr)(uintptr_t)pointer);
    if (result == CUDA_SUCCESS && bytes >= granularity) {
        result = cuda->cuIpcGetMemHandle(&opaque, begin);
    }
    if (result != CUDA_SUCCESS || bytes < granularity) {
        return GPUCOLL_ERR_UNSUPPORTED;
    }
    memset(handle, 0, sizeof(*handle));
    gpucoll_process_id_self(&handle->owner);
    handle->address = begin;
    handle->bytes = bytes;
    memcpy(handle->opaque, &opaque, sizeof(opaque));
    return GPUCOLL_OK;
}

gpucoll_status gpucoll_cuda_export_memory(struct gpucoll_device *base, const void *pointer, uint64_t bytes,
                                          struct gpucoll_memory_handle *handle)
{
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base->accel);
    struct gpucoll_entry entry = gpucoll_cuda_enter(accel, context_of(gpucoll_cuda_device(base)));
    gpucoll_status status = export_opaque(accel->cuda, pointer, handle);
    if (status != GPUCOLL_OK) {
        status = gpucoll_cuda_export_pieces(base, pointer, bytes, handle);
    }
    gpucoll_cuda_leave(accel, entry);
    return status;
}

void gpucoll_cuda_unexport_memory(struct gpucoll_accel *accel, const struct gpucoll_memory_handle *handle)
{
    (void)accel;
    gpucoll_pieces_close(handle);
}

/* Of this process: the address is the same, the contexts may have to be introduced to each other. */
static CUresult reach_own(const struct gpucoll_cuda_driver *cuda, CUcontext mine, CUdeviceptr address)
{
    CUcontext owner = NULL;
    CUresult result = cuda->cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, address);
    if (result != CUDA_SUCCESS || owner == mine) {
        return result;
    }
    result = cuda->cuCtxEnablePeerAccess(owner, 0);
    return result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED ? CUDA_SUCCESS : result;
}

static CUresult open_handle(const struct gpucoll_cuda_driver *cuda,
                            const struct gpucoll_memory_handle *handle, void **pointer)
{
    CUipcMemHandle opaque;
    static const CUipcMemHandle none;
    memcpy(&opaque, handle->opaque, sizeof(opaque));
    if (memcmp(&opaque, &none, sizeof(none)) == 0) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    CUdeviceptr mapped = 0;
    CUresult result = cuda->cuIpcOpenMemHandle(&mapped, opaque, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    *pointer = (void *)(uintptr_t)mapped;
    return result;
}

static bool is_own(const struct gpucoll_memory_handle *handle)
{
    struct gpucoll_process_id self;
    gpucoll_process_id_self(&self);
    return gpucoll_process_same(&handle->owner, &self);
}

gpucoll_status gpucoll_cuda_import(struct gpucoll_device *base, const struct gpucoll_memory_handle *handle,
                                   void **pointer)
{
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base->accel);
    CUcontext context = context_of(gpucoll_cuda_device(base));
    CUresult result;
    struct gpucoll_entry entry = gpucoll_cuda_enter(accel, context);
    if (handle->kind == GPUCOLL_HANDLE_PIECES) {
        gpucoll_status status = gpucoll_cuda_import_pieces(base, handle, pointer);
        gpucoll_cuda_leave(accel, entry);
        return status;
    }
    if (is_own(handle)) {
        *pointer = (void *)(uintptr_t)handle->address;
        result = reach_own(accel->cuda, context, (CUdeviceptr)handle->address);
    } else {
        result = open_handle(accel->cuda, handle, pointer);
    }
    gpucoll_cuda_leave(accel, entry);
    char what[256];
    snprintf(what, sizeof(what),
             "mapping the GPU memory of process %u (CUDA IPC: containers must share the PID and IPC "
             "namespaces of their host, and "
             "each must see both GPUs)",
             handle->owner.pid);
    return gpucoll_cuda_check(accel, base->ordinal, what, result);
}

void gpucoll_cuda_release(struct gpucoll_device *base, const struct gpucoll_memory_handle *handle,
                          void *pointer)
{
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base->accel);
    const struct gpucoll_cuda_device *device = gpucoll_cuda_device(base);
    const bool in_pieces = handle->kind == GPUCOLL_HANDLE_PIECES;
    /* Other mappings of this process may still use the way between two of its contexts. */
    if ((!in_pieces && is_own(handle)) || !gpucoll_cuda_alive(accel, device->place, base->ordinal)) {
        return;
    }
    struct gpucoll_entry entry = gpucoll_cuda_enter(accel, context_of(device));
    if (in_pieces) {
        gpucoll_cuda_release_pieces(base, handle, pointer);
    } else {
        (void)accel->cuda->cuIpcCloseMemHandle((CUdeviceptr)(uintptr_t)pointer);
    }
    gpucoll_cuda_leave(accel, entry);
}
