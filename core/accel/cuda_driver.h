/*
 * The functions of the CUDA driver that gpucoll calls, found at run time: nothing is linked, so one build serves machines
 * with and without a GPU, and an application's own choice of driver library is never overruled.
 *
 * A field has the name that cuda.h gives the function, its version suffix included where cuda.h says so: write
 * `cuda->cuMemAlloc` as one would write `cuMemAlloc`.
 */
#ifndef GPUCOLL_ACCEL_CUDA_DRIVER_H
#define GPUCOLL_ACCEL_CUDA_DRIVER_H

#include <cuda.h>
#include "core/base/log.h"
#include "core/base/status.h"

#define GPUCOLL_CUDA_FUNCTIONS(F)                                                                            \
    F(cuInit)                                                                                                \
    F(cuCtxGetCurrent)                                                                                       \
    F(cuCtxPushCurrent)                                                                                      \
    F(cuCtxPopCurrent)                                                                                       \
    F(cuCtxGetDevice)                                                                                        \
    F(cuCtxSynchronize)                                                                                      \
    F(cuCtxEnablePeerAccess)                                                                                 \
    F(cuCtxGetStreamPriorityRange)                                                                           \
    F(cuDeviceGet)                                                                                           \
    F(cuDeviceGetAttribute)                                                                                  \
    F(cuDeviceGetCount)                                                                                      \
    F(cuDeviceGetName)                                                                                       \
    F(cuDeviceCanAccessPeer)                                                                                 \
    F(cuDeviceGetP2PAttribute)                                                                               \
    F(cuDevicePrimaryCtxGetState)                                                                            \
    F(cuDevicePrimaryCtxRetain)                                                                              \
    F(cuDevicePrimaryCtxRelease)                                                                             \
    F(cuEventCreate)                                                                                         \
    F(cuEventDestroy)                                                                                        \
    F(cuEventQuery)                                                                                          \
    F(cuEventRecord)                                                                                         \
    F(cuEventSynchronize)                                                                                    \
    F(cuFuncGetAttribute)                                                                                    \
    F(cuFuncSetAttribute)                                                                                    \
    F(cuGetErrorName)                                                                                        \
    F(cuGetErrorString)                                                                                      \
    F(cuIpcGetMemHandle)                                                                                     \
    F(cuIpcOpenMemHandle)                                                                                    \
    F(cuIpcCloseMemHandle)                                                                                   \
    F(cuLaunchKernel)                                                                                        \
    F(cuMemAlloc)                                                                                            \
    F(cuMemGetAddressRange)                                                                                  \
    F(cuMemFree)                                                                                             \
    F(cuMemcpy2DAsync)                                                                                       \
    F(cuMemcpyAsync)                                                                                         \
    F(cuMemsetD8Async)                                                                                       \
    F(cuMemHostRegister)                                                                                     \
    F(cuMemHostUnregister)                                                                                   \
    F(cuMemHostGetDevicePointer)                                                                             \
    F(cuModuleLoadData)                                                                                      \
    F(cuModuleUnload)                                                                                        \
    F(cuModuleGetFunction)                                                                                   \
    F(cuOccupancyMaxActiveBlocksPerMultiprocessor)                                                           \
    F(cuPointerGetAttribute)                                                                                 \
    F(cuPointerGetAttributes)                                                                                \
    F(cuStreamCreateWithPriority)                                                                            \
    F(cuStreamDestroy)                                                                                       \
    F(cuStreamQuery)                                                                                         \
    F(cuStreamSynchronize)                                                                                   \
    F(cuThreadExchangeStreamCaptureMode)

/* NULL in drivers that are older than the function, and so are those with names of our own below. */
#define GPUCOLL_CUDA_OPTIONAL(F)                                                                             \
    F(cuMemAddressFree)                                                                                      \
    F(cuMemAddressReserve)                                                                                   \
    F(cuMemExportToShareableHandle)                                                                          \
    F(cuMemGetAllocationPropertiesFromHandle)                                                                \
    F(cuMemImportFromShareableHandle)                                                                        \
    F(cuMemMap)                                                                                              \
    F(cuMemRelease)                                                                                          \
    F(cuMemRetainAllocationHandle)                                                                           \
    F(cuMemSetAccess)                                                                                        \
    F(cuMemUnmap)

/* cuda.h's CUmemcpyAttributes, which those before CUDA 12.8 lack. */
struct gpucoll_copy_attributes {
    int order;
    struct {
        int kind;
        int number;
    } from, to; /* hints; 0: none */
    unsigned flags;
};
/* Of `order`: the source is read when all that the stream has had before is done. */
enum { GPUCOLL_AFTER_STREAM = 1 };

#define GPUCOLL_CUDA_FIELD(name) __typeof__(name) *name;
struct gpucoll_cuda_driver {
    GPUCOLL_CUDA_FUNCTIONS(GPUCOLL_CUDA_FIELD)
    GPUCOLL_CUDA_OPTIONAL(GPUCOLL_CUDA_FIELD)
    CUresult(CUDAAPI *uuid_of_device)(CUuuid *uuid, CUdevice device);
    CUresult(CUDAAPI *uuid_of_slice)(CUuuid *uuid, CUdevice device); /* tells MIG slices of one GPU apart */
    CUresult(CUDAAPI *context_number)(CUcontext context, unsigned long long *number); /* never used again */
    CUresult(CUDAAPI *launch_cluster)(const CUlaunchConfig *config, CUfunction function, void **parameters,
                                      void **extra);
    CUresult(CUDAAPI *load_function)(
        CUfunction function); /* loads code that the driver would load at its first launch */
    CUresult(CUDAAPI *flush_writes)(CUflushGPUDirectRDMAWritesTarget target,
                                    CUflushGPUDirectRDMAWritesScope scope);
    /* Copies without an order among each other; of CUDA 13.0 and, with one argument more, 12.8. */
    CUresult(CUDAAPI *copy_batch)(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
                                  struct gpucoll_copy_attributes *attributes, size_t *first,
                                  size_t attribute_count, CUstream stream);
    CUresult(CUDAAPI *copy_batch_12)(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
                                     struct gpucoll_copy_attributes *attributes, size_t *first,
                                     size_t attribute_count, size_t *failed, CUstream stream);
};
#undef GPUCOLL_CUDA_FIELD

/* The process's driver, loaded by the first call and never unloaded: the application may use it too. NULL if there is none,
 * said at log level SETUP, or one too old for gpucoll, which is a warning. Initialises nothing. */
const struct gpucoll_cuda_driver *gpucoll_cuda_driver(const struct gpucoll_log *log);

/* "CUDA_ERROR_X: what it means", into `text`. */
void gpucoll_cuda_describe(const struct gpucoll_cuda_driver *cuda, CUresult error, char *text, size_t bytes);

#endif
