#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_setname_np */
#endif
#include "core/progress_thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include "core/base/clock.h"
#include "core/base/thread.h"
#include "core/context.h"

/* Since the last change: looks without a pause for so long, as a launched kernel and an agreement take (docs/design-calls.md) ... */
static const uint64_t spin_ns = 20000;
/* ... then pauses of an eighth of the time passed, so that what is noticed late is late by that at most. */
static const uint64_t shortest_nap_ns = 10000;
static const uint64_t longest_nap_ns = 1000000;

struct gpucoll_progress_thread {
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below; taken before a queue's */
    pthread_cond_t work;
    struct gpucoll_queue *queues;
    bool sleeps; /* read without the lock by who brings work */
    bool stop;
};

static bool has_work(const struct gpucoll_progress_thread *self)
{
    const struct gpucoll_queue *queue = self->queues;
    while (queue != NULL && gpucoll_queue_is_idle(queue)) {
        queue = queue->next;
    }
    return queue != NULL;
}

static bool take_turns(struct gpucoll_progress_thread *self)
{
    bool changed = false;
    for (struct gpucoll_queue *queue = self->queues; queue != NULL; queue = queue->next) {
        changed |= gpucoll_queue_turn(queue);
    }
    return changed;
}

static void pause_since(uint64_t changed_ns)
{
    uint64_t passed = gpucoll_now_ns() - changed_ns;
    if (passed < spin_ns) {
        sched_yield();
        return;
    }
    uint64_t nap = passed / 8;
    nap = nap < shortest_nap_ns ? shortest_nap_ns : nap > longest_nap_ns ? longest_nap_ns : nap;
    nanosleep(&(struct timespec){.tv_nsec = (long)nap}, NULL);
}

/* The flag is stored before the queues are read, and the other way round by who brings work: one of the two sees the other. */
static void sleep_until_work(struct gpucoll_progress_thread *self)
{
    __atomic_store_n(&self->sleeps, true, __ATOMIC_SEQ_CST);
    while (!self->stop && !has_work(self)) {
        pthread_cond_wait(&self->work, &self->lock);
    }
    __atomic_store_n(&self->sleeps, false, __ATOMIC_RELAXED);
}

static void *run(void *arg)
{
    struct gpucoll_progress_thread *self = arg;
    (void)gpucoll_thread_leave_binding(); /* it sleeps most of the time */
    pthread_setname_np(pthread_self(), "gpucoll");
    prctl(PR_SET_TIMERSLACK, 1000UL); /* naps of 10 us are to be of 10 us */
    uint64_t changed_ns = gpucoll_now_ns();
    pthread_mutex_lock(&self->lock);
    while (!self->stop) {
        if (!has_work(self)) {
            sleep_until_work(self);
            changed_ns = gpucoll_now_ns();
            continue;
        }
        if (take_turns(self)) {
            changed_ns = gpucoll_now_ns();
        }
        pthread_mutex_unlock(&self->lock);
        pause_since(changed_ns);
        pthread_mutex_lock(&self->lock);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

static struct gpucoll_progress_thread *create(const struct gpucoll_log *log)
{
    struct gpucoll_progress_thread *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return NULL;
    }
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->work, NULL);
    if (gpucoll_thread_start(&self->thread, run, self) != 0) {
        gpucoll_log(log, GPUCOLL_LOG_WARN,
                    "no progress thread (the system gives no more threads): nonblocking collectives move on "
                    "when the application calls MPI");
        pthread_cond_destroy(&self->work);
        pthread_mutex_destroy(&self->lock);
        free(self);
        return NULL;
    }
    return self;
}

/* The process's thread, started now if it was not yet; NULL if there is none. */
static struct gpucoll_progress_thread *of_context(struct gpucoll_context *context)
{
    pthread_mutex_lock(&context->lock);
    if (context->progress == NULL && context->config->progress_thread && !context->progress_failed) {
        context->progress = create(context->log);
        context->progress_failed = context->progress == NULL;
    }
    struct gpucoll_progress_thread *self = context->progress;
    pthread_mutex_unlock(&context->lock);
    return self;
}

static void attach(struct gpucoll_progress_thread *self, struct gpucoll_queue *queue)
{
    pthread_mutex_lock(&self->lock);
    queue->next = self->queues;
    self->queues = queue;
    queue->attached = true;
    pthread_cond_signal(&self->work);
    pthread_mutex_unlock(&self->lock);
}

void gpucoll_progress_thread_expect(struct gpucoll_queue *queue)
{
    if (!queue->attached) {
        struct gpucoll_progress_thread *self = of_context(queue->context);
        if (self != NULL) {
            attach(self, queue);
        }
        return;
    }
    struct gpucoll_progress_thread *self = queue->context->progress;
    if (__atomic_load_n(&self->sleeps, __ATOMIC_SEQ_CST)) {
        pthread_mutex_lock(&self->lock);
        pthread_cond_signal(&self->work);
        pthread_mutex_unlock(&self->lock);
    }
}

void gpucoll_progress_thread_forget(struct gpucoll_queue *queue)
{
    struct gpucoll_progress_thread *self = queue->context->progress;
    if (!queue->attached) {
        return;
    }
    pthread_mutex_lock(&self->lock);
    struct gpucoll_queue **link = &self->queues;
    while (*link != queue) {
        link = &(*link)->next;
    }
    *link = queue->next;
    queue->attached = false;
    pthread_mutex_unlock(&self->lock);
}

void gpucoll_progress_thread_stop(struct gpucoll_context *context)
{
    struct gpucoll_progress_thread *self = context->progress;
    if (self == NULL) {
        return;
    }
    pthread_mutex_lock(&self->lock);
    self->stop = true;
    pthread_cond_signal(&self->work);
    pthread_mutex_unlock(&self->lock);
    pthread_join(self->thread, NULL);
    pthread_cond_destroy(&self->work);
    pthread_mutex_destroy(&self->lock);
    free(self);
    context->progress = NULL;
}
