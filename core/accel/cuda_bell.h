/*
 * Writing the bells of lingering kernels (kernels/bell_abi.h). Private to core/accel/cuda_*.c.
 */
#ifndef GPUCOLL_ACCEL_CUDA_BELL_H
#define GPUCOLL_ACCEL_CUDA_BELL_H

#include "kernels/bell_abi.h"

/* A bell that no call newer than `latest` has been rung by. */
void gpucoll_cuda_bell_begin(struct gpucoll_bell *bell, uint32_t latest);
/* Rings for a call, whose number is args->done_value. `runs`: of an exchange. */
void gpucoll_cuda_bell_ring(struct gpucoll_bell *bell, const struct gpucoll_kernel_args *args,
                            const struct gpucoll_kernel_runs *runs);
/* Tells a kernel of `nranks` ranks to leave, as the call of this number. */
void gpucoll_cuda_bell_dismiss(struct gpucoll_bell *bell, uint32_t nranks, uint32_t sequence);

#endif
