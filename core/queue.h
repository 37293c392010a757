/*
 * Nonblocking calls of a team: tasks in a queue. A task is a call that nobody waits in. It is moved on by whoever looks at
 * the queue: the progress thread (core/progress_thread.h), or a thread of the application that is in MPI anyway.
 *
 * The queue's lock serialises all use of its team while tasks are in it, but for barriers of one host, which have a line on the board to
 * themselves. With no task in it nobody but the caller touches the team, so a blocking call needs no lock then (gpucoll_queue_is_idle).
 */
#ifndef GPUCOLL_QUEUE_H
#define GPUCOLL_QUEUE_H

#include <pthread.h>
#include "core/gpucoll.h"

/* The caller's memory, until the task has ended. */
struct gpucoll_task {
    struct gpucoll_request *request;
    struct gpucoll_task *next;
    enum gpucoll_reason reason; /* of a declined one */
    int status;                 /* GPUCOLL_IN_PROGRESS until the task has ended: stored last, with release */
    bool runs;                  /* all ranks run it natively: it will not be declined */
};

struct gpucoll_queue {
    struct gpucoll_context *context;
    struct gpucoll_team *team;
    pthread_mutex_t lock;
    struct gpucoll_task *first;
    struct gpucoll_task **end;
    uint32_t pending; /* tasks in it; sequentially consistent with the progress thread's `sleeps` */
    uint32_t
        looks; /* of the application; the progress thread leaves alone what the application looks after */
    uint32_t seen_looks;
    bool attached; /* to the progress thread */
    struct gpucoll_queue *next;
};

void gpucoll_queue_open(struct gpucoll_queue *queue, struct gpucoll_context *context,
                        struct gpucoll_team *team);
/* Gives up the tasks in it, which then have ended with GPUCOLL_ERR_TIMEOUT. The team can be destroyed. */
void gpucoll_queue_close(struct gpucoll_queue *queue);

/* Posts a call. An error that gpucoll_post returns is the task's status, too. */
gpucoll_status gpucoll_queue_post(struct gpucoll_queue *queue, const struct gpucoll_coll_args *args,
                                  struct gpucoll_task *task) GPUCOLL_CHECKED;

/* As gpucoll_forsake, beside tasks that other threads move on. */
void gpucoll_queue_forsake(struct gpucoll_queue *queue);

/* Moves all tasks on, unless another thread is at it; to be called by threads of the application. */
void gpucoll_queue_progress(struct gpucoll_queue *queue);
/* The same for the progress thread; true if something has changed. */
bool gpucoll_queue_turn(struct gpucoll_queue *queue);

/* As gpucoll_refuse, of a rehearsal; true of one that has ended, too. */
bool gpucoll_queue_refuse(struct gpucoll_queue *queue, struct gpucoll_task *task);

/* Ends the task with GPUCOLL_ERR_TIMEOUT if it has not ended; the team is then as after gpucoll_cancel. */
void gpucoll_queue_cancel(struct gpucoll_queue *queue, struct gpucoll_task *task);

/* As gpucoll_barrier_start and gpucoll_barrier_test, beside tasks that other threads move on: of several hosts both use the team's network.
 * Whoever waits in the barrier moves the tasks on, too, as it keeps the others from it. */
void gpucoll_queue_barrier_start(struct gpucoll_queue *queue);
gpucoll_status gpucoll_queue_barrier_test(struct gpucoll_queue *queue) GPUCOLL_CHECKED;

static inline gpucoll_status gpucoll_task_status(const struct gpucoll_task *task)
{
    return (gpucoll_status)__atomic_load_n(&task->status, __ATOMIC_ACQUIRE);
}

/* Never true of a task that is declined: another thread may end a task at any moment, so that it has been decided would tell nothing. */
static inline bool gpucoll_task_runs(const struct gpucoll_task *task)
{
    return __atomic_load_n(&task->runs, __ATOMIC_ACQUIRE);
}

static inline bool gpucoll_queue_is_idle(const struct gpucoll_queue *queue)
{
    return __atomic_load_n(&queue->pending, __ATOMIC_SEQ_CST) == 0;
}

#endif
