#include "core/accel/cuda_context.h"
#include <stddef.h>

/* A context that a program made by itself through the driver API is not among them: it is seen as soon as a thread calls MPI while
 * it is current. */
int gpucoll_cuda_primaries(const struct gpucoll_cuda_driver *cuda, int *ordinal)
{
    int count = 0;
    int found = 0;
    *ordinal = -1;
    if (cuda->cuDeviceGetCount(&count) != CUDA_SUCCESS) {
        return 0;
    }
    for (int i = 0; i < count; i++) {
        CUdevice device;
        unsigned flags = 0;
        int active = 0;
        if (cuda->cuDeviceGet(&device, i) == CUDA_SUCCESS &&
            cuda->cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active) {
            *ordinal = i;
            found++;
        }
    }
    return found;
}

/* A thread without a context, such as one that only moves MPI on, says nothing of which of several GPUs the application will use. */
bool gpucoll_cuda_find_used(const struct gpucoll_cuda_driver *cuda, struct gpucoll_cuda_pointer *pointer)
{
    *pointer = (struct gpucoll_cuda_pointer){.ordinal = -1};
    if (cuda->cuCtxGetCurrent(&pointer->context) != CUDA_SUCCESS) {
        pointer->context = NULL;
        return false; /* nobody has initialised the driver */
    }
    if (pointer->context == NULL) {
        return gpucoll_cuda_primaries(cuda, &pointer->ordinal) == 1;
    }
    CUdevice device;
    if (cuda->cuCtxGetDevice(&device) != CUDA_SUCCESS) {
        return false;
    }
    pointer->ordinal = (int)device;
    return true;
}

bool gpucoll_cuda_find_only(const struct gpucoll_cuda_driver *cuda, struct gpucoll_cuda_pointer *pointer)
{
    int count = 0;
    *pointer = (struct gpucoll_cuda_pointer){.ordinal = -1};
    if (cuda->cuInit(0) != CUDA_SUCCESS || cuda->cuDeviceGetCount(&count) != CUDA_SUCCESS || count != 1) {
        return false;
    }
    pointer->ordinal = 0;
    return true;
}
