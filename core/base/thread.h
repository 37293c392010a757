/*
 * Threads of gpucoll's own in the application's process.
 */
#ifndef GPUCOLL_BASE_THREAD_H
#define GPUCOLL_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* Starts a thread with all signals blocked: they are the application's threads' to handle. 0, or an error number. */
int gpucoll_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

/* Lets the calling thread, one of gpucoll's own, run on any core that the process's cpuset allows: a launcher that binds each process to a core
 * leaves none for others while the application's thread waits there. The number of these cores. */
int gpucoll_thread_leave_binding(void);

/* Has the calling thread been started so? For who shows messages: MPI may not be called there. */
bool gpucoll_on_own_thread(void);

#endif
