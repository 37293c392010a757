/*
 * The `host` accelerator: host memory as device memory, worker threads as kernels. For tests and for trying gpucoll out
 * where there is no GPU; never chosen by itself.
 */
#ifndef GPUCOLL_ACCEL_HOST_H
#define GPUCOLL_ACCEL_HOST_H

#include "core/accel/accel.h"

extern const struct gpucoll_accel_ops gpucoll_accel_host;

#endif
