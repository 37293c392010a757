/*
 * The progress thread: one a process, started at the first call that nobody waits in. It looks after the queues that have tasks
 * (core/queue.h), so that they move on while the application computes. It sleeps while there are none; while they wait for peers
 * it looks often at first, then less and less.
 *
 * It calls the engine only, but the engine's messages come from it, too: gpucoll_on_own_thread tells whoever prints them.
 */
#ifndef GPUCOLL_PROGRESS_THREAD_H
#define GPUCOLL_PROGRESS_THREAD_H

#include "core/queue.h"

/* The queue has tasks now. Starts the thread, if the configuration wants one; wakes it, if it sleeps. */
void gpucoll_progress_thread_expect(struct gpucoll_queue *queue);
/* The thread will not look at the queue any more, and does not when this returns. */
void gpucoll_progress_thread_forget(struct gpucoll_queue *queue);
/* Ends the thread. No queue may be left. */
void gpucoll_progress_thread_stop(struct gpucoll_context *context);

#endif
