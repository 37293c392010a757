/*
 * What NVML, NVIDIA's management library, knows of GPUs that this process cannot see through CUDA. Loaded at run time.
 */
#ifndef GPUCOLL_ACCEL_NVML_H
#define GPUCOLL_ACCEL_NVML_H

#include <stdbool.h>
#include "core/accel/accel.h"

/* Do the two GPUs reach each other over NVLink? False as well where there is no NVML, or it does not know one of them. */
bool gpucoll_nvml_has_nvlink(const struct gpucoll_device_id *a, const struct gpucoll_device_id *b);

#endif
