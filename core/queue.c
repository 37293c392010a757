#include "core/queue.h"

#include <string.h>
#include "core/base/clock.h"
#include "core/base/sizes.h"
#include "core/exchange.h"
#include "core/progress_thread.h"
#include "core/request.h"
#include "core/team.h"

void gpucoll_queue_open(struct gpucoll_queue *queue, struct gpucoll_context *context,
                        struct gpucoll_team *team)
{
    memset(queue, 0, sizeof *queue);
    queue->context = context;
    queue->team = team;
    queue->end = &queue->first;
    pthread_mutex_init(&queue->lock, NULL);
}

/* The last that is done to a task: it is its owner's again. */
static void end_task(struct gpucoll_queue *queue, struct gpucoll_task **link, gpucoll_status status)
{
    struct gpucoll_task *task = *link;
    *link = task->next;
    if (task->next == NULL) {
        queue->end = link;
    }
    __atomic_store_n(&queue->pending, queue->pending - 1, __ATOMIC_RELEASE);
    __atomic_store_n(&task->status, status, __ATOMIC_RELEASE);
}

/* A call that waits for its place in the ring of posts keeps all later ones waiting, too: they need no look. */
static bool move_on(struct gpucoll_queue *queue)
{
    bool changed = false;
    struct gpucoll_task **link = &queue->first;
    while (*link != NULL) {
        struct gpucoll_task *task = *link;
        struct gpucoll_request *request = task->request;
        enum gpucoll_request_state before = request->state;
        const uint32_t moves = request->moves;
        gpucoll_status status = gpucoll_test(request);
        if (status != GPUCOLL_IN_PROGRESS) {
            task->reason = gpucoll_declined_reason(queue->team);
            end_task(queue, link, status);
            changed = true;
            continue;
        }
        changed |= request->state != before || request->moves != moves;
        if (request->state >= GPUCOLL_RUNNING && before < GPUCOLL_RUNNING) {
            __atomic_store_n(&task->runs, true, __ATOMIC_RELEASE);
        }
        if (request->state == GPUCOLL_QUEUED) {
            break;
        }
        link = &task->next;
    }
    return changed;
}

/* How long to wait in the call for the others: of a long call a little of its time, a twentieth of that in which its bytes leave a GPU. */
static uint64_t patience_of(const struct gpucoll_request *request)
{
    static const uint64_t least_ns = 10000, most_ns = 100000, bytes_a_ns = 300;
    const uint64_t blocks = gpucoll_is_exchange(request->coll) ? request->team->size : 1;
    return gpucoll_smaller(least_ns + request->bytes / (20 * bytes_a_ns) * blocks, most_ns);
}

/* Ranks that call together find each other at once: then the GPU is at work when the call returns. A kernel that comes behind one of the application's
 * may have to wait for its end. */
static void meet(struct gpucoll_queue *queue, const struct gpucoll_task *task)
{
    const uint64_t patience_ns = patience_of(task->request);
    const uint64_t begin = gpucoll_now_ns();
    do {
        move_on(queue);
    } while (gpucoll_task_status(task) == GPUCOLL_IN_PROGRESS && !gpucoll_task_runs(task) &&
             task->request->state > GPUCOLL_QUEUED && gpucoll_now_ns() - begin < patience_ns);
}

gpucoll_status gpucoll_queue_post(struct gpucoll_queue *queue, const struct gpucoll_coll_args *args,
                                  struct gpucoll_task *task)
{
    *task = (struct gpucoll_task){.status = GPUCOLL_IN_PROGRESS};
    pthread_mutex_lock(&queue->lock);
    gpucoll_status status = gpucoll_post(queue->team, args, &task->request);
    if (status == GPUCOLL_OK) {
        *queue->end = task;
        queue->end = &task->next;
        __atomic_store_n(&queue->pending, queue->pending + 1, __ATOMIC_SEQ_CST);
        meet(queue, task);
    } else {
        task->status = status;
    }
    /* A warm-up has time: it moves when the application looks, and needs no thread. */
    bool left = queue->first != NULL && !gpucoll_coll_is_own(args->coll);
    pthread_mutex_unlock(&queue->lock);
    if (left) {
        gpucoll_progress_thread_expect(queue);
    }
    return status;
}

void gpucoll_queue_forsake(struct gpucoll_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    gpucoll_forsake(queue->team);
    pthread_mutex_unlock(&queue->lock);
}

void gpucoll_queue_progress(struct gpucoll_queue *queue)
{
    if (gpucoll_queue_is_idle(queue) || pthread_mutex_trylock(&queue->lock) != 0) {
        return;
    }
    __atomic_store_n(&queue->looks, queue->looks + 1, __ATOMIC_RELAXED);
    move_on(queue);
    pthread_mutex_unlock(&queue->lock);
}

bool gpucoll_queue_turn(struct gpucoll_queue *queue)
{
    if (gpucoll_queue_is_idle(queue) || pthread_mutex_trylock(&queue->lock) != 0) {
        return false;
    }
    bool changed = false;
    if (queue->seen_looks != queue->looks) {
        queue->seen_looks = queue->looks;
    } else {
        changed = move_on(queue);
    }
    pthread_mutex_unlock(&queue->lock);
    return changed;
}

bool gpucoll_queue_refuse(struct gpucoll_queue *queue, struct gpucoll_task *task)
{
    pthread_mutex_lock(&queue->lock);
    const bool refused = gpucoll_task_status(task) != GPUCOLL_IN_PROGRESS || gpucoll_refuse(task->request);
    pthread_mutex_unlock(&queue->lock);
    return refused;
}

void gpucoll_queue_cancel(struct gpucoll_queue *queue, struct gpucoll_task *task)
{
    pthread_mutex_lock(&queue->lock);
    struct gpucoll_task **link = &queue->first;
    while (*link != NULL && *link != task) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        gpucoll_cancel(task->request);
        end_task(queue, link, GPUCOLL_ERR_TIMEOUT);
    }
    pthread_mutex_unlock(&queue->lock);
}

void gpucoll_queue_barrier_start(struct gpucoll_queue *queue)
{
    if (queue->team->cluster == NULL) {
        gpucoll_barrier_start(queue->team);
        return;
    }
    pthread_mutex_lock(&queue->lock);
    gpucoll_barrier_start(queue->team);
    pthread_mutex_unlock(&queue->lock);
}

gpucoll_status gpucoll_queue_barrier_test(struct gpucoll_queue *queue)
{
    if (queue->team->cluster == NULL && !gpucoll_barrier_is_watched(queue->team)) {
        return gpucoll_barrier_test(queue->team);
    }
    pthread_mutex_lock(&queue->lock);
    gpucoll_status status = gpucoll_barrier_test(queue->team);
    if (status == GPUCOLL_IN_PROGRESS) {
        move_on(queue);
    }
    pthread_mutex_unlock(&queue->lock);
    return status;
}

void gpucoll_queue_close(struct gpucoll_queue *queue)
{
    gpucoll_progress_thread_forget(queue);
    while (queue->first != NULL) {
        gpucoll_queue_cancel(queue, queue->first);
    }
    pthread_mutex_destroy(&queue->lock);
}
