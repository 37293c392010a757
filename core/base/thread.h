/*
 * Threads of gpucoll's own in the application's process.
 */
#ifndef GPUCOLL_BASE_THREAD_H
#define GPUCOLL_BASE_THREAD_H

#include <pthread.h>

/* Starts a thread with all signals blocked: they are the application's threads' to handle. 0, or an error number. */
int gpucoll_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

#endif
