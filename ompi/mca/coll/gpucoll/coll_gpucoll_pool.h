/*
 * Host memory for staging, fast to copy to and from, kept from call to call: pinning costs more than most
 * calls. Thread-safe.
 */
#ifndef COLL_GPUCOLL_POOL_H
#define COLL_GPUCOLL_POOL_H

#include <stddef.h>
#include "core/accel/accel.h"

/* 64-byte aligned; NULL if out of memory, which has been shown. */
void *gpucoll_pool_get(struct gpucoll_accel *accel, size_t bytes);
void gpucoll_pool_put(struct gpucoll_accel *accel, void *memory);
/* Frees what is kept. Memory still out is the caller's to put back first. */
void gpucoll_pool_empty(struct gpucoll_accel *accel);

#endif
