/*
 * What two ranks have for each other over LL128 (kernels/line_stream.cuh), on the host. Private to core/accel/host_*.c.
 */
#ifndef GPUCOLL_ACCEL_HOST_PAIR_H
#define GPUCOLL_ACCEL_HOST_PAIR_H

#include <stdbool.h>
#include "kernels/kernel_abi.h"

/* One channel of one rank. */
struct gpucoll_host_pair {
    const struct gpucoll_kernel_args *args;
    int functor;
    uint32_t channel;
    uint32_t channels;
    const void *send;
    uint64_t send_bytes;
    void *recv;
    uint64_t recv_bytes; /* of what comes, */
    const void *own;     /* reduced with as many bytes from here, in rank order; NULL: as it is */
};

/* False if a wait was given up. */
bool gpucoll_host_pair(const struct gpucoll_host_pair *pair);

#endif
