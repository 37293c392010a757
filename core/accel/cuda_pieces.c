/*
 * Memory of cuMemCreate and cuMemMap, which CUDA IPC does not know: shared by file descriptors, where the application has made it with
 * CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR. What cuMemMap has mapped at once is a piece. The driver tells its bounds (cuMemGetAddressRange)
 * and has a number for it (CU_POINTER_ATTRIBUTE_BUFFER_ID) as for any allocation; the addresses reserved around it are none of ours.
 */
#include <stdio.h>
#include <unistd.h>
#include "core/accel/cuda_accel.h"
#include "core/accel/pieces.h"

static const CUmemAllocationHandleType by_descriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/* These came with CUDA 10.2 and 11; a driver without one shares no such memory. */
static bool has_pieces(const struct gpucoll_cuda_driver *cuda)
{
    return cuda->cuMemRetainAllocationHandle && cuda->cuMemGetAllocationPropertiesFromHandle &&
           cuda->cuMemExportToShareableHandle && cuda->cuMemImportFromShareableHandle &&
           cuda->cuMemAddressReserve && cuda->cuMemAddressFree && cuda->cuMemMap && cuda->cuMemUnmap &&
           cuda->cuMemSetAccess && cuda->cuMemRelease;
}

/* Is [begin, begin + bytes) of one physical allocation, from its beginning on? cuMemMap maps from there only, but the bounds of what it has
 * mapped are the driver's word: what peers would map beside the allocation must not be found out by them. */
static bool is_whole(const struct gpucoll_cuda_driver *cuda, CUmemGenericAllocationHandle memory,
                     CUdeviceptr begin, size_t bytes)
{
    CUmemGenericAllocationHandle last;
    if (cuda->cuMemRetainAllocationHandle(&last, (void *)(uintptr_t)(begin + bytes - 1)) != CUDA_SUCCESS) {
        return false;
    }
    (void)cuda->cuMemRelease(last);
    return last == memory;
}

/* A descriptor of the piece, or -1. */
static int export_piece(const struct gpucoll_cuda_driver *cuda, CUdeviceptr begin, size_t bytes)
{
    CUmemGenericAllocationHandle memory;
    CUmemAllocationProp prop;
    int fd = -1;
    if (cuda->cuMemRetainAllocationHandle(&memory, (void *)(uintptr_t)begin) != CUDA_SUCCESS) {
        return -1;
    }
    if (!is_whole(cuda, memory, begin, bytes) ||
        cuda->cuMemGetAllocationPropertiesFromHandle(&prop, memory) != CUDA_SUCCESS ||
        (prop.requestedHandleTypes & by_descriptor) == 0 ||
        cuda->cuMemExportToShareableHandle(&fd, memory, by_descriptor, 0) != CUDA_SUCCESS) {
        fd = -1;
    }
    (void)cuda->cuMemRelease(memory);
    return fd;
}

gpucoll_status gpucoll_cuda_export_pieces(struct gpucoll_device *device, const void *pointer, uint64_t bytes,
                                          struct gpucoll_memory_handle *handle)
{
    struct gpucoll_accel *accel = device->accel;
    const struct gpucoll_cuda_driver *cuda = gpucoll_cuda_accel(accel)->cuda;
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)pointer;
    const CUdeviceptr end = at + bytes;
    CUdeviceptr begin = 0;
    size_t piece = 0;
    if (!has_pieces(cuda) || gpucoll_pieces_refused() ||
        cuda->cuMemGetAddressRange(&begin, &piece, at) != CUDA_SUCCESS) {
        return GPUCOLL_ERR_UNSUPPORTED;
    }
    gpucoll_pieces_begin(begin, handle);
    for (at = begin; at < end; at = begin + piece) {
        int fd = cuda->cuMemGetAddressRange(&begin, &piece, at) == CUDA_SUCCESS && begin == at
                     ? export_piece(cuda, begin, piece)
                     : -1;
        if (fd < 0 || !gpucoll_pieces_add(accel, handle, fd, piece)) {
            gpucoll_pieces_close(handle);
            return GPUCOLL_ERR_UNSUPPORTED;
        }
    }
    return GPUCOLL_OK;
}

static void unmap_pieces(const struct gpucoll_cuda_driver *cuda, const struct gpucoll_memory_handle *handle,
                         CUdeviceptr at, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        (void)cuda->cuMemUnmap(at, handle->pieces[i].bytes);
        at += handle->pieces[i].bytes;
    }
}

/* The mapping keeps the memory: neither the descriptor nor the handle stays. */
static CUresult map_piece(const struct gpucoll_cuda_driver *cuda, CUdeviceptr at, size_t bytes, int fd)
{
    CUmemGenericAllocationHandle memory;
    CUresult result = cuda->cuMemImportFromShareableHandle(&memory, (void *)(intptr_t)fd, by_descriptor);
    if (result == CUDA_SUCCESS) {
        result = cuda->cuMemMap(at, bytes, 0, memory, 0);
        (void)cuda->cuMemRelease(memory);
    }
    return result;
}

/* All, or none. */
static CUresult map_pieces(const struct gpucoll_cuda_driver *cuda, const struct gpucoll_memory_handle *handle,
                           const int *fds, CUdeviceptr begin, int ordinal)
{
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr at = begin;
    CUresult result = CUDA_SUCCESS;
    uint32_t count = 0;
    while (count < handle->piece_count && result == CUDA_SUCCESS) {
        const size_t bytes = (size_t)handle->pieces[count].bytes;
        result = map_piece(cuda, at, bytes, fds[count]);
        count += result == CUDA_SUCCESS;
        at += bytes;
    }
    if (result == CUDA_SUCCESS) {
        result = cuda->cuMemSetAccess(begin, (size_t)handle->bytes, &access, 1);
    }
    if (result != CUDA_SUCCESS) {
        unmap_pieces(cuda, handle, begin, count);
    }
    return result;
}

static void show(struct gpucoll_accel *accel, const struct gpucoll_memory_handle *handle, CUresult result)
{
    char text[256];
    char reason[300];
    gpucoll_cuda_describe(gpucoll_cuda_accel(accel)->cuda, result, text, sizeof(text));
    snprintf(reason, sizeof(reason), "the driver does not map it here: %s", text);
    gpucoll_pieces_show(accel, handle, reason);
}

/* In a process's own memory, too: what the application may do with that memory on which GPU is not changed. */
gpucoll_status gpucoll_cuda_import_pieces(struct gpucoll_device *device,
                                          const struct gpucoll_memory_handle *handle, void **pointer)
{
    const struct gpucoll_cuda_driver *cuda = gpucoll_cuda_accel(device->accel)->cuda;
    int fds[GPUCOLL_HANDLE_PIECES_MAX];
    CUdeviceptr begin = 0;
    if (!has_pieces(cuda)) {
        return GPUCOLL_ERR_UNSUPPORTED;
    }
    if (!gpucoll_pieces_take(device->accel, handle, fds)) {
        return GPUCOLL_ERR_SYSTEM;
    }
    CUresult result = cuda->cuMemAddressReserve(&begin, (size_t)handle->bytes, 0, 0, 0);
    if (result == CUDA_SUCCESS) {
        result = map_pieces(cuda, handle, fds, begin, device->ordinal);
        if (result != CUDA_SUCCESS) {
            (void)cuda->cuMemAddressFree(begin, (size_t)handle->bytes);
        }
    }
    gpucoll_pieces_drop(fds, handle->piece_count);
    if (result != CUDA_SUCCESS) {
        show(device->accel, handle, result);
        return GPUCOLL_ERR_DEVICE;
    }
    *pointer = (void *)(uintptr_t)begin;
    return GPUCOLL_OK;
}

void gpucoll_cuda_release_pieces(struct gpucoll_device *device, const struct gpucoll_memory_handle *handle,
                                 void *pointer)
{
    const struct gpucoll_cuda_driver *cuda = gpucoll_cuda_accel(device->accel)->cuda;
    const CUdeviceptr begin = (CUdeviceptr)(uintptr_t)pointer;
    unmap_pieces(cuda, handle, begin, handle->piece_count);
    (void)cuda->cuMemAddressFree(begin, (size_t)handle->bytes);
}
