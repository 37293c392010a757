/* Stands in for the header of Open MPI 5.0's pthreads component, which is not installed. */
#ifndef GPUCOLL_SHIM_THREADS_PTHREADS_TSD_H
#define GPUCOLL_SHIM_THREADS_PTHREADS_TSD_H

#include <pthread.h>

typedef pthread_key_t opal_tsd_key_t;

#endif
