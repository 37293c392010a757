/*
 * The collective kernels of kernels/kernel_abi.h on the host: same lanes, same protocols, run by a plain thread.
 * The thread runs the channels one after the other. All ranks do so in the same order, so a channel waits only for channels
 * that its peers have started or will start without waiting for a later one of this rank.
 */
#ifndef GPUCOLL_ACCEL_HOST_KERNELS_H
#define GPUCOLL_ACCEL_HOST_KERNELS_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/kernel_abi.h"
#include "kernels/layout_abi.h"

/* Runs a whole kernel in the calling thread, its completion included. `args->arrived` is not used; `runs` is, by exchanges. */
void gpucoll_host_kernel(enum gpucoll_kernel kernel, int functor, uint32_t channels,
                         const struct gpucoll_kernel_args *args, const struct gpucoll_kernel_runs *runs);

/* One channel of an exchange. False if it gave up. */
bool gpucoll_host_exchange(enum gpucoll_kernel kernel, int functor, uint32_t channel, uint32_t channels,
                           const struct gpucoll_kernel_args *args, const struct gpucoll_kernel_runs *runs);

/* The same of MOVE_LAYOUTS. */
bool gpucoll_host_laid(uint32_t channel, uint32_t channels, const struct gpucoll_kernel_args *args,
                       const struct gpucoll_kernel_runs *runs);

/* One channel of a relay. False if it gave up. */
bool gpucoll_host_relay(int functor, uint32_t channel, uint32_t channels,
                        const struct gpucoll_kernel_args *args, const struct gpucoll_kernel_runs *runs);

/* Copies `bytes` bytes from packed position `at` on from where the layout has them, of the element at `user`, to `packed`; or the other way round. */
void gpucoll_host_copy_laid(const struct gpucoll_layout_view *layout, char *user, uint64_t at, uint64_t bytes,
                            char *packed, bool to_user);

/* Packs or unpacks, completion included. */
void gpucoll_host_pack(const struct gpucoll_pack_args *args);

#endif
