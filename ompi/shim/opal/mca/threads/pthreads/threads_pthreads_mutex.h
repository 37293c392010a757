/*
 * Stands in for the header of Open MPI 5.0's pthreads component, which is not installed. The two types are part of
 * the layout of public structures (opal_mutex_t, opal_cond_t) and must be pthread's own.
 */
#ifndef GPUCOLL_SHIM_THREADS_PTHREADS_MUTEX_H
#define GPUCOLL_SHIM_THREADS_PTHREADS_MUTEX_H

#include <pthread.h>
#include "opal/class/opal_object.h"
#include "opal/constants.h"

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;

#define OPAL_THREAD_INTERNAL_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#define OPAL_THREAD_INTERNAL_COND_INITIALIZER PTHREAD_COND_INITIALIZER

static inline int opal_thread_internal_mutex_trylock(opal_thread_internal_mutex_t *mutex)
{
    return pthread_mutex_trylock(mutex) != 0;
}

static inline void opal_thread_internal_mutex_lock(opal_thread_internal_mutex_t *mutex)
{
    (void)pthread_mutex_lock(mutex);
}

static inline void opal_thread_internal_mutex_unlock(opal_thread_internal_mutex_t *mutex)
{
    (void)pthread_mutex_unlock(mutex);
}

#endif
