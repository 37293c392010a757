/*
 * Memory of one GPU for the time of a call: packed buffers, lists of runs. Blocks are kept from call to call, since the driver
 * waits for the whole device to free one; no more than a fixed amount, and nothing that the driver refuses to a new
 * block. All that a pool holds at once is bounded by the configuration (pack_bytes). The caller serialises.
 */
#ifndef GPUCOLL_DEVICE_POOL_H
#define GPUCOLL_DEVICE_POOL_H

#include "core/accel/accel.h"

struct gpucoll_device_block;

struct gpucoll_device_pool {
    struct gpucoll_device *device;
    struct gpucoll_device_block *blocks; /* all, the one given back last in front */
    size_t total_bytes;
    size_t kept_bytes; /* of those not in use */
};

/* Memory aligned to 256 bytes, with any content; NULL if the bound or the device does not allow it. */
void *gpucoll_device_pool_get(struct gpucoll_device_pool *pool, size_t bytes);
/* Nothing may use the memory any more. Harmless on NULL. */
void gpucoll_device_pool_put(struct gpucoll_device_pool *pool, void *memory);
/* Frees everything, also what calls that were abandoned have not given back. */
void gpucoll_device_pool_close(struct gpucoll_device_pool *pool);

#endif
