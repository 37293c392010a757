/*
 * The threads of a process that help with sums in host memory. They belong to the process and serve all its calls. While a sum is posted
 * they look for shares of it: for some microseconds without a pause, then they let other threads run, then they sleep for a
 * moment between two looks, so that a processor that has other work is left to it. Without a sum they sleep until there is one.
 */
#ifndef GPUCOLL_CPU_REDUCE_POOL_H
#define GPUCOLL_CPU_REDUCE_POOL_H

#include "ucx_tl/cpu_reduce/cores.h"
#include "ucx_tl/cpu_reduce/sum.h"

struct gpucoll_pool;

/* With `wanted` threads, or as many as the system gives; -1 lets the pool choose, by the process's part of its cores. Where there is a
 * core for each, and it is known which, each is bound to its own. NULL if there is to be no thread. */
struct gpucoll_pool *gpucoll_pool_open(int wanted, const struct gpucoll_cores_sharers *sharers,
                                       const struct gpucoll_log *log);
void gpucoll_pool_close(struct gpucoll_pool *pool); /* harmless on NULL */

/* Lets the threads help with a sum from now on, until it is withdrawn; it must not change or go away before. Returns what to
 * withdraw it by; GPUCOLL_POOL_NONE where nobody helps. */
enum { GPUCOLL_POOL_NONE = -1 };
int gpucoll_pool_post(struct gpucoll_pool *pool, const struct gpucoll_sum *sum);
/* Returns when no thread looks at the sum any more: at most a share later. */
void gpucoll_pool_withdraw(struct gpucoll_pool *pool, int posted);

#endif
