/*
 * Which GPU a process uses, where no pointer tells.
 */
#ifndef GPUCOLL_ACCEL_CUDA_CONTEXT_H
#define GPUCOLL_ACCEL_CUDA_CONTEXT_H

#include <stdbool.h>
#include "core/accel/cuda_driver.h"

/* What the driver knows about a pointer; all zero for memory that it does not know. */
struct gpucoll_cuda_pointer {
    CUcontext context; /* that made it; NULL for pools and for mapped (cuMemMap) memory */
    unsigned type;     /* CU_MEMORYTYPE_* */
    unsigned managed;
    int ordinal;
    unsigned long long id;
};

/* How many GPUs have a primary context in this process; `ordinal` is one of them, -1 without. Those are what the runtime API uses, and
 * all that builds on it. */
int gpucoll_cuda_primaries(const struct gpucoll_cuda_driver *cuda, int *ordinal);
/* `here` and `only` of the accelerator, for who has no pointer. The context is NULL where the primary one is meant. */
bool gpucoll_cuda_find_used(const struct gpucoll_cuda_driver *cuda, struct gpucoll_cuda_pointer *pointer);
bool gpucoll_cuda_find_only(const struct gpucoll_cuda_driver *cuda, struct gpucoll_cuda_pointer *pointer);

#endif
