/*
 * The `cuda` accelerator: the driver, loaded at run time.
 */
#ifndef GPUCOLL_ACCEL_CUDA_H
#define GPUCOLL_ACCEL_CUDA_H

#include "core/accel/accel.h"

extern const struct gpucoll_accel_ops gpucoll_accel_cuda;

#endif
