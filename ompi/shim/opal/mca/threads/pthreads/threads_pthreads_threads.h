/* Stands in for the header of Open MPI 5.0's pthreads component, which is not installed. */
#ifndef GPUCOLL_SHIM_THREADS_PTHREADS_THREADS_H
#define GPUCOLL_SHIM_THREADS_PTHREADS_THREADS_H

#include <sched.h>

static inline void opal_thread_yield(void)
{
    (void)sched_yield();
}

#endif
