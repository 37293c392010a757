/*
 * Which cores this process may use, by hwloc: how many, whether two processes share them, and a thread's place among them.
 */
#ifndef GPUCOLL_CPU_REDUCE_CORES_H
#define GPUCOLL_CPU_REDUCE_CORES_H

#include <stdbool.h>
#include <stdint.h>

struct gpucoll_cores;

/* NULL where hwloc cannot tell. */
struct gpucoll_cores *gpucoll_cores_open(void);
void gpucoll_cores_close(struct gpucoll_cores *cores); /* harmless on NULL */

uint32_t gpucoll_cores_count(const struct gpucoll_cores *cores); /* 1 for NULL */
/* Equal for processes that may use the same cores; never 0. */
uint64_t gpucoll_cores_name(const struct gpucoll_cores *cores);

/* Binds the calling thread to core `index` of the process's; false if that cannot be. */
bool gpucoll_cores_bind(const struct gpucoll_cores *cores, uint32_t index);

#endif
