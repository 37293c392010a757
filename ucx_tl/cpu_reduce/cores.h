/*
 * Which cores this process may use, by hwloc: how many, whether two processes share them, which part is its own, and a thread's place among
 * them.
 */
#ifndef GPUCOLL_CPU_REDUCE_CORES_H
#define GPUCOLL_CPU_REDUCE_CORES_H

#include <stdbool.h>
#include <stdint.h>

struct gpucoll_cores;

/* NULL where hwloc cannot tell. */
struct gpucoll_cores *gpucoll_cores_open(void);
void gpucoll_cores_close(struct gpucoll_cores *cores); /* harmless on NULL */

/* With whom this process shares its cores, as far as is known. */
struct gpucoll_cores_sharers {
    uint32_t known;     /* processes that may use the same cores, this one included, */
    uint32_t index;     /* and its place among them, in an order that all take who know them */
    uint32_t processes; /* of the job on this machine, known or not; 0: not told, */
    uint32_t rank;      /* and its number among these; not below them: not known */
};

/* What is there to share. */
struct gpucoll_cores_count {
    uint32_t own;     /* that the process may use; 1 where hwloc cannot tell */
    uint32_t machine; /* that some process of this machine, or container, may use; not less */
    uint32_t quota;   /* CPUs' time that control groups leave to all processes; 0: no bound */
};
struct gpucoll_cores_count gpucoll_cores_count(const struct gpucoll_cores *cores);

/* The process's part of its cores. */
struct gpucoll_cores_part {
    uint32_t threads; /* that may run there at once: so many cores, or fewer for the quota */
    uint32_t cores;
    int first; /* of them, among the process's cores; -1: not known which are its own */
};
struct gpucoll_cores_part gpucoll_cores_part(const struct gpucoll_cores_count *count,
                                             const struct gpucoll_cores_sharers *sharers);

/* Equal for processes that may use the same cores; never 0. */
uint64_t gpucoll_cores_name(const struct gpucoll_cores *cores);

/* Binds the calling thread to core `index` of the process's; false if that cannot be. */
bool gpucoll_cores_bind(const struct gpucoll_cores *cores, uint32_t index);

#endif
